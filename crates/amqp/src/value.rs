//! Field values and field tables: what clients write into arguments and headers.
//!
//! A table keeps the order, the types and the duplicate keys it came with, because a message's
//! headers are handed on. Knows nothing of what any key means. How values look as bytes is
//! `table_codec`'s knowledge.

use serde::{Deserialize, Serialize};

use crate::octets::{ByteString, ShortString};

/// One value of a table or an array. The letters are those of the wire.
///
/// Equality is that of the wire: floats are compared bit by bit, so the type is `Eq`.
/// There is no unsigned 64-bit variant: RabbitMQ reads `L` as a signed number and says `l`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Value {
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`, and what is read from `L`
    I64(i64),
    /// `f`
    F32(#[serde(with = "float_text::single")] f32),
    /// `d`
    F64(#[serde(with = "float_text::double")] f64),
    /// `D`: `value / 10^scale`
    Decimal {
        /// Digits after the decimal point.
        scale: u8,
        /// The digits.
        value: u32,
    },
    /// `T`: seconds since 1970
    Timestamp(u64),
    /// `S`
    LongString(ByteString),
    /// `x`
    ByteArray(ByteString),
    /// `A`
    Array(Vec<Value>),
    /// `F`
    Table(Table),
    /// `V`
    Void,
}

impl Value {
    /// The number, if this is an integer of any width.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::I8(n) => Some(n.into()),
            Self::U8(n) => Some(n.into()),
            Self::I16(n) => Some(n.into()),
            Self::U16(n) => Some(n.into()),
            Self::I32(n) => Some(n.into()),
            Self::U32(n) => Some(n.into()),
            Self::I64(n) => Some(n),
            _ => None,
        }
    }

    /// The text of a long string that is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::LongString(text) => text.as_str(),
            _ => None,
        }
    }

    /// The bytes of a long string or a byte array.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::LongString(bytes) | Self::ByteArray(bytes) => Some(bytes.as_bytes()),
            _ => None,
        }
    }

    /// The truth value.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    /// The nested table.
    #[must_use]
    pub fn as_table(&self) -> Option<&Table> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The elements of an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// RabbitMQ's word for the type, as its error texts say it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::I8(_) => "byte",
            Self::U8(_) => "unsignedbyte",
            Self::I16(_) => "short",
            Self::U16(_) => "unsignedshort",
            Self::I32(_) => "signedint",
            Self::U32(_) => "unsignedint",
            Self::I64(_) => "long",
            Self::F32(_) => "float",
            Self::F64(_) => "double",
            Self::Decimal { .. } => "decimal",
            Self::Timestamp(_) => "timestamp",
            Self::LongString(_) => "longstr",
            Self::ByteArray(_) => "binary",
            Self::Array(_) => "array",
            Self::Table(_) => "table",
            Self::Void => "void",
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::I8(a), Self::I8(b)) => a == b,
            (Self::U8(a), Self::U8(b)) => a == b,
            (Self::I16(a), Self::I16(b)) => a == b,
            (Self::U16(a), Self::U16(b)) => a == b,
            (Self::I32(a), Self::I32(b)) => a == b,
            (Self::U32(a), Self::U32(b)) => a == b,
            (Self::I64(a), Self::I64(b)) => a == b,
            (Self::F32(a), Self::F32(b)) => a.to_bits() == b.to_bits(),
            (Self::F64(a), Self::F64(b)) => a.to_bits() == b.to_bits(),
            (Self::Decimal { scale: a, value: x }, Self::Decimal { scale: b, value: y }) => {
                a == b && x == y
            }
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::LongString(a), Self::LongString(b)) => a == b,
            (Self::ByteArray(a), Self::ByteArray(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Table(a), Self::Table(b)) => a == b,
            (Self::Void, Self::Void) => true,
            _ => false,
        }
    }
}

impl Eq for Value {}

macro_rules! value_from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

value_from! {
    bool => Bool, i8 => I8, u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32, i64 => I64,
    f32 => F32, f64 => F64, &str => LongString, String => LongString, Vec<Value> => Array,
    Table => Table,
}

/// Keys and values in the order they came, duplicates included.
///
/// Searching is linear: tables of the protocol are a handful of entries, and their size is
/// bounded by the frame they arrive in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table(Vec<(ShortString, Value)>);

impl Table {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value of the first entry with this key.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&Value> {
        let key = key.as_ref();
        self.0
            .iter()
            .find(|(name, _)| name.as_bytes() == key)
            .map(|(_, value)| value)
    }

    /// Whether an entry with this key exists.
    #[must_use]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.get(key).is_some()
    }

    /// Replaces the value of the first entry with this key and answers the old one, or appends
    /// an entry.
    pub fn insert(
        &mut self,
        key: impl Into<ShortString>,
        value: impl Into<Value>,
    ) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, current)) => Some(std::mem::replace(current, value)),
            None => {
                self.0.push((key, value));
                None
            }
        }
    }

    /// Appends an entry even if the key exists already.
    pub fn push(&mut self, key: impl Into<ShortString>, value: impl Into<Value>) {
        self.0.push((key.into(), value.into()));
    }

    /// Removes every entry with this key; answers the first one's value.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Option<Value> {
        let key = key.as_ref();
        let at = self.0.iter().position(|(name, _)| name.as_bytes() == key)?;
        let (_, first) = self.0.remove(at);
        self.0.retain(|(name, _)| name.as_bytes() != key);
        Some(first)
    }

    /// Sorts bytewise by key and keeps the first of duplicate keys, at this level only.
    // rabbitmq: headers of a delivered message
    pub fn sort(&mut self) {
        self.0.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.0.dedup_by(|(later, _), (earlier, _)| later == earlier);
    }

    /// The entries in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (ShortString, Value)> {
        self.0.iter()
    }

    /// The number of entries, duplicates included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Entries in the order given; duplicate keys are kept.
impl<K: Into<ShortString>, V: Into<Value>> FromIterator<(K, V)> for Table {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }
}

impl<K: Into<ShortString>, V: Into<Value>> Extend<(K, V)> for Table {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.0.extend(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value.into())),
        );
    }
}

impl IntoIterator for Table {
    type Item = (ShortString, Value);
    type IntoIter = std::vec::IntoIter<(ShortString, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Table {
    type Item = &'a (ShortString, Value);
    type IntoIter = std::slice::Iter<'a, (ShortString, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Floats as text: JSON has no NaN and no infinity, and its readers may round the last bit.
mod float_text {
    macro_rules! float_text {
        ($name:ident, $float:ty, $bits:ty) => {
            pub(crate) mod $name {
                use serde::{Deserialize, Deserializer, Serializer, de::Error};

                pub(crate) fn serialize<S: Serializer>(
                    number: &$float,
                    serializer: S,
                ) -> Result<S::Ok, S::Error> {
                    if number.is_finite() {
                        // The shortest text that reads back as the same bits.
                        return serializer.collect_str(number);
                    }
                    serializer.collect_str(&format_args!("{:#x}", number.to_bits()))
                }

                pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                    deserializer: D,
                ) -> Result<$float, D::Error> {
                    let text = String::deserialize(deserializer)?;
                    if let Some(hex) = text.strip_prefix("0x") {
                        let bits = <$bits>::from_str_radix(hex, 16).map_err(D::Error::custom)?;
                        return Ok(<$float>::from_bits(bits));
                    }
                    text.parse().map_err(D::Error::custom)
                }
            }
        };
    }

    float_text!(single, f32, u32);
    float_text!(double, f64, u64);
}
