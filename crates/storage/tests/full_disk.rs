//! A full disk is no failure: what is to be stored waits, and goes on by itself once there is room.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use storage::{Options, Storage, StoreId};
use support::disk::SimulatedDisk;
use support::shelf::{Command, STREAM, Shelf, encode, model};
use support::wait_until;

fn options() -> Options {
    Options {
        journal_file_bytes: 8 << 10,
        journal_bytes_max: 24 << 10,
        segment_bytes: 4 << 10,
        ..Options::default()
    }
}

fn put(id: u64) -> Vec<Command> {
    let body = Bytes::from(vec![id as u8; 300]);
    vec![Command::Put {
        store: StoreId(id % 3),
        id,
        body,
    }]
}

#[test]
fn appends_flushes_and_checkpoints_wait_while_the_disk_is_full_and_then_go_on() {
    let disk = SimulatedDisk::default();
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options()).unwrap();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    storage.attach(shelf.clone()).unwrap();
    let log: Vec<_> = (1..=200).map(put).collect();
    for (number, batch) in log.iter().enumerate() {
        if number % 20 == 10 {
            disk.set_full(true);
        }
        let payload = encode(batch);
        let index = number as u64 + 1;
        journal
            .append(STREAM, index, payload.clone(), payload)
            .unwrap();
        if number % 20 == 19 {
            wait_until("somebody waits for room, or nobody needs any", || {
                storage.is_disk_full() || shelf.applied_index() == index
            });
            disk.set_full(false);
            wait_until("all is applied", || shelf.applied_index() == index);
        }
    }
    wait_until("nobody waits", || !storage.is_disk_full());
    assert_eq!(shelf.poisoned(), None);
    storage.shutdown().unwrap();
    assert_eq!(shelf.contents(), model(&log, 200));
    drop(storage);
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk), Path::new("/data"), options()).unwrap();
    let (shelf, _, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    assert_eq!(shelf.contents(), model(&log, 200));
}

#[test]
fn a_journal_that_waits_for_room_ends_when_it_is_shut_down_and_says_why() {
    let disk = SimulatedDisk::default();
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options()).unwrap();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    let payload = encode(&put(1));
    disk.set_full(true);
    journal.append(STREAM, 1, payload.clone(), payload).unwrap();
    wait_until("the journal waits for room", || storage.is_disk_full());
    let error = storage.shutdown().unwrap_err().to_string();
    assert!(error.contains("journal"), "{error}");
    assert_eq!(shelf.applied_index(), 0);
}

#[test]
fn a_full_disk_at_the_start_is_an_error_that_names_the_file() {
    let disk = SimulatedDisk::default();
    disk.set_full(true);
    let opened = Storage::open_on(Arc::new(disk), Path::new("/data"), options());
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("/data/"), "{error}");
}

#[test]
fn without_room_to_spare_no_journal_file_is_kept_for_recycling() {
    let disk = SimulatedDisk::default();
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options()).unwrap();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    storage.attach(shelf.clone()).unwrap();
    let cycle = |index: u64| {
        let payload = encode(&put(index));
        journal
            .append(STREAM, index, payload.clone(), payload)
            .unwrap();
        wait_until("it is applied", || shelf.applied_index() == index);
        journal.seal();
        wait_until("it is flushed", || journal.status().used_bytes == 0);
    };
    cycle(1);
    assert!(journal.status().free_bytes > 0);
    storage.be_frugal(true).unwrap();
    assert_eq!(journal.status().free_bytes, 0);
    cycle(2);
    assert_eq!(journal.status().free_bytes, 0);
    storage.be_frugal(false).unwrap();
    cycle(3);
    assert!(journal.status().free_bytes > 0);
    storage.shutdown().unwrap();
}
