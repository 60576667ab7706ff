//! What each journal file in use holds: which queues have commands in it, and how far each
//! stream's log goes in it. Kept from the time a batch is applied until its file is recycled.

use std::collections::{BTreeMap, BTreeSet};

use broker_core::metadata::QueueId;
use parking_lot::Mutex;
use storage::{FileId, Position, StoreId, StreamId};

/// The store of the metadata; queue ids never get there.
pub(crate) const METADATA_STORE: StoreId = StoreId(u64::MAX);

#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Bounded by the journal's number of files.
    notes: Mutex<BTreeMap<FileId, Notes>>,
    /// The file that is being flushed: it was asked about last.
    flushing: Mutex<FlushedUpTo>,
}

/// How far the logs go in the files that are flushed or being flushed.
#[derive(Debug, Default)]
struct FlushedUpTo {
    indexes: BTreeMap<StreamId, u64>,
}

#[derive(Debug, Default)]
struct Notes {
    stores: BTreeSet<u64>,
    /// First and last index of each stream in the file.
    indexes: BTreeMap<StreamId, (u64, u64)>,
}

impl Files {
    /// A batch at this place has commands for the queue.
    pub(crate) fn note(&self, at: Option<Position>, stream: StreamId, index: u64, queue: QueueId) {
        self.note_store(at, stream, index, StoreId(queue.0));
    }

    pub(crate) fn note_store(
        &self,
        at: Option<Position>,
        stream: StreamId,
        index: u64,
        store: StoreId,
    ) {
        let Some(at) = at else { return };
        let mut notes = self.notes.lock();
        let notes = notes.entry(at.file).or_default();
        notes.stores.insert(store.0);
        let (first, last) = notes.indexes.entry(stream).or_insert((index, index));
        *first = (*first).min(index);
        *last = (*last).max(index);
    }

    /// The file is being flushed: the stores with commands in it.
    pub(crate) fn flushing(&self, file: FileId) -> Vec<StoreId> {
        let notes = self.notes.lock();
        let Some(notes) = notes.get(&file) else {
            return Vec::new();
        };
        let mut flushing = self.flushing.lock();
        for (stream, (_, last)) in &notes.indexes {
            let flushed = flushing.indexes.entry(*stream).or_default();
            *flushed = (*flushed).max(*last);
        }
        notes.stores.iter().copied().map(StoreId).collect()
    }

    /// The last index of the stream in the files flushed so far, the current one included.
    pub(crate) fn flushed(&self, stream: StreamId) -> u64 {
        self.flushing
            .lock()
            .indexes
            .get(&stream)
            .copied()
            .unwrap_or(0)
    }

    /// First and last index of a stream in the file.
    pub(crate) fn indexes(&self, file: FileId, stream: StreamId) -> Option<(u64, u64)> {
        self.notes.lock().get(&file)?.indexes.get(&stream).copied()
    }

    pub(crate) fn forget(&self, file: FileId) {
        self.notes.lock().remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_its_stores_and_how_far_each_stream_goes() {
        let files = Files::default();
        let at = Some(Position {
            file: FileId(3),
            offset: 0,
            len: 1,
        });
        files.note(at, StreamId(1), 5, QueueId(10));
        files.note(at, StreamId(1), 8, QueueId(11));
        files.note(at, StreamId(2), 6, QueueId(10));
        files.note(None, StreamId(1), 9, QueueId(12));
        assert_eq!(files.flushing(FileId(3)), [StoreId(10), StoreId(11)]);
        assert_eq!(files.flushed(StreamId(1)), 8);
        assert_eq!(files.indexes(FileId(3), StreamId(1)), Some((5, 8)));
        files.forget(FileId(3));
        assert!(files.flushing(FileId(3)).is_empty());
        assert_eq!(files.flushed(StreamId(1)), 8);
    }
}
