//! Moving messages between queues, and sending dead letters back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Body of a move or a redrive: one part of the work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MoveRequest {
    /// Where messages go; a redrive without it sends each to where it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<MoveTarget>,
    /// Which messages.
    pub filter: MessageFilter,
    /// Looks at entries after this one only: `last_entry` of the part before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Moves no more than so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Moves no more than so many a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Moves nothing, and tells what would move.
    pub dry_run: bool,
}

/// Where messages go: a queue, or an exchange with a routing key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MoveTarget {
    /// A queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// An exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
    /// The routing key there; the message's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
}

/// Which messages: those that meet every condition that is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MessageFilter {
    /// Why the message died last: `rejected`, `expired`, `maxlen`, `delivery_limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The queue that it died in last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died_in: Option<String>,
    /// Headers with these values.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub headers: Map<String, Value>,
    /// Died, or was published, at least so many milliseconds ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than_ms: Option<u64>,
    /// Died, or was published, at most so many milliseconds ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_than_ms: Option<u64>,
}

/// What a part of the work came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MoveReport {
    /// Messages looked at.
    pub examined: u64,
    /// Those that the filter left.
    pub matched: u64,
    /// Those that their target has taken.
    pub moved: u64,
    /// Those that no queue took, or that their target refused: they stay where they are.
    pub refused: u64,
    /// The last entry looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_entry: Option<u64>,
    /// Whether there is more to look at.
    pub more: bool,
    /// Whether nothing was moved on purpose.
    pub dry_run: bool,
    /// The first messages of a dry run.
    pub samples: Vec<MoveSample>,
}

/// A message that would move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MoveSample {
    /// Its number in the queue.
    pub entry: u64,
    /// Why it died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The queue it died in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died_in: Option<String>,
    /// The exchange it would go to.
    pub to_exchange: String,
    /// Its routing key there.
    pub to_routing_key: String,
}
