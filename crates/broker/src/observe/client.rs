//! Connections and channels, for listings.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use amqp::Table;
use broker_core::metadata::{ConnectionId, QueueId};
use broker_core::queue::ConsumerView;
use broker_core::{Refusal, UserName, VhostName};

use crate::holder::Holder;
use crate::outbox::Sent;
use crate::queue::Queue;
use crate::session::{SessionShared, TlsDetails};

use super::flow::HoldView;
use super::traffic::TrafficCounts;

/// An open connection.
#[derive(Clone)]
pub struct ConnectionView(Arc<SessionShared>);

impl ConnectionView {
    pub(super) fn new(session: Arc<SessionShared>) -> Self {
        Self(session)
    }

    /// Its number, unique while the node runs.
    pub fn id(&self) -> ConnectionId {
        self.0.id
    }

    /// `peer -> local`, as operators know it.
    // rabbitmq: connection names
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.0.options.peer
    }

    /// The address that it reached.
    pub fn local(&self) -> SocketAddr {
        self.0.options.local
    }

    /// The authenticated user.
    pub fn user(&self) -> &UserName {
        &self.0.options.user
    }

    /// The vhost.
    pub fn vhost(&self) -> &VhostName {
        &self.0.options.vhost
    }

    /// The client's own description.
    pub fn client_properties(&self) -> &Table {
        &self.0.options.client_properties
    }

    /// Negotiated number of channels.
    pub fn channel_max(&self) -> u16 {
        self.0.options.channel_max
    }

    /// Negotiated frame size in bytes.
    pub fn frame_max(&self) -> u32 {
        self.0.options.frame_max
    }

    /// Negotiated heartbeat in seconds.
    pub fn heartbeat_s(&self) -> u16 {
        self.0.options.heartbeat_s
    }

    /// How it is encrypted, if it is.
    pub fn tls(&self) -> Option<&TlsDetails> {
        self.0.options.tls.as_ref()
    }

    /// SASL mechanism.
    pub fn mechanism(&self) -> &str {
        &self.0.options.mechanism
    }

    /// When it was opened, milliseconds since the epoch.
    pub fn connected_at_ms(&self) -> u64 {
        self.0.connected_at_ms
    }

    /// Whether it was told `connection.blocked`.
    pub fn is_blocked(&self) -> bool {
        self.0.flow.is_blocked()
    }

    /// Whether it is not read, since its publishers wait.
    pub fn is_held(&self) -> bool {
        self.0.flow.must_not_be_read()
    }

    /// The limit of a user or vhost that keeps it from being read now.
    pub fn paced_by(&self) -> Option<Refusal> {
        self.0.pause().map(|(_, why)| why)
    }

    /// Octets that were read from the client, and in how many reads.
    pub fn received(&self) -> (u64, u64) {
        self.0.received()
    }

    /// What has left towards the client.
    pub fn sent(&self) -> Sent {
        self.0.options.outbox.sent()
    }

    /// Bytes of its bodies that were announced and are being received.
    pub fn ingest_bytes(&self) -> u64 {
        self.0.memory.ingest.used()
    }

    /// Bytes of its messages that wait with its channels, in memory.
    pub fn parked_bytes(&self) -> u64 {
        self.0.memory.parked.used()
    }

    /// Whether one of its channels is held.
    pub fn has_held_channel(&self) -> bool {
        let channels = self.0.channels.lock();
        channels
            .iter()
            .any(|holder| holder.flow.lock().hold.since().is_some())
    }

    /// How many channels are open.
    pub fn channel_count(&self) -> usize {
        self.0.channels.lock().len()
    }

    /// The open channels, in the order in which they were opened.
    pub fn channels(&self) -> Vec<ChannelView> {
        self.0
            .channels
            .lock()
            .iter()
            .cloned()
            .map(ChannelView)
            .collect()
    }
}

/// An open channel.
#[derive(Clone)]
pub struct ChannelView(Arc<Holder>);

impl ChannelView {
    pub(super) fn new(holder: Arc<Holder>) -> Self {
        Self(holder)
    }

    /// Number on its connection.
    pub fn number(&self) -> u16 {
        self.0.number
    }

    /// The connection's name and the number in brackets.
    // rabbitmq: channel names
    pub fn name(&self) -> String {
        format!("{} ({})", self.connection().name(), self.number())
    }

    /// Its connection.
    pub fn connection(&self) -> ConnectionView {
        ConnectionView(self.0.session.clone())
    }

    /// Deliveries that wait for an ack.
    pub fn unacked(&self) -> u64 {
        self.0.deliveries.lock().unacked.len() as u64
    }

    /// Publishes that wait for a confirm.
    pub fn unconfirmed(&self) -> u64 {
        self.0.unconfirmed()
    }

    /// Publishes that wait for a commit.
    pub fn uncommitted(&self) -> u64 {
        self.0.facts.uncommitted.load(Ordering::Relaxed)
    }

    /// Whether it confirms.
    pub fn is_confirming(&self) -> bool {
        self.0.facts.confirm.load(Ordering::Relaxed)
    }

    /// Whether it is transactional.
    pub fn is_transactional(&self) -> bool {
        self.0.facts.transactional.load(Ordering::Relaxed)
    }

    /// Prefetch of consumers to come; 0 is no limit.
    pub fn prefetch(&self) -> u16 {
        self.0.facts.prefetch.load(Ordering::Relaxed)
    }

    /// What passed through it since it was opened.
    pub fn traffic(&self) -> TrafficCounts {
        self.0.traffic_counts()
    }

    /// Its number, unique while the node runs.
    pub fn id(&self) -> u64 {
        self.0.id.0
    }

    /// What makes its publisher wait; `None` when nothing does.
    pub fn hold(&self) -> Option<HoldView> {
        HoldView::of(&self.0)
    }

    /// Queues that deliver to it, or did.
    pub(super) fn queues(&self) -> Vec<QueueId> {
        self.0.deliveries.lock().queues.clone()
    }

    pub(super) fn consumers_in(&self, queue: &Queue) -> usize {
        let is_own = |view: &ConsumerView<'_>| view.consumer.holder == self.0.id;
        queue.with_state(|state| state.machine.consumers().filter(is_own).count())
    }
}
