//! Direct reply-to: requesters that consume from a pseudo-queue, and the replies that reach them
//! without any queue.
//!
//! Replies never wait and are never stored. Nobody is told about one that comes too late.
// rabbitmq docs: direct reply-to

use std::sync::Arc;

use broker_core::{ConsumerTag, QueueName};
use bytes::Bytes;
use dashmap::DashMap;

use crate::firehose::{self, TraceCopy};
use crate::holder::Holder;
use crate::node::Node;
use crate::outbox::{MessageView, Outgoing};
use crate::record::NewMessage;
use crate::server_name;

/// The pseudo-queue that requesters consume from, and write into `reply_to`.
pub(crate) const REPLY_QUEUE: &str = "amq.rabbitmq.reply-to";

/// What the generated names begin with.
const REPLY_PREFIX: &str = "amq.rabbitmq.reply-to.";

/// Requesters by the name that replies are published to. Bounded by one entry a channel.
#[derive(Default)]
pub(crate) struct Replies {
    requesters: DashMap<Box<str>, Requester>,
}

struct Requester {
    holder: Arc<Holder>,
    consumer_tag: ConsumerTag,
}

/// How a name relates to direct replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyName {
    /// The pseudo-queue itself.
    Queue,
    /// A generated name.
    Requester,
}

impl ReplyName {
    /// `None` for the name of an ordinary queue.
    pub(crate) fn of(queue: &str) -> Option<Self> {
        if queue == REPLY_QUEUE {
            return Some(Self::Queue);
        }
        queue.starts_with(REPLY_PREFIX).then_some(Self::Requester)
    }
}

impl Replies {
    /// A channel wants replies; answers the name that they are published to.
    pub(crate) fn open(&self, holder: &Arc<Holder>, consumer_tag: &ConsumerTag) -> QueueName {
        let name = QueueName::new(format!("{REPLY_PREFIX}{}", server_name::suffix()));
        let requester = Requester {
            holder: holder.clone(),
            consumer_tag: consumer_tag.clone(),
        };
        self.requesters.insert(name.as_str().into(), requester);
        name
    }

    pub(crate) fn close(&self, name: &QueueName) {
        self.requesters.remove(name.as_str());
    }

    pub(crate) fn is_open(&self, name: &str) -> bool {
        self.requesters.contains_key(name)
    }

    /// Hands a reply to its requester, if that is still there.
    pub(crate) fn deliver(&self, node: &Node, reply: &NewMessage<'_>) {
        let Some((holder, consumer_tag)) = self.requester(reply.routing_key) else {
            return;
        };
        let owner = Bytes::copy_from_slice(reply.body);
        let message = MessageView {
            exchange: reply.exchange,
            routing_key: reply.routing_key,
            properties: reply.properties,
            body: &owner,
            owner: &owner,
        };
        let mut deliveries = holder.deliveries.lock();
        if !deliveries.open {
            return;
        }
        let deliver = Outgoing::Deliver {
            consumer_tag: consumer_tag.as_str(),
            delivery_tag: deliveries.unacked.pass().0,
            redelivered: false,
            message,
        };
        let options = &holder.session.options;
        options.outbox.push(holder.number, &[deliver]);
        drop(deliveries);
        if node.firehose.runs_in(&options.vhost) {
            let queue = reply.routing_key;
            let copy = TraceCopy::delivered(node, &holder, &message, queue, false);
            firehose::publish(node, &options.vhost, copy);
        }
    }

    fn requester(&self, name: &str) -> Option<(Arc<Holder>, ConsumerTag)> {
        let requester = self.requesters.get(name)?;
        Some((requester.holder.clone(), requester.consumer_tag.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_names_are_told_from_ordinary_ones() {
        assert_eq!(
            ReplyName::of("amq.rabbitmq.reply-to"),
            Some(ReplyName::Queue)
        );
        assert_eq!(
            ReplyName::of("amq.rabbitmq.reply-to.xyz"),
            Some(ReplyName::Requester)
        );
        assert_eq!(ReplyName::of("amq.rabbitmq.reply"), None);
        assert_eq!(ReplyName::of("orders"), None);
    }
}
