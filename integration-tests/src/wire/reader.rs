//! Reads primitive values out of octets that came from a broker.
//! Knows lengths and byte order only.

use std::fmt;

/// The broker sent octets that do not parse; the text says what was wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the broker sent malformed octets: {}", self.0)
    }
}

/// A cursor over received octets.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first of `octets`.
    pub fn new(octets: &'a [u8]) -> Reader<'a> {
        Reader { rest: octets }
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `length` octets.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| {
            Malformed(format!(
                "{length} octets announced, {} there",
                self.rest.len()
            ))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` octets as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        Ok(taken
            .try_into()
            .expect("`take` gives the length that was asked for."))
    }

    /// One octet.
    pub fn octet(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// A 16-bit number.
    pub fn short(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// A 32-bit number.
    pub fn long(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A 64-bit number.
    pub fn long_long(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// The octets of a short string.
    pub fn short_string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.octet()?;
        self.take(usize::from(length))
    }

    /// The octets of a long string.
    pub fn long_string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.long()?;
        self.take(length as usize)
    }
}
