//! The cluster as a whole, and its nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rate::{MessageStats, Rate};

/// The first page of every dashboard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// The level of RabbitMQ's API that is spoken.
    pub management_version: String,
    /// `basic`.
    pub rates_mode: String,
    /// How long samples are kept, in seconds.
    pub sample_retention_policies: SampleRetentionPolicies,
    /// Exchange types that can be declared.
    pub exchange_types: Vec<ExchangeType>,
    /// The program.
    pub product_name: String,
    /// Its version.
    pub product_version: String,
    /// The level of RabbitMQ that is spoken.
    pub rabbitmq_version: String,
    /// The cluster.
    pub cluster_name: String,
    /// An operator's tags.
    pub cluster_tags: Value,
    /// An operator's tags.
    pub node_tags: Map<String, Value>,
    /// Kept for tools that read it: the runtime's version.
    pub erlang_version: String,
    /// The same at length.
    pub erlang_full_version: String,
    /// The cryptographic library.
    pub crypto_lib_version: String,
    /// Whether statistics are off.
    pub disable_stats: bool,
    /// The type of queues that do not name one.
    pub default_queue_type: String,
    /// Whether operator policies can be changed here.
    pub is_op_policy_updating_enabled: bool,
    /// Whether queue totals are on while statistics are off.
    pub enable_queue_totals: bool,
    /// Whether an import wants a file name that ends in `.json`.
    pub require_definition_json_extension: bool,
    /// What happened to messages.
    pub message_stats: MessageStats,
    /// What came and went.
    pub churn_rates: ChurnRates,
    /// Messages of all queues; empty while there are no queues.
    pub queue_totals: QueueTotals,
    /// How many there are of each kind.
    pub object_totals: ObjectTotals,
    /// Kept for tools that read it: events are not queued.
    pub statistics_db_event_queue: u64,
    /// The node that answers; for monitoring users, as the two that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What is listened on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listeners: Option<Vec<Listener>>,
    /// Where the HTTP listeners are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Vec<Context>>,
}

/// Seconds that samples of each kind are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampleRetentionPolicies {
    /// Of the cluster and of vhosts.
    pub global: Vec<u64>,
    /// Of queues, exchanges, connections and channels.
    pub basic: Vec<u64>,
    /// Of pairs of them.
    pub detailed: Vec<u64>,
}

/// An exchange type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExchangeType {
    /// Name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Whether it can be declared.
    pub enabled: bool,
}

macro_rules! churn {
    ($($(#[$doc:meta])* $counter:ident $details:ident,)*) => {
        /// What came and went since the node started.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default)]
        pub struct ChurnRates {
            $(
                $(#[$doc])*
                pub $counter: u64,
                /// Its rate.
                pub $details: Rate,
            )*
        }
    };
}

churn! {
    /// Connections opened.
    connection_created connection_created_details,
    /// Connections closed.
    connection_closed connection_closed_details,
    /// Channels opened.
    channel_created channel_created_details,
    /// Channels closed.
    channel_closed channel_closed_details,
    /// Queue declarations.
    queue_declared queue_declared_details,
    /// Queues that did not exist before.
    queue_created queue_created_details,
    /// Queues deleted.
    queue_deleted queue_deleted_details,
}

/// Messages of all queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QueueTotals {
    /// All messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Its rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_details: Option<Rate>,
    /// Those ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_ready: Option<u64>,
    /// Its rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_ready_details: Option<Rate>,
    /// Those handed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_unacknowledged: Option<u64>,
    /// Its rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_unacknowledged_details: Option<Rate>,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectTotals {
    /// Channels.
    pub channels: usize,
    /// Consumers.
    pub consumers: usize,
    /// Connections.
    pub connections: usize,
    /// Exchanges.
    pub exchanges: usize,
    /// Queues.
    pub queues: usize,
}

/// An open listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listener {
    /// Where.
    pub node: String,
    /// `amqp`, `amqp/ssl`, `clustering`, `http`, `https`, `http/prometheus`.
    pub protocol: String,
    /// Address.
    pub ip_address: String,
    /// Port.
    pub port: u16,
    /// Options of the socket.
    pub socket_opts: Value,
    /// Whether it is encrypted.
    pub tls: bool,
}

/// An HTTP listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Context {
    /// Where; absent within a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// For people.
    pub description: String,
    /// Where it begins.
    pub path: String,
    /// Address.
    pub ip: String,
    /// Port, as text.
    pub port: String,
}

/// The cluster's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterName {
    /// The name.
    pub name: String,
}

/// A part of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Application {
    /// Name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Version.
    pub version: String,
}

/// A node. Of one that is down only name, type, `running` and `being_drained` are known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// Name.
    pub name: String,
    /// `disc`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it runs.
    pub running: bool,
    /// Whether it is about to stop.
    pub being_drained: bool,
    /// Process id, as text.
    pub os_pid: String,
    /// Milliseconds.
    pub uptime: u64,
    /// Tasks that wait for a processor.
    pub run_queue: u64,
    /// Processors.
    pub processors: usize,
    /// `basic`.
    pub rates_mode: String,
    /// Bytes of memory in use.
    pub mem_used: u64,
    /// Its rate.
    pub mem_used_details: Rate,
    /// Bytes at which publishers are blocked.
    pub mem_limit: u64,
    /// Whether they are.
    pub mem_alarm: bool,
    /// `rss`.
    pub mem_calculation_strategy: String,
    /// Bytes free in the data directory.
    pub disk_free: u64,
    /// Its rate.
    pub disk_free_details: Rate,
    /// Bytes at which publishers are blocked.
    pub disk_free_limit: u64,
    /// Whether they are.
    pub disk_free_alarm: bool,
    /// Open file descriptors.
    pub fd_used: u64,
    /// Its rate.
    pub fd_used_details: Rate,
    /// Most file descriptors.
    pub fd_total: u64,
    /// Kept for tools that read it.
    pub sockets_used: u64,
    /// Its rate.
    pub sockets_used_details: Rate,
    /// Kept for tools that read it.
    pub sockets_total: u64,
    /// Threads.
    pub proc_used: u64,
    /// Its rate.
    pub proc_used_details: Rate,
    /// Most threads.
    pub proc_total: u64,
    /// Nodes that cannot be reached.
    pub partitions: Vec<String>,
    /// Seconds after which a silent node counts as down.
    pub net_ticktime: u64,
    /// The data directory.
    pub db_dir: String,
    /// Configuration files.
    pub config_files: Vec<String>,
    /// Log files; the log goes to standard error.
    pub log_files: Vec<String>,
    /// Parts that RabbitMQ has as plugins and this broker has built in.
    pub enabled_plugins: Vec<String>,
    /// Exchange types.
    pub exchange_types: Vec<ExchangeType>,
    /// SASL mechanisms.
    pub auth_mechanisms: Vec<ExchangeType>,
    /// Parts of the program.
    pub applications: Vec<Application>,
    /// HTTP listeners.
    pub contexts: Vec<Context>,
    /// Links to other nodes.
    pub cluster_links: Vec<Value>,
    /// Kept for tools that read it.
    pub metrics_gc_queue_length: BTreeMap<String, u64>,
    /// Kept for tools that read it.
    pub ra_open_file_metrics: BTreeMap<String, u64>,
    /// The level of RabbitMQ that is spoken.
    pub rabbitmq_version: String,
    /// Kept for tools that read it: the runtime's version.
    pub erlang_version: String,
    /// The same at length.
    pub erlang_full_version: String,
    /// The cryptographic library.
    pub crypto_lib_version: String,
    /// What came and went.
    #[serde(flatten)]
    pub churn: ChurnRates,
    /// Counters of the runtime and of files, each with its `…_details`.
    #[serde(flatten)]
    pub counters: BTreeMap<String, Value>,
}

/// Where a node's memory goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// The parts.
    pub memory: MemoryBreakdown,
}

/// Bytes by part, under RabbitMQ's names. Parts that this broker does not have are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MemoryBreakdown {
    /// Parts.
    #[serde(flatten)]
    pub parts: BTreeMap<String, u64>,
    /// `rss`.
    pub strategy: String,
    /// All in all.
    pub total: MemoryTotals,
}

/// All memory by three ways of counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryTotals {
    /// As the system counts.
    pub rss: u64,
    /// Asked from the system.
    pub allocated: u64,
    /// Used by the runtime.
    pub erlang: u64,
}

/// Logins by protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuthAttempts {
    /// `http` or `amqp091`.
    pub protocol: String,
    /// All.
    pub auth_attempts: u64,
    /// Refused.
    pub auth_attempts_failed: u64,
    /// Let in.
    pub auth_attempts_succeeded: u64,
}
