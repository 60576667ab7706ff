//! A running node, driven through `Session` and `Channel`; no socket needed.
//!
//! Owns the machines of `broker-core` and carries out what they decide: durability, delivery,
//! timers, metadata, events. Must not know frames, HTTP, YAML or password hashes: what leaves goes
//! through the `Outbox` trait, what is configured comes in as values.

mod access;
mod apply;
mod bounds;
mod broker;
mod channel;
mod clock;
mod content;
mod counters;
mod dead_letterer;
mod deliver;
mod durability;
mod error;
mod failure;
mod files;
mod groups;
mod histories;
mod holder;
mod ledger;
mod metadata_store;
mod node;
pub mod observe;
mod options;
mod origin;
mod outbox;
mod pressure;
mod queue;
mod record;
mod recovery;
mod replies;
mod route;
mod route_cache;
mod server_name;
mod session;
mod signals;
mod timers;

pub use broker::Broker;
pub use channel::{
    BindExchange, BindQueue, Channel, Consume, DeclareExchange, DeclareQueue, GotMessage, Publish,
    QueueDeclared,
};
pub use counters::MessageCounts;
pub use error::OpenError;
pub use options::BrokerOptions;
pub use outbox::{MessageView, OUTBOX_MARK, Outbox, Outgoing};
pub use session::{Session, SessionOptions};
pub use signals::Signal;
pub use storage::{Options as StorageOptions, StorageError};
