//! A sink that keeps what was reported.

use std::sync::Arc;

use parking_lot::Mutex;
use storage::{FlushSink, Flushed, Poisoned};

use super::disk::SimulatedDisk;

#[derive(Debug, Default)]
pub struct Collected {
    pub flushed: Mutex<Vec<Flushed<u64>>>,
    pub poisoned: Mutex<Option<String>>,
    /// Where each report is noted by its tag, so that a crash point tells what was promised before it.
    pub disk: Option<SimulatedDisk>,
}

impl Collected {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn noting(disk: &SimulatedDisk) -> Arc<Self> {
        Arc::new(Self {
            disk: Some(disk.clone()),
            ..Self::default()
        })
    }

    pub fn tags(&self) -> Vec<u64> {
        self.flushed
            .lock()
            .iter()
            .map(|flushed| flushed.tag)
            .collect()
    }
}

impl FlushSink<u64> for Collected {
    fn flushed(&self, done: &mut Vec<Flushed<u64>>) {
        if let (Some(disk), Some(last)) = (&self.disk, done.last()) {
            disk.note(last.tag);
        }
        self.flushed.lock().append(done);
    }

    fn poisoned(&self, why: &Poisoned) {
        let before = self.poisoned.lock().replace(why.to_string());
        assert_eq!(before, None, "told twice");
    }
}
