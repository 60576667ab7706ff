//! The way out of the broker towards one connection.
//!
//! The broker decides what leaves and in which order; whoever implements [`Outbox`] turns it into
//! bytes. Nothing here knows frames or sockets.

use bytes::Bytes;

/// Bytes waiting in an outbox above which no more deliveries are dispatched to its connection.
pub const OUTBOX_MARK: usize = 1 << 20;

/// A message as it leaves: slices of the record it lives in.
#[derive(Clone, Copy, Debug)]
pub struct MessageView<'a> {
    /// Exchange of the original publish.
    pub exchange: &'a str,
    /// Routing key of the original publish.
    pub routing_key: &'a str,
    /// Raw property block: flag words and fields, as they came in.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// What `body` lies in, so that large bodies can be referenced instead of copied.
    pub owner: &'a Bytes,
}

/// One thing that leaves on a channel.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing<'a> {
    /// A delivery to a consumer.
    Deliver {
        /// The consumer's tag.
        consumer_tag: &'a str,
        /// Number of the delivery on its channel.
        delivery_tag: u64,
        /// Whether it was handed out before.
        redelivered: bool,
        /// The message.
        message: MessageView<'a>,
    },
    /// Publishes up to or at `delivery_tag` are safe.
    Ack {
        /// Publish number.
        delivery_tag: u64,
        /// All outstanding ones up to this number.
        multiple: bool,
    },
    /// Publishes up to or at `delivery_tag` were refused.
    Nack {
        /// Publish number.
        delivery_tag: u64,
        /// All outstanding ones up to this number.
        multiple: bool,
    },
    /// A mandatory publish that found no queue.
    Return {
        /// The message as published.
        message: MessageView<'a>,
    },
    /// A mandatory publish that a queue refused: it is full, and the message could not wait.
    ReturnFull {
        /// The message as published.
        message: MessageView<'a>,
        /// The queue's name.
        queue: &'a str,
    },
    /// A commit that had to wait for a queue is done.
    CommitOk,
    /// The consumer is gone without having asked for it.
    CancelConsumer {
        /// The consumer's tag.
        consumer_tag: &'a str,
    },
}

/// What has left on a connection since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Octets written.
    pub octets: u64,
    /// Writes.
    pub writes: u64,
    /// Octets that wait to be written.
    pub pending_octets: u64,
}

/// A connection's write side.
pub trait Outbox: Send + Sync {
    /// Appends in order; never waits. Answers the bytes that wait to be written afterwards.
    fn push(&self, channel: u16, out: &[Outgoing<'_>]) -> usize;

    /// What has left; nothing where nobody counts.
    fn sent(&self) -> Sent {
        Sent::default()
    }
}
