//! Segment files that are open, the most recently used ones, so that many stores need few descriptors.
//!
//! Knows names and handles; not what is in the files.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::remembered::{self, Remembered};
use crate::disk::{Disk, DiskFile};
use crate::place::StoreId;

/// A segment of a store.
pub(crate) type Key = (StoreId, u32);

#[derive(Debug)]
pub(super) struct OpenFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    files_max: usize,
    is_durable: bool,
    files: Mutex<Files>,
    /// Footer entries that open segments may still remember, all together.
    memory: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Files {
    open: HashMap<Key, Open>,
    clock: u64,
}

#[derive(Debug)]
struct Open {
    file: Arc<dyn DiskFile>,
    used: u64,
}

/// File name of a segment.
pub(crate) fn name(key: Key) -> String {
    format!("{}-{:08x}.segment", key.0, key.1)
}

/// The segment with this file name, if it is one.
pub(crate) fn parse_name(name: &str) -> Option<Key> {
    let (store, segment) = name.strip_suffix(".segment")?.split_once('-')?;
    let store = u64::from_str_radix(store, 16)
        .ok()
        .filter(|_| store.len() == 16)?;
    let segment = u32::from_str_radix(segment, 16)
        .ok()
        .filter(|_| segment.len() == 8)?;
    Some((StoreId(store), segment))
}

impl OpenFiles {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path, files_max: usize, is_durable: bool) -> Self {
        Self {
            disk,
            dir: dir.to_path_buf(),
            files_max,
            is_durable,
            files: Mutex::default(),
            memory: Arc::new(AtomicU64::new(remembered::ENTRIES_MAX)),
        }
    }

    /// Room for what a new open segment remembers.
    pub(super) fn remembered(&self) -> Remembered {
        Remembered::new(&self.memory)
    }

    /// Whether what is written must survive a restart.
    pub(super) fn is_durable(&self) -> bool {
        self.is_durable
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn path(&self, key: Key) -> PathBuf {
        self.dir.join(name(key))
    }

    pub(super) fn create(&self, key: Key) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.create(&self.path(key))?;
        self.files.lock().insert(key, &file, self.files_max);
        Ok(file)
    }

    pub(super) fn get(&self, key: Key) -> io::Result<Arc<dyn DiskFile>> {
        let held = self.files.lock().touch(key);
        if let Some(file) = held {
            return Ok(file);
        }
        // Opened without the lock: another reader may open it too, and the last one stays.
        let file = self.disk.open(&self.path(key))?;
        self.files.lock().insert(key, &file, self.files_max);
        Ok(file)
    }

    /// Removes the file; whoever has it open may go on reading.
    pub(super) fn remove(&self, key: Key) -> io::Result<()> {
        let removed = self.disk.remove(&self.path(key));
        self.files.lock().open.remove(&key);
        removed
    }

    pub(super) fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir(&self.dir)
    }
}

impl Files {
    fn touch(&mut self, key: Key) -> Option<Arc<dyn DiskFile>> {
        self.clock += 1;
        let open = self.open.get_mut(&key)?;
        open.used = self.clock;
        Some(Arc::clone(&open.file))
    }

    fn insert(&mut self, key: Key, file: &Arc<dyn DiskFile>, files_max: usize) {
        self.clock += 1;
        self.open.insert(
            key,
            Open {
                file: Arc::clone(file),
                used: self.clock,
            },
        );
        if self.open.len() <= files_max {
            return;
        }
        // A look at all of a few hundred is cheaper than the system call that brought us here.
        let oldest = self
            .open
            .iter()
            .min_by_key(|(_, open)| open.used)
            .map(|(key, _)| *key);
        oldest.and_then(|key| self.open.remove(&key));
    }
}
