//! Policies, parameters and limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A policy or an operator policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Policy {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// A regular expression, searched anywhere in the name.
    pub pattern: String,
    /// What it applies to.
    #[serde(rename = "apply-to")]
    pub apply_to: String,
    /// Key to value.
    pub definition: Value,
    /// The highest matching one is chosen.
    pub priority: Value,
    /// `file` if a policy file holds it: then only the file changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// A value that a component keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameter {
    /// The value.
    pub value: Value,
    /// Its vhost.
    pub vhost: String,
    /// Whose it is.
    pub component: String,
    /// Its name.
    pub name: String,
}

/// A value of the whole cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GlobalParameter {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: Value,
}

/// Limits of a vhost or of a user; the other name is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Of this vhost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost: Option<String>,
    /// Of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Name to limit; negative is none.
    pub value: BTreeMap<String, i64>,
}
