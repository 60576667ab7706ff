//! The bounds of a data directory: sizes of files, tables and queues, each with its default and limits.
//!
//! Knows numbers only. Every queue, buffer and table of this crate is bounded by one of these.

use crate::error::{Result, StorageError};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// A record holds one batch: up to 256 KiB of commands and one message that may be as large as the
/// protocol's usual 512 MiB. Offsets are 32 bits wide, so this also keeps a file below 4 GiB.
pub const RECORD_BYTES_MAX: u64 = GIB;

/// Sizes and bounds. `Options::default()` is what a broker uses.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of one journal file; 64 MiB.
    pub journal_file_bytes: u64,
    /// Bytes of all journal files together; 256 MiB. Only a record larger than a file may exceed it,
    /// by its own size and while no other file is in use.
    pub journal_bytes_max: u64,
    /// Bytes of full journal files that are not flushed yet although they could be; none. What dies within
    /// so many bytes of appends is never copied. Its price is memory, and the time of a replay.
    pub journal_bytes_kept: u64,
    /// Payload bytes of one record; 32 MiB, at most `RECORD_BYTES_MAX`. A record larger than a file
    /// gets a file of its own size.
    pub record_bytes_max: u64,
    /// Bytes appended and not yet durable above which `Journal::has_room` says no; 64 MiB.
    pub waiting_bytes_high: u64,
    /// Bytes of one segment; 16 MiB. An item larger than that has a segment of its own.
    pub segment_bytes: u64,
    /// Dead bytes that segments may hold beyond as many as live, over all stores together; 256 MiB. Each
    /// store gets an equal share, at most one segment; beyond it its segments are compacted.
    pub dead_bytes_allowed: u64,
    /// Segment files kept open for reading and appending; 256.
    pub open_segments_max: usize,
    /// Checkpoint bytes below which the checkpoint file is never rewritten; 1 MiB.
    pub checkpoint_rewrite_bytes_min: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal_file_bytes: 64 * MIB,
            journal_bytes_max: 256 * MIB,
            journal_bytes_kept: 0,
            record_bytes_max: 32 * MIB,
            waiting_bytes_high: 64 * MIB,
            segment_bytes: 16 * MIB,
            dead_bytes_allowed: 256 * MIB,
            open_segments_max: 256,
            checkpoint_rewrite_bytes_min: MIB,
        }
    }
}

impl Options {
    /// Refuses what cannot work, naming the option and its limits.
    pub(crate) fn checked(self) -> Result<Self> {
        within("journal_file_bytes", self.journal_file_bytes, 4 * KIB, GIB)?;
        // Two files at least: one that is written while the other is flushed.
        let journal_bytes_min = 2 * self.journal_file_bytes;
        within(
            "journal_bytes_max",
            self.journal_bytes_max,
            journal_bytes_min,
            1024 * GIB,
        )?;
        within("journal_bytes_kept", self.journal_bytes_kept, 0, 1024 * GIB)?;
        within(
            "record_bytes_max",
            self.record_bytes_max,
            KIB,
            RECORD_BYTES_MAX,
        )?;
        within("waiting_bytes_high", self.waiting_bytes_high, 1, 64 * GIB)?;
        within("segment_bytes", self.segment_bytes, KIB, GIB)?;
        within("dead_bytes_allowed", self.dead_bytes_allowed, 0, 1024 * GIB)?;
        within(
            "open_segments_max",
            self.open_segments_max as u64,
            1,
            1 << 16,
        )?;
        within(
            "checkpoint_rewrite_bytes_min",
            self.checkpoint_rewrite_bytes_min,
            0,
            GIB,
        )?;
        Ok(self)
    }
}

fn within(name: &'static str, value: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(StorageError::OptionOutOfBounds {
        name,
        value,
        min,
        max,
    })
}
