//! Answers to why: what limits a queue, which settings it goes by, where a message would go, what
//! holds a publisher.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::flow::{ChannelHold, QueueFlow};

/// What limits a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueWhy {
    /// `no_consumer`, `consumers_are_the_limit`, `tenant_limit`, `stuck_consumer`,
    /// `consumers_have_room`, `keeping_up`, `idle`, `unused`; `no_majority` while too few members of its group are there.
    pub verdict: String,
    /// The same in a sentence.
    pub text: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The figures behind it; names end in their unit.
    pub figures: BTreeMap<String, Value>,
    /// Who holds deliveries, the longest first.
    pub consumers: Vec<ConsumerLoad>,
    /// Its standing towards its capacity, once it has one or holds somebody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<QueueFlow>,
}

/// What a consumer has in hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConsumerLoad {
    /// Its tag; absent when the messages were got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_tag: Option<String>,
    /// Its channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Most that it may have in hand; 0 is no limit.
    pub prefetch: u16,
    /// What it has in hand.
    pub unacked: u64,
    /// How long it has had the oldest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_unacked_ms: Option<u64>,
    /// The limit of its user or vhost that keeps it from being given more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
}

/// The settings that a queue goes by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueSettings {
    /// Each that a queue can have.
    pub settings: Vec<QueueSetting>,
    /// The policy in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The operator policy in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_policy: Option<String>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueSetting {
    /// The policy key, without `x-`.
    pub key: String,
    /// What holds.
    pub value: Value,
    /// `argument`, `policy NAME`, `operator policy NAME`, `vhost default`, `default`.
    pub origin: String,
}

/// Body of a question for a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RouteQuestion {
    /// The routing key.
    pub routing_key: String,
    /// The headers.
    pub headers: Map<String, Value>,
}

/// Where a message would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteAnswer {
    /// Whether any queue would take it.
    pub routed: bool,
    /// Those that would.
    pub queues: Vec<RoutedTo>,
}

/// A queue that a message would reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoutedTo {
    /// The queue.
    pub queue: String,
    /// The bindings on the way, in words.
    pub why: String,
}

/// Why a publisher is held, or that it is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublisherWhy {
    /// The channel.
    pub name: String,
    /// Whether it may publish: `open`, `held`.
    pub state: String,
    /// The same in a sentence.
    pub text: String,
    /// What holds it.
    pub reasons: Vec<HoldReason>,
    /// How it is held: what waits, and the levers in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<ChannelHold>,
    /// Publishes that wait for a confirm.
    pub unconfirmed: u64,
    /// Unroutable publishes that were dropped or returned.
    pub unroutable: u64,
}

/// One thing that holds a publisher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HoldReason {
    /// `queue`, `node`, `limit`.
    pub kind: String,
    /// The queue, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// In a sentence.
    pub text: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventShape {
    /// `queue.created`, `connection.closed`, `policy.set`, …; `lost` when the listener was too
    /// slow.
    pub event: String,
    /// When, ISO 8601.
    pub time: String,
    /// Where, for what belongs to a vhost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost: Option<String>,
    /// The thing it happened to.
    pub about: String,
}
