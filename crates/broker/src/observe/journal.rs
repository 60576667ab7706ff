//! What is written: the journal, the logs of replica groups, and what lives of it.

use broker_core::metadata::QueueId;
pub use storage::{SYNC_CLASSES_US, SyncTimes};

use crate::broker::Broker;
use crate::queue::Lane;

/// The journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalView {
    /// Bytes of its files, those kept for recycling too.
    pub bytes: u64,
    /// How long its syncs took, each with its write.
    pub sync_times: SyncTimes,
}

/// What outlived the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredView {
    /// Segment files; those that were not looked into since the start count here only.
    pub segments: u64,
    /// Bytes of messages that live in them.
    pub live_bytes: u64,
    /// Bytes of messages that are gone and still take room.
    pub dead_bytes: u64,
}

/// The log of a queue's replica group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogView {
    /// The last entry written.
    pub last_index: u64,
    /// The last entry that is committed and applied here.
    pub applied_index: u64,
    /// The last entry whose effects are in the queue's saved state; 0 before there is one.
    pub saved_index: u64,
    /// Segment files of the queue.
    pub segments: u64,
}

impl Broker {
    /// The journal at this moment.
    pub fn journal(&self) -> JournalView {
        let storage = &self.node().storage;
        JournalView {
            bytes: storage.disk_usage().journal_bytes,
            sync_times: storage.sync_times(),
        }
    }

    /// All that lies in segments.
    pub fn stored(&self) -> StoredView {
        let usage = self.node().storage.segments().usage_of_all();
        StoredView {
            segments: usage.segments,
            live_bytes: usage.live_bytes,
            dead_bytes: usage.dead_bytes,
        }
    }

    /// Where the log that a durable queue is written to stands; `None` for one that is in memory
    /// only.
    pub fn log_of(&self, queue: QueueId) -> Option<LogView> {
        let node = self.node();
        let queue = node.queue(queue)?;
        let Lane::Group(group) = queue.lane else {
            return None;
        };
        let status = node.groups.status(group)?;
        let (storage, store) = (&node.storage, queue.store());
        Some(LogView {
            last_index: status.last_index,
            applied_index: status.applied_index,
            saved_index: storage.checkpoints().covered(store).unwrap_or(0),
            segments: storage.segments().usage(store).segments,
        })
    }
}
