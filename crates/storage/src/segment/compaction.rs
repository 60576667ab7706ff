//! Which segments are worth copying, and what is in them.
//!
//! Knows counts and files; not which items live: the owner says so, and the background thread moves them.

use std::sync::atomic::Ordering;

use super::account::Account;
use super::reader::SegmentFile;
use super::{RecoveredItem, SegmentStore};
use crate::error::{During, Result};
use crate::place::{Location, StoreId};

/// However many stores there are, a segment below this is not worth copying.
const DEAD_BYTES_ALLOWED_MIN: u64 = 256 << 10;

/// A segment that is to be emptied.
#[derive(Debug)]
pub(crate) struct Victim {
    pub(crate) segment: u32,
    /// All its items, dead ones too, in the order of their writing.
    pub(crate) items: Vec<RecoveredItem>,
}

impl SegmentStore {
    /// Remembers the store if it has become wasteful, and wakes the background thread.
    pub(super) fn note_waste(&self, store: StoreId, account: &mut Account) {
        if account.queued || !account.is_wasteful(self.dead_bytes_share()) {
            return;
        }
        account.queued = true;
        self.wasteful.lock().push(store);
        self.bell.ring();
    }

    /// Dead bytes that each store may hold beyond as many as live.
    fn dead_bytes_share(&self) -> u64 {
        let stores = self.store_count.load(Ordering::Relaxed).max(1);
        let least = DEAD_BYTES_ALLOWED_MIN.min(self.segment_bytes);
        (self.dead_bytes_allowed / stores).clamp(least, self.segment_bytes)
    }

    /// A store that has become wasteful.
    pub(crate) fn take_wasteful(&self) -> Option<StoreId> {
        self.wasteful.lock().pop()
    }

    /// The segment of the store that gives most room for least copying; nothing is appended to it from
    /// here on. `None` when the store is not wasteful (any more).
    pub(crate) fn victim(&self, store: StoreId) -> Result<Option<Victim>> {
        let Some(held) = self.store(store) else {
            return Ok(None);
        };
        let mut writer = held.writer.lock();
        let segment = {
            let mut account = held.account.lock();
            account.queued = false;
            let wasteful = account.is_wasteful(self.dead_bytes_share());
            account.victim().filter(|_| wasteful)
        };
        let Some(segment) = segment else {
            return Ok(None);
        };
        writer.end(&self.files, segment)?;
        drop(writer);
        let items = self.items_of(store, segment)?;
        Ok(Some(Victim { segment, items }))
    }

    fn items_of(&self, store: StoreId, segment: u32) -> Result<Vec<RecoveredItem>> {
        let key = (store, segment);
        let path = self.files.path(key);
        let file = self.files.get(key).during("open", &path)?;
        let contents = SegmentFile { key, path, file }.contents()?;
        let entries = contents.map(|contents| contents.entries);
        let items = entries.into_iter().flatten().map(|entry| RecoveredItem {
            id: entry.id,
            attributes: entry.attributes,
            location: Location {
                segment,
                offset: entry.offset,
                len: entry.len,
            },
        });
        Ok(items.collect())
    }

    /// Everything that anybody wants was moved out of the segment. If some of it could not be read, it
    /// stays where it is.
    pub(crate) fn compacted(&self, store: StoreId, segment: u32, unreadable: usize) {
        let Some(held) = self.store(store) else {
            return;
        };
        let mut account = held.account.lock();
        if unreadable > 0 {
            account.is_stuck(segment);
        } else {
            account.killed(segment);
        }
        self.note_waste(store, &mut account);
        drop(account);
        if unreadable == 0 {
            self.bury(vec![(store, segment)]);
        }
    }
}
