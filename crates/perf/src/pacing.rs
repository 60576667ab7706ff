//! When the next message is due under a rate limit. Pure: time is an argument.
//!
//! Due times lie on a fixed grid from the start on. A producer that fell behind catches up, and
//! each message bears the time it was due, not the time it left: waiting behind a slow broker is
//! part of its latency (else a stalled broker would be measured by few, lucky messages).

use crate::clock::NS_PER_SECOND;

/// The shortest sleep, so that high rates wake the tool for bundles and not for each message.
pub(crate) const SLEEP_NS_MIN: u64 = 50_000;

/// The grid of due times.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    start_ns: u64,
    rate_per_second: f64,
    taken: u64,
}

impl Pacing {
    /// The first message is due at the start.
    pub(crate) fn new(start_ns: u64, rate_per_second: f64) -> Self {
        Self {
            start_ns,
            rate_per_second,
            taken: 0,
        }
    }

    /// When the next message is due.
    pub(crate) fn due_ns(&self) -> u64 {
        let offset_ns = self.taken as f64 * NS_PER_SECOND as f64 / self.rate_per_second;
        self.start_ns.saturating_add(offset_ns as u64)
    }

    /// Takes the next message if it is due, and tells the time it was due.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns();
        if due_ns > now_ns {
            return None;
        }
        self.taken += 1;
        Some(due_ns)
    }

    /// When to look again.
    pub(crate) fn wake_ns(&self, now_ns: u64) -> u64 {
        self.due_ns().max(now_ns.saturating_add(SLEEP_NS_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_due_on_the_grid_and_not_before() {
        let mut pacing = Pacing::new(1_000, 1_000_000.0);
        assert_eq!(pacing.take(999), None);
        assert_eq!(pacing.take(1_000), Some(1_000));
        assert_eq!(pacing.take(1_999), None);
        assert_eq!(pacing.due_ns(), 2_000);
    }

    #[test]
    fn a_late_producer_catches_up_with_the_times_that_were_due() {
        let mut pacing = Pacing::new(0, 1_000_000.0);
        let taken: Vec<u64> = std::iter::from_fn(|| pacing.take(3_500)).collect();
        assert_eq!(taken, [0, 1_000, 2_000, 3_000]);
    }

    #[test]
    fn the_grid_does_not_drift_at_rates_that_do_not_divide_a_second() {
        let mut pacing = Pacing::new(0, 3.0);
        for _ in 0..3_000 {
            let due_ns = pacing.due_ns();
            assert!(pacing.take(due_ns).is_some());
        }
        assert_eq!(pacing.due_ns(), 1_000 * NS_PER_SECOND);
    }

    #[test]
    fn high_rates_sleep_for_bundles() {
        let mut pacing = Pacing::new(0, 10_000_000.0);
        assert!(pacing.take(0).is_some());
        assert_eq!(pacing.wake_ns(10), 10 + SLEEP_NS_MIN);
        let slow = Pacing::new(5_000_000, 1.0);
        assert_eq!(slow.wake_ns(10), 5_000_000);
    }
}
