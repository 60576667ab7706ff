//! What a refusal means on the wire and in the log: reply code, scope, fault. Each kind of refusal is
//! named once for each; texts are not known here.

use super::{Refusal, TenantThing};

/// The reply codes of AMQP that a refusal can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum RefusalCode {
    /// The connection is closed by the operator or the node.
    ConnectionForced = 320,
    /// The client may not.
    AccessRefused = 403,
    /// The object does not exist.
    NotFound = 404,
    /// The object is locked by another.
    ResourceLocked = 405,
    /// The object is not in the state that the request wants.
    PreconditionFailed = 406,
    /// Not allowed for this connection.
    NotAllowed = 530,
    /// The broker cannot do this.
    NotImplemented = 540,
    /// The broker is broken.
    InternalError = 541,
}

impl RefusalCode {
    /// The number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }
}

/// What is closed when a refusal meets a client of AMQP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The channel.
    Channel,
    /// The whole connection.
    Connection,
}

/// Who is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The client broke the protocol.
    Protocol,
    /// The client asks for what it may not have.
    Forbidden,
    /// The client asks for what cannot be had.
    Request,
    /// A limit is reached.
    Resource,
    /// We are broken.
    Ours,
}

impl Refusal {
    /// The reply code. Refusals that only the HTTP API can cause count as failed preconditions.
    // amqp 1.2: constants
    pub fn code(&self) -> RefusalCode {
        use Refusal as R;
        match self {
            R::AccessRefused { .. }
            | R::BuiltInExchange { .. }
            | R::DefaultExchange
            | R::DeletionOfSystemExchange { .. }
            | R::ExclusiveUse { .. }
            | R::InternalExchange { .. }
            | R::LoginRefused { .. }
            | R::PolicyReadOnly { .. }
            | R::ReservedPrefix { .. }
            | R::TopicAccessRefused { .. }
            | R::VolatileQueueBinding => RefusalCode::AccessRefused,
            R::ExchangeNotFound { .. }
            | R::NoPreviousQueue
            | R::QueueDown { .. }
            | R::QueueNotFound { .. }
            | R::QueueStopped { .. }
            | R::RecordNotFound { .. }
            | R::UserNotFound { .. } => RefusalCode::NotFound,
            R::ResourceLocked { .. } | R::SingleActiveConsumerGet { .. } => {
                RefusalCode::ResourceLocked
            }
            R::ClosedByOperator { .. }
            | R::CredentialExpired
            | R::Shutdown
            | R::UserDeleted { .. }
            | R::VhostDeleted { .. } => RefusalCode::ConnectionForced,
            R::TenantLimit {
                what: TenantThing::Channel | TenantThing::ConnectionRate,
                ..
            }
            | R::ChannelMaxReached { .. }
            | R::ConsumerTagInUse { .. }
            | R::ConsumersPerChannel { .. }
            | R::MemoryExhausted { .. }
            | R::NodeChannelLimit { .. }
            | R::NodeConnectionLimit { .. }
            | R::UserChannelLimit { .. }
            | R::UserConnectionLimit { .. }
            | R::VhostAccessRefused { .. }
            | R::VhostConnectionLimit { .. }
            | R::VhostNotFound { .. } => RefusalCode::NotAllowed,
            R::DeleteConditionNotSupported { .. }
            | R::ImmediateNotSupported
            | R::PrefetchSizeNotSupported { .. }
            | R::QueueTypeNotImplemented { .. }
            | R::RecoverWithoutRequeue
            | R::VolatileQueueGet { .. } => RefusalCode::NotImplemented,
            R::Broken { .. } | R::DeprecatedFeature { .. } | R::VhostDown { .. } => {
                RefusalCode::InternalError
            }
            _ => RefusalCode::PreconditionFailed,
        }
    }

    /// What is closed: soft codes close the channel, hard ones the connection. A refused login has
    /// no channel to close.
    pub fn scope(&self) -> Scope {
        match (self, self.code()) {
            (Refusal::LoginRefused { .. }, _) => Scope::Connection,
            (
                _,
                RefusalCode::AccessRefused
                | RefusalCode::NotFound
                | RefusalCode::ResourceLocked
                | RefusalCode::PreconditionFailed,
            ) => Scope::Channel,
            _ => Scope::Connection,
        }
    }

    /// Who is to blame; tells the level of the log line.
    pub fn fault(&self) -> Fault {
        use Refusal as R;
        match self {
            R::ConsumerTagInUse { .. }
            | R::ConfirmAfterTx
            | R::DoorMessage { .. }
            | R::InvalidCarbonCopy { .. }
            | R::InvalidExpiration { .. }
            | R::NotTransactional
            | R::ReplyConsumerAcknowledges
            | R::ReplyConsumerExists
            | R::ReplyConsumerMissing
            | R::TxAfterConfirm
            | R::UnknownDeliveryTag { .. }
            | R::UserIdMismatch { .. } => Fault::Protocol,
            R::AccessRefused { .. }
            | R::BuiltInExchange { .. }
            | R::DefaultExchange
            | R::DeletionOfSystemExchange { .. }
            | R::ExclusiveUse { .. }
            | R::InternalExchange { .. }
            | R::LoginRefused { .. }
            | R::PolicyReadOnly { .. }
            | R::ReservedPrefix { .. }
            | R::ResourceLocked { .. }
            | R::SingleActiveConsumerGet { .. }
            | R::TopicAccessRefused { .. }
            | R::VhostAccessRefused { .. }
            | R::VhostProtected { .. }
            | R::VolatileQueueBinding
            | R::VolatileQueueConsume { .. }
            | R::VolatileQueueGet { .. } => Fault::Forbidden,
            R::ChannelMaxReached { .. }
            | R::ClusterExchangeLimit { .. }
            | R::ClusterQueueLimit { .. }
            | R::ClusterVhostLimit { .. }
            | R::ConsumersPerChannel { .. }
            | R::MemoryExhausted { .. }
            | R::MessageTooLarge { .. }
            | R::NodeChannelLimit { .. }
            | R::NodeConnectionLimit { .. }
            | R::TableFull { .. }
            | R::TenantLimit { .. }
            | R::UserChannelLimit { .. }
            | R::UserConnectionLimit { .. }
            | R::UserQueueLimit { .. }
            | R::VhostConnectionLimit { .. }
            | R::VhostQueueLimit { .. } => Fault::Resource,
            R::Broken { .. } | R::VhostDown { .. } => Fault::Ours,
            _ => Fault::Request,
        }
    }
}
