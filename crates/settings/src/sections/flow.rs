//! The section `flow`, whose levers may be set for libraries, users and virtual hosts, too.
//!
//! What the entries under a list or under names hold is known from their serialized defaults, as the
//! sections' keys are: every field has one. Which word wins is decided elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::scalar::{ByteSize, Lever, Span};

/// `flow`: how publishers of overfull queues are held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flow {
    /// Longest time that a message waits for an overfull queue.
    pub hold_timeout: Span,
    /// Time between two log lines about a held channel.
    pub hold_notify_period: Span,
    /// Time after `channel.flow` in which publishes that were under way come without blame.
    pub grace: Span,
    /// Waiting bytes of one channel that stay in memory.
    pub park_memory: ByteSize,
    /// Waiting bytes of one channel on disk.
    pub park_disk: ByteSize,
    /// Waiting bytes of all channels that stay in memory.
    pub park_memory_total: ByteSize,
    /// Waiting bytes of all channels on disk.
    pub park_disk_total: ByteSize,
    /// Who is sent `channel.flow`.
    pub channel_flow: Lever,
    /// Who is told `connection.blocked`.
    pub blocked_notice: Lever,
    /// What is known of client libraries beyond the built-in table, or against it.
    pub clients: Vec<FlowClient>,
    /// Other words for the connections of one user, by name.
    pub users: BTreeMap<String, FlowUser>,
    /// Other words for the connections to one virtual host, by name.
    pub vhosts: BTreeMap<String, FlowVhost>,
}

/// An entry of `flow.clients`: what is known of one library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowClient {
    /// What it calls itself.
    pub product: String,
    /// The beginning of its platform; empty fits any.
    pub platform: String,
    /// It stops publishing on `channel.flow`; unset says nothing of it.
    pub obeys_flow: Option<bool>,
    /// `connection.blocked` stops its acks as well; unset says nothing of it.
    pub stops_acks_when_blocked: Option<bool>,
}

/// An entry of `flow.users`; what is unset is as it is for everybody.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowUser {
    /// Whether the user's clients are sent `channel.flow`.
    pub channel_flow: Option<Lever>,
    /// Whether they are told `connection.blocked`.
    pub blocked_notice: Option<Lever>,
}

/// An entry of `flow.vhosts`; what is unset is as it is for everybody.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowVhost {
    /// Whether clients are sent `channel.flow`.
    pub channel_flow: Option<Lever>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            hold_timeout: Span::seconds(120),
            hold_notify_period: Span::seconds(5),
            grace: Span::seconds(5),
            park_memory: ByteSize::mib(4),
            park_disk: ByteSize::mib(64),
            park_memory_total: ByteSize::mib(128),
            park_disk_total: ByteSize::mib(1024),
            channel_flow: Lever::Auto,
            blocked_notice: Lever::Auto,
            clients: Vec::new(),
            users: BTreeMap::new(),
            vhosts: BTreeMap::new(),
        }
    }
}
