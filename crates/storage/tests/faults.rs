//! Random work on a disk that fails in every way a disk does, against an oracle: what was reported is there
//! afterwards, in order; what was settled is gone; or there is an error that names the file.
//!
//! Each seed is one kind of fault and several lives of a data directory. By hand, for longer:
//!
//! ```sh
//! cargo test -p storage --test faults -- --seeds 100000
//! cargo test -p storage --test faults -- --seed 4711        # this one alone
//! ```
//!
//! A seed fixes the work and the faults. Which thread comes first is the machine's choice, so a seed
//! may need several runs to fail again.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use storage::{Journal, Options, Recovery, Storage, StorageError, StoreId};
use support::disk::{SimulatedDisk, Unsynced};
use support::history::History;
use support::shelf::{Command, STREAM, Shelf, encode, model};
use support::{Dice, wait_until};

const DIR: &str = "/data";
const STORES: u64 = 4;
/// Seeds of a run that names no number, and how long it may take at most on a slow machine.
const SEEDS: u64 = 3_000;
const TIME_MAX: Duration = Duration::from_secs(60);

/// What goes wrong, besides short reads and short writes, which are in every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The process is killed.
    Kill,
    /// Power is lost, and all that was not synced.
    PowerCut,
    /// Power is lost; of what was not synced some sectors are there, in any order.
    TornSectors,
    /// Power is lost; the last writes end anywhere.
    TornBytes,
    /// A sync fails, what it should have written is lost; then power is lost too.
    FailedSync,
    /// The disk is full for a while.
    Full,
    /// A read fails while the directory is opened.
    FailedRead,
    /// A bit is turned over while nobody looks.
    FlippedBit,
}

const FAULTS: [Fault; 8] = [
    Fault::Kill,
    Fault::PowerCut,
    Fault::TornSectors,
    Fault::TornBytes,
    Fault::FailedSync,
    Fault::Full,
    Fault::FailedRead,
    Fault::FlippedBit,
];

/// Small enough that files fill, seal, recycle, are compacted and rewritten all the time.
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

fn open(disk: &SimulatedDisk) -> Result<(Storage, Recovery), StorageError> {
    let options = Options {
        // In about half of the lives full files are kept for a while.
        journal_bytes_kept: (disk.steps() as u64 % 2) * (8 << 10),
        ..options()
    };
    Storage::open_on(Arc::new(disk.clone()), Path::new(DIR), options)
}

type Opened = (Storage, Arc<Shelf>, storage::Replayed, u64);

fn recover(disk: &SimulatedDisk) -> Result<Opened, StorageError> {
    let (storage, recovery) = open(disk)?;
    let (shelf, replayed, durable) = Shelf::recover(storage.segments(), recovery, Some(disk))?;
    Ok((storage, shelf, replayed, durable))
}

struct Seed {
    fault: Fault,
    dice: Dice,
    disk: SimulatedDisk,
    history: History,
}

impl Seed {
    fn new(seed: u64) -> Self {
        Self {
            fault: FAULTS[seed as usize % FAULTS.len()],
            dice: Dice::new(seed),
            disk: SimulatedDisk::default(),
            history: History::new(STORES),
        }
    }

    fn run(mut self) {
        for _ in 0..3 {
            let steps_before = self.disk.steps();
            let stopped_in_order = self.live();
            self.end_of_life(steps_before, stopped_in_order);
        }
        self.fault = Fault::Kill;
        self.live();
    }

    /// One life: recover, check, work, and stop; answers whether the stop was a clean one.
    fn live(&mut self) -> bool {
        let reported = self.disk.highest_note(self.disk.steps());
        if self.fault == Fault::FailedRead {
            self.open_with_a_failed_read();
        }
        let (storage, shelf, replayed, durable) = recover(&self.disk).unwrap();
        assert!(
            durable >= reported,
            "{reported} was reported, only {durable} is there"
        );
        assert!(durable <= self.history.log.len() as u64, "invented records");
        assert_eq!(
            shelf.contents(),
            model(&self.history.log, durable),
            "state after record {durable}"
        );
        self.history.cut(durable, replayed.last_index(STREAM));
        // What an owner has seen replayed it may act on.
        self.disk.note(durable);

        let journal = storage.start::<Bytes>(replayed, shelf.clone()).unwrap();
        assert_eq!(journal.last_index(STREAM), self.history.log.len() as u64);
        storage.attach(shelf.clone()).unwrap();
        if self.fault == Fault::FailedSync {
            let syncs = self.dice.below(40);
            self.disk.fail_sync_after(syncs);
        }
        self.work(&storage, &journal, &shelf);
        self.disk.set_full(false);
        let stopped = storage.shutdown();
        if self.fault == Fault::FailedSync && shelf.poisoned().is_some() {
            let text = stopped.unwrap_err().to_string();
            assert!(text.contains(DIR), "no file is named: {text}");
            return false;
        }
        stopped.unwrap();
        let last_index = self.history.log.len() as u64;
        assert_eq!(
            shelf.applied_index(),
            last_index,
            "a clean stop writes everything"
        );
        assert_eq!(shelf.contents(), model(&self.history.log, last_index));
        true
    }

    fn work(&mut self, storage: &Storage, journal: &Journal<Bytes>, shelf: &Arc<Shelf>) {
        for _ in 0..self.dice.below(60) {
            let batch = self.history.next_batch(&mut self.dice);
            if self.fault == Fault::Full && self.dice.chance(15) {
                self.disk.set_full(true);
            }
            let index = self.history.log.len() as u64 + 1;
            if !self.append(journal, index, batch) {
                return;
            }
            if self.dice.chance(10) {
                let store = StoreId(self.dice.below(STORES));
                storage.page_out(store, self.dice.below(2_000));
            }
            if self.dice.chance(8) {
                wait_until("records are durable, or cannot be", || {
                    shelf.applied_index() == index
                        || storage.is_disk_full()
                        || shelf.poisoned().is_some()
                });
                self.disk.set_full(false);
            }
        }
    }

    /// False when the journal takes no more.
    fn append(&mut self, journal: &Journal<Bytes>, index: u64, batch: Vec<Command>) -> bool {
        let payload = encode(&batch);
        let appended = if self.dice.chance(3) {
            let middle = payload.len() / 2;
            let parts = vec![payload.slice(..middle), payload.slice(middle..)];
            journal.append(STREAM, index, parts, payload)
        } else {
            journal.append(STREAM, index, payload.clone(), payload)
        };
        if appended.is_ok() {
            self.history.log.push(batch);
        }
        assert!(appended.is_ok() || self.fault == Fault::FailedSync);
        appended.is_ok()
    }

    fn end_of_life(&mut self, steps_before: usize, stopped_in_order: bool) {
        let dice = &mut self.dice;
        if self.fault == Fault::FlippedBit && stopped_in_order {
            self.disk = self
                .disk
                .after_crash(self.disk.steps(), Unsynced::Kept, dice);
            return self.flip_a_bit();
        }
        let steps = self.disk.steps();
        let cut = match dice.below(6) {
            _ if !stopped_in_order => steps,
            0 => steps,
            // Early: in the middle of the recovery or of the first flushes after it.
            1 => steps_before + dice.below((steps - steps_before).min(20) as u64 + 1) as usize,
            _ => steps_before + dice.below((steps - steps_before) as u64 + 1) as usize,
        };
        let unsynced = match self.fault {
            Fault::Kill | Fault::FlippedBit => Unsynced::Kept,
            Fault::PowerCut => Unsynced::Lost,
            Fault::TornSectors => Unsynced::Torn,
            Fault::TornBytes => Unsynced::TornAtByte,
            // Never kept: the page cache does not tell that a sync failed, only the disk does.
            Fault::FailedSync if dice.chance(2) => Unsynced::Lost,
            Fault::FailedSync => Unsynced::Torn,
            Fault::Full | Fault::FailedRead => match dice.below(3) {
                0 => Unsynced::Kept,
                1 => Unsynced::Lost,
                _ => Unsynced::Torn,
            },
        };
        self.disk = self.disk.after_crash(cut, unsynced, dice);
    }

    /// A read that fails ends the start with an error that names a file, and harms nothing.
    fn open_with_a_failed_read(&mut self) {
        let reads = self.dice.below(60);
        self.disk.fail_read_after(Some(reads));
        let opened = recover(&self.disk).map(|(_, shelf, ..)| shelf.readable_contents());
        if let Err(error) | Ok(Err(error)) = opened {
            let text = error.to_string();
            assert!(text.contains(DIR), "no file is named: {text}");
        }
        self.disk.fail_read_after(None);
    }

    /// After a clean stop everything on the disk is vouched for, but for what the last sync of an open
    /// segment wrote: there a damaged item looks like one that was never whole.
    fn flip_a_bit(&mut self) {
        let last_index = self.history.log.len() as u64;
        let Some((path, bit)) = self.disk.flip_a_bit(&mut self.dice) else {
            return;
        };
        // On a copy, for what a start repairs must not be undone by turning the bit back.
        let found = recover(&SimulatedDisk::with_files(self.disk.files()));
        let found = found.and_then(|(_, shelf, ..)| Ok((shelf.readable_contents()?, shelf)));
        match found {
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(DIR), "no file is named: {text}");
            }
            Ok((mut contents, shelf)) => {
                let expected = model(&self.history.log, last_index);
                let in_open_segment = path.extension().is_some_and(|found| found == "segment");
                for (store, id) in shelf.missing().iter().filter(|_| in_open_segment) {
                    let key = (store.0, *id);
                    contents.insert(key, expected[&key].clone());
                }
                assert_eq!(
                    contents,
                    expected,
                    "bit {bit} of {} went unseen",
                    path.display()
                );
            }
        }
        self.disk.flip_back(&path, bit);
    }
}

/// Runs the seeds on a few threads, since most of the time of one is waiting for its threads. Answers
/// how many were run, and those that failed.
fn run(seeds: std::ops::Range<u64>, time_max: Option<Duration>) -> (u64, Vec<u64>) {
    let started = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let failed = parking_lot::Mutex::new(Vec::new());
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_late = time_max.is_some_and(|time_max| started.elapsed() > time_max);
            if seed >= seeds.end || is_late {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| Seed::new(seed).run())).is_err() {
                failed.lock().push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(worker);
        }
    });
    let run = next.load(Ordering::Relaxed).min(seeds.end) - seeds.start;
    (run, failed.into_inner())
}

/// The number behind an option of ours.
fn number(option: &str) -> Option<u64> {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == option)?;
    let number = arguments.next().and_then(|number| number.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{option} needs a number")))
}

fn main() {
    // What a test runner asks before it runs anything.
    if std::env::args().any(|argument| argument == "--list") {
        if !std::env::args().any(|argument| argument == "--ignored") {
            println!("every_fault_of_a_disk_is_survived: test");
        }
        return;
    }
    let (seeds, time_max) = match (number("--seed"), number("--seeds")) {
        (Some(seed), _) => (seed..seed + 1, None),
        (None, Some(seeds)) => (0..seeds, None),
        (None, None) => (0..SEEDS, Some(TIME_MAX)),
    };
    let started = Instant::now();
    let (run, failed) = run(seeds, time_max);
    println!(
        "{run} seeds of {} kinds of faults in {:.1} s",
        FAULTS.len(),
        started.elapsed().as_secs_f64()
    );
    for seed in &failed {
        let fault = FAULTS[*seed as usize % FAULTS.len()];
        println!(
            "FAILED: {fault:?}; again with: cargo test -p storage --test faults -- --seed {seed}"
        );
    }
    if !failed.is_empty() {
        std::process::exit(1);
    }
}
