//! Publishing: the hot path from a client's message to its queues.

use std::sync::Arc;

use amqp::{Properties, PropertiesBuilder};
use broker_core::channel::ChannelMode;
use broker_core::{Refusal, expiration};

use super::Channel;
use crate::clock;
use crate::origin::{CommitReceipt, Origin};
use crate::outbox::{MessageView, Outgoing};
use crate::record::{EntryMeta, NewMessage};
use crate::replies::{REPLY_QUEUE, ReplyName};
use crate::route::Route;

/// A message as a client publishes it.
#[derive(Clone, Copy, Debug)]
pub struct Publish<'a> {
    /// Target exchange; empty for the default one.
    pub exchange: &'a str,
    /// Routing key.
    pub routing_key: &'a str,
    /// Return it when no queue takes it.
    pub mandatory: bool,
    /// Refused: not implemented.
    pub immediate: bool,
    /// Raw property block, validated.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl Channel {
    /// `basic.publish`. The message is on its way when this returns; a confirm tells when it is
    /// safe.
    ///
    /// # Errors
    /// The exchange is missing, internal or closed to the user, or a property is not acceptable.
    pub fn publish(&mut self, publish: Publish<'_>) -> Result<(), Refusal> {
        if publish.immediate {
            return Err(Refusal::ImmediateNotSupported);
        }
        let prepared = self.prepare(&publish)?;
        if self.mode == ChannelMode::Tx {
            return self.hold(&publish, prepared);
        }
        self.send(&publish, &prepared, None);
        Ok(())
    }

    /// Checks a publish and finds its route.
    fn prepare(&mut self, publish: &Publish<'_>) -> Result<Prepared, Refusal> {
        let properties = Properties::trusted(publish.properties);
        self.access.check_publish(
            &self.node,
            publish.exchange,
            publish.routing_key,
            properties,
        )?;
        let scan = properties.scan();
        if let Some(claimed) = scan.user_id {
            self.access.check_user_id(&self.node, claimed)?;
        }
        let wants_replies = self.check_reply_to(scan.reply_to)?;
        let expiration = scan.expiration.map(expiration::parse).transpose()?;
        if publish.exchange.is_empty()
            && ReplyName::of(publish.routing_key) == Some(ReplyName::Requester)
        {
            return Ok(self.prepare_reply(publish));
        }
        let vhost = &self.holder.session.options.vhost;
        let route = self.routes.route(
            &self.node,
            vhost,
            publish.exchange,
            publish.routing_key,
            properties,
        )?;
        let now = clock::now();
        let has_bcc = scan.has_headers && properties.header("BCC").is_some();
        self.remember(publish, has_bcc);
        Ok(Prepared {
            meta: EntryMeta {
                persistent: scan.delivery_mode == Some(2),
                priority: scan.priority,
                published_at: now,
                expires_at: expiration.map(|span| now + span),
                delivery_count: 0,
                acquired_count: 0,
            },
            route,
            properties: wants_replies.then(|| self.with_reply_name(properties)),
            has_bcc,
            reply: false,
        })
    }

    /// A direct reply: it waits for nothing and nobody is told when its requester has gone.
    fn prepare_reply(&self, publish: &Publish<'_>) -> Prepared {
        self.node.replies.deliver(&NewMessage {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            properties: publish.properties,
            body: publish.body,
            dead_lettered: false,
            has_bcc: false,
        });
        Prepared {
            meta: EntryMeta::default(),
            route: Arc::default(),
            properties: None,
            has_bcc: false,
            reply: true,
        }
    }

    /// Refuses a request for direct replies from a channel that does not take them.
    fn check_reply_to(&self, reply_to: Option<&[u8]>) -> Result<bool, Refusal> {
        let wants_replies = reply_to == Some(REPLY_QUEUE.as_bytes());
        if wants_replies && self.reply_consumer.is_none() {
            return Err(Refusal::ReplyConsumerMissing);
        }
        Ok(wants_replies)
    }

    /// The property block with the name that replies are to be published to.
    fn with_reply_name(&self, properties: Properties<'_>) -> Vec<u8> {
        let builder = PropertiesBuilder::from(properties);
        match &self.reply_consumer {
            Some((_, name)) => builder.reply_to(name.as_str()).build(),
            None => builder.build(),
        }
    }

    /// Recent-history exchanges on the way keep a copy.
    fn remember(&self, publish: &Publish<'_>, has_bcc: bool) {
        for exchange in self.routes.histories() {
            let vhost = &self.holder.session.options.vhost;
            let message = NewMessage {
                exchange: publish.exchange,
                routing_key: publish.routing_key,
                properties: publish.properties,
                body: publish.body,
                dead_lettered: false,
                has_bcc,
            };
            self.node
                .histories
                .remember(&self.node, vhost, exchange, &message);
        }
    }

    /// Sends a checked publish on its way; one of a commit tells the receipt what became of it.
    pub(super) fn send(
        &mut self,
        publish: &Publish<'_>,
        prepared: &Prepared,
        receipt: Option<&Arc<CommitReceipt>>,
    ) {
        let message = NewMessage {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            properties: prepared.properties.as_deref().unwrap_or(publish.properties),
            body: publish.body,
            dead_lettered: false,
            has_bcc: prepared.has_bcc,
        };
        let route = &prepared.route;
        self.count(publish, route, prepared.reply);
        if route.is_empty() && publish.mandatory && !prepared.reply {
            self.return_unroutable(&message);
        }
        let verdicts = route.verdicts();
        let number =
            (self.mode == ChannelMode::Confirm).then(|| self.holder.number_publish(verdicts));
        if verdicts == 0 {
            self.confirms_due |= number.is_some();
            return;
        }
        self.holder.session.departed(u64::from(verdicts));
        let holder = &self.holder;
        let origin = || match receipt {
            None => Origin::Channel {
                holder: holder.clone(),
                number,
            },
            Some(receipt) => Origin::Commit {
                holder: holder.clone(),
                receipt: receipt.clone(),
            },
        };
        route.send(
            &self.node,
            &prepared.meta,
            &message,
            &mut self.inline,
            origin,
        );
        if self.inline.is_full() {
            self.inline.end(&self.node);
        }
    }

    /// Counts a publish for the channel and for its exchange.
    fn count(&mut self, publish: &Publish<'_>, route: &Route, reply: bool) {
        let traffic = &self.holder.traffic;
        traffic.publish.add(1);
        traffic.sizes.published(publish.body.len());
        if route.is_empty() && !reply {
            let unroutable = match publish.mandatory {
                true => &traffic.return_unroutable,
                false => &traffic.drop_unroutable,
            };
            unroutable.add(1);
        }
        if let Some(exchange) = route.exchange() {
            self.exchange_tally.published(exchange, route.copies());
        }
    }

    // rabbitmq: the return comes before the confirm.
    fn return_unroutable(&self, message: &NewMessage<'_>) {
        let owner = bytes::Bytes::copy_from_slice(message.body);
        let view = MessageView {
            exchange: message.exchange,
            routing_key: message.routing_key,
            properties: message.properties,
            body: &owner,
            owner: &owner,
        };
        let outbox = &self.holder.session.options.outbox;
        outbox.push(self.holder.number, &[Outgoing::Return { message: view }]);
    }
}

/// A publish that passed its checks.
pub(super) struct Prepared {
    pub(super) meta: EntryMeta,
    pub(super) route: Arc<Route>,
    /// The property block where the broker had to put in the name for direct replies.
    pub(super) properties: Option<Vec<u8>>,
    /// Whether there are blind copies, which no consumer may see.
    pub(super) has_bcc: bool,
    /// A direct reply, which is on its way already.
    pub(super) reply: bool,
}
