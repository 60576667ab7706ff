//! The formats on disk, held fast: the same work writes the same bytes as the release that made the fixture,
//! and the fixture can be read.
//!
//! A fixture is kept for ever. For a new format: `BLESS=1 cargo test -p storage --test fixture` after
//! raising `FIXTURE`, and keep reading the older ones.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use storage::{Options, Storage, StoreId};
use support::disk::SimulatedDisk;
use support::shelf::{Command, STREAM, Shelf, encode, model};
use support::wait_until;

const FIXTURE: &str = "v1";
const ROOT: &str = "/data";

fn options() -> Options {
    Options {
        journal_file_bytes: 4 << 10,
        journal_bytes_max: 16 << 10,
        segment_bytes: 1 << 10,
        ..Options::default()
    }
}

fn put(store: u64, id: u64) -> Command {
    let body = Bytes::from(vec![b'a' + id as u8; 20 * id as usize]);
    Command::Put {
        store: StoreId(store),
        id,
        body,
    }
}

fn settle(store: u64, id: u64) -> Command {
    Command::Settle {
        store: StoreId(store),
        id,
    }
}

/// What is flushed to segments and checkpoints, then what stays in the journal.
fn log() -> (Vec<Vec<Command>>, Vec<Vec<Command>>) {
    let flushed = vec![
        (1..10).map(|id| put(1, id)).collect(),
        vec![put(2, 1), put(2, 2), settle(1, 3), settle(1, 4)],
    ];
    let later = vec![vec![put(2, 3), settle(2, 1)], vec![put(3, 5)]];
    (flushed, later)
}

fn fixture_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(FIXTURE)
}

fn read_below(dir: &Path, at: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = at.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            read_below(&entry.path(), &name, files);
        } else {
            files.push((name, std::fs::read(entry.path()).unwrap()));
        }
    }
}

fn work() -> SimulatedDisk {
    let disk = SimulatedDisk::default();
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new(ROOT), options()).unwrap();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    storage.attach(shelf.clone()).unwrap();
    let (flushed, later) = log();
    let count = flushed.len();
    for (number, batch) in flushed.iter().chain(&later).enumerate() {
        if number == count {
            journal.seal();
            wait_until("the file is released", || shelf.released().len() == 1);
        }
        let index = number as u64 + 1;
        let payload = encode(batch);
        journal
            .append(STREAM, index, payload.clone(), payload)
            .unwrap();
        // One sync each, so that the bytes do not depend on how the threads meet.
        wait_until("it is applied", || shelf.applied_index() == index);
    }
    storage.shutdown().unwrap();
    disk
}

#[test]
fn the_same_work_writes_the_same_bytes_and_the_fixture_can_be_read() {
    let disk = work();
    if std::env::var_os("BLESS").is_some() {
        for (path, content) in disk.files() {
            let path = fixture_dir().join(path.strip_prefix(ROOT).unwrap());
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }
    let mut fixture = Vec::new();
    read_below(&fixture_dir(), Path::new(ROOT), &mut fixture);
    fixture.sort();
    let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<PathBuf> {
        files.iter().map(|(path, _)| path.clone()).collect()
    };
    assert_eq!(names(&disk.files()), names(&fixture));
    for ((path, written), (_, kept)) in disk.files().iter().zip(&fixture) {
        assert!(written == kept, "{} differs", path.display());
    }

    let disk = SimulatedDisk::with_files(fixture);
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new(ROOT), options()).unwrap();
    let (shelf, replayed, durable) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let (flushed, later) = log();
    let log = [flushed, later].concat();
    assert_eq!(durable, 4);
    assert_eq!(shelf.contents(), model(&log, durable));
    // Seven of the first store, and the one of the second that was not settled later.
    assert_eq!(shelf.in_segments(), 8);
    assert_eq!(replayed.records(), 2);
}
