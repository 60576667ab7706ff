//! Which ready message ends first, for queues whose messages expire wherever they are.
//!
//! A heap of moments and places. Messages that have left, or are held, stay in it until their
//! moment comes or they outnumber the others: whoever asks says which places still count.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::table::Place;
use crate::time::Timestamp;

/// Entries below which nothing is cleaned up.
const KEPT: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Expiring {
    heap: BinaryHeap<Reverse<(Timestamp, Place)>>,
}

impl Expiring {
    pub(super) fn add(&mut self, at: Timestamp, place: Place) {
        self.heap.push(Reverse((at, place)));
    }

    /// The first moment, perhaps of a message that has left since.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the first place out whose moment has come and that still counts.
    pub(super) fn take_due(
        &mut self,
        now: Timestamp,
        counts: impl Fn(Place, Timestamp) -> bool,
    ) -> Option<Place> {
        while let Some(Reverse((at, place))) = self.heap.peek().copied() {
            if at > now {
                return None;
            }
            self.heap.pop();
            if counts(place, at) {
                return Some(place);
            }
        }
        None
    }

    /// Whether so few of the entries can be of `ready` messages that a clean-up pays.
    pub(super) fn is_stale(&self, ready: u64) -> bool {
        self.heap.len() > KEPT && self.heap.len() as u64 > ready.saturating_mul(4)
    }

    /// Drops what does not count any more. Amortised by the departures before it.
    pub(super) fn clean_up(&mut self, counts: impl Fn(Place, Timestamp) -> bool) {
        self.heap.retain(|Reverse((at, place))| counts(*place, *at));
        self.heap.shrink_to(self.heap.len() * 2);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<Reverse<(Timestamp, Place)>>()
    }
}
