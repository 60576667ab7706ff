//! The rules of the broker, pure and deterministic.
//!
//! Time is an argument, effects come back as values. This crate knows names, exchanges and
//! routing, queues, channels, policies, permissions, limits and metadata. It must not know a
//! clock, randomness, I/O, async, YAML, JSON or frames: of `amqp` it uses values and properties.

pub mod arguments;
pub mod channel;
pub mod dead_letter;
pub mod definitions;
pub mod exchange;
pub mod expiration;
pub mod flow;
pub mod metadata;
pub mod names;
pub mod pattern;
pub mod permission;
pub mod policy;
pub mod queue;
pub mod rate;
pub mod refusal;
pub mod router;
pub mod settings;
pub mod term;
pub mod time;

pub use metadata::{Metadata, MetadataChange, MetadataEvent, Outcome};
pub use names::{ConsumerTag, ExchangeName, QueueName, UserName, VhostName};
pub use refusal::Refusal;
pub use time::{Millis, Timestamp};
