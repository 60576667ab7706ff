//! From the journal to the segments: what lives is moved, the file is recycled, and nothing stuck holds
//! more than itself.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use storage::{
    FileId, LiveItem, Location, Options, Owner, Storage, StorageError, StoreId, StreamId, Tier,
};
use support::disk::SimulatedDisk;
use support::shelf::{Command, Contents, STREAM, Shelf, encode};
use support::sink::Collected;
use support::wait_until;

const STORE: StoreId = StoreId(1);

fn bytes_below(dir: &Path) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let kind = entry.metadata();
        sum += match kind {
            Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
            Ok(kind) => kind.len(),
            // Removed since it was listed.
            Err(_) => 0,
        };
    }
    sum
}

/// Runs `work` while the size of the directory is sampled; answers the largest seen.
fn largest_while(dir: &Path, work: impl FnOnce()) -> u64 {
    let done = AtomicBool::new(false);
    let largest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                largest.fetch_max(bytes_below(dir), Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        work();
        done.store(true, Ordering::Release);
    });
    largest.into_inner()
}

#[test]
fn one_stuck_item_in_two_hundred_thousand_keeps_nothing_but_itself() {
    const ITEMS: u64 = 200_000;
    const STUCK: u64 = 777;
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        journal_file_bytes: 4 << 20,
        journal_bytes_max: 16 << 20,
        ..Options::default()
    };
    let (storage, recovery) = Storage::open(dir.path(), options.clone()).unwrap();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    storage.attach(shelf.clone()).unwrap();
    let largest = largest_while(dir.path(), || {
        let mut index = 0;
        for first in (0..ITEMS).step_by(64) {
            let ids = first..(first + 64).min(ITEMS);
            let body = |id: u64| Bytes::from(vec![id as u8; 100]);
            let puts: Vec<Command> = ids
                .clone()
                .map(|id| Command::Put {
                    store: STORE,
                    id,
                    body: body(id),
                })
                .collect();
            let settles: Vec<Command> = ids
                .filter(|id| *id != STUCK)
                .map(|id| Command::Settle { store: STORE, id })
                .collect();
            for payload in [encode(&puts), encode(&settles)] {
                index += 1;
                journal
                    .append(STREAM, index, payload.clone(), payload)
                    .unwrap();
            }
        }
        wait_until("everything is applied", || shelf.applied_index() == index);
        journal.seal();
        wait_until("everything is flushed", || {
            journal.status().sealed_waiting == 0 && shelf.in_segments() == 1
        });
    });
    assert!(shelf.released().len() >= 5, "{:?}", shelf.released());
    let bound = options.journal_bytes_max + options.segment_bytes;
    assert!(
        largest <= bound,
        "{largest} bytes on disk at most, {bound} allowed"
    );
    let usage = storage.segments().usage(STORE);
    assert_eq!(
        (usage.segments, usage.live_items, usage.live_bytes),
        (1, 1, 100)
    );
    assert!(usage.dead_bytes < 4 << 20, "{usage:?}");
    storage.shutdown().unwrap();
    drop(storage);

    let (storage, recovery) = Storage::open(dir.path(), options).unwrap();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let stuck = Contents::from([((STORE.0, STUCK), Bytes::from(vec![STUCK as u8; 100]))]);
    assert_eq!(shelf.contents(), stuck);
    assert_eq!(replayed.records(), 0, "nothing of the journal is left");
}

#[test]
fn disk_use_stays_within_the_cap_while_a_gibibyte_passes_through() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default();
    let cap = options.journal_bytes_max + options.journal_file_bytes;
    let (storage, recovery) = Storage::open(dir.path(), options).unwrap();
    let replayed = recovery.replay(|_| Ok::<_, StorageError>(())).unwrap();
    let sink = Collected::new();
    let journal = storage.start::<u64>(replayed, sink.clone()).unwrap();
    storage.attach(Arc::new(Forgetful)).unwrap();
    let payload = Bytes::from(vec![42; 256 << 10]);
    let largest = largest_while(dir.path(), || {
        for index in 1..=4096_u64 {
            if !journal.has_room() {
                wait_until("there is room", || journal.has_room());
            }
            journal
                .append(STREAM, index, payload.clone(), index)
                .unwrap();
        }
        wait_until("all is durable", || journal.waiting_bytes() == 0);
    });
    assert!(largest <= cap, "{largest} bytes on disk, {cap} allowed");
    let status = journal.status();
    assert_eq!(status.records, 4096);
    storage.shutdown().unwrap();
    assert_eq!(sink.flushed.lock().len(), 4096);
}

/// An owner in whose files nothing ever lives.
struct Forgetful;

impl Owner for Forgetful {
    fn applied(&self, _last: &[(StreamId, u64)]) -> bool {
        true
    }
    fn touched(&self, _file: FileId) -> Vec<StoreId> {
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
    fn released(&self, _file: FileId) {}
}

/// An owner with one file's worth of items, all of which are settled while they are being moved.
#[derive(Default)]
struct Fickle {
    asked: Mutex<Vec<&'static str>>,
    ready: AtomicBool,
    gone: bool,
    moved: Mutex<Vec<Location>>,
}

impl Owner for Fickle {
    fn applied(&self, last: &[(StreamId, u64)]) -> bool {
        assert_eq!(last, [(STREAM, 3)]);
        self.asked.lock().push("applied");
        self.ready.load(Ordering::Acquire)
    }
    fn touched(&self, _file: FileId) -> Vec<StoreId> {
        self.asked.lock().push("touched");
        vec![STORE]
    }
    fn live_items(&self, _: StoreId, _: FileId, from: u64, out: &mut Vec<LiveItem>) {
        for id in [1, 2].into_iter().filter(|id| *id >= from) {
            out.push(LiveItem {
                id,
                attributes: 0,
                bytes: Bytes::from_static(b"item"),
            });
        }
    }
    fn relocated(&self, _: Tier, _: StoreId, moved: &[(u64, Location)]) -> Vec<Location> {
        self.asked.lock().push("relocated");
        let places: Vec<Location> = moved.iter().map(|(_, location)| *location).collect();
        self.moved.lock().extend(places.clone());
        if self.gone { Vec::new() } else { places }
    }
    fn living(&self, _: Tier, _: StoreId, _: &mut Vec<(u64, Location)>) {}
    fn paging_starts(&self, _: StoreId, _: u64) -> u64 {
        0
    }
    fn pageable(&self, _: Tier, _: StoreId, _: u64, _: &mut Vec<LiveItem>) {}
    fn checkpoint(&self, _: StoreId, out: &mut Vec<u8>) -> Option<u64> {
        self.asked.lock().push("checkpoint");
        out.extend_from_slice(b"state");
        (!self.gone).then_some(3)
    }
    fn released(&self, _file: FileId) {
        self.asked.lock().push("released");
    }
}

fn flush_one_file(owner: &Arc<Fickle>) -> (SimulatedDisk, Storage) {
    let disk = SimulatedDisk::default();
    let options = Options {
        journal_file_bytes: 8 << 10,
        journal_bytes_max: 16 << 10,
        ..Options::default()
    };
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options).unwrap();
    let replayed = recovery.replay(|_| Ok::<_, StorageError>(())).unwrap();
    let journal = storage.start::<u64>(replayed, Collected::new()).unwrap();
    storage.attach(owner.clone()).unwrap();
    for index in 1..=3 {
        journal
            .append(STREAM, index, Bytes::from_static(b"record"), index)
            .unwrap();
    }
    wait_until("the records are durable", || journal.waiting_bytes() == 0);
    journal.seal();
    wait_until("the owner is asked", || owner.asked.lock().len() > 2);
    assert!(
        owner.asked.lock().iter().all(|asked| *asked == "applied"),
        "not looked at before"
    );
    owner.ready.store(true, Ordering::Release);
    wait_until("the file is released", || {
        owner.asked.lock().last() == Some(&"released")
    });
    (disk, storage)
}

#[test]
fn items_that_are_settled_while_they_are_moved_leave_nothing_behind() {
    let owner = Arc::new(Fickle::default());
    let (disk, storage) = flush_one_file(&owner);
    let mut asked = owner.asked.lock().clone();
    asked.retain(|asked| *asked != "applied");
    assert_eq!(asked, ["touched", "relocated", "checkpoint", "released"]);
    wait_until("the segment is removed", || {
        !disk.names().iter().any(|name| name.ends_with(".segment"))
    });
    let checkpoint = storage.checkpoints().get(STORE).unwrap().unwrap();
    assert_eq!(
        (checkpoint.covered, checkpoint.blob.as_ref()),
        (3, b"state".as_slice())
    );
    assert!(
        !disk.names().iter().any(|name| name.ends_with(".journal")),
        "{:?}",
        disk.names()
    );
}

#[test]
fn a_store_that_is_gone_at_its_checkpoint_is_dropped() {
    let owner = Arc::new(Fickle {
        gone: true,
        ..Fickle::default()
    });
    let (disk, storage) = flush_one_file(&owner);
    wait_until("its segment is removed", || {
        !disk.names().iter().any(|name| name.ends_with(".segment"))
    });
    assert_eq!(storage.checkpoints().get(STORE).unwrap(), None);
}

#[test]
fn indexes_that_a_checkpoint_covers_are_never_given_out_again() {
    let disk = SimulatedDisk::default();
    let options = Options::default();
    let open =
        || Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options.clone()).unwrap();
    let (storage, recovery) = open();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    storage.attach(shelf.clone()).unwrap();
    let put = encode(&[Command::Put {
        store: STORE,
        id: 1,
        body: Bytes::from_static(b"x"),
    }]);
    journal.append(STREAM, 1, put.clone(), put).unwrap();
    // Markers leave no trace in the journal, but the checkpoint covers their indexes.
    for index in 2..=9 {
        journal.append_marker(STREAM, index, Bytes::new()).unwrap();
    }
    wait_until("all is applied", || shelf.applied_index() == 9);
    journal.seal();
    wait_until("the file is released", || shelf.released().len() == 1);
    assert_eq!(
        storage.checkpoints().get(STORE).unwrap().unwrap().covered,
        9
    );
    storage.shutdown().unwrap();
    drop(storage);
    let (_storage, recovery) = open();
    let replayed = recovery.replay(|_| Ok::<_, StorageError>(())).unwrap();
    assert_eq!(replayed.last_index(STREAM), 9);
}

#[test]
fn a_failed_sync_of_a_segment_stops_the_journal_and_the_file_stays() {
    let disk = SimulatedDisk::default();
    let options = Options {
        journal_file_bytes: 8 << 10,
        journal_bytes_max: 16 << 10,
        ..Options::default()
    };
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options).unwrap();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    storage.attach(shelf.clone()).unwrap();
    disk.fail_syncs_of(".segment");
    for index in 1..=100 {
        let body = Bytes::from(vec![0; 500]);
        let put = encode(&[Command::Put {
            store: STORE,
            id: index,
            body,
        }]);
        if journal.append(STREAM, index, put.clone(), put).is_err() {
            break;
        }
    }
    wait_until("the sink is told", || shelf.poisoned().is_some());
    assert!(storage.shutdown().is_err());
    assert_eq!(shelf.released(), []);
    assert!(
        disk.names()
            .contains(&"0000000000000001.journal".to_owned())
    );
}

#[test]
fn an_owner_that_panics_stops_the_journal_and_says_so() {
    struct Broken;
    impl Owner for Broken {
        fn applied(&self, _: &[(StreamId, u64)]) -> bool {
            true
        }
        fn touched(&self, _: FileId) -> Vec<StoreId> {
            panic!("a bug in the owner")
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
    let disk = SimulatedDisk::default();
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk), Path::new("/data"), Options::default()).unwrap();
    let replayed = recovery.replay(|_| Ok::<_, StorageError>(())).unwrap();
    let sink = Collected::new();
    let journal = storage.start::<u64>(replayed, sink.clone()).unwrap();
    storage.attach(Arc::new(Broken)).unwrap();
    journal
        .append(STREAM, 1, Bytes::from_static(b"record"), 1)
        .unwrap();
    wait_until("the record is durable", || sink.tags() == [1]);
    journal.seal();
    wait_until("the sink is told", || sink.poisoned.lock().is_some());
    let why = sink.poisoned.lock().clone().unwrap();
    assert!(
        why.contains("a storage thread panicked: a bug in the owner"),
        "{why}"
    );
    assert!(storage.shutdown().is_err());
}
