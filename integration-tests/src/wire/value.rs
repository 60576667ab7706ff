//! Field tables and their values as they stand on the wire.
//! Knows the octets of AMQP 0-9-1 and nothing of connections; it shares no code with the broker's
//! own codec, so that one mistake cannot hide in both.

use super::reader::{Malformed, Reader};

/// One field value, the letter of its type beside each.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`, a signed short in RabbitMQ's reading of the table.
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`
    I64(i64),
    /// `L`, which a broker sends back as `l`.
    L64(i64),
    /// `f`
    F32(f32),
    /// `d`
    F64(f64),
    /// `D`: scale and unscaled value.
    Decimal(u8, u32),
    /// `T`, seconds.
    Timestamp(u64),
    /// `S`
    Text(Vec<u8>),
    /// `x`
    Bytes(Vec<u8>),
    /// `A`
    Array(Vec<Value>),
    /// `F`
    Table(Table),
    /// `V`
    Void,
}

/// A field table in wire order; duplicate keys stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(pub Vec<(String, Value)>);

impl Table {
    /// The first value under `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// Appends a field, whether or not the key is there already.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Table {
        self.0.push((key.to_owned(), value.into()));
        self
    }

    /// The fields without the four octets of length that precede them.
    pub fn encode_fields(&self, out: &mut Vec<u8>) {
        for (key, value) in &self.0 {
            put_short_string(out, key.as_bytes());
            value.encode(out);
        }
    }

    /// The whole table with its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = Vec::new();
        self.encode_fields(&mut fields);
        put_long_string(out, &fields);
    }

    /// Reads a whole table with its length.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Table, Malformed> {
        let mut inner = Reader::new(reader.long_string()?);
        let mut fields = Vec::new();
        while !inner.is_empty() {
            let key = String::from_utf8_lossy(inner.short_string()?).into_owned();
            fields.push((key, Value::decode(&mut inner)?));
        }
        Ok(Table(fields))
    }
}

impl Value {
    /// The text of a long string, if it is one and is UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(octets) => std::str::from_utf8(octets).ok(),
            _ => None,
        }
    }

    /// The number of any integer width.
    pub fn as_integer(&self) -> Option<i64> {
        Some(match self {
            Value::I8(n) => i64::from(*n),
            Value::U8(n) => i64::from(*n),
            Value::I16(n) => i64::from(*n),
            Value::U16(n) => i64::from(*n),
            Value::I32(n) => i64::from(*n),
            Value::U32(n) => i64::from(*n),
            Value::I64(n) | Value::L64(n) => *n,
            _ => return None,
        })
    }

    /// The elements of an array; nothing for any other type.
    pub fn elements(&self) -> &[Value] {
        match self {
            Value::Array(elements) => elements,
            _ => &[],
        }
    }

    /// The table, if it is one.
    pub fn as_table(&self) -> Option<&Table> {
        match self {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Bool(b) => out.extend([b't', u8::from(*b)]),
            Value::I8(n) => put(out, b'b', &n.to_be_bytes()),
            Value::U8(n) => put(out, b'B', &n.to_be_bytes()),
            Value::I16(n) => put(out, b's', &n.to_be_bytes()),
            Value::U16(n) => put(out, b'u', &n.to_be_bytes()),
            Value::I32(n) => put(out, b'I', &n.to_be_bytes()),
            Value::U32(n) => put(out, b'i', &n.to_be_bytes()),
            Value::I64(n) => put(out, b'l', &n.to_be_bytes()),
            Value::L64(n) => put(out, b'L', &n.to_be_bytes()),
            Value::F32(n) => put(out, b'f', &n.to_be_bytes()),
            Value::F64(n) => put(out, b'd', &n.to_be_bytes()),
            Value::Timestamp(n) => put(out, b'T', &n.to_be_bytes()),
            Value::Decimal(scale, unscaled) => {
                out.extend([b'D', *scale]);
                out.extend(unscaled.to_be_bytes());
            }
            Value::Text(octets) => {
                out.push(b'S');
                put_long_string(out, octets);
            }
            Value::Bytes(octets) => {
                out.push(b'x');
                put_long_string(out, octets);
            }
            Value::Array(elements) => {
                let mut inner = Vec::new();
                elements
                    .iter()
                    .for_each(|element| element.encode(&mut inner));
                out.push(b'A');
                put_long_string(out, &inner);
            }
            Value::Table(table) => {
                out.push(b'F');
                table.encode(out);
            }
            Value::Void => out.push(b'V'),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Value, Malformed> {
        Ok(match reader.octet()? {
            b't' => Value::Bool(reader.octet()? != 0),
            b'b' => Value::I8(i8::from_be_bytes(reader.array()?)),
            b'B' => Value::U8(reader.octet()?),
            b's' => Value::I16(i16::from_be_bytes(reader.array()?)),
            b'u' => Value::U16(u16::from_be_bytes(reader.array()?)),
            b'I' => Value::I32(i32::from_be_bytes(reader.array()?)),
            b'i' => Value::U32(u32::from_be_bytes(reader.array()?)),
            b'l' => Value::I64(i64::from_be_bytes(reader.array()?)),
            b'L' => Value::L64(i64::from_be_bytes(reader.array()?)),
            b'f' => Value::F32(f32::from_be_bytes(reader.array()?)),
            b'd' => Value::F64(f64::from_be_bytes(reader.array()?)),
            b'T' => Value::Timestamp(u64::from_be_bytes(reader.array()?)),
            b'D' => Value::Decimal(reader.octet()?, u32::from_be_bytes(reader.array()?)),
            b'S' => Value::Text(reader.long_string()?.to_vec()),
            b'x' => Value::Bytes(reader.long_string()?.to_vec()),
            b'A' => {
                let mut inner = Reader::new(reader.long_string()?);
                let mut elements = Vec::new();
                while !inner.is_empty() {
                    elements.push(Value::decode(&mut inner)?);
                }
                Value::Array(elements)
            }
            b'F' => Value::Table(Table::decode(reader)?),
            b'V' => Value::Void,
            other => {
                return Err(Malformed(format!(
                    "field type {:?} is unknown",
                    char::from(other)
                )));
            }
        })
    }
}

fn put(out: &mut Vec<u8>, kind: u8, octets: &[u8]) {
    out.push(kind);
    out.extend(octets);
}

/// A short string; longer than 255 octets is a mistake of the test.
pub fn put_short_string(out: &mut Vec<u8>, octets: &[u8]) {
    let length = u8::try_from(octets.len()).expect("A short string has at most 255 octets.");
    out.push(length);
    out.extend(octets);
}

/// A long string.
pub fn put_long_string(out: &mut Vec<u8>, octets: &[u8]) {
    let length = u32::try_from(octets.len()).expect("A test sends less than 4 GiB.");
    out.extend(length.to_be_bytes());
    out.extend(octets);
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text.into_bytes())
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::Bool(b)
    }
}

impl From<i32> for Value {
    fn from(n: i32) -> Value {
        Value::I32(n)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Value {
        Value::I64(n)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Value {
        Value::F64(n)
    }
}

impl From<Table> for Value {
    fn from(table: Table) -> Value {
        Value::Table(table)
    }
}

impl From<Vec<Value>> for Value {
    fn from(elements: Vec<Value>) -> Value {
        Value::Array(elements)
    }
}
