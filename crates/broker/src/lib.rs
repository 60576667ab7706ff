//! A running node, driven through `Session` and `Channel`; no socket needed.
//!
//! Owns the machines of `broker-core` and carries out what they decide: durability, delivery,
//! timers, metadata, events. Must not know frames, HTTP, YAML or password hashes: what leaves goes
//! through the `Outbox` trait, what is configured comes in as values.

mod access;
mod ages;
mod apply;
mod bounds;
mod broker;
mod channel;
mod check;
mod clock;
mod content;
mod counters;
mod dead_letterer;
mod delayed;
mod deliver;
mod disk_space;
mod doors;
mod durability;
mod error;
mod failure;
mod files;
mod firehose;
mod flow;
mod groups;
mod histories;
mod holder;
mod import;
mod ledger;
mod leftovers;
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
mod replication;
mod replies;
mod route;
mod route_cache;
mod server_name;
mod session;
mod signals;
mod standing;
mod tenants;
mod timers;
mod warming;

pub use broker::Broker;
pub use channel::{
    BindExchange, BindQueue, Channel, Consume, DeclareExchange, DeclareQueue, GotMessage, Publish,
    QueueDeclared,
};
pub use check::{CheckError, DataReport, QueueFound, check_data};
pub use cluster::Secret as ClusterSecret;
pub use counters::MessageCounts;
pub use error::OpenError;
pub use flow::FlowOptions;
pub use flow::alarm::machine::memory_limit_bytes;
pub use options::BrokerOptions;
pub use outbox::{MessageView, OUTBOX_MARK, Outbox, Outgoing, Sent};
pub use replication::{ClusterMember, ClusterOptions, NODES_MAX};
pub use session::{Session, SessionOptions, TlsDetails};
pub use signals::Signal;
pub use storage::{Options as StorageOptions, StorageError};
