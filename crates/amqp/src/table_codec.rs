//! Field tables as bytes.
//!
//! The letters are RabbitMQ's, which differ from the text of the standard: `s` is a signed 16-bit
//! number, there is no short string, and `L` is read as a signed number. Nothing is reserved on
//! the word of a length: every announced length must be backed by bytes, so what a decoded table
//! occupies is bounded by a small multiple of the bytes it came in.

use crate::octets::{ByteString, ShortString};
use crate::value::{Table, Value};
use crate::wire::{Reader, put_length_prefixed, put_long_string, put_short_string};

/// How deep tables and arrays may be nested, the outermost table being level 1.
///
/// A table costs three levels of JSON and JSON readers stop at 128, so what was accepted can
/// always be read back from stored metadata.
pub const TABLE_DEPTH_MAX: usize = 32;

/// Why bytes are not a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A length or a fixed-size value reaches beyond the bytes that are there.
    #[error("the table is cut short")]
    Truncated,
    /// Nested deeper than [`TABLE_DEPTH_MAX`].
    #[error("the table is nested deeper than {TABLE_DEPTH_MAX}")]
    TooDeep,
    /// A value's type octet that nobody has defined.
    #[error("unknown value type {type_octet}")]
    UnknownType {
        /// The octet.
        type_octet: u8,
    },
}

impl Table {
    /// Decodes the entries of a table; `block` is exactly what follows the four length octets.
    ///
    /// # Errors
    /// Any [`TableError`].
    pub fn decode(block: &[u8]) -> Result<Self, TableError> {
        decode_table(block, 1)
    }

    /// Decodes a table that begins with its four length octets; also answers how many bytes it
    /// took. What follows the table is not looked at.
    ///
    /// # Errors
    /// Any [`TableError`].
    pub fn decode_prefixed(bytes: &[u8]) -> Result<(Self, usize), TableError> {
        let mut reader = Reader::new(bytes);
        let block = reader.long_string().ok_or(TableError::Truncated)?;
        Ok((Self::decode(block)?, block.len().saturating_add(4)))
    }

    /// Checks what [`Table::decode`] would check, without allocating.
    ///
    /// # Errors
    /// Any [`TableError`].
    pub fn check(block: &[u8]) -> Result<(), TableError> {
        skip_table(block, 1)
    }

    /// Decodes the value of the first entry with this key and skips all others.
    ///
    /// # Errors
    /// Any [`TableError`] met before or in that entry.
    pub fn find(block: &[u8], key: impl AsRef<[u8]>) -> Result<Option<Value>, TableError> {
        let key = key.as_ref();
        let mut reader = Reader::new(block);
        while !reader.is_empty() {
            let name = reader.short_string().ok_or(TableError::Truncated)?;
            if name == key {
                return decode_value(&mut reader, 1).map(Some);
            }
            skip_value(&mut reader, 1)?;
        }
        Ok(None)
    }

    /// Appends the entries without a length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (key, value) in self {
            put_short_string(out, key.as_bytes());
            encode_value(value, out);
        }
    }

    /// Appends the four length octets and the entries.
    pub fn encode_prefixed(&self, out: &mut Vec<u8>) {
        put_length_prefixed(out, |out| self.encode(out));
    }
}

fn decode_table(block: &[u8], depth: usize) -> Result<Table, TableError> {
    if depth > TABLE_DEPTH_MAX {
        return Err(TableError::TooDeep);
    }
    let mut table = Table::new();
    let mut reader = Reader::new(block);
    while !reader.is_empty() {
        let key = reader.short_string().ok_or(TableError::Truncated)?;
        table.push(
            ShortString::from_wire(key),
            decode_value(&mut reader, depth)?,
        );
    }
    Ok(table)
}

fn decode_array(block: &[u8], depth: usize) -> Result<Vec<Value>, TableError> {
    if depth > TABLE_DEPTH_MAX {
        return Err(TableError::TooDeep);
    }
    let mut elements = Vec::new();
    let mut reader = Reader::new(block);
    while !reader.is_empty() {
        elements.push(decode_value(&mut reader, depth)?);
    }
    Ok(elements)
}

/// `depth` is that of the table or array which holds the value.
fn decode_value(reader: &mut Reader<'_>, depth: usize) -> Result<Value, TableError> {
    let type_octet = reader.u8().ok_or(TableError::Truncated)?;
    let value = match type_octet {
        b't' => reader.u8().map(|octet| Value::Bool(octet != 0)),
        b'b' => reader.u8().map(|n| Value::I8(n.cast_signed())),
        b'B' => reader.u8().map(Value::U8),
        b's' => reader.u16().map(|n| Value::I16(n.cast_signed())),
        b'u' => reader.u16().map(Value::U16),
        b'I' => reader.u32().map(|n| Value::I32(n.cast_signed())),
        b'i' => reader.u32().map(Value::U32),
        // rabbitmq: `L` is read as a signed number.
        b'l' | b'L' => reader.u64().map(|n| Value::I64(n.cast_signed())),
        b'f' => reader.u32().map(|bits| Value::F32(f32::from_bits(bits))),
        b'd' => reader.u64().map(|bits| Value::F64(f64::from_bits(bits))),
        b'D' => decode_decimal(reader),
        b'T' => reader.u64().map(Value::Timestamp),
        b'S' => reader
            .long_string()
            .map(|bytes| Value::LongString(ByteString::from(bytes))),
        b'x' => reader
            .long_string()
            .map(|bytes| Value::ByteArray(ByteString::from(bytes))),
        b'A' => {
            let block = reader.long_string().ok_or(TableError::Truncated)?;
            Some(Value::Array(decode_array(block, depth.saturating_add(1))?))
        }
        b'F' => {
            let block = reader.long_string().ok_or(TableError::Truncated)?;
            Some(Value::Table(decode_table(block, depth.saturating_add(1))?))
        }
        b'V' => Some(Value::Void),
        _ => return Err(TableError::UnknownType { type_octet }),
    };
    value.ok_or(TableError::Truncated)
}

fn decode_decimal(reader: &mut Reader<'_>) -> Option<Value> {
    Some(Value::Decimal {
        scale: reader.u8()?,
        value: reader.u32()?,
    })
}

fn skip_table(block: &[u8], depth: usize) -> Result<(), TableError> {
    if depth > TABLE_DEPTH_MAX {
        return Err(TableError::TooDeep);
    }
    let mut reader = Reader::new(block);
    while !reader.is_empty() {
        reader.short_string().ok_or(TableError::Truncated)?;
        skip_value(&mut reader, depth)?;
    }
    Ok(())
}

fn skip_array(block: &[u8], depth: usize) -> Result<(), TableError> {
    if depth > TABLE_DEPTH_MAX {
        return Err(TableError::TooDeep);
    }
    let mut reader = Reader::new(block);
    while !reader.is_empty() {
        skip_value(&mut reader, depth)?;
    }
    Ok(())
}

fn skip_value(reader: &mut Reader<'_>, depth: usize) -> Result<(), TableError> {
    let type_octet = reader.u8().ok_or(TableError::Truncated)?;
    let fixed_bytes = match type_octet {
        b'V' => 0,
        b't' | b'b' | b'B' => 1,
        b's' | b'u' => 2,
        b'I' | b'i' | b'f' => 4,
        b'D' => 5,
        b'l' | b'L' | b'd' | b'T' => 8,
        b'S' | b'x' | b'A' | b'F' => {
            let block = reader.long_string().ok_or(TableError::Truncated)?;
            return match type_octet {
                b'A' => skip_array(block, depth.saturating_add(1)),
                b'F' => skip_table(block, depth.saturating_add(1)),
                _ => Ok(()),
            };
        }
        _ => return Err(TableError::UnknownType { type_octet }),
    };
    reader
        .take(fixed_bytes)
        .map(drop)
        .ok_or(TableError::Truncated)
}

fn encode_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(truth) => out.extend_from_slice(&[b't', u8::from(*truth)]),
        Value::I8(n) => put_fixed(out, b'b', n.to_be_bytes()),
        Value::U8(n) => put_fixed(out, b'B', n.to_be_bytes()),
        Value::I16(n) => put_fixed(out, b's', n.to_be_bytes()),
        Value::U16(n) => put_fixed(out, b'u', n.to_be_bytes()),
        Value::I32(n) => put_fixed(out, b'I', n.to_be_bytes()),
        Value::U32(n) => put_fixed(out, b'i', n.to_be_bytes()),
        Value::I64(n) => put_fixed(out, b'l', n.to_be_bytes()),
        Value::F32(n) => put_fixed(out, b'f', n.to_bits().to_be_bytes()),
        Value::F64(n) => put_fixed(out, b'd', n.to_bits().to_be_bytes()),
        Value::Decimal { scale, value } => {
            out.extend_from_slice(&[b'D', *scale]);
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::Timestamp(seconds) => put_fixed(out, b'T', seconds.to_be_bytes()),
        Value::LongString(bytes) => {
            out.push(b'S');
            put_long_string(out, bytes.as_bytes());
        }
        Value::ByteArray(bytes) => {
            out.push(b'x');
            put_long_string(out, bytes.as_bytes());
        }
        Value::Array(elements) => {
            out.push(b'A');
            put_length_prefixed(out, |out| {
                for element in elements {
                    encode_value(element, out);
                }
            });
        }
        Value::Table(table) => {
            out.push(b'F');
            table.encode_prefixed(out);
        }
        Value::Void => out.push(b'V'),
    }
}

fn put_fixed<const N: usize>(out: &mut Vec<u8>, type_octet: u8, bytes: [u8; N]) {
    out.push(type_octet);
    out.extend_from_slice(&bytes);
}
