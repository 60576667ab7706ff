//! Flow control: when a queue is overfull, what a publishing channel is made to wait for, which
//! lever its client can bear, and how memory is metered.
//!
//! Pure: time is an argument, effects come back as values. It must not know sockets, messages'
//! bytes, or who carries a decision out.

mod capacity;
mod client;
mod hold;
mod levers;
mod meter;
mod paging;
mod release;
mod words;

#[cfg(test)]
mod worked_example;

pub use capacity::{CapacityLimits, Fullness, Turn};
pub use client::{ClientFlow, When};
pub use hold::{ChannelHold, HoldBounds, HoldEffect, HoldEffects, Place, Stage};
pub use levers::{Levers, LibraryWord, UserWord};
#[cfg(debug_assertions)]
pub use meter::WrongSum;
pub use meter::{Meter, Threshold};
pub use paging::{Paging, handed_out_part};
pub use release::{Admit, allowance, guilty};
pub use words::{
    ChannelSubject, Delayed, Enforced, Ignored, Overfull, QueueSubject, Removed, Underfull,
};

/// Longest time that a message waits for an overfull queue when nobody says more, in milliseconds.
// Qpid JMS: qpid.flow_control_wait_failure
pub const HOLD_TIMEOUT_DEFAULT_MS: u64 = 120_000;

/// Time between two lines about a held channel, in milliseconds.
// Qpid JMS: qpid.flow_control_wait_notify_period
pub const HOLD_NOTIFY_DEFAULT_MS: u64 = 5_000;

/// Time after `channel.flow(false)` in which publishes that were under way come without blame.
// Qpid Broker-J: channel.flowControlEnforcementTimeout
pub const FLOW_GRACE_DEFAULT_MS: u64 = 5_000;

/// Parked bytes of one channel that stay in memory.
pub const PARK_MEMORY_DEFAULT_BYTES: u64 = 4 << 20;

/// Parked bytes of one channel on disk.
pub const PARK_SPILL_DEFAULT_BYTES: u64 = 64 << 20;

/// The share of a memory limit above which nothing more is cached, in percent.
// ActiveMQ: cursorMemoryHighWaterMark
pub const HIGH_WATER_DEFAULT_PERCENT: u64 = 70;

/// The producers' share of the broker's memory, in percent; consumers have the rest.
// ActiveMQ: producerSystemUsagePortion
pub const PRODUCER_SHARE_DEFAULT_PERCENT: u64 = 60;
