//! What the clients of a test saw, in the order in which they saw it. Knows messages and moments, no
//! sockets.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A message: its queue, who published it, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) queue: u32,
    pub(crate) publisher: u32,
    pub(crate) number: u64,
}

impl Id {
    pub(crate) fn body(self) -> Vec<u8> {
        format!("{} {} {}", self.queue, self.publisher, self.number).into_bytes()
    }

    pub(crate) fn read(body: &[u8]) -> Option<Id> {
        let text = std::str::from_utf8(body).ok()?;
        let mut words = text.split(' ');
        Some(Id {
            queue: words.next()?.parse().ok()?,
            publisher: words.next()?.parse().ok()?,
            number: words.next()?.parse().ok()?,
        })
    }
}

/// What happened to a message, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Published,
    Confirmed,
    /// Nacked: it may be there or not.
    Refused,
    Delivered {
        redelivered: bool,
    },
    Acked,
    /// Given back, or in hand when its connection ended.
    Returned,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: Instant,
    pub(crate) id: Id,
    pub(crate) what: What,
    /// The node through which the client saw it.
    pub(crate) node: u64,
}

/// Written by all clients side by side.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Written>>);

#[derive(Default)]
struct Written {
    events: Vec<Event>,
    /// When the cluster was not whole.
    faults: Vec<(Instant, Option<Instant>)>,
}

impl History {
    pub(crate) fn note(&self, node: u64, id: Id, what: What) {
        self.note_at(Instant::now(), node, id, what);
    }

    pub(crate) fn note_at(&self, at: Instant, node: u64, id: Id, what: What) {
        let event = Event { at, id, what, node };
        self.written(|written| written.events.push(event));
    }

    pub(crate) fn fault_begins(&self) {
        self.written(|written| written.faults.push((Instant::now(), None)));
    }

    pub(crate) fn fault_ends(&self) {
        self.written(|written| {
            for fault in &mut written.faults {
                fault.1.get_or_insert_with(Instant::now);
            }
        });
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.written(|written| written.events.clone())
    }

    /// Whether nothing was wrong from `rest` before a moment until `rest` after it.
    pub(crate) fn is_calm(&self, at: Instant, rest: Duration) -> bool {
        self.written(|written| {
            let mut faults = written.faults.iter();
            !faults.any(|(begin, end)| *begin < at + rest && end.is_none_or(|end| end + rest > at))
        })
    }

    fn written<T>(&self, work: impl FnOnce(&mut Written) -> T) -> T {
        work(&mut self.0.lock().expect("No client panics while it writes."))
    }
}
