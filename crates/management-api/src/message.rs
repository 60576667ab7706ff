//! Publishing and getting single messages.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Body of a publish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
pub struct Routed {
    /// Whether a queue took the message.
    pub routed: bool,
}

/// Body of a get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct GotMessage {
    /// Size of the whole body.
    pub payload_bytes: usize,
    /// Whether it was handed out before.
    pub redelivered: bool,
    /// Exchange of the original publish.
    pub exchange: String,
    /// Routing key of the original publish.
    pub routing_key: String,
    /// Messages still ready.
    pub message_count: u32,
    /// By AMQP's names. An empty block is an empty array, as RabbitMQ writes it.
    pub properties: Value,
    /// The body, as `payload_encoding` says.
    pub payload: String,
    /// `string` when it is UTF-8, else `base64`.
    pub payload_encoding: String,
}
