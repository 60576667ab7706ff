//! Full journal files that are kept for a while before they are flushed: what dies meanwhile is never
//! copied, and nothing waits for room because of it.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use storage::{Journal, Options, Storage, StoreId};
use support::shelf::{Command, STREAM, Shelf, encode};
use support::wait_until;

const STORE: StoreId = StoreId(1);
const BODY_BYTES: u64 = 1_000;

struct Node {
    journal: Journal<Bytes>,
    shelf: Arc<Shelf>,
    storage: Storage,
    _dir: tempfile::TempDir,
}

fn start(journal_bytes_kept: u64) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 256 << 10,
        journal_bytes_kept,
        ..Options::default()
    };
    let (storage, recovery) = Storage::open(dir.path(), options).unwrap();
    let (shelf, replayed, _) = Shelf::recover(storage.segments(), recovery, None).unwrap();
    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    storage.attach(shelf.clone()).unwrap();
    Node {
        journal,
        shelf,
        storage,
        _dir: dir,
    }
}

impl Node {
    /// Puts items one by one and settles each when so many came behind it.
    fn pass_through(&self, items: u64, depth: u64) {
        for id in 0..items {
            let put = Command::Put {
                store: STORE,
                id,
                body: vec![7; BODY_BYTES as usize].into(),
            };
            let settled = id.checked_sub(depth);
            let settle = settled.map(|id| Command::Settle { store: STORE, id });
            let commands: Vec<Command> = [put].into_iter().chain(settle).collect();
            let payload = encode(&commands);
            let appended = self
                .journal
                .append(STREAM, id + 1, payload.clone(), payload);
            appended.unwrap();
            wait_until("it is applied", || self.shelf.applied_index() == id + 1);
        }
    }
}

#[test]
fn what_dies_while_its_file_is_kept_is_never_copied() {
    let node = start(128 << 10);
    // 100 items of 1,000 bytes are less than the two files that are kept.
    node.pass_through(1_000, 100);
    wait_until("files are flushed", || node.shelf.released().len() >= 10);
    assert_eq!(node.shelf.in_segments(), 0);
    assert_eq!(node.storage.segments().usage(STORE).segments, 0);
    let used_bytes = node.journal.status().used_bytes;
    assert!(used_bytes <= 256 << 10, "{used_bytes} bytes");
    node.storage.shutdown().unwrap();
}

#[test]
fn what_lives_longer_is_copied_and_kept() {
    let node = start(128 << 10);
    node.pass_through(1_000, 400);
    wait_until("files are flushed", || node.shelf.in_segments() >= 100);
    assert_eq!(node.shelf.contents().len(), 400);
    node.storage.shutdown().unwrap();
}

#[test]
fn a_journal_that_may_keep_all_its_files_still_gets_room() {
    let node = start(1 << 20);
    node.pass_through(1_000, 100);
    assert!(node.shelf.released().len() >= 10);
    assert_eq!(node.shelf.contents().len(), 100);
    node.storage.shutdown().unwrap();
}
