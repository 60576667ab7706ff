//! Why something may not be: typed, sorted by fault, and the one place for its words.
//!
//! `Display` is RabbitMQ's explanation text as clients match on it, without the reply-code name in
//! front. The AMQP edge adds name and number, the HTTP edge its status. This file knows no
//! frames and no HTTP.

mod code;
mod fault;

use serde::{Deserialize, Serialize};

pub use code::{Fault, RefusalCode, Scope};
pub use fault::{
    ArgumentFault, BindingFault, DeclareDifference, DeleteCondition, ExchangeArgumentFault,
    ExpirationFault, LimitFault, Permission, PolicyFault, Resource, ResourceKind, Tenant,
    TenantThing,
};

use crate::names::{ExchangeName, QueueName, UserName, VhostName};
use crate::settings::QueueKind;

/// Result of everything that the rules may refuse.
pub type Result<T, E = Refusal> = std::result::Result<T, E>;

/// A request that is not carried out. Nothing has changed when one is returned.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum Refusal {
    // --- The client broke the protocol. ---
    /// The channel already has a consumer of this tag.
    #[error("attempt to reuse consumer tag '{tag}'")]
    ConsumerTagInUse { tag: Box<str> },
    /// `confirm.select` on a transactional channel.
    #[error("cannot switch from tx to confirm mode")]
    ConfirmAfterTx,
    /// `CC` or `BCC` that is no array.
    #[error("invalid message: {{unacceptable_type_in_header,\"{header}\",{type_name}}}")]
    InvalidCarbonCopy {
        header: Box<str>,
        type_name: Box<str>,
    },
    /// The `expiration` property is no whole number of milliseconds in range.
    #[error("invalid expiration '{text}': {why}")]
    InvalidExpiration {
        text: Box<str>,
        why: ExpirationFault,
    },
    /// `tx.commit` or `tx.rollback` without `tx.select`.
    #[error("channel is not transactional")]
    NotTransactional,
    /// A consumer on the reply pseudo-queue must be `no_ack`.
    #[error("reply consumer cannot acknowledge")]
    ReplyConsumerAcknowledges,
    /// A second consumer on the reply pseudo-queue of one channel.
    #[error("reply consumer already set")]
    ReplyConsumerExists,
    /// A request that wants direct replies, without a consumer for them.
    #[error("fast reply consumer does not exist")]
    ReplyConsumerMissing,
    /// A message for the broker itself is not as it has to be.
    #[error("message for exchange '{exchange}' not understood: {why}")]
    DoorMessage { exchange: Box<str>, why: Box<str> },
    /// `tx.select` on a confirming channel.
    #[error("cannot switch from confirm to tx mode")]
    TxAfterConfirm,
    /// A tag that was never given out, or is settled.
    #[error("unknown delivery tag {tag}")]
    UnknownDeliveryTag { tag: u64 },
    /// The `user_id` property names somebody else.
    #[error("user_id property set to '{claimed}' but authenticated user was '{user}'")]
    UserIdMismatch { claimed: Box<str>, user: UserName },

    // --- The client asks for what it may not have. ---
    /// The user lacks a permission on a queue or an exchange.
    #[error("{permission} access to {resource} refused for user '{user}'")]
    AccessRefused {
        permission: Permission,
        resource: Resource,
        user: UserName,
    },
    /// An exchange of the broker's own is not declared by clients.
    #[error("exchange '{exchange}' is built in and cannot be declared")]
    BuiltInExchange { exchange: ExchangeName },
    /// The default exchange cannot be declared, deleted, bound or unbound.
    #[error("operation not permitted on the default exchange")]
    DefaultExchange,
    /// Exchanges whose names start with `amq.` stay.
    #[error("deletion of system exchange '{exchange}' in vhost '{vhost}' not allowed")]
    DeletionOfSystemExchange {
        exchange: ExchangeName,
        vhost: VhostName,
    },
    /// A consumer is, or wants to be, the only one.
    #[error("queue '{queue}' in vhost '{vhost}' in exclusive use")]
    ExclusiveUse { queue: QueueName, vhost: VhostName },
    /// Internal exchanges take messages from other exchanges only.
    #[error("cannot publish to internal exchange '{exchange}' in vhost '{vhost}'")]
    InternalExchange {
        exchange: ExchangeName,
        vhost: VhostName,
    },
    /// Bad credentials. For the client only this much, whatever the reason is.
    #[error(
        "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
    )]
    LoginRefused { mechanism: Box<str> },
    /// An object that a policy file owns is not changed by anybody else.
    #[error("policy '{policy}' in vhost '{vhost}' comes from a policy file and is read-only here")]
    PolicyReadOnly { policy: Box<str>, vhost: VhostName },
    /// A new name that starts with `amq.`.
    #[error("{kind} name '{name}' contains reserved prefix 'amq.*'")]
    ReservedPrefix { kind: ResourceKind, name: Box<str> },
    /// The queue is locked by another connection, or its exclusive flag differs.
    #[error(
        "cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost}'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
    )]
    ResourceLocked { queue: QueueName, vhost: VhostName },
    /// `basic.get` on a quorum queue with a single active consumer.
    #[error(
        "cannot obtain access to locked queue '{queue}' in vhost '{vhost}'. basic.get operations are not supported by <<\"quorum\">> queues with single active consumer"
    )]
    SingleActiveConsumerGet { queue: QueueName, vhost: VhostName },
    /// The user lacks a topic permission for this key.
    #[error(
        "{permission} access to topic '{key}' in exchange '{exchange}' in vhost '{vhost}' refused for user '{user}'"
    )]
    TopicAccessRefused {
        permission: Permission,
        key: Box<str>,
        exchange: ExchangeName,
        vhost: VhostName,
        user: UserName,
    },
    /// The user has no permission record for the vhost.
    #[error("access to vhost '{vhost}' refused for user '{user}'")]
    VhostAccessRefused { vhost: VhostName, user: UserName },
    /// The vhost is marked as not to be deleted.
    #[error("Refusing to delete virtual host '{vhost}' because it is protected from deletion")]
    VhostProtected { vhost: VhostName },
    /// Only the channel that waits for the replies may consume them.
    #[error("only creator channel may consume from queue '{queue}' in vhost '{vhost}'")]
    VolatileQueueConsume { queue: QueueName, vhost: VhostName },
    /// Replies are delivered, not fetched.
    #[error("basic.get not supported by volatile queue '{queue}' in vhost '{vhost}'")]
    VolatileQueueGet { queue: QueueName, vhost: VhostName },
    /// Generated reply queues cannot be bound.
    #[error("cannot bind or unbind to a volatile (direct reply-to) queue")]
    VolatileQueueBinding,

    // --- The client asks for what cannot be had. ---
    /// The operator closes the connection; the text is the operator's.
    #[error("{reason}")]
    ClosedByOperator { reason: Box<str> },
    /// The token that the client logged in with has run out.
    #[error("credential expired")]
    CredentialExpired,
    /// Definitions name a vhost that does not exist.
    #[error("Please create virtual host \"{vhost}\" prior to importing definitions.")]
    DefinitionsVhostMissing { vhost: VhostName },
    /// A delivery stayed unacknowledged for too long.
    #[error(
        "delivery acknowledgement on channel {channel} timed out. Timeout value used: {timeout_ms} ms. This timeout value can be configured, see consumers doc guide to learn more"
    )]
    DeliveryTimedOut { channel: u16, timeout_ms: u64 },
    /// A feature that RabbitMQ refuses by default.
    #[error(
        "Feature `{feature}` is deprecated.\nBy default, this feature is not permitted anymore."
    )]
    DeprecatedFeature { feature: Box<str> },
    /// An exchange argument of the wrong kind.
    #[error("{why}")]
    ExchangeArgument {
        exchange: ExchangeName,
        vhost: VhostName,
        why: ExchangeArgumentFault,
    },
    /// `exchange.delete` if-unused, and bindings from the exchange exist.
    #[error("exchange '{exchange}' in vhost '{vhost}' in use")]
    ExchangeInUse {
        exchange: ExchangeName,
        vhost: VhostName,
    },
    /// No such exchange.
    #[error("no exchange '{exchange}' in vhost '{vhost}'")]
    ExchangeNotFound {
        exchange: ExchangeName,
        vhost: VhostName,
    },
    /// A binding that the source's type does not take.
    #[error("{why}")]
    InvalidBinding {
        source_exchange: ExchangeName,
        vhost: VhostName,
        why: BindingFault,
    },
    /// An argument of `queue.declare` or `basic.consume` with a bad value.
    #[error("invalid arg '{key}' for queue '{queue}' in vhost '{vhost}': {why}")]
    InvalidArgument {
        key: Box<str>,
        queue: QueueName,
        vhost: VhostName,
        why: ArgumentFault,
    },
    /// A string argument that is no string.
    #[error("invalid type '{type_name}' for arg '{key}' in {resource}")]
    InvalidArgumentType {
        key: Box<str>,
        type_name: Box<str>,
        resource: Resource,
    },
    /// A word that names something else than an exchange type.
    #[error("invalid exchange type '{exchange_type}'")]
    InvalidExchangeType { exchange_type: Box<str> },
    /// A limit of a vhost or a user that is none.
    #[error("Validation failed\n\n{why}\n")]
    InvalidLimit { why: LimitFault },
    /// A policy that is not understood.
    #[error("{why}")]
    InvalidPolicy {
        policy: Box<str>,
        vhost: VhostName,
        why: PolicyFault,
    },
    /// A permission pattern that is no regular expression.
    #[error("invalid regular expression '{pattern}': {problem}")]
    InvalidPattern {
        pattern: Box<str>,
        problem: Box<str>,
    },
    /// A property that the queue type cannot have: `non-durable`, `exclusive-owner`, `auto-delete`.
    #[error("invalid property '{property}' for queue '{queue}' in vhost '{vhost}'")]
    InvalidProperty {
        property: Box<str>,
        queue: QueueName,
        vhost: VhostName,
    },
    /// A vhost's default queue type that is none.
    #[error("{queue_type} is not a valid queue type")]
    InvalidQueueType { queue_type: Box<str> },
    /// A redeclaration differs from what exists.
    #[error("inequivalent arg '{key}' for {resource}: {difference}")]
    InequivalentArgument {
        key: Box<str>,
        resource: Resource,
        difference: DeclareDifference,
    },
    /// `queue.delete` with a condition that the queue type does not know.
    #[error(
        "cannot delete queue '{queue}' in vhost '{vhost}'. queue.delete operations with {condition} flag set are not supported by quorum queues"
    )]
    DeleteConditionNotSupported {
        queue: QueueName,
        vhost: VhostName,
        condition: DeleteCondition,
    },
    /// `basic.publish` with the immediate flag.
    #[error("immediate=true")]
    ImmediateNotSupported,
    /// `basic.qos` by size.
    #[error("prefetch_size!=0 ({prefetch_size})")]
    PrefetchSizeNotSupported { prefetch_size: u32 },
    /// `basic.recover` without requeue.
    #[error("requeue=false")]
    RecoverWithoutRequeue,
    /// A queue type that this broker has not.
    #[error("queue type '{queue_type}' of queue '{queue}' in vhost '{vhost}' is not implemented")]
    QueueTypeNotImplemented {
        queue_type: Box<str>,
        queue: QueueName,
        vhost: VhostName,
    },
    /// A name or key that no short string holds.
    #[error("{what} name is longer than {} bytes", crate::names::NAME_BYTES_MAX)]
    NameTooLong { what: Box<str> },
    /// An empty queue name on a channel that declared none.
    #[error("no previously declared queue")]
    NoPreviousQueue,
    /// A parameter component that nobody knows.
    #[error("Validation failed\n\ncomponent {component} not found\n")]
    ParameterComponentNotFound { component: Box<str> },
    /// A parameter, a global parameter, a policy or a permission record that does not exist.
    #[error("{what} '{name}' not found")]
    RecordNotFound { what: Box<str>, name: Box<str> },
    /// A transaction of which a queue took only a part.
    #[error("partial tx completion")]
    PartialTransaction,
    /// The node that holds the queue cannot be reached.
    #[error(
        "home node '{node}' of durable queue '{queue}' in vhost '{vhost}' is down or inaccessible"
    )]
    QueueDown {
        node: Box<str>,
        queue: QueueName,
        vhost: VhostName,
    },
    /// `queue.delete` if-unused, and consumers exist.
    #[error("queue '{queue}' in vhost '{vhost}' in use")]
    QueueInUse { queue: QueueName, vhost: VhostName },
    /// `queue.delete` if-empty, and messages are ready.
    #[error("queue '{queue}' in vhost '{vhost}' not empty")]
    QueueNotEmpty { queue: QueueName, vhost: VhostName },
    /// No such queue.
    #[error("no queue '{queue}' in vhost '{vhost}'")]
    QueueNotFound { queue: QueueName, vhost: VhostName },
    /// The queue failed and is not served.
    #[error("queue '{queue}' in vhost '{vhost}' process is stopped by supervisor")]
    QueueStopped { queue: QueueName, vhost: VhostName },
    /// A type of queue that must be named by the client.
    #[error("Cannot declare a server-named queue for type {}", kind.module_name())]
    ServerNamedQueue { kind: QueueKind },
    /// The node stops.
    #[error("broker forced connection closure with reason 'shutdown'")]
    Shutdown,
    /// No exchange type of this name.
    #[error("unknown exchange type '{exchange_type}'")]
    UnknownExchangeType { exchange_type: Box<str> },
    /// An argument that exists, but not for this type of queue.
    #[error("invalid arg '{key}' for queue '{queue}' in vhost '{vhost}' of queue type {}", kind.module_name())]
    UnsupportedArgument {
        key: Box<str>,
        queue: QueueName,
        vhost: VhostName,
        kind: QueueKind,
    },
    /// The connection's user is gone.
    #[error("user '{user}' is deleted")]
    UserDeleted { user: UserName },
    /// No such user.
    #[error("user '{user}' not found")]
    UserNotFound { user: UserName },
    /// The connection's vhost is gone.
    #[error("vhost '{vhost}' is deleted")]
    VhostDeleted { vhost: VhostName },
    /// No such vhost.
    #[error("vhost {vhost} not found")]
    VhostNotFound { vhost: VhostName },
    /// A permission for a vhost or a user that does not exist.
    #[error("vhost_or_user_not_found")]
    VhostOrUserNotFound { vhost: VhostName, user: UserName },

    // --- A resource is short. ---
    /// As many channels as were negotiated.
    #[error("number of channels opened ({max}) has reached the negotiated channel_max ({max})")]
    ChannelMaxReached { max: u16 },
    /// As many exchanges as the cluster may have.
    #[error(
        "cannot declare exchange '{exchange}' in vhost '{vhost}': exchange limit of {limit} is reached"
    )]
    ClusterExchangeLimit {
        exchange: ExchangeName,
        vhost: VhostName,
        limit: u64,
    },
    /// As many queues as the cluster may have.
    #[error("cannot declare queue '{queue}': queue limit in cluster ({limit}) is reached")]
    ClusterQueueLimit { queue: QueueName, limit: u64 },
    /// As many vhosts as the cluster may have.
    #[error("cannot create vhost '{vhost}': vhost limit of {limit} is reached")]
    ClusterVhostLimit { vhost: VhostName, limit: u64 },
    /// As many consumers as a channel may have.
    #[error("reached maximum ({max}) of consumers per channel")]
    ConsumersPerChannel { max: u64 },
    /// The body is larger than the broker takes. `configured` is false for the protocol's ceiling.
    #[error("message size {size} is larger than {}max size {max}", if *.configured { "configured " } else { "" })]
    MessageTooLarge {
        size: u64,
        max: u64,
        configured: bool,
    },
    /// Messages for an overfull queue waited for too long, or were too many to wait.
    #[error("flow control of queue '{queue}' in vhost '{vhost}' ignored or timed out")]
    HeldTooLong { queue: QueueName, vhost: VhostName },
    /// As many channels as the node may have.
    #[error(
        "number of channels opened on node '{node}' has reached the maximum allowed limit of {limit}"
    )]
    NodeChannelLimit { node: Box<str>, limit: u64 },
    /// As many connections as the node may have.
    #[error("connection refused: node connection limit ({limit}) is reached")]
    NodeConnectionLimit { limit: u64 },
    /// All memory for messages is used, and consumers hold their part of it: one more could not be given
    /// anything.
    #[error("connection refused: memory for messages is full ({limit_bytes} bytes)")]
    MemoryExhausted { limit_bytes: u64 },
    /// A table of this broker is full: the bound that protects its memory.
    #[error("{what} limit of {limit} is reached")]
    TableFull { what: Box<str>, limit: u64 },
    /// As much of something as a user, or a vhost, may have.
    #[error("{what} limit of {holder} ({limit}) is reached")]
    TenantLimit {
        what: TenantThing,
        holder: Tenant,
        limit: u64,
    },
    /// As many channels as the user may have.
    #[error(
        "number of channels opened for user '{user}' has reached the maximum allowed user limit of {limit}"
    )]
    UserChannelLimit { user: UserName, limit: u64 },
    /// As many connections as the user may have.
    #[error("connection refused for user '{user}': user connection limit ({limit}) is reached")]
    UserConnectionLimit { user: UserName, limit: u64 },
    /// As many queues as the user may have declared.
    #[error("cannot declare queue '{queue}': queue limit of user '{user}' ({limit}) is reached")]
    UserQueueLimit {
        queue: QueueName,
        user: UserName,
        limit: u64,
    },
    /// As many connections as the vhost may have.
    #[error(
        "access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
    )]
    VhostConnectionLimit {
        vhost: VhostName,
        user: UserName,
        limit: u64,
    },
    /// As many queues as the vhost may have.
    #[error("cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({limit}) is reached")]
    VhostQueueLimit {
        queue: QueueName,
        vhost: VhostName,
        limit: u64,
    },

    // --- We are broken. ---
    /// The vhost exists and is not served.
    #[error("access to vhost '{vhost}' refused for user '{user}': vhost '{vhost}' is down")]
    VhostDown { vhost: VhostName, user: UserName },
    /// A rule of our own does not hold.
    #[error("{what}")]
    Broken { what: Box<str> },
}

#[cfg(test)]
mod tests;
