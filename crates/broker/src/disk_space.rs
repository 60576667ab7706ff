//! Whether there is room on the disk of the data directory, and how long it will last.
//!
//! Below the limit and its reserve the disk's alarm holds publishers; the reserve is for what makes room again: acks,
//! and the flush of what is in the journal. Knows bytes and times; not what is stored.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use broker_core::Timestamp;
use parking_lot::Mutex;

use crate::node::Node;

/// Kept free beyond the limit for acks, which need room before they give any.
pub const RESERVE_FOR_ACKS_BYTES: u64 = 64 << 20;

const SAMPLE_EVERY_MS: u64 = 1_000;
/// Samples kept: five minutes.
const SAMPLES_MAX: usize = 300;

/// How the use of the disk goes on if it goes on as it did in the last minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Bytes that storage took in a second on the average; negative when it shrinks.
    pub growth_bytes_per_s: i64,
    /// Seconds until publishers are held; `None` when it does not come to that.
    pub full_in_s: Option<u64>,
    /// Over how many seconds it was watched.
    pub watched_s: u64,
}

#[derive(Debug, Default)]
pub(crate) struct DiskSpace {
    free_bytes: AtomicU64,
    samples: Mutex<VecDeque<Sample>>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Timestamp,
    used_bytes: u64,
}

impl DiskSpace {
    /// Bytes free at the last look.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Looks. A publisher's brake comes as late as this is called.
    pub(crate) fn look(&self, node: &Node, now: Timestamp) {
        match node.storage.free_bytes() {
            Ok(free_bytes) => self.found(node, free_bytes),
            Err(error) => tracing::warn!(%error, "free disk space is not known"),
        }
        self.sample(node, now);
    }

    fn found(&self, node: &Node, free_bytes: u64) {
        self.free_bytes.store(free_bytes, Ordering::Relaxed);
        let alarms = &node.flow.alarms;
        let limit_bytes = alarms.disk_free_limit();
        let low = free_bytes < limit_bytes.saturating_add(RESERVE_FOR_ACKS_BYTES)
            || node.storage.is_disk_full();
        if !alarms.set_low_on_disk(low) {
            return;
        }
        if low {
            tracing::error!(
                free_bytes,
                limit_bytes,
                reserve_bytes = RESERVE_FOR_ACKS_BYTES,
                "MST-1008 : Store overfull, flow control will be enforced (disk alarm: publishers wait until more is free, consumers and acks go on)"
            );
        } else {
            tracing::info!(
                free_bytes,
                limit_bytes,
                "MST-1009 : Store overfull condition cleared (disk alarm is over: publishers go on)"
            );
        }
        if let Err(error) = node.storage.be_frugal(low) {
            tracing::warn!(%error, "journal files that are not needed stay");
        }
        node.tell_alarms_over();
    }

    fn sample(&self, node: &Node, now: Timestamp) {
        let mut samples = self.samples.lock();
        let last = samples.back().map(|sample| sample.at);
        if last.is_some_and(|last| now.0 < last.0 + SAMPLE_EVERY_MS) {
            return;
        }
        let used_bytes = node.storage.disk_usage().total_bytes();
        samples.push_back(Sample {
            at: now,
            used_bytes,
        });
        if samples.len() > SAMPLES_MAX {
            samples.pop_front();
        }
    }

    /// From what was seen in the last minutes; `None` when that is too little.
    pub(crate) fn forecast(&self, limit_bytes: u64) -> Option<Forecast> {
        let samples = self.samples.lock();
        let (first, last) = (*samples.front()?, *samples.back()?);
        drop(samples);
        let room_bytes = self
            .free_bytes()
            .saturating_sub(limit_bytes.saturating_add(RESERVE_FOR_ACKS_BYTES));
        forecast(first, last, room_bytes)
    }
}

fn forecast(first: Sample, last: Sample, room_bytes: u64) -> Option<Forecast> {
    let watched_ms = i128::from(last.at.0.checked_sub(first.at.0).filter(|ms| *ms > 0)?);
    let grown_bytes = i128::from(last.used_bytes) - i128::from(first.used_bytes);
    let growth = grown_bytes * 1_000 / watched_ms;
    let full_in_s = (growth > 0).then(|| i128::from(room_bytes) / growth);
    Some(Forecast {
        growth_bytes_per_s: i64::try_from(growth).unwrap_or(i64::MAX),
        full_in_s: full_in_s.and_then(|seconds| u64::try_from(seconds).ok()),
        watched_s: (watched_ms / 1_000) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: u64, used_bytes: u64) -> Sample {
        Sample {
            at: Timestamp(at_s * 1_000),
            used_bytes,
        }
    }

    #[test]
    fn growth_says_when_publishers_will_be_held() {
        let found = forecast(sample(10, 1_000), sample(20, 6_000), 50_000);
        let expected = Forecast {
            growth_bytes_per_s: 500,
            full_in_s: Some(100),
            watched_s: 10,
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn what_shrinks_or_stays_never_fills_the_disk() {
        for used_bytes in [0, 1_000] {
            let found = forecast(sample(10, 1_000), sample(20, used_bytes), 50_000);
            assert_eq!(found.and_then(|found| found.full_in_s), None);
        }
        assert_eq!(forecast(sample(10, 0), sample(10, 9), 1), None);
    }
}
