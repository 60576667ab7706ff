//! Durable bytes: one journal for all who append, segments for what outlives its journal file,
//! checkpoints for what was decided, and the recovery of all three.
//!
//! Knows bytes, streams and items. Must not know AMQP, queues, Raft, or what a payload means.

mod error;
mod options;
mod place;

mod bell;
mod disk;
mod owner;

mod background;
mod check;
mod checkpoint;
mod journal;
mod moving;
mod page_out;
mod recovery;
mod room;
mod segment;
mod storage;

pub use error::{AppendError, Poisoned, StorageError};
pub use options::{Options, RECORD_BYTES_MAX};
pub use place::{FileId, Location, Position, StoreId, StreamId, Tier};

pub use disk::{Disk, DiskFile, DiskLock, RealDisk, WRITE_PARTS_MAX};
pub use owner::{FlushSink, Flushed, LiveItem, Owner};

pub use check::{Checked, Damage, Found, check, check_on};
pub use checkpoint::{Checkpoint, Checkpoints};
pub use journal::sync_times::{SYNC_CLASSES_US, SyncTimes};
pub use journal::{Journal, JournalStatus, Payload};
pub use recovery::{Recovery, Replayed, ReplayedRecord};
pub use segment::{
    Item, RecoveredItem, RecoveredItems, Run, SegmentSpan, SegmentStore, SegmentUsage, StoreUsage,
};
pub use storage::{DiskUsage, Storage};
