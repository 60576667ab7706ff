//! What a running node shows of itself: queues with their counts, connections, channels and
//! consumers, for listings.
//!
//! Reads only, apart from the two doors that an operator has to what is live (purge, close).
//! Figures are counted by their owners; a look takes one short lock at a time and copies what it
//! needs. Must not know HTTP or JSON.

mod client;
pub(crate) mod deaths;
pub(crate) mod exchange;
mod messages;
mod queue;
mod sizes;
pub(crate) mod traffic;

use std::collections::HashMap;
use std::sync::Arc;

use broker_core::metadata::{ConnectionId, QueueId, QueueRecord};
use broker_core::queue::QueueCounts;
use broker_core::settings::QueueKind;
use broker_core::{Refusal, VhostName};

pub use client::{ChannelView, ConnectionView};
pub use deaths::{DeathCounts, DeathStrategy};
pub use messages::{MessageState, QueuedMessage, Which};
pub use queue::{ConsumerInfo, QueueView};
pub use sizes::{SIZE_CLASSES, SizeCounts};
pub use traffic::{ChurnCounts, QueueTraffic, TrafficCounts};

use crate::broker::Broker;
use crate::queue::After;
use crate::signals::Signal;

/// SASL mechanism of sessions that are opened within the process: they are not shown among the
/// connections.
pub const INTERNAL_MECHANISM: &str = "";

impl Broker {
    /// How many replica groups quorum queues are spread over.
    pub fn group_count(&self) -> u32 {
        self.node().options.groups
    }

    /// What a queue holds; nothing when it is gone.
    pub fn queue_counts(&self, queue: QueueId) -> Option<QueueCounts> {
        self.node().queue(queue).map(|queue| queue.counts())
    }

    /// A queue at this moment; `None` when it is gone.
    pub fn queue_view(&self, record: &Arc<QueueRecord>) -> Option<QueueView> {
        let queue = self.node().queue(record.id)?;
        Some(QueueView::of(&queue, record.clone()))
    }

    /// The consumers of a queue, in the order in which they came.
    pub fn consumers_of(&self, queue: QueueId) -> Vec<ConsumerInfo> {
        self.node()
            .queue(queue)
            .map_or_else(Vec::new, |queue| ConsumerInfo::all_of(&queue))
    }

    /// The open connections, oldest first.
    pub fn connections(&self) -> Vec<ConnectionView> {
        let sessions = &self.node().sessions;
        let mut connections: Vec<_> = sessions
            .iter()
            .filter(|session| session.options.mechanism != INTERNAL_MECHANISM)
            .map(|session| ConnectionView::new(session.value().clone()))
            .collect();
        connections.sort_unstable_by_key(ConnectionView::id);
        connections
    }

    /// A connection, if it is open.
    pub fn connection(&self, id: ConnectionId) -> Option<ConnectionView> {
        let session = self.node().sessions.get(&id)?.value().clone();
        Some(ConnectionView::new(session))
    }

    /// Asks a connection to close; false when there is none.
    pub fn close_connection(&self, id: ConnectionId, refusal: Refusal) -> bool {
        // Gone from the listings at once: tools close connections and then wait for new ones.
        let Some((_, session)) = self.node().sessions.remove(&id) else {
            return false;
        };
        if !session.is_internal() {
            self.node().traffic.connection_closed();
        }
        session.signals.send(Signal::CloseConnection { refusal });
        true
    }

    /// What came and went since the node started.
    pub fn churn(&self) -> ChurnCounts {
        self.node().traffic.churn()
    }

    /// What passed through the node since it started, by vhost that exists, and all in all.
    pub fn traffic(&self) -> (HashMap<VhostName, TrafficCounts>, TrafficCounts) {
        let (closed, mut total) = self.node().traffic.closed();
        let mut by_vhost: HashMap<VhostName, TrafficCounts> = closed.into_iter().collect();
        for session in &self.node().sessions {
            let channels = session.channels.lock().clone();
            for channel in channels {
                let vhost = by_vhost.entry(session.options.vhost.clone()).or_default();
                *vhost += channel.traffic_counts();
            }
        }
        for counts in by_vhost.values() {
            total += *counts;
        }
        (by_vhost, total)
    }

    /// What deleted queues of a type did while they were there.
    pub fn traffic_of_deleted_queues(&self, kind: QueueKind) -> QueueTraffic {
        self.node().traffic.of_deleted_queues(kind)
    }

    /// Messages that died in queues of a type.
    pub fn deaths(&self, kind: QueueKind) -> DeathCounts {
        self.node().traffic.deaths(kind)
    }

    /// Sizes of the messages that were published.
    pub fn message_sizes(&self) -> SizeCounts {
        let mut sizes = self.node().traffic.sizes();
        for session in &self.node().sessions {
            for channel in session.channels.lock().iter() {
                sizes += channel.traffic.sizes.counts();
            }
        }
        sizes
    }

    /// Messages that came into an exchange, and copies that left it for queues.
    pub fn exchange_traffic(&self, vhost: &VhostName, exchange: &str) -> Option<(u64, u64)> {
        Some(
            self.node()
                .traffic
                .exchanges
                .find(vhost, exchange)?
                .counts(),
        )
    }

    /// Looks at every queue, one short lock each.
    pub fn each_queue(&self, mut look: impl FnMut(QueueId, &QueueCounts, &QueueTraffic)) {
        for queue in self.node().all_queues() {
            let (counts, traffic) =
                queue.with_state(|state| (state.machine.counts(), state.traffic));
            look(queue.id, &counts, &traffic);
        }
    }

    /// How many consumers a channel has.
    pub fn consumer_count(&self, channel: &ChannelView) -> usize {
        let queues = channel
            .queues()
            .into_iter()
            .filter_map(|queue| self.node().queue(queue));
        queues.map(|queue| channel.consumers_in(&queue)).sum()
    }

    /// Removes the ready messages of a queue; answers how many, `None` when the queue is gone.
    pub fn purge(&self, queue: QueueId) -> Option<u64> {
        let node = self.node();
        let queue = node.queue(queue)?;
        let mut after = After::default();
        let purged = queue.purge(node, &mut after);
        node.carry_out(&queue, after);
        Some(purged)
    }
}
