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
use crate::journal::sync_times::SyncTimes;
use crate::journal::{self, Door, Journal};
use crate::options::Options;
use crate::owner::{FlushSink, Owner};
use crate::page_out::PageOut;
use crate::place::{StoreId, Tier};
use crate::recovery::{Recovery, Replayed};
use crate::room::{PatientDisk, Room};
use crate::segment::SegmentStore;

/// How long a stop waits for full journal files to be flushed so that the last records can be written.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);
const DRAIN_POLL: Duration = Duration::from_millis(1);
const LOCK: &str = "lock";
pub(crate) const JOURNAL: &str = "journal";
pub(crate) const SEGMENTS: &str = "segments";
const PAGED: &str = "paged";

/// The durable bytes of a node. Two processes never share a directory: a lock file keeps them apart.
///
/// `open`, look at what was saved, replay the journal, `start` it, `attach` the owner; at the end
/// `shutdown`, while whoever applies records still runs. A storage that is dropped shuts down.
pub struct Storage {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: Options,
    segments: Arc<SegmentStore>,
    paged: Arc<SegmentStore>,
    page_out: Arc<PageOut>,
    checkpoints: Arc<Checkpoints>,
    bell: Arc<Bell>,
    room: Arc<Room>,
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
    /// Items that were paged out and are gone with the process.
    pub paged_bytes: u64,
    /// The checkpoint file.
    pub checkpoint_bytes: u64,
}

impl DiskUsage {
    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.journal_bytes + self.segment_bytes + self.paged_bytes + self.checkpoint_bytes
    }
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
        let room = Arc::new(Room::default());
        let disk: Arc<dyn Disk> = Arc::new(PatientDisk {
            disk,
            room: Arc::clone(&room),
        });
        disk.create_dir(dir).during("create", dir)?;
        // A relative name of one part lies in the working directory.
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        disk.sync_dir(parent).during("sync", parent)?;
        let lock = lock(&*disk, dir)?;
        let [journal_dir, segments_dir, paged_dir] =
            [JOURNAL, SEGMENTS, PAGED].map(|name| dir.join(name));
        for created in [&journal_dir, &segments_dir, &paged_dir] {
            disk.create_dir(created).during("create", created)?;
        }
        disk.sync_dir(dir).during("sync", dir)?;
        let bell = Arc::new(Bell::default());
        let checkpoints =
            Checkpoints::open(Arc::clone(&disk), dir, options.checkpoint_rewrite_bytes_min)?;
        let open_segments = |dir: &Path, tier| {
            let bell = Arc::clone(&bell);
            SegmentStore::open(Arc::clone(&disk), dir, tier, &options, bell).map(Arc::new)
        };
        let segments = open_segments(&segments_dir, Tier::Durable)?;
        let paged = open_segments(&paged_dir, Tier::Paged)?;
        let checkpoints = Arc::new(checkpoints);
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
            paged,
            page_out: Arc::default(),
            checkpoints,
            bell,
            room,
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
        self.room.be_patient();
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
            paged: Arc::clone(&self.paged),
            page_out: Arc::clone(&self.page_out),
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

    /// The items that were paged out of memory and need not survive.
    pub fn paged(&self) -> &Arc<SegmentStore> {
        &self.paged
    }

    /// The segments of a tier.
    pub fn tier(&self, tier: Tier) -> &Arc<SegmentStore> {
        match tier {
            Tier::Durable => &self.segments,
            Tier::Paged => &self.paged,
        }
    }

    /// Asks for all items of the store but the first `keep_bytes` of them to leave memory. Returns at
    /// once; the background thread does it, and the owner learns of each move by `Owner::relocated`. A
    /// request that is still waiting is joined with the next one.
    pub fn page_out(&self, store: StoreId, keep_bytes: u64) {
        self.page_out.ask(store, keep_bytes);
        self.bell.ring();
    }

    /// The saved states of stores.
    pub fn checkpoints(&self) -> &Arc<Checkpoints> {
        &self.checkpoints
    }

    /// The store is gone for good: its items and its state go too. Writes nothing itself, so it may be
    /// called under the owner's locks; after a kill the store may show up once more in `Recovery::stores`.
    pub fn drop_store(&self, store: StoreId) {
        self.segments.drop_store(store);
        self.paged.drop_store(store);
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
            paged_bytes: self.paged.usage_of_all().file_bytes,
            checkpoint_bytes: self.checkpoints.file_bytes(),
        }
    }

    /// Bytes that may still be written to the file system of the directory.
    pub fn free_bytes(&self) -> Result<u64> {
        self.disk.free_bytes(&self.dir).during("measure", &self.dir)
    }

    /// Whether a write waits because the disk is full. It goes on by itself once there is room.
    pub fn is_disk_full(&self) -> bool {
        self.room.is_missing()
    }

    /// Whether to do without what only saves time: journal files that are kept for recycling are removed.
    pub fn be_frugal(&self, frugal: bool) -> Result<()> {
        let running = self.running.lock();
        running
            .as_ref()
            .map_or(Ok(()), |running| running.pool.be_frugal(frugal))
    }

    /// How long the syncs of the journal took; none before it is started.
    pub fn sync_times(&self) -> SyncTimes {
        let running = self.running.lock();
        running
            .as_ref()
            .map(|running| running.pool.sync_clock.times())
            .unwrap_or_default()
    }

    /// Takes no more records, makes durable and reports those that wait, and ends both threads. The
    /// file that is being flushed is finished; the owner and the sink must still answer.
    pub fn shutdown(&self) -> Result<()> {
        let Some(mut running) = self.running.lock().take() else {
            self.stop.store(true, Ordering::Release);
            return Ok(());
        };
        running.door.close();
        wait_for_journal(&running, &self.room);
        join(running.journal.take());
        self.room.give_up();
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
fn wait_for_journal(running: &Running, room: &Room) {
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
    if !finished() {
        room.give_up();
    }
}

pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>> {
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
