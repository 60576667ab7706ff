//! Requests to move a store's items from memory to its segments, for the background thread.
//!
//! Knows how much may stay; not who asks, nor which items go.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::place::StoreId;

/// Bytes that each store may keep in memory. Bounded by the number of stores.
#[derive(Debug, Default)]
pub(crate) struct PageOut(Mutex<BTreeMap<StoreId, u64>>);

impl PageOut {
    /// Asks; of several requests for one store the strictest counts.
    pub(crate) fn ask(&self, store: StoreId, keep_bytes: u64) {
        let mut asked = self.0.lock();
        let kept = asked.entry(store).or_insert(keep_bytes);
        *kept = keep_bytes.min(*kept);
    }

    pub(crate) fn take(&self) -> Option<(StoreId, u64)> {
        self.0.lock().pop_first()
    }
}
