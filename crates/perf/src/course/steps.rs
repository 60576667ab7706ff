//! The course of a run as a rule book: when consumers start, when producers stop, when all has
//! arrived. Pure: time and counts are arguments, orders are the result.

use crate::clock::{NS_PER_MS, NS_PER_SECOND, seconds_to_ns};
use crate::figures::Counts;
use crate::options::LoadOptions;
use crate::orders::{Order, Orders};

/// A run in which nothing at all moves for so long is given up.
const STALL_NS_MAX: u64 = 120 * NS_PER_SECOND;
/// How long a verified run listens for duplicates after everything arrived.
const LATE_DUPLICATE_NS: u64 = 300 * NS_PER_MS;
/// How long consumers may take to settle and close.
const FINISH_NS_MAX: u64 = 10 * NS_PER_SECOND;

/// The numbers that decide.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) producers: u64,
    pub(crate) consumers: u64,
    pub(crate) messages: Option<u64>,
    pub(crate) time_ns: Option<u64>,
    pub(crate) consume_after: Option<u64>,
    pub(crate) consume_delay_ns: Option<u64>,
    pub(crate) publish_delay_ns: u64,
    pub(crate) drain_ns_max: u64,
    pub(crate) idle_ns_max: u64,
    pub(crate) verify: bool,
    /// Bodies carry sequence numbers, so that first arrivals can be counted.
    pub(crate) identified: bool,
    /// How many queues get each message.
    pub(crate) copies: u64,
}

impl Schedule {
    pub(crate) fn of(load: &LoadOptions, producers: usize, consumers: usize, copies: u64) -> Self {
        Self {
            producers: producers as u64,
            consumers: consumers as u64,
            messages: load.messages,
            time_ns: load.time.map(seconds_to_ns),
            consume_after: load.consume_after,
            consume_delay_ns: load.consume_delay.map(seconds_to_ns),
            publish_delay_ns: load.publish_delay.map_or(0, seconds_to_ns),
            drain_ns_max: seconds_to_ns(load.drain),
            idle_ns_max: seconds_to_ns(load.idle),
            verify: load.verify,
            identified: load.size.smallest() >= crate::body::IDENTITY_BYTES,
            copies,
        }
    }
}

/// How the waiting for what was published ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drain {
    /// Everything arrived.
    Complete,
    /// Nothing arrived any more, though something is missing.
    Idle,
    /// The time for it was over while messages still arrived.
    CutShort,
    /// There is nobody to consume, or nothing was published.
    NotAwaited,
    /// The user interrupted, or the run was given up.
    Interrupted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Consumers subscribe; producers wait for them.
    Subscribing,
    Publishing,
    Draining {
        since_ns: u64,
        complete_ns: Option<u64>,
    },
    Finishing {
        since_ns: u64,
        drain: Drain,
    },
}

#[derive(Debug)]
pub(crate) struct Steps {
    schedule: Schedule,
    stage: Stage,
    orders: Orders,
    start_ns: u64,
    stop_ns: Option<u64>,
    last_counts: Counts,
    last_move_ns: u64,
    last_arrival_ns: u64,
    interrupted: bool,
    stalled: bool,
}

impl Steps {
    pub(crate) fn new(schedule: Schedule, start_ns: u64) -> Self {
        Self {
            schedule,
            stage: Stage::Subscribing,
            orders: Orders::wait(),
            start_ns,
            stop_ns: None,
            last_counts: Counts::default(),
            last_move_ns: start_ns,
            last_arrival_ns: start_ns,
            interrupted: false,
            stalled: false,
        }
    }

    /// Looks at the clock and the counts, and answers the orders in force.
    pub(crate) fn step(&mut self, now_ns: u64, counts: &Counts) -> Orders {
        self.watch_movement(now_ns, counts);
        self.start_consumers_if_due(now_ns, counts);
        match self.stage {
            Stage::Subscribing => self.subscribing(now_ns, counts),
            Stage::Publishing => self.publishing(now_ns, counts),
            Stage::Draining {
                since_ns,
                complete_ns,
            } => self.draining(now_ns, counts, since_ns, complete_ns),
            Stage::Finishing { since_ns, .. } => {
                let late = now_ns.saturating_sub(since_ns) > FINISH_NS_MAX;
                self.orders.abandon |= late;
            }
        }
        self.orders
    }

    /// The first interruption stops publishing and waits no longer than the answers need; the
    /// second leaves everything.
    pub(crate) fn interrupt(&mut self, now_ns: u64) {
        if self.interrupted {
            self.orders.abandon = true;
        }
        self.interrupted = true;
        self.orders.publish = Order::Stop;
        self.stop_ns.get_or_insert(now_ns);
    }

    /// How the drain ended, once it has.
    pub(crate) fn drain(&self) -> Option<Drain> {
        match self.stage {
            Stage::Finishing { drain, .. } => Some(drain),
            _ => None,
        }
    }

    /// Whether the run was given up because nothing moved.
    pub(crate) fn stalled(&self) -> bool {
        self.stalled
    }

    /// Publishing and draining are over; what follows is closing.
    pub(crate) fn is_finishing(&self) -> bool {
        matches!(self.stage, Stage::Finishing { .. })
    }

    fn watch_movement(&mut self, now_ns: u64, counts: &Counts) {
        if counts.consumed + counts.requeued
            != self.last_counts.consumed + self.last_counts.requeued
        {
            self.last_arrival_ns = now_ns;
        }
        // Empty answers to polls are no movement.
        let moving = Counts {
            empty_gets: 0,
            ..*counts
        };
        if moving != self.last_counts {
            self.last_counts = moving;
            self.last_move_ns = now_ns;
        }
        let idle_ns = now_ns.saturating_sub(self.last_move_ns);
        let waits_for_broker = match self.stage {
            Stage::Subscribing => self.orders.consume != Order::Wait,
            _ => self.schedule.producers > 0,
        };
        if idle_ns > STALL_NS_MAX && waits_for_broker && !self.is_finishing() {
            self.stalled = true;
            self.give_up(now_ns);
        }
    }

    fn give_up(&mut self, now_ns: u64) {
        self.orders.abandon = true;
        self.stage = Stage::Finishing {
            since_ns: now_ns,
            drain: Drain::Interrupted,
        };
    }

    fn start_consumers_if_due(&mut self, now_ns: u64, counts: &Counts) {
        if self.orders.consume != Order::Wait {
            return;
        }
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        let all_published = matches!(self.stage, Stage::Draining { .. });
        let due = match (self.schedule.consume_after, self.schedule.consume_delay_ns) {
            (Some(after), _) => counts.published >= after || all_published,
            (None, Some(delay_ns)) => elapsed_ns >= delay_ns,
            (None, None) => true,
        };
        if due {
            self.orders.consume = Order::Go { since_ns: now_ns };
        }
    }

    fn subscribing(&mut self, now_ns: u64, counts: &Counts) {
        let consumers_come_first =
            self.schedule.consume_after.is_none() && self.schedule.consume_delay_ns.is_none();
        let standing = counts.consumers_ready >= self.schedule.consumers;
        if self.interrupted {
            self.stage = Stage::Publishing;
            return;
        }
        if consumers_come_first && !standing {
            return;
        }
        let since_start_ns = now_ns.saturating_sub(self.start_ns);
        if self.schedule.producers > 0 && since_start_ns < self.schedule.publish_delay_ns {
            return;
        }
        self.orders.publish = Order::Go { since_ns: now_ns };
        self.stage = Stage::Publishing;
    }

    fn publishing(&mut self, now_ns: u64, counts: &Counts) {
        if self.schedule.producers == 0 {
            return self.only_consuming(now_ns, counts);
        }
        let began_ns = match self.orders.publish {
            Order::Go { since_ns } => Some(since_ns),
            _ => None,
        };
        if let (Some(began_ns), Some(time_ns)) = (began_ns, self.schedule.time_ns)
            && now_ns.saturating_sub(began_ns) >= time_ns
        {
            self.orders.publish = Order::Stop;
            self.stop_ns = Some(now_ns);
        }
        if counts.producers_done >= self.schedule.producers {
            self.last_arrival_ns = now_ns;
            self.stage = Stage::Draining {
                since_ns: now_ns,
                complete_ns: None,
            };
            return;
        }
        // Producers that were stopped wait for their answers, but not for ever.
        let patience_ns = self.schedule.drain_ns_max.max(self.schedule.idle_ns_max);
        if self.stop_ns.is_some() && now_ns.saturating_sub(self.last_move_ns) > patience_ns {
            self.stalled = true;
            self.give_up(now_ns);
        }
    }

    fn only_consuming(&mut self, now_ns: u64, counts: &Counts) {
        let began_ns = match self.orders.consume {
            Order::Go { since_ns } => since_ns,
            _ => now_ns,
        };
        let enough = (self.schedule.messages).is_some_and(|messages| counts.consumed >= messages);
        let elapsed_ns = now_ns.saturating_sub(began_ns);
        let over = (self.schedule.time_ns).is_some_and(|time_ns| elapsed_ns >= time_ns);
        if enough || over || self.interrupted {
            self.finish(now_ns, Drain::NotAwaited);
        }
    }

    fn draining(&mut self, now_ns: u64, counts: &Counts, since_ns: u64, complete_ns: Option<u64>) {
        if self.schedule.consumers == 0 {
            return self.finish(now_ns, Drain::NotAwaited);
        }
        if self.interrupted {
            return self.finish(now_ns, Drain::Interrupted);
        }
        if self.arrived(counts) >= self.expected(counts) {
            let complete_ns = complete_ns.unwrap_or(now_ns);
            let listened_ns = now_ns.saturating_sub(complete_ns);
            if !self.schedule.verify || listened_ns >= LATE_DUPLICATE_NS {
                return self.finish(now_ns, Drain::Complete);
            }
            self.stage = Stage::Draining {
                since_ns,
                complete_ns: Some(complete_ns),
            };
            return;
        }
        let consuming_since_ns = match self.orders.consume {
            Order::Go { since_ns } => since_ns,
            // Nobody consumes yet, so nothing can be idle.
            _ => now_ns,
        };
        let quiet_since_ns = self.last_arrival_ns.max(consuming_since_ns);
        if now_ns.saturating_sub(quiet_since_ns) > self.schedule.idle_ns_max {
            return self.finish(now_ns, Drain::Idle);
        }
        let drained_ns = now_ns.saturating_sub(since_ns.max(consuming_since_ns));
        if !self.schedule.verify && drained_ns > self.schedule.drain_ns_max {
            self.finish(now_ns, Drain::CutShort);
        }
    }

    fn finish(&mut self, now_ns: u64, drain: Drain) {
        self.orders.publish = Order::Stop;
        self.orders.consume = Order::Stop;
        self.stage = Stage::Finishing {
            since_ns: now_ns,
            drain,
        };
    }

    fn expected(&self, counts: &Counts) -> u64 {
        let routed = counts
            .published
            .saturating_sub(counts.nacked + counts.returned);
        routed * self.schedule.copies
    }

    fn arrived(&self, counts: &Counts) -> u64 {
        if self.schedule.identified {
            counts.distinct
        } else {
            counts.consumed
        }
    }
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
