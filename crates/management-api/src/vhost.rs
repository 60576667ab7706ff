//! Vhosts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rate::{MessageStats, Rate};

/// A vhost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vhost {
    /// Name.
    pub name: String,
    /// For people.
    pub description: String,
    /// For people.
    pub tags: Vec<String>,
    /// The type of queues that do not name one.
    pub default_queue_type: String,
    /// Whether it cannot be deleted.
    pub protected_from_deletion: bool,
    /// The same once more, as definitions have it.
    pub metadata: VhostMetadata,
    /// Whether the firehose runs.
    pub tracing: bool,
    /// Node name to `running`.
    pub cluster_state: BTreeMap<String, String>,
    /// Messages of all queues.
    pub messages: u64,
    /// Its rate.
    pub messages_details: Rate,
    /// Those ready.
    pub messages_ready: u64,
    /// Its rate.
    pub messages_ready_details: Rate,
    /// Those handed out.
    pub messages_unacknowledged: u64,
    /// Its rate.
    pub messages_unacknowledged_details: Rate,
    /// What happened to messages, once something has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_stats: Option<MessageStats>,
    /// Octets read from connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recv_oct: Option<u64>,
    /// Its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recv_oct_details: Option<Rate>,
    /// Octets written to connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_oct: Option<u64>,
    /// Its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_oct_details: Option<Rate>,
}

/// What an operator says of a vhost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VhostMetadata {
    /// For people.
    pub description: String,
    /// For people.
    pub tags: Vec<String>,
    /// The type of queues that do not name one.
    pub default_queue_type: String,
    /// Present when it is true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected_from_deletion: bool,
}
