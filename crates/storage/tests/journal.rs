//! The journal by itself: order, markers, torn tails and damage, failures, bounds.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use storage::{
    AppendError, Journal, Options, Replayed, ReplayedRecord, Storage, StorageError, StreamId,
};
use support::disk::{SimulatedDisk, Unsynced};
use support::sink::Collected;
use support::{Dice, wait_until};

const STREAM: StreamId = StreamId(1);
const FIRST_FILE: &str = "0000000000000001.journal";
/// File header, then 40 bytes of record header before each payload.
const FILE_HEADER: usize = 40;
const RECORD_HEADER: usize = 40;

fn options() -> Options {
    Options {
        journal_file_bytes: 16 << 10,
        journal_bytes_max: 64 << 10,
        record_bytes_max: 100 << 10,
        ..Options::default()
    }
}

fn replay(disk: &SimulatedDisk) -> Result<(Storage, Replayed, Vec<ReplayedRecord>), StorageError> {
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options())?;
    let mut records = Vec::new();
    let replayed = recovery.replay(|record| {
        records.push(record);
        Ok::<_, StorageError>(())
    })?;
    Ok((storage, replayed, records))
}

fn start(disk: &SimulatedDisk) -> (Storage, Journal<u64>, Arc<Collected>) {
    let (storage, replayed, _) = replay(disk).unwrap();
    let sink = Collected::noting(disk);
    let journal = storage.start::<u64>(replayed, sink.clone()).unwrap();
    (storage, journal, sink)
}

fn replayed_indexes(disk: &SimulatedDisk) -> Vec<u64> {
    replay(disk)
        .unwrap()
        .2
        .iter()
        .map(|record| record.index)
        .collect()
}

/// Appends records 1 to `count`, each with a sync of its own.
fn append_synced(journal: &Journal<u64>, sink: &Collected, from: u64, count: u64) {
    for index in from..from + count {
        journal
            .append(STREAM, index, Bytes::from(vec![index as u8; 100]), index)
            .unwrap();
        wait_until("the record is durable", || {
            sink.tags().last() == Some(&index)
        });
    }
}

/// The disk as a killed process leaves it: no end mark.
fn killed(disk: &SimulatedDisk, at: usize) -> SimulatedDisk {
    disk.after_crash(at, Unsynced::Kept, &mut Dice::new(1))
}

#[test]
fn records_of_all_streams_come_back_in_the_order_of_appending() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    let mut sent = Vec::new();
    for number in 0..500_u64 {
        let stream = StreamId((number % 3) as u32);
        let payload = Bytes::from(vec![number as u8; (number * 37 % 90) as usize]);
        let middle = payload.len() / 3;
        let parts = vec![payload.slice(..middle), payload.slice(middle..)];
        journal.append(stream, number, parts, number).unwrap();
        sent.push((stream, number, payload));
    }
    storage.shutdown().unwrap();
    assert_eq!(sink.tags(), (0..500).collect::<Vec<_>>());
    drop(storage);
    let (_storage, replayed, records) = replay(&disk).unwrap();
    let found: Vec<_> = records
        .into_iter()
        .map(|record| (record.stream, record.index, record.payload))
        .collect();
    assert_eq!(found, sent);
    assert_eq!(replayed.last_index(StreamId(2)), 497);
    assert_eq!(replayed.records(), 500);
}

#[test]
fn a_marker_keeps_its_place_and_needs_no_sync_of_its_own() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 1);
    let steps_before = disk.steps();
    journal.append_marker(STREAM, 2, 2).unwrap();
    wait_until("the marker is reported", || sink.tags() == [1, 2]);
    // The note of the report itself is the only step.
    assert_eq!(disk.steps(), steps_before + 1);
    for index in 3..200_u64 {
        if index % 3 == 0 {
            journal.append_marker(STREAM, index, index).unwrap();
        } else {
            journal
                .append(STREAM, index, Bytes::from_static(b"logged"), index)
                .unwrap();
        }
    }
    storage.shutdown().unwrap();
    assert_eq!(sink.tags(), (1..200).collect::<Vec<_>>());
    for flushed in sink.flushed.lock().iter().skip(2) {
        assert_eq!(flushed.at.is_none(), flushed.index % 3 == 0);
    }
    assert_eq!(journal.last_index(STREAM), 199);
}

#[test]
fn positions_say_where_the_payload_lies() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 5);
    storage.shutdown().unwrap();
    let content = disk.content(FIRST_FILE);
    for flushed in sink.flushed.lock().iter() {
        let at = flushed.at.unwrap();
        let bytes = &content[at.offset as usize..(at.offset + at.len) as usize];
        assert_eq!(bytes, vec![flushed.index as u8; 100]);
    }
}

#[test]
fn a_torn_tail_is_cut_and_stays_cut() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 3);
    let disk = killed(&disk, disk.steps());
    drop(storage);
    let third_payload = FILE_HEADER + 2 * (RECORD_HEADER + 104) + RECORD_HEADER;
    disk.damage(FIRST_FILE, |bytes| bytes[third_payload + 50] ^= 1);
    assert_eq!(replayed_indexes(&disk), [1, 2]);
    // Undone damage does not bring the record back: others may have been written since.
    disk.damage(FIRST_FILE, |bytes| bytes[third_payload + 50] ^= 1);
    assert_eq!(replayed_indexes(&disk), [1, 2]);

    let (storage, journal, sink) = start(&disk);
    assert_eq!(journal.last_index(STREAM), 2);
    append_synced(&journal, &sink, 3, 1);
    storage.shutdown().unwrap();
    drop(storage);
    assert_eq!(replayed_indexes(&disk), [1, 2, 3]);
}

fn damage_error(disk: &SimulatedDisk) -> (String, u64) {
    match replay(disk) {
        Err(StorageError::Corrupt { path, offset, .. }) => (
            path.file_name().unwrap().to_string_lossy().into_owned(),
            offset,
        ),
        other => panic!(
            "expected damage, got {:?}",
            other.map(|(_, _, records)| records.len())
        ),
    }
}

#[test]
fn damage_before_a_later_record_names_file_and_offset() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 3);
    let disk = killed(&disk, disk.steps());
    drop(storage);
    let second = FILE_HEADER + RECORD_HEADER + 104;
    for damaged_byte in [second + 2, second + 20, second + RECORD_HEADER + 7] {
        disk.damage(FIRST_FILE, |bytes| bytes[damaged_byte] ^= 0x40);
        assert_eq!(damage_error(&disk), (FIRST_FILE.to_owned(), second as u64));
        disk.damage(FIRST_FILE, |bytes| bytes[damaged_byte] ^= 0x40);
    }
    disk.damage(FIRST_FILE, |bytes| bytes[17] ^= 0x40);
    assert_eq!(damage_error(&disk), (FIRST_FILE.to_owned(), 0));
    disk.damage(FIRST_FILE, |bytes| bytes[17] ^= 0x40);
    assert_eq!(replayed_indexes(&disk), [1, 2, 3]);
}

#[test]
fn damage_of_the_last_record_is_seen_after_a_clean_stop() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 2);
    storage.shutdown().unwrap();
    drop(storage);
    let second = FILE_HEADER + RECORD_HEADER + 104;
    disk.damage(FIRST_FILE, |bytes| bytes[second + RECORD_HEADER] ^= 1);
    assert_eq!(damage_error(&disk), (FIRST_FILE.to_owned(), second as u64));
}

#[test]
fn damage_of_the_last_record_of_an_older_file_is_no_torn_tail() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 200);
    let disk = killed(&disk, disk.steps());
    drop(storage);
    let older = sink.flushed.lock();
    let last = older
        .iter()
        .filter_map(|flushed| flushed.at)
        .rfind(|at| at.file.0 == 1)
        .unwrap();
    disk.damage(FIRST_FILE, |bytes| bytes[last.offset as usize] ^= 1);
    assert_eq!(
        damage_error(&disk),
        (FIRST_FILE.to_owned(), u64::from(last.offset) - 40)
    );
}

#[test]
fn records_of_a_former_life_of_the_file_are_not_taken_for_live() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 200);
    let disk = killed(&disk, disk.steps());
    drop(storage);
    let former = disk.content(FIRST_FILE);
    let newest = disk
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".journal"))
        .max()
        .unwrap();
    let end = sink
        .flushed
        .lock()
        .last()
        .and_then(|flushed| flushed.at)
        .unwrap();
    let end = (end.offset + end.len) as usize + 4;
    disk.damage(&newest, |bytes| {
        // What lies behind the end in a recycled file: whole records of an older generation.
        let stale = &former[FILE_HEADER..FILE_HEADER + 2 * (RECORD_HEADER + 104)];
        bytes[end..end + stale.len()].copy_from_slice(stale);
    });
    assert_eq!(replayed_indexes(&disk), (1..=200).collect::<Vec<_>>());
}

#[test]
fn a_failed_sync_poisons_the_journal_and_nothing_is_reported_after_it() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 2);
    disk.fail_syncs_of(".journal");
    journal
        .append(STREAM, 3, Bytes::from_static(b"lost"), 3)
        .unwrap();
    wait_until("the sink is told", || sink.poisoned.lock().is_some());
    let why = sink.poisoned.lock().clone().unwrap();
    assert!(
        why.contains("cannot sync") && why.contains("the disk is on strike"),
        "{why}"
    );
    let refused = journal.append(STREAM, 4, Bytes::from_static(b"late"), 4);
    assert!(
        matches!(refused, Err(AppendError::Poisoned(_))),
        "{refused:?}"
    );
    let refused = journal.append_marker(STREAM, 5, 5);
    assert!(
        matches!(refused, Err(AppendError::Poisoned(_))),
        "{refused:?}"
    );
    assert_eq!(journal.poisoned().unwrap().to_string(), why);
    assert!(matches!(storage.shutdown(), Err(StorageError::Poisoned(_))));
    assert_eq!(sink.tags(), [1, 2]);
}

#[test]
fn a_failed_write_poisons_the_journal() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 1);
    disk.fail_writes_of(".journal");
    journal
        .append(STREAM, 2, Bytes::from_static(b"lost"), 2)
        .unwrap();
    wait_until("the sink is told", || sink.poisoned.lock().is_some());
    assert!(storage.shutdown().is_err());
    assert_eq!(sink.tags(), [1]);
}

#[test]
fn a_record_larger_than_a_file_gets_a_file_of_its_own_size() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 2);
    let large = Bytes::from(vec![7; 60 << 10]);
    journal.append(STREAM, 3, large.clone(), 3).unwrap();
    wait_until("it starves for room", || journal.status().starved);
    let refused = journal.append(STREAM, 4, Bytes::from(vec![0; (100 << 10) + 1]), 4);
    let (bytes, bytes_max) = ((100 << 10) + 1, 100 << 10);
    match refused {
        Err(AppendError::TooLarge {
            bytes: b,
            bytes_max: m,
        }) => assert_eq!((b, m), (bytes, bytes_max)),
        other => panic!("{other:?}"),
    }
    // It must be alone, and nobody releases the first file: the stop gives it up.
    assert!(storage.shutdown().is_err());
    assert!(sink.poisoned.lock().is_some());
    drop(storage);

    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    journal.append(STREAM, 1, large.clone(), 1).unwrap();
    wait_until("the large record is durable", || sink.tags() == [1]);
    storage.shutdown().unwrap();
    drop(storage);
    let (_storage, _, records) = replay(&disk).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].payload, large);
}

#[test]
fn without_room_records_wait_in_memory_and_callers_can_see_it() {
    let disk = SimulatedDisk::default();
    let tight = Options {
        waiting_bytes_high: 10_000,
        ..options()
    };
    let (storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), tight).unwrap();
    let replayed = recovery.replay(|_| Ok::<_, StorageError>(())).unwrap();
    let sink = Collected::new();
    let journal = storage.start::<u64>(replayed, sink.clone()).unwrap();
    assert!(journal.has_room());
    for index in 1..=100 {
        journal
            .append(STREAM, index, Bytes::from(vec![1; 1000]), index)
            .unwrap();
    }
    wait_until("all files are full", || journal.status().starved);
    let status = journal.status();
    assert_eq!(status.sealed_waiting, 4);
    assert_eq!(status.used_bytes, 64 << 10);
    assert_eq!(status.waiting_bytes, (100 - status.records) * 1000);
    assert!(!journal.has_room());
    assert!(disk.total_bytes("journal") <= 64 << 10);
    assert!(storage.shutdown().is_err());
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 1);
    storage.shutdown().unwrap();
    drop(storage);
    disk.damage(FIRST_FILE, |bytes| {
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..32]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
    });
    match replay(&disk) {
        Err(StorageError::NewerFormat {
            found: 2, known: 1, ..
        }) => {}
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn an_error_of_the_visitor_ends_the_replay() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    append_synced(&journal, &sink, 1, 3);
    storage.shutdown().unwrap();
    drop(storage);
    let (_storage, recovery) =
        Storage::open_on(Arc::new(disk.clone()), Path::new("/data"), options()).unwrap();
    let mut visits = 0;
    let ended = recovery.replay(|record| {
        visits += 1;
        if record.index == 2 {
            Err(StorageError::WrongState("odd"))
        } else {
            Ok(())
        }
    });
    assert!(ended.is_err());
    assert_eq!(visits, 2);
}

#[test]
fn options_out_of_bounds_are_refused_by_name() {
    let odd = Options {
        journal_bytes_max: 64 << 20,
        ..Options::default()
    };
    let opened = Storage::open_on(Arc::new(SimulatedDisk::default()), Path::new("/data"), odd);
    match opened {
        Err(StorageError::OptionOutOfBounds {
            name: "journal_bytes_max",
            min,
            ..
        }) => {
            assert_eq!(min, 128 << 20);
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn two_processes_never_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = Storage::open(dir.path(), Options::default()).unwrap();
    let second = Storage::open(dir.path(), Options::default());
    match &second {
        Err(error @ StorageError::Locked { .. }) => {
            assert!(
                error.to_string().contains("is in use by another process"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    drop(first);
    Storage::open(dir.path(), Options::default()).unwrap();
}

#[test]
fn appenders_on_many_threads_each_keep_their_order() {
    let disk = SimulatedDisk::default();
    let (storage, journal, sink) = start(&disk);
    std::thread::scope(|scope| {
        for stream in 0..4_u32 {
            let journal = journal.clone();
            scope.spawn(move || {
                for index in 1..=50 {
                    journal
                        .append(StreamId(stream), index, Bytes::from(vec![9; 30]), index)
                        .unwrap();
                }
            });
        }
    });
    storage.shutdown().unwrap();
    let mut last: HashMap<StreamId, u64> = HashMap::new();
    for flushed in sink.flushed.lock().iter() {
        let before = last.insert(flushed.stream, flushed.index).unwrap_or(0);
        assert_eq!(flushed.index, before + 1);
    }
    assert_eq!(sink.tags().len(), 200);
    let status = journal.status();
    assert_eq!(status.records, 200);
    assert_eq!(status.waiting_bytes, 0);
}
