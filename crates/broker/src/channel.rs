//! A client's channel: what may be called on it, and the state that only its own calls change.
//!
//! Owned by the connection's task. Hot calls (publish, settle) never wait; their effects gather
//! until [`Channel::end_turn`]. Cold calls end the turn first and wait until what was published
//! before is in its queues, so that a client reads its own writes.

mod chosen;
mod consume;
mod publish;
mod settle;
mod topology;
mod transaction;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use broker_core::channel::{ChannelMode, Prefetch, Resolved, Transaction};
use broker_core::metadata::QueueId;
use broker_core::queue::{ConsumerId, EntryId, ReturnCause, Settlement};
use broker_core::{ConsumerTag, QueueName, Refusal};

pub use consume::{Consume, GotMessage};
pub use publish::Publish;
pub use topology::{BindExchange, BindQueue, DeclareExchange, DeclareQueue, QueueDeclared};

use crate::access::Access;
use crate::holder::Holder;
use crate::node::Node;
use crate::observe::exchange::ExchangeTally;
use crate::queue::Queue;
use crate::route::InlineTurn;
use crate::route_cache::RouteCache;

/// A channel of a session. Its owner must call [`Channel::close`] when it ends.
pub struct Channel {
    node: Arc<Node>,
    holder: Arc<Holder>,
    mode: ChannelMode,
    access: Access,
    routes: RouteCache,
    /// Messages for transient queues of this turn.
    inline: InlineTurn,
    /// Deliveries that ended in this turn, in order, with how.
    settles: Vec<(QueueId, EntryId, Settlement)>,
    resolved: Resolved<QueueId>,
    consumers: HashMap<ConsumerTag, (Arc<Queue>, ConsumerId)>,
    /// The consumer of direct replies, and the name they are published to.
    reply_consumer: Option<(ConsumerTag, QueueName)>,
    last_queue: Option<QueueName>,
    prefetch: Prefetch,
    /// The client takes deliveries: it has not sent `channel.flow(false)`.
    flowing: bool,
    confirms_due: bool,
    /// Cancels of the channel's own consumers wait until the turn ends.
    cancels_held: bool,
    /// What was published in this turn, for the exchanges' counters.
    exchange_tally: ExchangeTally,
    transaction: Transaction<transaction::HeldPublish, QueueId>,
    /// Bytes of the publishes that the transaction holds.
    transaction_bytes: usize,
}

impl Channel {
    pub(crate) fn new(node: Arc<Node>, holder: Arc<Holder>) -> Self {
        let access = Access::new(&holder.session.options);
        Self {
            node,
            holder,
            mode: ChannelMode::Plain,
            access,
            routes: RouteCache::default(),
            inline: InlineTurn::default(),
            settles: Vec::new(),
            resolved: Resolved::new(),
            consumers: HashMap::new(),
            reply_consumer: None,
            last_queue: None,
            prefetch: Prefetch::default(),
            flowing: true,
            confirms_due: false,
            cancels_held: false,
            exchange_tally: ExchangeTally::default(),
            transaction: Transaction::new(),
            transaction_bytes: 0,
        }
    }

    /// The channel's number on its connection.
    pub fn number(&self) -> u16 {
        self.holder.number
    }

    /// Carries out what the calls of this turn have gathered. To be called when all frames of one
    /// read were handled.
    pub fn end_turn(&mut self) {
        self.inline.end(&self.node);
        self.flush_settles();
        self.exchange_tally.flush();
        if std::mem::take(&mut self.confirms_due) {
            self.holder.send_confirms();
        }
        if std::mem::take(&mut self.cancels_held) {
            self.holder.release_cancels();
        }
    }

    /// Ends the turn and waits until everything published on the connection is in its queues.
    async fn settle_down(&mut self) {
        self.end_turn();
        if self.holder.session.has_in_flight() {
            self.holder.session.all_landed().await;
        }
    }

    /// `confirm.select`.
    ///
    /// # Errors
    /// The channel is transactional.
    // amqp: confirm.select; rabbitmq: a second one is answered again.
    pub fn confirm_select(&mut self) -> Result<(), Refusal> {
        self.mode.select_confirm()?;
        self.holder.facts.confirm.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// `channel.flow` from the client: its deliveries pause or go on.
    pub fn flow(&mut self, active: bool) {
        self.end_turn();
        self.flowing = active;
        let pause = broker_core::queue::Pause::CHANNEL_FLOW;
        for (queue, consumer) in self.consumers.values() {
            if active {
                queue.resume(&self.node, *consumer, pause);
            } else {
                self.node.pause(queue, *consumer, pause);
            }
        }
    }

    /// Ends the channel: its consumers leave, what it holds goes back.
    pub async fn close(mut self) {
        self.end_turn();
        self.stop_replies();
        let session = self.holder.session.clone();
        self.node
            .detach(&self.holder, ReturnCause::ChannelClosed)
            .await;
        let ended = {
            let mut channels = session.channels.lock();
            let open = channels.len();
            channels.retain(|holder| !Arc::ptr_eq(holder, &self.holder));
            channels.len() < open
        };
        if ended {
            self.node.traffic.channel_closed(&self.holder);
        }
        session.signals.forget_channel(self.holder.number);
    }
}
