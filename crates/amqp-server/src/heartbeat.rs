//! When a silent peer is dead and when we must say that we are not.
//!
//! Pure: counts checks, reads no clock and no socket. The reader asks [`HeartbeatWatch`] once an
//! interval; the writer asks [`send_after`] how long it may stay silent.

use std::time::Duration;

/// Silent intervals in a row after which the peer is given up.
// rabbitmq: heartbeats, two missed checks.
const SILENT_CHECKS_MAX: u8 = 2;

/// The longest silence that we allow ourselves; `None` when heartbeats are off.
// rabbitmq: heartbeats, sent at half the interval.
pub(crate) fn send_after(heartbeat_s: u16) -> Option<Duration> {
    (heartbeat_s > 0).then(|| Duration::from_secs(u64::from(heartbeat_s)) / 2)
}

/// Watches whether the peer says anything at all.
#[derive(Debug)]
pub(crate) struct HeartbeatWatch {
    interval: Option<Duration>,
    heard: bool,
    silent_checks: u8,
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// Bytes came, or there was not enough silence yet.
    Alive,
    /// Nothing came in two intervals.
    Dead,
}

impl HeartbeatWatch {
    /// Zero seconds turn the watch off.
    pub(crate) fn new(heartbeat_s: u16) -> Self {
        let interval = (heartbeat_s > 0).then(|| Duration::from_secs(u64::from(heartbeat_s)));
        // The handshake has just been heard.
        Self {
            interval,
            heard: true,
            silent_checks: 0,
        }
    }

    /// Time between two checks; `None` when heartbeats are off.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// Bytes came from the peer: any bytes count.
    pub(crate) fn heard(&mut self) {
        self.heard = true;
    }

    /// Whether bytes came since the last check.
    pub(crate) fn was_heard(&self) -> bool {
        self.heard
    }

    /// One interval passed. While `reading` is false the peer's heartbeats lie unread in the
    /// socket, so the watch starts afresh.
    pub(crate) fn check(&mut self, reading: bool) -> Pulse {
        if self.heard || !reading || self.interval.is_none() {
            self.heard = false;
            self.silent_checks = 0;
            return Pulse::Alive;
        }
        self.silent_checks += 1;
        if self.silent_checks >= SILENT_CHECKS_MAX {
            Pulse::Dead
        } else {
            Pulse::Alive
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_dead_after_two_silent_intervals() {
        let mut watch = HeartbeatWatch::new(1);
        // The first check still remembers the handshake, as RabbitMQ's does: 3 s for 1 s.
        assert_eq!(watch.check(true), Pulse::Alive);
        assert_eq!(watch.check(true), Pulse::Alive);
        assert_eq!(watch.check(true), Pulse::Dead);
    }

    #[test]
    fn any_bytes_start_the_count_afresh() {
        let mut watch = HeartbeatWatch::new(1);
        for _ in 0..10 {
            assert_eq!(watch.check(true), Pulse::Alive);
            assert_eq!(watch.check(true), Pulse::Alive);
            watch.heard();
        }
    }

    #[test]
    fn a_peer_that_is_not_read_is_not_judged() {
        let mut watch = HeartbeatWatch::new(1);
        for _ in 0..10 {
            assert_eq!(watch.check(false), Pulse::Alive);
        }
        assert_eq!(watch.check(true), Pulse::Alive);
        assert_eq!(watch.check(true), Pulse::Dead);
    }

    #[test]
    fn zero_turns_heartbeats_off_both_ways() {
        let mut watch = HeartbeatWatch::new(0);
        assert_eq!(watch.interval(), None);
        for _ in 0..10 {
            assert_eq!(watch.check(true), Pulse::Alive);
        }
        assert_eq!(send_after(0), None);
        assert_eq!(send_after(1), Some(Duration::from_millis(500)));
    }
}
