//! The bytes of a connection that were read and not yet understood.
//!
//! One read takes at most [`READ_BYTES_MAX`]; frames are cut from the buffer as slices. The
//! buffer starts small, grows while reads fill it and is given back when the peer is quiet, so
//! that an idle connection costs next to nothing. Knows no frames.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Most bytes taken by one read.
pub(crate) const READ_BYTES_MAX: usize = 128 << 10;

/// Capacity of a fresh or quiet connection.
const READ_BYTES_MIN: usize = 4 << 10;

/// Read bytes that wait to be handled. Bound: one incomplete frame and one read.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: BytesMut,
    /// Room asked for before the next read; doubles while reads come back full.
    want: usize,
}

impl Input {
    /// What is there, oldest first.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Drops `count` handled bytes from the front.
    pub(crate) fn consume(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    /// Reads once. Answers the number of bytes, 0 at the end of the stream. Cancelling the wait
    /// loses nothing.
    ///
    /// # Errors
    /// What the socket says.
    pub(crate) async fn fill(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<usize> {
        self.fill_at_most(reader, READ_BYTES_MAX).await
    }

    /// As [`Input::fill`], of at most so many bytes.
    ///
    /// # Errors
    /// What the socket says.
    pub(crate) async fn fill_at_most(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        bytes_max: usize,
    ) -> io::Result<usize> {
        self.want = self.want.max(READ_BYTES_MIN);
        self.bytes.reserve(self.want);
        let want = self.want;
        // `take` bounds the read even where the buffer has more room than was asked for.
        let mut bounded = reader.take(bytes_max as u64);
        let count = bounded.read_buf(&mut self.bytes).await?;
        if count >= want {
            self.want = (want * 2).min(READ_BYTES_MAX);
        }
        Ok(count)
    }

    /// Gives memory back; called when nothing came for a while.
    pub(crate) fn rest(&mut self) {
        self.want = READ_BYTES_MIN;
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_grow_with_what_comes_and_stay_bounded() {
        let source = vec![7_u8; 3 << 20];
        let mut reader = &source[..];
        let mut input = Input::default();
        let mut total = 0;
        let mut largest = 0;
        loop {
            let count = input.fill(&mut reader).await.unwrap();
            if count == 0 {
                break;
            }
            largest = largest.max(count);
            total += count;
            assert_eq!(input.bytes().len(), count);
            input.consume(count);
        }
        assert_eq!(total, source.len());
        assert!(largest <= READ_BYTES_MAX);
        assert!(largest > READ_BYTES_MIN);
    }

    #[tokio::test]
    async fn a_rest_keeps_unhandled_bytes() {
        let mut reader = &b"abc"[..];
        let mut input = Input::default();
        input.fill(&mut reader).await.unwrap();
        input.consume(1);
        input.rest();
        assert_eq!(input.bytes(), b"bc");
        input.consume(2);
        input.rest();
        assert_eq!(input.bytes(), b"");
    }
}
