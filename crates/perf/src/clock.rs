//! The clock of every figure, and an alarm that is exact to some microseconds.
//!
//! Times are nanoseconds of the machine's monotonic clock, so two processes on one machine agree
//! on them. The runtime's own timers tick in milliseconds, which would show up in every latency
//! of a rate-limited run; the alarm is a kernel timer beside them.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

pub(crate) const NS_PER_SECOND: u64 = 1_000_000_000;
pub(crate) const NS_PER_MS: u64 = 1_000_000;
pub(crate) const NS_PER_US: u64 = 1_000;

/// Nanoseconds since the machine started.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let ns = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * NS_PER_SECOND + ns
}

/// Seconds between two readings; 0 when they are the wrong way round.
pub(crate) fn seconds_between(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / NS_PER_SECOND as f64
}

/// The nanoseconds of a number of seconds; negative ones are none.
pub(crate) fn seconds_to_ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * NS_PER_SECOND as f64) as u64
}

/// Wakes its task at one moment. Must live inside a runtime.
pub(crate) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    armed_for_ns: Option<u64>,
}

impl Alarm {
    #[expect(
        deprecated,
        reason = "what takes its place is unsafe, for types that may close or swap their \
                  descriptor; an OwnedFd behind a private field does neither"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Self {
            timer,
            armed_for_ns: None,
        })
    }

    /// Arms the alarm for a moment, once per moment.
    pub(crate) fn set(&mut self, at_ns: u64) -> io::Result<()> {
        if self.armed_for_ns == Some(at_ns) {
            return Ok(());
        }
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // An all-zero time would disarm the timer instead of ringing at once.
        let at_ns_or_first = at_ns.max(1);
        let it_value = Timespec {
            tv_sec: (at_ns_or_first / NS_PER_SECOND).cast_signed(),
            tv_nsec: (at_ns_or_first % NS_PER_SECOND).cast_signed(),
        };
        let when = Itimerspec {
            it_interval: none,
            it_value,
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &when)?;
        self.armed_for_ns = Some(at_ns);
        Ok(())
    }

    /// Ready once the moment is past.
    pub(crate) fn poll_ring(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.timer.poll_read_ready(cx))?;
            let mut expirations = [0_u8; 8];
            let read = guard.try_io(|timer| {
                rustix::io::read(timer.get_ref(), &mut expirations).map_err(io::Error::from)
            });
            match read {
                Ok(outcome) => {
                    self.armed_for_ns = None;
                    return Poll::Ready(outcome.map(drop));
                }
                Err(_would_block) => continue,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_rings_at_its_moment_and_can_be_set_again() {
        let mut alarm = Alarm::new().unwrap();
        for wait_ns in [300 * NS_PER_US, 0, 2 * NS_PER_MS] {
            let at_ns = now_ns() + wait_ns;
            alarm.set(at_ns).unwrap();
            std::future::poll_fn(|cx| alarm.poll_ring(cx))
                .await
                .unwrap();
            assert!(now_ns() >= at_ns);
        }
    }

    #[test]
    fn seconds_and_nanoseconds_convert_both_ways() {
        assert_eq!(seconds_to_ns(1.5), 1_500_000_000);
        assert_eq!(seconds_to_ns(-1.0), 0);
        assert!((seconds_between(1_000, 500_001_000) - 0.5).abs() < 1e-12);
        assert!(seconds_between(2, 1).abs() < f64::EPSILON);
    }
}
