//! Dead letters: of what messages die, and the history that they carry.

mod history;

use serde::{Deserialize, Serialize};

pub use history::{Death, bury, is_cycle};

/// Of what a message died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeathReason {
    /// A consumer rejected it without requeue.
    Rejected,
    /// Its time was over.
    Expired,
    /// It made room, or found none.
    MaxLength,
    /// It was returned too often.
    DeliveryLimit,
}

impl DeathReason {
    /// The word in `x-death` and in the headers about the first and last death.
    pub fn name(self) -> &'static str {
        match self {
            DeathReason::Rejected => "rejected",
            DeathReason::Expired => "expired",
            DeathReason::MaxLength => "maxlen",
            DeathReason::DeliveryLimit => "delivery_limit",
        }
    }
}
