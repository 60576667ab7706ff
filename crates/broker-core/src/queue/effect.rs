//! What a queue wants done, and what it is told. Data only.

use super::entry::{ConsumerId, EntryId, HolderId};
use super::past::Past;
use crate::dead_letter::DeathReason;
use crate::names::ConsumerTag;
use crate::time::Timestamp;

/// What the calls of a machine append to. The driver drains it and uses it again.
pub type Effects<C> = Vec<Effect<C>>;

/// A message on its way to a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<C> {
    /// Whose turn it was; none for `basic.get`.
    pub consumer: Option<ConsumerId>,
    /// The channel.
    pub holder: HolderId,
    /// The message.
    pub entry: EntryId,
    /// Where it is.
    pub content: C,
    /// What the length limits count.
    pub bytes: u32,
    /// Counted returns before this delivery: `x-delivery-count`.
    pub delivery_count: u32,
    /// All returns before this delivery: `x-acquired-count`.
    pub acquired_count: u32,
    /// Whether it was handed out before.
    pub redelivered: bool,
    /// The delivery is the message's end: it has left the queue, and no `Forget` follows.
    pub no_ack: bool,
}

/// What `basic.get` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got<C> {
    /// The message.
    pub delivery: Delivery<C>,
    /// Messages that are still ready.
    pub ready_left: u64,
}

/// Something for the driver to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<C> {
    /// Send it.
    Deliver(Delivery<C>),
    /// The message was not taken in: nack its publisher, release its content.
    Refused {
        /// Which.
        id: EntryId,
        /// Its content.
        content: C,
        /// Why.
        why: RefusedBecause,
    },
    /// The message has left the queue: log it, release its content.
    Forget {
        /// Which.
        id: EntryId,
        /// Its content.
        content: C,
        /// Why.
        why: Gone,
    },
    /// The message died and the queue has a dead-letter exchange: publish it there.
    DeadLetter {
        /// Which.
        id: EntryId,
        /// Its content.
        content: C,
        /// Of what it died.
        reason: DeathReason,
        /// Counted returns, to go along.
        delivery_count: u32,
        /// All returns, to go along.
        acquired_count: u32,
        /// At-least-once: the queue keeps the message until `dead_lettered` or
        /// `dead_letter_failed` is called for it. Otherwise it has left the queue.
        kept: bool,
        /// What it went through, if anything is known.
        past: Option<Box<Past>>,
    },
    /// The message died and stays until its dead letter is safe: a durable driver logs it.
    /// `DeadLetter` follows, at once or when its turn comes.
    KeptDead {
        /// Which.
        id: EntryId,
        /// Of what it died.
        reason: DeathReason,
        /// Counted returns.
        delivery_count: u32,
        /// All returns.
        acquired_count: u32,
    },
    /// One consumer has given one message back too often within a minute.
    PoisonLoop {
        /// The message.
        id: EntryId,
        /// The channel.
        holder: HolderId,
        /// Its consumer; none for fetched messages.
        consumer: Option<ConsumerTag>,
        /// So often.
        returns: u32,
    },
    /// The message came back: a durable driver logs the counts.
    Returned {
        /// Which.
        id: EntryId,
        /// Counted returns.
        delivery_count: u32,
        /// All returns.
        acquired_count: u32,
        /// Held back until then.
        until: Option<Timestamp>,
    },
    /// The queue has ended a consumer: tell the client.
    ConsumerCancelled {
        /// Which.
        consumer: ConsumerId,
        /// Of which channel.
        holder: HolderId,
        /// Why.
        why: CancelCause,
    },
    /// Deliveries were not settled in time; they have been returned already.
    TimedOut(TimedOut),
    /// Another consumer, or none, is the single active one.
    ActiveConsumer {
        /// The one.
        consumer: Option<ConsumerId>,
    },
    /// Nobody used the queue for the time that its settings name: delete it.
    QueueExpired,
}

/// Why a new message is not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusedBecause {
    /// The queue is full and refuses.
    Overflow,
    /// The driver gave an id that is not greater than the last.
    IdNotIncreasing,
}

/// Why a message has left its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gone {
    /// A consumer acked it.
    Acked,
    /// A consumer rejected it, and there is no dead-letter exchange.
    Discarded,
    /// Its time was over, and there is no dead-letter exchange.
    Expired,
    /// It made room for others, and there is no dead-letter exchange.
    MaxLength,
    /// It was returned too often, and there is no dead-letter exchange.
    DeliveryLimit,
    /// The queue was purged.
    Purged,
    /// All targets of its dead letter have confirmed.
    DeadLettered,
    /// It waited to be dead-lettered when the queue's settings gave that up.
    DeadLetterDropped,
}

/// How a delivery ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settlement {
    /// Done with it.
    Ack,
    /// Not wanted: dead-letter or drop it.
    Discard(DiscardCause),
    /// Put it back.
    Requeue(ReturnCause),
}

/// Which method discarded a delivery: a reject counts as a failure, a nack does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscardCause {
    /// `basic.nack`.
    Nack,
    /// `basic.reject`.
    Reject,
}

/// Why a delivery comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReturnCause {
    /// `basic.nack` with requeue.
    Nack,
    /// `basic.reject` with requeue.
    Reject,
    /// `basic.recover`.
    Recover,
    /// It was not settled in time.
    Timeout,
    /// Its channel was closed.
    ChannelClosed,
    /// Its connection was closed or lost.
    ConnectionLost,
    /// The node of its connection cannot be reached.
    NodeDown,
}

impl ReturnCause {
    /// Whether RabbitMQ 4.3 calls it a failure of the message.
    // rabbitmq: quorum, delivery counting
    pub fn is_failure(self) -> bool {
        match self {
            ReturnCause::Reject | ReturnCause::ChannelClosed | ReturnCause::ConnectionLost => true,
            ReturnCause::Nack
            | ReturnCause::Recover
            | ReturnCause::Timeout
            | ReturnCause::NodeDown => false,
        }
    }
}

/// Why the queue ended a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelCause {
    /// It kept a delivery for too long.
    Timeout,
}

/// What a late consumer has to expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeoutAction {
    /// The driver closes its channel (406) and detaches the holder. Until then the holder gets
    /// nothing more.
    CloseChannel,
    /// It has been cancelled; `ConsumerCancelled` follows.
    CancelConsumer,
    /// Nothing: only the late deliveries were taken back.
    ReturnOnly,
}

/// Deliveries of one consumer that were not settled in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedOut {
    /// The channel.
    pub holder: HolderId,
    /// The consumer; none for fetched messages or a cancelled consumer.
    pub consumer: Option<ConsumerId>,
    /// Its name, also of one that is cancelled; none for fetched messages.
    pub tag: Option<ConsumerTag>,
    /// The oldest of the late ones.
    pub entry: EntryId,
    /// All that are late, in the order in which they were handed out.
    pub entries: Vec<EntryId>,
    /// How many are late; a longer list comes in several effects of the same action.
    pub overdue: u32,
    /// When the oldest was handed out.
    pub since: Timestamp,
    /// The timeout that applied.
    pub timeout_ms: u64,
    /// What follows.
    pub action: TimeoutAction,
}

/// A use of a queue that may keep it from expiring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// `queue.declare`, passive or not: renews classic queues only.
    Declare,
    /// `basic.get`, also one that finds nothing.
    Get,
}

/// Why a queue does not do what it is asked. The caller knows the queue's name and makes a
/// `Refusal` of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum QueueFault {
    /// A consumer is, or wants to be, the only one.
    #[error("the queue is in exclusive use")]
    ExclusiveUse,
    /// `basic.get` on a quorum queue with a single active consumer.
    #[error("basic.get is not supported on a quorum queue with a single active consumer")]
    SingleActiveConsumerGet,
    /// `CONSUMERS_PER_QUEUE_MAX` is reached.
    #[error("the queue has as many consumers as it can have")]
    TooManyConsumers,
    /// The caller gave an id that a consumer of the queue has.
    #[error("the queue has a consumer of this id")]
    ConsumerExists,
}
