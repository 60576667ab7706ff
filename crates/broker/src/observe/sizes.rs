//! Sizes of published messages, in the classes that dashboards draw.

use std::ops::AddAssign;

use super::traffic::Tally;

/// Upper bounds of the message sizes that are told apart, in bytes; the last class has none.
// rabbitmq: message_size_bytes
pub const SIZE_CLASSES: [u64; 8] = [
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
];

/// Sizes of published messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeCounts {
    /// Messages of each class of [`SIZE_CLASSES`], and larger ones.
    pub messages: [u64; SIZE_CLASSES.len() + 1],
    /// Bytes of all.
    pub bytes: u64,
}

impl AddAssign for SizeCounts {
    fn add_assign(&mut self, other: Self) {
        for (sum, count) in self.messages.iter_mut().zip(other.messages) {
            *sum += count;
        }
        self.bytes += other.bytes;
    }
}

/// Sizes of the messages that one channel published.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    messages: [Tally; SIZE_CLASSES.len() + 1],
    bytes: Tally,
}

impl Sizes {
    pub(crate) fn published(&self, bytes: usize) {
        let bytes = bytes as u64;
        let class = SIZE_CLASSES.iter().position(|bound| bytes <= *bound);
        self.messages[class.unwrap_or(SIZE_CLASSES.len())].add(1);
        self.bytes.add(bytes);
    }

    pub(crate) fn counts(&self) -> SizeCounts {
        let mut counts = SizeCounts {
            bytes: self.bytes.get(),
            ..SizeCounts::default()
        };
        for (count, tally) in counts.messages.iter_mut().zip(&self.messages) {
            *count = tally.get();
        }
        counts
    }
}
