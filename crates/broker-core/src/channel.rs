//! What a channel remembers: which deliveries are out, which publishes are unconfirmed, what its
//! transaction holds, and which mode it is in.
//!
//! Pure state with rules. It must not know queues beyond a key that it passes on, exchanges,
//! frames, or who the client is.

mod confirms;
mod mode;
mod transaction;
mod unacked;

#[cfg(test)]
mod confirms_tests;
#[cfg(test)]
mod unacked_tests;

pub use confirms::{Confirm, ConfirmRun, Confirms, Verdict};
pub use mode::{ChannelMode, Prefetch};
pub use transaction::{Transaction, TransactionParts};
pub use unacked::{DeliveryTag, Resolved, Unacked, Unsettled};

/// Most deliveries of one channel that are neither settled nor given up. A channel that has so
/// many is given nothing more.
pub const UNACKED_PER_CHANNEL_MAX: usize = 1 << 22;

/// Most publishes of one channel that wait for their confirm. A channel that has so many is held.
pub const UNCONFIRMED_PER_CHANNEL_MAX: u64 = 1 << 22;

/// Most publishes and settlements of one transaction.
pub const TRANSACTION_ITEMS_MAX: usize = 1 << 20;
