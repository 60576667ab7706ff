//! The files of the journal: which are free, which are full and wait to be flushed, and how many may be.
//!
//! Shared by the journal thread, which takes files, and the background thread, which gives them back.
//! Knows names and sizes, not what is inside.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::record;
use super::sync_times::SyncClock;
use crate::bell::Bell;
use crate::disk::{Disk, DiskFile, write_all_at};
use crate::error::{During, Result};
use crate::options::Options;
use crate::place::{FileId, StreamId};

const IN_USE: &str = "journal";
const FREE: &str = "free";

/// A full file whose live items are not in segments yet.
#[derive(Debug, Clone)]
pub(crate) struct SealedFile {
    pub(crate) id: FileId,
    pub(crate) capacity: u64,
    /// The highest index of each stream that has records in it.
    pub(crate) last: Vec<(StreamId, u64)>,
}

/// A file that holds nothing of value. Named by the last generation that it held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FreeFile {
    pub(crate) id: FileId,
    pub(crate) bytes: u64,
}

/// A file to be written from its start.
#[derive(Debug)]
pub(crate) struct FreshFile {
    pub(crate) id: FileId,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) capacity: u64,
    /// Bytes that exist on disk, so that writing over them changes no length.
    pub(crate) zeroed: u64,
}

#[derive(Debug)]
pub(crate) struct Pool {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    file_bytes: u64,
    bytes_max: u64,
    bytes_kept: u64,
    files: Mutex<Files>,
    room: Condvar,
    sealed_bell: Arc<Bell>,
    pub(crate) sync_clock: SyncClock,
}

#[derive(Debug)]
struct Files {
    next: FileId,
    free: Vec<FreeFile>,
    sealed: VecDeque<SealedFile>,
    /// Capacities of the sealed files and the one being written.
    used_bytes: u64,
    starved: bool,
    /// No file is given out any more.
    stopped: bool,
    /// No free file is kept.
    frugal: bool,
}

/// What of the pool is worth a report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolStatus {
    pub(crate) used_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) sealed: usize,
    pub(crate) starved: bool,
}

/// Path of a file that holds records.
pub(crate) fn used_path(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.{IN_USE}"))
}

fn free_path(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.{FREE}"))
}

/// The generation and whether it is in use, for a file name of ours.
pub(crate) fn parse_name(name: &str) -> Option<(FileId, bool)> {
    let (id, kind) = name.split_once('.')?;
    let id = FileId(
        u64::from_str_radix(id, 16)
            .ok()
            .filter(|_| id.len() == 16)?,
    );
    match kind {
        IN_USE => Some((id, true)),
        FREE => Some((id, false)),
        _ => None,
    }
}

impl Pool {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        options: &Options,
        next: FileId,
        free: Vec<FreeFile>,
        sealed: Vec<SealedFile>,
        sealed_bell: Arc<Bell>,
    ) -> Result<Self> {
        let used_bytes = sealed.iter().map(|file| file.capacity).sum();
        let pool = Self {
            disk,
            dir,
            file_bytes: options.journal_file_bytes,
            bytes_max: options.journal_bytes_max,
            bytes_kept: options.journal_bytes_kept,
            files: Mutex::new(Files {
                next,
                free: Vec::new(),
                sealed: sealed.into(),
                used_bytes,
                starved: false,
                stopped: false,
                frugal: false,
            }),
            room: Condvar::new(),
            sealed_bell,
            sync_clock: SyncClock::default(),
        };
        for file in free {
            pool.keep_or_remove(&mut pool.files.lock(), file)?;
        }
        Ok(pool)
    }

    /// A file for records of at least `record_bytes` in all. Waits until the cap allows one more;
    /// `None` when the pool is stopped before that.
    pub(crate) fn take(&self, record_bytes: u64) -> Result<Option<FreshFile>> {
        let capacity = self
            .file_bytes
            .max(record::FILE_HEADER_BYTES + record_bytes + record::RECORD_HEADER_BYTES);
        let mut files = self.files.lock();
        // A record larger than all files together goes when it is alone, so that it goes at all.
        while files.used_bytes + capacity > self.bytes_max && files.used_bytes > 0 {
            if files.stopped {
                return Ok(None);
            }
            files.starved = true;
            self.sealed_bell.ring();
            self.room.wait(&mut files);
        }
        files.starved = false;
        let id = files.next;
        files.next = FileId(id.0 + 1);
        files.used_bytes += capacity;
        let recycled = files.free.pop();
        while files.free_bytes() + files.used_bytes > self.bytes_max {
            let Some(surplus) = files.free.pop() else {
                break;
            };
            self.remove(surplus)?;
        }
        drop(files);
        self.prepare(id, capacity, recycled).map(Some)
    }

    fn prepare(&self, id: FileId, capacity: u64, recycled: Option<FreeFile>) -> Result<FreshFile> {
        let path = used_path(&self.dir, id);
        let (file, zeroed) = match recycled {
            Some(free) => {
                let from = free_path(&self.dir, free.id);
                self.disk.rename(&from, &path).during("rename", &from)?;
                (self.disk.open(&path).during("open", &path)?, free.bytes)
            }
            None => (self.disk.create(&path).during("create", &path)?, 0),
        };
        // Before the first byte: a recycled file whose old name came back must still hold its old
        // records. And no record may be reported durable in a file whose name is not.
        self.disk.sync_dir(&self.dir).during("sync", &self.dir)?;
        let header = record::encode_file_header(id, capacity);
        write_all_at(&*file, &mut [std::io::IoSlice::new(&header)], 0).during("write", &path)?;
        Ok(FreshFile {
            id,
            path,
            file,
            capacity,
            zeroed,
        })
    }

    /// The file is full and durable: the background thread may flush it.
    pub(crate) fn seal(&self, file: SealedFile) {
        self.files.lock().sealed.push_back(file);
        self.sealed_bell.ring();
    }

    /// The oldest sealed file, if it is time to flush it: there are more than may be kept, or the journal
    /// waits for one.
    pub(crate) fn oldest_due(&self) -> Option<SealedFile> {
        let files = self.files.lock();
        let sealed_bytes: u64 = files.sealed.iter().map(|file| file.capacity).sum();
        let is_due = sealed_bytes > self.bytes_kept || files.starved;
        files.sealed.front().filter(|_| is_due).cloned()
    }

    /// The oldest sealed file holds nothing of value any more.
    pub(crate) fn release_oldest(&self) -> Result<()> {
        let mut files = self.files.lock();
        let Some(sealed) = files.sealed.pop_front() else {
            return Ok(());
        };
        let from = used_path(&self.dir, sealed.id);
        let to = free_path(&self.dir, sealed.id);
        // Not synced: if the old name comes back, its records are found covered by the checkpoints.
        self.disk.rename(&from, &to).during("rename", &from)?;
        files.used_bytes -= sealed.capacity;
        let bytes = self
            .disk
            .open(&to)
            .and_then(|file| file.len())
            .during("open", &to)?;
        self.keep_or_remove(
            &mut files,
            FreeFile {
                id: sealed.id,
                bytes,
            },
        )?;
        self.room.notify_all();
        Ok(())
    }

    fn keep_or_remove(&self, files: &mut Files, file: FreeFile) -> Result<()> {
        let fits = files.used_bytes + files.free_bytes() + self.file_bytes <= self.bytes_max;
        if !fits || files.frugal || file.bytes > self.file_bytes {
            return self.remove(file);
        }
        files.free.push(file);
        Ok(())
    }

    fn remove(&self, file: FreeFile) -> Result<()> {
        let path = free_path(&self.dir, file.id);
        self.disk.remove(&path).during("remove", &path)
    }

    /// Whether to keep no free files: the disk is short of room.
    pub(crate) fn be_frugal(&self, frugal: bool) -> Result<()> {
        let mut files = self.files.lock();
        files.frugal = frugal;
        while let Some(free) = files.free.pop_if(|_| frugal) {
            self.remove(free)?;
        }
        Ok(())
    }

    /// Whoever waits for a file gets none.
    pub(crate) fn stop(&self) {
        self.files.lock().stopped = true;
        self.room.notify_all();
    }

    pub(crate) fn status(&self) -> PoolStatus {
        let files = self.files.lock();
        PoolStatus {
            used_bytes: files.used_bytes,
            free_bytes: files.free_bytes(),
            sealed: files.sealed.len(),
            starved: files.starved,
        }
    }
}

impl Files {
    fn free_bytes(&self) -> u64 {
        self.free.iter().map(|file| file.bytes).sum()
    }
}

/// Makes a file without records a free one; answers it.
pub(crate) fn free_empty(disk: &dyn Disk, dir: &Path, id: FileId) -> Result<FreeFile> {
    let from = used_path(dir, id);
    let to = free_path(dir, id);
    disk.rename(&from, &to).during("rename", &from)?;
    let bytes = disk
        .open(&to)
        .and_then(|file| file.len())
        .during("open", &to)?;
    Ok(FreeFile { id, bytes })
}

/// Length of a free file found at start.
pub(crate) fn found_free(disk: &dyn Disk, dir: &Path, id: FileId) -> Result<FreeFile> {
    let path = free_path(dir, id);
    let bytes = disk
        .open(&path)
        .and_then(|file| file.len())
        .during("open", &path)?;
    Ok(FreeFile { id, bytes })
}
