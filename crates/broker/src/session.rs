//! One client's standing: user, vhost, limits, its outbox and what it owns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use amqp::{Table, Value};
use broker_core::metadata::ConnectionId;
use broker_core::queue::{ConsumerId, HolderId, Pause, ReturnCause};
use broker_core::{Refusal, UserName, VhostName};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::channel::Channel;
use crate::holder::Holder;
use crate::node::Node;
use crate::observe::INTERNAL_MECHANISM;
use crate::outbox::Outbox;
use crate::queue::Queue;
use crate::signals::{Signal, Signals};

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
}

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
}

impl SessionShared {
    pub(crate) fn new(id: ConnectionId, options: SessionOptions, connected_at_ms: u64) -> Self {
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
        }
    }

    /// Whether it was opened within the process, for the HTTP API.
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

    /// Opens a channel.
    ///
    /// # Errors
    /// The user's limit of channels.
    pub fn open_channel(&self, number: u16) -> Result<Channel, Refusal> {
        self.node.check_channel_limit(&self.shared)?;
        let id = HolderId(self.node.next_id());
        let holder = Arc::new(Holder::new(id, number, self.shared.clone()));
        self.shared.channels.lock().push(holder.clone());
        if !self.shared.is_internal() {
            self.node.traffic.channel_opened();
        }
        Ok(Channel::new(self.node.clone(), holder))
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

    /// Ends the session: what its channels hold goes back, exclusive queues are deleted. Done
    /// when it returns; a second call finds nothing to do.
    pub async fn close(&self) {
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
