//! Reading and appending the protocol's elementary data: integers in network order, short and
//! long strings.
//!
//! Knows nothing of what the bytes mean. Every read is bounded by the bytes that are there; a
//! failed read answers `None` and leaves the naming of the fault to the caller.

/// A cursor over bytes that are already there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (head, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*head)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// One length octet and as many bytes.
    #[inline]
    pub(crate) fn short_string(&mut self) -> Option<&'a [u8]> {
        let len = self.u8()?;
        self.take(usize::from(len))
    }

    /// Four length octets and as many bytes. Tables and arrays are framed alike.
    #[inline]
    pub(crate) fn long_string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
    }
}

/// Appends a short string. Bytes beyond 255 cannot be said on the wire and are left out; the
/// types that callers hold ([`crate::ShortString`], names checked on the way in) are shorter.
#[inline]
pub(crate) fn put_short_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    out.push(len);
    out.extend_from_slice(bytes.get(..usize::from(len)).unwrap_or(bytes));
}

/// Appends a long string. Bytes beyond 4 GiB − 1 are left out.
#[inline]
pub(crate) fn put_long_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_be_bytes());
    let kept = usize::try_from(len).unwrap_or(usize::MAX);
    out.extend_from_slice(bytes.get(..kept).unwrap_or(bytes));
}

/// Appends what `write` appends, preceded by its length in four octets.
pub(crate) fn put_length_prefixed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let len = out.len().saturating_sub(at).saturating_sub(4);
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    if let Some(prefix) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *prefix = len.to_be_bytes();
    }
}
