//! Every change of the topology, as data: what travels through the one door, and through the log.
//!
//! A change carries all that is not deterministic (generated names, owners, hashes, counts of the
//! moment). Stored for ever: fields are added with `#[serde(default)]`, never renamed.

use amqp::Table;
use serde::{Deserialize, Serialize};

use super::Defaults;
use super::record::{ConnectionId, Destination, NodeId, QueueId, VhostRecord};
use crate::names::{ExchangeName, QueueName, UserName, VhostName};
use crate::policy::{PolicyForm, PolicyScope};
use crate::term::Term;

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum MetadataChange {
    /// Creates a vhost with its standard exchanges, or replaces what is said of it.
    PutVhost {
        vhost: VhostName,
        record: VhostRecord,
    },
    /// Deletes a vhost and all that is in it. Missing: nothing.
    DeleteVhost { vhost: VhostName },
    /// Sets or lifts the protection from deletion.
    ProtectVhost { vhost: VhostName, protected: bool },
    /// Starts or stops the firehose.
    TraceVhost { vhost: VhostName, tracing: bool },
    /// Replaces the values that queues of the vhost go by when nothing else names one.
    SetVhostDefaults { vhost: VhostName, definition: Term },
    /// Replaces all limits of a vhost.
    SetVhostLimits { vhost: VhostName, limits: Term },
    /// Sets one limit.
    SetVhostLimit {
        vhost: VhostName,
        name: Box<str>,
        value: Term,
    },
    /// Lifts one limit.
    ClearVhostLimit { vhost: VhostName, name: Box<str> },

    /// Creates a user or replaces password and tags.
    PutUser {
        user: UserName,
        password_hash: Box<str>,
        hashing_algorithm: Box<str>,
        tags: Vec<Box<str>>,
    },
    /// Deletes a user and the permissions. Missing: nothing.
    DeleteUser { user: UserName },
    /// Replaces the password only.
    SetPassword {
        user: UserName,
        password_hash: Box<str>,
        hashing_algorithm: Box<str>,
    },
    /// Replaces the tags only.
    SetUserTags { user: UserName, tags: Vec<Box<str>> },
    /// Replaces all limits of a user.
    SetUserLimits { user: UserName, limits: Term },
    /// Sets one limit.
    SetUserLimit {
        user: UserName,
        name: Box<str>,
        value: Term,
    },
    /// Lifts one limit.
    ClearUserLimit { user: UserName, name: Box<str> },

    /// Sets the three patterns of a user in a vhost.
    SetPermission {
        user: UserName,
        vhost: VhostName,
        configure: Box<str>,
        write: Box<str>,
        read: Box<str>,
    },
    /// Takes them away: the user has no access to the vhost.
    ClearPermission { user: UserName, vhost: VhostName },
    /// Sets the two patterns of a user for the keys of an exchange.
    SetTopicPermission {
        user: UserName,
        vhost: VhostName,
        exchange: ExchangeName,
        write: Box<str>,
        read: Box<str>,
    },
    /// Takes them away, of one exchange or of all.
    ClearTopicPermission {
        user: UserName,
        vhost: VhostName,
        exchange: Option<ExchangeName>,
    },

    /// Sets a policy or an operator policy.
    SetPolicy {
        vhost: VhostName,
        scope: PolicyScope,
        policy: PolicyForm,
    },
    /// Deletes one.
    DeletePolicy {
        vhost: VhostName,
        scope: PolicyScope,
        name: Box<str>,
    },
    /// Replaces all policies and vhost defaults that came from files by these: all or none.
    ReplaceFilePolicies {
        policies: Vec<FilePolicy>,
        #[serde(default)]
        defaults: Vec<FileDefaults>,
    },

    /// Sets a runtime parameter.
    SetParameter {
        component: Box<str>,
        vhost: VhostName,
        name: Box<str>,
        value: Term,
    },
    /// Deletes one.
    ClearParameter {
        component: Box<str>,
        vhost: VhostName,
        name: Box<str>,
    },
    /// Sets a parameter of the whole cluster.
    SetGlobalParameter { name: Box<str>, value: Term },
    /// Deletes one.
    ClearGlobalParameter { name: Box<str> },

    /// Declares an exchange, or finds an equal one.
    DeclareExchange {
        vhost: VhostName,
        exchange: ExchangeName,
        exchange_type: Box<str>,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
    },
    /// Deletes one. Missing: nothing.
    DeleteExchange {
        vhost: VhostName,
        exchange: ExchangeName,
        if_unused: bool,
    },

    /// Declares a queue, or finds an equal one.
    DeclareQueue(QueueDeclaration),
    /// Deletes a queue by name, for a client. Missing: nothing.
    DeleteQueue(QueueDeletion),
    /// Deletes a queue by id, for the broker. Missing: nothing.
    RemoveQueue { queue: QueueId, why: QueueGone },
    /// Deletes the exclusive queues of a connection that has ended.
    EndConnection { connection: ConnectionId },
    /// Deletes what does not outlive a restart: of one node, or of all.
    DropTransient { node: Option<NodeId> },

    /// Binds. Bound already: nothing.
    Bind {
        vhost: VhostName,
        source: ExchangeName,
        destination: Destination,
        key: Box<str>,
        arguments: Table,
        /// Who asks, for the lock of exclusive queues; `None` is an operator.
        #[serde(default)]
        connection: Option<ConnectionId>,
    },
    /// Unbinds. Not bound, or an end missing: nothing.
    Unbind {
        vhost: VhostName,
        source: ExchangeName,
        destination: Destination,
        key: Box<str>,
        arguments: Table,
        #[serde(default)]
        connection: Option<ConnectionId>,
    },

    /// Replaces the defaults and limits of the whole cluster.
    SetDefaults { defaults: Defaults },
}

/// The fields of `queue.declare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueDeclaration {
    /// The vhost.
    pub vhost: VhostName,
    /// The name, already generated when the client left it to the broker.
    pub queue: QueueName,
    /// Whether the broker made the name.
    #[serde(default)]
    pub server_named: bool,
    /// Outlives a restart.
    pub durable: bool,
    /// For `connection` only.
    pub exclusive: bool,
    /// Deleted with its last consumer.
    pub auto_delete: bool,
    /// `x-…`.
    pub arguments: Table,
    /// Who asks; `None` is an operator.
    #[serde(default)]
    pub connection: Option<ConnectionId>,
    /// The user who asks: the queue counts towards that limit. `None` is an operator.
    #[serde(default)]
    pub user: Option<UserName>,
    /// The node that asks, where a classic queue will live.
    #[serde(default)]
    pub node: NodeId,
    /// How many replica groups there are; a quorum queue joins one of them. At least 1.
    #[serde(default = "one_group")]
    pub groups: u32,
}

fn one_group() -> u32 {
    1
}

/// The fields of `queue.delete`, with what the queue held when it was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueDeletion {
    /// The vhost.
    pub vhost: VhostName,
    /// The name.
    pub queue: QueueName,
    /// Who asks; `None` is an operator.
    #[serde(default)]
    pub connection: Option<ConnectionId>,
    /// Only without consumers.
    #[serde(default)]
    pub if_unused: bool,
    /// Only without ready messages.
    #[serde(default)]
    pub if_empty: bool,
    /// Consumers at this moment.
    #[serde(default)]
    pub consumers: u64,
    /// Ready messages at this moment.
    #[serde(default)]
    pub ready: u64,
}

/// Why a queue is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueGone {
    /// Its last consumer went.
    AutoDeleted,
    /// A client or an operator deleted it.
    Deleted,
    /// Nobody used it for too long.
    Expired,
    /// The connection that owned it ended.
    OwnerGone,
    /// It was transient, and its node restarted.
    Restarted,
    /// Its vhost was deleted.
    VhostDeleted,
}

/// A policy that a file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilePolicy {
    /// Its vhost; must exist.
    pub vhost: VhostName,
    /// Policy or operator policy.
    pub scope: PolicyScope,
    /// What it says.
    pub policy: PolicyForm,
}

/// The defaults of a vhost that a file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileDefaults {
    /// The vhost; must exist.
    pub vhost: VhostName,
    /// What its queues go by when nothing else says more.
    pub definition: Term,
}
