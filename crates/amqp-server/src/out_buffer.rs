//! Bytes on their way to a socket, in order: small things contiguous, large bodies by reference.
//!
//! Knows neither methods nor sockets; the outbox fills one while the writer empties another. As a
//! [`Buf`] it feeds vectored writes and survives partial ones.

use std::io::IoSlice;

use amqp::Splice;
use bytes::{Buf, Bytes};

/// Capacity that an emptied buffer keeps for its next turn: twice the mark at which the broker
/// stops dispatching, so that a busy consumer's buffer is never made anew.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// An ordered sequence of bytes of which large parts are shared, not copied.
#[derive(Debug, Default)]
pub(crate) struct OutBuffer {
    small: Vec<u8>,
    small_at: usize,
    /// Shared parts with the offset in `small` before which each one goes, ascending.
    large: Vec<(usize, Bytes)>,
    large_at: usize,
    large_bytes: usize,
}

impl OutBuffer {
    /// Where small things are appended.
    pub(crate) fn small(&mut self) -> &mut Vec<u8> {
        &mut self.small
    }

    /// Where the octets round a shared body are appended, and what takes its pieces. The body
    /// must lie in `owner`.
    pub(crate) fn splicing<'a>(
        &'a mut self,
        owner: &'a Bytes,
        body: &'a [u8],
    ) -> (&'a mut Vec<u8>, impl FnMut(Splice) + 'a) {
        let Self {
            small,
            large,
            large_bytes,
            ..
        } = self;
        let place = move |splice: Splice| {
            let piece = owner.slice_ref(&body[splice.body]);
            *large_bytes += piece.len();
            large.push((splice.at, piece));
        };
        (small, place)
    }

    /// Forgets everything; keeps a bounded capacity.
    pub(crate) fn clear(&mut self) {
        self.small.clear();
        self.small.shrink_to(KEPT_BYTES_MAX);
        self.small_at = 0;
        self.large.clear();
        self.large_at = 0;
        self.large_bytes = 0;
    }

    /// Gives all memory back; for connections that went quiet.
    pub(crate) fn release(&mut self) {
        *self = Self::default();
    }
}

impl Buf for OutBuffer {
    fn remaining(&self) -> usize {
        self.small.len() - self.small_at + self.large_bytes
    }

    fn chunk(&self) -> &[u8] {
        match self.large.get(self.large_at) {
            Some((before, _)) if self.small_at < *before => &self.small[self.small_at..*before],
            Some((_, bytes)) => bytes,
            None => &self.small[self.small_at..],
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        let mut at = self.small_at;
        let mut put = |slice: &'a [u8]| {
            if slice.is_empty() {
                return true;
            }
            let Some(place) = slices.get_mut(count) else {
                return false;
            };
            *place = IoSlice::new(slice);
            count += 1;
            true
        };
        for (before, bytes) in &self.large[self.large_at..] {
            if !put(&self.small[at..*before]) || !put(bytes) {
                return count;
            }
            at = *before;
        }
        put(&self.small[at..]);
        count
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            match self.large.get_mut(self.large_at) {
                Some((before, _)) if self.small_at < *before => {
                    let step = count.min(*before - self.small_at);
                    self.small_at += step;
                    count -= step;
                }
                Some((_, bytes)) => {
                    let step = count.min(bytes.len());
                    bytes.advance(step);
                    self.large_bytes -= step;
                    count -= step;
                    if bytes.is_empty() {
                        self.large_at += 1;
                    }
                }
                None => {
                    self.small_at = (self.small_at + count).min(self.small.len());
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(buffer: &mut OutBuffer, body: &'static [u8]) {
        let owner = Bytes::from_static(body);
        let (small, mut place) = buffer.splicing(&owner, &owner);
        place(Splice {
            at: small.len(),
            body: 0..owner.len(),
        });
    }

    fn filled() -> (OutBuffer, Vec<u8>) {
        let mut buffer = OutBuffer::default();
        share(&mut buffer, b"first");
        buffer.small().extend_from_slice(b"-small-");
        share(&mut buffer, b"large");
        share(&mut buffer, b"larger");
        buffer.small().extend_from_slice(b"-end");
        (buffer, b"first-small-largelarger-end".to_vec())
    }

    #[test]
    fn order_is_kept_whatever_a_write_takes() {
        for step in 1..30 {
            let (mut buffer, expected) = filled();
            let mut seen = Vec::new();
            while buffer.has_remaining() {
                let chunk = buffer.chunk();
                let take = step.min(chunk.len());
                assert!(take > 0);
                seen.extend_from_slice(&chunk[..take]);
                buffer.advance(take);
            }
            assert_eq!(seen, expected, "step {step}");
        }
    }

    #[test]
    fn vectored_slices_tell_the_same_bytes() {
        for skipped in 0..27 {
            let (mut buffer, expected) = filled();
            buffer.advance(skipped);
            let mut slices = [IoSlice::new(&[]); 16];
            let count = buffer.chunks_vectored(&mut slices);
            let seen: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|s| s.iter().copied())
                .collect();
            assert_eq!(seen, expected[skipped..], "after {skipped}");
            assert_eq!(buffer.remaining(), expected.len() - skipped);
        }
    }

    #[test]
    fn few_slices_take_the_beginning() {
        let (buffer, _) = filled();
        let mut slices = [IoSlice::new(&[]); 2];
        assert_eq!(buffer.chunks_vectored(&mut slices), 2);
        assert_eq!(&*slices[0], b"first");
        assert_eq!(&*slices[1], b"-small-");
    }

    #[test]
    fn a_cleared_buffer_is_empty_and_bounded() {
        let (mut buffer, _) = filled();
        buffer.small().resize(KEPT_BYTES_MAX * 4, 0);
        buffer.clear();
        assert!(!buffer.has_remaining());
        assert!(buffer.small().capacity() <= KEPT_BYTES_MAX * 2);
    }
}
