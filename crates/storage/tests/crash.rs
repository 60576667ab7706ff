//! Kills at chosen points. Random ones, and every other fault of a disk, are in `faults`.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use storage::{Options, Storage, StoreId};
use support::disk::{SimulatedDisk, Unsynced};
use support::shelf::{Command, STREAM, Shelf, encode, model};
use support::{Dice, wait_until};

/// Small enough that files fill, seal, recycle and rewrite all the time.
fn options() -> Options {
    Options {
        journal_file_bytes: 8 << 10,
        journal_bytes_max: 24 << 10,
        record_bytes_max: 64 << 10,
        segment_bytes: 4 << 10,
        dead_bytes_allowed: 0,
        open_segments_max: 3,
        checkpoint_rewrite_bytes_min: 2 << 10,
        ..Options::default()
    }
}

#[test]
fn what_a_killed_process_left_unsynced_is_made_durable_before_anything_counts_on_it() {
    let disk = SimulatedDisk::default();
    // The last one in another store, so that the first one's segment is not synced for its sake.
    let put = |id| {
        let body = Bytes::from(vec![id as u8; 50]);
        Command::Put {
            store: StoreId(id / 3),
            id,
            body,
        }
    };
    let log: Vec<Vec<Command>> = (1..=3).map(|id| vec![put(id)]).collect();
    let life = |disk: &SimulatedDisk, indexes: std::ops::RangeInclusive<u64>, released: usize| {
        let (storage, recovery) =
            Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options()).unwrap();
        let (shelf, replayed, _) =
            Shelf::recover(storage.segments(), recovery, Some(disk)).unwrap();
        let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
        storage.attach(shelf.clone()).unwrap();
        if indexes.start() > &1 {
            wait_until("the file is released", || {
                shelf.released().len() == released
            });
        }
        for index in indexes {
            let payload = encode(&log[index as usize - 1]);
            journal
                .append(STREAM, index, payload.clone(), payload)
                .unwrap();
            wait_until("it is applied", || shelf.applied_index() == index);
        }
        journal.seal();
        wait_until("the next file is released", || {
            shelf.released().len() == released + 1
        });
        storage.shutdown().unwrap();
    };
    life(&disk, 1..=2, 0);
    // Killed when the items were written to the segment, but not synced.
    let killed_at = disk.before_first_sync_of("segment");
    let disk = disk.after_crash(killed_at, Unsynced::Kept, &mut Dice::new(0));
    life(&disk, 3..=3, 1);
    let disk = disk.after_crash(disk.steps(), Unsynced::Lost, &mut Dice::new(0));
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options()).unwrap();
    let (shelf, _, durable) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    assert_eq!(durable, 3);
    assert_eq!(shelf.contents(), model(&log, 3));
}
