//! How old the oldest message of a queue is, without a time in every message.
//!
//! Each pass notes how far a queue's numbers had come. A message that is still there was there
//! already when the note with its number or a higher one was taken: it is at least that old, and
//! at most one pass older. Notes are thinned out when there are many, the recent ones stay close.

use std::collections::{HashMap, VecDeque};

use broker::observe::QueueEnds;
use broker_core::metadata::QueueId;

/// Notes kept of one queue; 16 bytes each.
const NOTES_MAX: usize = 64;

/// Notes of all queues that have messages.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    queues: HashMap<QueueId, Notes>,
    pass: u64,
}

#[derive(Debug, Default)]
struct Notes {
    /// Number of the newest message, and when it was seen; oldest note first.
    notes: VecDeque<(u64, u64)>,
    pass: u64,
}

impl Ages {
    pub(super) fn begin(&mut self) {
        self.pass += 1;
    }

    pub(super) fn note(&mut self, queue: QueueId, at_ms: u64, ends: QueueEnds) {
        let pass = self.pass;
        let notes = self.queues.entry(queue).or_default();
        notes.pass = pass;
        notes.note(at_ms, ends);
    }

    /// Forgets queues that the pass found empty.
    pub(super) fn end(&mut self) {
        let pass = self.pass;
        self.queues.retain(|_, notes| notes.pass == pass);
    }

    /// Since when the message of this number has been there at the latest; `None` when it came
    /// after the last pass.
    pub(crate) fn since_ms(&self, queue: QueueId, entry: u64) -> Option<u64> {
        let notes = &self.queues.get(&queue)?.notes;
        let at = notes.partition_point(|(newest, _)| *newest < entry);
        notes.get(at).map(|(_, at_ms)| *at_ms)
    }
}

impl Notes {
    fn note(&mut self, at_ms: u64, ends: QueueEnds) {
        // Notes of messages that are all gone say nothing any more.
        while self
            .notes
            .front()
            .is_some_and(|(newest, _)| *newest < ends.oldest)
        {
            self.notes.pop_front();
        }
        if self
            .notes
            .back()
            .is_none_or(|(newest, _)| *newest < ends.newest)
        {
            self.notes.push_back((ends.newest, at_ms));
        }
        if self.notes.len() > NOTES_MAX {
            self.thin();
        }
    }

    /// Drops every other note of the older half. The very first one stays: it is the oldest
    /// message's.
    fn thin(&mut self) {
        let half = self.notes.len() / 2;
        let mut at = 0;
        self.notes.retain(|_| {
            at += 1;
            at > half || at % 2 == 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(1);

    fn noted(passes: &[(u64, u64, u64)]) -> Ages {
        let mut ages = Ages::default();
        for (at_ms, oldest, newest) in passes {
            ages.begin();
            ages.note(
                QUEUE,
                *at_ms,
                QueueEnds {
                    oldest: *oldest,
                    newest: *newest,
                },
            );
            ages.end();
        }
        ages
    }

    #[test]
    fn a_message_is_as_old_as_the_first_pass_that_saw_it() {
        let ages = noted(&[(5, 1, 10), (10, 1, 20), (15, 11, 30)]);
        assert_eq!(ages.since_ms(QUEUE, 11), Some(10));
        assert_eq!(ages.since_ms(QUEUE, 30), Some(15));
        assert_eq!(ages.since_ms(QUEUE, 31), None);
    }

    #[test]
    fn a_queue_that_was_empty_in_between_begins_anew() {
        let mut ages = noted(&[(5, 1, 10)]);
        ages.begin();
        ages.end();
        assert_eq!(ages.since_ms(QUEUE, 10), None);
    }

    #[test]
    fn notes_are_bounded_and_the_oldest_one_stays() {
        let passes: Vec<_> = (1..=1_000).map(|at| (at * 5, 1, at)).collect();
        let ages = noted(&passes);
        assert!(ages.queues[&QUEUE].notes.len() <= NOTES_MAX);
        assert_eq!(ages.since_ms(QUEUE, 1), Some(5));
        assert_eq!(ages.since_ms(QUEUE, 1_000), Some(5_000));
    }
}
