//! Feature flags and deprecated features.

use serde::{Deserialize, Serialize};

/// Something that nodes of different releases must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FeatureFlag {
    /// Name.
    pub name: String,
    /// For people.
    pub desc: String,
    /// Where to read on.
    pub doc_url: String,
    /// `enabled`, `disabled`, `state_changing`, `unavailable`.
    pub state: String,
    /// `required`, `stable`, `experimental`.
    pub stability: String,
    /// `hard`, `soft`, `none`.
    pub require_level: String,
    /// `supported`.
    pub experiment_level: String,
    /// Names of hooks.
    pub callbacks: Vec<String>,
    /// The part of the broker that has it.
    pub provided_by: String,
}

/// Something that will go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeprecatedFeature {
    /// Name.
    pub name: String,
    /// `permitted` or `denied`.
    pub state: String,
    /// For people.
    pub desc: String,
    /// `permitted_by_default`, `denied_by_default`, `disconnected`, `removed`.
    pub deprecation_phase: String,
    /// Where to read on.
    pub doc_url: String,
    /// The part of the broker that has it.
    pub provided_by: String,
}
