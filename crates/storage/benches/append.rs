//! What a message costs storage from its append to its end, at several sizes and depths: batches of 64
//! messages are appended, each message is read once in order when so many lie behind it, and then settled;
//! 1 in 100,000 is never settled. A sync for each mebibyte that waits.
//!
//! Prints, for each size and depth, nanoseconds of the whole process's CPU a message, bytes written for
//! each byte appended, and messages a second. Arguments, all optional: the part of the usual number of
//! messages, as in `cargo bench -p storage --bench append -- 0.1`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};
use storage::{
    Disk, DiskFile, DiskLock, FileId, FlushSink, Flushed, LiveItem, Location, Options, Owner,
    Poisoned, RealDisk, Run, Storage, StorageError, StoreId, StreamId, Tier,
};

const STREAM: StreamId = StreamId(1);
const STORE: StoreId = StoreId(7);
const BATCH: u64 = 64;
/// Bytes in front of each body in its batch: what a broker keeps of a message.
const HEAD_BYTES: usize = 16;
const STUCK_EVERY: u64 = 100_000;
const UNSYNCED_BYTES_MAX: u64 = 1 << 20;
const READ_AHEAD_BYTES: usize = 256 << 10;
const SLICE: usize = 1_000;
/// Bytes that wait at a depth: more is no queue that anybody keeps in memory and out of it in a bench.
const DEPTH_BYTES_MAX: u64 = 1_200 << 20;
/// Before anything is measured every file of the journal has been written once, as in a broker that has run
/// for a while.
const WARM_UP_BYTES: u64 = 320 << 20;
const SIZES: [u64; 4] = [16, 100, 1_024, 65_536];
const DEPTHS: [u64; 3] = [0, 100_000, 1_000_000];

/// The machine's disk, counting what is written.
#[derive(Debug, Default)]
struct Counting(Arc<AtomicU64>);

#[derive(Debug)]
struct CountingFile(Arc<dyn DiskFile>, Arc<AtomicU64>);

impl Counting {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(CountingFile(file, Arc::clone(&self.0)))
    }
}

impl Disk for Counting {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.create(path).map(|file| self.file(file))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.open(path).map(|file| self.file(file))
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

impl DiskFile for CountingFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let written = self.0.write_at(parts, offset)?;
        self.1.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

#[derive(Clone)]
enum Place {
    Memory { batch: Bytes, file: FileId, at: u32 },
    Segment(Location),
}

/// The messages of one queue: those in line, whose ids have no gaps, and those that are stuck.
#[derive(Default)]
struct Line {
    first_id: u64,
    in_line: VecDeque<Place>,
    stuck: BTreeMap<u64, Place>,
    applied: u64,
    durable_bytes: u64,
    /// First and last id that each file may hold.
    files: HashMap<FileId, (u64, u64)>,
    touched: BTreeSet<FileId>,
    message_bytes: usize,
}

impl Line {
    fn place(&mut self, id: u64) -> Option<&mut Place> {
        match id.checked_sub(self.first_id) {
            Some(at) => self.in_line.get_mut(at as usize),
            None => self.stuck.get_mut(&id),
        }
    }

    fn from(&self, id: u64) -> impl Iterator<Item = (u64, &Place)> {
        let stuck = self.stuck.range(id..).map(|(id, place)| (*id, place));
        let skipped = id.saturating_sub(self.first_id) as usize;
        let ids = self.first_id + skipped as u64..;
        stuck.chain(ids.zip(self.in_line.iter().skip(skipped)))
    }
}

/// A batch on its way: its bytes and the id of its first message.
struct Appended {
    payload: Bytes,
    first_id: u64,
    messages: u64,
}

#[derive(Default)]
struct Queue {
    line: Mutex<Line>,
    durable: Condvar,
}

impl FlushSink<Appended> for Queue {
    fn flushed(&self, done: &mut Vec<Flushed<Appended>>) {
        let mut line = self.line.lock();
        for Flushed { tag, index, at, .. } in done.drain(..) {
            line.applied = index;
            line.durable_bytes += tag.payload.len() as u64;
            let file = at.expect("every batch is a record").file;
            let last_id = tag.first_id + tag.messages;
            let ids = line.files.entry(file).or_insert((tag.first_id, last_id));
            ids.1 = last_id;
            line.touched.insert(file);
            let stride = line.message_bytes;
            for number in 0..tag.messages as usize {
                line.in_line.push_back(Place::Memory {
                    batch: tag.payload.clone(),
                    file,
                    at: (number * stride) as u32,
                });
            }
        }
        drop(line);
        self.durable.notify_all();
    }

    fn poisoned(&self, why: &Poisoned) {
        panic!("{why}");
    }
}

impl Owner for Queue {
    fn applied(&self, last: &[(StreamId, u64)]) -> bool {
        let line = self.line.lock();
        last.iter().all(|(_, index)| *index <= line.applied)
    }

    fn touched(&self, file: FileId) -> Vec<StoreId> {
        let touched = self.line.lock().touched.contains(&file);
        touched.then_some(STORE).into_iter().collect()
    }

    fn live_items(&self, _: StoreId, wanted: FileId, from: u64, out: &mut Vec<LiveItem>) {
        let line = self.line.lock();
        let Some((first, last)) = line.files.get(&wanted).copied() else {
            return;
        };
        let len = line.message_bytes;
        let living = line.from(from.max(first)).take_while(|(id, _)| *id < last);
        let items = living.filter_map(|(id, place)| match place {
            Place::Memory { batch, file, at } if *file == wanted => {
                let at = *at as usize;
                Some(LiveItem {
                    id,
                    attributes: 0,
                    bytes: batch.slice(at..at + len),
                })
            }
            _ => None,
        });
        out.extend(items.take(SLICE));
    }

    fn relocated(&self, _: Tier, _: StoreId, moved: &[(u64, Location)]) -> Vec<Location> {
        let mut line = self.line.lock();
        let mut unwanted = Vec::new();
        for (id, location) in moved {
            match line.place(*id) {
                Some(place) => *place = Place::Segment(*location),
                None => unwanted.push(*location),
            }
        }
        unwanted
    }

    fn living(&self, _: Tier, _: StoreId, items: &mut Vec<(u64, Location)>) {
        let mut line = self.line.lock();
        items.retain(|(id, location)| {
            matches!(line.place(*id), Some(Place::Segment(place)) if place == location)
        });
    }

    fn paging_starts(&self, _: StoreId, _: u64) -> u64 {
        0
    }

    fn pageable(&self, _: Tier, _: StoreId, _: u64, _: &mut Vec<LiveItem>) {}

    fn checkpoint(&self, _: StoreId, out: &mut Vec<u8>) -> Option<u64> {
        let line = self.line.lock();
        out.extend_from_slice(&line.first_id.to_le_bytes());
        Some(line.applied)
    }

    fn released(&self, file: FileId) {
        let mut line = self.line.lock();
        line.files.remove(&file);
        line.touched.remove(&file);
    }
}

/// One size and depth.
struct Course {
    body_bytes: u64,
    depth: u64,
    messages: u64,
}

struct Figures {
    cpu_ns: f64,
    write_factor: f64,
    rate: f64,
}

/// CPU that the process took so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Course {
    fn message_bytes(&self) -> usize {
        HEAD_BYTES + self.body_bytes as usize
    }

    fn batch(&self, first_id: u64) -> Bytes {
        let body = vec![first_id as u8; self.body_bytes as usize];
        let mut payload = Vec::with_capacity(self.message_bytes() * BATCH as usize);
        for id in first_id..first_id + BATCH {
            payload.extend_from_slice(&id.to_le_bytes());
            payload.extend_from_slice(&self.body_bytes.to_le_bytes());
            payload.extend_from_slice(&body);
        }
        payload.into()
    }

    fn run(&self) -> Figures {
        let dir = tempfile::tempdir().unwrap();
        let disk = Counting::default();
        let written = Arc::clone(&disk.0);
        let mut options = Options::default();
        // As a broker has it.
        options.journal_bytes_kept = options.journal_bytes_max / 2;
        let opened = Storage::open_on(Arc::new(disk), dir.path(), options);
        let (storage, recovery) = opened.unwrap();
        let replayed = recovery.replay(|_| Ok::<_, StorageError>(())).unwrap();
        let queue = Arc::new(Queue::default());
        queue.line.lock().message_bytes = self.message_bytes();
        let journal = storage.start::<Appended>(replayed, queue.clone()).unwrap();
        storage.attach(queue.clone()).unwrap();
        let mut reader = Reader::default();
        let (mut appended_bytes, mut next_id, mut consumed) = (0, 0, 0);
        let mut began = (cpu(), Instant::now(), 0, 0);
        let mut is_warm = false;
        let warm_messages = WARM_UP_BYTES / self.message_bytes() as u64 / BATCH * BATCH;
        let first_measured = self.depth.max(warm_messages);
        while next_id < first_measured + self.messages {
            if !is_warm && next_id >= first_measured {
                began = (
                    cpu(),
                    Instant::now(),
                    written.load(Ordering::Relaxed),
                    appended_bytes,
                );
                is_warm = true;
            }
            let payload = self.batch(next_id);
            appended_bytes += payload.len() as u64;
            let tag = Appended {
                payload: payload.clone(),
                first_id: next_id,
                messages: BATCH,
            };
            next_id += BATCH;
            journal
                .append(STREAM, next_id / BATCH, payload, tag)
                .unwrap();
            let mut line = queue.line.lock();
            while line.durable_bytes + UNSYNCED_BYTES_MAX < appended_bytes {
                queue.durable.wait(&mut line);
            }
            while line.in_line.len() as u64 > self.depth {
                reader.take(&mut line, &storage, consumed);
                consumed += 1;
            }
            drop(line);
            reader.settle(&storage);
        }
        let cpu_ns = (cpu() - began.0).as_nanos() as f64 / self.messages as f64;
        let rate = self.messages as f64 / began.1.elapsed().as_secs_f64();
        let factor = (written.load(Ordering::Relaxed) - began.2) as f64;
        storage.shutdown().unwrap();
        Figures {
            cpu_ns,
            write_factor: factor / (appended_bytes - began.3) as f64,
            rate,
        }
    }
}

/// Reads messages in order, and settles them.
#[derive(Default)]
struct Reader {
    ahead: Option<Run>,
    /// What would go out to a consumer.
    out: Vec<u8>,
    dead: Vec<Location>,
}

impl Reader {
    fn take(&mut self, line: &mut Line, storage: &Storage, id: u64) {
        let Some(place) = line.in_line.pop_front() else {
            return;
        };
        line.first_id = id + 1;
        if self.out.len() > UNSYNCED_BYTES_MAX as usize {
            self.out.clear();
        }
        match &place {
            Place::Memory { batch, at, .. } => {
                let at = *at as usize;
                self.out
                    .extend_from_slice(&batch[at..at + line.message_bytes]);
            }
            Place::Segment(location) => {
                let held = self.ahead.as_ref().and_then(|run| run.get(location));
                let bytes = held.unwrap_or_else(|| {
                    let segments = storage.segments();
                    let run = segments
                        .read_run(STORE, location, READ_AHEAD_BYTES)
                        .unwrap();
                    self.ahead.insert(run).get(location).expect("it is whole")
                });
                self.out.extend_from_slice(&bytes);
            }
        }
        match (id % STUCK_EVERY, place) {
            (0, place) => {
                line.stuck.insert(id, place);
            }
            (_, Place::Segment(location)) => self.dead.push(location),
            (_, Place::Memory { .. }) => {}
        }
    }

    fn settle(&mut self, storage: &Storage) {
        if !self.dead.is_empty() {
            storage.segments().release(STORE, &self.dead);
            self.dead.clear();
        }
    }
}

/// Messages of a course: enough to fill the journal's files several times, and not for ever.
fn messages(body_bytes: u64, part: f64) -> u64 {
    let usual = (600 << 20) / (body_bytes + HEAD_BYTES as u64 + 8);
    let wanted = (usual.clamp(10_000, 4_000_000) as f64 * part) as u64;
    wanted.max(BATCH) / BATCH * BATCH
}

fn main() {
    let part = std::env::args()
        .filter_map(|word| word.parse().ok())
        .next_back();
    let part = part.unwrap_or(1.0);
    println!("   size      depth   messages  CPU ns/message  write factor  messages/s");
    for body_bytes in SIZES {
        for depth in DEPTHS {
            if depth * body_bytes > DEPTH_BYTES_MAX {
                println!("{body_bytes:>5} B  {depth:>9}  left out: that many do not fit here");
                continue;
            }
            let course = Course {
                body_bytes,
                depth: depth / BATCH * BATCH,
                messages: messages(body_bytes, part),
            };
            let figures = course.run();
            println!(
                "{body_bytes:>5} B  {depth:>9}  {:>9}  {:>14.0}  {:>12.2}  {:>10.0}",
                course.messages, figures.cpu_ns, figures.write_factor, figures.rate
            );
        }
    }
}
