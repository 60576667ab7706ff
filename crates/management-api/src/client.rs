//! Connections, channels and consumers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flow::ChannelHold;
use crate::rate::{MessageStats, Rate};

/// A connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connection {
    /// `peer:port -> local:port`.
    pub name: String,
    /// The client's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_provided_name: Option<String>,
    /// Where it is served.
    pub node: String,
    /// The address that was reached.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The client's address.
    pub peer_host: String,
    /// Its port.
    pub peer_port: u16,
    /// `AMQP 0-9-1`.
    pub protocol: String,
    /// `network`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `running`, `flow`, `blocked`.
    pub state: String,
    /// Vhost.
    pub vhost: String,
    /// User.
    pub user: String,
    /// The same.
    pub user_who_performed_action: String,
    /// SASL mechanism.
    pub auth_mechanism: String,
    /// Milliseconds since the epoch.
    pub connected_at: u64,
    /// Heartbeat in seconds.
    pub timeout: u16,
    /// Negotiated frame size in bytes.
    pub frame_max: u32,
    /// Negotiated number of channels.
    pub channel_max: u16,
    /// Open channels.
    pub channels: usize,
    /// The client's own description.
    pub client_properties: Value,
    /// Whether it is encrypted; the details follow.
    pub ssl: bool,
    /// TLS version.
    pub ssl_protocol: Option<String>,
    /// Cipher.
    pub ssl_cipher: Option<String>,
    /// Hash.
    pub ssl_hash: Option<String>,
    /// Key exchange.
    pub ssl_key_exchange: Option<String>,
    /// Of the client's certificate.
    pub peer_cert_subject: Option<String>,
    /// Of the client's certificate.
    pub peer_cert_issuer: Option<String>,
    /// Of the client's certificate.
    pub peer_cert_validity: Option<String>,
    /// Of the client's certificate.
    pub peer_cert_serial_number: Option<String>,
    /// Octets read.
    pub recv_oct: u64,
    /// Its rate.
    pub recv_oct_details: Rate,
    /// Reads.
    pub recv_cnt: u64,
    /// Octets written.
    pub send_oct: u64,
    /// Its rate.
    pub send_oct_details: Rate,
    /// Writes.
    pub send_cnt: u64,
    /// Octets that wait to be written.
    pub send_pend: u64,
    /// Bytes of bodies that were announced and are being received.
    #[serde(default)]
    pub ingest_bytes: u64,
    /// Bytes of messages that wait with its channels, in memory.
    #[serde(default)]
    pub parked_bytes: u64,
}

/// A connection in the list of one user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserConnection {
    /// As in [`Connection`].
    pub name: String,
    /// Vhost.
    pub vhost: String,
    /// User.
    pub user: String,
    /// Where it is served.
    pub node: String,
}

/// A connection that something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionDetails {
    /// As in [`Connection`].
    pub name: String,
    /// The client's address.
    pub peer_host: String,
    /// Its port.
    pub peer_port: u16,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Channel {
    /// The connection's name and the number in brackets.
    pub name: String,
    /// Number on its connection.
    pub number: u16,
    /// Where it is served.
    pub node: String,
    /// Vhost.
    pub vhost: String,
    /// User.
    pub user: String,
    /// The same.
    pub user_who_performed_action: String,
    /// `running` or `flow`.
    pub state: String,
    /// Its connection.
    pub connection_details: ConnectionDetails,
    /// Prefetch of consumers to come.
    pub prefetch_count: u16,
    /// Consumers.
    pub consumer_count: usize,
    /// Whether it confirms.
    pub confirm: bool,
    /// Whether it is transactional.
    pub transactional: bool,
    /// Deliveries that wait for an ack.
    pub messages_unacknowledged: u64,
    /// Publishes that wait for a confirm.
    pub messages_unconfirmed: u64,
    /// Publishes that wait for a commit.
    pub messages_uncommitted: u64,
    /// Acks that wait for a commit.
    pub acks_uncommitted: u64,
    /// Publishes that wait for a replica group.
    pub pending_raft_commands: u64,
    /// Kept for tools that read it: nothing of the kind is cached.
    pub cached_segments: u64,
    /// Last use, ISO 8601, while nothing happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<String>,
    /// What happened to messages, once something has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_stats: Option<MessageStats>,
    /// What it waits for, while something holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<ChannelHold>,
    /// Its consumers, in the single form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_details: Option<Vec<Consumer>>,
    /// Deliveries by queue, in the single form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<Vec<Value>>,
    /// Publishes by exchange, in the single form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publishes: Option<Vec<Value>>,
}

/// A consumer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Consumer {
    /// Its tag.
    pub consumer_tag: String,
    /// As it was started.
    pub arguments: Value,
    /// Whether it acknowledges.
    pub ack_required: bool,
    /// Whether it wanted to be alone.
    pub exclusive: bool,
    /// Whether it is served.
    pub active: bool,
    /// `up`, `single_active`, `waiting`, `timeout`.
    pub activity_status: String,
    /// Most unsettled deliveries; 0 is no limit.
    pub prefetch_count: u16,
    /// Longest time for an ack in milliseconds; 0 for none.
    pub consumer_timeout: u64,
    /// Its queue.
    pub queue: QueueRef,
    /// Its channel.
    pub channel_details: ChannelDetails,
}

/// A queue that something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueRef {
    /// Name.
    pub name: String,
    /// Vhost.
    pub vhost: String,
}

/// A channel that something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelDetails {
    /// The connection's name.
    pub connection_name: String,
    /// The channel's name.
    pub name: String,
    /// Where it is served.
    pub node: String,
    /// Its number.
    pub number: u16,
    /// The client's address.
    pub peer_host: String,
    /// Its port.
    pub peer_port: u16,
    /// User.
    pub user: String,
}
