//! What the node counts about messages, for listings and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use broker_core::queue::Gone;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    acked: AtomicU64,
    discarded: AtomicU64,
    expired: AtomicU64,
    dropped_at_max_length: AtomicU64,
    dropped_at_delivery_limit: AtomicU64,
    purged: AtomicU64,
    dead_lettered: AtomicU64,
    settled_late: AtomicU64,
}

/// A look at the counters: messages since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Acknowledged by consumers.
    pub acked: u64,
    /// Rejected or nacked without requeue, with nowhere to go.
    pub discarded: u64,
    /// Expired, with nowhere to go.
    pub expired: u64,
    /// Dropped at a length limit, with nowhere to go.
    pub dropped_at_max_length: u64,
    /// Dropped at the delivery limit, with nowhere to go.
    pub dropped_at_delivery_limit: u64,
    /// Purged.
    pub purged: u64,
    /// Went to a dead-letter exchange.
    pub dead_lettered: u64,
    /// Settled by clients after the queue had taken them back: nothing came of it.
    pub settled_late: u64,
}

impl Counters {
    pub(crate) fn forgotten(&self, why: Gone) {
        let counter = match why {
            Gone::Acked => &self.acked,
            Gone::Discarded => &self.discarded,
            Gone::Expired => &self.expired,
            Gone::MaxLength => &self.dropped_at_max_length,
            Gone::DeliveryLimit => &self.dropped_at_delivery_limit,
            Gone::Purged => &self.purged,
            Gone::DeadLettered | Gone::DeadLetterDropped => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dead_lettered(&self) {
        self.dead_lettered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn settled_late(&self, deliveries: u64) {
        if deliveries > 0 {
            self.settled_late.fetch_add(deliveries, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> MessageCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MessageCounts {
            acked: load(&self.acked),
            discarded: load(&self.discarded),
            expired: load(&self.expired),
            dropped_at_max_length: load(&self.dropped_at_max_length),
            dropped_at_delivery_limit: load(&self.dropped_at_delivery_limit),
            purged: load(&self.purged),
            dead_lettered: load(&self.dead_lettered),
            settled_late: load(&self.settled_late),
        }
    }
}
