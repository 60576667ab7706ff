//! The parts that refusals are made of: which resource, which permission, what is wrong with an
//! argument, a binding, a policy. Values and their words; no rules.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::{UserName, VhostName};
use crate::settings::QueueKind;
use crate::term::{Binary, Term};

/// What may be done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Create, delete, alter.
    Configure,
    /// Put messages in.
    Write,
    /// Take messages out.
    Read,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Permission::Configure => "configure",
            Permission::Write => "write",
            Permission::Read => "read",
        })
    }
}

/// What carries permissions and has a name in a vhost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// An exchange.
    Exchange,
    /// A queue.
    Queue,
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResourceKind::Exchange => "exchange",
            ResourceKind::Queue => "queue",
        })
    }
}

/// An exchange or a queue by its full name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// Exchange or queue.
    pub kind: ResourceKind,
    /// Its name; the default exchange is shown as `amq.default` by those who check permissions.
    pub name: Box<str>,
    /// Its vhost.
    pub vhost: VhostName,
}

impl Resource {
    /// An exchange of a vhost.
    pub fn exchange(name: impl AsRef<str>, vhost: &VhostName) -> Self {
        Self {
            kind: ResourceKind::Exchange,
            name: name.as_ref().into(),
            vhost: vhost.clone(),
        }
    }

    /// A queue of a vhost.
    pub fn queue(name: impl AsRef<str>, vhost: &VhostName) -> Self {
        Self {
            kind: ResourceKind::Queue,
            name: name.as_ref().into(),
            vhost: vhost.clone(),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}' in vhost '{}'", self.kind, self.name, self.vhost)
    }
}

/// What is wrong with the value of a queue or consumer argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ArgumentFault {
    /// A strategy that is neither at-most-once nor at-least-once.
    #[error("invalid_dlx_strategy")]
    DeadLetterStrategy,
    /// A dead-letter routing key without a dead-letter exchange.
    #[error("routing_key_but_no_dlx_defined")]
    DeadLetterKeyAlone,
    /// A leader locator that is none.
    #[error("invalid_queue_locator_arg")]
    LeaderLocator,
    /// An age that is no number with a unit.
    #[error("invalid_max_age")]
    MaxAge,
    /// A number below zero.
    #[error("{{value_negative,{0}}}")]
    Negative(i64),
    /// Something else than an integer.
    #[error("\"expected integer, got {0}\"")]
    NotInteger(Box<str>),
    /// An overflow mode that is none.
    #[error("invalid_overflow")]
    Overflow,
    /// More priorities than an octet can tell.
    #[error("{{max_value_exceeded,{0}}}")]
    PriorityTooHigh(i64),
    /// A number above the bound of its kind.
    #[error("{{value_too_large,{0}}}")]
    TooLarge(i64),
    /// A value of the wrong type.
    #[error("{{unacceptable_type,{0}}}")]
    UnacceptableType(Box<str>),
    /// A word that is none of those that this argument takes.
    #[error("\"unknown word '{0}'\"")]
    UnknownWord(Box<str>),
    /// A multiplier that is no number, below one or too large.
    #[error("\"expected a number from 1 to {0}\"")]
    Multiplier(u32),
    /// A queue type that is none.
    #[error("\"unsupported queue type '{0}'\"")]
    UnsupportedQueueType(Box<str>),
    /// A storage version other than 2.
    #[error("\"unsupported queue version '{0}'\"")]
    UnsupportedQueueVersion(i64),
    /// Zero where at least one is wanted.
    #[error("{{value_zero,0}}")]
    Zero,
}

/// How a redeclaration differs from what exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum DeclareDifference {
    /// Both have it, with different values.
    #[error("received '{received}' but current is '{current}'")]
    Both {
        received: Box<str>,
        current: Box<str>,
    },
    /// The request has a void.
    #[error("received none but current is '{current}'")]
    VoidReceived { current: Box<str> },
    /// The existing object has a void.
    #[error("received '{received}' but current is none")]
    VoidCurrent { received: Box<str> },
    /// Only the request has it.
    #[error("received the value '{value}' of type '{type_name}' but current is none")]
    OnlyReceived {
        value: Box<str>,
        type_name: Box<str>,
    },
    /// Only the existing object has it.
    #[error("received none but current is the value '{value}' of type '{type_name}'")]
    OnlyCurrent {
        value: Box<str>,
        type_name: Box<str>,
    },
}

/// The condition of a `queue.delete`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum DeleteCondition {
    /// Only without ready messages.
    #[error("if-empty")]
    IfEmpty,
    /// Only without consumers.
    #[error("if-unused")]
    IfUnused,
}

/// What is wrong with the `expiration` of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ExpirationFault {
    /// Digits, and then something else.
    #[error("{{leftover_string,\"{0}\"}}")]
    Leftover(Box<str>),
    /// Below zero.
    #[error("{{value_negative,{0}}}")]
    Negative(i64),
    /// No digits to begin with.
    #[error("no_integer")]
    NoInteger,
    /// Above ten years; as text, since it may be of any length.
    #[error("{{value_too_large,{0}}}")]
    TooLarge(Box<str>),
}

/// What is wrong with a binding.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum BindingFault {
    /// The destination of a local-random binding does not exist.
    #[error("Destination not found")]
    DestinationNotFound,
    /// `x-match` is no string.
    #[error("Invalid x-match field type {type_name} (value {value}); expected longstr")]
    HeadersMatchType {
        type_name: Box<str>,
        value: Box<str>,
    },
    /// `x-match` is an unknown word.
    #[error(
        "Invalid x-match field value {}; expected all, any, all-with-x, or any-with-x", Binary(.0)
    )]
    HeadersMatchValue(Box<str>),
    /// An exchange type that takes no binding keys.
    #[error("Non empty binding '{0}' key not permitted")]
    KeyNotEmpty(Box<str>),
    /// An exchange type that takes classic queues only.
    #[error("Queue type {} not valid for this exchange type", .0.module_name())]
    QueueKindNotValid(QueueKind),
    /// More `#` words than the trie walks in bounded time.
    #[error(
        "Topic binding key '{key}' uses {count} '#' wildcards, at most {} are allowed",
        crate::exchange::TOPIC_HASHES_MAX
    )]
    TooManyHashes { key: Box<str>, count: usize },
    /// A weight that is no integer.
    #[error("The binding key must be an integer: <<\"{0}\">>")]
    WeightNotInteger(Box<str>),
    /// A weight of zero or less.
    #[error("The binding key must be greater than 0")]
    WeightNotPositive,
    /// More buckets than the ring may have.
    #[error("The binding key must not be greater than {max}")]
    WeightTooLarge { max: u32 },
}

/// What is wrong with an argument of an exchange.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum ExchangeArgumentFault {
    /// A delayed exchange that routes like a delayed exchange.
    #[error("Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'")]
    DelayedByItself,
    /// A delayed exchange without the type that it routes by.
    #[error("Invalid argument, 'x-delayed-type' must be an existing exchange type")]
    DelayedTypeMissing,
    /// Two sources for the hash.
    #[error("hash-header and hash-property are mutually exclusive")]
    HashSourcesExclusive,
    /// `hash-header` or `hash-property` that is no string.
    #[error("Invalid argument, '{0}' must be a string")]
    HashSourceType(Box<str>),
    /// A history length that is no positive integer.
    #[error("Invalid argument {0}, 'x-recent-history-length' must be a positive integer")]
    HistoryLength(Box<str>),
    /// A history longer than the broker keeps.
    #[error("Invalid argument, 'x-recent-history-length' must not be greater than {max}")]
    HistoryTooLong { max: u32 },
    /// A property that is not hashed.
    #[error("Unsupported property: {0}")]
    UnsupportedHashProperty(Box<str>),
}

/// What is wrong with a policy. `Display` is the whole reason as the HTTP API shows it.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum PolicyFault {
    /// An `apply-to` that is none.
    #[error(
        "Validation failed\n\napply-to '{0}' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'\n"
    )]
    ApplyTo(Box<str>),
    /// A definition without keys.
    #[error("Validation failed\n\nno policy provided\n")]
    Empty,
    /// The definition is no object.
    #[error("Validation failed\n\ndefinition should be a map, actually was {0}\n")]
    DefinitionNotMap(Term),
    /// Fields that must be there.
    #[error("[{}]", .0.iter().map(|key| format!("{{key_missing,{key}}}")).collect::<Vec<_>>().join(","))]
    FieldsMissing(Vec<Box<str>>),
    /// A pattern that is no regular expression.
    #[error(
        "Validation failed\n\npattern should be regular expression but is invalid: {{\"{problem}\",{position}}}\n"
    )]
    Pattern { problem: Box<str>, position: usize },
    /// A pattern that is no string.
    #[error("Validation failed\n\npattern should be binary, actually was {0}\n")]
    PatternNotString(Term),
    /// A priority that is no number.
    #[error("Validation failed\n\npriority should be a number, actually was {0}\n")]
    Priority(Term),
    /// A retry type without the delay.
    #[error("Validation failed\n\ndelayed-retry-min is required when delayed-retry-type is {0}\n")]
    RetryWithoutMin(Box<str>),
    /// A longest delay that is shorter than the shortest.
    #[error(
        "Validation failed\n\ndelayed-retry-max must be greater than or equal to delayed-retry-min\n"
    )]
    RetryMaxBelowMin,
    /// Keys that no policy, or no operator policy, may hold.
    #[error("Validation failed\n\n{} are not recognised policy settings\n", Term::pairs(.0))]
    UnknownKeys(Vec<(Box<str>, Term)>),
    /// A value out of the key's range. `noun` names the key as RabbitMQ does.
    #[error("Validation failed\n\n{value} is not a valid {noun}\n")]
    Value {
        key: Box<str>,
        value: Term,
        noun: Box<str>,
    },
}

/// What is wrong with the limits of a vhost or a user.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum LimitFault {
    /// Something else than a whole number.
    #[error("{name} should be a number, actually was {value}")]
    NotInteger { name: Box<str>, value: Term },
    /// Names of no limit.
    #[error("Unrecognised terms {} in limits", Term::pairs(.0))]
    Unknown(Vec<(Box<str>, Term)>),
}

/// Who has a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
pub enum Tenant {
    /// A user.
    #[error("user '{0}'")]
    User(UserName),
    /// A vhost.
    #[error("vhost '{0}'")]
    Vhost(VhostName),
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
pub enum TenantThing {
    /// Open channels.
    #[error("channel")]
    Channel,
    /// Consumers.
    #[error("consumer")]
    Consumer,
    /// Deliveries that are not settled.
    #[error("unacked delivery")]
    Unacked,
    /// Bytes of a message's body.
    #[error("message size")]
    MessageSize,
    /// Connections opened in a second.
    #[error("connection rate")]
    ConnectionRate,
    /// Messages published in a second.
    #[error("publish rate")]
    PublishRate,
    /// Bytes of bodies published in a second.
    #[error("publish bytes rate")]
    PublishBytesRate,
}
