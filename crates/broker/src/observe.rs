//! What a running node shows of itself: queues with their counts, connections, channels and
//! consumers, for listings.
//!
//! Reads only, apart from the two doors that an operator has to what is live (purge, close).
//! Figures are counted by their owners; a look takes one short lock at a time and copies what it
//! needs. Must not know HTTP or JSON.

mod client;
mod cluster;
pub(crate) mod deaths;
mod disk;
pub(crate) mod events;
pub(crate) mod exchange;
pub(crate) mod flow;
pub(crate) mod incidents;
mod journal;
mod messages;
mod queue;
mod route;
mod sizes;
pub(crate) mod traffic;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use broker_core::metadata::{ConnectionId, ExchangeRecord, QueueId, QueueRecord};
use broker_core::policy::SettingSource;
use broker_core::queue::QueueCounts;
use broker_core::settings::QueueKind;
use broker_core::{Refusal, VhostName};

pub use crate::disk_space::{Forecast, RESERVE_FOR_ACKS_BYTES};
pub use crate::replication::members::{CopyView, MemberView, MembersFault};
pub use client::{ChannelView, ConnectionView};
pub use cluster::{ClusterNodeView, GroupView};
pub use deaths::{DeathCounts, DeathStrategy, QueueDeaths};
pub use disk::{DiskReport, Pin, QueueDisk};
pub use events::{Event, EventListener, FilesEvent, Heard};
pub use flow::{
    AlarmView, FlowCounts, HeldBy, HeldChannel, HoldView, MemoryView, MeterView, QueueFlow,
};
pub use incidents::{HeldBecause, INCIDENTS_KEPT_MAX, Incident, IncidentKind};
pub use journal::{JournalView, LogView, SYNC_CLASSES_US, StoredView, SyncTimes};
pub use messages::{MessageState, QueuedMessage, Which};
pub use queue::{ConsumerInfo, QueueEnds, QueueView, UnackedAge};
pub use route::Reached;
pub use sizes::{SIZE_CLASSES, SizeCounts};
pub use traffic::{ChurnCounts, Octets, QueueTraffic, TrafficCounts};

use crate::broker::Broker;
use crate::session::SessionShared;
use crate::signals::Signal;

/// SASL mechanism of sessions that are opened within the process: they are not shown among the
/// connections.
pub const INTERNAL_MECHANISM: &str = "";

/// Longest wait until clients whose connections are closed have been told.
const END_TOLD_MAX: Duration = Duration::from_secs(1);

/// Time between two looks whether they have.
const END_LOOK: Duration = Duration::from_millis(1);

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

    /// Closes connections. Done when their clients have been told, or do not read for a second.
    // rabbitmq: who closes a connection is answered when the close is on its way.
    pub async fn close_connections_of(&self, ids: &[ConnectionId], refusal: &Refusal) {
        let ended: Vec<_> = ids
            .iter()
            .filter_map(|id| self.end_connection(*id, refusal))
            .collect();
        let all_told = async {
            for session in ended {
                while !session.was_told_the_end() {
                    tokio::time::sleep(END_LOOK).await;
                }
            }
        };
        let _ = tokio::time::timeout(END_TOLD_MAX, all_told).await;
    }

    fn end_connection(&self, id: ConnectionId, refusal: &Refusal) -> Option<Arc<SessionShared>> {
        // Gone from the listings at once: tools close connections and then wait for new ones.
        let (_, session) = self.node().sessions.remove(&id)?;
        if !session.is_internal() {
            self.node().traffic.connection_closed(&session);
            self.node().events.connection(&session, false);
        }
        let refusal = refusal.clone();
        session.signals.send(Signal::CloseConnection { refusal });
        Some(session)
    }

    /// What went over connections since the node started, those that are closed included.
    pub fn octets(&self) -> Octets {
        let mut sum = self.node().traffic.octets();
        for session in &self.node().sessions {
            let (received, reads) = session.received();
            let sent = session.options.outbox.sent();
            sum.received += received;
            sum.reads += reads;
            sum.sent += sent.octets;
            sum.writes += sent.writes;
        }
        sum
    }

    /// A client has tried to log in over AMQP.
    pub fn note_login(&self, let_in: bool) {
        self.node().traffic.login(let_in);
    }

    /// Logins over AMQP that were let in, and those that were refused.
    pub fn logins(&self) -> (u64, u64) {
        self.node().traffic.logins()
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
        let queues = self.node().all_queues().into_iter();
        for queue in queues.filter(|queue| queue.holds_for.is_none()) {
            let (counts, traffic) =
                queue.with_state(|state| (state.machine.counts(), state.traffic));
            look(queue.id, &counts, &traffic);
        }
    }

    /// Messages that a delayed exchange holds back; `None` for other exchanges.
    pub fn delayed_messages(&self, exchange: &ExchangeRecord) -> Option<u64> {
        let store = self.node().queue(exchange.delay_store?)?;
        Some(store.counts().messages())
    }

    /// Every setting of a queue with its origin (argument, policy, operator policy, default of the
    /// vhost, default), in a fixed order; nothing when the queue is gone.
    pub fn explain_queue(&self, record: &QueueRecord) -> Vec<SettingSource> {
        let explained = self.metadata().explain_settings(record);
        explained.map_or_else(Vec::new, |effective| effective.every_setting())
    }

    /// The last incidents in all queues, oldest first; at most [`INCIDENTS_KEPT_MAX`].
    pub fn recent_incidents(&self) -> Vec<Incident> {
        self.node().incidents.recent()
    }

    /// How often each kind of incident happened since the node started, by [`IncidentKind::name`].
    pub fn incident_counts(&self) -> Vec<(&'static str, u64)> {
        self.node().incidents.counts()
    }

    /// How many consumers a channel has.
    pub fn consumer_count(&self, channel: &ChannelView) -> usize {
        let queues = channel
            .queues()
            .into_iter()
            .filter_map(|queue| self.node().queue(queue));
        queues.map(|queue| channel.consumers_in(&queue)).sum()
    }
}
