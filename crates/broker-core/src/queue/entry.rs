//! A message as a queue sees it: a number, a size, counts and times. Never its bytes.

use std::borrow::Cow;

use crate::dead_letter::DeathReason;
use crate::time::Timestamp;

/// A message of a queue. The driver gives them, strictly increasing within the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

/// A consumer, unique in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub u64);

/// Who holds deliveries: a channel, whether its consumers got them or it fetched them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u64);

/// A message on its way into a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<C> {
    /// Greater than every id that the queue has seen.
    pub id: EntryId,
    /// Where the message is; the machine only passes it on.
    pub content: C,
    /// What the length limits count: the body in a classic queue, properties and body in a
    /// quorum queue.
    pub bytes: u32,
    /// The property as published.
    pub priority: Option<u8>,
    /// Whether the publisher wants it kept over restarts. Not used by any rule here.
    pub persistent: bool,
    /// When the message's own `expiration` ends. The queue's time to live may shorten it.
    pub expires_at: Option<Timestamp>,
    /// Counted returns so far; dead-lettering into a quorum queue carries them over.
    pub delivery_count: u32,
    /// How often it was handed out and came back; above 0 it is redelivered.
    pub acquired_count: u32,
}

impl<C> Entry<C> {
    /// A fresh persistent message without priority and expiry.
    pub fn new(id: EntryId, content: C, bytes: u32) -> Self {
        Self {
            id,
            content,
            bytes,
            priority: None,
            persistent: true,
            expires_at: None,
            delivery_count: 0,
            acquired_count: 0,
        }
    }
}

/// Where in its queue a live message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// Waits for a consumer.
    Ready,
    /// Handed out at this time, neither acked nor returned.
    Unacked {
        /// By which channel.
        holder: HolderId,
        /// By which of its consumers; none for a fetched one or when the consumer is cancelled.
        consumer: Option<ConsumerId>,
        /// Since when.
        since: Timestamp,
    },
    /// Returned, and held back until then.
    Delayed {
        /// When it is ready again.
        until: Timestamp,
    },
    /// Dead, and kept until the targets of its dead letter have confirmed.
    DeadLettering {
        /// Of what it died.
        reason: DeathReason,
    },
}

/// A live message, to look at.
#[derive(Clone, Debug)]
pub struct EntryView<'a, C: Clone> {
    /// Its number.
    pub id: EntryId,
    /// Where the message is.
    pub content: Cow<'a, C>,
    /// What the length limits count.
    pub bytes: u32,
    /// The level it is delivered at.
    pub priority: u8,
    /// Whether the publisher wants it kept.
    pub persistent: bool,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// Counted returns.
    pub delivery_count: u32,
    /// All returns.
    pub acquired_count: u32,
    /// Where in the queue it is.
    pub state: EntryState,
}
