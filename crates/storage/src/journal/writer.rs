//! The journal thread: takes all that waits, writes it in one go, syncs once, reports it, and again.
//!
//! The only writer of journal files. Knows records and their order; not what they mean, nor who flushes
//! the files that it fills.

use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::batch::Batch;
use super::pool::{FreshFile, Pool, SealedFile};
use super::record::{self, RecordHeader};
use super::waiting::{Pending, PendingRecord, Taken, Waiting};
use crate::disk::{DiskFile, write_all_at};
use crate::error::{During, Result, StorageError};
use crate::owner::{FlushSink, Flushed};
use crate::place::{FileId, Position, StreamId};

/// A file that was never written to its end grows by steps of this, zeros beyond what is needed, so
/// that most syncs find the length unchanged and need no commit of the file system's own journal.
/// A recycled file has its length already. So nothing is zeroed before it is needed, and a broker that
/// stores little uses little.
const GROWTH_BYTES: u64 = 1 << 20;

/// Zeros go to the system in pages, one call each. One large call makes the kernel keep the stretch as one
/// large piece of its cache, and from then on each small record counts as that whole piece written:
/// a mebibyte for some hundred bytes, in what the process is charged and slowed down for.
static ZEROS: [u8; 4096] = [0; 4096];

pub(super) struct Writer<T> {
    waiting: Arc<Waiting<T>>,
    pool: Arc<Pool>,
    sink: Arc<dyn FlushSink<T>>,
    /// Taken and not written yet.
    queue: VecDeque<Pending<T>>,
    active: Option<Active>,
    batch: Batch,
    /// What the sync of `batch` completes, markers among it.
    done: Vec<Flushed<T>>,
}

/// The file that is being written.
struct Active {
    fresh: FreshFile,
    /// Where the next record begins.
    end: u64,
    /// Everything before this is durable. Nothing is in a fresh file, not even its header.
    synced: u64,
    last: HashMap<StreamId, u64>,
}

impl<T: Send + 'static> Writer<T> {
    pub(super) fn new(
        waiting: Arc<Waiting<T>>,
        pool: Arc<Pool>,
        sink: Arc<dyn FlushSink<T>>,
    ) -> Self {
        Self {
            waiting,
            pool,
            sink,
            queue: VecDeque::new(),
            active: None,
            batch: Batch::default(),
            done: Vec::new(),
        }
    }

    /// Runs until the journal is closed and empty, or fails; answers the failure.
    pub(super) fn run(mut self) -> Result<()> {
        loop {
            match self.waiting.take(&mut self.queue) {
                Taken::Records => self.turn()?,
                Taken::SealRequest => self.seal()?,
                // The end mark makes a restart after a clean stop check every record strictly.
                Taken::Closed => return self.active.map_or(Ok(()), |active| active.write_end()),
                Taken::Poisoned => return Ok(()),
            }
        }
    }

    /// One write, one sync, one report; then a next file if there is a record that needs it.
    fn turn(&mut self) -> Result<()> {
        while let Some(pending) = self
            .queue
            .pop_front_if(|next| fits(&self.active, &self.batch, next))
        {
            self.place(pending);
        }
        self.write()?;
        self.report();
        let Some(blocked_bytes) = self.queue.front().and_then(Pending::file_bytes) else {
            return Ok(());
        };
        self.seal()?;
        self.open(blocked_bytes)
    }

    fn place(&mut self, pending: Pending<T>) {
        let Pending {
            tag,
            stream,
            index,
            record,
        } = pending;
        let at = record.and_then(|record| self.place_record(stream, index, record));
        self.done.push(Flushed {
            tag,
            stream,
            index,
            at,
        });
    }

    fn place_record(
        &mut self,
        stream: StreamId,
        index: u64,
        record: PendingRecord,
    ) -> Option<Position> {
        let active = self.active.as_mut()?;
        let last = active.last.entry(stream).or_default();
        *last = index.max(*last);
        let offset = active.end + self.batch.bytes() + record::RECORD_HEADER_BYTES;
        let len = offset_u32(record.bytes);
        let payload_crc = record.crc;
        let synced = offset_u32(active.synced);
        let header = RecordHeader {
            stream,
            index,
            len,
            payload_crc,
            synced,
            end: false,
        };
        self.batch.push(active.fresh.id, &header, record.payload);
        Some(Position {
            file: active.fresh.id,
            offset: offset_u32(offset),
            len,
        })
    }

    fn write(&mut self) -> Result<()> {
        let bytes = self.batch.bytes();
        let Some(active) = self.active.as_mut().filter(|_| bytes > 0) else {
            return Ok(());
        };
        let end = active.end + bytes;
        let grown = active.grown_to(end);
        let fresh = &mut active.fresh;
        let mut slices = self.batch.slices();
        let began = Instant::now();
        write_all_at(&*fresh.file, &mut slices, active.end).during("write", &fresh.path)?;
        if grown > fresh.zeroed {
            write_zeros(fresh, end, grown)?;
        }
        fresh.file.sync().during("sync", &fresh.path)?;
        self.pool.sync_clock.took(began.elapsed());
        fresh.zeroed = grown;
        active.end = end;
        active.synced = end;
        Ok(())
    }

    fn report(&mut self) {
        if self.batch.bytes() > 0 {
            let records = self.done.iter().filter_map(|flushed| flushed.at);
            let (count, bytes) =
                records.fold((0, 0), |(n, bytes), at| (n + 1, bytes + u64::from(at.len)));
            self.waiting.synced(count, bytes);
            self.batch.clear();
        }
        if !self.done.is_empty() {
            self.sink.flushed(&mut self.done);
            self.done.clear();
        }
    }

    /// Ends the file that is being written, if any, and hands it on.
    fn seal(&mut self) -> Result<()> {
        let Some(active) = self.active.take() else {
            return Ok(());
        };
        active.write_end()?;
        let last = active.last.into_iter().collect();
        self.pool.seal(SealedFile {
            id: active.fresh.id,
            capacity: active.fresh.capacity,
            last,
        });
        Ok(())
    }

    fn open(&mut self, record_bytes: u64) -> Result<()> {
        // Stopped while it waited for room: nothing that is queued was promised to anybody.
        let stopped = StorageError::WrongState("shut down while its journal was full");
        let fresh = self.pool.take(record_bytes)?.ok_or(stopped)?;
        self.active = Some(Active {
            fresh,
            end: record::FILE_HEADER_BYTES,
            synced: 0,
            last: HashMap::new(),
        });
        Ok(())
    }
}

impl Active {
    /// Length that the file has once it is written to `end`.
    fn grown_to(&self, end: u64) -> u64 {
        if end <= self.fresh.zeroed {
            return self.fresh.zeroed;
        }
        end.next_multiple_of(GROWTH_BYTES)
            .min(self.fresh.capacity)
            .max(end)
    }

    fn write_end(&self) -> Result<()> {
        let FreshFile {
            id,
            path,
            file,
            capacity,
            ..
        } = &self.fresh;
        write_end(&**file, path, *id, *capacity, self.end)
    }
}

fn fits<T>(active: &Option<Active>, batch: &Batch, next: &Pending<T>) -> bool {
    let Some(bytes) = next.file_bytes() else {
        return true;
    };
    // With room for the end mark: it vouches for the last record.
    let bytes = bytes + record::RECORD_HEADER_BYTES;
    active
        .as_ref()
        .is_some_and(|active| active.end + batch.bytes() + bytes <= active.fresh.capacity)
}

/// Zeros from `at` to `end`, each call within one page.
fn write_zeros(fresh: &FreshFile, mut at: u64, end: u64) -> Result<()> {
    let page_bytes = ZEROS.len() as u64;
    while at < end {
        let len = (page_bytes - at % page_bytes).min(end - at);
        let zeros = ZEROS.get(..len as usize).unwrap_or(&ZEROS);
        let mut parts = [IoSlice::new(zeros)];
        write_all_at(&*fresh.file, &mut parts, at).during("write", &fresh.path)?;
        at += len;
    }
    Ok(())
}

/// Files stay below 4 GiB by the bounds of `Options`.
fn offset_u32(offset: u64) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// Marks, durably, that nothing follows `end`. A file without room for the mark needs none.
pub(crate) fn write_end(
    file: &dyn DiskFile,
    path: &Path,
    id: FileId,
    capacity: u64,
    end: u64,
) -> Result<()> {
    if end + record::RECORD_HEADER_BYTES > capacity {
        return Ok(());
    }
    let header = RecordHeader {
        stream: StreamId(0),
        index: 0,
        len: 0,
        payload_crc: 0,
        synced: offset_u32(end),
        end: true,
    };
    let mut mark = Vec::new();
    record::encode_record_header(&mut mark, id, &header);
    write_all_at(file, &mut [IoSlice::new(&mark)], end).during("write", path)?;
    file.sync().during("sync", path)
}
