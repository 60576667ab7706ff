//! Users and what they may do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct User {
    /// Name.
    pub name: String,
    /// Base64 of salt and hash; empty for no password.
    pub password_hash: String,
    /// RabbitMQ's name of the hash.
    pub hashing_algorithm: String,
    /// What the user may do over HTTP.
    pub tags: Vec<String>,
    /// `max-connections`, `max-channels` and others of our own.
    pub limits: BTreeMap<String, i64>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhoAmI {
    /// Name.
    pub name: String,
    /// Tags.
    pub tags: Vec<String>,
    /// Whether the broker itself keeps the user.
    pub is_internal_user: bool,
}

/// What a user may do in a vhost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Permission {
    /// Whose.
    pub user: String,
    /// Where.
    pub vhost: String,
    /// Pattern of names.
    pub configure: String,
    /// Pattern of names.
    pub write: String,
    /// Pattern of names.
    pub read: String,
}

/// What a user may do with the keys of an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopicPermission {
    /// Whose.
    pub user: String,
    /// Where.
    pub vhost: String,
    /// Of which exchange.
    pub exchange: String,
    /// Pattern of keys.
    pub write: String,
    /// Pattern of keys.
    pub read: String,
}
