//! Where bytes lie and whose they are: the small values that every other file of this crate speaks.
//!
//! They are handed to owners and back; nothing here knows a file name, a format or what the bytes mean.

use std::fmt;

/// Whose record a journal record is: a replica group, the metadata group, a local lane. Owners number
/// them; storage only keeps them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Whose items a set of segments holds: one per queue. Never given out twice by its owner, not even
/// after the queue is gone, so that an orphan on disk can be told from a successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u64);

/// One generation of a journal file. Ever increasing over the life of a data directory: a recycled
/// file gets a fresh one, so a stale record in it can never pass for a live one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// Where the payload of a journal record lies. 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The file, valid until its release is reported (`Owner::released`).
    pub file: FileId,
    /// First byte of the payload, counted from the start of the file.
    pub offset: u32,
    /// Payload bytes.
    pub len: u32,
}

/// Where an item lies in the segments of its store. 12 bytes, meaningful only with the `StoreId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Sequence of the segment within its store; higher is younger.
    pub segment: u32,
    /// First byte of the item's frame (its header), counted from the start of the segment.
    pub offset: u32,
    /// Bytes of the item itself, without its header.
    pub len: u32,
}

/// Which segments of a store: those that survive a restart, or those that make room in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Items that outlive their journal file.
    Durable,
    /// Items paged out of memory that need not survive: never synced, emptied at the start.
    Paged,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
