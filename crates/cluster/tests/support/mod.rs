//! What the tests of this crate share: a node with a journal, a machine that records what it is told, and
//! a disk whose syncs can be made to fail.
#![allow(dead_code, unreachable_pub)]

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf, BufMut, Bytes};
use cluster::{
    Abandoned, CommitShards, CommittedEntry, NodeId, SoloGroup, Staging, StateMachine, Tag,
};
use parking_lot::{Condvar, Mutex};
use storage::{
    Disk, DiskFile, DiskLock, Journal, Options, RealDisk, ReplayedRecord, Storage, StorageError,
    StreamId,
};

pub const NODE: NodeId = NodeId(1);

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holds() {
        assert!(
            std::time::Instant::now() < deadline,
            "gave up waiting until {what}"
        );
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A command is a number and some filling.
pub fn command(buffer: &mut Vec<u8>, number: u64, filling: usize) {
    buffer.put_u64(number);
    buffer.put_u32(filling as u32);
    buffer.resize(buffer.len() + filling, 0);
}

pub fn numbers(mut payload: Bytes) -> Vec<u64> {
    let mut numbers = Vec::new();
    while payload.has_remaining() {
        numbers.push(payload.get_u64());
        let filling = payload.get_u32() as usize;
        payload.advance(filling);
    }
    numbers
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub index: u64,
    pub numbers: Vec<u64>,
    pub contexts: Vec<u64>,
    pub logged: bool,
}

type OnApply = Box<dyn Fn(&Applied) + Send + Sync>;

/// Records what it is told; applies nothing while its gate is closed.
#[derive(Default)]
pub struct Recorder {
    pub applied: Mutex<Vec<Applied>>,
    pub abandoned: Mutex<Vec<(Vec<u64>, Abandoned)>>,
    closed: Mutex<bool>,
    opened: Condvar,
    pub on_apply: Mutex<Option<OnApply>>,
}

impl Recorder {
    pub fn close_gate(&self) {
        *self.closed.lock() = true;
    }

    pub fn open_gate(&self) {
        *self.closed.lock() = false;
        self.opened.notify_all();
    }

    pub fn numbers(&self) -> Vec<u64> {
        self.applied
            .lock()
            .iter()
            .flat_map(|applied| applied.numbers.clone())
            .collect()
    }

    pub fn contexts(&self) -> Vec<u64> {
        self.applied
            .lock()
            .iter()
            .flat_map(|applied| applied.contexts.clone())
            .collect()
    }
}

impl StateMachine for Recorder {
    type Context = u64;

    fn apply(&self, entry: CommittedEntry, contexts: Vec<u64>) -> Bytes {
        let mut closed = self.closed.lock();
        while *closed {
            self.opened.wait(&mut closed);
        }
        drop(closed);
        let CommittedEntry {
            index, payload, at, ..
        } = entry;
        let applied = Applied {
            index,
            numbers: numbers(payload),
            contexts,
            logged: at.is_some(),
        };
        if let Some(on_apply) = &*self.on_apply.lock() {
            on_apply(&applied);
        }
        self.applied.lock().push(applied);
        Bytes::new()
    }

    fn abandon(&self, _payload: Bytes, contexts: Vec<u64>, why: Abandoned) {
        self.abandoned.lock().push((contexts, why));
    }
}

/// A node with a journal and commit threads.
pub struct Node {
    pub journal: Journal<Tag>,
    pub commits: Arc<CommitShards>,
    pub stopped: Arc<Mutex<Option<String>>>,
    pub strike: Arc<AtomicBool>,
    pub replayed: Vec<ReplayedRecord>,
    // Last, so that the commit threads still run while it shuts down.
    pub storage: Storage,
}

impl Node {
    pub fn start(dir: &Path) -> Self {
        let strike = Arc::new(AtomicBool::new(false));
        let disk = Arc::new(StrikingDisk {
            strike: Arc::clone(&strike),
        });
        let (storage, recovery) = Storage::open_on(disk, dir, Options::default()).unwrap();
        let mut records = Vec::new();
        let replayed = recovery
            .replay(|record| {
                records.push(record);
                Ok::<_, StorageError>(())
            })
            .unwrap();
        let stopped = Arc::new(Mutex::new(None));
        let told = Arc::clone(&stopped);
        let on_stop = move |why: &str| *told.lock() = Some(why.to_owned());
        let commits = CommitShards::start(2, on_stop).unwrap();
        let journal = storage.start::<Tag>(replayed, commits.clone()).unwrap();
        Self {
            journal,
            commits,
            stopped,
            strike,
            replayed: records,
            storage,
        }
    }

    pub fn group(&self, stream: u32) -> Member {
        let machine = Arc::new(Recorder::default());
        let (journal, stream) = (self.journal.clone(), StreamId(stream));
        let group = SoloGroup::open(NODE, stream, Arc::clone(&machine), journal, &self.commits);
        let refused = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&refused);
        let staging = Staging::new(group.clone(), move |batch, why: &str| {
            told.lock().push((batch.contexts, why.to_owned()));
        });
        Member {
            machine,
            group,
            staging,
            refused,
        }
    }

    pub fn stop(self) {
        self.storage.shutdown().unwrap();
        self.commits.shutdown();
    }
}

pub type RefusedBatches = Arc<Mutex<Vec<(Vec<u64>, String)>>>;

pub struct Member {
    pub machine: Arc<Recorder>,
    pub group: Arc<SoloGroup<Recorder>>,
    pub staging: Arc<Staging<u64>>,
    pub refused: RefusedBatches,
}

impl Member {
    /// Stages a logged command that is its own context.
    pub fn stage(&self, number: u64) {
        self.stage_filled(number, 0, true);
    }

    pub fn stage_filled(&self, number: u64, filling: usize, logged: bool) {
        self.staging.stage(logged, Some(number), |buffer| {
            command(buffer, number, filling)
        });
    }
}

/// The real disk, until its syncs go on strike.
#[derive(Debug)]
struct StrikingDisk {
    strike: Arc<AtomicBool>,
}

#[derive(Debug)]
struct StrikingFile {
    file: Arc<dyn DiskFile>,
    strike: Arc<AtomicBool>,
}

impl StrikingDisk {
    fn wrap(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(StrikingFile {
            file,
            strike: Arc::clone(&self.strike),
        })
    }
}

impl Disk for StrikingDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(RealDisk.create(path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(RealDisk.open(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
    fn sync_tree(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_tree(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        RealDisk.lock(path)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(dir)
    }
}

impl DiskFile for StrikingFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.file.write_at(parts, offset)
    }
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }
    fn sync(&self) -> io::Result<()> {
        if self.strike.load(Ordering::Acquire) {
            return Err(io::Error::other("the disk is on strike"));
        }
        self.file.sync()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
