//! Dead messages of an at-least-once queue that wait for the confirms of their targets.
//!
//! At most `DEAD_LETTERS_IN_FLIGHT_MAX` are on their way at one time, in order of death; those that no
//! target took rest and are tried again.

use std::collections::VecDeque;

use super::delayed::Delayed;
use super::table::Place;
use super::{DEAD_LETTER_RETRY_MS, DEAD_LETTERS_IN_FLIGHT_MAX};
use crate::time::{Millis, Timestamp};

#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    waiting: VecDeque<Place>,
    sent: Vec<Place>,
    resting: Delayed,
}

impl DeadLetters {
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.sent.len() + self.resting.len()
    }

    pub(super) fn push(&mut self, place: Place) {
        self.waiting.push_back(place);
    }

    /// The next one to publish, if one more may be on its way.
    pub(super) fn send(&mut self) -> Option<Place> {
        if self.sent.len() >= DEAD_LETTERS_IN_FLIGHT_MAX {
            return None;
        }
        let place = self.waiting.pop_front()?;
        self.sent.push(place);
        Some(place)
    }

    /// The targets did not take it.
    pub(super) fn rest(&mut self, place: Place, now: Timestamp) {
        if let Some(at) = self.sent.iter().position(|sent| *sent == place) {
            self.sent.remove(at);
            self.resting
                .insert(place, now + Millis(DEAD_LETTER_RETRY_MS));
        }
    }

    /// Those that have rested enough wait again.
    pub(super) fn wake(&mut self, now: Timestamp) {
        while let Some(place) = self.resting.first_due(now) {
            self.resting.remove(place);
            self.waiting.push_back(place);
        }
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.resting.next_due()
    }

    /// It has left the queue.
    pub(super) fn remove(&mut self, place: Place) {
        if let Some(at) = self.sent.iter().position(|sent| *sent == place) {
            self.sent.remove(at);
        } else if !self.resting.remove(place)
            && let Some(at) = self.waiting.iter().position(|waiting| *waiting == place)
        {
            self.waiting.remove(at);
        }
    }

    /// Any one of them.
    pub(super) fn first(&self) -> Option<Place> {
        let oldest = self.sent.first().or_else(|| self.waiting.front());
        oldest.copied().or_else(|| self.resting.first())
    }
}
