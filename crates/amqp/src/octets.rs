//! Owned strings of the wire: short (at most 255 bytes) and long ones.
//!
//! Neither has to be UTF-8: the protocol says octets, and clients take it at its word. Serde
//! writes text where the bytes are text and a list of numbers where they are not, so a round
//! trip through JSON gives the same bytes.

use std::borrow::Borrow;
use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most bytes a short string can hold: its length is one octet.
pub const SHORT_STRING_BYTES_MAX: usize = 255;

/// How many bytes a list may reserve before its elements are seen.
const RESERVED_BYTES_MAX: usize = 4096;

/// A short string was asked for from more than [`SHORT_STRING_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes do not fit a short string")]
pub struct ShortStringTooLong {
    /// The length that was asked for.
    pub bytes: usize,
}

/// At most 255 bytes, e.g. a key of a table.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortString(Box<[u8]>);

impl ShortString {
    /// Checks the length.
    ///
    /// # Errors
    /// More than [`SHORT_STRING_BYTES_MAX`] bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, ShortStringTooLong> {
        let bytes = bytes.as_ref();
        if bytes.len() > SHORT_STRING_BYTES_MAX {
            return Err(ShortStringTooLong { bytes: bytes.len() });
        }
        Ok(Self(bytes.into()))
    }

    /// The bytes of a string that came with its one-octet length.
    pub(crate) fn from_wire(bytes: &[u8]) -> Self {
        debug_assert!(bytes.len() <= SHORT_STRING_BYTES_MAX);
        Self(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if the bytes are UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

/// Any number of bytes that may or may not be text.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteString(Box<[u8]>);

impl ByteString {
    /// Takes the bytes as they are.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if the bytes are UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

/// Cuts to 255 bytes at a character's boundary. Use [`ShortString::new`] where a longer text is
/// somebody's mistake.
impl From<&str> for ShortString {
    fn from(text: &str) -> Self {
        let end = text.floor_char_boundary(SHORT_STRING_BYTES_MAX);
        Self(text.get(..end).unwrap_or_default().as_bytes().into())
    }
}

/// Cuts as `From<&str>` does.
impl From<String> for ShortString {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for ByteString {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl From<&[u8]> for ByteString {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for ByteString {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl Borrow<[u8]> for ShortString {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

macro_rules! bytes_like {
    ($name:ident, $expecting:literal, $from_bytes:expr) => {
        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        /// Text in quotation marks, with octets that are not text escaped.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        /// Octets that are not UTF-8 appear as the replacement character.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&String::from_utf8_lossy(&self.0))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.as_str() {
                    _ if !serializer.is_human_readable() => serializer.serialize_bytes(&self.0),
                    Some(text) => serializer.serialize_str(text),
                    None => serializer.collect_seq(self.0.iter()),
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let bytes = if deserializer.is_human_readable() {
                    deserializer.deserialize_any(Octets($expecting))?
                } else {
                    deserializer.deserialize_byte_buf(Octets($expecting))?
                };
                let from_bytes: fn(Vec<u8>) -> Result<$name, ShortStringTooLong> = $from_bytes;
                from_bytes(bytes).map_err(de::Error::custom)
            }
        }
    };
}

bytes_like!(
    ShortString,
    "at most 255 bytes, as text or numbers",
    |bytes| ShortString::new(bytes)
);
bytes_like!(ByteString, "bytes, as text or numbers", |bytes| Ok(
    ByteString::new(bytes)
));

/// Reads text or a list of numbers into bytes.
struct Octets(&'static str);

impl<'de> Visitor<'de> for Octets {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
        Ok(text.as_bytes().to_vec())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Vec<u8>, E> {
        Ok(text.into_bytes())
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::with_capacity(list.size_hint().unwrap_or(0).min(RESERVED_BYTES_MAX));
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}
