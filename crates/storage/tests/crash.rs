//! Kills at random points of random work: what was reported is there afterwards, in order, and nothing
//! that was not asked for.
//!
//! The disk of these tests records every step; a crash is a cut in that record, with what was not synced
//! kept (a killed process), lost or torn (a power cut). Each run goes through several lives.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use storage::{Options, Storage, StoreId};
use support::disk::{SimulatedDisk, Unsynced};
use support::shelf::{Command, STREAM, Shelf, encode, model};
use support::{Dice, wait_until};

const STORES: u64 = 4;

/// Small enough that files fill, seal, recycle and rewrite all the time.
fn options() -> Options {
    Options {
        journal_file_bytes: 8 << 10,
        journal_bytes_max: 24 << 10,
        record_bytes_max: 64 << 10,
        segment_bytes: 4 << 10,
        open_segments_max: 3,
        checkpoint_rewrite_bytes_min: 2 << 10,
        ..Options::default()
    }
}

/// Everything that was ever asked for, whichever part of it survived so far.
struct History {
    /// Commands by index; index 1 is the first.
    log: Vec<Vec<Command>>,
    next_id: u64,
    live: Vec<(StoreId, u64)>,
}

impl History {
    fn new() -> Self {
        Self {
            log: Vec::new(),
            next_id: 1,
            live: Vec::new(),
        }
    }

    fn next_batch(&mut self, dice: &mut Dice) -> Vec<Command> {
        (0..=dice.below(6))
            .map(|_| self.next_command(dice))
            .collect()
    }

    fn next_command(&mut self, dice: &mut Dice) -> Command {
        // Some of what is put is never settled, so that it has to be moved.
        if !self.live.is_empty() && !dice.chance(3) {
            let chosen = dice.below(self.live.len() as u64) as usize;
            let (store, id) = self.live.swap_remove(chosen);
            return Command::Settle { store, id };
        }
        let store = StoreId(dice.below(STORES));
        let id = self.next_id;
        self.next_id += 1;
        if !dice.chance(5) {
            self.live.push((store, id));
        }
        let len = if dice.chance(40) {
            12_000
        } else {
            dice.below(300)
        };
        Command::Put {
            store,
            id,
            body: Bytes::from(vec![id as u8; len as usize]),
        }
    }

    /// What did not survive the crash never happened.
    fn cut(&mut self, durable: u64, last_index: u64) {
        self.log.truncate(durable as usize);
        self.log.resize(last_index as usize, Vec::new());
        self.live = model(&self.log, durable)
            .keys()
            .map(|(store, id)| (StoreId(*store), *id))
            .collect();
    }
}

/// One life: recover, check, work, and stop in some way.
fn live(disk: &SimulatedDisk, history: &mut History, dice: &mut Dice) {
    let reported = disk.highest_note(disk.steps());
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options()).unwrap();
    let (shelf, replayed, durable) =
        Shelf::recover(storage.segments(), recovery, Some(disk)).unwrap();
    assert!(
        durable >= reported,
        "{reported} was reported, only {durable} is there"
    );
    assert!(durable <= history.log.len() as u64, "invented records");
    assert_eq!(
        shelf.contents(),
        model(&history.log, durable),
        "state after record {durable}"
    );
    history.cut(durable, replayed.last_index(STREAM));
    // What an owner has seen replayed it may act on.
    disk.note(durable);

    let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
    assert_eq!(journal.last_index(STREAM), history.log.len() as u64);
    storage.attach(shelf.clone()).unwrap();
    for _ in 0..dice.below(120) {
        let batch = history.next_batch(dice);
        let payload = encode(&batch);
        history.log.push(batch);
        let index = history.log.len() as u64;
        if dice.chance(3) {
            let middle = payload.len() / 2;
            let parts = vec![payload.slice(..middle), payload.slice(middle..)];
            journal.append(STREAM, index, parts, payload).unwrap();
        } else {
            journal
                .append(STREAM, index, payload.clone(), payload)
                .unwrap();
        }
        if dice.chance(8) {
            wait_until("records are durable", || shelf.applied_index() == index);
        }
    }
    storage.shutdown().unwrap();
    let last_index = history.log.len() as u64;
    assert_eq!(
        shelf.applied_index(),
        last_index,
        "a clean stop writes everything"
    );
    assert_eq!(shelf.contents(), model(&history.log, last_index));
}

fn lives(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut disk = SimulatedDisk::default();
    let mut history = History::new();
    for _ in 0..4 {
        let steps_before = disk.steps();
        live(&disk, &mut history, &mut dice);
        let steps = disk.steps();
        let cut = match dice.below(6) {
            0 => steps,
            // Early: in the middle of the recovery or of the first flushes after it.
            1 => steps_before + dice.below((steps - steps_before).min(20) as u64 + 1) as usize,
            _ => steps_before + dice.below((steps - steps_before) as u64 + 1) as usize,
        };
        let unsynced = match dice.below(4) {
            0 => Unsynced::Kept,
            1 => Unsynced::Lost,
            _ => Unsynced::Torn,
        };
        disk = disk.after_crash(cut, unsynced, &mut dice);
    }
    live(&disk, &mut history, &mut dice);
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

/// A longer run by hand: `PROPTEST_CASES=5000 cargo test -p storage --test crash`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_was_reported_survives_any_crash(seed in any::<u64>()) {
        lives(seed);
    }
}
