//! Publishing and getting single messages.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client::ChannelDetails;

/// Body of a publish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishRequest {
    /// By AMQP's names; `headers` is an object.
    pub properties: Map<String, Value>,
    /// The routing key.
    pub routing_key: String,
    /// The body, as `payload_encoding` says.
    pub payload: String,
    /// `string` or `base64`.
    pub payload_encoding: String,
}

/// Answer to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Routed {
    /// Whether a queue took the message.
    pub routed: bool,
}

/// Body of a get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetRequest {
    /// Most messages.
    pub count: u64,
    /// `ack_requeue_true`, `ack_requeue_false`, `reject_requeue_true`, `reject_requeue_false`.
    pub ackmode: String,
    /// `auto` or `base64`.
    pub encoding: String,
    /// Most bytes of each body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncate: Option<usize>,
}

/// A message that was got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GotMessage {
    /// Whether it was handed out before.
    pub redelivered: bool,
    /// Messages still ready.
    pub message_count: u32,
    /// The message itself.
    #[serde(flatten)]
    pub content: MessageContent,
}

/// A message that was looked at where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueuedMessage {
    /// Its number in the queue, growing in the order of publishing.
    pub entry: u64,
    /// `ready`, `unacked`, `delayed`, `dead-lettering`.
    pub state: String,
    /// Bytes as the length limits count them.
    pub bytes: u32,
    /// The level it is delivered at.
    pub priority: u8,
    /// Whether the publisher wants it kept.
    pub persistent: bool,
    /// When it expires, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Returns that count towards the delivery limit.
    pub delivery_count: u32,
    /// All returns.
    pub acquired_count: u32,
    /// The consumer that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_tag: Option<String>,
    /// The channel that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_details: Option<ChannelDetails>,
    /// Since when it is handed out, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unacked_since: Option<u64>,
    /// When it is ready again, in milliseconds since the epoch, while it is held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed_until: Option<u64>,
    /// Exchange, routing key, properties and body, unless it has left meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageContent>,
}

/// What a message consists of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageContent {
    /// Size of the whole body.
    pub payload_bytes: usize,
    /// Exchange of the original publish.
    pub exchange: String,
    /// Routing key of the original publish.
    pub routing_key: String,
    /// By AMQP's names. An empty block is an empty array, as RabbitMQ writes it.
    pub properties: Value,
    /// The body, as `payload_encoding` says.
    pub payload: String,
    /// `string` when it is UTF-8, else `base64`.
    pub payload_encoding: String,
}
