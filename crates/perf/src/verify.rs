//! Which messages arrived: what was lost, came twice, came out of order, or came astray.
//!
//! Each queue has a ledger of the streams that flow into it, shared by the queue's consumers and
//! locked once per read of a socket. Knows sequence numbers only, no frames and no brokers.

mod seen;

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

pub(crate) use seen::SequenceSet;
use seen::{Seen, Sight};

/// How many lost messages are named.
const EXAMPLES_MAX: usize = 8;

/// Who is told of the messages that consumers keep.
pub(crate) trait Witness: Send + Sync {
    /// Notes kept deliveries; answers how many were seen for the first time.
    fn note(&self, kept: &[Sighting]) -> u64;

    /// Whether a consumer shall remember what it kept until its acks are certain.
    fn wants_certainty(&self) -> bool {
        false
    }

    /// The broker has handled the acks of these.
    fn settled(&self, _kept: &[Sighting]) {}
}

/// One delivery of a message of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    pub(crate) queue: u32,
    pub(crate) producer: u16,
    pub(crate) redelivered: bool,
    pub(crate) sequence: u64,
}

/// A producer's part of a queue: every `stride`-th message, counted from `offset`, because a
/// producer serves its queues in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) producer: u16,
    pub(crate) offset: u64,
    pub(crate) stride: u64,
}

/// What became of a producer's messages, as far as it knows.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// How many were published; their sequences count from 0.
    pub(crate) count: u64,
    /// Those that need not arrive: refused, returned, or without a word of the broker.
    pub(crate) exempt: SequenceSet,
}

/// The messages of one queue.
#[derive(Debug, Default)]
struct Ledger {
    streams: FxHashMap<u16, Stream>,
    duplicated: u64,
    astray: u64,
}

#[derive(Debug)]
struct Stream {
    share: Share,
    seen: Seen,
}

/// The ledgers of all queues.
#[derive(Debug)]
pub(crate) struct Ledgers(Vec<Mutex<Ledger>>);

/// What the ledgers say at the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    /// Seen in a queue that it was not published to.
    pub(crate) astray: u64,
    /// The first lost ones.
    pub(crate) lost_examples: Vec<Sighting>,
}

impl Ledgers {
    /// One list of shares for each queue.
    pub(crate) fn new(queues: &[Vec<Share>]) -> Self {
        let ledger = |shares: &Vec<Share>| {
            let stream = |share: &Share| {
                let seen = Seen::default();
                (
                    share.producer,
                    Stream {
                        share: *share,
                        seen,
                    },
                )
            };
            Mutex::new(Ledger {
                streams: shares.iter().map(stream).collect(),
                ..Ledger::default()
            })
        };
        Self(queues.iter().map(ledger).collect())
    }

    /// Compares what was seen with what each producer (by its number) published.
    pub(crate) fn findings(&self, published: &[Published]) -> Findings {
        let mut findings = Findings::default();
        for queue in 0..self.0.len() as u32 {
            let Some(ledger) = self.lock(queue) else {
                continue;
            };
            findings.duplicated += ledger.duplicated;
            findings.astray += ledger.astray;
            for stream in ledger.streams.values() {
                let Some(published) = published.get(usize::from(stream.share.producer)) else {
                    continue;
                };
                stream.find_lost(queue, published, &mut findings);
            }
        }
        findings
            .lost_examples
            .sort_by_key(|lost| (lost.queue, lost.producer, lost.sequence));
        findings
    }

    fn lock(&self, queue: u32) -> Option<MutexGuard<'_, Ledger>> {
        let ledger = self.0.get(queue as usize)?;
        Some(ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Witness for Ledgers {
    fn note(&self, kept: &[Sighting]) -> u64 {
        let same_queue = |a: &Sighting, b: &Sighting| a.queue == b.queue;
        let mut fresh = 0;
        for of_queue in kept.chunk_by(same_queue) {
            let Some(ledger) = of_queue.first().and_then(|first| self.lock(first.queue)) else {
                continue;
            };
            fresh += note_all(ledger, of_queue);
        }
        fresh
    }
}

fn note_all(mut ledger: MutexGuard<'_, Ledger>, sightings: &[Sighting]) -> u64 {
    let ledger = &mut *ledger;
    let mut fresh = 0;
    for sighting in sightings {
        let stream = ledger.streams.get_mut(&sighting.producer);
        let Some((stream, place)) = stream.and_then(|stream| {
            let place = stream.share.place_of(sighting.sequence)?;
            Some((stream, place))
        }) else {
            ledger.astray += 1;
            continue;
        };
        match stream.seen.insert(place) {
            Sight::First => fresh += 1,
            Sight::Again => ledger.duplicated += 1,
            Sight::Absurd => ledger.astray += 1,
        }
    }
    fresh
}

impl Share {
    /// Which message of this share a sequence is; none when it belongs to another queue.
    fn place_of(&self, sequence: u64) -> Option<u64> {
        if self.stride == 1 {
            return Some(sequence);
        }
        (sequence % self.stride == self.offset).then_some(sequence / self.stride)
    }

    fn sequence_of(&self, place: u64) -> u64 {
        place * self.stride + self.offset
    }

    /// How many of the first `count` sequences are this share's.
    fn places(&self, count: u64) -> u64 {
        count.saturating_sub(self.offset).div_ceil(self.stride)
    }
}

impl Stream {
    fn find_lost(&self, queue: u32, published: &Published, findings: &mut Findings) {
        for place in self.seen.missing(self.share.places(published.count)) {
            let sequence = self.share.sequence_of(place);
            if published.exempt.contains(sequence) {
                continue;
            }
            findings.lost += 1;
            if findings.lost_examples.len() < EXAMPLES_MAX {
                findings.lost_examples.push(Sighting {
                    queue,
                    producer: self.share.producer,
                    redelivered: false,
                    sequence,
                });
            }
        }
    }
}

/// One consumer's view of order: a producer's messages come to it with growing sequence numbers,
/// whichever other consumers share the queue, unless they were returned to the queue.
#[derive(Debug, Default)]
pub(crate) struct OrderCheck {
    highest: FxHashMap<(u32, u16), u64>,
    reordered: u64,
}

impl OrderCheck {
    /// Notes a delivery that is not marked as redelivered.
    pub(crate) fn note(&mut self, sighting: &Sighting) {
        let key = (sighting.queue, sighting.producer);
        let highest = self.highest.entry(key).or_insert(sighting.sequence);
        if sighting.sequence < *highest {
            self.reordered += 1;
        } else {
            *highest = sighting.sequence;
        }
    }

    pub(crate) fn reordered(&self) -> u64 {
        self.reordered
    }
}

#[cfg(test)]
mod tests;
