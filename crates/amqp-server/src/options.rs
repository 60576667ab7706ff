//! What the operator decides about AMQP connections, as values with RabbitMQ's defaults.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

/// The smallest frame size that may be negotiated: the protocol's own minimum. RabbitMQ refuses
/// below 8192 and thereby shuts out old Node clients.
// amqp 1.4.2.1.1.6 tune-ok frame-max
pub const FRAME_SIZE_MIN: u32 = 4096;

/// The largest frame size that can be offered: above it a single frame would be a memory threat.
pub const FRAME_SIZE_CEILING: u32 = 16 << 20;

/// The largest body that a content header may announce.
// rabbitmq: 512 MiB
pub const MESSAGE_SIZE_CEILING: u64 = 512 << 20;

/// Options of an [`AmqpServer`](crate::AmqpServer). Fields are plain values; out-of-range ones
/// are brought into range by [`AmqpServerOptions::bounded`].
#[derive(Clone, Debug)]
pub struct AmqpServerOptions {
    /// Who we say we are in connection.start.
    pub identity: ServerIdentity,
    /// Offered frame size in bytes, envelope included.
    pub frame_max: u32,
    /// Offered number of channels open at once on one connection; at least 1.
    pub channel_max: u16,
    /// Offered heartbeat in seconds; 0 turns heartbeats off unless the client wants them.
    pub heartbeat_s: u16,
    /// Largest body that is taken, in bytes.
    pub max_message_size: u64,
    /// Sockets served at once; more are closed as soon as they are accepted.
    pub connections_max: usize,
    /// From accept to connection.open-ok.
    pub handshake_timeout: Duration,
    /// How long a peer that failed before or against the protocol is kept waiting until its
    /// socket is dropped: a brake on guessing passwords, and time to read our last words.
    pub refusal_delay: Duration,
    /// Whether `channel.flow` from a client pauses its deliveries. RabbitMQ answers 540 instead.
    pub obeys_client_flow: bool,
    /// How long connections may take to end after a shutdown.
    pub shutdown_grace: Duration,
    /// Connections that the kernel keeps until they are accepted.
    pub backlog: i32,
}

impl Default for AmqpServerOptions {
    fn default() -> Self {
        Self {
            identity: ServerIdentity::default(),
            frame_max: 131_072,
            channel_max: 2047,
            heartbeat_s: 60,
            max_message_size: 16 << 20,
            connections_max: 65_536,
            handshake_timeout: Duration::from_secs(10),
            refusal_delay: Duration::from_secs(3),
            obeys_client_flow: true,
            shutdown_grace: Duration::from_secs(5),
            backlog: 1024,
        }
    }
}

impl AmqpServerOptions {
    /// The same options with every number inside its bounds.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.frame_max = self.frame_max.clamp(FRAME_SIZE_MIN, FRAME_SIZE_CEILING);
        self.channel_max = self.channel_max.max(1);
        self.max_message_size = self.max_message_size.min(MESSAGE_SIZE_CEILING);
        self.connections_max = self.connections_max.max(1);
        self.backlog = self.backlog.max(1);
        self
    }
}

/// Options that can be replaced while servers run. Connections that come later go by them; those
/// that are open keep what they were told. Clones share one value.
#[derive(Clone, Debug)]
pub struct LiveOptions(Arc<ArcSwap<AmqpServerOptions>>);

impl LiveOptions {
    /// Replaces them.
    pub fn set(&self, options: AmqpServerOptions) {
        self.0.store(Arc::new(options.bounded()));
    }

    pub(crate) fn now(&self) -> Arc<AmqpServerOptions> {
        self.0.load_full()
    }
}

impl From<AmqpServerOptions> for LiveOptions {
    fn from(options: AmqpServerOptions) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(options.bounded())))
    }
}

/// The server-properties of connection.start. Clients choose behaviour by `product` and
/// `version`, so the version is the RabbitMQ level that is spoken.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    /// `cluster_name`.
    pub cluster_name: String,
    /// `copyright`.
    pub copyright: String,
    /// `information`.
    pub information: String,
    /// `platform`.
    pub platform: String,
    /// `product`.
    pub product: String,
    /// `version`: three numbers.
    pub version: String,
    /// `sluicemq_version`: the version of this program.
    pub sluicemq_version: String,
}

impl Default for ServerIdentity {
    fn default() -> Self {
        Self {
            cluster_name: "sluicemq@localhost".into(),
            copyright: "The SluiceMQ authors".into(),
            information: "Licensed under the Apache License 2.0".into(),
            platform: "Rust".into(),
            product: "SluiceMQ".into(),
            version: "4.3.6".into(),
            sluicemq_version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}
