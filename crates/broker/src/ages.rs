//! When log entries were written: a few samples for each stream, so that a message's age can be told
//! though no message carries it.
//!
//! Knows indexes and times only.

use std::collections::BTreeMap;

use broker_core::Timestamp;
use parking_lot::Mutex;
use storage::StreamId;

/// Samples of one stream; when there are more, every other one goes, and they are taken half as often.
const SAMPLES_MAX: usize = 1_024;
const SAMPLE_EVERY_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Ages {
    /// Bounded by the number of groups.
    streams: Mutex<BTreeMap<StreamId, Samples>>,
}

#[derive(Debug)]
struct Samples {
    taken: Vec<(u64, Timestamp)>,
    every_ms: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            taken: Vec::new(),
            every_ms: SAMPLE_EVERY_MS,
        }
    }
}

impl Ages {
    /// The entry at this index was written at this time. Indexes rise.
    pub(crate) fn note(&self, stream: StreamId, index: u64, at: Timestamp) {
        let mut streams = self.streams.lock();
        let samples = streams.entry(stream).or_default();
        let last = samples.taken.last().map(|(_, at)| at.0);
        if last.is_some_and(|last| at.0 < last + samples.every_ms) {
            return;
        }
        samples.taken.push((index, at));
        if samples.taken.len() > SAMPLES_MAX {
            let mut keep = false;
            samples.taken.retain(|_| {
                keep = !keep;
                keep
            });
            samples.every_ms *= 2;
        }
    }

    /// About when the entry at this index was written; `None` when that was before anything that is
    /// known of the stream.
    pub(crate) fn written_at(&self, stream: StreamId, index: u64) -> Option<Timestamp> {
        let streams = self.streams.lock();
        let samples = &streams.get(&stream)?.taken;
        let after = samples.partition_point(|(sample, _)| *sample <= index);
        samples.get(after.checked_sub(1)?).map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_as_old_as_the_sample_before_it() {
        let ages = Ages::default();
        let stream = StreamId(1);
        for index in 5..100_000 {
            ages.note(stream, index, Timestamp(index * 100));
        }
        assert_eq!(ages.written_at(stream, 4), None);
        assert_eq!(ages.written_at(StreamId(2), 9), None);
        assert_eq!(ages.written_at(stream, 5), Some(Timestamp(500)));
        let age = |index: u64| index * 100 - ages.written_at(stream, index).unwrap().0;
        // Within twenty seconds, though the samples cover hours.
        assert!(
            [77, 4_000, 50_000, 99_999]
                .into_iter()
                .all(|index| age(index) < 20_000)
        );
        assert!(ages.streams.lock()[&stream].taken.len() <= SAMPLES_MAX);
    }
}
