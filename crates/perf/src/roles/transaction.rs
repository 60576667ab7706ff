//! Publishing in transactions: how many are in the open one, and since when.

/// The largest transaction that can be asked for.
pub(crate) const TRANSACTION_MESSAGES_MAX: u32 = 100_000;

#[derive(Debug)]
pub(crate) struct Transaction {
    size: usize,
    published_ns: Vec<u64>,
    committing: bool,
}

impl Transaction {
    pub(crate) fn new(size: u32) -> Self {
        let size = size.clamp(1, TRANSACTION_MESSAGES_MAX) as usize;
        Self {
            size,
            published_ns: Vec::with_capacity(size),
            committing: false,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.committing && self.published_ns.len() < self.size
    }

    pub(crate) fn published(&mut self, at_ns: u64) {
        self.published_ns.push(at_ns);
    }

    /// Whether a commit is due: the transaction is full, or has something and nothing follows.
    pub(crate) fn commit_due(&self, nothing_follows: bool) -> bool {
        let open = self.published_ns.len();
        !self.committing && (open == self.size || (nothing_follows && open > 0))
    }

    pub(crate) fn commit_sent(&mut self) {
        self.committing = true;
    }

    /// The broker committed: the publish times of all that were in the transaction.
    pub(crate) fn committed(&mut self) -> std::vec::Drain<'_, u64> {
        self.committing = false;
        self.published_ns.drain(..)
    }

    /// How many are not committed.
    pub(crate) fn open(&self) -> u64 {
        self.published_ns.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_transaction_waits_for_its_commit() {
        let mut transaction = Transaction::new(2);
        transaction.published(5);
        assert!(transaction.has_room() && !transaction.commit_due(false));
        transaction.published(6);
        assert!(!transaction.has_room() && transaction.commit_due(false));
        transaction.commit_sent();
        assert!(!transaction.has_room() && !transaction.commit_due(true));
        assert_eq!(transaction.committed().collect::<Vec<_>>(), [5, 6]);
        assert!(transaction.has_room());
        assert_eq!(transaction.open(), 0);
    }

    #[test]
    fn a_started_transaction_is_committed_at_the_end_and_an_empty_one_is_not() {
        let mut transaction = Transaction::new(10);
        assert!(!transaction.commit_due(true));
        transaction.published(1);
        assert!(transaction.commit_due(true));
    }
}
