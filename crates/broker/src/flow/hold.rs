//! A channel that is held: carries out what the rules decide about it.

use std::fmt::{Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use amqp::Value;
use broker_core::flow::{
    ChannelHold, ChannelSubject, Delayed, Enforced, HoldEffect, HoldEffects, Ignored, Place,
    Removed,
};
use broker_core::metadata::QueueId;
use broker_core::{QueueName, Refusal, Timestamp};

use super::count;
use crate::clock;
use crate::holder::Holder;
use crate::node::Node;
use crate::queue::Queue;
use crate::signals::Signal;

/// Why a queue holds a channel. In the log it is told as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause<'a> {
    /// The queue is overfull, or others wait for it.
    Capacity(&'a QueueName),
    /// The queue's memory, or its share of the memory around it, is full.
    Memory(&'a QueueName),
    /// An alarm of the node.
    Alarm(&'static str),
}

impl Cause<'_> {
    /// Its place among the counters of [`super::FlowTally`].
    fn kind(&self) -> usize {
        match self {
            Cause::Capacity(_) => 0,
            Cause::Memory(_) => 1,
            Cause::Alarm(_) => 2,
        }
    }
}

impl Display for Cause<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Capacity(queue) => write!(f, "Queue {queue}"),
            Cause::Memory(queue) => write!(f, "Queue {queue}, memory"),
            Cause::Alarm(reason) => write!(f, "Broker {reason}"),
        }
    }
}

/// What is known of a channel's waiting. Under the channel's lock for it.
pub(crate) struct HolderFlow {
    pub(crate) hold: ChannelHold<QueueId>,
    /// The queues among the causes, with what the log calls them.
    pub(crate) queues: Vec<(Arc<Queue>, String)>,
    /// The session was told to press for this channel.
    pub(crate) pressed: bool,
    /// Since when messages are refused that nobody is told of.
    pub(crate) refused_since: Option<Timestamp>,
    /// The channel is to be closed, or is gone: it is held no more.
    pub(crate) ended: bool,
}

impl HolderFlow {
    pub(crate) fn new(hold: ChannelHold<QueueId>) -> Self {
        Self {
            hold,
            queues: Vec::new(),
            pressed: false,
            refused_since: None,
            ended: false,
        }
    }

    fn cause(&self) -> &str {
        self.queues.first().map_or("", |(_, cause)| cause)
    }
}

impl Holder {
    fn subject(&self) -> ChannelSubject<'_> {
        let options = &self.session.options;
        ChannelSubject {
            connection: self.session.id.0,
            user: options.user.as_str(),
            peer: options.peer,
            vhost: &options.vhost,
            channel: self.number,
        }
    }

    /// The queue holds the channel from here on. Answers false when the channel has ended. Called
    /// under the queue's gate.
    pub(crate) fn hold(
        self: &Arc<Self>,
        node: &Node,
        queue: &Arc<Queue>,
        cause: Cause<'_>,
    ) -> bool {
        let now = clock::now();
        let mut flow = self.flow.lock();
        if flow.ended {
            return false;
        }
        if !flow
            .queues
            .iter()
            .any(|(held_by, _)| held_by.id == queue.id)
        {
            flow.queues.push((queue.clone(), cause.to_string()));
            count(&node.flow.tally.holds[cause.kind()], 1);
        }
        let effects = flow.hold.hold(now, queue.id);
        self.carry_out(node, &mut flow, effects);
        let effects = flow.hold.published(now);
        self.carry_out(node, &mut flow, effects);
        true
    }

    /// The queue lets go of the channel. Called under the queue's gate.
    pub(crate) fn let_go(self: &Arc<Self>, node: &Node, queue: QueueId) {
        let mut flow = self.flow.lock();
        let effects = flow.hold.release(queue);
        self.carry_out(node, &mut flow, effects);
        flow.queues.retain(|(held_by, _)| held_by.id != queue);
    }

    /// The channel waited too long for the queue. Called under the queue's gate.
    pub(crate) fn time_out(self: &Arc<Self>, node: &Node, queue: QueueId) {
        let mut flow = self.flow.lock();
        let effects = flow.hold.time_out(queue);
        self.carry_out(node, &mut flow, effects);
    }

    pub(crate) fn tick(self: &Arc<Self>, node: &Node) {
        let mut flow = self.flow.lock();
        let effects = flow.hold.tick(clock::now());
        self.carry_out(node, &mut flow, effects);
    }

    /// Whether what comes for this queue is refused.
    pub(crate) fn is_refused_by(&self, queue: QueueId) -> bool {
        self.flow.lock().hold.rejects(queue)
    }

    /// Finds a place for a message that must wait.
    pub(crate) fn find_place(self: &Arc<Self>, node: &Node, len: u64) -> Place {
        let room = node.flow.has_disk(len)
            && self.spill.lock().len() + len <= 2 * node.flow.options.bounds.spill_bytes;
        let memory = node.flow.has_memory(len, node.pressure.staged_bytes());
        let mut flow = self.flow.lock();
        let (place, effects) = flow.hold.park(len, memory, room);
        self.carry_out(node, &mut flow, effects);
        place
    }

    /// A message waits no more.
    pub(crate) fn unpark(self: &Arc<Self>, node: &Node, len: u64, place: Place) {
        let mut flow = self.flow.lock();
        let effects = flow.hold.unpark(len, place);
        self.carry_out(node, &mut flow, effects);
    }

    /// The channel has ended: whatever waits for it is forgotten. It was never confirmed.
    pub(crate) fn end_hold(self: &Arc<Self>, node: &Node) {
        let queues = {
            let mut flow = self.flow.lock();
            flow.ended = true;
            std::mem::take(&mut flow.queues)
        };
        for (queue, _) in queues {
            queue.gate.forget(self);
        }
        let mut flow = self.flow.lock();
        if std::mem::take(&mut flow.pressed) {
            self.session.flow.ease(&self.session.signals);
        }
        drop(flow);
        node.flow.channel_released(self);
    }

    /// A message of a publisher without confirms was refused. What comes within the grace after the
    /// first one is forgotten; then the channel is closed.
    pub(crate) fn refused_plainly(self: &Arc<Self>, node: &Node, queue: &Queue) {
        let now = clock::now();
        let since = *self.flow.lock().refused_since.get_or_insert(now);
        if now.since(since).0 >= node.flow.options.bounds.grace_ms {
            self.close_for(node, queue);
        }
    }

    /// A publisher without confirms learns of a refused message by the end of its channel.
    pub(crate) fn close_for(self: &Arc<Self>, node: &Node, queue: &Queue) {
        let mut flow = self.flow.lock();
        if std::mem::replace(&mut flow.ended, true) {
            return;
        }
        drop(flow);
        tracing::warn!("{} {Ignored}", self.subject());
        let refusal = Refusal::HeldTooLong {
            queue: queue.name.clone(),
            vhost: queue.vhost.clone(),
        };
        self.session.signals.send(Signal::CloseChannel {
            number: self.number,
            refusal,
        });
        node.flow.tally.ignored(self.product());
    }

    /// What the client calls its library.
    fn product(&self) -> &str {
        let product = self.session.options.client_properties.get("product");
        product.and_then(Value::as_str).unwrap_or_default()
    }

    fn carry_out(
        self: &Arc<Self>,
        node: &Node,
        flow: &mut HolderFlow,
        effects: HoldEffects<QueueId>,
    ) {
        for effect in effects {
            self.carry_out_one(node, flow, effect);
        }
    }

    fn carry_out_one(
        self: &Arc<Self>,
        node: &Node,
        flow: &mut HolderFlow,
        effect: HoldEffect<QueueId>,
    ) {
        let session = &self.session;
        match effect {
            HoldEffect::Enforced(queue) => {
                let cause = flow.queues.iter().find(|(held_by, _)| held_by.id == queue);
                let cause = cause.map_or("", |(_, cause)| cause);
                tracing::info!("{} {}", self.subject(), Enforced(cause));
                node.flow.channel_held(self);
            }
            HoldEffect::Removed => {
                tracing::info!("{} {Removed}", self.subject());
                node.flow.channel_released(self);
            }
            HoldEffect::Flow(active) => {
                count(&node.flow.tally.flow_frames, 1);
                session.signals.send(Signal::Flow {
                    channel: self.number,
                    active,
                });
            }
            HoldEffect::Press => {
                flow.pressed = true;
                count(&node.flow.tally.readings_stopped, 1);
                session.flow.press(&session.signals, flow.cause());
            }
            HoldEffect::Ease => {
                if std::mem::take(&mut flow.pressed) {
                    session.flow.ease(&session.signals);
                }
            }
            HoldEffect::Delayed { seconds } => {
                let cause = flow.cause();
                tracing::info!("{} {}", self.subject(), Delayed { cause, seconds });
            }
            HoldEffect::Ignored => {
                node.flow.tally.ignored(self.product());
                tracing::warn!(
                    "{} the client publishes on after channel.flow; it is not asked again",
                    self.subject()
                );
            }
        }
    }

    /// Since when the queue holds the channel.
    pub(crate) fn held_since(&self, queue: QueueId) -> Option<Timestamp> {
        let flow = self.flow.lock();
        let held = flow.hold.causes().find(|(cause, _)| *cause == queue);
        held.map(|(_, since)| since)
    }

    /// Whether its publishes are neither confirmed nor part of a transaction: nothing but the end
    /// of the channel tells it that one was refused.
    pub(crate) fn publishes_plainly(&self) -> bool {
        let facts = &self.facts;
        !facts.confirm.load(Ordering::Relaxed) && !facts.transactional.load(Ordering::Relaxed)
    }
}
