//! A data directory as a whole: open, recover, start, stop.
//!
//! Wires the journal, the segments, the checkpoints and their two threads; decides nothing else.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::background::Background;
use crate::bell::Bell;
use crate::checkpoint::Checkpoints;
use crate::disk::{Disk, DiskLock, RealDisk};
use crate::error::{During, Result, StorageError};
use crate::journal::pool::Pool;
use crate::journal::{self, Door, Journal};
use crate::options::Options;
use crate::owner::{FlushSink, Owner};
use crate::place::StoreId;
use crate::recovery::{Recovery, Replayed};
use crate::segment::SegmentStore;

/// How long a stop waits for full journal files to be flushed so that the last records can be written.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);
const DRAIN_POLL: Duration = Duration::from_millis(1);
const LOCK: &str = "lock";
const JOURNAL: &str = "journal";
const SEGMENTS: &str = "segments";

/// The durable bytes of a node. Two processes never share a directory: a lock file keeps them apart.
///
/// `open`, look at what was saved, replay the journal, `start` it, `attach` the owner; at the end
/// `shutdown`, while whoever applies records still runs. A storage that is dropped shuts down.
pub struct Storage {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: Options,
    segments: Arc<SegmentStore>,
    checkpoints: Arc<Checkpoints>,
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
    running: Mutex<Option<Running>>,
    /// Given back when everything else is gone.
    _lock: Box<dyn DiskLock>,
}

struct Running {
    pool: Arc<Pool>,
    door: Arc<dyn Door>,
    journal: Option<JoinHandle<()>>,
    background: Option<JoinHandle<()>>,
}

/// Bytes on disk, for reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Journal files, free ones too.
    pub journal_bytes: u64,
    /// Segments that were looked into since the start.
    pub segment_bytes: u64,
    /// The checkpoint file.
    pub checkpoint_bytes: u64,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Storage {
    /// Opens a data directory of this machine, and creates it if it is not there.
    pub fn open(dir: &Path, options: Options) -> Result<(Self, Recovery)> {
        Self::open_on(Arc::new(RealDisk), dir, options)
    }

    /// The same on a disk of the caller's choice.
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<(Self, Recovery)> {
        let options = options.checked()?;
        disk.create_dir(dir).during("create", dir)?;
        // A relative name of one part lies in the working directory.
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        disk.sync_dir(parent).during("sync", parent)?;
        let lock = lock(&*disk, dir)?;
        let (journal_dir, segments_dir) = (dir.join(JOURNAL), dir.join(SEGMENTS));
        disk.create_dir(&journal_dir)
            .during("create", &journal_dir)?;
        disk.create_dir(&segments_dir)
            .during("create", &segments_dir)?;
        disk.sync_dir(dir).during("sync", dir)?;
        let bell = Arc::new(Bell::default());
        let checkpoints =
            Checkpoints::open(Arc::clone(&disk), dir, options.checkpoint_rewrite_bytes_min)?;
        let segments = SegmentStore::open(
            Arc::clone(&disk),
            &segments_dir,
            &options,
            Arc::clone(&bell),
        )?;
        let (checkpoints, segments) = (Arc::new(checkpoints), Arc::new(segments));
        let recovery = Recovery::new(
            Arc::clone(&disk),
            journal_dir,
            Arc::clone(&segments),
            Arc::clone(&checkpoints),
        );
        let storage = Self {
            disk,
            dir: dir.to_path_buf(),
            options,
            segments,
            checkpoints,
            bell,
            stop: Arc::default(),
            running: Mutex::new(None),
            _lock: lock,
        };
        Ok((storage, recovery))
    }

    /// Starts the journal. What it makes durable is reported to the sink. The files that were replayed
    /// stay until an owner is attached.
    pub fn start<T: Send + 'static>(
        &self,
        replayed: Replayed,
        sink: Arc<dyn FlushSink<T>>,
    ) -> Result<Journal<T>> {
        let mut running = self.running.lock();
        if running.is_some() || self.stop.load(Ordering::Acquire) {
            return Err(StorageError::WrongState("started already"));
        }
        let Replayed {
            next,
            free,
            sealed,
            last,
            ..
        } = replayed;
        let pool = Pool::new(
            Arc::clone(&self.disk),
            self.dir.join(JOURNAL),
            &self.options,
            next,
            free,
            sealed,
            Arc::clone(&self.bell),
        )?;
        let pool = Arc::new(pool);
        let started = journal::start(&self.options, &pool, last, sink)
            .during("start the journal thread of", &self.dir)?;
        let journal = Some(started.thread);
        *running = Some(Running {
            pool,
            door: started.door,
            journal,
            background: None,
        });
        Ok(started.journal)
    }

    /// Starts the background thread, which asks the owner about each full journal file, those that
    /// were replayed first. The owner is held until `shutdown`.
    pub fn attach(&self, owner: Arc<dyn Owner>) -> Result<()> {
        let mut running = self.running.lock();
        let Some(running) = running
            .as_mut()
            .filter(|running| running.background.is_none())
        else {
            return Err(StorageError::WrongState(
                "not started, or has an owner already",
            ));
        };
        let background = Background {
            disk: Arc::clone(&self.disk),
            dir: self.dir.clone(),
            pool: Arc::clone(&running.pool),
            segments: Arc::clone(&self.segments),
            checkpoints: Arc::clone(&self.checkpoints),
            door: Arc::clone(&running.door),
            owner,
            bell: Arc::clone(&self.bell),
            stop: Arc::clone(&self.stop),
        };
        let thread = background
            .start()
            .during("start the background thread of", &self.dir)?;
        running.background = Some(thread);
        Ok(())
    }

    /// The items that outlived their journal file.
    pub fn segments(&self) -> &Arc<SegmentStore> {
        &self.segments
    }

    /// The saved states of stores.
    pub fn checkpoints(&self) -> &Arc<Checkpoints> {
        &self.checkpoints
    }

    /// The store is gone for good: its items and its state go too. Writes nothing itself, so it may be
    /// called under the owner's locks; after a kill the store may show up once more in `Recovery::stores`.
    pub fn drop_store(&self, store: StoreId) {
        self.segments.drop_store(store);
        self.checkpoints.remove(store);
    }

    /// Bytes on disk.
    pub fn disk_usage(&self) -> DiskUsage {
        let pool = self
            .running
            .lock()
            .as_ref()
            .map(|running| running.pool.status());
        DiskUsage {
            journal_bytes: pool.map_or(0, |pool| pool.used_bytes + pool.free_bytes),
            segment_bytes: self.segments.usage_of_all().file_bytes,
            checkpoint_bytes: self.checkpoints.file_bytes(),
        }
    }

    /// Takes no more records, makes durable and reports those that wait, and ends both threads. The
    /// file that is being flushed is finished; the owner and the sink must still answer.
    pub fn shutdown(&self) -> Result<()> {
        let Some(mut running) = self.running.lock().take() else {
            self.stop.store(true, Ordering::Release);
            return Ok(());
        };
        running.door.close();
        wait_for_journal(&running);
        join(running.journal.take());
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        join(running.background.take());
        if let Some(poisoned) = running.door.poisoned() {
            return Err(poisoned.into());
        }
        // Removals that no later set carried.
        self.checkpoints.put(&[])
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Err(error) = self.shutdown() {
            tracing::error!(%error, "storage ended with an error");
        }
    }
}

/// Waits until the journal thread has written all. If it waits for a file that nobody releases, it is told
/// to give up, after a while.
fn wait_for_journal(running: &Running) {
    let patience = running
        .background
        .as_ref()
        .map_or(Duration::ZERO, |_| DRAIN_TIME_MAX);
    let deadline = Instant::now() + patience;
    let finished = || running.journal.as_ref().is_none_or(JoinHandle::is_finished);
    while !finished() && Instant::now() < deadline {
        std::thread::sleep(DRAIN_POLL);
    }
    running.pool.stop();
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>> {
    let path = dir.join(LOCK);
    match disk.lock(&path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(StorageError::Locked {
            dir: dir.to_path_buf(),
            lock: path,
        }),
        locked => locked.during("lock", &path),
    }
}

fn join(thread: Option<JoinHandle<()>>) {
    let Some(thread) = thread else { return };
    // An owner that drops the last handle on one of these threads must not wait for itself.
    if thread.thread().id() == std::thread::current().id() {
        return;
    }
    if thread.join().is_err() {
        tracing::error!("a storage thread panicked");
    }
}
