//! Health checks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer of a health check. What does not apply to a check is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Health {
    /// `ok` or `failed`.
    pub status: String,
    /// Why it failed, or why it cannot fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Alarms in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarms: Option<Vec<Alarm>>,
    /// The port that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Ports that are listened on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u16>>,
    /// Protocols that are spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocols: Option<Vec<String>>,
    /// What is not listened on: a port, or a list of protocols.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Value>,
    /// Queues in danger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<Value>>,
    /// Vhosts that are down.
    #[serde(rename = "virtual-hosts", skip_serializing_if = "Option::is_none")]
    pub vhosts: Option<Vec<String>>,
    /// Certificates that run out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired: Option<Vec<Value>>,
}

/// A resource that is short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alarm {
    /// Where.
    pub node: String,
    /// `memory` or `disk`.
    pub resource: String,
}

impl Health {
    /// All is well.
    pub fn ok() -> Self {
        Self {
            status: "ok".into(),
            ..Self::default()
        }
    }

    /// Something is not.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self {
            status: "failed".into(),
            reason: Some(reason.into()),
            ..Self::default()
        }
    }
}
