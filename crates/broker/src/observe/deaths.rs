//! Messages that died, by reason and by how surely their dead letters travel.

use std::sync::atomic::{AtomicU64, Ordering};

use broker_core::dead_letter::DeathReason;
use broker_core::metadata::QueueId;
use broker_core::{QueueName, VhostName};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::queue::Queue;

/// How surely dead letters reach their targets; the index of a [`DeathCounts`] row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeathStrategy {
    /// Once at most.
    AtMostOnce,
    /// Until a target confirms.
    AtLeastOnce,
    /// There is nowhere to go.
    Disabled,
}

/// Messages that died, by reason and strategy, in queues of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeathCounts {
    /// Rows by [`DeathReason`] in its order, columns by [`DeathStrategy`] in its order.
    pub dead: [[u64; 3]; 4],
    /// Dead letters that their targets confirmed.
    pub confirmed: u64,
}

/// Messages that died in one queue since it was made or the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDeaths {
    /// Those that had nowhere to go, by [`DeathReason`] in its order.
    pub dropped: [u64; 4],
    /// Those with a dead letter, by [`DeathReason`] in its order.
    pub dead_lettered: [u64; 4],
}

impl QueueDeaths {
    pub(crate) fn died(&mut self, reason: DeathReason, strategy: DeathStrategy) {
        let row = match strategy {
            DeathStrategy::Disabled => &mut self.dropped,
            DeathStrategy::AtMostOnce | DeathStrategy::AtLeastOnce => &mut self.dead_lettered,
        };
        row[reason as usize] += 1;
    }
}

/// Deaths that the log has not told of yet. One line a second tells of all that died in a queue of
/// one reason: a flood of messages must not be a flood of lines. Bounded by the queues that there
/// are.
#[derive(Debug, Default)]
pub(crate) struct DeathLog {
    untold: Mutex<FxHashMap<(QueueId, DeathReason, DeathStrategy), Untold>>,
}

#[derive(Debug)]
struct Untold {
    vhost: VhostName,
    queue: QueueName,
    messages: u64,
}

impl DeathLog {
    /// A message died.
    pub(crate) fn died(&self, queue: &Queue, reason: DeathReason, strategy: DeathStrategy) {
        let mut untold = self.untold.lock();
        let deaths = untold.entry((queue.id, reason, strategy));
        let deaths = deaths.or_insert_with(|| Untold {
            vhost: queue.vhost.clone(),
            queue: queue.name.clone(),
            messages: 0,
        });
        deaths.messages += 1;
    }

    /// Tells what there is to tell.
    pub(crate) fn tell(&self) {
        let untold = std::mem::take(&mut *self.untold.lock());
        for ((_, reason, strategy), deaths) in untold {
            let Untold {
                vhost,
                queue,
                messages,
            } = deaths;
            let fate = match strategy {
                DeathStrategy::Disabled => "dropped",
                DeathStrategy::AtMostOnce | DeathStrategy::AtLeastOnce => "dead-lettered",
            };
            let reason_name = reason.name();
            if reason == DeathReason::DeliveryLimit {
                tracing::warn!(%vhost, %queue, reason = reason_name, fate, messages,
                    "messages were returned more often than the delivery limit allows");
            } else {
                tracing::info!(%vhost, %queue, reason = reason_name, fate, messages,
                    "messages died");
            }
        }
    }
}

/// The counters of one type.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    dead: [[AtomicU64; 3]; 4],
    confirmed: AtomicU64,
}

impl Deaths {
    /// A message died.
    pub(super) fn died(&self, reason: DeathReason, strategy: DeathStrategy) {
        self.dead[reason as usize][strategy as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// All targets of a dead letter have it.
    pub(super) fn confirmed(&self) {
        self.confirmed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> DeathCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeathCounts {
            dead: self.dead.each_ref().map(|row| row.each_ref().map(load)),
            confirmed: load(&self.confirmed),
        }
    }
}
