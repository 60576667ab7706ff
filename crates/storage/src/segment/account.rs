//! What lives and what is dead in the segments of one store. Counts only; no files.

use std::collections::BTreeMap;

use super::{SegmentUsage, StoreUsage, format};

/// The census of every segment of a store. One entry a segment.
#[derive(Debug, Default)]
pub(super) struct Account {
    segments: BTreeMap<u32, Census>,
    /// Sums over all segments, so that a release looks at one census only.
    live_frame_bytes: u64,
    file_bytes: u64,
    /// Whether the store waits to be compacted.
    pub(super) queued: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Census {
    /// Whether the segment was looked into since the start.
    surveyed: bool,
    /// Whether an item in it cannot be read, so that it cannot be moved.
    stuck: bool,
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
            stuck: false,
            live_items: items,
            live_bytes: item_bytes,
            item_bytes,
            file_bytes,
        };
        self.live_frame_bytes += census.live_frame_bytes();
        self.file_bytes += file_bytes;
        let earlier = self.segments.insert(segment, census);
        self.forget(earlier);
    }

    fn forget(&mut self, census: Option<Census>) {
        let Some(census) = census else { return };
        self.live_frame_bytes -= census.live_frame_bytes();
        self.file_bytes -= census.file_bytes;
    }

    pub(super) fn added(&mut self, segment: u32, item_bytes: u64, frame_bytes: u64) {
        let census = self.segments.entry(segment).or_default();
        census.surveyed = true;
        census.live_items += 1;
        census.live_bytes += item_bytes;
        census.item_bytes += item_bytes;
        census.file_bytes += frame_bytes;
        self.live_frame_bytes += item_bytes + format::ITEM_HEADER_BYTES;
        self.file_bytes += frame_bytes;
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
        let before = census.live_frame_bytes();
        census.live_items -= 1;
        census.live_bytes = census.live_bytes.saturating_sub(item_bytes);
        self.live_frame_bytes -= before - census.live_frame_bytes();
        census.live_items == 0
    }

    /// Everything is dead; answers the segments.
    pub(super) fn released_all(&mut self) -> Vec<u32> {
        for census in self.segments.values_mut() {
            census.surveyed = true;
            census.live_items = 0;
            census.live_bytes = 0;
        }
        self.live_frame_bytes = 0;
        self.segments.keys().copied().collect()
    }

    /// Everything in the segment is dead, whatever was released before.
    pub(super) fn killed(&mut self, segment: u32) {
        if let Some(census) = self.segments.get_mut(&segment) {
            self.live_frame_bytes -= census.live_frame_bytes();
            (census.live_items, census.live_bytes) = (0, 0);
        }
    }

    /// The segment cannot be compacted: it stays until all in it is dead.
    pub(super) fn is_stuck(&mut self, segment: u32) {
        if let Some(census) = self.segments.get_mut(&segment) {
            census.stuck = true;
        }
    }

    /// Whether the segments hold more than twice what lives and what is allowed beyond.
    pub(super) fn is_wasteful(&self, dead_bytes_allowed: u64) -> bool {
        self.file_bytes > 2 * self.live_frame_bytes + dead_bytes_allowed
    }

    /// The segment with the least life in it, if less than half of it lives.
    pub(super) fn victim(&self) -> Option<u32> {
        let half_dead = self.segments.iter().filter(|(_, census)| {
            census.surveyed && !census.stuck && 2 * census.live_frame_bytes() < census.file_bytes
        });
        let per_mille =
            |census: &Census| census.live_frame_bytes() * 1000 / census.file_bytes.max(1);
        half_dead
            .min_by_key(|(_, census)| per_mille(census))
            .map(|(segment, _)| *segment)
    }

    /// Each segment on its own.
    pub(super) fn each(&self) -> Vec<SegmentUsage> {
        let usage = self.segments.iter().map(|(segment, census)| SegmentUsage {
            segment: *segment,
            live_items: census.live_items,
            live_bytes: census.live_bytes,
            dead_bytes: census.item_bytes - census.live_bytes,
            file_bytes: census.file_bytes,
        });
        usage.collect()
    }

    pub(super) fn is_dead(&self, segment: u32) -> bool {
        self.segments
            .get(&segment)
            .is_some_and(|census| census.surveyed && census.live_items == 0)
    }

    pub(super) fn remove(&mut self, segment: u32) {
        let removed = self.segments.remove(&segment);
        self.forget(removed);
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

    pub(super) fn segment_count(&self) -> u64 {
        self.segments.len() as u64
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

impl Census {
    /// Bytes that the live items would take in a segment of their own.
    fn live_frame_bytes(&self) -> u64 {
        self.live_bytes + self.live_items * format::ITEM_HEADER_BYTES
    }
}
