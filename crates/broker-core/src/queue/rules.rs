//! A queue's settings as its machine applies them: small, without names, with the differences
//! between the queue types resolved.

use crate::settings::{
    ConsumerTimeoutAction, DeadLetterStrategy, DelayedRetry, DelayedRetryKind, DeliveryLimitCounts,
    Overflow, QueueKind, QueueSettings,
};
use crate::time::{Millis, Timestamp};

use super::effect::{DiscardCause, ReturnCause};
use super::entry::EntryId;
use super::leases::NO_LIMIT;
use super::{QUORUM_PRIORITY_DEFAULT, QUORUM_PRIORITY_MAX};

/// What happens at a length limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtLimit {
    /// Heads are dropped.
    DropHead,
    /// New messages are refused; the flag says whether they are dead-lettered too.
    Refuse { dead_letter: bool },
    /// Nothing here: the driver holds publishers or moves bytes to disk.
    Nothing,
}

/// What happens to the messages that die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDeath {
    Drop,
    PublishOnce,
    KeepUntilConfirmed,
}

#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) kind: QueueKind,
    pub(super) at_limit: AtLimit,
    pub(super) on_death: OnDeath,
    pub(super) single_active: bool,
    pub(super) timeout_action: ConsumerTimeoutAction,
    counts: DeliveryLimitCounts,
    priority_max: u8,
    pub(super) max_length: u64,
    pub(super) max_bytes: u64,
    ttl_ms: Option<u64>,
    pub(super) expires_ms: Option<u64>,
    pub(super) delivery_limit: Option<u32>,
    pub(super) expire_anywhere: bool,
    pub(super) poison_loop_returns: Option<u32>,
    consumer_timeout_ms: Option<u64>,
    retry: Option<DelayedRetry>,
}

impl Rules {
    pub(super) fn new(kind: QueueKind, settings: &QueueSettings) -> Self {
        let at_limit = match (settings.overflow, kind) {
            (Overflow::DropHead, _) | (Overflow::RejectPublishDlx, QueueKind::Quorum) => {
                AtLimit::DropHead
            }
            (Overflow::RejectPublish, _) => AtLimit::Refuse { dead_letter: false },
            (Overflow::RejectPublishDlx, QueueKind::Classic) => {
                AtLimit::Refuse { dead_letter: true }
            }
            (Overflow::FlowControl | Overflow::FlowToDisk, _) => AtLimit::Nothing,
        };
        let on_death = match (
            &settings.dead_letter_exchange,
            settings.dead_letter_strategy,
        ) {
            (None, _) => OnDeath::Drop,
            (Some(_), DeadLetterStrategy::AtMostOnce) => OnDeath::PublishOnce,
            (Some(_), DeadLetterStrategy::AtLeastOnce) => OnDeath::KeepUntilConfirmed,
        };
        Self {
            kind,
            at_limit,
            on_death,
            single_active: settings.single_active_consumer,
            timeout_action: settings.consumer_timeout_action,
            counts: settings.delivery_limit_counts,
            priority_max: match kind {
                QueueKind::Classic => settings.max_priority.unwrap_or(0),
                QueueKind::Quorum => QUORUM_PRIORITY_MAX,
            },
            max_length: settings.max_length.unwrap_or(u64::MAX),
            max_bytes: settings.max_length_bytes.unwrap_or(u64::MAX),
            ttl_ms: settings.message_ttl_ms,
            expires_ms: settings.expires_ms,
            delivery_limit: settings.delivery_limit,
            expire_anywhere: settings.expire_anywhere,
            poison_loop_returns: settings.poison_loop_returns,
            consumer_timeout_ms: settings.consumer_timeout_ms,
            retry: settings.delayed_retry,
        }
    }

    /// How long a consumer with this timeout of its own may keep a delivery; `NO_LIMIT` is for
    /// ever. A timeout of 0 ends in the next millisecond: in the same one a delivery could be
    /// late, handed out and late again without end.
    // rabbitmq: quorum, consumer timeout
    pub(super) fn timeout_of(&self, own: Option<u64>) -> u64 {
        own.or(self.consumer_timeout_ms)
            .map_or(NO_LIMIT, |timeout_ms| timeout_ms.max(1))
    }

    /// Whether there is any length limit.
    pub(super) fn is_limited(&self) -> bool {
        (self.max_length & self.max_bytes) != u64::MAX
    }

    /// The level of a message with this priority property.
    // rabbitmq: queues, priorities
    pub(super) fn level(&self, priority: Option<u8>) -> u8 {
        let unset = match self.kind {
            QueueKind::Classic => 0,
            QueueKind::Quorum => QUORUM_PRIORITY_DEFAULT,
        };
        priority.unwrap_or(unset).min(self.priority_max)
    }

    /// When a message ends that arrives at `now` and has this end of its own.
    ///
    /// A time to live of 0 ends one millisecond later: until then a consumer that is ready may
    /// take it, as in RabbitMQ.
    // rabbitmq: queues, ttl and expiry
    pub(super) fn expiry(&self, now: Timestamp, own: Option<Timestamp>) -> Option<Timestamp> {
        let by_queue = self
            .ttl_ms
            .map(|ttl_ms| Timestamp(now.0.saturating_add(ttl_ms)));
        let earliest = match (own, by_queue) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        earliest.map(|at| at.max(Timestamp(now.0.saturating_add(1))))
    }

    /// Whether a return for this cause raises the delivery count.
    // rabbitmq: quorum, delivery counting
    pub(super) fn counts(&self, cause: ReturnCause) -> bool {
        match self.counts {
            DeliveryLimitCounts::Returns => true,
            DeliveryLimitCounts::Failures => cause.is_failure(),
        }
    }

    /// Whether a discarded delivery counts as acquired: always, but a nack does not where
    /// RabbitMQ's counting is wanted.
    // rabbitmq: quorum, delivery counting
    pub(super) fn acquires(&self, cause: DiscardCause) -> bool {
        self.counts == DeliveryLimitCounts::Returns || cause == DiscardCause::Reject
    }

    pub(super) fn over_delivery_limit(&self, delivery_count: u32) -> bool {
        self.delivery_limit
            .is_some_and(|limit| delivery_count > limit)
    }

    /// Until when a return for this cause is held back. Which causes are failures does not
    /// depend on what counts towards the limit.
    // rabbitmq: quorum, delayed retry
    pub(super) fn retry_at(
        &self,
        now: Timestamp,
        cause: ReturnCause,
        delivery_count: u32,
        id: EntryId,
    ) -> Option<Timestamp> {
        let retry = self.retry?;
        let waits = match retry.kind {
            DelayedRetryKind::All => true,
            DelayedRetryKind::Failed => cause.is_failure(),
            DelayedRetryKind::Returned => !cause.is_failure(),
        };
        if !waits {
            return None;
        }
        Some(now + Millis(retry_delay_ms(retry, delivery_count.max(1), id)))
    }
}

/// The delay of the `nth` counted return of a message. Chance comes from the message's number and
/// the count, so that every member of a group and every replay gets the same.
fn retry_delay_ms(retry: DelayedRetry, nth: u32, id: EntryId) -> u64 {
    let grown_ms = match retry.multiplier_permille {
        None => retry.min_ms.saturating_mul(u64::from(nth)),
        Some(permille) => {
            let factor = f64::from(permille) / 1000.0;
            // A cast of what is too large saturates.
            (retry.min_ms as f64 * factor.powi(i32::try_from(nth - 1).unwrap_or(i32::MAX))) as u64
        }
    };
    let delay_ms = grown_ms.min(retry.max_ms);
    let most_off = u128::from(delay_ms) * u128::from(retry.jitter_percent.min(100)) / 100;
    let chance = u128::from(mixed(id.0 ^ u64::from(nth) << 48) >> 32);
    delay_ms - ((most_off * chance) >> 32) as u64
}

/// A number that looks random: the finaliser of SplitMix64.
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(multiplier_permille: Option<u32>, jitter_percent: u8) -> DelayedRetry {
        DelayedRetry {
            kind: DelayedRetryKind::All,
            min_ms: 100,
            max_ms: 1000,
            multiplier_permille,
            jitter_percent,
        }
    }

    #[test]
    fn delays_grow_linearly_or_by_the_multiplier_up_to_the_longest() {
        let delays =
            |retry| [1, 2, 3, 4, 5, u32::MAX].map(|n| retry_delay_ms(retry, n, EntryId(7)));
        assert_eq!(delays(retry(None, 0)), [100, 200, 300, 400, 500, 1000]);
        let doubled = retry(Some(2000), 0);
        assert_eq!(delays(doubled), [100, 200, 400, 800, 1000, 1000]);
        let constant = retry(Some(1000), 0);
        assert_eq!(delays(constant), [100; 6]);
        let by_half = retry(Some(1500), 0);
        assert_eq!(delays(by_half), [100, 150, 225, 337, 506, 1000]);
    }

    #[test]
    fn jitter_shortens_each_delay_by_up_to_its_share_and_repeats_itself() {
        let jittered = retry(None, 50);
        let delays: Vec<u64> = (0..1000)
            .map(|id| retry_delay_ms(jittered, 2, EntryId(id)))
            .collect();
        assert!(delays.iter().all(|delay_ms| (100..=200).contains(delay_ms)));
        let early = delays.iter().filter(|delay_ms| **delay_ms < 150).count();
        assert!((400..600).contains(&early), "{early} of 1000 in one half");
        let again = (0..1000).map(|id| retry_delay_ms(jittered, 2, EntryId(id)));
        assert!(again.eq(delays.iter().copied()));
    }
}
