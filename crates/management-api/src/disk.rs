//! What takes room on the disk, and what keeps it there.

use serde::{Deserialize, Serialize};

/// The disk of the data folder. All sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disk {
    /// The journal's files, those kept for recycling too.
    pub journal_bytes: u64,
    /// Segments that survive a restart.
    pub segment_bytes: u64,
    /// Messages that were paged out and do not survive.
    pub paged_bytes: u64,
    /// Saved states.
    pub checkpoint_bytes: u64,
    /// Free on the file system.
    pub free_bytes: u64,
    /// Below this, and 64 MiB that are kept for acks, publishers are held.
    pub free_limit_bytes: u64,
    /// Whether they are held.
    pub publishers_held: bool,
    /// How it goes on as it did in the last minutes; absent in the first seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<DiskForecast>,
    /// Each queue that has anything on the disk.
    pub queues: Vec<QueueDisk>,
}

/// How the use of the disk goes on if it goes on as it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskForecast {
    /// Bytes that are added in a second on the average; negative when it shrinks.
    pub growth_bytes_per_s: i64,
    /// Seconds until publishers are held; absent when it does not come to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_in_s: Option<u64>,
    /// Over how many seconds it was watched.
    pub watched_s: u64,
}

/// A queue's part of the disk. All sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueDisk {
    /// The queue's vhost.
    pub vhost: String,
    /// The queue; the exchange, for messages that a delayed exchange holds.
    pub queue: String,
    /// Whether its segments were looked into since the start; if not, only the journal counts.
    pub recovered: bool,
    /// Segment files.
    pub segments: u64,
    /// Live messages in segments.
    pub live_bytes: u64,
    /// Messages that are gone and whose segments are still there.
    pub dead_bytes: u64,
    /// Live messages whose only place on disk is the journal.
    pub journal_bytes: u64,
    /// Messages that were paged out and do not survive.
    pub paged_bytes: u64,
    /// Segments and the message that keeps each, those with the most dead bytes first; at most 64.
    pub pinned_by: Vec<DiskPin>,
}

/// A segment, and the oldest message that lives in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskPin {
    /// The segment's number.
    pub segment: u32,
    /// Live messages in it.
    pub live_messages: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes in it of messages that are gone.
    pub dead_bytes: u64,
    /// Number of its oldest live message in the queue.
    pub entry: u64,
    /// About when that was published, ISO 8601; absent when nothing remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// Where it is: `ready`, `unacked`, `delayed`, `dead-lettering`.
    pub state: String,
    /// The channel that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The consumer that holds it; absent when it was got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_tag: Option<String>,
    /// Since when it is held, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_since: Option<String>,
}
