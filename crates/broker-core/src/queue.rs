//! All that a queue decides: who gets which message next, what is refused, dropped, returned,
//! dead-lettered or timed out, and when.
//!
//! One machine serves classic and quorum queues, transient, durable and replicated ones: they
//! differ in settings and in the driver that carries the effects out. It must not know bytes of
//! messages, channels' delivery tags, exchanges, clocks, journals or threads. Calls append
//! [`Effect`]s; the driver performs them in order.

mod consumer;
mod consuming;
mod counts;
mod dead_letters;
mod deadline;
mod delayed;
mod dispatch;
mod effect;
mod entry;
mod expiring;
mod handle;
mod held;
mod leases;
mod limits;
mod machine;
mod message;
mod past;
mod ready;
mod recovery;
mod rotation;
mod rules;
mod settle;
mod table;

#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod script;
#[cfg(test)]
mod stories;

pub use consumer::{Consumer, ConsumerState, ConsumerView, Pause};
pub use counts::QueueCounts;
pub use dispatch::{DispatchBudget, DispatchEnd};
pub use effect::{
    CancelCause, Delivery, DiscardCause, Effect, Effects, Gone, Got, QueueFault, RefusedBecause,
    ReturnCause, Settlement, TimedOut, TimeoutAction, Use,
};
pub use entry::{ConsumerId, Entry, EntryId, EntryState, EntryView, HolderId};
pub use handle::Handle;
pub use machine::QueueMachine;
pub use past::{ATTEMPTS_KEPT_MAX, Attempt, AttemptEnd, PASTS_KEPT_MAX, Past, REASON_BYTES_MAX};

/// Priority levels of a quorum queue: 0 to 31; higher numbers count as the highest.
// rabbitmq: queues, priorities
pub const QUORUM_PRIORITY_MAX: u8 = 31;

/// The level of a message in a quorum queue that names none.
// rabbitmq: queues, priorities
pub const QUORUM_PRIORITY_DEFAULT: u8 = 4;

/// Most deliveries that a consumer of a quorum queue holds when it sets no prefetch.
// rabbitmq: basic.qos, quorum queues
pub const QUORUM_UNLIMITED_PREFETCH: u32 = 2000;

/// Most consumers, and most holders of deliveries, of one queue.
pub const CONSUMERS_PER_QUEUE_MAX: usize = 1 << 20;

/// Most dead letters of a queue that wait for the confirms of their targets at one time.
// rabbitmq: dead_letter_worker_consumer_prefetch
pub const DEAD_LETTERS_IN_FLIGHT_MAX: usize = 32;

/// How long a dead letter rests that no target took, in milliseconds.
// rabbitmq: dead_letter_worker_publisher_confirm_timeout
pub const DEAD_LETTER_RETRY_MS: u64 = 180_000;

/// Most messages that one call expires, times out or drops, so that a queue's lock is held
/// shortly. What is left keeps [`QueueMachine::next_deadline`] in the past.
pub const WORK_PER_CALL_MAX: u32 = 4096;
