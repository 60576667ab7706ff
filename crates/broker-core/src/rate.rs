//! How often something may happen in a second: each happening takes a place in time, and is told
//! how long its place is away. Knows no clock: the time is given.

use std::num::NonZeroU64;

const SECOND_US: u64 = 1_000_000;

/// A gate that lets so many through in a second, a second's worth of them at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateGate {
    /// When the next place begins, in microseconds.
    next_us: u64,
}

impl RateGate {
    /// Takes the next place; answers how long it is away, in microseconds. Takes none and answers
    /// `None` if it is further away than `wait_us_max`.
    pub fn enter(&mut self, now_us: u64, per_second: NonZeroU64, wait_us_max: u64) -> Option<u64> {
        // A gate that stood open for longer is no fuller than a second's worth.
        let begin_us = self.next_us.max(now_us.saturating_sub(SECOND_US));
        let wait_us = begin_us.saturating_sub(now_us);
        if wait_us > wait_us_max {
            return None;
        }
        self.next_us = begin_us + SECOND_US / per_second.get();
        Some(wait_us)
    }

    /// Takes as many places as `amount`, whatever the wait; answers how long the place behind them
    /// is away, in microseconds. What is further away than `wait_us_max` is forgotten.
    pub fn charge(
        &mut self,
        now_us: u64,
        per_second: NonZeroU64,
        amount: u64,
        wait_us_max: u64,
    ) -> u64 {
        let begin_us = self.next_us.max(now_us.saturating_sub(SECOND_US));
        let span_us = u128::from(amount) * u128::from(SECOND_US) / u128::from(per_second.get());
        let span_us = u64::try_from(span_us).unwrap_or(u64::MAX);
        let wait_us = begin_us.saturating_add(span_us).saturating_sub(now_us);
        if wait_us == 0 {
            self.next_us = begin_us + span_us;
            return 0;
        }
        self.next_us = now_us + wait_us.min(wait_us_max);
        wait_us.min(wait_us_max)
    }

    /// Whether nobody waits and a second's worth may enter: the gate need not be remembered.
    pub fn is_at_rest(&self, now_us: u64) -> bool {
        self.next_us.saturating_add(SECOND_US) <= now_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: NonZeroU64 = NonZeroU64::new(5).expect("not zero");
    const NOW_US: u64 = 100 * SECOND_US;

    #[test]
    fn a_seconds_worth_enters_at_once_and_the_rest_is_spread() {
        let mut gate = RateGate::default();
        let waits: Vec<_> = (0..9)
            .map(|_| gate.enter(NOW_US, FIVE, SECOND_US))
            .collect();
        let spread = [0, 0, 0, 0, 0, 0, 200_000, 400_000, 600_000];
        assert_eq!(waits, spread.map(Some));
    }

    #[test]
    fn who_would_wait_for_too_long_takes_no_place() {
        let mut gate = RateGate::default();
        let entered = (0..100).filter_map(|_| gate.enter(NOW_US, FIVE, SECOND_US));
        assert_eq!(
            entered.count(),
            11,
            "a second's worth, and another that waits, and one now"
        );
        assert_eq!(gate.enter(NOW_US, FIVE, SECOND_US), None);
        assert!(gate.enter(NOW_US + SECOND_US, FIVE, SECOND_US).is_some());
    }

    #[test]
    fn a_seconds_worth_is_free_and_what_goes_beyond_is_paid_with_time() {
        let mut gate = RateGate::default();
        assert_eq!(gate.charge(NOW_US, FIVE, 5, 60 * SECOND_US), 0);
        assert_eq!(gate.charge(NOW_US, FIVE, 1, 60 * SECOND_US), 200_000);
        assert_eq!(gate.charge(NOW_US, FIVE, 10, 60 * SECOND_US), 2_200_000);
        let later = NOW_US + 2_200_000;
        assert_eq!(gate.charge(later, FIVE, 1, 60 * SECOND_US), 200_000);
        assert_eq!(gate.charge(later, FIVE, u64::MAX, SECOND_US), SECOND_US);
        assert_eq!(gate.charge(later + SECOND_US, FIVE, 1, SECOND_US), 200_000);
    }

    #[test]
    fn a_gate_comes_to_rest() {
        let mut gate = RateGate::default();
        assert!(gate.is_at_rest(NOW_US));
        gate.enter(NOW_US, FIVE, SECOND_US);
        assert!(!gate.is_at_rest(NOW_US));
        assert!(gate.is_at_rest(NOW_US + SECOND_US));
    }
}
