//! One client's standing: user, vhost, limits, its outbox and what it owns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use amqp::{Table, Value};
use broker_core::flow::{ClientFlow, Threshold};
use broker_core::metadata::ConnectionId;
use broker_core::queue::{ConsumerId, HolderId, Pause, ReturnCause};
use broker_core::{Refusal, UserName, VhostName};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::channel::Channel;
use crate::flow::memory::ConnectionMemory;
use crate::flow::session::SessionFlow;
use crate::holder::Holder;
use crate::node::Node;
use crate::observe::INTERNAL_MECHANISM;
use crate::outbox::Outbox;
use crate::queue::Queue;
use crate::signals::{Signal, Signals};
use crate::tenants::Paced;

/// The mechanism by which channels of other nodes are said to have logged in.
pub(crate) const GUEST_MECHANISM: &str = "(another node)";

/// What a connection says of itself when it opens.
pub struct SessionOptions {
    /// The authenticated user.
    pub user: UserName,
    /// The vhost asked for.
    pub vhost: VhostName,
    /// The client's address.
    pub peer: SocketAddr,
    /// The address it reached.
    pub local: SocketAddr,
    /// The client's own description, capabilities included.
    pub client_properties: Table,
    /// The connection's write side.
    pub outbox: Arc<dyn Outbox>,
    /// Negotiated number of channels.
    pub channel_max: u16,
    /// Negotiated frame size in bytes.
    pub frame_max: u32,
    /// Negotiated heartbeat in seconds, 0 for none.
    pub heartbeat_s: u16,
    /// SASL mechanism used.
    pub mechanism: String,
    /// How the connection is encrypted, if it is.
    pub tls: Option<TlsDetails>,
}

/// A connection's encryption, for listings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsDetails {
    /// The protocol's version.
    pub protocol: String,
    /// The cipher suite.
    pub cipher_suite: String,
    /// Subject of the client's certificate, if it showed one.
    pub subject: Option<String>,
    /// Its issuer.
    pub issuer: Option<String>,
    /// From when to when it is good.
    pub validity: Option<String>,
    /// Its serial number.
    pub serial_number: Option<String>,
}

/// Bytes of a client's own name for its connection that are told.
const CLIENT_NAME_BYTES_MAX: usize = 255;

/// The part of a session that queues, channels and listings share.
pub(crate) struct SessionShared {
    pub(crate) id: ConnectionId,
    pub(crate) options: SessionOptions,
    pub(crate) connected_at_ms: u64,
    /// The client takes `basic.cancel` from the broker.
    pub(crate) cancel_notify: bool,
    pub(crate) signals: Signals,
    /// Messages published on this connection and not yet in their queues.
    in_flight: AtomicU64,
    landed: Notify,
    /// Consumers that wait for room in the outbox.
    waiting: Mutex<Vec<(Arc<Queue>, ConsumerId)>>,
    any_waiting: AtomicBool,
    /// Whether the connection ever declared an exclusive queue.
    pub(crate) owns_exclusive: AtomicBool,
    pub(crate) channels: Mutex<Vec<Arc<Holder>>>,
    pub(crate) flow: SessionFlow,
    pub(crate) memory: ConnectionMemory,
    /// The connection waits, since a tenant has published as much as it may.
    paced: Mutex<Option<Paced>>,
    is_paced: AtomicBool,
    /// Octets that were read from the client, and in how many reads.
    received: (AtomicU64, AtomicU64),
    /// The connection ends: its client's last words are in the outbox.
    ending: AtomicBool,
}

/// An IPv4 client of an IPv6 listener is known by its IPv4 address.
fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl SessionShared {
    /// What the client calls its connection, else its address and the broker's.
    pub(crate) fn client_name(&self) -> String {
        let named = self.options.client_properties.get("connection_name");
        match named.and_then(Value::as_str) {
            Some(name) => name[..name.floor_char_boundary(CLIENT_NAME_BYTES_MAX)].to_owned(),
            None => self.name(),
        }
    }

    /// `peer -> local`, as operators know the connection.
    // rabbitmq: connection names
    pub(crate) fn name(&self) -> String {
        format!("{} -> {}", self.options.peer, self.options.local)
    }

    pub(crate) fn new(
        id: ConnectionId,
        mut options: SessionOptions,
        connected_at_ms: u64,
        client: ClientFlow,
        memory: ConnectionMemory,
    ) -> Self {
        options.peer = unmapped(options.peer);
        options.local = unmapped(options.local);
        let cancel_notify = capability(&options.client_properties, "consumer_cancel_notify");
        Self {
            id,
            options,
            connected_at_ms,
            cancel_notify,
            signals: Signals::default(),
            in_flight: AtomicU64::new(0),
            landed: Notify::new(),
            waiting: Mutex::default(),
            any_waiting: AtomicBool::new(false),
            owns_exclusive: AtomicBool::new(false),
            channels: Mutex::default(),
            flow: SessionFlow::new(client),
            memory,
            paced: Mutex::default(),
            is_paced: AtomicBool::new(false),
            received: Default::default(),
            ending: AtomicBool::new(false),
        }
    }

    /// Whether the client was told that its connection ends, or is not there any more.
    pub(crate) fn was_told_the_end(&self) -> bool {
        self.ending.load(Ordering::Acquire) && self.options.outbox.sent().pending_octets == 0
    }

    /// Octets that were read from the client, and in how many reads.
    pub(crate) fn received(&self) -> (u64, u64) {
        let (octets, reads) = &self.received;
        (
            octets.load(Ordering::Relaxed),
            reads.load(Ordering::Relaxed),
        )
    }

    /// How much longer a publish rate keeps the connection from being heard, and whose limit that
    /// is.
    pub(crate) fn pause(&self) -> Option<(Duration, Refusal)> {
        if !self.is_paced.load(Ordering::Acquire) {
            return None;
        }
        let mut paced = self.paced.lock();
        let left = paced.as_ref().and_then(Paced::left);
        if left.is_none() {
            *paced = None;
            self.is_paced.store(false, Ordering::Release);
        }
        left
    }

    /// Nothing more is heard of the client until then.
    pub(crate) fn pace(&self, paced: Paced) {
        let mut current = self.paced.lock();
        *current = Some(paced);
        self.is_paced.store(true, Ordering::Release);
    }

    /// Whether it was opened within the process, for the HTTP API.
    /// Whether it stands for a channel of another node.
    pub(crate) fn is_guest(&self) -> bool {
        self.options.mechanism == GUEST_MECHANISM
    }

    pub(crate) fn is_internal(&self) -> bool {
        self.options.mechanism == INTERNAL_MECHANISM
    }

    pub(crate) fn departed(&self, messages: u64) {
        self.in_flight.fetch_add(messages, Ordering::AcqRel);
    }

    pub(crate) fn landed(&self, messages: u64) {
        if self.in_flight.fetch_sub(messages, Ordering::AcqRel) == messages {
            self.landed.notify_waiters();
        }
    }

    pub(crate) fn has_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) > 0
    }

    /// Returns when everything published before is in its queues.
    pub(crate) async fn all_landed(&self) {
        loop {
            let landed = self.landed.notified();
            if !self.has_in_flight() {
                return;
            }
            landed.await;
        }
    }

    /// The consumer was paused since the outbox is full.
    pub(crate) fn wait_for_room(&self, queue: Arc<Queue>, consumer: ConsumerId) {
        self.waiting.lock().push((queue, consumer));
        self.any_waiting.store(true, Ordering::Release);
    }

    /// The outbox has room again.
    pub(crate) fn resume_waiting(&self, node: &Node) {
        if !self.any_waiting.swap(false, Ordering::AcqRel) {
            return;
        }
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for (queue, consumer) in waiting {
            queue.resume(node, consumer, Pause::WINDOW);
        }
    }
}

/// Whether the client announced this capability as boolean true.
fn capability(properties: &Table, name: &str) -> bool {
    let Some(Value::Table(capabilities)) = properties.get("capabilities") else {
        return false;
    };
    matches!(capabilities.get(name), Some(Value::Bool(true)))
}

/// A client's session. Its owner must call [`Session::close`] when the connection ends.
pub struct Session {
    node: Arc<Node>,
    shared: Arc<SessionShared>,
}

impl Session {
    pub(crate) fn new(node: Arc<Node>, shared: Arc<SessionShared>) -> Self {
        Self { node, shared }
    }

    /// Number of the connection, unique while the node runs.
    pub fn id(&self) -> ConnectionId {
        self.shared.id
    }

    /// So many octets came in one read.
    pub fn received(&self, octets: usize) {
        let (sum, reads) = &self.shared.received;
        sum.fetch_add(octets as u64, Ordering::Relaxed);
        reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// The user's limit of channels.
    pub fn open_channel(&self, number: u16) -> Result<Channel, Refusal> {
        self.node.check_channel_limit(&self.shared)?;
        let id = HolderId(self.node.next_id());
        let bounds = self.node.flow.options.bounds;
        let holder = Arc::new(Holder::new(id, number, self.shared.clone(), bounds));
        self.shared.channels.lock().push(holder.clone());
        self.node.count_in_hand(&holder);
        if !self.shared.is_internal() {
            self.node.traffic.channel_opened();
        }
        Ok(Channel::new(self.node.clone(), holder))
    }

    /// Whether the user may still use the vhost.
    ///
    /// # Errors
    /// `VhostAccessRefused`.
    pub fn check_vhost_access(&self) -> Result<(), Refusal> {
        let SessionOptions { user, vhost, .. } = &self.shared.options;
        self.node.metadata.read().check_vhost_access(user, vhost)
    }

    /// The writer tells that the outbox fell under half of its mark.
    pub fn drained(&self) {
        self.shared.resume_waiting(&self.node);
    }

    /// The next thing the broker wants of this connection. Cancelling the wait loses nothing.
    pub async fn signal(&self) -> Signal {
        self.shared.signals.next().await
    }

    /// Whether the socket of a publisher must not be read now.
    pub fn must_wait(&self) -> bool {
        self.node.pressure.is_high()
    }

    /// Returns when the socket may be read again.
    pub async fn room(&self) {
        self.node.pressure.eased().await;
    }

    /// Bodies of so many bytes are announced by this connection, all in all; `before` were at the
    /// last call. Charged before they arrive.
    pub fn announce(&self, before: u64, after: u64) {
        let ingest = &self.shared.memory.ingest;
        ingest.add(after.saturating_sub(before));
        ingest.sub(before.saturating_sub(after));
    }

    /// Whether a body that is being received must wait for memory.
    pub fn lacks_memory(&self) -> bool {
        let pool = self.node.flow.memory.pool();
        pool.meter.threshold() == Threshold::Full && !self.shared.flow.consumes()
    }

    /// How long nothing more must be heard of the client, since it, or others of its user or vhost,
    /// published as much as a limit of them allows.
    pub fn pause(&self) -> Option<Duration> {
        self.shared.pause().map(|(left, _)| left)
    }

    /// Whether the socket must not be read, since channels of it wait and nothing that the client
    /// may say frees memory.
    pub fn is_held(&self) -> bool {
        self.shared.flow.must_not_be_read()
    }

    /// Returns when the socket may be read again.
    pub async fn released(&self) {
        self.shared.flow.may_be_read().await;
    }

    /// Ends the session: what its channels hold goes back, exclusive queues are deleted. Done
    /// when it returns; a second call finds nothing to do. A close that the client is to hear of
    /// must be in the outbox before.
    pub async fn close(&self) {
        self.shared.ending.store(true, Ordering::Release);
        let holders = std::mem::take(&mut *self.shared.channels.lock());
        for holder in holders {
            self.node.detach(&holder, ReturnCause::ConnectionLost).await;
            self.node.traffic.channel_closed(&holder);
        }
        if self.shared.owns_exclusive.swap(false, Ordering::AcqRel) {
            self.node.end_connection(self.shared.id).await;
        }
        self.node.forget_session(&self.shared);
    }
}
