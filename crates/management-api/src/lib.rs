//! JSON shapes of the HTTP API: what the server writes and its clients read.
//!
//! Field names and types are RabbitMQ's, since tools decode them strictly; what this broker has
//! besides carries names of its own. Values only: must not know routes, the broker or HTTP.

mod access;
mod client;
mod cluster;
mod error;
mod feature;
mod health;
mod message;
mod page;
mod policy;
mod rate;
mod topology;
mod vhost;

pub use access::{Permission, TopicPermission, User, WhoAmI};
pub use client::{
    Channel, ChannelDetails, Connection, ConnectionDetails, Consumer, QueueRef, UserConnection,
};
pub use cluster::{
    Application, AuthAttempts, ChurnRates, ClusterName, Context, ExchangeType, Listener, Memory,
    MemoryBreakdown, MemoryTotals, Node, ObjectTotals, Overview, QueueTotals,
    SampleRetentionPolicies,
};
pub use error::ErrorBody;
pub use feature::{DeprecatedFeature, FeatureFlag};
pub use health::{Alarm, Health};
pub use message::{GetRequest, GotMessage, MessageContent, PublishRequest, QueuedMessage, Routed};
pub use page::Page;
pub use policy::{GlobalParameter, Limits, Parameter, Policy};
pub use rate::{MessageStats, Rate, Sample};
pub use topology::{Binding, Exchange, Queue, QueueCountsOnly, QueueFigures};
pub use vhost::{Vhost, VhostMetadata};
