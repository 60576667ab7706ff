//! Length limits: what is refused and what is dropped. They are exact in every queue type.
//!
//! A message that a consumer can take at once is no overflow: RabbitMQ counts after it has
//! handed out. Callers enqueue whole batches before they dispatch, so heads are handed out here
//! before one is dropped or refused.

use super::WORK_PER_CALL_MAX;
use super::dispatch::Step;
use super::effect::Effects;
use super::entry::{ConsumerId, HolderId};
use super::handle::Handle;
use super::machine::QueueMachine;
use super::rules::{AtLimit, OnDeath};
use crate::dead_letter::DeathReason;
use crate::settings::QueueKind;
use crate::time::Timestamp;

/// Whether a new message comes in.
pub(super) enum Admission {
    Taken,
    Refused { dead_letter: bool },
}

impl<C: Handle> QueueMachine<C> {
    /// Whether the queue would refuse a message of this size, as far as that can be told without
    /// handing out what is ready.
    pub fn would_refuse(&self, bytes: u32) -> bool {
        match self.rules.at_limit {
            AtLimit::DropHead | AtLimit::Nothing => false,
            AtLimit::Refuse { .. } => self.is_over(1, u64::from(bytes)),
        }
    }

    pub(super) fn has_dead_letter_exchange(&self) -> bool {
        self.rules.on_death != OnDeath::Drop
    }

    pub(super) fn admit(
        &mut self,
        now: Timestamp,
        bytes: u32,
        out: &mut Effects<C>,
        may_take: &mut impl FnMut(ConsumerId, HolderId) -> bool,
    ) -> Admission {
        let AtLimit::Refuse { dead_letter } = self.rules.at_limit else {
            return Admission::Taken;
        };
        while self.would_refuse(bytes) {
            match self.step(now, out, may_take) {
                Step::Delivered { .. } | Step::Expired => {}
                Step::NoCredit | Step::Empty => return Admission::Refused { dead_letter },
            }
        }
        Admission::Taken
    }

    #[inline]
    pub(super) fn after_enqueue(
        &mut self,
        now: Timestamp,
        out: &mut Effects<C>,
        may_take: &mut impl FnMut(ConsumerId, HolderId) -> bool,
    ) {
        if self.rules.is_limited() {
            self.enforce_limits(now, out, may_take);
        }
    }

    /// Drops heads until the queue is within its limits, if that is its way.
    pub(super) fn enforce_limits(
        &mut self,
        now: Timestamp,
        out: &mut Effects<C>,
        may_take: &mut impl FnMut(ConsumerId, HolderId) -> bool,
    ) {
        self.trimming = false;
        if self.rules.at_limit != AtLimit::DropHead {
            return;
        }
        let mut work = WORK_PER_CALL_MAX;
        while self.is_over(0, 0) {
            if work == 0 {
                self.trimming = true;
                return;
            }
            work -= 1;
            match self.step(now, out, may_take) {
                Step::Delivered { .. } | Step::Expired => {}
                Step::NoCredit => {
                    let Some(head) = self.ready.head() else {
                        return;
                    };
                    self.die(head.place, DeathReason::MaxLength, out);
                }
                Step::Empty => return,
            }
        }
    }

    /// Whether so much more would be too much.
    // rabbitmq: queues, what counts towards the limits
    fn is_over(&self, more: u64, more_bytes: u64) -> bool {
        let (messages, bytes) = self.counted();
        messages + more > self.rules.max_length
            || bytes.saturating_add(more_bytes) > self.rules.max_bytes
    }

    /// What counts towards the limits. Dead letters of a queue that drops heads do not: they
    /// were dropped for the sake of the limit.
    fn counted(&self) -> (u64, u64) {
        let ready = self.amounts.ready;
        match self.rules.kind {
            QueueKind::Classic => (ready.messages, ready.bytes),
            QueueKind::Quorum => {
                let (delayed, dead) = (self.amounts.delayed, self.amounts.dead);
                let dead = match self.rules.at_limit {
                    AtLimit::DropHead => (0, 0),
                    AtLimit::Refuse { .. } | AtLimit::Nothing => (dead.messages, dead.bytes),
                };
                (
                    ready.messages + delayed.messages + dead.0,
                    ready.bytes + delayed.bytes + dead.1,
                )
            }
        }
    }
}
