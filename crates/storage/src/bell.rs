//! A bell for one sleeper: rings are remembered until heard, many of them count as one.
//!
//! Wakes the background thread. Knows nothing of what there is to do.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    wake: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *self.rung.lock() = true;
        self.wake.notify_one();
    }

    /// Returns at the next ring, at once if it rang since the last call.
    pub(crate) fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            self.wake.wait(&mut rung);
        }
        *rung = false;
    }

    /// Like `wait`, but for no longer than the time given.
    pub(crate) fn wait_at_most(&self, time: Duration) {
        let mut rung = self.rung.lock();
        if !*rung {
            self.wake.wait_for(&mut rung, time);
        }
        *rung = false;
    }
}
