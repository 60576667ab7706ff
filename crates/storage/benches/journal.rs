//! What the journal makes of a disk: batches of 64 records with a sync each, against a bare loop of write
//! and fdatasync on the same disk in the same run.
//!
//! Prints syncs and records a second and the ratio to the bare loop, then lets criterion time one batch.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use parking_lot::{Condvar, Mutex};
use storage::{
    FileId, FlushSink, Flushed, Journal, LiveItem, Location, Options, Owner, Poisoned, Storage,
    StorageError, StoreId, StreamId, Tier,
};
use tempfile::TempDir;

const BATCH: u64 = 64;
const STREAM: StreamId = StreamId(1);
const MEASURED: Duration = Duration::from_secs(2);
const RAW_FILE_BYTES: u64 = 64 << 20;

/// Counts what is durable and wakes whoever waits for it.
#[derive(Default)]
struct Durable {
    records: Mutex<u64>,
    more: Condvar,
}

impl FlushSink<()> for Durable {
    fn flushed(&self, done: &mut Vec<Flushed<()>>) {
        *self.records.lock() += done.len() as u64;
        done.clear();
        self.more.notify_all();
    }

    fn poisoned(&self, why: &Poisoned) {
        panic!("{why}");
    }
}

impl Durable {
    fn wait_for(&self, records: u64) {
        let mut durable = self.records.lock();
        while *durable < records {
            self.more.wait(&mut durable);
        }
    }
}

/// Nothing in a file ever lives, so files recycle at once.
struct Forgetful;

impl Owner for Forgetful {
    fn applied(&self, _: &[(StreamId, u64)]) -> bool {
        true
    }
    fn touched(&self, _: FileId) -> Vec<StoreId> {
        Vec::new()
    }
    fn live_items(&self, _: StoreId, _: FileId, _: u64, _: &mut Vec<LiveItem>) {}
    fn relocated(&self, _: Tier, _: StoreId, _: &[(u64, Location)]) -> Vec<Location> {
        Vec::new()
    }
    fn living(&self, _: Tier, _: StoreId, _: &mut Vec<(u64, Location)>) {}
    fn paging_starts(&self, _: StoreId, _: u64) -> u64 {
        0
    }
    fn pageable(&self, _: Tier, _: StoreId, _: u64, _: &mut Vec<LiveItem>) {}
    fn checkpoint(&self, _: StoreId, _: &mut Vec<u8>) -> Option<u64> {
        None
    }
    fn released(&self, _: FileId) {}
}

struct Node {
    journal: Journal<()>,
    durable: Arc<Durable>,
    appended: AtomicU64,
    _storage: Storage,
    _dir: TempDir,
}

impl Node {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (storage, recovery) = Storage::open(dir.path(), Options::default()).unwrap();
        let replayed = recovery.replay(|_| Ok::<_, StorageError>(())).unwrap();
        let durable = Arc::new(Durable::default());
        let journal = storage.start::<()>(replayed, durable.clone()).unwrap();
        storage.attach(Arc::new(Forgetful)).unwrap();
        let node = Self {
            journal,
            durable,
            appended: AtomicU64::new(0),
            _storage: storage,
            _dir: dir,
        };
        // Every file once, so that recycled ones are measured, as in a broker that has run for a while.
        let filling = Bytes::from(vec![0; 1 << 20]);
        for _ in 0..300 {
            node.append(&filling);
            node.durable.wait_for(node.appended.load(Ordering::Relaxed));
        }
        node
    }

    fn append(&self, payload: &Bytes) -> u64 {
        let index = self.appended.fetch_add(1, Ordering::Relaxed) + 1;
        self.journal
            .append(STREAM, index, payload.clone(), ())
            .unwrap();
        index
    }

    fn append_batch(&self, payload: &Bytes) -> u64 {
        (0..BATCH).map(|_| self.append(payload)).last().unwrap_or(0)
    }

    /// Appends batches, `window` of them unsynced at most; answers records and syncs a second.
    fn rate(&self, payload: &Bytes, window: u64) -> (f64, f64) {
        let before = self.journal.status();
        let started = Instant::now();
        while started.elapsed() < MEASURED {
            let last = self.append_batch(payload);
            self.durable
                .wait_for(last.saturating_sub((window - 1) * BATCH));
        }
        self.durable.wait_for(self.appended.load(Ordering::Relaxed));
        let seconds = started.elapsed().as_secs_f64();
        let after = self.journal.status();
        let records = (after.records - before.records) as f64 / seconds;
        (records, (after.syncs - before.syncs) as f64 / seconds)
    }
}

/// Writes of this size over a file that has its length already, each followed by fdatasync.
fn raw_syncs_per_second(bytes: u64) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let file = File::create(dir.path().join("raw")).unwrap();
    let zeros = vec![0; 1 << 20];
    for offset in (0..RAW_FILE_BYTES).step_by(zeros.len()) {
        file.write_all_at(&zeros, offset).unwrap();
    }
    file.sync_all().unwrap();
    let batch = vec![1; bytes as usize];
    let (started, mut syncs) = (Instant::now(), 0_u64);
    while started.elapsed() < MEASURED {
        let offset = syncs * bytes % (RAW_FILE_BYTES - bytes);
        file.write_all_at(&batch, offset).unwrap();
        file.sync_data().unwrap();
        syncs += 1;
    }
    syncs as f64 / started.elapsed().as_secs_f64()
}

fn report(node: &Node) {
    println!("records  window  records/s   syncs/s  raw fdatasync/s  ratio");
    for record_bytes in [64_usize, 1024] {
        let payload = Bytes::from(vec![7; record_bytes]);
        let raw = raw_syncs_per_second(BATCH * (record_bytes as u64 + 40));
        for window in [1, 16] {
            let (records, syncs) = node.rate(&payload, window);
            let ratio = syncs / raw;
            println!(
                "{record_bytes:>5} B  {window:>6}  {records:>9.0}  {syncs:>8.0}  {raw:>15.0}  {ratio:>5.2}"
            );
        }
    }
}

fn main() {
    let node = Node::start();
    report(&node);
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("journal");
    group.throughput(Throughput::Elements(BATCH));
    for record_bytes in [64_usize, 1024] {
        let payload = Bytes::from(vec![7; record_bytes]);
        group.bench_function(
            format!("a synced batch of 64 x {record_bytes} B"),
            |bencher| {
                bencher.iter(|| node.durable.wait_for(node.append_batch(&payload)));
            },
        );
    }
    group.finish();
    criterion.final_summary();
}
