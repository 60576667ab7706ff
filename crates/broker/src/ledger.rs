//! What a durable queue must remember beyond its live entries, so that a checkpoint is short:
//! which entries in segments are dead, and which live ones were returned before.
//!
//! A checkpoint is a floor (everything below is dead) and exceptions above it. For a queue that
//! is consumed in order, that is two numbers whatever its depth.
//!
//! ```text
//! checkpoint = version u8 · floor u64 · handed out u64 · dead u32 · (first u64 · last u64) * dead
//!            · counts u32 · (id u64 · counted (see `standing`)) * counts
//! ```
//!
//! Versions 1 and 2 have dead ids in place of ranges. Version 1 has counts without standing: every
//! message is in its line.

mod ranges;

use std::collections::BTreeMap;

use broker_core::queue::EntryId;

use self::ranges::Ranges;
use crate::standing::{COUNTED_BYTES, Counted};

const VERSION: u8 = 3;
/// Dead entries are told one by one.
const VERSION_WITHOUT_RANGES: u8 = 2;
/// And counts have no standing.
const VERSION_WITHOUT_STANDING: u8 = 1;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Entries whose bytes are in a segment and that are gone. Bounded by the live entries: joined
    /// where nothing lives in between, pruned below the floor at every checkpoint.
    dead: Ranges,
    /// Counts and standing of live entries that were returned or have died.
    counted: BTreeMap<u64, Counted>,
    /// Messages up to this log index may have been delivered: a crash forgets who had them.
    handed_out_index: u64,
    /// Whether the mark was logged since the node started.
    marked: bool,
}

/// Log entries that a handed-out mark is ahead of the delivery that needed it, and the rest at
/// which the next one is written: one mark for dozens of batches, and after a crash no more than
/// these come back as redelivered without having been delivered.
const MARK_AHEAD: u64 = 64;
const MARK_REST: u64 = 32;

/// A checkpoint read back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Everything below is dead.
    pub(crate) floor: u64,
    pub(crate) dead: Ranges,
    pub(crate) counted: BTreeMap<u64, Counted>,
    /// Messages up to this log index may have been delivered.
    pub(crate) handed_out_index: u64,
}

impl Ledger {
    pub(crate) fn ended(&mut self, id: EntryId, stored: bool) {
        if !self.counted.is_empty() {
            self.counted.remove(&id.0);
        }
        if stored {
            self.dead.insert(id.0);
        }
    }

    pub(crate) fn returned(&mut self, id: EntryId, counted: Counted) {
        self.counted.insert(id.0, counted);
    }

    /// Live entries that were returned or have died, with how they stand.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (EntryId, Counted)> {
        let counted = self.counted.iter();
        counted.map(|(id, counted)| (EntryId(*id), *counted))
    }

    /// What it remembers of dead entries, and nothing of live ones.
    pub(crate) fn dead_only(&self) -> Self {
        Self {
            dead: self.dead.clone(),
            ..Self::default()
        }
    }

    /// Goes on from a checkpoint.
    pub(crate) fn resume(checkpoint: Checkpoint) -> Self {
        Self {
            dead: checkpoint.dead,
            counted: checkpoint.counted,
            handed_out_index: checkpoint.handed_out_index,
            marked: false,
        }
    }

    /// A message of this log entry is handed out. Answers the mark to be logged, when one is due.
    pub(crate) fn hand_out(&mut self, index: u64) -> Option<u64> {
        if self.marked && index + MARK_REST <= self.handed_out_index {
            return None;
        }
        self.marked = true;
        self.handed_out_index = self.handed_out_index.max(index + MARK_AHEAD);
        Some(self.handed_out_index)
    }

    /// Whether the node has logged a mark for the queue since it started.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked
    }

    /// A mark is read back from the log.
    pub(crate) fn restore_mark(&mut self, up_to_index: u64) {
        self.handed_out_index = match up_to_index {
            0 => 0,
            index => self.handed_out_index.max(index),
        };
    }

    /// The last log index whose messages may have been delivered before the restart.
    pub(crate) fn handed_out_index(&self) -> u64 {
        self.handed_out_index
    }

    /// An item was copied to a segment and is not wanted any more.
    pub(crate) fn dead_in_segment(&mut self, id: EntryId) {
        self.dead.insert(id.0);
    }

    /// Whether an entry whose bytes are in a segment is gone.
    pub(crate) fn is_dead(&self, id: u64) -> bool {
        self.dead.contains(id)
    }

    /// Counts and standing of a live entry, for one that comes back from a segment; `None` when it was
    /// never handed out.
    pub(crate) fn counted_of(&self, id: u64) -> Option<Counted> {
        self.counted.get(&id).copied()
    }

    /// Whether what is remembered of dead entries should be made shorter.
    pub(crate) fn wants_joining(&self) -> bool {
        self.dead.wants_joining()
    }

    /// Makes it shorter; `next_live` answers the first live entry at or after an id.
    pub(crate) fn join(&mut self, next_live: impl FnMut(u64) -> Option<u64>) {
        self.dead.join(next_live);
    }

    /// Writes the checkpoint of a queue whose first live entry is `floor`.
    pub(crate) fn write(&mut self, floor: u64, out: &mut Vec<u8>) {
        self.dead.forget_below(floor);
        out.push(VERSION);
        out.extend_from_slice(&floor.to_le_bytes());
        out.extend_from_slice(&self.handed_out_index.to_le_bytes());
        out.extend_from_slice(&(self.dead.len() as u32).to_le_bytes());
        for (first, last) in self.dead.iter() {
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&last.to_le_bytes());
        }
        out.extend_from_slice(&(self.counted.len() as u32).to_le_bytes());
        for (id, counted) in &self.counted {
            out.extend_from_slice(&id.to_le_bytes());
            counted.put(out);
        }
    }
}

impl Checkpoint {
    /// Reads a checkpoint; `None` when it is not one of ours.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (dead_bytes, counted_bytes) = match version {
            VERSION => (16, 8 + COUNTED_BYTES),
            VERSION_WITHOUT_RANGES => (8, 8 + COUNTED_BYTES),
            VERSION_WITHOUT_STANDING => (8, 16),
            _ => return None,
        };
        let (floor, rest) = rest.split_first_chunk::<8>()?;
        let (handed_out, rest) = rest.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let dead_len = (u32::from_le_bytes(*count) as usize).checked_mul(dead_bytes)?;
        let (dead, rest) = rest.split_at_checked(dead_len)?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let counted_len = (u32::from_le_bytes(*count) as usize).checked_mul(counted_bytes)?;
        let (counted, rest) = rest.split_at_checked(counted_len)?;
        if !rest.is_empty() {
            return None;
        }
        let id = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("eight octets"));
        let counted = counted.chunks_exact(counted_bytes).map(|chunk| {
            let (at, counts) = chunk.split_at(8);
            let counted = match version {
                VERSION_WITHOUT_STANDING => Counted::read(&[counts, &[0; 9]].concat())?,
                _ => Counted::read(counts)?,
            };
            Some((id(at), counted))
        });
        // The first and the last of a range, or one id that is both.
        let dead_ranges = dead
            .chunks_exact(dead_bytes)
            .map(|chunk| (id(&chunk[..8]), id(&chunk[dead_bytes - 8..])))
            .collect();
        Some(Self {
            floor: u64::from_le_bytes(*floor),
            handed_out_index: u64::from_le_bytes(*handed_out),
            dead: dead_ranges,
            counted: counted.collect::<Option<_>>()?,
        })
    }

    /// Whether the entry was gone when the checkpoint was taken.
    pub(crate) fn is_dead(&self, id: u64) -> bool {
        id < self.floor || self.dead.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use broker_core::Timestamp;

    use super::*;
    use crate::standing::Standing;

    const COUNTED: Counted = Counted {
        delivery_count: 1,
        acquired_count: 2,
        standing: Standing::HeldBack(Timestamp(99)),
    };

    #[test]
    fn checkpoints_of_earlier_versions_still_read() {
        let mut first = vec![1];
        for number in [4u64, 0] {
            first.extend_from_slice(&number.to_le_bytes());
        }
        first.extend_from_slice(&2u32.to_le_bytes());
        for dead in [5u64, 9] {
            first.extend_from_slice(&dead.to_le_bytes());
        }
        first.extend_from_slice(&1u32.to_le_bytes());
        first.extend_from_slice(&7u64.to_le_bytes());
        let mut second = [&[2], &first[1..]].concat();
        for count in [1u32, 2] {
            first.extend_from_slice(&count.to_le_bytes());
        }
        COUNTED.put(&mut second);
        let in_line = Counted {
            standing: Standing::InLine,
            ..COUNTED
        };
        for (bytes, counted) in [(first, in_line), (second, COUNTED)] {
            let read = Checkpoint::read(&bytes).unwrap();
            assert_eq!(read.dead.iter().collect::<Vec<_>>(), [(5, 5), (9, 9)]);
            assert_eq!(read.counted[&7], counted);
        }
    }

    #[test]
    fn a_checkpoint_keeps_exceptions_above_the_floor_only() {
        let mut ledger = Ledger::default();
        for id in [1, 2, 5, 9] {
            ledger.ended(EntryId(id), true);
        }
        ledger.ended(EntryId(6), false);
        ledger.returned(EntryId(7), COUNTED);
        let mut bytes = Vec::new();
        ledger.write(4, &mut bytes);
        let read = Checkpoint::read(&bytes).unwrap();
        assert_eq!(read.floor, 4);
        assert_eq!(read.dead.iter().collect::<Vec<_>>(), [(5, 5), (9, 9)]);
        assert_eq!(read.counted[&7], COUNTED);
        assert!(read.is_dead(1) && read.is_dead(5) && !read.is_dead(6) && !read.is_dead(7));
    }

    #[test]
    fn the_counts_of_an_entry_end_with_it() {
        let mut ledger = Ledger::default();
        ledger.returned(EntryId(7), COUNTED);
        ledger.ended(EntryId(7), true);
        let mut bytes = Vec::new();
        ledger.write(8, &mut bytes);
        assert_eq!(
            Checkpoint::read(&bytes).unwrap(),
            Checkpoint {
                floor: 8,
                ..Default::default()
            }
        );
    }

    #[test]
    fn a_mark_is_due_at_first_and_then_once_in_dozens_of_entries() {
        let mut ledger = Ledger::default();
        let marks: Vec<u64> = (1..=10_000)
            .filter_map(|index| ledger.hand_out(index))
            .collect();
        assert!(marks.len() <= 10_000 / 32, "{} marks", marks.len());
        assert!(marks.windows(2).all(|pair| pair[0] < pair[1]));
        let mut bytes = Vec::new();
        ledger.write(1, &mut bytes);
        let read = Checkpoint::read(&bytes).unwrap();
        assert!(read.handed_out_index >= 10_000);
    }

    #[test]
    fn a_cut_checkpoint_is_none() {
        let mut bytes = Vec::new();
        let mut ledger = Ledger::default();
        ledger.returned(EntryId(7), COUNTED);
        ledger.write(3, &mut bytes);
        for len in 0..bytes.len() {
            assert_eq!(Checkpoint::read(&bytes[..len]), None, "cut at {len}");
        }
    }
}
