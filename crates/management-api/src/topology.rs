//! Queues, exchanges and bindings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::{ConnectionDetails, Consumer};
use crate::flow::QueueFlow;
use crate::rate::{MessageStats, Rate};
use crate::trouble::DeadLettersHeld;

/// A queue. The list form leaves out what only the detailed one has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Queue {
    /// Name.
    pub name: String,
    /// Vhost.
    pub vhost: String,
    /// `classic` or `quorum`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Outlives a restart.
    pub durable: bool,
    /// Deleted with its last consumer.
    pub auto_delete: bool,
    /// For one connection only.
    pub exclusive: bool,
    /// As declared, with the type that was chosen.
    pub arguments: Value,
    /// Where it lives, or its leader.
    pub node: String,
    /// `running`, `flow`, `minority`, `down`.
    pub state: String,
    /// Made by the broker for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal: Option<bool>,
    /// The part of the broker that it is for; false for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_owner: Option<bool>,
    /// The policy that applies; `null` in the detailed form when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Value>,
    /// The operator policy that applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_policy: Option<Value>,
    /// Both in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_policy_definition: Option<Value>,

    /// Members of the replica group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
    /// Those that are up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online: Option<Vec<String>>,
    /// The one that delivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Most counted returns of a message, or the word `unlimited`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_limit: Option<Value>,
    /// `disabled`, or which returns are held back and for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_retry: Option<String>,

    /// The figures; absent when they were not asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub figures: Option<QueueFigures>,
    /// The three counts alone, when only they were asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub totals: Option<QueueCountsOnly>,

    /// Its standing towards its capacity, once it has one or holds somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<QueueFlow>,
    /// Whose it is, for exclusive ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_pid_details: Option<ConnectionDetails>,
    /// Its consumers, in the single form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_details: Option<Vec<Consumer>>,
    /// Deliveries by channel, in the single form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<Vec<Value>>,
    /// Publishes by exchange, in the single form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incoming: Option<Vec<Value>>,
}

/// The three counts of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueCountsOnly {
    /// All messages.
    pub messages: u64,
    /// Those ready.
    pub messages_ready: u64,
    /// Those handed out.
    pub messages_unacknowledged: u64,
}

/// What a queue holds and does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QueueFigures {
    /// All messages.
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
    /// Those that outlive a restart.
    pub messages_persistent: u64,
    /// How long the oldest message has been there at least, in milliseconds; absent while nobody
    /// knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_message_age_ms: Option<u64>,
    /// Those in memory.
    pub messages_ram: u64,
    /// Ready ones in memory (classic queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_ready_ram: Option<u64>,
    /// Handed out and in memory (classic queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_unacknowledged_ram: Option<u64>,
    /// Bytes of all messages, as length limits count them.
    pub message_bytes: u64,
    /// Bytes ready.
    pub message_bytes_ready: u64,
    /// Bytes handed out.
    pub message_bytes_unacknowledged: u64,
    /// Bytes in memory.
    pub message_bytes_ram: u64,
    /// Bytes that outlive a restart.
    pub message_bytes_persistent: u64,
    /// Consumers, waiting ones included.
    pub consumers: u64,
    /// Share of the time in which its consumers could take more, 0 to 1.
    pub consumer_capacity: f64,
    /// The same under its old name.
    pub consumer_utilisation: f64,
    /// Bytes of memory that the queue takes, bodies not counted.
    pub memory: u64,
    /// What happened to messages, once something has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_stats: Option<MessageStats>,
    /// Last use, ISO 8601, while nothing happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<String>,

    /// The active one of consumers that wait for each other; `null` in the detailed form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_active_consumer_tag: Option<Value>,
    /// The one consumer that wanted to be alone (classic queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_consumer_tag: Option<Value>,
    /// Time of the first message by its own word (classic queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_message_timestamp: Option<Value>,
    /// Format of the store (classic queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_version: Option<u8>,

    /// Priorities that have ready messages (quorum queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_active_priorities: Option<u64>,
    /// Ready messages by priority (quorum queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_by_priority: Option<BTreeMap<String, u64>>,
    /// Returned and ready (quorum queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_ready_returned: Option<u64>,
    /// Returned and held back (quorum queues, and others that hold any).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_delayed: Option<u64>,
    /// When the first of them is ready again, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_delayed_at: Option<u64>,
    /// When the last of them is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_delayed_at: Option<u64>,
    /// On their way to the dead-letter exchange (quorum queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_dlx: Option<u64>,
    /// Their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_bytes_dlx: Option<u64>,
    /// Why dead letters stay here, while they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters_held: Option<DeadLettersHeld>,
    /// Messages that died with a dead letter, by reason, once one has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub messages_dead_lettered: BTreeMap<String, u64>,
    /// Messages that died and had nowhere to go, by reason, once one has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub messages_dropped: BTreeMap<String, u64>,
    /// Settlements of deliveries that nobody held any more, once there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_settles: Option<u64>,
    /// Files that are open, by node (quorum queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<BTreeMap<String, u64>>,
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exchange {
    /// Name; empty for the default one.
    pub name: String,
    /// Vhost.
    pub vhost: String,
    /// Type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Outlives a restart.
    pub durable: bool,
    /// Deleted with its last binding.
    pub auto_delete: bool,
    /// Not for publishers.
    pub internal: bool,
    /// As declared.
    pub arguments: Value,
    /// Who made it; the broker does not keep it.
    pub user_who_performed_action: String,
    /// The policy that applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What happened to messages, once something has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_stats: Option<MessageStats>,
    /// Publishes by channel, in the single form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming: Option<Vec<Value>>,
    /// Publishes by queue, in the single form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outgoing: Option<Vec<Value>>,
}

/// A binding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Binding {
    /// The exchange that messages come from.
    pub source: String,
    /// Vhost.
    pub vhost: String,
    /// Where they go.
    pub destination: String,
    /// `queue` or `exchange`.
    pub destination_type: String,
    /// The binding key.
    pub routing_key: String,
    /// As declared.
    pub arguments: Value,
    /// Its name in paths.
    pub properties_key: String,
}
