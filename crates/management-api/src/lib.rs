//! JSON shapes of the HTTP API: what the server writes and its clients read.
//!
//! Field names and types are RabbitMQ's, since tools decode them strictly; what this broker has
//! besides carries names of its own. Values only: must not know routes or the broker; HTTP only
//! behind the feature `client`.

mod access;
mod client;
mod cluster;
mod disk;
mod error;
mod feature;
mod flow;
mod health;
#[cfg(feature = "client")]
mod http;
mod insight;
mod message;
mod page;
mod policy;
mod rate;
mod reload;
mod relocation;
mod topology;
mod trouble;
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
pub use disk::{Disk, DiskForecast, DiskPin, QueueDisk};
pub use error::ErrorBody;
pub use feature::{DeprecatedFeature, FeatureFlag};
pub use flow::{AlarmLimits, ChannelHold, HeldBy, HeldChannel, QueueFlow};
pub use health::{Alarm, Health};
#[cfg(feature = "client")]
pub use http::{Answered, Client, ClientError, ClientOptions, api_path, encoded};
pub use insight::{
    ConsumerLoad, EventShape, HoldReason, PublisherWhy, QueueSetting, QueueSettings, QueueWhy,
    RouteAnswer, RouteQuestion, RoutedTo,
};
pub use message::{GetRequest, GotMessage, MessageContent, PublishRequest, QueuedMessage, Routed};
pub use page::Page;
pub use policy::{GlobalParameter, Limits, Parameter, Policy};
pub use rate::{MessageStats, Rate, Sample};
pub use reload::{FilesStatus, PolicyFileBody, ReloadStatus};
pub use relocation::{MessageFilter, MoveReport, MoveRequest, MoveSample, MoveTarget};
pub use topology::{Binding, Exchange, Queue, QueueCountsOnly, QueueFigures};
pub use trouble::{DeadLettersHeld, Incident, IncidentCount};
pub use vhost::{Vhost, VhostMetadata};
