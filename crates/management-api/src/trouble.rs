//! What goes wrong in queues: incidents, and dead letters that cannot go.

use serde::{Deserialize, Serialize};

/// Something that happened in a queue and that somebody may want to look into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Incident {
    /// `poison-loop`, `delivery-timed-out`, `dead-letters-held`, `dead-letters-released`,
    /// `queue-overfull`, `queue-underfull`, `waited-too-long`.
    pub kind: String,
    /// When, ISO 8601.
    pub time: String,
    /// The queue's vhost.
    pub vhost: String,
    /// The queue.
    pub queue: String,
    /// The same in a sentence.
    pub text: String,
    /// The consumer; absent when the message was got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_tag: Option<String>,
    /// What the client calls its connection, else its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The channel's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<u16>,
    /// The delivery on that channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_tag: Option<u64>,
    /// The message's number in its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// How often the consumer gave the message back within a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<u32>,
    /// The timeout that applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What followed: `close`, `cancel`, `return`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

/// How often a kind of incident happened since the node started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IncidentCount {
    /// The kind.
    pub kind: String,
    /// How often, also when the list has forgotten the oldest.
    pub count: u64,
}

/// Why dead letters stay where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadLettersHeld {
    /// In a sentence.
    pub why: String,
    /// Since when, ISO 8601.
    pub since: String,
}
