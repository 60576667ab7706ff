//! One journal for all who append on a node: records in, one write and one sync for all that waits,
//! tags out in order.
//!
//! Knows streams, indexes and bytes. The owner keeps the payloads it still needs; the journal forgets
//! them once they are durable.

mod batch;
pub(crate) mod check;
pub(crate) mod pool;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod sync_times;
mod waiting;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;

use self::pool::Pool;
use self::waiting::{Pending, PendingRecord, Waiting};
use self::writer::Writer;
pub(crate) use self::writer::write_end;
use crate::error::{AppendError, Poisoned, StorageError, guarded};
use crate::options::Options;
use crate::owner::FlushSink;
use crate::place::StreamId;

/// The bytes of one record, in one part or in several that lie one after the other on disk.
#[derive(Debug, Clone)]
pub enum Payload {
    /// One part.
    One(Bytes),
    /// Several parts.
    Many(Vec<Bytes>),
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::One(bytes)
    }
}

impl From<Vec<Bytes>> for Payload {
    fn from(parts: Vec<Bytes>) -> Self {
        Self::Many(parts)
    }
}

impl Payload {
    fn bytes(&self) -> u64 {
        match self {
            Self::One(bytes) => bytes.len() as u64,
            Self::Many(parts) => parts.iter().map(|part| part.len() as u64).sum(),
        }
    }

    fn crc(&self) -> u32 {
        match self {
            Self::One(bytes) => crc32c::crc32c(bytes),
            Self::Many(parts) => parts
                .iter()
                .fold(0, |crc, part| crc32c::crc32c_append(crc, part)),
        }
    }
}

/// What the journal is doing, for reports and pressure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalStatus {
    /// Payload bytes appended and not yet durable.
    pub waiting_bytes: u64,
    /// Bytes of the files that hold records: the one being written and the sealed ones.
    pub used_bytes: u64,
    /// Bytes of the files kept for recycling.
    pub free_bytes: u64,
    /// Full files whose live items are not in segments yet.
    pub sealed_waiting: usize,
    /// Whether the journal waits for such a file to be released before it can write on.
    pub starved: bool,
    /// Syncs of records since the start.
    pub syncs: u64,
    /// Records made durable since the start.
    pub records: u64,
}

/// A handle to the journal; clones are the same journal. `T` is what comes back with each record.
///
/// Appending never waits. What waits is bounded by the callers: they look at `has_room` before they take
/// more work on (settles and the like excepted, whose number is bounded by what is unacked).
pub struct Journal<T> {
    waiting: Arc<Waiting<T>>,
    pool: Arc<Pool>,
    record_bytes_max: u64,
    waiting_bytes_high: u64,
}

impl<T> Clone for Journal<T> {
    fn clone(&self) -> Self {
        Self {
            waiting: Arc::clone(&self.waiting),
            pool: Arc::clone(&self.pool),
            ..*self
        }
    }
}

impl<T> fmt::Debug for Journal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("waiting_bytes", &self.waiting.bytes())
            .finish()
    }
}

impl<T: Send + 'static> Journal<T> {
    /// Appends a record and returns at once. When it is durable, the tag comes back through the sink,
    /// in the order of appending over all streams. Indexes of a stream should rise; storage keeps
    /// the highest and reports it after a restart, but does not insist.
    pub fn append(
        &self,
        stream: StreamId,
        index: u64,
        payload: impl Into<Payload>,
        tag: T,
    ) -> Result<(), AppendError> {
        let payload = payload.into();
        let bytes = payload.bytes();
        if bytes > self.record_bytes_max {
            return Err(AppendError::TooLarge {
                bytes,
                bytes_max: self.record_bytes_max,
            });
        }
        // Summed here, so that appenders share the work and the journal thread only writes.
        let record = Some(PendingRecord {
            bytes,
            crc: payload.crc(),
            payload,
        });
        self.waiting.append(Pending {
            tag,
            stream,
            index,
            record,
        })
    }

    /// Takes a place in the order without being written: the tag comes back after all that were
    /// appended before. Alone it waits for no sync.
    pub fn append_marker(&self, stream: StreamId, index: u64, tag: T) -> Result<(), AppendError> {
        self.waiting.append(Pending {
            tag,
            stream,
            index,
            record: None,
        })
    }

    /// Whether less than `Options::waiting_bytes_high` waits. If not, publishers should be held.
    pub fn has_room(&self) -> bool {
        self.waiting.bytes() < self.waiting_bytes_high
    }

    /// Payload bytes appended and not yet durable.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting.bytes()
    }

    /// Largest payload that `append` takes.
    pub fn record_bytes_max(&self) -> u64 {
        self.record_bytes_max
    }

    /// A look at the journal.
    pub fn status(&self) -> JournalStatus {
        let pool = self.pool.status();
        JournalStatus {
            waiting_bytes: self.waiting.bytes(),
            used_bytes: pool.used_bytes,
            free_bytes: pool.free_bytes,
            sealed_waiting: pool.sealed,
            starved: pool.starved,
            syncs: self.waiting.syncs(),
            records: self.waiting.records(),
        }
    }

    /// Why the journal takes nothing any more, if it has failed.
    pub fn poisoned(&self) -> Option<Poisoned> {
        self.waiting.poisoned().cloned()
    }

    /// Highest index of the stream, markers and everything before the start included; 0 when there is
    /// none. No checkpoint covers a higher one.
    pub fn last_index(&self, stream: StreamId) -> u64 {
        self.waiting.last_index(stream)
    }

    /// Asks for the current file to be sealed although it is not full, so that what lives in it is
    /// flushed. Does nothing when the file holds no record.
    pub fn seal(&self) {
        self.waiting.request_seal();
    }
}

/// The journal as the rest of storage sees it, whatever its tags are.
pub(crate) trait Door: Send + Sync {
    /// Highest index of each stream.
    fn last_indexes(&self) -> Vec<(StreamId, u64)>;
    /// Takes no more; what waits is still written.
    fn close(&self);
    /// Storage failed elsewhere: the journal stops as if it had failed itself.
    fn poison(&self, error: &StorageError);
    fn poisoned(&self) -> Option<Poisoned>;
}

impl<T: Send + 'static> Door for Waiting<T> {
    fn last_indexes(&self) -> Vec<(StreamId, u64)> {
        Self::last_indexes(self)
    }

    fn close(&self) {
        Self::close(self);
    }

    fn poison(&self, error: &StorageError) {
        Self::poison(
            self,
            Poisoned {
                why: error.to_string().into(),
            },
        );
    }

    fn poisoned(&self) -> Option<Poisoned> {
        Self::poisoned(self).cloned()
    }
}

/// A journal that runs.
pub(crate) struct Started<T> {
    pub(crate) journal: Journal<T>,
    pub(crate) door: Arc<dyn Door>,
    pub(crate) thread: JoinHandle<()>,
}

/// Starts the journal thread.
pub(crate) fn start<T: Send + 'static>(
    options: &Options,
    pool: &Arc<Pool>,
    last: HashMap<StreamId, u64>,
    sink: Arc<dyn FlushSink<T>>,
) -> std::io::Result<Started<T>> {
    let waiting = Arc::new(Waiting::new(Arc::clone(&sink), last));
    let writer = Writer::new(Arc::clone(&waiting), Arc::clone(pool), sink);
    let door: Arc<dyn Door> = Arc::clone(&waiting) as Arc<dyn Door>;
    let thread_door = Arc::clone(&door);
    let thread = std::thread::Builder::new()
        .name("journal".to_owned())
        .spawn(move || {
            if let Err(error) = guarded(|| writer.run()) {
                thread_door.poison(&error);
            }
        })?;
    let journal = Journal {
        waiting,
        pool: Arc::clone(pool),
        record_bytes_max: options.record_bytes_max,
        waiting_bytes_high: options.waiting_bytes_high,
    };
    Ok(Started {
        journal,
        door,
        thread,
    })
}
