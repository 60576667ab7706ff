//! When queues want to be called: one heap for all of them, one task that sleeps until the first.
//!
//! A queue may be in the heap more than once; a call that comes too early changes nothing and is
//! cheap, so entries are never searched for and removed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use broker_core::Timestamp;
use broker_core::metadata::QueueId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock;
use crate::node::Node;

/// Longest sleep, so that the task notices the end of its node.
const SLEEP_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Mutex<BinaryHeap<Reverse<(Timestamp, QueueId)>>>,
    earlier: Notify,
}

impl Timers {
    pub(crate) fn schedule(&self, at: Timestamp, queue: QueueId) {
        let mut heap = self.heap.lock();
        let first = heap.peek().is_none_or(|Reverse((first, _))| at < *first);
        heap.push(Reverse((at, queue)));
        drop(heap);
        if first {
            self.earlier.notify_one();
        }
    }

    fn due(&self, now: Timestamp) -> Vec<QueueId> {
        let mut heap = self.heap.lock();
        let mut due = Vec::new();
        while let Some(Reverse((at, queue))) = heap.peek() {
            if *at > now {
                break;
            }
            due.push(*queue);
            heap.pop();
        }
        due
    }

    fn next(&self) -> Option<Timestamp> {
        self.heap.lock().peek().map(|Reverse((at, _))| *at)
    }
}

/// Calls the queues when they are due, for as long as the node lives. The node is not held while
/// the task sleeps.
pub(crate) async fn run(timers: Arc<Timers>, node: Weak<Node>) {
    loop {
        let Some(alive) = node.upgrade() else { return };
        for id in timers.due(clock::now()) {
            if let Some(queue) = alive.queue(id) {
                queue.on_deadline(&alive);
            }
        }
        drop(alive);
        let wait = timers.next().map_or(SLEEP_MAX, |at| {
            Duration::from_millis(at.since(clock::now()).0).min(SLEEP_MAX)
        });
        tokio::select! {
            () = timers.earlier.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}
