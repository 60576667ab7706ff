//! A disk that waits for room instead of failing while the file system is full.
//!
//! A write that found no room has promised nothing, so it may be tried again; a failed sync never is.
//! Knows calls and their errors; not what is written. Before the storage runs, and when it is being
//! shut down, a full disk is an error like any other.

use std::io::{self, ErrorKind, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::disk::{Disk, DiskFile, DiskLock};

const RETRY_EVERY: Duration = Duration::from_millis(50);

/// Who waits for room on the disk.
#[derive(Debug, Default)]
pub(crate) struct Room {
    patient: AtomicBool,
    waiting: AtomicUsize,
    given_up: Mutex<bool>,
    wake: Condvar,
}

impl Room {
    /// From here on a full disk is waited for.
    pub(crate) fn be_patient(&self) {
        self.patient.store(true, Ordering::Release);
    }

    /// Whoever waits fails, and nobody waits any more.
    pub(crate) fn give_up(&self) {
        self.patient.store(false, Ordering::Release);
        *self.given_up.lock() = true;
        self.wake.notify_all();
    }

    /// Whether a write waits for room.
    pub(crate) fn is_missing(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Does it, again and again while the disk is full.
    fn until_done<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let first = call();
        if !is_full(&first) || !self.patient.load(Ordering::Acquire) {
            return first;
        }
        if self.waiting.fetch_add(1, Ordering::AcqRel) == 0 {
            tracing::error!("the disk is full; what is to be stored waits for room");
        }
        let done = self.retry(&mut call);
        if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 && done.is_ok() {
            tracing::info!("the disk has room again");
        }
        done
    }

    fn retry<T>(&self, call: &mut impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            let mut given_up = self.given_up.lock();
            if !*given_up {
                self.wake.wait_for(&mut given_up, RETRY_EVERY);
            }
            let last = *given_up;
            drop(given_up);
            let tried = call();
            if last || !is_full(&tried) {
                return tried;
            }
        }
    }
}

fn is_full<T>(result: &io::Result<T>) -> bool {
    let kind = result.as_ref().err().map(io::Error::kind);
    matches!(
        kind,
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    )
}

/// The disk of a storage, with patience.
#[derive(Debug)]
pub(crate) struct PatientDisk {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) room: Arc<Room>,
}

#[derive(Debug)]
struct PatientFile {
    file: Arc<dyn DiskFile>,
    room: Arc<Room>,
}

impl PatientDisk {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let room = Arc::clone(&self.room);
        Arc::new(PatientFile { file, room })
    }
}

impl Disk for PatientDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let created = self.room.until_done(|| self.disk.create(path))?;
        Ok(self.file(created))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.room.until_done(|| self.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn sync_tree(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_tree(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }
}

impl DiskFile for PatientFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.room.until_done(|| self.file.write_at(parts, offset))
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.room.until_done(|| self.file.set_len(bytes))
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
