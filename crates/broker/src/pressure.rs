//! Bytes that were published and wait to be stored, and the brake that follows from them.
//!
//! A publisher's connection is not read while the sum is over its bound. What brings the sum down
//! (the journal and the commit threads) never waits for a connection, so the brake always ends.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::bounds::STAGED_BYTES_MAX;

#[derive(Debug, Default)]
pub(crate) struct Pressure {
    staged_bytes: AtomicUsize,
    eased: Notify,
}

impl Pressure {
    pub(crate) fn add(&self, bytes: usize) {
        self.staged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, bytes: usize) {
        let before = self.staged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before > STAGED_BYTES_MAX / 2 && before - bytes <= STAGED_BYTES_MAX / 2 {
            self.eased.notify_waiters();
        }
    }

    /// Bytes on their way to the journal.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.staged_bytes.load(Ordering::Relaxed) as u64
    }

    /// Whether publishers must wait.
    pub(crate) fn is_high(&self) -> bool {
        self.staged_bytes.load(Ordering::Relaxed) > STAGED_BYTES_MAX
    }

    /// Returns once the sum is under half of its bound.
    pub(crate) async fn eased(&self) {
        loop {
            let eased = self.eased.notified();
            if self.staged_bytes.load(Ordering::Relaxed) <= STAGED_BYTES_MAX / 2 {
                return;
            }
            eased.await;
        }
    }
}
