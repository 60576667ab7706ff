//! What is in an open segment, remembered for its footer so that it need not be read back: as much of it as
//! all open segments together may take.
//!
//! Knows entries and a budget; not files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::format::Entry;

/// Entries that all open segments of a tier remember together: 24 MiB.
pub(super) const ENTRIES_MAX: u64 = 1 << 20;
/// Entries that are reserved at once.
const RESERVED_AT_ONCE: u64 = 256;

/// Entries of one open segment.
#[derive(Debug)]
pub(super) struct Remembered {
    entries: Vec<Entry>,
    reserved: u64,
    /// What is left for all.
    budget: Arc<AtomicU64>,
}

impl Remembered {
    pub(super) fn new(budget: &Arc<AtomicU64>) -> Self {
        Self {
            entries: Vec::new(),
            reserved: 0,
            budget: Arc::clone(budget),
        }
    }

    /// Remembers one more; answers false when there is no room, and what was remembered is of no use.
    pub(super) fn push(&mut self, entry: Entry) -> bool {
        if self.entries.len() as u64 == self.reserved && !self.reserve() {
            return false;
        }
        self.entries.push(entry);
        true
    }

    fn reserve(&mut self) -> bool {
        let take = |left: u64| left.checked_sub(RESERVED_AT_ONCE);
        let taken = self
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok() {
            self.reserved += RESERVED_AT_ONCE;
            self.entries.reserve(RESERVED_AT_ONCE as usize);
        }
        taken.is_ok()
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        self.budget.fetch_add(self.reserved, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry = Entry {
        id: 1,
        offset: 2,
        len: 3,
        attributes: 4,
    };

    #[test]
    fn what_one_segment_remembers_another_cannot_until_it_is_given_back() {
        let budget = Arc::new(AtomicU64::new(2 * RESERVED_AT_ONCE));
        let mut first = Remembered::new(&budget);
        for _ in 0..=RESERVED_AT_ONCE {
            assert!(first.push(ENTRY));
        }
        let mut second = Remembered::new(&budget);
        assert!(!second.push(ENTRY));
        assert_eq!(first.entries().len() as u64, RESERVED_AT_ONCE + 1);
        drop(first);
        assert!(second.push(ENTRY));
        drop(second);
        assert_eq!(budget.load(Ordering::Relaxed), 2 * RESERVED_AT_ONCE);
    }
}
