//! Moves items to segments for the background thread: from memory when a journal file is flushed or a store
//! is paged out, from a half-dead segment when it is compacted.
//!
//! Knows the order that makes it safe: items durable at their new places → owner told → places that
//! nobody wants given back. Not which items, nor why.

use std::sync::Arc;

use crate::error::Result;
use crate::owner::{LiveItem, Owner};
use crate::place::{Location, StoreId, Tier};
use crate::segment::{Item, RecoveredItem, Run, SegmentStore};

/// Item bytes after which the segments are synced and the owner is told, so that memory is given back
/// while a large file is still being flushed.
const ROUND_BYTES: u64 = 16 << 20;
/// Stores in such a round: each holds a file open until the sync.
const ROUND_STORES: usize = 128;
/// Items of a segment that the owner is asked about at once; its lock is held for no longer.
const LIVING_SLICE: usize = 1_000;
/// Bytes read at once from a segment that is compacted.
const RUN_BYTES: usize = 256 << 10;

/// Items that are in the segments of a tier but not durable there yet.
pub(crate) struct Moving<'a> {
    tier: Tier,
    segments: &'a SegmentStore,
    owner: &'a dyn Owner,
    stores: Vec<(StoreId, Vec<Moved>)>,
    round_bytes: u64,
    /// Items moved so far.
    pub(crate) items: usize,
    /// Their bytes.
    pub(crate) bytes: u64,
}

struct Moved {
    id: u64,
    to: Location,
    /// Where it was, if that was a segment.
    from: Option<Location>,
}

impl<'a> Moving<'a> {
    pub(crate) fn to(tier: Tier, segments: &'a SegmentStore, owner: &'a Arc<dyn Owner>) -> Self {
        Self {
            tier,
            segments,
            owner: &**owner,
            stores: Vec::new(),
            round_bytes: 0,
            items: 0,
            bytes: 0,
        }
    }

    /// Copies items of a store from memory.
    pub(crate) fn copy(&mut self, store: StoreId, live: &[LiveItem]) -> Result<()> {
        if live.is_empty() {
            return Ok(());
        }
        let parts: Vec<[&[u8]; 1]> = live.iter().map(|item| [item.bytes.as_ref()]).collect();
        let items: Vec<Item<'_>> = live
            .iter()
            .zip(&parts)
            .map(|(item, parts)| Item {
                id: item.id,
                attributes: item.attributes,
                parts,
            })
            .collect();
        let places = self.segments.append(store, &items)?;
        let moved = live.iter().zip(places).map(|(item, to)| Moved {
            id: item.id,
            to,
            from: None,
        });
        self.note(store, moved.collect())
    }

    fn note(&mut self, store: StoreId, moved: Vec<Moved>) -> Result<()> {
        let bytes: u64 = moved.iter().map(|moved| u64::from(moved.to.len)).sum();
        self.items += moved.len();
        self.bytes += bytes;
        self.round_bytes += bytes;
        match self.stores.last_mut().filter(|(last, _)| *last == store) {
            Some((_, all)) => all.extend(moved),
            None => self.stores.push((store, moved)),
        }
        if self.round_bytes >= ROUND_BYTES || self.stores.len() >= ROUND_STORES {
            self.finish()?;
        }
        Ok(())
    }

    /// Makes all that was copied durable and tells the owner.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let stores: Vec<StoreId> = self.stores.iter().map(|(store, _)| *store).collect();
        self.segments.sync(&stores)?;
        for (store, moved) in self.stores.drain(..) {
            let places: Vec<(u64, Location)> =
                moved.iter().map(|moved| (moved.id, moved.to)).collect();
            let mut free = self.owner.relocated(self.tier, store, &places);
            free.sort_unstable();
            // What was settled meanwhile has given its earlier place back itself.
            let left = moved
                .iter()
                .filter(|moved| free.binary_search(&moved.to).is_err())
                .filter_map(|moved| moved.from);
            let left: Vec<Location> = left.collect();
            self.segments.release(store, &free);
            self.segments.release(store, &left);
        }
        self.round_bytes = 0;
        Ok(())
    }

    /// Empties the worst segment of a store that holds too much that is dead.
    pub(crate) fn compact(&mut self, store: StoreId) -> Result<()> {
        let Some(victim) = self.segments.victim(store)? else {
            return Ok(());
        };
        let mut unreadable = 0;
        let mut run = None;
        for slice in victim.items.chunks(LIVING_SLICE) {
            let mut living = slice.iter().map(|item| (item.id, item.location)).collect();
            self.owner.living(self.tier, store, &mut living);
            unreadable += self.copy_living(store, slice, &living, &mut run)?;
        }
        self.finish()?;
        self.segments.compacted(store, victim.segment, unreadable);
        tracing::debug!(%store, segment = victim.segment, of = victim.items.len(),
            moved = self.items, bytes = self.bytes, "segment compacted");
        Ok(())
    }

    /// Copies those of a segment's items that live; answers how many cannot be read.
    fn copy_living(
        &mut self,
        store: StoreId,
        items: &[RecoveredItem],
        living: &[(u64, Location)],
        run: &mut Option<Run>,
    ) -> Result<usize> {
        let mut unreadable = 0;
        let mut living = living.iter().peekable();
        for item in items {
            if living
                .next_if(|(_, location)| *location == item.location)
                .is_none()
            {
                continue;
            }
            let location = &item.location;
            let held = run.as_ref().and_then(|run| run.get(location));
            let bytes = match held {
                Some(bytes) => Some(bytes),
                None => {
                    let read = self.segments.read_run(store, location, RUN_BYTES)?;
                    run.insert(read).get(location)
                }
            };
            let Some(bytes) = bytes else {
                tracing::error!(%store, segment = location.segment, offset = location.offset,
                    id = item.id, "an item is damaged; its segment is not compacted");
                unreadable += 1;
                continue;
            };
            let copy = Item {
                id: item.id,
                attributes: item.attributes,
                parts: &[&bytes],
            };
            let to = self.segments.append(store, &[copy])?;
            let moved = to.into_iter().map(|to| Moved {
                id: item.id,
                to,
                from: Some(*location),
            });
            self.note(store, moved.collect())?;
        }
        Ok(unreadable)
    }
}
