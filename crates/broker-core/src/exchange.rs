//! The types of exchange: their names, which arguments they take, and which bindings.
//!
//! How each type finds its targets is in the files below. This one knows no vhost and no queue
//! but by the words that its checks need.

pub(crate) mod hash;
pub(crate) mod headers;
pub(crate) mod table;
pub(crate) mod topic;

use amqp::{Table, Value};
use serde::{Deserialize, Serialize};

use crate::arguments::show_value;
use crate::refusal::{BindingFault, ExchangeArgumentFault, Refusal};
use crate::settings::QueueKind;

/// Most `#` words in a topic binding key.
// rabbitmq: 4.3.5, topic binding keys
pub const TOPIC_HASHES_MAX: usize = 2;

/// Messages that a recent-history exchange keeps when nothing says otherwise.
pub const RECENT_HISTORY_LENGTH_DEFAULT: u32 = 20;

/// Most messages that a recent-history exchange may be asked to keep.
pub const RECENT_HISTORY_LENGTH_MAX: u32 = 10_000;

/// The argument (and policy key) that names the exchange for what is not routed.
pub const ALTERNATE_EXCHANGE: &str = "alternate-exchange";

const DELAYED_TYPE: &str = "x-delayed-type";
const HASH_HEADER: &str = "hash-header";
const HASH_PROPERTY: &str = "hash-property";
const RECENT_HISTORY_LENGTH: &str = "x-recent-history-length";

/// How an exchange finds the targets of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeKind {
    /// Binding key equals routing key.
    Direct,
    /// Every binding.
    Fanout,
    /// Binding key with wildcards matches routing key.
    Topic,
    /// Binding arguments match message headers.
    Headers,
    /// One of the bound, weighted, chosen by a hash; few move when the bound change.
    #[serde(rename = "x-consistent-hash")]
    ConsistentHash,
    /// One of the bound, chosen by a hash modulo their number.
    #[serde(rename = "x-modulus-hash")]
    ModulusHash,
    /// One of the bound, at random.
    #[serde(rename = "x-random")]
    Random,
    /// One of the bound queues on the publisher's node, at random.
    #[serde(rename = "x-local-random")]
    LocalRandom,
    /// A fanout that remembers.
    #[serde(rename = "x-recent-history")]
    RecentHistory,
    /// Any other type, after the delay that the message names.
    #[serde(rename = "x-delayed-message")]
    DelayedMessage,
}

impl ExchangeKind {
    /// All types, in the order of their names.
    pub const ALL: [ExchangeKind; 10] = [
        ExchangeKind::Direct,
        ExchangeKind::Fanout,
        ExchangeKind::Headers,
        ExchangeKind::Topic,
        ExchangeKind::ConsistentHash,
        ExchangeKind::DelayedMessage,
        ExchangeKind::LocalRandom,
        ExchangeKind::ModulusHash,
        ExchangeKind::Random,
        ExchangeKind::RecentHistory,
    ];

    /// The type's name in `exchange.declare`.
    pub fn name(self) -> &'static str {
        match self {
            ExchangeKind::Direct => "direct",
            ExchangeKind::Fanout => "fanout",
            ExchangeKind::Topic => "topic",
            ExchangeKind::Headers => "headers",
            ExchangeKind::ConsistentHash => "x-consistent-hash",
            ExchangeKind::ModulusHash => "x-modulus-hash",
            ExchangeKind::Random => "x-random",
            ExchangeKind::LocalRandom => "x-local-random",
            ExchangeKind::RecentHistory => "x-recent-history",
            ExchangeKind::DelayedMessage => "x-delayed-message",
        }
    }

    /// The type of this name.
    ///
    /// # Errors
    /// `UnknownExchangeType`, or `InvalidExchangeType` for words that mean something else.
    pub fn parse(name: &str) -> Result<Self, Refusal> {
        if let Some(kind) = Self::ALL.into_iter().find(|kind| kind.name() == name) {
            return Ok(kind);
        }
        match name {
            "" | "queue" => Err(Refusal::InvalidExchangeType {
                exchange_type: name.into(),
            }),
            _ => Err(Refusal::UnknownExchangeType {
                exchange_type: name.into(),
            }),
        }
    }

    /// The type that messages are routed by: the delayed type's is in its arguments.
    pub fn routing_kind(self, arguments: &Table) -> ExchangeKind {
        if self != ExchangeKind::DelayedMessage {
            return self;
        }
        arguments
            .get(DELAYED_TYPE)
            .and_then(Value::as_str)
            .and_then(|name| Self::parse(name).ok())
            .unwrap_or(ExchangeKind::Direct)
    }
}

/// Why the arguments of an exchange are refused.
pub(crate) enum ArgumentProblem {
    /// A refusal that needs no context.
    Refused(Refusal),
    /// A fault of the arguments.
    Fault(ExchangeArgumentFault),
}

/// Checks the arguments of a new exchange of this type.
pub(crate) fn check_arguments(
    kind: ExchangeKind,
    arguments: &Table,
) -> Result<(), ArgumentProblem> {
    match kind {
        ExchangeKind::ConsistentHash => {
            HashSource::parse(arguments).map_err(ArgumentProblem::Fault)?;
        }
        ExchangeKind::RecentHistory => {
            recent_history_length(arguments).map_err(ArgumentProblem::Fault)?;
        }
        ExchangeKind::DelayedMessage => {
            let delayed = delayed_type(arguments)?;
            check_arguments(delayed, arguments)?;
        }
        _ => {}
    }
    Ok(())
}

fn delayed_type(arguments: &Table) -> Result<ExchangeKind, ArgumentProblem> {
    let name =
        arguments
            .get(DELAYED_TYPE)
            .and_then(Value::as_str)
            .ok_or(ArgumentProblem::Fault(
                ExchangeArgumentFault::DelayedTypeMissing,
            ))?;
    match ExchangeKind::parse(name).map_err(ArgumentProblem::Refused)? {
        ExchangeKind::DelayedMessage => Err(ArgumentProblem::Fault(
            ExchangeArgumentFault::DelayedByItself,
        )),
        kind => Ok(kind),
    }
}

/// How many messages a recent-history exchange keeps.
///
/// # Errors
/// The length is no positive integer, or beyond the bound.
pub fn recent_history_length(arguments: &Table) -> Result<u32, ExchangeArgumentFault> {
    let Some(value) = arguments.get(RECENT_HISTORY_LENGTH) else {
        return Ok(RECENT_HISTORY_LENGTH_DEFAULT);
    };
    match value.as_i64() {
        Some(length) if length > i64::from(RECENT_HISTORY_LENGTH_MAX) => {
            Err(ExchangeArgumentFault::HistoryTooLong {
                max: RECENT_HISTORY_LENGTH_MAX,
            })
        }
        Some(length) if length > 0 => Ok(u32::try_from(length).unwrap_or(u32::MAX)),
        _ => Err(ExchangeArgumentFault::HistoryLength(
            show_value(value).into(),
        )),
    }
}

/// What a consistent-hash exchange hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HashSource {
    /// The routing key.
    #[default]
    RoutingKey,
    /// The header of this name.
    Header(Box<str>),
    /// The `message_id` property.
    MessageId,
    /// The `correlation_id` property.
    CorrelationId,
    /// The `timestamp` property.
    Timestamp,
}

impl HashSource {
    pub(crate) fn parse(arguments: &Table) -> Result<Self, ExchangeArgumentFault> {
        let (header, property) = (arguments.get(HASH_HEADER), arguments.get(HASH_PROPERTY));
        let text = |key: &str, value: &Value| {
            value
                .as_str()
                .map(Box::<str>::from)
                .ok_or_else(|| ExchangeArgumentFault::HashSourceType(key.into()))
        };
        match (header, property) {
            (None, None) => Ok(HashSource::RoutingKey),
            (Some(_), Some(_)) => Err(ExchangeArgumentFault::HashSourcesExclusive),
            (Some(header), None) => Ok(HashSource::Header(text(HASH_HEADER, header)?)),
            (None, Some(property)) => match &*text(HASH_PROPERTY, property)? {
                "message_id" => Ok(HashSource::MessageId),
                "correlation_id" => Ok(HashSource::CorrelationId),
                "timestamp" => Ok(HashSource::Timestamp),
                other => Err(ExchangeArgumentFault::UnsupportedHashProperty(other.into())),
            },
        }
    }
}

/// Checks a binding from an exchange that routes by `kind`. `queue` is the destination's type,
/// when it is a queue.
pub(crate) fn check_binding(
    kind: ExchangeKind,
    key: &str,
    arguments: &Table,
    queue: Option<QueueKind>,
) -> Result<(), BindingFault> {
    match kind {
        ExchangeKind::Topic => topic::check_key(key),
        ExchangeKind::Headers => headers::HeadersMatch::parse(arguments).map(|_| ()),
        ExchangeKind::ConsistentHash => hash::parse_weight(key).map(|_| ()),
        ExchangeKind::LocalRandom => check_local_binding(key, queue),
        _ => Ok(()),
    }
}

fn check_local_binding(key: &str, queue: Option<QueueKind>) -> Result<(), BindingFault> {
    if !key.is_empty() {
        return Err(BindingFault::KeyNotEmpty(key.into()));
    }
    match queue {
        Some(QueueKind::Classic) => Ok(()),
        Some(kind) => Err(BindingFault::QueueKindNotValid(kind)),
        None => Err(BindingFault::DestinationNotFound),
    }
}
