//! The broker's side of storage: which items of a full journal file are still wanted, where they
//! went, and the state of a queue in a few bytes.

use std::sync::Weak;

use broker_core::metadata::QueueId;
use broker_core::queue::{EntryId, EntryView};
use cluster::CommitShards;
use std::sync::Arc;
use storage::{FileId, LiveItem, Location, Owner, StoreId, StreamId, Tier};

use crate::apply::{entry_id, first_id_after};
use crate::clock;
use crate::content::{Content, LoadedBlob};
use crate::files::METADATA_STORE;
use crate::flow::memory::ENTRY_BYTES;
use crate::node::Node;
use crate::queue::{Lane, Queue};
use crate::record::Blob;
use crate::route::keeps;

/// Items handed to the flush at once; the queue's lock is held for no longer.
const LIVE_ITEMS_SLICE: usize = 1_000;

/// Stream of the metadata group.
pub(crate) const METADATA_STREAM: StreamId = StreamId(0);

/// The journal stream of a group.
pub(crate) fn stream_of(group: u32) -> StreamId {
    StreamId(group + 1)
}

/// What is kept beside an item so that its queue can be restored without reading it.
///
/// ```text
/// bits 0–39 expires at, milliseconds since 2020 (0 never) · 40–47 priority + 1 (0 none)
///      48–63 bytes before the body, 65,535 when more
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) expires_at: Option<broker_core::Timestamp>,
    pub(crate) priority: Option<u8>,
    /// Bytes of the blob that are not body.
    pub(crate) head_bytes: Option<u16>,
}

const EPOCH_2020_MS: u64 = 1_577_836_800_000;
const EXPIRY_MASK: u64 = (1 << 40) - 1;

impl Attributes {
    pub(crate) fn pack(self) -> u64 {
        let expiry = self.expires_at.map_or(0, |at| {
            at.0.saturating_sub(EPOCH_2020_MS).clamp(1, EXPIRY_MASK)
        });
        // Priority 255 shares its code with 254: both are above every level that queues have but one.
        let priority = self
            .priority
            .map_or(0, |priority| u64::from(priority.min(254)) + 1);
        let head = u64::from(self.head_bytes.unwrap_or(u16::MAX));
        expiry | priority << 40 | head << 48
    }

    pub(crate) fn unpack(packed: u64) -> Self {
        let expiry = packed & EXPIRY_MASK;
        let priority = (packed >> 40) as u8;
        let head = (packed >> 48) as u16;
        Self {
            expires_at: (expiry != 0).then(|| broker_core::Timestamp(EPOCH_2020_MS + expiry)),
            priority: priority.checked_sub(1),
            head_bytes: (head != u16::MAX).then_some(head),
        }
    }
}

pub(crate) struct StoreOwner {
    node: Weak<Node>,
    commits: Arc<CommitShards>,
}

impl StoreOwner {
    pub(crate) fn new(node: Weak<Node>, commits: Arc<CommitShards>) -> Self {
        Self { node, commits }
    }

    fn queue(&self, store: StoreId) -> Option<Arc<Queue>> {
        self.node.upgrade()?.queue(QueueId(store.0))
    }
}

/// The bytes of an entry for a segment; `None` when they are in one already.
fn live_item(entry: &EntryView<'_, Content>) -> Option<LiveItem> {
    let Content::Resident { batch, at, len } = &*entry.content else {
        return None;
    };
    let bytes = LoadedBlob::resident(batch, *at, *len).bytes();
    let head_bytes =
        Blob::parse(&bytes).and_then(|blob| u16::try_from(bytes.len() - blob.body.len()).ok());
    let attributes = Attributes {
        expires_at: entry.expires_at,
        priority: Some(entry.priority),
        head_bytes,
    };
    Some(LiveItem {
        id: entry.id.0,
        attributes: attributes.pack(),
        bytes,
    })
}

impl Owner for StoreOwner {
    fn applied(&self, last: &[(StreamId, u64)]) -> bool {
        self.commits.applied(last)
    }

    fn touched(&self, file: FileId) -> Vec<StoreId> {
        self.node
            .upgrade()
            .map_or_else(Vec::new, |node| node.files.flushing(file))
    }

    fn live_items(&self, store: StoreId, file: FileId, from: u64, out: &mut Vec<LiveItem>) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        let Some(queue) = self.queue(store) else {
            return;
        };
        let Lane::Group(group) = queue.lane else {
            return;
        };
        let Some((first, last)) = node.files.indexes(file, stream_of(group)) else {
            return;
        };
        let from = from.max(entry_id(first, 0).0);
        let end = first_id_after(last);
        queue.with_state(|state| {
            let live = state
                .machine
                .live_from(EntryId(from))
                .take_while(|entry| entry.id.0 < end);
            let in_file = live.filter(|entry| {
                entry.content.file() == Some(file) && keeps(queue.kind, entry.persistent)
            });
            out.extend(
                in_file
                    .filter_map(|entry| live_item(&entry))
                    .take(LIVE_ITEMS_SLICE),
            );
        });
    }

    fn relocated(&self, tier: Tier, store: StoreId, moved: &[(u64, Location)]) -> Vec<Location> {
        let Some(queue) = self.queue(store) else {
            return moved.iter().map(|(_, location)| *location).collect();
        };
        let Some(node) = self.node.upgrade() else {
            return Vec::new();
        };
        let (unwanted, room) = queue.with_state(|state| {
            let mut unwanted = Vec::new();
            for (id, location) in moved {
                if state.relocate(tier, EntryId(*id), *location) {
                    continue;
                }
                if tier == Tier::Durable {
                    state.ledger.dead_in_segment(EntryId(*id));
                }
                unwanted.push(*location);
            }
            let room = queue.tell_size(&node, clock::now(), state);
            (unwanted, room)
        });
        if room {
            queue.let_in(&node);
        }
        unwanted
    }

    fn living(&self, tier: Tier, store: StoreId, items: &mut Vec<(u64, Location)>) {
        let Some(queue) = self.queue(store) else {
            items.clear();
            return;
        };
        queue.with_state(|state| {
            items.retain(|(id, location)| {
                let entry = state.machine.entry(EntryId(*id));
                entry.is_some_and(|entry| entry.content.place() == Some((tier, location)))
            });
        });
    }

    fn paging_starts(&self, store: StoreId, keep_bytes: u64) -> u64 {
        let Some(queue) = self.queue(store) else {
            return 0;
        };
        queue.with_state(|state| {
            let mut kept_bytes = 0;
            let first = state.machine.live_from(EntryId(0)).find(|entry| {
                if let Content::Resident { len, .. } = &*entry.content {
                    kept_bytes += u64::from(*len) + ENTRY_BYTES;
                }
                kept_bytes > keep_bytes
            });
            // None: everything fits.
            first.map_or(u64::MAX, |entry| entry.id.0)
        })
    }

    fn pageable(&self, tier: Tier, store: StoreId, from: u64, out: &mut Vec<LiveItem>) {
        let Some(queue) = self.queue(store) else {
            return;
        };
        queue.with_state(|state| {
            let live = state.machine.live_from(EntryId(from));
            let leaving = live.filter(|entry| {
                let survives = entry.content.is_logged() && keeps(queue.kind, entry.persistent);
                survives == (tier == Tier::Durable)
            });
            out.extend(
                leaving
                    .filter_map(|entry| live_item(&entry))
                    .take(LIVE_ITEMS_SLICE),
            );
        });
    }

    fn checkpoint(&self, store: StoreId, out: &mut Vec<u8>) -> Option<u64> {
        let node = self.node.upgrade()?;
        if store == METADATA_STORE {
            return node.metadata.checkpoint(out);
        }
        if let Some(replication) = &node.replication
            && crate::replication::stream_of_control(store).is_some()
        {
            return replication.checkpoint(&node.files, store, out);
        }
        let queue = self.queue(store)?;
        let Lane::Group(group) = queue.lane else {
            return None;
        };
        // How far the flushed file goes: what is in later files is replayed from them.
        let covered = node.files.flushed(stream_of(group));
        queue.with_state(|state| {
            if state.is_deleted() {
                return None;
            }
            let first_live = state
                .machine
                .live_from(EntryId(0))
                .next()
                .map(|entry| entry.id.0);
            let floor = first_live.unwrap_or_else(|| first_id_after(covered));
            state.join_ledger();
            state.ledger.write(floor, out);
            Some(covered)
        })
    }

    fn released(&self, file: FileId) {
        if let Some(node) = self.node.upgrade() {
            node.files.forget(file);
            if let Some(replication) = &node.replication {
                replication.released(&node.files);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use broker_core::Timestamp;

    use super::*;

    #[test]
    fn attributes_come_back_as_they_went() {
        for attributes in [
            Attributes {
                expires_at: None,
                priority: None,
                head_bytes: None,
            },
            Attributes {
                expires_at: Some(Timestamp(EPOCH_2020_MS + 77)),
                priority: Some(0),
                head_bytes: Some(0),
            },
            Attributes {
                expires_at: Some(Timestamp(1_900_000_000_000)),
                priority: Some(254),
                head_bytes: Some(65_534),
            },
        ] {
            assert_eq!(Attributes::unpack(attributes.pack()), attributes);
        }
    }
}
