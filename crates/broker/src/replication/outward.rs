//! Clients of this node at queues that another node decides in: calls, consumers, settles.
//!
//! A consumer is *attached* to whoever leads its queue. When the leader changes, or the link to it
//! breaks, the consumer is attached again with what it has in hand, so that its acks stay valid.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use broker_core::Refusal;
use broker_core::metadata::QueueId;
use broker_core::queue::{
    Consumer, ConsumerId, DiscardCause, EntryId, HolderId, Pause, QueueFault, ReturnCause,
    Settlement,
};
use bytes::Bytes;
use cluster::{CallNumbers, NodeId};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::wire::{
    self, Answer, Call, Wire, WireCause, WireConsumer, WireFault, WireMessage, WireSettlement,
};
use crate::bounds::REMOTE_CALL_MS_MAX;
use crate::firehose::{self, TraceCopy};
use crate::groups::LOCAL_LANE;
use crate::holder::Holder;
use crate::node::Node;
use crate::outbox::{MessageView, OUTBOX_MARK, Outgoing};
use crate::queue::{After, Lane, Queue};

/// How often a leader is looked for.
const SEARCH_EVERY: Duration = Duration::from_millis(50);

/// Which node decides in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// This one.
    Here,
    /// That one.
    At(NodeId),
    /// Nobody at the moment.
    Nowhere,
}

/// A consumer of this node at a queue that may be led elsewhere.
pub(crate) struct Attachment {
    pub(crate) holder: Arc<Holder>,
    pub(crate) queue: Arc<Queue>,
    consumer: Consumer,
    /// Reasons for its silence at the moment.
    paused: Pause,
    /// Who has it, if anybody.
    at: Option<NodeId>,
    /// Its attachment is under way.
    moving: bool,
}

/// What this node waits for from others.
#[derive(Default)]
pub(super) struct Calls {
    numbers: CallNumbers,
    waiting: Mutex<HashMap<u64, (NodeId, oneshot::Sender<Answer>)>>,
    /// Settles that nobody could take. Bounded by what the channels had in hand.
    unsent: Mutex<Vec<UnsentSettle>>,
}

struct UnsentSettle {
    queue: QueueId,
    holder: HolderId,
    entries: Vec<EntryId>,
    how: Settlement,
}

impl Calls {
    pub(super) fn answered(&self, number: u64, answer: Answer) {
        if let Some((_, waiting)) = self.waiting.lock().remove(&number) {
            // Whoever asked may have given up.
            let _ = waiting.send(answer);
        }
    }

    fn give_up(&self, node: NodeId) {
        self.waiting.lock().retain(|_, (at, _)| *at != node);
    }

    fn unsent_of(&self, queue: QueueId, holder: HolderId) -> Vec<EntryId> {
        let unsent = self.unsent.lock();
        let own = unsent
            .iter()
            .filter(|settle| settle.queue == queue && settle.holder == holder);
        own.flat_map(|settle| settle.entries.iter().copied())
            .collect()
    }
}

impl From<&Consumer> for WireConsumer {
    fn from(consumer: &Consumer) -> Self {
        Self {
            id: consumer.id.0,
            prefetch: consumer.prefetch,
            priority: consumer.priority,
            exclusive: consumer.exclusive,
            no_ack: consumer.no_ack,
            timeout_ms: consumer.timeout_ms,
            cancel_notify: consumer.cancel_notify,
            paused: consumer.paused.bits(),
        }
    }
}

impl WireSettlement {
    fn of(how: Settlement) -> Self {
        match how {
            Settlement::Ack => Self::Ack,
            Settlement::Requeue(cause) => Self::Requeue(WireCause::of(cause)),
            Settlement::Discard(cause) => Self::Discard {
                nack: cause == DiscardCause::Nack,
            },
        }
    }

    pub(super) fn settlement(self) -> Settlement {
        match self {
            Self::Ack => Settlement::Ack,
            Self::Requeue(cause) => Settlement::Requeue(cause.cause()),
            Self::Discard { nack: true } => Settlement::Discard(DiscardCause::Nack),
            Self::Discard { nack: false } => Settlement::Discard(DiscardCause::Reject),
        }
    }
}

impl WireCause {
    fn of(cause: ReturnCause) -> Self {
        match cause {
            ReturnCause::Nack => Self::Nack,
            ReturnCause::Reject => Self::Reject,
            ReturnCause::Recover => Self::Recover,
            ReturnCause::Timeout => Self::Timeout,
            ReturnCause::ChannelClosed => Self::ChannelClosed,
            ReturnCause::ConnectionLost | ReturnCause::NodeDown => Self::ConnectionLost,
        }
    }

    pub(super) fn cause(self) -> ReturnCause {
        match self {
            Self::Nack => ReturnCause::Nack,
            Self::Reject => ReturnCause::Reject,
            Self::Recover => ReturnCause::Recover,
            Self::ChannelClosed => ReturnCause::ChannelClosed,
            Self::ConnectionLost => ReturnCause::ConnectionLost,
            Self::Timeout => ReturnCause::Timeout,
        }
    }
}

impl WireFault {
    pub(super) fn of(fault: QueueFault) -> Self {
        match fault {
            QueueFault::ExclusiveUse => Self::ExclusiveUse,
            QueueFault::SingleActiveConsumerGet => Self::SingleActiveConsumerGet,
            QueueFault::TooManyConsumers => Self::TooManyConsumers,
            QueueFault::ConsumerExists => Self::ConsumerExists,
        }
    }

    fn fault(self) -> QueueFault {
        match self {
            Self::ExclusiveUse => QueueFault::ExclusiveUse,
            Self::SingleActiveConsumerGet => QueueFault::SingleActiveConsumerGet,
            Self::TooManyConsumers => QueueFault::TooManyConsumers,
            Self::ConsumerExists | Self::NotHere => QueueFault::ConsumerExists,
        }
    }
}

/// A message that another node's queue gave to `basic.get`.
pub(crate) struct RemoteGot {
    pub(crate) entry: EntryId,
    pub(crate) redelivered: bool,
    pub(crate) ready_left: u64,
    pub(crate) message: crate::content::LoadedBlob,
}

/// Why a call came to nothing.
pub(crate) enum CallError {
    Fault(QueueFault),
    Refused(Refusal),
}

impl WireMessage {
    pub(super) fn of(view: &MessageView<'_>) -> Self {
        Self {
            exchange: view.exchange.to_owned(),
            routing_key: view.routing_key.to_owned(),
            properties: Bytes::copy_from_slice(view.properties),
            body: Bytes::copy_from_slice(view.body),
        }
    }

    fn view(&self) -> MessageView<'_> {
        MessageView {
            exchange: &self.exchange,
            routing_key: &self.routing_key,
            properties: &self.properties,
            body: &self.body,
            owner: &self.body,
        }
    }

    fn loaded(&self) -> crate::content::LoadedBlob {
        let mut blob = Vec::new();
        crate::record::put_blob(
            &mut blob,
            &crate::record::NewMessage {
                exchange: &self.exchange,
                routing_key: &self.routing_key,
                properties: &self.properties,
                body: &self.body,
                dead_lettered: false,
                keys_replaced: false,
                has_bcc: false,
            },
        );
        crate::content::LoadedBlob::read(blob.into())
    }
}

impl Node {
    /// Which node decides in the queue.
    pub(crate) fn place(&self, queue: &Queue) -> Place {
        let Some(replication) = &self.replication else {
            return Place::Here;
        };
        match queue.lane {
            Lane::Group(LOCAL_LANE) | Lane::Inline => Place::Here,
            Lane::Away(_) => Place::At(NodeId(queue.home.0)),
            Lane::Group(group) => match replication.group(group) {
                Some(group) if group.is_leading() => Place::Here,
                Some(group) => match group.leader() {
                    Some(leader) if leader != replication.me() => Place::At(leader),
                    _ => Place::Nowhere,
                },
                None => Place::Nowhere,
            },
        }
    }

    /// Whether another node decides in the queue, or none.
    pub(crate) fn is_away(&self, queue: &Queue) -> bool {
        self.replication.is_some() && self.place(queue) != Place::Here
    }

    pub(super) fn say(&self, to: NodeId, message: &Wire) -> bool {
        let (Some(replication), Some(bytes)) = (&self.replication, wire::write(message)) else {
            return false;
        };
        replication.links.message(to, &bytes)
    }

    pub(super) async fn ask(&self, to: NodeId, queue: QueueId, call: Call) -> Option<Answer> {
        let calls = &self.replication.as_ref()?.outward;
        let number = calls.numbers.draw();
        let (answer, answered) = oneshot::channel();
        calls.waiting.lock().insert(number, (to, answer));
        let queue = queue.0;
        let asked = self.say(
            to,
            &Wire::Call {
                number,
                queue,
                call,
            },
        );
        let patience = Duration::from_millis(REMOTE_CALL_MS_MAX);
        let answer = match asked {
            true => timeout(patience, answered).await.ok()?.ok(),
            false => None,
        };
        calls.waiting.lock().remove(&number);
        answer
    }

    /// Asks whoever decides in the queue, and looks for it as long as nobody does. `None` when it
    /// is this node.
    async fn ask_place(&self, queue: &Queue, call: Call) -> Result<Option<Answer>, CallError> {
        let end = Instant::now() + Duration::from_millis(REMOTE_CALL_MS_MAX);
        loop {
            match self.place(queue) {
                Place::Here => return Ok(None),
                Place::At(node) => match self.ask(node, queue.id, call.clone()).await {
                    Some(Answer::Fault(WireFault::NotHere)) | None => {}
                    Some(Answer::Fault(fault)) => return Err(CallError::Fault(fault.fault())),
                    Some(answer) => return Ok(Some(answer)),
                },
                Place::Nowhere => {}
            }
            // rabbitmq: a queue with one home is away with it, and nobody waits for that.
            if let (Lane::Away(_), Some(replication)) = (queue.lane, &self.replication)
                && let home = NodeId(queue.home.0)
                && !replication.links.is_up(home)
            {
                return Err(CallError::Refused(Refusal::QueueDown {
                    node: replication.name_of(home).into(),
                    queue: queue.name.clone(),
                    vhost: queue.vhost.clone(),
                }));
            }
            if Instant::now() >= end {
                return Err(CallError::Refused(Refusal::Broken {
                    what: format!(
                        "no node that can be reached leads queue '{}' in vhost '{}'",
                        queue.name, queue.vhost
                    )
                    .into(),
                }));
            }
            sleep(SEARCH_EVERY).await;
        }
    }

    /// Ready messages and consumers of a queue, wherever it is led.
    pub(crate) async fn counts(&self, queue: &Queue) -> Result<(u64, u64), Refusal> {
        if self.is_away(queue) {
            match self.ask_place(queue, Call::Counts).await {
                Ok(Some(Answer::Counts { ready, consumers })) => return Ok((ready, consumers)),
                // What a follower knows may be old.
                Err(CallError::Refused(refusal)) => return Err(refusal),
                Ok(_) | Err(CallError::Fault(_)) => {}
            }
        }
        let counts = queue.counts();
        Ok((counts.ready, counts.consumers))
    }

    /// As `counts`, but without patience: nothing when nobody answers at once.
    pub(crate) async fn counts_soon(&self, queue: &Queue) -> (u64, u64) {
        match self.place(queue) {
            Place::At(node) if self.ask_soon_reaches(node) => {
                self.counts(queue).await.unwrap_or_default()
            }
            _ => (0, 0),
        }
    }

    fn ask_soon_reaches(&self, node: NodeId) -> bool {
        let links = self.replication.as_ref().map(|own| &own.links);
        links.is_some_and(|links| links.is_up(node))
    }

    /// Purges a queue, wherever it is led.
    pub(crate) async fn purge(&self, queue: &Arc<Queue>) -> Result<u64, Refusal> {
        if self.is_away(queue) {
            match self.ask_place(queue, Call::Purge).await {
                Ok(Some(Answer::Purged { messages })) => return Ok(messages),
                Ok(_) => {}
                Err(CallError::Refused(refusal)) => return Err(refusal),
                Err(CallError::Fault(_)) => return Ok(0),
            }
        }
        let mut after = After::default();
        let purged = queue.purge(self, &mut after);
        self.carry_out(queue, after);
        Ok(purged)
    }

    /// Takes a message from a queue that is led elsewhere. The outer `None` says that it is led
    /// here.
    pub(crate) async fn get_away(
        &self,
        queue: &Queue,
        holder: &Arc<Holder>,
        no_ack: bool,
    ) -> Result<Option<Option<RemoteGot>>, CallError> {
        let holder = holder.id.0;
        let answer = self.ask_place(queue, Call::Get { holder, no_ack }).await?;
        Ok(match answer {
            None => None,
            Some(Answer::Got {
                entry,
                redelivered,
                ready_left,
                message,
            }) => Some(Some(RemoteGot {
                entry: EntryId(entry),
                redelivered,
                ready_left,
                message: message.loaded(),
            })),
            Some(_) => Some(None),
        })
    }

    /// Adds a consumer to a queue, wherever it is led.
    pub(crate) async fn attach(
        &self,
        queue: &Arc<Queue>,
        holder: &Arc<Holder>,
        consumer: Consumer,
        after: &mut After,
    ) -> Result<(), CallError> {
        let Some(replication) = &self.replication else {
            return queue
                .add_consumer(self, holder, consumer, after)
                .map_err(CallError::Fault);
        };
        let id = consumer.id;
        let attachment = Attachment {
            holder: holder.clone(),
            queue: queue.clone(),
            paused: consumer.paused,
            consumer: consumer.clone(),
            at: None,
            moving: true,
        };
        // Known before the first delivery can arrive.
        replication.attachments.insert(id, attachment);
        let attached = match self.is_away(queue) {
            true => self.attach_away(queue, holder, &consumer, Vec::new()).await,
            false => Ok(None),
        };
        let attached = match attached {
            Ok(None) => queue
                .add_consumer(self, holder, consumer, after)
                .map(|()| replication.me())
                .map_err(CallError::Fault),
            Ok(Some(at)) => Ok(at),
            Err(error) => Err(error),
        };
        match attached {
            Ok(at) => {
                if let Some(mut attachment) = replication.attachments.get_mut(&id) {
                    attachment.at = Some(at);
                    attachment.moving = false;
                }
                Ok(())
            }
            Err(error) => {
                replication.attachments.remove(&id);
                Err(error)
            }
        }
    }

    /// Answers who has the consumer; `None` when this node leads the queue.
    async fn attach_away(
        &self,
        queue: &Queue,
        holder: &Holder,
        consumer: &Consumer,
        held: Vec<EntryId>,
    ) -> Result<Option<NodeId>, CallError> {
        let call = Call::Attach {
            holder: holder.id.0,
            channel: holder.number,
            consumer: consumer.into(),
            held: held.into_iter().map(|entry| entry.0).collect(),
        };
        let place = self.place(queue);
        match (self.ask_place(queue, call).await?, place) {
            (Some(_), Place::At(node)) => Ok(Some(node)),
            // Who answered is found out by the next look at the attachments.
            (Some(_), _) => Ok(match self.place(queue) {
                Place::At(node) => Some(node),
                _ => None,
            }),
            (None, _) => Ok(None),
        }
    }

    /// Whether the consumer is one of this node's, wherever its queue is led.
    pub(crate) fn has_attachment(&self, consumer: ConsumerId) -> bool {
        self.replication
            .as_ref()
            .is_some_and(|replication| replication.attachments.contains_key(&consumer))
    }

    pub(crate) fn remove_attachment(&self, queue: &Queue, consumer: ConsumerId) {
        let Some(replication) = &self.replication else {
            return;
        };
        let attachment = replication.attachments.remove(&consumer);
        let at = attachment.and_then(|(_, attachment)| attachment.at);
        if let Some(at) = at.filter(|at| *at != replication.me()) {
            let (queue, consumer) = (queue.id.0, consumer.0);
            self.say(at, &Wire::Cancel { queue, consumer });
        }
    }

    pub(crate) fn pause_away(&self, queue: &Queue, consumer: ConsumerId, why: Pause) {
        let change = |attachment: &mut Attachment| attachment.paused |= why;
        if let Some(at) = self.change_attachment(consumer, change) {
            let (queue, consumer, why) = (queue.id.0, consumer.0, why.bits());
            self.say(
                at,
                &Wire::Pause {
                    queue,
                    consumer,
                    why,
                },
            );
        }
    }

    pub(crate) fn resume_away(&self, queue: &Queue, consumer: ConsumerId, why: Pause) {
        let change = |attachment: &mut Attachment| {
            attachment.paused = attachment.paused.without(why);
        };
        if let Some(at) = self.change_attachment(consumer, change) {
            let (queue, consumer, why) = (queue.id.0, consumer.0, why.bits());
            self.say(
                at,
                &Wire::Resume {
                    queue,
                    consumer,
                    why,
                },
            );
        }
    }

    /// Changes an attachment and answers the other node that has it.
    pub(crate) fn change_attachment(
        &self,
        consumer: ConsumerId,
        change: impl FnOnce(&mut Attachment),
    ) -> Option<NodeId> {
        let replication = self.replication.as_ref()?;
        let mut attachment = replication.attachments.get_mut(&consumer)?;
        change(&mut attachment);
        attachment.at.filter(|at| *at != replication.me())
    }

    /// Notes a reason for silence of a consumer whose queue is led here.
    pub(crate) fn note_pause(&self, consumer: ConsumerId, why: Pause, paused: bool) {
        self.change_attachment(consumer, |attachment| match paused {
            true => attachment.paused |= why,
            false => attachment.paused = attachment.paused.without(why),
        });
    }

    pub(crate) fn settle_away(
        &self,
        queue: &Queue,
        holder: HolderId,
        entries: &[EntryId],
        how: Settlement,
    ) {
        let Some(replication) = &self.replication else {
            return;
        };
        let settle = UnsentSettle {
            queue: queue.id,
            holder,
            entries: entries.to_vec(),
            how,
        };
        let unsent = &replication.outward.unsent;
        let waits = unsent
            .lock()
            .iter()
            .any(|waiting| waiting.queue == queue.id && waiting.holder == holder);
        if waits || !self.is_settled(queue, holder) || !self.send_settle(queue, &settle) {
            unsent.lock().push(settle);
        }
    }

    /// Whether every consumer of the channel at the queue is where the queue is led.
    fn is_settled(&self, queue: &Queue, holder: HolderId) -> bool {
        let (Some(replication), Place::At(node)) = (&self.replication, self.place(queue)) else {
            return false;
        };
        let own = replication.attachments.iter();
        own.filter(|own| own.queue.id == queue.id && own.holder.id == holder)
            .all(|own| own.at == Some(node) && !own.moving)
    }

    fn send_settle(&self, queue: &Queue, settle: &UnsentSettle) -> bool {
        let Place::At(node) = self.place(queue) else {
            return false;
        };
        self.say(
            node,
            &Wire::Settle {
                queue: queue.id.0,
                holder: settle.holder.0,
                entries: settle.entries.iter().map(|entry| entry.0).collect(),
                how: WireSettlement::of(settle.how),
            },
        )
    }

    pub(crate) fn detach_away(&self, queue: &Queue, holder: HolderId, cause: ReturnCause) {
        let Some(replication) = &self.replication else {
            return;
        };
        self.forget_attachments(queue.id, holder);
        let unsent = &replication.outward.unsent;
        unsent
            .lock()
            .retain(|settle| settle.queue != queue.id || settle.holder != holder);
        if let Place::At(node) = self.place(queue) {
            self.say(
                node,
                &Wire::Detach {
                    queue: queue.id.0,
                    holder: holder.0,
                    cause: WireCause::of(cause),
                },
            );
        }
    }

    pub(crate) fn forget_attachments(&self, queue: QueueId, holder: HolderId) {
        if let Some(replication) = &self.replication {
            replication
                .attachments
                .retain(|_, own| own.queue.id != queue || own.holder.id != holder);
        }
    }

    /// A delivery for a consumer of this node.
    pub(super) fn delivered(
        &self,
        consumer: ConsumerId,
        entry: EntryId,
        redelivered: bool,
        message: &WireMessage,
    ) {
        let Some(replication) = &self.replication else {
            return;
        };
        let Some((holder, queue, tag, no_ack)) =
            replication.attachments.get(&consumer).map(|own| {
                (
                    own.holder.clone(),
                    own.queue.clone(),
                    own.consumer.tag.clone(),
                    own.consumer.no_ack,
                )
            })
        else {
            return;
        };
        let mut deliveries = holder.deliveries.lock();
        if !deliveries.open {
            return;
        }
        deliveries.touch(queue.id);
        deliveries.traffic.delivered(no_ack, redelivered);
        let delivery_tag = match no_ack {
            true => deliveries.unacked.pass().0,
            false => deliveries.unacked.push(queue.id, entry, Some(consumer)).0,
        };
        deliveries.tell();
        let deliver = Outgoing::Deliver {
            consumer_tag: tag.as_str(),
            delivery_tag,
            redelivered,
            message: message.view(),
        };
        let outbox = &holder.session.options.outbox;
        let waiting = outbox.push(holder.number, &[deliver]);
        drop(deliveries);
        if self.firehose.runs_in(&queue.vhost) {
            let name = queue.name.as_str();
            let copy = TraceCopy::delivered(self, &holder, &message.view(), name, redelivered);
            firehose::publish(self, &queue.vhost, copy);
        }
        if !no_ack {
            self.took_from_away(&queue, &holder, consumer);
        }
        if waiting > OUTBOX_MARK {
            self.pause_away(&queue, consumer, Pause::WINDOW);
            holder.session.wait_for_room(queue, consumer);
            if outbox.push(holder.number, &[]) <= OUTBOX_MARK / 2 {
                holder.session.resume_waiting(self);
            }
        }
    }

    /// The queue has ended a consumer of this node.
    pub(super) fn cancelled(&self, consumer: ConsumerId) {
        let Some(replication) = &self.replication else {
            return;
        };
        if let Some((_, own)) = replication.attachments.remove(&consumer) {
            own.holder.consumer_cancelled(&own.consumer.tag);
        }
    }

    /// Attachments at this node are void: the link broke, or its leader changed.
    pub(crate) fn unsettle(&self, node: NodeId) {
        let Some(replication) = &self.replication else {
            return;
        };
        replication.outward.give_up(node);
        for mut own in replication.attachments.iter_mut() {
            if own.at == Some(node) {
                own.at = None;
            }
        }
    }

    /// Consumers that were attached to this node's own queues of the group are nowhere.
    pub(crate) fn unsettle_group(&self, stream: storage::StreamId, me: NodeId) {
        let Some(replication) = &self.replication else {
            return;
        };
        for mut own in replication.attachments.iter_mut() {
            let of_group = matches!(own.queue.lane,
                Lane::Group(group) if crate::durability::stream_of(group) == stream);
            if of_group && own.at == Some(me) {
                own.at = None;
            }
        }
    }

    /// Attaches again what is not where its queue is led, and sends what could not be sent.
    pub(crate) fn tend_attachments(self: &Arc<Self>) {
        let Some(replication) = &self.replication else {
            return;
        };
        let astray: Vec<ConsumerId> = replication
            .attachments
            .iter()
            .filter(|own| !own.moving)
            .filter(|own| match self.place(&own.queue) {
                Place::Here => own.at != Some(replication.me()),
                Place::At(node) => own.at != Some(node),
                Place::Nowhere => false,
            })
            .map(|own| *own.key())
            .collect();
        for consumer in astray {
            if let Some(mut own) = replication.attachments.get_mut(&consumer) {
                own.moving = true;
            }
            let node = self.clone();
            tokio::spawn(async move { node.move_attachment(consumer).await });
        }
        self.send_unsent();
    }

    async fn move_attachment(&self, id: ConsumerId) {
        let Some(replication) = &self.replication else {
            return;
        };
        let Some((holder, queue, mut consumer)) = replication.attachments.get(&id).map(|own| {
            let mut consumer = own.consumer.clone();
            consumer.paused = own.paused;
            (own.holder.clone(), own.queue.clone(), consumer)
        }) else {
            return;
        };
        let mut held: Vec<EntryId> = {
            let deliveries = holder.deliveries.lock();
            let unacked = deliveries.unacked.iter();
            unacked
                .filter(|own| own.queue == queue.id && own.consumer == Some(id))
                .map(|own| own.entry)
                .collect()
        };
        held.extend(replication.outward.unsent_of(queue.id, holder.id));
        let attached = self
            .attach_away(&queue, &holder, &consumer, held.clone())
            .await;
        let at = match attached {
            Ok(Some(at)) => Some(at),
            Ok(None) => {
                // An exclusive consumer is alone by right already.
                consumer.exclusive = false;
                let mut after = After::default();
                let taken = queue.take_back(self, &holder, consumer, &held, &mut after);
                self.carry_out(&queue, after);
                if taken.is_err() {
                    self.cancelled(id);
                }
                Some(replication.me())
            }
            Err(CallError::Fault(_)) => {
                self.cancelled(id);
                None
            }
            Err(CallError::Refused(_)) => None,
        };
        if let Some(mut own) = replication.attachments.get_mut(&id) {
            own.at = at;
            own.moving = false;
        }
        tracing::info!(queue = %queue.name, consumer = id.0, at = at.map(|node| node.0), held = held.len(),
            "a consumer is attached again");
    }

    fn send_unsent(&self) {
        let Some(replication) = &self.replication else {
            return;
        };
        let unsent = std::mem::take(&mut *replication.outward.unsent.lock());
        let mut left = Vec::new();
        for settle in unsent {
            let Some(queue) = self.queue(settle.queue) else {
                continue;
            };
            let sent = match self.place(&queue) {
                Place::Here => {
                    let settled = replication
                        .attachments
                        .iter()
                        .filter(|own| own.queue.id == queue.id && own.holder.id == settle.holder)
                        .all(|own| own.at == Some(replication.me()) && !own.moving);
                    if settled {
                        let mut after = After::default();
                        queue.settle(self, settle.holder, &settle.entries, settle.how, &mut after);
                        self.carry_out(&queue, after);
                    }
                    settled
                }
                _ => self.is_settled(&queue, settle.holder) && self.send_settle(&queue, &settle),
            };
            if !sent {
                left.push(settle);
            }
        }
        if !left.is_empty() {
            let mut unsent = replication.outward.unsent.lock();
            left.append(&mut unsent);
            *unsent = left;
        }
    }
}
