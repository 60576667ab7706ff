//! How long the journal's syncs took, in the classes of a histogram.
//!
//! Counted by the one thread that syncs, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the classes, in microseconds; the last class has none. From a sync that found
/// nothing to do to a disk that hangs.
pub const SYNC_CLASSES_US: [u64; 12] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
];

const CLASSES: usize = SYNC_CLASSES_US.len() + 1;

/// Times of all syncs of records since the start, each with its write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncTimes {
    /// Syncs of each class of [`SYNC_CLASSES_US`], and longer ones.
    pub syncs: [u64; CLASSES],
    /// Microseconds of all of them.
    pub us: u64,
    /// Microseconds of the last one; 0 before the first.
    pub last_us: u64,
}

/// The counters behind [`SyncTimes`].
#[derive(Debug, Default)]
pub(crate) struct SyncClock {
    syncs: [AtomicU64; CLASSES],
    us: AtomicU64,
    last_us: AtomicU64,
}

impl SyncClock {
    pub(crate) fn took(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let class = SYNC_CLASSES_US.iter().position(|bound| us <= *bound);
        self.syncs[class.unwrap_or(CLASSES - 1)].fetch_add(1, Ordering::Relaxed);
        self.us.fetch_add(us, Ordering::Relaxed);
        self.last_us.store(us, Ordering::Relaxed);
    }

    pub(crate) fn times(&self) -> SyncTimes {
        SyncTimes {
            syncs: self
                .syncs
                .each_ref()
                .map(|count| count.load(Ordering::Relaxed)),
            us: self.us.load(Ordering::Relaxed),
            last_us: self.last_us.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_counts_in_the_first_class_that_is_long_enough() {
        let clock = SyncClock::default();
        for us in [100, 101, 2_000_000] {
            clock.took(Duration::from_micros(us));
        }
        let times = clock.times();
        assert_eq!(times.syncs[..3], [1, 1, 0]);
        assert_eq!(times.syncs[CLASSES - 1], 1);
        assert_eq!((times.us, times.last_us), (2_000_201, 2_000_000));
    }
}
