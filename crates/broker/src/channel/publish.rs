//! Publishing: the hot path from a client's message to its queues.

use std::sync::Arc;

use amqp::{Properties, PropertiesBuilder};
use broker_core::channel::{ChannelMode, Verdict};
use broker_core::{ExchangeName, Millis, Refusal, Timestamp, expiration};
use smallvec::SmallVec;

use super::Channel;
use crate::clock;
use crate::deliver;
use crate::doors::Door;
use crate::firehose::{self, TraceCopy};
use crate::flow::gate::{Admission, Load, tell_parked};
use crate::flow::parked::{Parked, ParkedMessage};
use crate::node::Node;
use crate::origin::{self, CommitReceipt, Origin};
use crate::outbox::{MessageView, Outgoing};
use crate::queue::Queue;
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
        self.access.charge(&self.holder.session, publish.body.len());
        if self
            .node
            .firehose
            .runs_in(&self.holder.session.options.vhost)
        {
            self.tell_published(&publish, &prepared);
        }
        if self.mode == ChannelMode::Tx {
            return self.hold(&publish, prepared);
        }
        self.send(&publish, prepared, None);
        Ok(())
    }

    /// Tells the firehose of a publish.
    // rabbitmq: one of a transaction is told when it comes, not at the commit.
    #[cold]
    fn tell_published(&self, publish: &Publish<'_>, prepared: &Prepared) {
        let owner = bytes::Bytes::copy_from_slice(publish.body);
        let message = MessageView {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            properties: prepared.properties.as_deref().unwrap_or(publish.properties),
            body: &owner,
            owner: &owner,
        };
        let queues = match prepared.past_queues {
            Some(PastQueues::Reply) => vec![publish.routing_key.to_owned()],
            _ => prepared.route.queue_names(&self.node),
        };
        let copy = TraceCopy::published(&self.node, &self.holder, &message, queues);
        firehose::publish(&self.node, &self.holder.session.options.vhost, copy);
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
        self.access.check_size(publish.body.len())?;
        let scan = properties.scan();
        let door = Door::of(publish.exchange);
        let is_reply = publish.exchange.is_empty()
            && ReplyName::of(publish.routing_key) == Some(ReplyName::Requester);
        let route = match is_reply || door.is_some() {
            true => Ok(Arc::default()),
            false => self.routes.route(
                &self.node,
                &self.holder.session.options.vhost,
                publish.exchange,
                publish.routing_key,
                properties,
            ),
        };
        // rabbitmq: of several faults the exchange's is told, then that of reply_to, of the
        // expiration, of the copies, and of user_id.
        let route = match route {
            Err(fault) if !matches!(fault, Refusal::InvalidCarbonCopy { .. }) => return Err(fault),
            route => route,
        };
        let wants_replies = self.check_reply_to(scan.reply_to)?;
        let expiration = scan.expiration.map(expiration::parse).transpose()?;
        let route = route?;
        if let Some(claimed) = scan.user_id {
            self.access.check_user_id(&self.node, claimed)?;
        }
        if is_reply {
            return Ok(Prepared::past_queues(PastQueues::Reply));
        }
        if let Some(door) = door {
            let taken = door.publish(&self.node, &self.holder, publish)?;
            return Ok(Prepared::past_queues(PastQueues::Word { taken }));
        }
        Ok(Prepared {
            persistent: scan.delivery_mode == Some(2),
            priority: scan.priority,
            expiration,
            route,
            histories: self.routes.take_histories(),
            properties: wants_replies.then(|| self.with_reply_name(properties)),
            has_bcc: scan.has_headers && properties.header("BCC").is_some(),
            past_queues: None,
        })
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
    fn remember(&self, message: &NewMessage<'_>, histories: &[ExchangeName]) {
        let vhost = &self.holder.session.options.vhost;
        for exchange in histories {
            self.node
                .histories
                .remember(&self.node, vhost, exchange, message);
        }
    }

    /// Sends a checked publish on its way; one of a commit tells the receipt what became of it.
    /// Its time begins here, so that one in a transaction lives from the commit on.
    pub(super) fn send(
        &mut self,
        publish: &Publish<'_>,
        prepared: Prepared,
        receipt: Option<&Arc<CommitReceipt>>,
    ) {
        let message = NewMessage {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            properties: prepared.properties.as_deref().unwrap_or(publish.properties),
            body: publish.body,
            dead_lettered: false,
            has_bcc: prepared.has_bcc,
            keys_replaced: false,
        };
        self.remember(&message, &prepared.histories);
        if matches!(prepared.past_queues, Some(PastQueues::Reply)) {
            // It waits for nothing and nobody is told when its requester has gone.
            self.node.replies.deliver(&self.node, &message);
        }
        let route = &prepared.route;
        let taken = prepared.is_taken();
        self.count(publish, route, taken);
        if route.is_empty() && publish.mandatory && !taken {
            self.return_unroutable(&message);
        }
        if !route.is_free(&self.node, message.body.len()) {
            if !route.is_empty() {
                return self.send_gated(publish, &prepared, &message, receipt);
            }
            // rabbitmq: whoever publishes is blocked, wherever the message goes.
            self.node.flow.note_alarm(&self.holder.session);
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
            Some(receipt) => Origin::commit(holder, receipt),
        };
        route.send(
            &self.node,
            &prepared.meta(clock::now()),
            &message,
            &mut self.inline,
            origin,
        );
        self.end_full_turn();
    }

    /// Sends a publish of which a part may have to wait for its queue, or is refused.
    #[cold]
    fn send_gated(
        &mut self,
        publish: &Publish<'_>,
        prepared: &Prepared,
        message: &NewMessage<'_>,
        receipt: Option<&Arc<CommitReceipt>>,
    ) {
        let (node, holder) = (&self.node, &self.holder);
        let meta = prepared.meta(clock::now());
        node.flow.note_alarm(&holder.session);
        let mut open: SmallVec<[Arc<Queue>; 4]> = SmallVec::new();
        let mut closed: SmallVec<[(Arc<Queue>, u32); 4]> = SmallVec::new();
        for queue in prepared.route.queues() {
            let bytes = queue.logical_bytes(message.properties.len(), message.body.len());
            let load = Load::of(bytes, message.blob_len() as u64);
            match queue.gate.admit(node, queue, holder, load) {
                Admission::In => open.push(queue.clone()),
                Admission::Wait => closed.push((queue.clone(), bytes)),
            }
        }
        let open = Route::of(open.into_iter());
        let route = Arc::new(open.with_delays_of(&prepared.route));
        let verdicts = route.verdicts() + closed.len() as u32;
        let number = (self.mode == ChannelMode::Confirm).then(|| holder.number_publish(verdicts));
        let origin = || match receipt {
            None => Origin::Channel {
                holder: holder.clone(),
                number,
            },
            Some(receipt) => Origin::commit(holder, receipt),
        };
        if !route.is_empty() {
            holder.session.departed(u64::from(route.verdicts()));
            route.send(node, &meta, message, &mut self.inline, origin);
        }
        if closed.is_empty() {
            return self.end_full_turn();
        }
        // What is on its way to the same queues is ahead of what waits.
        self.inline.end(node);
        let mut waiting: Option<Arc<ParkedMessage>> = None;
        for (queue, bytes) in closed {
            if waiting.is_none() && !holder.is_refused_by(queue.id) {
                waiting = ParkedMessage::new(node, holder, meta, message);
            }
            // One that found no room is refused by every queue that it waits for.
            let message = waiting.clone().filter(|_| !holder.is_refused_by(queue.id));
            let Some(message) = message else {
                self.confirms_due |= self.refuse(publish, &queue, origin());
                continue;
            };
            let parked = Parked {
                message,
                bytes,
                origin: origin(),
                since: meta.published_at,
            };
            match queue.gate.park(node, &queue, holder, parked) {
                None => queue.let_in(node),
                Some(parked) => tell_parked(node, vec![parked], Verdict::Stored),
            }
        }
    }

    /// A message cannot wait for its queue.
    fn refuse(&self, publish: &Publish<'_>, queue: &Arc<Queue>, origin: Origin) -> bool {
        let (node, holder) = (&self.node, &self.holder);
        crate::flow::count(&node.flow.tally.no_room, 1);
        if publish.mandatory {
            self.return_refused(publish, queue);
        }
        origin.departs();
        origin::tell(node, &[origin], |_| Verdict::Rejected);
        if holder.publishes_plainly() {
            holder.refused_plainly(node, queue);
        }
        self.mode == ChannelMode::Confirm
    }

    fn return_refused(&self, publish: &Publish<'_>, queue: &Queue) {
        let owner = bytes::Bytes::copy_from_slice(publish.body);
        let message = MessageView {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            properties: publish.properties,
            body: &owner,
            owner: &owner,
        };
        let queue = queue.name.as_str();
        let outbox = &self.holder.session.options.outbox;
        outbox.push(
            self.holder.number,
            &[Outgoing::ReturnFull { message, queue }],
        );
    }

    fn end_full_turn(&mut self) {
        if self.inline.is_full() {
            self.inline.end(&self.node);
        }
    }

    /// Counts a publish for the channel and for its exchange.
    fn count(&mut self, publish: &Publish<'_>, route: &Route, taken: bool) {
        let traffic = &self.holder.traffic;
        traffic.publish.add(1);
        traffic.sizes.published(publish.body.len());
        if route.is_empty() && !taken {
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
        // rabbitmq: a returned message has lost its blind copies.
        let edited = match message.has_bcc {
            true => deliver::without_blind_copies(Properties::trusted(message.properties)),
            false => None,
        };
        let view = MessageView {
            exchange: message.exchange,
            routing_key: message.routing_key,
            properties: edited.as_deref().unwrap_or(message.properties),
            body: &owner,
            owner: &owner,
        };
        let outbox = &self.holder.session.options.outbox;
        outbox.push(self.holder.number, &[Outgoing::Return { message: view }]);
    }
}

/// A publish that passed its checks.
#[derive(Default)]
pub(super) struct Prepared {
    persistent: bool,
    priority: Option<u8>,
    expiration: Option<Millis>,
    route: Arc<Route>,
    /// Recent-history exchanges on its way.
    histories: Vec<ExchangeName>,
    /// The property block where the broker had to put in the name for direct replies.
    properties: Option<Vec<u8>>,
    /// Whether there are blind copies, which no consumer may see.
    has_bcc: bool,
    /// A message that goes past all queues.
    past_queues: Option<PastQueues>,
}

/// What becomes of a message that goes past all queues.
#[derive(Clone, Copy)]
enum PastQueues {
    /// A direct reply: handed over when it is sent.
    Reply,
    /// A word to the broker, which was taken, or not, when it was checked.
    Word { taken: bool },
}

impl Prepared {
    fn past_queues(what: PastQueues) -> Self {
        Self {
            past_queues: Some(what),
            ..Self::default()
        }
    }

    /// Forgets queues that were deleted since its route was found.
    pub(super) fn forget_deleted(&mut self, node: &Node) {
        let is_live = |queue: &&Arc<Queue>| node.queue(queue.id).is_some();
        if self.route.queues().all(|queue| is_live(&queue)) {
            return;
        }
        let live = Route::of(self.route.queues().filter(is_live).cloned());
        let live = live.with_delays_of(&self.route);
        self.route = Arc::new(match self.route.exchange() {
            Some(exchange) => live.through_exchange(exchange.clone()),
            None => live,
        });
    }

    /// Whether it counts as routed without a queue.
    fn is_taken(&self) -> bool {
        match self.past_queues {
            None => false,
            Some(PastQueues::Reply) => true,
            Some(PastQueues::Word { taken }) => taken,
        }
    }

    /// What queues must know of the message when it is sent at `now`.
    fn meta(&self, now: Timestamp) -> EntryMeta {
        EntryMeta {
            persistent: self.persistent,
            priority: self.priority,
            published_at: now,
            expires_at: self.expiration.map(|span| now + span),
            delivery_count: 0,
            acquired_count: 0,
        }
    }
}
