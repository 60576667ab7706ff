//! Segments that are mostly dead are compacted; what is paged out leaves memory and comes back.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use storage::{
    FileId, FlushSink, Flushed, Journal, LiveItem, Location, Options, Owner, Poisoned, Storage,
    StorageError, StoreId, StreamId, Tier,
};
use support::disk::SimulatedDisk;
use support::shelf::{Command, Contents, STREAM, Shelf, encode};
use support::sink::Collected;
use support::wait_until;

const STORE: StoreId = StoreId(1);
const DIR: &str = "/data";

fn options() -> Options {
    Options {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 256 << 10,
        segment_bytes: 16 << 10,
        dead_bytes_allowed: 0,
        ..Options::default()
    }
}

struct Running {
    disk: SimulatedDisk,
    storage: Storage,
    shelf: Arc<Shelf>,
    journal: Journal<Bytes>,
    index: u64,
}

impl Running {
    fn start(disk: SimulatedDisk) -> Self {
        let opened = Storage::open_on(Arc::new(disk.clone()), Path::new(DIR), options());
        let (storage, recovery) = opened.unwrap();
        let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
        let index = replayed.last_index(STREAM);
        let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
        storage.attach(shelf.clone()).unwrap();
        Self {
            disk,
            storage,
            shelf,
            journal,
            index,
        }
    }

    fn append(&mut self, commands: &[Command]) {
        self.index += 1;
        let payload = encode(commands);
        let appended = self
            .journal
            .append(STREAM, self.index, payload.clone(), payload);
        appended.unwrap();
    }

    fn flush(&self) {
        wait_until("all is applied", || {
            self.shelf.applied_index() == self.index
        });
        self.journal.seal();
        wait_until("all is flushed", || {
            self.journal.status().sealed_waiting == 0 && self.journal.status().used_bytes == 0
        });
    }

    fn segment_bytes(&self) -> u64 {
        self.disk.total_bytes("segment") as u64
    }
}

fn put(id: u64) -> Command {
    put_in(STORE, id)
}

fn put_in(store: StoreId, id: u64) -> Command {
    let body = Bytes::from(vec![id as u8; 100]);
    Command::Put { store, id, body }
}

fn settle(id: u64) -> Command {
    Command::Settle { store: STORE, id }
}

fn expected(ids: impl Iterator<Item = u64>) -> Contents {
    ids.map(|id| ((STORE.0, id), Bytes::from(vec![id as u8; 100])))
        .collect()
}

#[test]
fn stuck_items_at_some_depth_hold_no_more_than_twice_their_own_bytes_and_a_segment() {
    const ITEMS: u64 = 20_000;
    const DEPTH: u64 = 1_000;
    const STUCK_EVERY: u64 = 500;
    let is_stuck = |id: &u64| id.is_multiple_of(STUCK_EVERY);
    let mut running = Running::start(SimulatedDisk::default());
    let mut largest = 0;
    for first in (1..=ITEMS).step_by(50) {
        let ids = first..(first + 50).min(ITEMS + 1);
        let mut commands: Vec<Command> = ids.clone().map(put).collect();
        let passed = ids
            .filter_map(|id| id.checked_sub(DEPTH))
            .filter(|id| *id > 0);
        commands.extend(passed.filter(|id| !is_stuck(id)).map(settle));
        running.append(&commands);
        wait_until("all is applied", || {
            running.shelf.applied_index() == running.index
        });
        largest = largest.max(running.segment_bytes());
    }
    running.flush();
    let live: Vec<u64> = (1..=ITEMS)
        .filter(|id| is_stuck(id) || *id > ITEMS - DEPTH)
        .collect();
    let live_bytes = live.len() as u64 * 136;
    // While one segment is copied both are there; footers come on top.
    let bound = 2 * live_bytes + 3 * options().segment_bytes;
    wait_until("the segments are compacted", || {
        running.segment_bytes() <= bound
    });
    assert!(
        largest <= 2 * bound,
        "{largest} bytes at most, {bound} at rest"
    );
    assert_eq!(running.shelf.contents(), expected(live.iter().copied()));
    running.storage.shutdown().unwrap();
    let disk = running.disk.clone();
    drop(running);
    let running = Running::start(disk);
    assert_eq!(running.shelf.contents(), expected(live.into_iter()));
    running.storage.shutdown().unwrap();
}

#[test]
fn a_damaged_item_keeps_its_segment_and_the_others_are_moved() {
    let mut running = Running::start(SimulatedDisk::default());
    running.append(&(1..=400).map(put).collect::<Vec<_>>());
    running.flush();
    // In the body of the first item: behind the headers of the file and of the item.
    let name = "0000000000000001-00000001.segment";
    running.disk.damage(name, |bytes| bytes[32 + 32 + 10] ^= 1);
    // The first segment is the one with the least life in it.
    let is_kept = |id: &u64| [1, 50].contains(id) || *id > 120 && id.is_multiple_of(20);
    let settles = (1..=400).filter(|id| !is_kept(id)).map(settle);
    running.append(&settles.collect::<Vec<_>>());
    wait_until("the undamaged one is in another segment", || {
        let usage = running.storage.segments().segments_of(STORE);
        usage[0].segment == 1 && usage[0].live_items == 1
    });
    let read = |id: u64| {
        let usage = running.storage.segments().recover(STORE).unwrap();
        let found: Vec<_> = usage
            .map(Result::unwrap)
            .filter(|item| item.id == id)
            .collect();
        let place = found.last().unwrap().location;
        running.storage.segments().read(STORE, &place)
    };
    assert!(read(50).is_ok() && read(140).is_ok());
    let error = read(1).unwrap_err();
    assert!(
        matches!(&error, StorageError::Corrupt { path, offset: 32, .. } if path.ends_with(name)),
        "{error}"
    );
    running.storage.shutdown().unwrap();
}

#[test]
fn a_store_is_paged_out_behind_what_it_may_keep_and_survives() {
    let mut running = Running::start(SimulatedDisk::default());
    running.append(&(1..=100).map(put).collect::<Vec<_>>());
    running.append(&[put_in(StoreId(2), 1)]);
    wait_until("all is applied", || running.shelf.applied_index() == 2);
    assert_eq!(running.shelf.in_segments(), 0);
    running.storage.page_out(STORE, 2_500);
    wait_until("all but the first 25 are in segments", || {
        running.shelf.in_segments() == 75
    });
    running.append(&[settle(1), settle(40)]);
    running.flush();
    running.storage.shutdown().unwrap();
    let disk = running.disk.clone();
    drop(running);
    let running = Running::start(disk);
    let mut live = expected((2..=100).filter(|id| *id != 40));
    live.insert((2, 1), Bytes::from(vec![1; 100]));
    assert_eq!(running.shelf.contents(), live);
    running.storage.shutdown().unwrap();
}

/// An owner of items that need not survive.
#[derive(Default)]
struct Transient {
    resident: Mutex<Vec<(u64, Bytes)>>,
    paged: Mutex<Vec<(u64, Location)>>,
}

impl Owner for Transient {
    fn applied(&self, _: &[(StreamId, u64)]) -> bool {
        true
    }
    fn touched(&self, _: FileId) -> Vec<StoreId> {
        Vec::new()
    }
    fn live_items(&self, _: StoreId, _: FileId, _: u64, _: &mut Vec<LiveItem>) {}
    fn relocated(&self, tier: Tier, _: StoreId, moved: &[(u64, Location)]) -> Vec<Location> {
        assert_eq!(tier, Tier::Paged);
        for (id, _) in moved {
            self.resident.lock().retain(|(resident, _)| resident != id);
            self.paged.lock().retain(|(paged, _)| paged != id);
        }
        self.paged.lock().extend(moved);
        Vec::new()
    }
    fn living(&self, _: Tier, _: StoreId, items: &mut Vec<(u64, Location)>) {
        let paged = self.paged.lock();
        items.retain(|item| paged.contains(item));
    }
    fn paging_starts(&self, _: StoreId, _: u64) -> u64 {
        0
    }
    fn pageable(&self, tier: Tier, _: StoreId, from: u64, out: &mut Vec<LiveItem>) {
        let resident = self.resident.lock();
        let resident = resident.iter().filter(|(id, _)| *id >= from);
        let items = resident.map(|(id, bytes)| LiveItem {
            id: *id,
            attributes: 0,
            bytes: bytes.clone(),
        });
        if tier == Tier::Paged {
            out.extend(items);
        }
    }
    fn checkpoint(&self, _: StoreId, _: &mut Vec<u8>) -> Option<u64> {
        None
    }
    fn released(&self, _: FileId) {}
}

impl FlushSink<u64> for Transient {
    fn flushed(&self, _: &mut Vec<Flushed<u64>>) {}
    fn poisoned(&self, why: &Poisoned) {
        panic!("{why}");
    }
}

#[test]
fn transient_items_are_paged_out_without_a_sync_compacted_and_gone_after_a_restart() {
    let disk = SimulatedDisk::default();
    // Nothing below is a promise, so no sync may be needed for it.
    disk.fail_syncs_of(".segment");
    let open = || Storage::open_on(Arc::new(disk.clone()), Path::new(DIR), options()).unwrap();
    let (storage, recovery) = open();
    let replayed = recovery.replay(|_| Ok::<_, StorageError>(())).unwrap();
    let _journal = storage.start::<u64>(replayed, Collected::new()).unwrap();
    let owner = Arc::new(Transient::default());
    let body = |id: u64| Bytes::from(vec![id as u8; 200]);
    owner
        .resident
        .lock()
        .extend((0..1_000).map(|id| (id, body(id))));
    storage.attach(owner.clone()).unwrap();
    storage.page_out(STORE, 0);
    wait_until("nothing is in memory", || {
        owner.resident.lock().is_empty() && owner.paged.lock().len() == 1_000
    });
    let full = storage.paged().usage(STORE);
    assert_eq!((full.live_items, full.live_bytes), (1_000, 200_000));
    // All but every hundredth end.
    let (kept, ended): (Vec<_>, Vec<_>) = owner
        .paged
        .lock()
        .drain(..)
        .partition(|(id, _)| id.is_multiple_of(100));
    owner.paged.lock().extend(kept);
    let places: Vec<Location> = ended.into_iter().map(|(_, place)| place).collect();
    storage.paged().release(STORE, &places);
    wait_until("the rest is compacted", || {
        disk.total_bytes("segment") as u64 <= 2 * options().segment_bytes
    });
    for (id, place) in owner.paged.lock().iter() {
        assert_eq!(storage.paged().read(STORE, place).unwrap(), body(*id));
    }
    storage.shutdown().unwrap();
    drop(storage);
    let (storage, _recovery) = open();
    assert_eq!(storage.paged().usage(STORE).segments, 0);
    assert_eq!(disk.total_bytes("segment"), 0);
}
