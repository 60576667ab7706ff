//! A disk that takes its time and forgets what was not synced when its node crashes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cluster::{LogDisk, LogDone};
use parking_lot::{Mutex, MutexGuard};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use storage::{FileId, Position, StreamId};
use tokio::sync::Notify;

/// A record of a group, as it would lie in the journal.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) stream: StreamId,
    pub(crate) index: u64,
    pub(crate) payload: Bytes,
}

/// What survives crashes: the durable records, and the state saved last.
#[derive(Debug, Default)]
pub(crate) struct Platter {
    pub(crate) records: Vec<Record>,
    pub(crate) saved: Option<Vec<u8>>,
    /// The machine as of the saved state, or as it was installed since.
    pub(crate) checkpoint: Vec<(u64, Bytes)>,
    /// The last entry of the machine that was installed last; 0 when none was.
    pub(crate) installed_index: u64,
}

impl Platter {
    /// The machine is saved as of this entry. What was installed is on the disk by itself and stays,
    /// also while the log does not know of it yet.
    pub(crate) fn save_machine(&mut self, entries: Vec<(u64, Bytes)>, up_to_index: u64) {
        let up_to = up_to_index.max(self.installed_index);
        self.checkpoint = entries;
        self.checkpoint.retain(|(index, _)| *index <= up_to);
    }

    /// The machine is another member's.
    pub(crate) fn install_machine(&mut self, entries: Vec<(u64, Bytes)>) {
        self.installed_index = entries.last().map_or(0, |(index, _)| *index);
        self.checkpoint = entries;
    }
}

/// A node's way to its platter, from a start to the crash that ends it.
#[derive(Clone)]
pub(crate) struct Life {
    platter: Arc<Mutex<Platter>>,
    ended: Arc<AtomicBool>,
}

impl Life {
    pub(crate) fn begin(platter: &Arc<Mutex<Platter>>) -> Self {
        Self {
            platter: Arc::clone(platter),
            ended: Arc::default(),
        }
    }

    /// Nothing that the node still does reaches the platter.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// The platter, unless the node has crashed.
    pub(crate) fn platter(&self) -> Option<MutexGuard<'_, Platter>> {
        let platter = self.platter.lock();
        (!self.ended.load(Ordering::Acquire)).then_some(platter)
    }
}

/// The disk of one life of a node.
pub(crate) struct SimDisk {
    life: Life,
    waiting: Mutex<VecDeque<(Record, LogDone)>>,
    arrived: Notify,
}

impl SimDisk {
    pub(crate) fn start(life: Life, seed: StdRng, sync_ms_max: u64) -> Arc<Self> {
        let disk = Arc::new(Self {
            life,
            waiting: Mutex::default(),
            arrived: Notify::new(),
        });
        let syncing = Arc::downgrade(&disk);
        tokio::spawn(async move {
            let mut dice = seed;
            loop {
                let Some(disk) = syncing.upgrade() else {
                    return;
                };
                let batch: Vec<_> = disk.waiting.lock().drain(..).collect();
                if batch.is_empty() {
                    let arrived = disk.arrived.notified();
                    let waited = tokio::time::timeout(Duration::from_millis(50), arrived);
                    let _ = waited.await;
                    continue;
                }
                drop(disk);
                let took = dice.random_range(0..=sync_ms_max);
                tokio::time::sleep(Duration::from_millis(took)).await;
                let Some(disk) = syncing.upgrade() else {
                    return;
                };
                disk.land(batch);
            }
        });
        disk
    }

    fn land(&self, batch: Vec<(Record, LogDone)>) {
        let mut calls = Vec::new();
        let Some(mut platter) = self.life.platter() else {
            return;
        };
        for (record, done) in batch {
            let at = Position {
                file: FileId(1),
                offset: platter.records.len() as u32,
                len: record.payload.len() as u32,
            };
            platter.records.push(record);
            calls.push((done, at));
        }
        drop(platter);
        for (done, at) in calls {
            done(Ok(Some(at)));
        }
    }
}

impl LogDisk for SimDisk {
    fn append(&self, stream: StreamId, index: u64, payload: Bytes, done: LogDone) {
        let record = Record {
            stream,
            index,
            payload,
        };
        self.waiting.lock().push_back((record, done));
        self.arrived.notify_one();
    }

    fn applied(&self, _index: u64, _last: u64) {}

    fn has_room(&self) -> bool {
        true
    }

    fn record_bytes_max(&self) -> u64 {
        1 << 20
    }
}

/// Dice of their own for a part of the run, so that the parts do not disturb each other.
pub(crate) fn dice_of(seed: &mut impl Rng) -> StdRng {
    rand::SeedableRng::seed_from_u64(seed.random())
}
