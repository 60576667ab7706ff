//! A check of a data directory changes nothing, names what is damaged, and shows all the rest.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use storage::{Checked, Found, Options, Storage, StorageError, StoreId, check_on};
use support::disk::SimulatedDisk;
use support::shelf::{Command, STREAM, Shelf, encode};
use support::wait_until;

const DIR: &str = "/data";
const SEGMENT: &str = "/data/segments/0000000000000001-00000001.segment";
const JOURNAL: &str = "/data/journal/0000000000000002.journal";

/// Twenty items in a segment, and three records in the journal.
fn disk() -> SimulatedDisk {
    let disk = SimulatedDisk::default();
    let opened = Storage::open_on(
        Arc::new(disk.clone()),
        Path::new(DIR),
        Options {
            journal_file_bytes: 64 << 10,
            ..Options::default()
        },
    );
    let (storage, recovery) = opened.unwrap();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    storage.attach(shelf.clone()).unwrap();
    let put = |id: u64| Command::Put {
        store: StoreId(1),
        id,
        body: Bytes::from(vec![id as u8; 100]),
    };
    let append = |index: u64, commands: &[Command]| {
        let payload = encode(commands);
        journal
            .append(STREAM, index, payload.clone(), payload)
            .unwrap();
        wait_until("it is applied", || shelf.applied_index() == index);
    };
    append(1, &(1..=20).map(put).collect::<Vec<_>>());
    journal.seal();
    wait_until("it is flushed", || shelf.in_segments() == 20);
    wait_until("it is released", || shelf.released().len() == 1);
    (2..=4).for_each(|index| append(index, &[put(100 + index)]));
    storage.shutdown().unwrap();
    disk
}

fn checked(disk: &SimulatedDisk) -> (Checked, Vec<u64>, Vec<u64>) {
    let (mut items, mut records) = (Vec::new(), Vec::new());
    let before = disk.files();
    let checked = check_on(disk, Path::new(DIR), |found| match found {
        Found::State(store, _) => assert_eq!(store, StoreId(1)),
        Found::Record { index, .. } => records.push(index),
        Found::Item { id, bytes, .. } => {
            assert!(bytes.iter().all(|byte| *byte == id as u8));
            items.push(id);
        }
    });
    assert!(disk.files() == before, "a check writes nothing");
    (checked.unwrap(), items, records)
}

#[test]
fn an_undamaged_directory_is_shown_whole() {
    let (checked, items, records) = checked(&disk());
    assert_eq!(checked.damage, []);
    assert_eq!((checked.items, checked.records, checked.states), (20, 3, 1));
    assert_eq!(items, (1..=20).collect::<Vec<_>>());
    assert_eq!(records, [2, 3, 4]);
}

#[test]
fn what_lies_before_and_behind_the_damage_is_shown() {
    let disk = disk();
    let frame = 136;
    disk.damage(SEGMENT, |bytes| bytes[32 + 4 * frame + 50] ^= 4);
    disk.damage(JOURNAL, |bytes| bytes[40 + 45] ^= 4);
    let (checked, items, records) = checked(&disk);
    assert_eq!(items, (1..=20).filter(|id| *id != 5).collect::<Vec<_>>());
    assert_eq!(records, [3, 4]);
    let places: Vec<_> = checked
        .damage
        .iter()
        .map(|damage| (damage.path.to_str().unwrap(), damage.offset))
        .collect();
    assert_eq!(places, [(JOURNAL, 40), (SEGMENT, 32 + 4 * frame as u64)]);
    assert_eq!(checked.damage[1].until, 32 + 5 * frame as u64);
}

#[test]
fn damaged_headers_and_states_hide_nothing_else() {
    let disk = disk();
    disk.damage(SEGMENT, |bytes| bytes[0] ^= 4);
    disk.damage(JOURNAL, |bytes| bytes[0] ^= 4);
    disk.damage("/data/checkpoints", |bytes| bytes[60] ^= 4);
    let (checked, items, records) = checked(&disk);
    assert_eq!((items.len(), records.len()), (20, 3));
    assert_eq!((checked.damage.len(), checked.states), (3, 0));
}

#[test]
fn a_directory_without_data_is_no_data_directory() {
    let error = check_on(&SimulatedDisk::default(), Path::new(DIR), |_| {}).unwrap_err();
    assert!(matches!(error, StorageError::Io { .. }), "{error}");
}
