//! Slows down who guesses passwords: after a few failures from one address each further answer
//! waits. Knows no clock: the time is given.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Failures of one address that are answered at once, until it has been quiet for a while.
const FREE_FAILURES: u32 = 5;

/// After so long without a failure an address is forgotten.
const MEMORY_MS: u64 = 60_000;

/// Addresses that are remembered; the quiet ones are forgotten first, and then nobody new is
/// remembered: an address of 16 octets and two numbers each, less than a MiB in all.
const ADDRESSES_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last_ms: u64,
}

/// Remembers who failed to log in.
#[derive(Debug, Default)]
pub struct FailureBrake {
    by_address: HashMap<IpAddr, Failures>,
}

impl FailureBrake {
    /// A login from this address has failed; answers how long its answer shall wait.
    pub fn failed(&mut self, address: IpAddr, now_ms: u64, delay: Duration) -> Duration {
        let address = address.to_canonical();
        // Who is on this machine has better ways than guessing, and its tools fail by mistake.
        if address.is_loopback() {
            return Duration::ZERO;
        }
        if self.by_address.len() >= ADDRESSES_MAX {
            self.by_address
                .retain(|_, failures| failures.last_ms + MEMORY_MS > now_ms);
        }
        if self.by_address.len() >= ADDRESSES_MAX && !self.by_address.contains_key(&address) {
            return delay;
        }
        let failures = self.by_address.entry(address).or_default();
        if failures.last_ms + MEMORY_MS <= now_ms {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last_ms = now_ms;
        if failures.count > FREE_FAILURES {
            delay
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const DELAY: Duration = Duration::from_secs(3);
    const AWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    const NOW_MS: u64 = 1_000_000;

    #[test]
    fn the_first_failures_are_answered_at_once_and_further_ones_wait() {
        let mut brake = FailureBrake::default();
        let waits: Vec<_> = (0..7).map(|_| brake.failed(AWAY, NOW_MS, DELAY)).collect();
        let zero = Duration::ZERO;
        assert_eq!(waits, [zero, zero, zero, zero, zero, DELAY, DELAY]);
        assert_eq!(
            brake.failed(AWAY, NOW_MS + MEMORY_MS, DELAY),
            zero,
            "it was quiet"
        );
    }

    #[test]
    fn one_address_does_not_slow_another_down_and_this_machine_never_waits() {
        let mut brake = FailureBrake::default();
        for _ in 0..100 {
            brake.failed(AWAY, NOW_MS, DELAY);
        }
        for other in [
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, 8)),
            Ipv4Addr::LOCALHOST.into(),
        ] {
            assert_eq!(brake.failed(other, NOW_MS, DELAY), Duration::ZERO);
        }
        for _ in 0..100 {
            let wait = brake.failed(Ipv4Addr::LOCALHOST.into(), NOW_MS, DELAY);
            assert_eq!(wait, Duration::ZERO);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut brake = FailureBrake::default();
        for n in 0..20_000_u32 {
            brake.failed(IpAddr::V4((0x0a00_0000 + n).into()), NOW_MS, DELAY);
        }
        assert_eq!(brake.by_address.len(), ADDRESSES_MAX);
        assert_eq!(
            brake.failed(AWAY, NOW_MS, DELAY),
            DELAY,
            "a flood does not open the door"
        );
        brake.failed(AWAY, NOW_MS + MEMORY_MS, DELAY);
        assert_eq!(brake.by_address.len(), 1);
    }
}
