//! The body of every refusal that has one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBody {
    /// A word for the kind: `bad_request`, `not_found`, …
    pub error: String,
    /// Usually a text; an array where RabbitMQ writes a pair.
    pub reason: Value,
}
