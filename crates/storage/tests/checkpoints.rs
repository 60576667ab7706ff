//! Checkpoints by themselves: all or none of a set, the last one wins, the file stays small.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use storage::{Options, Storage, StorageError, StoreId};
use support::Dice;
use support::disk::{SimulatedDisk, Unsynced};

fn options() -> Options {
    Options {
        checkpoint_rewrite_bytes_min: 4 << 10,
        ..Options::default()
    }
}

fn try_open(disk: &SimulatedDisk) -> Result<Storage, StorageError> {
    Ok(Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options())?.0)
}

fn put(storage: &Storage, set: &[(u64, u64)]) {
    let blobs: Vec<Vec<u8>> = set
        .iter()
        .map(|(store, covered)| blob(*store, *covered))
        .collect();
    let set: Vec<_> = set
        .iter()
        .zip(&blobs)
        .map(|((store, covered), blob)| (StoreId(*store), *covered, blob.as_slice()))
        .collect();
    storage.checkpoints().put(&set).unwrap();
}

fn blob(store: u64, covered: u64) -> Vec<u8> {
    vec![(store ^ covered) as u8; 10 + (store * 7 + covered * 31) as usize % 200]
}

fn covered(storage: &Storage, store: u64) -> Option<u64> {
    let checkpoint = storage.checkpoints().get(StoreId(store)).unwrap()?;
    assert_eq!(checkpoint.blob, blob(store, checkpoint.covered));
    Some(checkpoint.covered)
}

#[test]
fn the_last_state_of_each_store_comes_back() {
    let disk = SimulatedDisk::default();
    let storage = try_open(&disk).unwrap();
    put(&storage, &[(1, 10), (2, 10)]);
    put(&storage, &[(2, 20), (3, 20)]);
    for storage in [
        storage,
        try_open(
            &disk
                .clone()
                .after_crash(disk.steps(), Unsynced::Lost, &mut Dice::new(0)),
        )
        .unwrap(),
    ] {
        assert_eq!(covered(&storage, 1), Some(10));
        assert_eq!(covered(&storage, 2), Some(20));
        assert_eq!(covered(&storage, 3), Some(20));
        assert_eq!(covered(&storage, 4), None);
        let mut stores = storage.checkpoints().stores();
        stores.sort_unstable();
        assert_eq!(stores, [StoreId(1), StoreId(2), StoreId(3)]);
    }
}

#[test]
fn a_removed_store_stays_removed() {
    let disk = SimulatedDisk::default();
    let storage = try_open(&disk).unwrap();
    put(&storage, &[(1, 10), (2, 10)]);
    storage.checkpoints().remove(StoreId(1));
    assert_eq!(covered(&storage, 1), None);
    assert_eq!(storage.checkpoints().stores(), [StoreId(2)]);
    // A state that was on its way when the store was removed does not bring it back.
    put(&storage, &[(1, 11)]);
    assert_eq!(covered(&storage, 1), None);
    drop(storage);
    let storage = try_open(&disk).unwrap();
    assert_eq!(covered(&storage, 1), None);
    assert_eq!(covered(&storage, 2), Some(10));
}

#[test]
fn the_file_is_rewritten_when_most_of_it_is_dead() {
    let disk = SimulatedDisk::default();
    let storage = try_open(&disk).unwrap();
    for round in 0..2000 {
        put(&storage, &[(round % 5, round)]);
    }
    let size = disk.content("/data/checkpoints").len();
    assert!(size < 16 << 10, "{size} bytes for five small states");
    drop(storage);
    let storage = try_open(&disk).unwrap();
    for store in 0..5 {
        assert_eq!(covered(&storage, store), Some(1995 + store));
    }
}

#[test]
fn a_blob_of_many_mebibytes_comes_back() {
    let disk = SimulatedDisk::default();
    let storage = try_open(&disk).unwrap();
    let large: Vec<u8> = (0..9_u32 << 20)
        .map(|number| (number % 251) as u8)
        .collect();
    storage
        .checkpoints()
        .put(&[(StoreId(1), 5, &large), (StoreId(2), 6, b"small")])
        .unwrap();
    drop(storage);
    let storage = try_open(&disk).unwrap();
    assert_eq!(
        storage.checkpoints().get(StoreId(1)).unwrap().unwrap().blob,
        large
    );
    assert_eq!(
        storage.checkpoints().get(StoreId(2)).unwrap().unwrap().blob,
        b"small".as_slice()
    );
}

#[test]
fn a_crash_leaves_each_set_whole_or_not_at_all() {
    let disk = SimulatedDisk::default();
    let storage = try_open(&disk).unwrap();
    let mut ends = vec![(disk.steps(), 0)];
    for round in 1..=60 {
        put(&storage, &[(1, round), (2, round), (3, round)]);
        ends.push((disk.steps(), round));
    }
    drop(storage);
    let mut dice = Dice::new(5);
    for _ in 0..300 {
        let cut = ends[0].0 + dice.below((disk.steps() - ends[0].0) as u64 + 1) as usize;
        let unsynced = [Unsynced::Kept, Unsynced::Lost, Unsynced::Torn][dice.below(3) as usize];
        let crashed = disk.after_crash(cut, unsynced, &mut dice);
        let storage = try_open(&crashed).unwrap();
        let promised = ends
            .iter()
            .filter(|(steps, _)| *steps <= cut)
            .map(|(_, round)| *round)
            .max();
        let first = covered(&storage, 1).unwrap_or(0);
        assert!(first >= promised.unwrap());
        assert_eq!(covered(&storage, 2).unwrap_or(0), first);
        assert_eq!(covered(&storage, 3).unwrap_or(0), first);
        put(&storage, &[(1, 99)]);
        drop(storage);
        assert_eq!(covered(&try_open(&crashed).unwrap(), 1), Some(99));
    }
}

#[test]
fn damage_of_any_set_is_an_error_and_not_a_torn_tail() {
    // What vouches for the last set, an empty one, is written behind it and overwritten by the next, but
    // not by the first one after an opening.
    const VOUCHING_BYTES: usize = 32;
    for damaged in 0..3 {
        let disk = SimulatedDisk::default();
        let storage = try_open(&disk).unwrap();
        let mut starts = Vec::new();
        for number in 1..=3 {
            let len = disk.content("/data/checkpoints").len();
            starts.push(if number == 1 {
                len
            } else {
                len - VOUCHING_BYTES
            });
            put(&storage, &[(number, number)]);
        }
        drop(storage);
        let start = starts[damaged];
        disk.damage("/data/checkpoints", |bytes| bytes[start + 40] ^= 1);
        match try_open(&disk) {
            Err(StorageError::Corrupt { offset, .. }) => assert_eq!(offset, start as u64),
            other => panic!("{other:?}"),
        }
    }
}
