//! What a data directory holds after a restart, and the replay of its journal.
//!
//! Finds and checks; decides nothing: the owner compares indexes with what its checkpoints cover.
//! Everything here may be cut short by a kill and done again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::disk::Disk;
use crate::error::{During, Result, StorageError};
use crate::journal::pool::{self, FreeFile, SealedFile};
use crate::journal::scan::{Age, Scanner};
use crate::journal::write_end;
use crate::place::{FileId, Position, StoreId, StreamId};
use crate::segment::SegmentStore;

const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// A record of the journal, read back.
#[derive(Debug, Clone)]
pub struct ReplayedRecord {
    /// Where its payload lies; the file is flushed like any sealed one after the start.
    pub at: Position,
    /// Whose it is.
    pub stream: StreamId,
    /// Its index in the stream.
    pub index: u64,
    /// The payload, in memory of its own.
    pub payload: Bytes,
}

/// A data directory that is open but not running: what was saved can be looked at, then the journal is
/// replayed.
#[derive(Debug)]
pub struct Recovery {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segments: Arc<SegmentStore>,
    checkpoints: Arc<Checkpoints>,
}

/// The proof that the journal was replayed, for `Storage::start`.
#[derive(Debug)]
pub struct Replayed {
    pub(crate) next: FileId,
    pub(crate) free: Vec<FreeFile>,
    pub(crate) sealed: Vec<SealedFile>,
    pub(crate) last: HashMap<StreamId, u64>,
    records: u64,
}

impl Recovery {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        segments: Arc<SegmentStore>,
        checkpoints: Arc<Checkpoints>,
    ) -> Self {
        Self {
            disk,
            dir,
            segments,
            checkpoints,
        }
    }

    /// Every store that has a checkpoint or a segment, in order. What no owner knows any more should be
    /// dropped.
    pub fn stores(&self) -> Vec<StoreId> {
        let mut stores: BTreeSet<_> = self.segments.stores().into_iter().collect();
        stores.extend(self.checkpoints.stores());
        stores.into_iter().collect()
    }

    /// The last durable state of a store.
    pub fn checkpoint(&self, store: StoreId) -> Result<Option<Checkpoint>> {
        self.checkpoints.get(store)
    }

    /// Visits every record of the journal, in order. A torn tail of the newest file is cut; a bad
    /// record elsewhere is an error that names file and offset. An error of the visitor ends the replay.
    pub fn replay<E: From<StorageError>>(
        self,
        mut visit: impl FnMut(ReplayedRecord) -> std::result::Result<(), E>,
    ) -> std::result::Result<Replayed, E> {
        let (used, free) = self.files()?;
        let mut replayed = Replayed {
            next: FileId(1),
            free: Vec::new(),
            sealed: Vec::new(),
            last: self.checkpoints.last_indexes(),
            records: 0,
        };
        let newest = used.last().copied();
        let named = used.iter().chain(&free).max();
        replayed.next = FileId(named.map_or(1, |id| id.0 + 1));
        let mut progress = Progress::new(used.len());
        for id in used {
            let age = if Some(id) == newest {
                Age::Newest
            } else {
                Age::Older
            };
            self.replay_file(id, age, &mut replayed, &mut |record| {
                progress.record(&record);
                visit(record)
            })?;
            progress.files_done += 1;
        }
        for id in free {
            replayed
                .free
                .push(pool::found_free(&*self.disk, &self.dir, id)?);
        }
        progress.finished();
        Ok(replayed)
    }

    /// Generations in use and generations of free files, each in order.
    fn files(&self) -> Result<(Vec<FileId>, Vec<FileId>)> {
        let names = self.disk.list(&self.dir).during("list", &self.dir)?;
        let mut files: Vec<_> = names
            .iter()
            .filter_map(|name| pool::parse_name(name))
            .collect();
        files.sort_unstable();
        let (used, free): (Vec<_>, Vec<_>) = files.into_iter().partition(|(_, used)| *used);
        let ids = |files: Vec<(FileId, bool)>| files.into_iter().map(|(id, _)| id).collect();
        Ok((ids(used), ids(free)))
    }

    fn replay_file<E: From<StorageError>>(
        &self,
        id: FileId,
        age: Age,
        replayed: &mut Replayed,
        visit: &mut impl FnMut(ReplayedRecord) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let path = pool::used_path(&self.dir, id);
        let file = self.disk.open(&path).during("open", &path)?;
        let scan = Scanner::open(&*file, &path, id, age)?.scan(visit)?;
        let Some(scan) = scan.filter(|scan| scan.records > 0) else {
            replayed
                .free
                .push(pool::free_empty(&*self.disk, &self.dir, id)?);
            return Ok(());
        };
        if age == Age::Newest {
            // Read back, but perhaps only from the page cache of a process that was killed.
            file.sync().during("sync", &path)?;
            self.disk.sync_dir(&self.dir).during("sync", &self.dir)?;
        }
        if !scan.ended {
            // What lies behind may be the torn rest of a write. The mark makes it meaningless for
            // good, before a younger file makes this one count as complete.
            write_end(&*file, &path, id, scan.capacity, scan.end)?;
        }
        replayed.records += scan.records;
        for (stream, index) in &scan.last {
            let last = replayed.last.entry(*stream).or_default();
            *last = (*index).max(*last);
        }
        let last = scan.last.into_iter().collect();
        replayed.sealed.push(SealedFile {
            id,
            capacity: scan.capacity,
            last,
        });
        Ok(())
    }
}

impl Replayed {
    /// Records that were visited.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Highest index of the stream that was ever used, as far as anything durable depends on it.
    pub fn last_index(&self, stream: StreamId) -> u64 {
        self.last.get(&stream).copied().unwrap_or(0)
    }

    /// `last_index` of all streams that have one, in order.
    pub fn last_indexes(&self) -> BTreeMap<StreamId, u64> {
        self.last
            .iter()
            .map(|(stream, index)| (*stream, *index))
            .collect()
    }
}

/// A log line each second while a long replay runs.
struct Progress {
    files: usize,
    files_done: usize,
    records: u64,
    bytes: u64,
    started: Instant,
    told: Instant,
}

impl Progress {
    fn new(files: usize) -> Self {
        let started = Instant::now();
        Self {
            files,
            files_done: 0,
            records: 0,
            bytes: 0,
            started,
            told: started,
        }
    }

    fn record(&mut self, record: &ReplayedRecord) {
        self.records += 1;
        self.bytes += u64::from(record.at.len);
        // The clock is asked seldom; a thousand records take well below a second.
        if self.records.is_multiple_of(1024) && self.told.elapsed() >= PROGRESS_EVERY {
            self.told = Instant::now();
            tracing::info!(
                records = self.records,
                bytes = self.bytes,
                percent = self.files_done * 100 / self.files.max(1),
                "replaying the journal"
            );
        }
    }

    fn finished(&self) {
        tracing::info!(
            records = self.records,
            bytes = self.bytes,
            files = self.files,
            elapsed_ms = self.started.elapsed().as_millis() as u64,
            "journal replayed"
        );
    }
}
