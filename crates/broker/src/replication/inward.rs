//! Clients of other nodes at the queues that this node decides in.
//!
//! A channel of another node is a guest here: a holder whose outbox leads to its node. Deliveries
//! carry the entry's number in place of a delivery tag, which the channel's own node gives.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};

use amqp::{Table, Value};
use broker_core::flow::ClientFlow;
use broker_core::metadata::{ConnectionId, QueueId};
use broker_core::queue::{Consumer, ConsumerId, EntryId, HolderId, Pause, ReturnCause};
use broker_core::{ConsumerTag, Refusal, UserName, VhostName};
use bytes::Bytes;
use cluster::{NodeId, Service};
use dashmap::DashMap;

use super::outward::Place;
use super::wire::{self, Answer, Call, Wire, WireConsumer, WireFault, WireMessage};
use crate::clock;
use crate::holder::Holder;
use crate::node::Node;
use crate::outbox::{OUTBOX_MARK, Outbox, Outgoing};
use crate::queue::{After, Fetched, Queue};
use crate::record::Blob;
use crate::session::{GUEST_MECHANISM, SessionOptions, SessionShared};
use crate::signals::Signal;

/// Guests by the number of their channel.
#[derive(Default)]
pub(super) struct Guests {
    holders: DashMap<HolderId, (NodeId, Arc<Holder>)>,
}

/// The way from a queue to a channel of another node.
struct GuestOutbox {
    node: Weak<Node>,
    to: NodeId,
}

impl Outbox for GuestOutbox {
    fn push(&self, _channel: u16, out: &[Outgoing<'_>]) -> usize {
        let Some(node) = self.node.upgrade() else {
            return 0;
        };
        for outgoing in out {
            let message = match outgoing {
                Outgoing::Deliver {
                    consumer_tag,
                    delivery_tag,
                    redelivered,
                    message,
                } => consumer_tag.parse().ok().map(|consumer| Wire::Deliver {
                    consumer,
                    entry: *delivery_tag,
                    redelivered: *redelivered,
                    message: WireMessage::of(message),
                }),
                Outgoing::CancelConsumer { consumer_tag } => consumer_tag
                    .parse()
                    .ok()
                    .map(|consumer| Wire::Cancelled { consumer }),
                // Publishes of guests are answered on their own node.
                Outgoing::Ack { .. }
                | Outgoing::Nack { .. }
                | Outgoing::Return { .. }
                | Outgoing::ReturnFull { .. }
                | Outgoing::CommitOk => None,
            };
            if let Some(message) = message
                && !node.say(self.to, &message)
            {
                tracing::debug!(
                    node = self.to.0,
                    "a delivery does not leave: the link is down"
                );
            }
        }
        match &node.replication {
            Some(replication) => replication.links.waiting_bytes(self.to),
            None => 0,
        }
    }
}

impl Guests {
    fn of(&self, node: &Node, from: NodeId, holder: HolderId, channel: u16) -> Arc<Holder> {
        let make = || {
            let mut capabilities = Table::new();
            capabilities.insert("consumer_cancel_notify", Value::Bool(true));
            let mut properties = Table::new();
            properties.insert("capabilities", Value::Table(capabilities));
            let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            let options = SessionOptions {
                user: UserName::new(""),
                vhost: VhostName::new(""),
                peer: nowhere,
                local: nowhere,
                client_properties: properties,
                outbox: Arc::new(GuestOutbox {
                    node: node.me.clone(),
                    to: from,
                }),
                channel_max: 0,
                frame_max: 0,
                heartbeat_s: 0,
                mechanism: GUEST_MECHANISM.to_owned(),
                tls: None,
            };
            let id = ConnectionId(holder.0);
            // The node that has the client's socket pulls its levers.
            let client = ClientFlow::default();
            let memory = node.flow.memory.connection();
            let opened = clock::now().0;
            let session = Arc::new(SessionShared::new(id, options, opened, client, memory));
            let bounds = node.flow.options.bounds;
            (
                from,
                Arc::new(Holder::new(holder, channel, session, bounds)),
            )
        };
        self.holders.entry(holder).or_insert_with(make).1.clone()
    }

    /// Guests whose link had no room, and has now.
    fn resume(&self, node: &Node) {
        let Some(replication) = &node.replication else {
            return;
        };
        let guests: Vec<_> = self
            .holders
            .iter()
            .map(|guest| guest.value().clone())
            .collect();
        for (at, guest) in guests {
            if replication.links.waiting_bytes(at) <= OUTBOX_MARK / 2 {
                guest.session.resume_waiting(node);
            }
        }
    }
}

impl Node {
    /// Does what is due for guests and attachments. Called by the ticker.
    pub(crate) fn tend_links(self: &Arc<Self>) {
        if let Some(replication) = &self.replication {
            replication.inward.resume(self);
            self.tend_attachments();
            replication.tend_balance();
        }
    }

    /// A guest kept a delivery for too long: its own node closes its channel.
    pub(crate) fn guest_timed_out(&self, holder: &Holder, timeout_ms: u64) {
        let Some(replication) = &self.replication else {
            return;
        };
        let at = replication
            .inward
            .holders
            .get(&holder.id)
            .map(|guest| guest.0);
        if let Some(at) = at {
            let holder = holder.id.0;
            self.say(at, &Wire::TimedOut { holder, timeout_ms });
        }
    }

    fn guest(&self, from: NodeId, holder: u64, channel: u16) -> Option<Arc<Holder>> {
        let replication = self.replication.as_ref()?;
        let holder = HolderId(holder);
        Some(replication.inward.of(self, from, holder, channel))
    }

    /// The queue, if this node decides in it.
    fn led(&self, queue: u64) -> Option<Arc<Queue>> {
        let queue = self.queue(QueueId(queue))?;
        (self.place(&queue) == Place::Here).then_some(queue)
    }

    fn answer_call(&self, from: NodeId, queue: u64, call: Call) -> Answer {
        if let Call::Copy = call {
            return self.answer_copy(queue);
        }
        let Some(queue) = self.led(queue) else {
            return Answer::Fault(WireFault::NotHere);
        };
        match call {
            Call::Counts => {
                let counts = queue.counts();
                Answer::Counts {
                    ready: counts.ready,
                    consumers: counts.consumers,
                }
            }
            Call::Copy => self.answer_copy(queue.id.0),
            Call::Purge => {
                let mut after = After::default();
                let messages = queue.purge(self, &mut after);
                self.carry_out(&queue, after);
                Answer::Purged { messages }
            }
            Call::Get { holder, no_ack } => self.guest_get(from, &queue, holder, no_ack),
            Call::Attach {
                holder,
                channel,
                consumer,
                held,
            } => self.guest_attach(from, &queue, (holder, channel), &consumer, &held),
        }
    }

    fn answer_copy(&self, queue: u64) -> Answer {
        let queue = self.queue(QueueId(queue));
        match queue.and_then(|queue| self.copy_of(&queue)) {
            Some(copy) => Answer::Copy {
                term: copy.term,
                last_index: copy.last_index,
                applied_index: copy.applied_index,
                saved_index: copy.saved_index,
                messages: copy.messages,
                votes: copy.votes,
            },
            None => Answer::Fault(WireFault::NotHere),
        }
    }

    fn guest_get(&self, from: NodeId, queue: &Arc<Queue>, holder: u64, no_ack: bool) -> Answer {
        let Some(guest) = self.guest(from, holder, 0) else {
            return Answer::Fault(WireFault::NotHere);
        };
        let mut after = After::default();
        let got = queue.get(self, &guest, no_ack, &mut after);
        self.carry_out(queue, after);
        match got {
            Err(fault) => Answer::Fault(WireFault::of(fault)),
            Ok(None) => Answer::Empty,
            Ok(Some(Fetched { got, loaded })) => {
                let Some(loaded) = loaded else {
                    return Answer::Empty;
                };
                let Some(blob): Option<Blob<'_>> = loaded.blob() else {
                    return Answer::Empty;
                };
                let shown = crate::deliver::shown_properties(queue.kind, &got.delivery, &blob);
                let mut view = blob.view(loaded.owner());
                if let Some(properties) = &shown {
                    view.properties = properties;
                }
                Answer::Got {
                    entry: got.delivery.entry.0,
                    redelivered: got.delivery.redelivered,
                    ready_left: got.ready_left,
                    message: WireMessage::of(&view),
                }
            }
        }
    }

    fn guest_attach(
        &self,
        from: NodeId,
        queue: &Arc<Queue>,
        (holder, channel): (u64, u16),
        consumer: &WireConsumer,
        held: &[u64],
    ) -> Answer {
        let Some(guest) = self.guest(from, holder, channel) else {
            return Answer::Fault(WireFault::NotHere);
        };
        if queue.wants_first_mark(self).is_some() {
            self.groups.flush();
        }
        let held: Vec<EntryId> = held.iter().copied().map(EntryId).collect();
        let consumer = Consumer {
            id: ConsumerId(consumer.id),
            holder: guest.id,
            tag: ConsumerTag::new(consumer.id.to_string()),
            prefetch: consumer.prefetch,
            priority: consumer.priority,
            exclusive: consumer.exclusive,
            no_ack: consumer.no_ack,
            timeout_ms: consumer.timeout_ms,
            cancel_notify: true,
            paused: Pause::from_bits(consumer.paused),
        };
        let mut after = After::default();
        let taken = queue.take_back(self, &guest, consumer, &held, &mut after);
        self.carry_out(queue, after);
        match taken {
            Ok(()) => Answer::Attached,
            Err(fault) => Answer::Fault(WireFault::of(fault)),
        }
    }

    fn hear(&self, from: NodeId, message: Wire) {
        match message {
            Wire::Call {
                number,
                queue,
                call,
            } => {
                let answer = self.answer_call(from, queue, call);
                self.say(from, &Wire::Answered { number, answer });
            }
            Wire::Answered { number, answer } => {
                if let Some(replication) = &self.replication {
                    replication.outward.answered(number, answer);
                }
            }
            Wire::Cancel { queue, consumer } => {
                if let Some(queue) = self.led(queue) {
                    let mut after = After::default();
                    queue.remove_consumer(self, ConsumerId(consumer), &mut after);
                    self.carry_out(&queue, after);
                }
            }
            Wire::Settle {
                queue,
                holder,
                entries,
                how,
            } => {
                if let Some(queue) = self.led(queue) {
                    let entries: Vec<EntryId> = entries.into_iter().map(EntryId).collect();
                    let mut after = After::default();
                    let how = how.settlement();
                    queue.settle(self, HolderId(holder), &entries, how, &mut after);
                    self.carry_out(&queue, after);
                }
            }
            Wire::Detach {
                queue,
                holder,
                cause,
            } => {
                if let Some(queue) = self.led(queue) {
                    self.end_guest(&queue, HolderId(holder), cause.cause());
                }
            }
            Wire::Pause {
                queue,
                consumer,
                why,
            } => {
                if let Some(queue) = self.led(queue) {
                    queue.pause(ConsumerId(consumer), Pause::from_bits(why));
                }
            }
            Wire::Resume {
                queue,
                consumer,
                why,
            } => {
                if let Some(queue) = self.led(queue) {
                    queue.resume(self, ConsumerId(consumer), Pause::from_bits(why));
                }
            }
            Wire::Deliver {
                consumer,
                entry,
                redelivered,
                message,
            } => self.delivered(ConsumerId(consumer), EntryId(entry), redelivered, &message),
            Wire::Cancelled { consumer } => self.cancelled(ConsumerId(consumer)),
            Wire::TimedOut { holder, timeout_ms } => self.close_late(HolderId(holder), timeout_ms),
            Wire::Renew => self.unsettle(from),
            Wire::Publish { number, batch } => self.publish_for(from, number, &batch),
            Wire::Published { number, refused } => self.away_published(number, &refused),
            Wire::Rebalance => {
                if let Some(replication) = &self.replication {
                    replication.balance_now();
                }
            }
        }
    }

    fn end_guest(&self, queue: &Arc<Queue>, holder: HolderId, cause: ReturnCause) {
        let mut after = After::default();
        queue.detach(self, holder, cause, &mut after);
        self.carry_out(queue, after);
    }

    /// A channel of this node kept a delivery of another node's queue for too long.
    fn close_late(&self, holder: HolderId, timeout_ms: u64) {
        for session in &self.sessions {
            let channels = session.channels.lock();
            let late = channels.iter().find(|channel| channel.id == holder);
            if let Some(number) = late.map(|channel| channel.number) {
                session.signals.send(Signal::CloseChannel {
                    number,
                    refusal: Refusal::DeliveryTimedOut {
                        channel: number,
                        timeout_ms,
                    },
                });
            }
        }
    }
}

impl Service for Node {
    fn message(&self, from: NodeId, message: Bytes) {
        match wire::read(&message) {
            Some(message) => self.hear(from, message),
            None => tracing::error!(node = from.0, "a message of another node cannot be read"),
        }
    }

    fn up(&self, node: NodeId) {
        self.unsettle(node);
        self.say(node, &Wire::Renew);
    }

    fn down(&self, node: NodeId) {
        self.unsettle(node);
        self.give_up_published(node);
        let Some(replication) = &self.replication else {
            return;
        };
        let gone: Vec<HolderId> = replication
            .inward
            .holders
            .iter()
            .filter(|guest| guest.value().0 == node)
            .map(|guest| *guest.key())
            .collect();
        if gone.is_empty() {
            return;
        }
        for queue in self.all_queues() {
            for holder in &gone {
                if queue.with_state(|state| state.holders.contains_key(holder)) {
                    self.end_guest(&queue, *holder, ReturnCause::NodeDown);
                }
            }
        }
        for holder in gone {
            replication.inward.holders.remove(&holder);
        }
    }
}
