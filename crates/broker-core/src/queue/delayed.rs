//! Messages that wait for a moment, by that moment: returns that are held back, dead letters
//! that rest before they are tried again.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::table::Place;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(super) struct Delayed {
    /// Those of one moment in the order in which they came.
    by_due: BTreeMap<(Timestamp, u64), Place>,
    keys: FxHashMap<Place, (Timestamp, u64)>,
    arrivals: u64,
}

impl Delayed {
    pub(super) fn len(&self) -> usize {
        self.by_due.len()
    }

    pub(super) fn insert(&mut self, place: Place, due: Timestamp) {
        let key = (due, self.arrivals);
        self.arrivals += 1;
        self.by_due.insert(key, place);
        self.keys.insert(place, key);
    }

    pub(super) fn remove(&mut self, place: Place) -> bool {
        let Some(key) = self.keys.remove(&place) else {
            return false;
        };
        self.by_due.remove(&key);
        self.shrink();
        true
    }

    /// When this one is due.
    pub(super) fn due_of(&self, place: Place) -> Option<Timestamp> {
        self.keys.get(&place).map(|(due, _)| *due)
    }

    pub(super) fn last_due(&self) -> Option<Timestamp> {
        self.by_due.last_key_value().map(|((due, _), _)| *due)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.by_due.first_key_value().map(|((due, _), _)| *due)
    }

    /// The first, whatever its moment.
    pub(super) fn first(&self) -> Option<Place> {
        self.by_due.first_key_value().map(|(_, place)| *place)
    }

    /// The first, if its moment has come.
    pub(super) fn first_due(&self, now: Timestamp) -> Option<Place> {
        self.by_due
            .first_key_value()
            .filter(|((due, _), _)| *due <= now)
            .map(|(_, place)| *place)
    }

    fn shrink(&mut self) {
        if self.keys.capacity() > 64 && self.keys.len() * 4 < self.keys.capacity() {
            self.keys.shrink_to(self.keys.len() * 2);
        }
    }
}
