//! What lives and what is dead in the segments of one store. Counts only; no files.

use std::collections::BTreeMap;

use super::StoreUsage;

/// The census of every segment of a store. One entry a segment.
#[derive(Debug, Default)]
pub(super) struct Account {
    segments: BTreeMap<u32, Census>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Census {
    /// Whether the segment was looked into since the start.
    surveyed: bool,
    live_items: u64,
    live_bytes: u64,
    item_bytes: u64,
    file_bytes: u64,
}

impl Account {
    /// A segment that exists, with unknown contents.
    pub(super) fn found(&mut self, segment: u32) {
        self.segments.insert(segment, Census::default());
    }

    /// The contents of a segment; all of it lives until released.
    pub(super) fn surveyed(&mut self, segment: u32, items: u64, item_bytes: u64, file_bytes: u64) {
        let census = Census {
            surveyed: true,
            live_items: items,
            live_bytes: item_bytes,
            item_bytes,
            file_bytes,
        };
        self.segments.insert(segment, census);
    }

    pub(super) fn added(&mut self, segment: u32, item_bytes: u64, frame_bytes: u64) {
        let census = self.segments.entry(segment).or_default();
        census.surveyed = true;
        census.live_items += 1;
        census.live_bytes += item_bytes;
        census.item_bytes += item_bytes;
        census.file_bytes += frame_bytes;
    }

    /// The item is dead; answers whether it was the last one of its segment.
    pub(super) fn released(&mut self, segment: u32, item_bytes: u64) -> bool {
        let Some(census) = self
            .segments
            .get_mut(&segment)
            .filter(|census| census.live_items > 0)
        else {
            // Settled while it was moved, in a store that is dropped: everything is released already.
            tracing::debug!(segment, "an item was released that was not live");
            return false;
        };
        census.live_items -= 1;
        census.live_bytes = census.live_bytes.saturating_sub(item_bytes);
        census.live_items == 0
    }

    /// Everything is dead; answers the segments.
    pub(super) fn released_all(&mut self) -> Vec<u32> {
        for census in self.segments.values_mut() {
            census.surveyed = true;
            census.live_items = 0;
            census.live_bytes = 0;
        }
        self.segments.keys().copied().collect()
    }

    pub(super) fn is_dead(&self, segment: u32) -> bool {
        self.segments
            .get(&segment)
            .is_some_and(|census| census.surveyed && census.live_items == 0)
    }

    pub(super) fn remove(&mut self, segment: u32) {
        self.segments.remove(&segment);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn newest(&self) -> Option<u32> {
        self.segments.keys().next_back().copied()
    }

    pub(super) fn segments(&self) -> Vec<u32> {
        self.segments.keys().copied().collect()
    }

    pub(super) fn unsurveyed(&self) -> Vec<u32> {
        let unknown = self.segments.iter().filter(|(_, census)| !census.surveyed);
        unknown.map(|(segment, _)| *segment).collect()
    }

    pub(super) fn usage(&self) -> StoreUsage {
        let mut usage = StoreUsage::default();
        for census in self.segments.values() {
            usage.segments += 1;
            usage.live_items += census.live_items;
            usage.live_bytes += census.live_bytes;
            usage.dead_bytes += census.item_bytes - census.live_bytes;
            usage.file_bytes += census.file_bytes;
        }
        usage
    }
}
