//! The journal as a replica group's log sees it: records in, a call for each when it is durable.
//!
//! Knows the journal and the commit threads; not what a record says.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use storage::{Journal, Position, StreamId};

use crate::commit::{CommitShards, Door, Tag};
use crate::machine::Abandoned;
use crate::raft::{LogDisk, LogDone, control_stream};

/// The way of one group's records into the journal.
pub struct JournalDisk {
    journal: Journal<Tag>,
    shard: usize,
    /// Called in the order of appending; bounded by what openraft has in flight.
    waiting: Mutex<VecDeque<LogDone>>,
    /// Machine index of the last applied entry.
    applied: AtomicU64,
    /// Machine index of the last entry written.
    last: AtomicU64,
    this: Weak<Self>,
}

impl JournalDisk {
    /// To be done for every group before the owner is attached to storage. `applied` is what the
    /// group's machine has from its checkpoints.
    pub fn open(
        stream: StreamId,
        applied: u64,
        journal: Journal<Tag>,
        commits: &CommitShards,
    ) -> Arc<Self> {
        let last = journal.last_index(stream);
        let disk = Arc::new_cyclic(|this: &Weak<Self>| Self {
            journal,
            shard: commits.shard_of(stream),
            waiting: Mutex::default(),
            applied: AtomicU64::new(applied),
            last: AtomicU64::new(last),
            this: Weak::clone(this),
        });
        for stream in [stream, control_stream(stream)] {
            let door: Weak<Self> = Arc::downgrade(&disk);
            commits.register(stream, door);
        }
        disk
    }

    fn tag(&self) -> Option<Tag> {
        let door = self.this.upgrade()?;
        Some(Tag {
            door,
            shard: self.shard,
        })
    }
}

impl LogDisk for JournalDisk {
    fn append(&self, stream: StreamId, index: u64, payload: Bytes, done: LogDone) {
        // Under the lock, so that the calls wait in the order of the journal.
        let mut waiting = self.waiting.lock();
        let appended = match self.tag() {
            Some(tag) => self.journal.append(stream, index, payload, tag),
            None => Err(storage::AppendError::Closed),
        };
        match appended {
            Ok(()) => waiting.push_back(done),
            Err(error) => {
                drop(waiting);
                done(Err(io::Error::other(error)));
            }
        }
    }

    fn applied(&self, index: u64, last: u64) {
        self.applied.store(index, Ordering::Release);
        self.last.store(last, Ordering::Release);
    }

    fn has_room(&self) -> bool {
        self.journal.has_room()
    }

    fn record_bytes_max(&self) -> u64 {
        self.journal.record_bytes_max()
    }
}

impl Door for JournalDisk {
    fn committed(&self, _index: u64, at: Option<Position>) {
        let done = self.waiting.lock().pop_front();
        if let Some(done) = done {
            done(Ok(at));
        }
    }

    fn stop(&self, _why: &Arc<str>) {}

    fn abandon(&self, _why: Abandoned) {
        let waiting: Vec<_> = self.waiting.lock().drain(..).collect();
        for done in waiting {
            done(Err(io::Error::other("the journal takes no more")));
        }
    }

    /// With everything applied, indexes of entries that were replaced by others are no hindrance.
    fn applied_index(&self) -> u64 {
        let applied = self.applied.load(Ordering::Acquire);
        match applied >= self.last.load(Ordering::Acquire) {
            true => u64::MAX,
            false => applied,
        }
    }
}
