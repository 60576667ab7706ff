//! Taking messages: qos, consume, cancel, get.

use amqp::Table;
use broker_core::arguments::ConsumerArguments;
use broker_core::permission::Operation;
use broker_core::queue::{Consumer, ConsumerId, Pause, QueueFault, Use};
use broker_core::{ConsumerTag, QueueName, Refusal};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Channel;
use crate::content::LoadedBlob;
use crate::firehose::{self, TraceCopy};
use crate::outbox::MessageView;
use crate::queue::{After, Fetched, Queue};
use crate::record::Blob;
use crate::replication::{CallError, RemoteGot};
use crate::replies::ReplyName;
use crate::server_name;

/// `basic.consume`.
#[derive(Clone, Debug)]
pub struct Consume {
    /// Queue; empty for the last one declared on the channel.
    pub queue: QueueName,
    /// Tag; empty for one that the broker makes.
    pub consumer_tag: ConsumerTag,
    /// Deliveries count as acknowledged when they are sent.
    pub no_ack: bool,
    /// The only consumer of the queue.
    pub exclusive: bool,
    /// Arguments.
    pub arguments: Table,
}

/// A message taken by `basic.get`.
#[derive(Debug)]
pub struct GotMessage {
    /// Number of the delivery on its channel.
    pub delivery_tag: u64,
    /// Whether it was handed out before.
    pub redelivered: bool,
    /// Messages still ready.
    pub message_count: u32,
    loaded: LoadedBlob,
    properties: Option<Vec<u8>>,
}

impl GotMessage {
    /// The message; `None` if what is stored is damaged.
    pub fn with_view<R>(&self, f: impl FnOnce(MessageView<'_>) -> R) -> Option<R> {
        let blob: Blob<'_> = self.loaded.blob()?;
        let mut view = blob.view(self.loaded.owner());
        if let Some(properties) = &self.properties {
            view.properties = properties;
        }
        Some(f(view))
    }
}

impl Channel {
    /// `basic.qos`: applies to consumers that start later.
    ///
    /// # Errors
    /// A prefetch size is not implemented.
    // rabbitmq: global is taken as per consumer.
    pub fn qos(&mut self, prefetch_size: u32, prefetch_count: u16) -> Result<(), Refusal> {
        self.prefetch.set(prefetch_size, prefetch_count)?;
        self.holder
            .facts
            .prefetch
            .store(prefetch_count, Ordering::Relaxed);
        Ok(())
    }

    /// `basic.consume`. The consumer is silent until [`Channel::start_consumer`], so that the
    /// answer can be written before its first delivery.
    ///
    /// # Errors
    /// Not permitted, missing, locked, in exclusive use, a tag in use or a bad argument.
    pub async fn consume(&mut self, consume: Consume) -> Result<ConsumerTag, Refusal> {
        self.settle_down().await;
        let queue = self.named(consume.queue)?;
        let tag = match consume.consumer_tag.as_str().is_empty() {
            true => server_name::consumer_tag(),
            false => consume.consumer_tag,
        };
        if self
            .consumers
            .get(&tag)
            .is_some_and(|(queue, id)| queue.has_consumer(*id) || self.node.has_attachment(*id))
        {
            return Err(Refusal::ConsumerTagInUse {
                tag: tag.as_str().into(),
            });
        }
        if ReplyName::of(queue.as_str()) == Some(ReplyName::Queue) {
            return self.consume_replies(tag, consume.no_ack);
        }
        self.access.check(
            &self.node,
            &Operation::QueueRead {
                queue: queue.as_str(),
            },
        )?;
        if self.is_open_reply_name(&queue) {
            let vhost = self.vhost();
            return Err(Refusal::VolatileQueueConsume { queue, vhost });
        }
        self.node.check_consumer_limit(&self.holder.session)?;
        let record = self.open_queue(&queue)?;
        let arguments =
            ConsumerArguments::parse(&consume.arguments, record.kind, &record.name, &record.vhost)?;
        let queue = self.live(&record)?;
        self.mark_first(&queue).await;
        let id = ConsumerId(self.node.next_id());
        let mut paused = Pause::WINDOW;
        if !self.flowing {
            paused |= Pause::CHANNEL_FLOW;
        }
        let consumer = Consumer {
            id,
            holder: self.holder.id,
            tag: tag.clone(),
            prefetch: self.prefetch.count(),
            priority: arguments.priority,
            exclusive: consume.exclusive,
            no_ack: consume.no_ack,
            timeout_ms: arguments.timeout_ms,
            cancel_notify: self.holder.session.cancel_notify,
            paused,
        };
        self.holder.deliveries.lock().touch(queue.id);
        self.holder.session.flow.note_consumes();
        let mut after = After::default();
        self.node
            .attach(&queue, &self.holder, consumer, &mut after)
            .await
            .map_err(|error| call_refusal(error, &queue))?;
        self.node.carry_out(&queue, after);
        if !consume.arguments.is_empty() {
            queue.note_arguments(id, consume.arguments);
        }
        self.consumers.insert(tag.clone(), (queue, id));
        Ok(tag)
    }

    /// Before the first delivery of a durable queue the log must know that there are deliveries.
    async fn mark_first(&mut self, queue: &Queue) {
        if let Some(group) = queue.wants_first_mark(&self.node) {
            self.node
                .groups
                .barrier(group, &self.node.pressure, &self.holder);
            self.settle_down().await;
        }
    }

    /// The channel wants direct replies.
    // rabbitmq docs: direct reply-to
    fn consume_replies(&mut self, tag: ConsumerTag, no_ack: bool) -> Result<ConsumerTag, Refusal> {
        if !no_ack {
            return Err(Refusal::ReplyConsumerAcknowledges);
        }
        if self.reply_consumer.is_some() {
            return Err(Refusal::ReplyConsumerExists);
        }
        let name = self.node.replies.open(&self.holder, &tag);
        self.reply_consumer = Some((tag.clone(), name));
        Ok(tag)
    }

    /// Later replies are dropped.
    pub(super) fn stop_replies(&mut self) {
        if let Some((_, name)) = self.reply_consumer.take() {
            self.node.replies.close(&name);
        }
    }

    /// Deliveries to the consumer begin.
    pub fn start_consumer(&mut self, tag: &ConsumerTag) {
        if let Some((queue, consumer)) = self.consumers.get(tag) {
            queue.resume(&self.node, *consumer, Pause::WINDOW);
        }
    }

    /// `basic.cancel`. What the consumer holds stays with the channel; an unknown tag is no error.
    pub async fn cancel(&mut self, tag: &str) {
        self.settle_down().await;
        if self
            .reply_consumer
            .as_ref()
            .is_some_and(|(replies, _)| replies.as_str() == tag)
        {
            return self.stop_replies();
        }
        let Some((queue, consumer)) = self.consumers.remove(tag) else {
            return;
        };
        self.node.stop_waiting(&self.holder, consumer);
        let mut after = After::default();
        queue.remove_consumer(&self.node, consumer, &mut after);
        if let Some(deletion) = self.node.carry_out(&queue, after) {
            let _ = deletion.await;
        }
    }

    /// Cancels the consumers of queues that the user may not read any more, and tells the client.
    // rabbitmq: update-secret
    pub async fn drop_unreadable(&mut self) {
        let may_read = |queue: &Queue| {
            let queue = queue.name.as_str();
            let read = Operation::QueueRead { queue };
            self.access.check(&self.node, &read).is_ok()
        };
        let lost: Vec<ConsumerTag> = self
            .consumers
            .iter()
            .filter(|(_, (queue, _))| !may_read(queue))
            .map(|(tag, _)| tag.clone())
            .collect();
        for tag in lost {
            self.cancel(tag.as_str()).await;
            self.holder.consumer_cancelled(&tag);
        }
    }

    /// `basic.get`.
    ///
    /// # Errors
    /// Not permitted, missing, locked, or the queue does not serve single messages.
    pub async fn get(
        &mut self,
        queue: QueueName,
        no_ack: bool,
    ) -> Result<Option<GotMessage>, Refusal> {
        self.settle_down().await;
        let queue = self.named(queue)?;
        self.access.check(
            &self.node,
            &Operation::QueueRead {
                queue: queue.as_str(),
            },
        )?;
        if self.is_open_reply_name(&queue) {
            let vhost = self.vhost();
            return Err(Refusal::VolatileQueueGet { queue, vhost });
        }
        let queue = self.live(&*self.open_queue(&queue)?)?;
        self.mark_first(&queue).await;
        // Given back at the end, when the message counts itself or there is none.
        let _place = self.node.fetching(&self.holder, no_ack)?;
        if self.node.is_away(&queue) {
            let got = self.node.get_away(&queue, &self.holder, no_ack).await;
            if let Some(got) = got.map_err(|error| call_refusal(error, &queue))? {
                return Ok(got.map(|got| self.got_away(&queue, got, no_ack)));
            }
        }
        queue.touch(Use::Get);
        self.holder.session.flow.note_consumes();
        let mut after = After::default();
        let got = queue.get(&self.node, &self.holder, no_ack, &mut after);
        self.node.carry_out(&queue, after);
        let Some(Fetched { got, loaded }) = got.map_err(|fault| refusal(fault, &queue))? else {
            self.holder.traffic.get_empty.add(1);
            return Ok(None);
        };
        let delivery = got.delivery;
        let loaded = loaded.ok_or_else(|| Refusal::Broken {
            what: "a stored message cannot be read".into(),
        })?;
        let properties = loaded
            .blob()
            .and_then(|blob| crate::deliver::shown_properties(queue.kind, &delivery, &blob));
        let mut deliveries = self.holder.deliveries.lock();
        deliveries.traffic.got(no_ack, delivery.redelivered);
        let delivery_tag = match no_ack {
            true => deliveries.unacked.pass().0,
            false => {
                deliveries.touch(queue.id);
                deliveries.unacked.push(queue.id, delivery.entry, None).0
            }
        };
        drop(deliveries);
        let got = GotMessage {
            delivery_tag,
            redelivered: delivery.redelivered,
            message_count: u32::try_from(got.ready_left).unwrap_or(u32::MAX),
            loaded,
            properties,
        };
        self.tell_taken(&queue, &got);
        Ok(Some(got))
    }
}

impl Channel {
    /// A message that came from a queue of another node.
    fn got_away(&mut self, queue: &Queue, got: RemoteGot, no_ack: bool) -> GotMessage {
        let RemoteGot {
            entry,
            redelivered,
            ready_left,
            message,
        } = got;
        let mut deliveries = self.holder.deliveries.lock();
        deliveries.traffic.got(no_ack, redelivered);
        deliveries.touch(queue.id);
        let delivery_tag = match no_ack {
            true => deliveries.unacked.pass().0,
            false => deliveries.unacked.push(queue.id, entry, None).0,
        };
        drop(deliveries);
        let got = GotMessage {
            delivery_tag,
            redelivered,
            message_count: u32::try_from(ready_left).unwrap_or(u32::MAX),
            loaded: message,
            properties: None,
        };
        self.tell_taken(queue, &got);
        got
    }

    /// Tells the firehose of a message that was taken.
    fn tell_taken(&self, queue: &Queue, got: &GotMessage) {
        let (node, holder) = (&self.node, &self.holder);
        if !node.firehose.runs_in(&queue.vhost) {
            return;
        }
        let name = queue.name.as_str();
        let told = |view: MessageView<'_>| {
            TraceCopy::delivered(node, holder, &view, name, got.redelivered)
        };
        firehose::publish(node, &queue.vhost, got.with_view(told).flatten());
    }
}

fn call_refusal(error: CallError, queue: &Arc<Queue>) -> Refusal {
    match error {
        CallError::Fault(fault) => refusal(fault, queue),
        CallError::Refused(refusal) => refusal,
    }
}

/// The queue's fault with the words' parts that only the shell knows.
fn refusal(fault: QueueFault, queue: &Arc<Queue>) -> Refusal {
    let (name, vhost) = (queue.name.clone(), queue.vhost.clone());
    match fault {
        QueueFault::ExclusiveUse => Refusal::ExclusiveUse { queue: name, vhost },
        QueueFault::SingleActiveConsumerGet => {
            Refusal::SingleActiveConsumerGet { queue: name, vhost }
        }
        QueueFault::TooManyConsumers => Refusal::TableFull {
            what: "consumers of a queue".into(),
            limit: broker_core::queue::CONSUMERS_PER_QUEUE_MAX as u64,
        },
        QueueFault::ConsumerExists => Refusal::Broken {
            what: "a consumer id was given out twice".into(),
        },
    }
}
