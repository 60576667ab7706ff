//! What two nodes say to each other about the queues of one and the clients of the other.
//!
//! One enum, one version octet. Numbers of holders and consumers are unique in the cluster: they carry
//! their node's.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;

/// A consumer on its way to its queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WireConsumer {
    pub(super) id: u64,
    pub(super) prefetch: u16,
    pub(super) priority: i64,
    pub(super) exclusive: bool,
    pub(super) no_ack: bool,
    pub(super) timeout_ms: Option<u64>,
    pub(super) cancel_notify: bool,
    pub(super) paused: u8,
}

/// How deliveries end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WireSettlement {
    Ack,
    Requeue(WireCause),
    Discard { nack: bool },
}

/// Why deliveries go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WireCause {
    Nack,
    Reject,
    Recover,
    ChannelClosed,
    ConnectionLost,
    Timeout,
}

/// A delivery as it leaves its queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WireMessage {
    pub(super) exchange: String,
    pub(super) routing_key: String,
    pub(super) properties: Bytes,
    pub(super) body: Bytes,
}

/// Why a queue does not take a consumer or give a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WireFault {
    ExclusiveUse,
    SingleActiveConsumerGet,
    TooManyConsumers,
    ConsumerExists,
    /// The node does not lead the queue, or does not know it.
    NotHere,
}

/// What a call answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Answer {
    Attached,
    Counts {
        ready: u64,
        consumers: u64,
    },
    Purged {
        messages: u64,
    },
    Empty,
    Got {
        entry: u64,
        redelivered: bool,
        ready_left: u64,
        message: WireMessage,
    },
    Fault(WireFault),
    /// Where the node's own copy of the queue stands.
    Copy {
        term: u64,
        last_index: u64,
        applied_index: u64,
        saved_index: u64,
        messages: u64,
        votes: bool,
    },
}

/// What is asked of the node that decides in a queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Call {
    /// Adds a consumer; `held` are deliveries that it has in hand already.
    Attach {
        holder: u64,
        channel: u16,
        consumer: WireConsumer,
        held: Vec<u64>,
    },
    Counts,
    Purge,
    Get {
        holder: u64,
        no_ack: bool,
    },
    /// Asked of any member.
    Copy,
}

/// A message between nodes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Wire {
    Call {
        number: u64,
        queue: u64,
        call: Call,
    },
    Answered {
        number: u64,
        answer: Answer,
    },
    Cancel {
        queue: u64,
        consumer: u64,
    },
    Settle {
        queue: u64,
        holder: u64,
        entries: Vec<u64>,
        how: WireSettlement,
    },
    Detach {
        queue: u64,
        holder: u64,
        cause: WireCause,
    },
    Pause {
        queue: u64,
        consumer: u64,
        why: u8,
    },
    Resume {
        queue: u64,
        consumer: u64,
        why: u8,
    },
    /// To the consumer's node.
    Deliver {
        consumer: u64,
        entry: u64,
        redelivered: bool,
        message: WireMessage,
    },
    /// To the consumer's node: the queue has ended it.
    Cancelled {
        consumer: u64,
    },
    /// To the channel's node: a delivery was not acknowledged in time.
    TimedOut {
        holder: u64,
        timeout_ms: u64,
    },
    /// To the node of clients: what it has attached here is void.
    Renew,
    /// A batch for queues that live on the node.
    Publish {
        number: u64,
        batch: Bytes,
    },
    /// What became of it: the places of the messages that were refused.
    Published {
        number: u64,
        refused: Vec<u32>,
    },
    /// Leaders should be spread evenly, now.
    Rebalance,
}

pub(super) fn write(message: &Wire) -> Option<Vec<u8>> {
    match postcard::to_extend(message, vec![VERSION]) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            tracing::error!(%error, "a message to another node cannot be written");
            None
        }
    }
}

pub(super) fn read(bytes: &[u8]) -> Option<Wire> {
    let (&version, rest) = bytes.split_first()?;
    if version != VERSION {
        return None;
    }
    postcard::from_bytes(rest).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_went_and_others_are_none() {
        let settle = Wire::Settle {
            queue: 7,
            holder: 1 << 50,
            entries: vec![1, 2, 3],
            how: WireSettlement::Requeue(WireCause::Nack),
        };
        let bytes = write(&settle).unwrap();
        assert!(matches!(
            read(&bytes),
            Some(Wire::Settle { queue: 7, entries, .. }) if entries == [1, 2, 3]
        ));
        assert!(read(&[]).is_none());
        assert!(read(&[9, 0, 0]).is_none());
    }
}
