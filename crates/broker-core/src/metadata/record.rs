//! What is known of each thing of the topology. Values only: who may change them is `Metadata`'s
//! knowledge, how messages are routed over them the exchange's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use amqp::Table;
use serde::{Deserialize, Serialize};

use crate::exchange::ExchangeKind;
use crate::names::{ExchangeName, QueueName, UserName, VhostName};
use crate::pattern::Pattern;
use crate::refusal::ResourceKind;
use crate::settings::{QueueKind, QueueSettings};
use crate::term::Term;

/// A queue for its whole life: a name that is declared again gets another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueueId(pub u64);

/// A client connection. Unique in the cluster; given by the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionId(pub u64);

/// A node of the cluster. Given by the broker; 0 where there is one node only.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A declared queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueRecord {
    /// Unique for ever.
    pub id: QueueId,
    /// Its vhost.
    pub vhost: VhostName,
    /// Its name.
    pub name: QueueName,
    /// Its type.
    pub kind: QueueKind,
    /// Whether it outlives a restart. Exclusive queues never do.
    pub durable: bool,
    /// The one connection that may use it.
    #[serde(default)]
    pub exclusive_owner: Option<ConnectionId>,
    /// The user who declared it, if not an operator.
    #[serde(default)]
    pub declared_by: Option<UserName>,
    /// Deleted when its last consumer goes.
    pub auto_delete: bool,
    /// As declared, with the type that was chosen.
    pub arguments: Table,
    /// The replica group of a quorum queue; 0 for others.
    #[serde(default)]
    pub group: u32,
    /// The node that a classic queue lives on.
    #[serde(default)]
    pub home: NodeId,
    /// The policy that applies.
    #[serde(default)]
    pub policy: Option<Arc<str>>,
    /// The operator policy that applies.
    #[serde(default)]
    pub operator_policy: Option<Arc<str>>,
    /// What it goes by: arguments, policies and defaults in one. Not stored: it is computed again
    /// when a snapshot is restored.
    #[serde(skip)]
    pub settings: Arc<QueueSettings>,
}

impl QueueRecord {
    /// Whether the queue may be used from this connection. `None` is an operator's door.
    pub fn is_open_to(&self, connection: Option<ConnectionId>) -> bool {
        self.exclusive_owner.is_none() || self.exclusive_owner == connection
    }
}

/// A declared exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExchangeRecord {
    /// Its vhost.
    pub vhost: VhostName,
    /// Its name; empty for the default exchange.
    pub name: ExchangeName,
    /// Its type.
    pub kind: ExchangeKind,
    /// Whether it outlives a restart.
    pub durable: bool,
    /// Deleted when its last binding as a source goes.
    pub auto_delete: bool,
    /// Takes messages from other exchanges only.
    pub internal: bool,
    /// As declared.
    pub arguments: Table,
    /// The policy that applies.
    #[serde(default)]
    pub policy: Option<Arc<str>>,
    /// What the messages of a delayed exchange wait in; a number of its own among the queues'.
    #[serde(default)]
    pub delay_store: Option<QueueId>,
    /// Where unrouted messages go: the argument, else the policy.
    #[serde(skip)]
    pub alternate: Option<ExchangeName>,
}

/// Where a binding leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(
    tag = "destination_type",
    content = "destination",
    rename_all = "lowercase"
)]
pub enum Destination {
    /// To a queue.
    Queue(QueueName),
    /// To another exchange.
    Exchange(ExchangeName),
}

impl Destination {
    /// Exchange or queue.
    pub fn kind(&self) -> ResourceKind {
        match self {
            Destination::Queue(_) => ResourceKind::Queue,
            Destination::Exchange(_) => ResourceKind::Exchange,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self {
            Destination::Queue(queue) => queue.as_str(),
            Destination::Exchange(exchange) => exchange.as_str(),
        }
    }
}

/// A binding. The four fields together are its identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// The exchange that messages come from.
    pub source: ExchangeName,
    /// Where they go.
    #[serde(flatten)]
    pub destination: Destination,
    /// The binding key.
    pub key: Arc<str>,
    /// Sorted by key, as identity wants it.
    pub arguments: Table,
}

/// What an operator says of a vhost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VhostRecord {
    /// For people.
    pub description: Box<str>,
    /// For people.
    pub tags: Vec<Box<str>>,
    /// The type of queues that do not name one; `None` is the node's.
    pub default_queue_type: Option<QueueKind>,
    /// Not deleted while this is set.
    pub protected_from_deletion: bool,
    /// Whether the firehose runs.
    pub tracing: bool,
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserRecord {
    /// As the authentication backend wrote it; empty for nobody's password.
    pub password_hash: Box<str>,
    /// RabbitMQ's name of the hash: `rabbit_password_hashing_sha256` and its kin.
    pub hashing_algorithm: Box<str>,
    /// What the user may do over HTTP.
    pub tags: Vec<Box<str>>,
}

/// What a user may do in a vhost: one pattern for each permission.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionRecord {
    /// Names that may be declared and deleted.
    pub configure: Pattern,
    /// Names that may be written to.
    pub write: Pattern,
    /// Names that may be read from.
    pub read: Pattern,
}

/// What a user may do with the keys of a topic exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicPermissionRecord {
    /// Keys that may be published.
    pub write: Pattern,
    /// Keys that may be bound.
    pub read: Pattern,
}

/// Named numbers, sorted by name; a negative number is unlimited.
pub type Limits = BTreeMap<Box<str>, i64>;

/// A value that some component keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Whose it is: `federation-upstream`, `shovel`, …
    pub component: Box<str>,
    /// Its vhost.
    pub vhost: VhostName,
    /// Its name.
    pub name: Box<str>,
    /// The value.
    pub value: Term,
}
