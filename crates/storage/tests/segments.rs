//! Segments by themselves: what is appended is read back, found again, and goes when nothing in it lives.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use storage::{
    Item, Location, Options, RecoveredItem, SegmentStore, Storage, StorageError, StoreId,
};
use support::Dice;
use support::disk::{SimulatedDisk, Unsynced};
use support::wait_until;

const STORE: StoreId = StoreId(5);

fn options() -> Options {
    Options {
        segment_bytes: 4 << 10,
        open_segments_max: 2,
        ..Options::default()
    }
}

fn open(disk: &SimulatedDisk) -> Storage {
    Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options())
        .unwrap()
        .0
}

fn body(id: u64) -> Vec<u8> {
    vec![id as u8; 20 + (id * 13 % 300) as usize]
}

fn append(
    segments: &SegmentStore,
    store: StoreId,
    ids: std::ops::Range<u64>,
) -> Vec<(u64, Location)> {
    let mut moved = Vec::new();
    for id in ids {
        let body = body(id);
        let parts: [&[u8]; 2] = [&body[..5], &body[5..]];
        let item = Item {
            id,
            attributes: id * 3,
            parts: &parts,
        };
        let places = segments.append(store, &[item]).unwrap();
        moved.push((id, places[0]));
    }
    segments.sync(&[store]).unwrap();
    moved
}

fn found(segments: &SegmentStore, store: StoreId) -> Vec<RecoveredItem> {
    segments
        .recover(store)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn expected(moved: &[(u64, Location)]) -> Vec<RecoveredItem> {
    let items = moved.iter();
    items
        .map(|(id, location)| RecoveredItem {
            id: *id,
            attributes: id * 3,
            location: *location,
        })
        .collect()
}

fn segment_names(disk: &SimulatedDisk) -> Vec<String> {
    disk.names()
        .into_iter()
        .filter(|name| name.ends_with(".segment"))
        .collect()
}

#[test]
fn items_read_back_and_are_found_again_in_order() {
    let disk = SimulatedDisk::default();
    let storage = open(&disk);
    let moved = append(storage.segments(), STORE, 1..100);
    let other = append(storage.segments(), StoreId(6), 1..10);
    for (id, location) in &moved {
        assert_eq!(storage.segments().read(STORE, location).unwrap(), body(*id));
    }
    let usage = storage.segments().usage(STORE);
    assert_eq!(usage.live_items, 99);
    assert!(usage.segments > 3, "{usage:?}");
    drop(storage);

    let storage = open(&disk);
    let mut stores = storage.segments().stores();
    stores.sort_unstable();
    assert_eq!(stores, [STORE, StoreId(6)]);
    assert_eq!(found(storage.segments(), STORE), expected(&moved));
    assert_eq!(found(storage.segments(), StoreId(6)), expected(&other));
    for (id, location) in &moved {
        assert_eq!(storage.segments().read(STORE, location).unwrap(), body(*id));
    }
    assert_eq!(storage.segments().usage(STORE).live_items, 99);
}

#[test]
fn an_open_segment_is_continued_after_a_restart() {
    let disk = SimulatedDisk::default();
    let storage = open(&disk);
    let mut moved = append(storage.segments(), STORE, 1..4);
    drop(storage);
    let storage = open(&disk);
    // Without looking at what is there first.
    moved.extend(append(storage.segments(), STORE, 4..8));
    assert_eq!(segment_names(&disk).len(), 1);
    assert_eq!(found(storage.segments(), STORE), expected(&moved));
    drop(storage);
    let storage = open(&disk);
    assert_eq!(found(storage.segments(), STORE), expected(&moved));
}

#[test]
fn a_run_serves_the_neighbours_without_another_read() {
    let disk = SimulatedDisk::default();
    let storage = open(&disk);
    let moved = append(storage.segments(), STORE, 1..12);
    let run = storage
        .segments()
        .read_run(STORE, &moved[2].1, 1000)
        .unwrap();
    assert!(run.get(&moved[1].1).is_none(), "lies before the run");
    let served = moved[2..]
        .iter()
        .take_while(|(id, location)| run.get(location).is_some_and(|bytes| bytes == body(*id)));
    assert!(served.count() >= 3);
    // However small the wish, the first item is whole.
    let run = storage.segments().read_run(STORE, &moved[2].1, 1).unwrap();
    assert_eq!(run.get(&moved[2].1).unwrap(), body(3));
    assert!(run.get(&moved[3].1).is_none());
}

#[test]
fn a_torn_tail_is_cut() {
    let disk = SimulatedDisk::default();
    let storage = open(&disk);
    let kept = append(storage.segments(), STORE, 1..4);
    append(storage.segments(), STORE, 4..5);
    drop(storage);
    let name = segment_names(&disk).remove(0);
    disk.damage(&name, |bytes| bytes.truncate(bytes.len() - 9));
    let storage = open(&disk);
    assert_eq!(found(storage.segments(), STORE), expected(&kept));
    let more = append(storage.segments(), STORE, 10..12);
    assert_eq!(
        storage.segments().read(STORE, &more[0].1).unwrap(),
        body(10)
    );
}

#[test]
fn damage_before_a_later_synced_item_names_file_and_offset() {
    let disk = SimulatedDisk::default();
    let storage = open(&disk);
    let moved = append(storage.segments(), STORE, 1..4);
    append(storage.segments(), STORE, 4..5);
    let name = segment_names(&disk).remove(0);
    let damaged = moved[1].1.offset;
    disk.damage(&name, |bytes| bytes[damaged as usize + 40] ^= 1);
    match storage.segments().read(STORE, &moved[1].1) {
        Err(StorageError::Corrupt { offset, .. }) => assert_eq!(offset, u64::from(damaged)),
        other => panic!("{other:?}"),
    }
    drop(storage);
    let storage = open(&disk);
    match storage.segments().recover(STORE).map(|_| ()) {
        Err(StorageError::Corrupt { path, offset, .. }) => {
            assert!(path.ends_with(&name), "{path:?}");
            assert_eq!(offset, u64::from(damaged));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lost_footer_is_read_from_the_items() {
    let disk = SimulatedDisk::default();
    let storage = open(&disk);
    let moved = append(storage.segments(), STORE, 1..100);
    drop(storage);
    let first = segment_names(&disk).into_iter().min().unwrap();
    for cut in [1, 30, 50] {
        disk.damage(&first, |bytes| bytes.truncate(bytes.len() - cut));
        let storage = open(&disk);
        assert_eq!(
            found(storage.segments(), STORE),
            expected(&moved),
            "{cut} bytes cut"
        );
    }
}

#[test]
fn a_segment_goes_when_nothing_in_it_lives_and_not_before() {
    let disk = SimulatedDisk::default();
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options()).unwrap();
    let (shelf, replayed, _) =
        support::shelf::Shelf::recover(storage.segments(), recovery, None).unwrap();
    storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    storage.attach(shelf).unwrap();
    let segments = storage.segments();
    let moved = append(segments, STORE, 1..100);
    let in_first = |location: &Location| location.segment == 1;
    let first: Vec<Location> = moved
        .iter()
        .map(|(_, location)| *location)
        .filter(in_first)
        .collect();
    let count = segment_names(&disk).len();
    segments.release(STORE, &first[1..]);
    let usage = segments.usage(STORE);
    assert_eq!(usage.live_items, 100 - first.len() as u64);
    assert!(usage.dead_bytes > 0);
    assert_eq!(segments.read(STORE, &first[0]).unwrap(), body(1));
    segments.release(STORE, &first[..1]);
    wait_until("the first segment is removed", || {
        segment_names(&disk).len() == count - 1
    });
    match segments.read(STORE, &first[0]) {
        Err(StorageError::NoSuchSegment {
            store: 5,
            segment: 1,
        }) => {}
        other => panic!("{other:?}"),
    }
    // The open one too, once it is empty; what comes later begins another.
    segments.drop_store(STORE);
    wait_until("all are removed", || segment_names(&disk).is_empty());
    wait_until("the store is forgotten", || segments.stores().is_empty());
    let later = append(segments, STORE, 200..201);
    assert_eq!(segments.read(STORE, &later[0].1).unwrap(), body(200));
}

#[test]
fn an_item_larger_than_a_segment_has_one_of_its_own() {
    let disk = SimulatedDisk::default();
    let storage = open(&disk);
    append(storage.segments(), STORE, 1..3);
    let large = vec![3; 20 << 10];
    let item = Item {
        id: 3,
        attributes: 9,
        parts: &[&large],
    };
    let place = storage.segments().append(STORE, &[item]).unwrap()[0];
    append(storage.segments(), STORE, 4..6);
    assert_eq!(storage.segments().read(STORE, &place).unwrap(), large);
    drop(storage);
    let storage = open(&disk);
    let ids: Vec<u64> = found(storage.segments(), STORE)
        .iter()
        .map(|item| item.id)
        .collect();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    let disk = SimulatedDisk::default();
    let storage = open(&disk);
    let kept = append(storage.segments(), STORE, 1..40);
    let synced = disk.steps();
    append(storage.segments(), STORE, 40..80);
    let last = disk.steps();
    drop(storage);
    let mut dice = Dice::new(11);
    for _ in 0..200 {
        let cut = synced + dice.below((last - synced) as u64 + 1) as usize;
        let disk = disk.after_crash(cut, Unsynced::Torn, &mut dice);
        let storage = open(&disk);
        let items = found(storage.segments(), STORE);
        assert_eq!(items[..kept.len()], expected(&kept));
        for (number, item) in items.iter().enumerate() {
            assert_eq!(item.id, number as u64 + 1);
            assert_eq!(
                storage.segments().read(STORE, &item.location).unwrap(),
                body(item.id)
            );
        }
    }
}
