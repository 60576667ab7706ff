//! What a queue goes by: the one result of its arguments, its policies and the defaults.
//!
//! Values only. How they are merged is `policy`'s knowledge; what follows from them is the
//! queue's.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::names::ExchangeName;

/// The longest time that RabbitMQ takes, in milliseconds: ten years.
// rabbitmq: MAX_EXPIRY_TIMER
pub const TIME_MS_MAX: u64 = 315_360_000_000;

/// RabbitMQ's default for `delivery-limit` of quorum queues.
pub const DELIVERY_LIMIT_DEFAULT: u32 = 20;

/// RabbitMQ's default for `consumer-timeout` of quorum queues, in milliseconds.
pub const CONSUMER_TIMEOUT_DEFAULT_MS: u64 = 1_800_000;

/// RabbitMQ's default for `consumer-disconnected-timeout`, in milliseconds.
pub const CONSUMER_DISCONNECTED_TIMEOUT_DEFAULT_MS: u64 = 60_000;

/// Returns of one message by one consumer within a minute above which it is a poison loop. Below
/// RabbitMQ's delivery limit, so that the loop is told of before the message is gone.
pub const POISON_LOOP_RETURNS_DEFAULT: u32 = 10;

/// The most that a delay grows with one return.
pub const RETRY_MULTIPLIER_MAX: u32 = 1000;

/// The type of a queue.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// One place, durable or not.
    #[default]
    Classic,
    /// A replicated log.
    Quorum,
}

impl QueueKind {
    /// The value of `x-queue-type`.
    pub fn name(self) -> &'static str {
        match self {
            QueueKind::Classic => "classic",
            QueueKind::Quorum => "quorum",
        }
    }

    /// What RabbitMQ's error texts call the type.
    pub fn module_name(self) -> &'static str {
        match self {
            QueueKind::Classic => "rabbit_classic_queue",
            QueueKind::Quorum => "rabbit_quorum_queue",
        }
    }
}

/// What happens when a queue is at one of its length limits, or over its capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The oldest messages make room.
    #[default]
    DropHead,
    /// New messages are refused.
    RejectPublish,
    /// New messages are refused and dead-lettered. Quorum queues drop from the head instead.
    RejectPublishDlx,
    /// Publishers are held; nothing is dropped.
    FlowControl,
    /// Messages go to disk; nobody is held.
    FlowToDisk,
}

impl Overflow {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Overflow::DropHead => "drop-head",
            Overflow::RejectPublish => "reject-publish",
            Overflow::RejectPublishDlx => "reject-publish-dlx",
            Overflow::FlowControl => "flow-control",
            Overflow::FlowToDisk => "flow-to-disk",
        }
    }

    /// The mode of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "drop-head" => Overflow::DropHead,
            "reject-publish" => Overflow::RejectPublish,
            "reject-publish-dlx" => Overflow::RejectPublishDlx,
            "flow-control" => Overflow::FlowControl,
            "flow-to-disk" => Overflow::FlowToDisk,
            _ => return None,
        })
    }
}

/// How sure dead-lettering is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadLetterStrategy {
    /// Published once, without waiting.
    #[default]
    AtMostOnce,
    /// Kept until the targets have confirmed.
    AtLeastOnce,
}

impl DeadLetterStrategy {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            DeadLetterStrategy::AtMostOnce => "at-most-once",
            DeadLetterStrategy::AtLeastOnce => "at-least-once",
        }
    }

    /// The strategy of this word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "at-most-once" => Some(DeadLetterStrategy::AtMostOnce),
            "at-least-once" => Some(DeadLetterStrategy::AtLeastOnce),
            _ => None,
        }
    }
}

/// What counts towards the delivery limit, and shows in `x-delivery-count`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryLimitCounts {
    /// Every return.
    #[default]
    Returns,
    /// Rejects and lost consumers only, as RabbitMQ 4.3 counts.
    Failures,
}

impl DeliveryLimitCounts {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            DeliveryLimitCounts::Returns => "returns",
            DeliveryLimitCounts::Failures => "failures",
        }
    }

    /// The rule of this word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "returns" => Some(DeliveryLimitCounts::Returns),
            "failures" => Some(DeliveryLimitCounts::Failures),
            _ => None,
        }
    }
}

/// What happens to a consumer that keeps a delivery for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsumerTimeoutAction {
    /// Its channel is closed.
    #[default]
    Close,
    /// It is cancelled, as RabbitMQ 4.3 does.
    Cancel,
    /// Only the late delivery is taken back.
    Return,
}

impl ConsumerTimeoutAction {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            ConsumerTimeoutAction::Close => "close",
            ConsumerTimeoutAction::Cancel => "cancel",
            ConsumerTimeoutAction::Return => "return",
        }
    }

    /// The action of this word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "close" => Some(ConsumerTimeoutAction::Close),
            "cancel" => Some(ConsumerTimeoutAction::Cancel),
            "return" => Some(ConsumerTimeoutAction::Return),
            _ => None,
        }
    }
}

/// Which returns are held back before they are delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DelayedRetryKind {
    /// All.
    All,
    /// Those that raise the delivery count.
    Failed,
    /// Those that do not.
    Returned,
}

impl DelayedRetryKind {
    /// The kind of this word; `disabled` and others are none.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "all" => Some(DelayedRetryKind::All),
            "failed" => Some(DelayedRetryKind::Failed),
            "returned" => Some(DelayedRetryKind::Returned),
            _ => None,
        }
    }

    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            DelayedRetryKind::All => "all",
            DelayedRetryKind::Failed => "failed",
            DelayedRetryKind::Returned => "returned",
        }
    }
}

/// Returns wait before they are delivered again. Without a multiplier the delay grows linearly,
/// `min_ms × n` for the n-th counted return; with one it is `min_ms × multiplier^(n - 1)`. It is
/// never longer than `max_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DelayedRetry {
    /// Which returns wait.
    pub kind: DelayedRetryKind,
    /// The delay of the first return; at least 1.
    pub min_ms: u64,
    /// The longest delay. May be below `min_ms`: then every delay is this.
    pub max_ms: u64,
    /// By how much the delay grows with each return, in thousandths; none grows linearly.
    #[serde(default)]
    pub multiplier_permille: Option<u32>,
    /// By up to how much of itself each delay is shortened, in percent, so that what failed
    /// together does not come back together.
    #[serde(default)]
    pub jitter_percent: u8,
}

/// Where the leader of a quorum queue begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaderLocator {
    /// On the node that the declaring client is connected to.
    #[default]
    ClientLocal,
    /// On the node with the fewest leaders.
    Balanced,
}

impl LeaderLocator {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            LeaderLocator::ClientLocal => "client-local",
            LeaderLocator::Balanced => "balanced",
        }
    }

    /// The locator of this word; the old words mean balanced.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "client-local" => Some(LeaderLocator::ClientLocal),
            "balanced" | "random" | "least-leaders" | "min-masters" => {
                Some(LeaderLocator::Balanced)
            }
            _ => None,
        }
    }
}

/// Everything that a queue goes by. `None` is "no limit" throughout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueSettings {
    /// Longest life of a message; 0 expires what no consumer takes at once.
    pub message_ttl_ms: Option<u64>,
    /// Life of the unused queue; at least 1.
    pub expires_ms: Option<u64>,
    /// Most messages.
    pub max_length: Option<u64>,
    /// Most bytes of messages.
    pub max_length_bytes: Option<u64>,
    /// What happens at the limit.
    pub overflow: Overflow,
    /// Where dead messages go; the empty name is the default exchange.
    pub dead_letter_exchange: Option<ExchangeName>,
    /// With which key they go there; none keeps the message's own keys.
    pub dead_letter_routing_key: Option<Arc<str>>,
    /// How surely.
    pub dead_letter_strategy: DeadLetterStrategy,
    /// Highest priority of a classic queue that has priorities. Quorum queues always have 32 levels.
    pub max_priority: Option<u8>,
    /// One consumer at a time.
    pub single_active_consumer: bool,
    /// Most counted returns of a message; one more removes it.
    pub delivery_limit: Option<u32>,
    /// What counts.
    pub delivery_limit_counts: DeliveryLimitCounts,
    /// Longest time a delivery may stay unacknowledged.
    pub consumer_timeout_ms: Option<u64>,
    /// What happens after it.
    pub consumer_timeout_action: ConsumerTimeoutAction,
    /// How long deliveries of consumers on an unreachable node stay with them; 0 returns at once.
    pub consumer_disconnected_timeout_ms: u64,
    /// Whether returns wait.
    pub delayed_retry: Option<DelayedRetry>,
    /// Messages expire wherever they are in the queue; else at its head only.
    pub expire_anywhere: bool,
    /// Returns of one message by one consumer within a minute above which it is reported as a
    /// poison loop; none does not watch.
    pub poison_loop_returns: Option<u32>,
    /// Where the leader begins.
    pub leader_locator: LeaderLocator,
    /// Members wanted at declaration.
    pub initial_group_size: Option<u32>,
    /// Members wanted later.
    pub target_group_size: Option<u32>,
    /// Logical bytes (ready and unacked) above which the queue is overfull.
    pub capacity_bytes: Option<u64>,
    /// Logical bytes at or below which it is underfull again; none is `capacity_bytes`.
    pub flow_resume_capacity_bytes: Option<u64>,
    /// Messages (ready and unacked) above which the queue is overfull.
    pub capacity_messages: Option<u64>,
    /// Messages at or below which it is underfull again; none is 80 % of `capacity_messages`.
    pub flow_resume_messages: Option<u64>,
    /// Longest time that a message waits for an overfull queue; none is the node's.
    pub hold_timeout_ms: Option<u64>,
    /// Resident bytes of the queue's part of the memory tree.
    pub memory_limit_bytes: Option<u64>,
    /// The part of it in percent above which messages leave memory for the disk; none is 70.
    pub memory_high_water_percent: Option<u64>,
}

/// The node's word on quorum queues, where neither argument nor policy says anything.
/// The shell reads it from the operator's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumDefaults {
    /// Most counted returns; `None` is unlimited.
    pub delivery_limit: Option<u32>,
    /// What counts.
    pub delivery_limit_counts: DeliveryLimitCounts,
    /// Longest unacknowledged time; `None` is unlimited.
    pub consumer_timeout_ms: Option<u64>,
    /// What happens after it.
    pub consumer_timeout_action: ConsumerTimeoutAction,
    /// How surely dead letters travel.
    #[serde(default)]
    pub dead_letter_strategy: DeadLetterStrategy,
    /// Whether returns wait.
    #[serde(default)]
    pub delayed_retry: Option<DelayedRetry>,
    /// Whether messages expire wherever they are in the queue.
    #[serde(default)]
    pub expire_anywhere: bool,
    /// Returns of one message by one consumer within a minute above which it is reported, also in
    /// classic queues; `None` does not watch.
    #[serde(default = "poison_loop_returns_default")]
    pub poison_loop_returns: Option<u32>,
}

fn poison_loop_returns_default() -> Option<u32> {
    Some(POISON_LOOP_RETURNS_DEFAULT)
}

impl Default for QuorumDefaults {
    fn default() -> Self {
        Self {
            delivery_limit: Some(DELIVERY_LIMIT_DEFAULT),
            delivery_limit_counts: DeliveryLimitCounts::default(),
            consumer_timeout_ms: Some(CONSUMER_TIMEOUT_DEFAULT_MS),
            consumer_timeout_action: ConsumerTimeoutAction::default(),
            dead_letter_strategy: DeadLetterStrategy::default(),
            delayed_retry: None,
            expire_anywhere: false,
            poison_loop_returns: poison_loop_returns_default(),
        }
    }
}

impl QueueSettings {
    /// What a queue of this kind goes by without arguments and policies. Classic queues have no
    /// consumer timeout and no delivery limit of their own, but the node's action for one that a
    /// policy names.
    pub fn of_kind(kind: QueueKind, defaults: &QuorumDefaults) -> Self {
        let shared = Self {
            consumer_timeout_action: defaults.consumer_timeout_action,
            delivery_limit_counts: defaults.delivery_limit_counts,
            consumer_disconnected_timeout_ms: CONSUMER_DISCONNECTED_TIMEOUT_DEFAULT_MS,
            poison_loop_returns: defaults.poison_loop_returns,
            ..Self::default()
        };
        match kind {
            QueueKind::Classic => shared,
            QueueKind::Quorum => Self {
                delivery_limit: defaults.delivery_limit,
                consumer_timeout_ms: defaults.consumer_timeout_ms,
                dead_letter_strategy: defaults.dead_letter_strategy,
                delayed_retry: defaults.delayed_retry,
                expire_anywhere: defaults.expire_anywhere,
                ..shared
            },
        }
    }
}

/// Where an effective value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The queue's own arguments.
    Argument,
    /// The node's settings, or the rule book.
    Default,
    /// The operator policy of this name.
    OperatorPolicy(Arc<str>),
    /// The policy of this name.
    Policy(Arc<str>),
    /// The defaults of the vhost.
    VhostDefault,
}
