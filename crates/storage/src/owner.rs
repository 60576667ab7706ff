//! What storage asks of those who own the records and items: the sink of flushes and the owner of stores.
//!
//! Both are implemented above this crate. Storage never interprets a payload, an item or a checkpoint.

use bytes::Bytes;

use crate::error::Poisoned;
use crate::place::{FileId, Location, Position, StoreId, StreamId, Tier};

/// A record that is durable, or a marker whose turn has come.
#[derive(Debug)]
pub struct Flushed<T> {
    /// What the appender gave.
    pub tag: T,
    /// Whose record it is.
    pub stream: StreamId,
    /// Its index in the stream.
    pub index: u64,
    /// Where its payload lies; `None` for a marker.
    pub at: Option<Position>,
}

/// Takes what has become durable, in the order of appending.
pub trait FlushSink<T>: Send + Sync {
    /// Called on the journal thread after the sync that covers all of `done`; the sink drains it and
    /// returns soon, since the next sync waits for it.
    fn flushed(&self, done: &mut Vec<Flushed<T>>);

    /// Called once, on the thread that saw the first failed write or sync. No record that was not
    /// reported before is ever reported; appends are refused from here on.
    fn poisoned(&self, why: &Poisoned);
}

/// A live item whose bytes lie in memory, and perhaps in a journal file.
#[derive(Debug, Clone)]
pub struct LiveItem {
    /// The owner's number for it, unique within its store.
    pub id: u64,
    /// Opaque; comes back from `SegmentStore::recover`.
    pub attributes: u64,
    /// The item: a slice of the record, not a copy.
    pub bytes: Bytes,
}

/// The owner of all stores, asked by the background thread when a journal file is full.
///
/// For each file, in this order: `applied` until true, `touched`, then per store `live_items` and
/// `relocated`, then per store `checkpoint`, then `released`. All but `released` may be called again
/// for the same file after a restart. No call may wait for another call to storage, but any may make one.
pub trait Owner: Send + Sync {
    /// Whether every record of the file has been applied: for each stream, everything up to the index.
    /// Durable comes before applied, so a file may be full of records whose items the owner does not
    /// know yet; a file is not looked at before this says yes. (`cluster::CommitShards::applied`)
    fn applied(&self, last: &[(StreamId, u64)]) -> bool;

    /// Every store with live items in `file`, or whose state was changed by a record in it (settles,
    /// returns, purges). A store missed here loses those changes when the file is recycled.
    fn touched(&self, file: FileId) -> Vec<StoreId>;

    /// Live items of `store` whose bytes lie only in `file`, in id order, beginning with ids not below
    /// `from`. As many as fit well (about a thousand, or a mebibyte); none means there are no more.
    fn live_items(&self, store: StoreId, file: FileId, from: u64, out: &mut Vec<LiveItem>);

    /// These items are in the segments at these places (durable there, on the durable tier): point to
    /// them and forget resident bytes and earlier places. Answers those that it no longer wants (settled
    /// meanwhile, or the store is gone); the caller releases their new places, and the earlier ones of
    /// all others. Called without any lock of storage held.
    fn relocated(&self, tier: Tier, store: StoreId, moved: &[(u64, Location)]) -> Vec<Location>;

    /// Keeps those of these items that live, and at this place: the others are not worth moving when
    /// their segment is compacted.
    fn living(&self, tier: Tier, store: StoreId, items: &mut Vec<(u64, Location)>);

    /// The first id whose item may leave memory when the store keeps about so many bytes there: those of
    /// the items that come before.
    fn paging_starts(&self, store: StoreId, keep_bytes: u64) -> u64;

    /// Live items of the store whose bytes are in memory and may leave it for this tier, in id order,
    /// beginning with ids not below `from`. As many as fit well, as `live_items`; none means that there
    /// are no more. Asked after `Storage::page_out`.
    fn pageable(&self, tier: Tier, store: StoreId, from: u64, out: &mut Vec<LiveItem>);

    /// Writes the state of the store into `out` and answers the highest index of its stream whose
    /// effects are in it. After a restart the owner gets it back, with all records that are still in the
    /// journal: those at or below the index have their effects in the state already, but are still
    /// the only place of items that are live in it and not in a segment.
    /// `None` when the store is gone: its checkpoint and segments are dropped.
    fn checkpoint(&self, store: StoreId, out: &mut Vec<u8>) -> Option<u64>;

    /// The file is recycled; no `Position` in it means anything any more.
    fn released(&self, file: FileId);
}
