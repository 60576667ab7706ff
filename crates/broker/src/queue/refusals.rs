//! Publishes that a queue refused since it was full: how many, and when somebody is to be told. A
//! storm of refusals is told as one event a minute.

use broker_core::{Millis, Timestamp};

/// Least time between two events about one queue.
const TELL_EVERY: Millis = Millis(60_000);

/// See the module. Under the queue's lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    /// Since the queue came to this node.
    pub(crate) total: u64,
    pub(crate) last_at: Option<Timestamp>,
    told_at: Option<Timestamp>,
    untold: u64,
}

impl Refusals {
    /// One more. Answers how many an event is to tell of, if one is due.
    pub(crate) fn add(&mut self, now: Timestamp) -> Option<u64> {
        self.total += 1;
        self.untold += 1;
        self.last_at = Some(now);
        if self
            .told_at
            .is_some_and(|told| now.since(told) < TELL_EVERY)
        {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_refusals_is_told_once_a_minute_and_counted_in_full() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.add(Timestamp(5)), Some(1));
        for at in 0..1_000 {
            assert_eq!(refusals.add(Timestamp(6 + at)), None);
        }
        assert_eq!(refusals.add(Timestamp(60_005)), Some(1_001));
        assert_eq!(refusals.total, 1_002);
        assert_eq!(refusals.last_at, Some(Timestamp(60_005)));
    }
}
