//! Messages that died, by reason and by how surely their dead letters travel.

use std::sync::atomic::{AtomicU64, Ordering};

use broker_core::dead_letter::DeathReason;

/// How surely dead letters reach their targets; the index of a [`DeathCounts`] row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
