//! Arguments of queues and consumers: which exist for which type, which values they take, and how
//! a redeclaration is compared with what exists.
//!
//! Every check is one row of a table. What the values mean is the knowledge of `policy`, which
//! merges them into settings.

mod equivalence;

use amqp::{Table, Value};

pub(crate) use equivalence::{compare_flag, compare_text, compare_value, is_same_argument};

use crate::names::{QueueName, VhostName};
use crate::policy::{is_max_age, retry_multiplier};
use crate::refusal::{ArgumentFault, Refusal, Resource, Result};
use crate::settings::{
    ConsumerTimeoutAction, DeadLetterStrategy, DeliveryLimitCounts, LeaderLocator, Overflow,
    QueueKind, RETRY_MULTIPLIER_MAX, TIME_MS_MAX,
};
use crate::term::{Binary, Term};

/// The argument that names the type.
pub const QUEUE_TYPE: &str = "x-queue-type";

/// The argument that names the dead-letter exchange.
pub const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";

const DEAD_LETTER_ROUTING_KEY: &str = "x-dead-letter-routing-key";
const QUEUE_MASTER_LOCATOR: &str = "x-queue-master-locator";
const PRIORITY: &str = "x-priority";
const STREAM_OFFSET: &str = "x-stream-offset";
const CONSUMER_TIMEOUT: &str = "x-consumer-timeout";

/// How a value is checked.
enum Check {
    /// Any value at all.
    Anything,
    /// A truth value.
    Bool,
    /// `x-dead-letter-exchange`: a string, with an error text of its own.
    DeadLetterExchange,
    /// `x-dead-letter-routing-key`: a string, beside an exchange.
    DeadLetterRoutingKey,
    /// A whole number of at least 0.
    Count,
    /// A leader locator.
    Locator,
    /// 0…255.
    Priority,
    /// A whole number of at least 1.
    Positive,
    /// Milliseconds, 0…ten years.
    Time,
    /// Milliseconds, 1…ten years.
    TimeNotZero,
    /// The one storage version that exists.
    Version,
    /// A number from 1 to `RETRY_MULTIPLIER_MAX`.
    Multiplier,
    /// 0…100.
    Percent,
    /// A word that this accepts, for arguments that RabbitMQ does not have.
    OwnWord(fn(&str) -> bool),
    /// A word that this accepts, else this fault.
    Word(fn(&str) -> bool, ArgumentFault),
}

/// An argument: for which types, and how it is checked.
struct Argument {
    key: &'static str,
    kinds: &'static [QueueKind],
    check: Check,
}

const BOTH: &[QueueKind] = &[QueueKind::Classic, QueueKind::Quorum];
const CLASSIC: &[QueueKind] = &[QueueKind::Classic];
const QUORUM: &[QueueKind] = &[QueueKind::Quorum];
const NEITHER: &[QueueKind] = &[];

const fn argument(key: &'static str, kinds: &'static [QueueKind], check: Check) -> Argument {
    Argument { key, kinds, check }
}

fn is_overflow(word: &str) -> bool {
    Overflow::parse(word).is_some()
}

fn is_strategy(word: &str) -> bool {
    DeadLetterStrategy::parse(word).is_some()
}

fn is_delivery_limit_counts(word: &str) -> bool {
    DeliveryLimitCounts::parse(word).is_some()
}

fn is_timeout_action(word: &str) -> bool {
    ConsumerTimeoutAction::parse(word).is_some()
}

/// In the order in which RabbitMQ checks and compares.
// rabbitmq docs: queues, optional arguments
const ARGUMENTS: &[Argument] = &[
    argument("x-expires", BOTH, Check::TimeNotZero),
    argument("x-message-ttl", BOTH, Check::Time),
    argument(DEAD_LETTER_EXCHANGE, BOTH, Check::DeadLetterExchange),
    argument(DEAD_LETTER_ROUTING_KEY, BOTH, Check::DeadLetterRoutingKey),
    argument(
        "x-dead-letter-strategy",
        QUORUM,
        Check::Word(is_strategy, ArgumentFault::DeadLetterStrategy),
    ),
    argument("x-max-length", BOTH, Check::Count),
    argument("x-max-length-bytes", BOTH, Check::Count),
    argument("x-max-in-memory-length", QUORUM, Check::Count),
    argument("x-max-in-memory-bytes", QUORUM, Check::Count),
    argument("x-max-priority", CLASSIC, Check::Priority),
    argument(
        "x-overflow",
        BOTH,
        Check::Word(is_overflow, ArgumentFault::Overflow),
    ),
    argument("x-queue-mode", CLASSIC, Check::Anything),
    argument("x-queue-version", CLASSIC, Check::Version),
    argument("x-single-active-consumer", BOTH, Check::Bool),
    argument("x-delivery-limit", QUORUM, Check::Anything),
    argument(CONSUMER_TIMEOUT, QUORUM, Check::Count),
    argument("x-consumer-disconnected-timeout", QUORUM, Check::Count),
    // RabbitMQ has them for quorum queues only.
    argument("x-delayed-retry-type", BOTH, Check::Anything),
    argument("x-delayed-retry-min", BOTH, Check::Anything),
    argument("x-delayed-retry-max", BOTH, Check::Anything),
    argument("x-quorum-initial-group-size", QUORUM, Check::Positive),
    argument("x-queue-leader-locator", BOTH, Check::Locator),
    argument(QUEUE_MASTER_LOCATOR, CLASSIC, Check::Anything),
    argument("x-initial-cluster-size", NEITHER, Check::Positive),
    argument(
        "x-max-age",
        NEITHER,
        Check::Word(is_max_age, ArgumentFault::MaxAge),
    ),
    argument("x-stream-max-segment-size-bytes", NEITHER, Check::Count),
    argument("x-stream-filter-size-bytes", NEITHER, Check::Count),
    // Arguments of this broker.
    argument("x-capacity", BOTH, Check::Count),
    argument("x-flow-resume-capacity", BOTH, Check::Count),
    argument("x-qpid-capacity", BOTH, Check::Count),
    argument("x-qpid-flow-resume-capacity", BOTH, Check::Count),
    argument("x-capacity-messages", BOTH, Check::Count),
    argument("x-flow-resume-messages", BOTH, Check::Count),
    argument("x-hold-timeout", BOTH, Check::Time),
    argument("x-memory-limit", BOTH, Check::Count),
    argument("x-memory-high-water", BOTH, Check::Percent),
    argument("x-delayed-retry-multiplier", BOTH, Check::Multiplier),
    argument("x-delayed-retry-jitter", BOTH, Check::Percent),
    argument("x-expire-anywhere", BOTH, Check::Bool),
    argument("x-poison-loop-returns", BOTH, Check::Count),
    argument(
        "x-delivery-limit-counts",
        QUORUM,
        Check::OwnWord(is_delivery_limit_counts),
    ),
    argument(
        "x-consumer-timeout-action",
        QUORUM,
        Check::OwnWord(is_timeout_action),
    ),
];

/// The type that a declaration asks for, when nothing of it must be refused.
///
/// # Errors
/// `InvalidArgument` for a word that is no type, `QueueTypeNotImplemented` for streams.
pub(crate) fn queue_kind(
    arguments: &Table,
    default: QueueKind,
    queue: &QueueName,
    vhost: &VhostName,
) -> Result<QueueKind> {
    let fault = |why| invalid(QUEUE_TYPE, why, queue, vhost);
    let Some(value) = arguments.get(QUEUE_TYPE) else {
        return Ok(default);
    };
    let Some(word) = value.as_str() else {
        return Err(fault(ArgumentFault::UnacceptableType(
            value.type_name().into(),
        )));
    };
    match word {
        "" | "undefined" => Ok(default),
        "classic" => Ok(QueueKind::Classic),
        "quorum" => Ok(QueueKind::Quorum),
        "stream" => Err(Refusal::QueueTypeNotImplemented {
            queue_type: word.into(),
            queue: queue.clone(),
            vhost: vhost.clone(),
        }),
        other => Err(fault(ArgumentFault::UnsupportedQueueType(other.into()))),
    }
}

/// Checks the arguments of a new queue: first the values of those that its type has, then that
/// there is none of another type.
///
/// # Errors
/// `InvalidArgument`, `InvalidArgumentType`, `UnsupportedArgument`, `DeprecatedFeature`.
pub(crate) fn check_queue_arguments(
    kind: QueueKind,
    arguments: &Table,
    queue: &QueueName,
    vhost: &VhostName,
) -> Result<()> {
    for argument in ARGUMENTS
        .iter()
        .filter(|argument| argument.kinds.contains(&kind))
    {
        if let Some(value) = arguments.get(argument.key) {
            check(argument, value, arguments, queue, vhost)?;
        }
    }
    let of_others = ARGUMENTS
        .iter()
        .find(|argument| !argument.kinds.contains(&kind) && arguments.contains_key(argument.key));
    match of_others {
        Some(argument) => Err(foreign(argument.key, kind, queue, vhost)),
        None => Ok(()),
    }
}

/// The arguments that a redeclaration of this type is compared by.
pub(crate) fn compared_arguments(kind: QueueKind) -> impl Iterator<Item = &'static str> {
    ARGUMENTS
        .iter()
        .filter(move |argument| argument.kinds.contains(&kind))
        .map(|argument| argument.key)
        .chain([QUEUE_TYPE])
}

fn check(
    argument: &Argument,
    value: &Value,
    arguments: &Table,
    queue: &QueueName,
    vhost: &VhostName,
) -> Result<()> {
    if argument.key == QUEUE_MASTER_LOCATOR {
        return Err(Refusal::DeprecatedFeature {
            feature: "queue_master_locator".into(),
        });
    }
    if matches!(argument.check, Check::DeadLetterExchange) && value.as_str().is_none() {
        return Err(Refusal::InvalidArgumentType {
            key: argument.key.into(),
            type_name: value.type_name().into(),
            resource: Resource::queue(queue, vhost),
        });
    }
    check_value(&argument.check, value, arguments)
        .map_err(|why| invalid(argument.key, why, queue, vhost))
}

fn check_value(check: &Check, value: &Value, arguments: &Table) -> Result<(), ArgumentFault> {
    match check {
        Check::Anything | Check::DeadLetterExchange => Ok(()),
        Check::Bool => value
            .as_bool()
            .map(|_| ())
            .ok_or_else(|| unacceptable(value)),
        Check::Count => at_least_zero(value).map(|_| ()),
        Check::Positive => at_least_one(value).map(|_| ()),
        Check::Time => at_least_zero(value).and_then(within_time),
        Check::TimeNotZero => at_least_one(value).and_then(within_time),
        Check::Priority => match at_least_zero(value)? {
            number if number > i64::from(u8::MAX) => Err(ArgumentFault::PriorityTooHigh(number)),
            _ => Ok(()),
        },
        Check::Version => match at_least_zero(value)? {
            2 => Ok(()),
            other => Err(ArgumentFault::UnsupportedQueueVersion(other)),
        },
        Check::Locator => match LeaderLocator::parse(text(value)?) {
            Some(_) => Ok(()),
            None => Err(ArgumentFault::LeaderLocator),
        },
        Check::Multiplier => match retry_multiplier(&Term::from(value)) {
            Some(_) => Ok(()),
            None => Err(ArgumentFault::Multiplier(RETRY_MULTIPLIER_MAX)),
        },
        Check::Percent => match at_least_zero(value)? {
            number if number > 100 => Err(ArgumentFault::TooLarge(number)),
            _ => Ok(()),
        },
        Check::OwnWord(accepts) => match text(value)? {
            word if accepts(word) => Ok(()),
            word => Err(ArgumentFault::UnknownWord(word.into())),
        },
        Check::Word(accepts, fault) => {
            if accepts(text(value)?) {
                Ok(())
            } else {
                Err(fault.clone())
            }
        }
        Check::DeadLetterRoutingKey => {
            text(value)?;
            match arguments.get(DEAD_LETTER_EXCHANGE) {
                Some(_) => Ok(()),
                None => Err(ArgumentFault::DeadLetterKeyAlone),
            }
        }
    }
}

fn integer(value: &Value) -> Result<i64, ArgumentFault> {
    value
        .as_i64()
        .ok_or_else(|| ArgumentFault::NotInteger(value.type_name().into()))
}

fn at_least_zero(value: &Value) -> Result<i64, ArgumentFault> {
    match integer(value)? {
        number if number < 0 => Err(ArgumentFault::Negative(number)),
        number => Ok(number),
    }
}

fn at_least_one(value: &Value) -> Result<i64, ArgumentFault> {
    match at_least_zero(value)? {
        0 => Err(ArgumentFault::Zero),
        number => Ok(number),
    }
}

fn within_time(ms: i64) -> Result<(), ArgumentFault> {
    if u64::try_from(ms).is_ok_and(|ms| ms > TIME_MS_MAX) {
        return Err(ArgumentFault::TooLarge(ms));
    }
    Ok(())
}

fn text(value: &Value) -> Result<&str, ArgumentFault> {
    value.as_str().ok_or_else(|| unacceptable(value))
}

fn unacceptable(value: &Value) -> ArgumentFault {
    ArgumentFault::UnacceptableType(value.type_name().into())
}

fn invalid(key: &str, why: ArgumentFault, queue: &QueueName, vhost: &VhostName) -> Refusal {
    Refusal::InvalidArgument {
        key: key.into(),
        queue: queue.clone(),
        vhost: vhost.clone(),
        why,
    }
}

fn foreign(key: &str, kind: QueueKind, queue: &QueueName, vhost: &VhostName) -> Refusal {
    Refusal::UnsupportedArgument {
        key: key.into(),
        queue: queue.clone(),
        vhost: vhost.clone(),
        kind,
    }
}

/// What the arguments of `basic.consume` say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerArguments {
    /// Higher ones are served first; 0 when not said.
    pub priority: i64,
    /// Longest time that a delivery may stay unacknowledged, in milliseconds.
    pub timeout_ms: Option<u64>,
}

impl ConsumerArguments {
    /// Understands the arguments of `basic.consume` on a queue of this type; unknown ones are
    /// ignored.
    ///
    /// # Errors
    /// `InvalidArgument`, and `UnsupportedArgument` for a timeout on a classic queue or an offset.
    // rabbitmq docs: consumers, priority and acknowledgement timeout
    pub fn parse(
        arguments: &Table,
        kind: QueueKind,
        queue: &QueueName,
        vhost: &VhostName,
    ) -> Result<Self> {
        let fault = |key, why| invalid(key, why, queue, vhost);
        if arguments.contains_key(STREAM_OFFSET) {
            return Err(foreign(STREAM_OFFSET, kind, queue, vhost));
        }
        let priority = match arguments.get(PRIORITY) {
            Some(value) => integer(value).map_err(|why| fault(PRIORITY, why))?,
            None => 0,
        };
        let timeout_ms = match arguments.get(CONSUMER_TIMEOUT) {
            Some(_) if kind == QueueKind::Classic => {
                return Err(foreign(CONSUMER_TIMEOUT, kind, queue, vhost));
            }
            Some(value) => {
                let ms = at_least_zero(value).map_err(|why| fault(CONSUMER_TIMEOUT, why))?;
                u64::try_from(ms).ok()
            }
            None => None,
        };
        Ok(Self {
            priority,
            timeout_ms,
        })
    }
}

/// A value as error texts show it: the bare text, number or word.
pub(crate) fn show_value(value: &Value) -> String {
    if let Some(bytes) = value.as_bytes() {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    match value {
        Value::Bool(truth) => truth.to_string(),
        Value::F32(number) => format!("{number:?}"),
        Value::F64(number) => format!("{number:?}"),
        Value::Timestamp(seconds) => seconds.to_string(),
        Value::Void => "undefined".to_owned(),
        other => match other.as_i64() {
            Some(number) => number.to_string(),
            None => with_types(other),
        },
    }
}

/// Arrays and tables with the type of each value: `[{signedint,1}]`, `[{<<"key">>,bool,true}]`.
fn with_types(value: &Value) -> String {
    let entry = |value: &Value| format!("{},{}", value.type_name(), with_types(value));
    match value {
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(|v| format!("{{{}}}", entry(v))).collect();
            format!("[{}]", values.join(","))
        }
        Value::Table(table) => {
            let shown = |(key, value): &(amqp::ShortString, Value)| {
                let key = String::from_utf8_lossy(key.as_bytes());
                format!("{{{},{}}}", Binary(&key), entry(value))
            };
            let entries: Vec<_> = table.iter().map(shown).collect();
            format!("[{}]", entries.join(","))
        }
        Value::Void => "undefined".to_owned(),
        other => Term::from(other).to_string(),
    }
}

#[cfg(test)]
mod tests;
