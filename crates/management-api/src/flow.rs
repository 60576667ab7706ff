//! Flow control: who is held, by what, since when, and by which lever. Sizes in bytes, times in
//! milliseconds.

use serde::{Deserialize, Serialize};

/// A queue's standing towards its capacity and its memory. There for queues that have a limit of
/// either, or hold somebody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueFlow {
    /// Whether it holds its publishers since it is above its capacity.
    pub overfull: bool,
    /// For how long, while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overfull_ms: Option<u64>,
    /// How often it became overfull.
    pub overfull_total: u64,
    /// How long it was overfull, all in all.
    pub overfull_ms_total: u64,
    /// Bytes above which it is overfull; absent without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Bytes at or below which it is not any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_resume_capacity_bytes: Option<u64>,
    /// Messages above which it is overfull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_messages: Option<u64>,
    /// Messages at or below which it is not any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_resume_messages: Option<u64>,
    /// Bytes in memory at which it holds its publishers; absent without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Bytes in memory above which its messages leave for the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_high_water_bytes: Option<u64>,
    /// Whether it holds its publishers for the memory that it takes.
    pub over_memory_share: bool,
    /// Bytes of its messages in memory, with their places in the queue.
    pub resident_bytes: u64,
    /// Messages that are on disk only.
    pub paged_messages: u64,
    /// Messages that wait for it with their publishers.
    pub parked_messages: u64,
    /// Their bytes.
    pub parked_bytes: u64,
    /// Whom it holds, the longest first, at most a hundred.
    pub held_channels: Vec<HeldChannel>,
    /// How many it holds.
    pub held_channels_total: usize,
}

/// A channel that a queue holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldChannel {
    /// The channel.
    pub name: String,
    /// The user whose channel it is.
    pub user: String,
    /// Its messages that wait for the queue.
    pub parked_messages: u64,
    /// Their bytes.
    pub parked_bytes: u64,
    /// How it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<ChannelHold>,
}

/// What a held channel waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelHold {
    /// `held`, `pressed` (more waits than memory is for), `rejecting` (new messages are refused).
    pub stage: String,
    /// For how long.
    pub held_ms: u64,
    /// What holds it, the first one first.
    pub held_by: Vec<HeldBy>,
    /// Messages that wait.
    pub parked_messages: u64,
    /// Their bytes in memory.
    pub parked_bytes: u64,
    /// Their bytes on disk.
    pub spilled_bytes: u64,
    /// The levers in use: `channel.flow`, `confirms-withheld`, `connection.blocked`,
    /// `socket-not-read`.
    pub levers: Vec<String>,
}

/// One thing that holds a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldBy {
    /// The queue.
    pub queue: String,
    /// Its vhost.
    pub vhost: String,
    /// Why, as the log says it: `Queue orders`.
    pub cause: String,
    /// For how long.
    pub held_ms: u64,
}

/// Other limits for a node's alarms, until it is started again or its configuration changes. What is
/// absent stays. A share is one of the memory that the process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlarmLimits {
    /// Memory of the process above which publishers wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The same as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_share: Option<f64>,
    /// Free disk space below which publishers wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// The same as a share of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_memory_share: Option<f64>,
}
