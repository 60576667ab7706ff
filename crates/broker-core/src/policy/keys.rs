//! The keys of policies: who may set them, what values they take, which queue types know them.
//!
//! One table; everything that has to do with a key by name starts here.

use super::merge::retry_multiplier;
use super::{Definition, PolicyScope};
use crate::refusal::PolicyFault;
use crate::settings::{
    ConsumerTimeoutAction, DeadLetterStrategy, DeliveryLimitCounts, LeaderLocator, Overflow,
    QueueKind,
};
use crate::term::Term;

/// What values a key takes.
#[derive(Clone, Copy)]
enum Values {
    /// A whole number of at least this.
    AtLeast(i64),
    /// Any whole number.
    Integer,
    /// A whole number within these, both included.
    Between(i64, i64),
    /// A string.
    Text,
    /// A string that this accepts.
    Word(fn(&str) -> bool),
    /// A truth value.
    Truth,
    /// A number from 1 to `RETRY_MULTIPLIER_MAX`.
    Multiplier,
}

/// One row of the table.
struct Key {
    name: &'static str,
    /// RabbitMQ's words for the value, in error texts.
    noun: &'static str,
    values: Values,
    /// Whether operator policies may hold it.
    operator: bool,
    /// Queue types on which a policy with this key is skipped.
    unsupported: &'static [QueueKind],
}

const BOTH: &[QueueKind] = &[QueueKind::Classic, QueueKind::Quorum];
const NOT_CLASSIC: &[QueueKind] = &[QueueKind::Classic];
const NOT_QUORUM: &[QueueKind] = &[QueueKind::Quorum];
const NONE: &[QueueKind] = &[];

const fn key(
    name: &'static str,
    noun: &'static str,
    values: Values,
    operator: bool,
    unsupported: &'static [QueueKind],
) -> Key {
    Key {
        name,
        noun,
        values,
        operator,
        unsupported,
    }
}

// rabbitmq docs: policies, parameters
const KEYS: &[Key] = &[
    key(
        "alternate-exchange",
        "alternate exchange name",
        Values::Text,
        false,
        NONE,
    ),
    key(
        "dead-letter-exchange",
        "dead letter exchange name",
        Values::Text,
        false,
        NONE,
    ),
    key(
        "dead-letter-routing-key",
        "dead letter routing key",
        Values::Text,
        false,
        NONE,
    ),
    key(
        "dead-letter-strategy",
        "dead letter strategy",
        Values::Word(|word| DeadLetterStrategy::parse(word).is_some()),
        false,
        NOT_CLASSIC,
    ),
    key("message-ttl", "message TTL", Values::AtLeast(0), true, NONE),
    key("expires", "queue expiry", Values::AtLeast(1), true, NONE),
    key(
        "max-length",
        "maximum length",
        Values::AtLeast(0),
        true,
        NONE,
    ),
    key(
        "max-length-bytes",
        "maximum length in bytes",
        Values::AtLeast(0),
        true,
        NONE,
    ),
    key(
        "max-in-memory-length",
        "maximum memory in bytes",
        Values::AtLeast(0),
        true,
        NOT_CLASSIC,
    ),
    key(
        "max-in-memory-bytes",
        "maximum memory in bytes",
        Values::AtLeast(0),
        true,
        NOT_CLASSIC,
    ),
    key(
        "overflow",
        "overflow value",
        Values::Word(|word| Overflow::parse(word).is_some()),
        true,
        NONE,
    ),
    key(
        "delivery-limit",
        "delivery limit",
        Values::Integer,
        true,
        NOT_CLASSIC,
    ),
    key(
        "consumer-timeout",
        "consumer timeout",
        Values::AtLeast(0),
        false,
        NONE,
    ),
    key(
        "consumer-disconnected-timeout",
        "consumer disconnected timeout",
        Values::AtLeast(0),
        false,
        NONE,
    ),
    key(
        "delayed-retry-type",
        "delayed retry type",
        Values::Word(|word| matches!(word, "disabled" | "all" | "failed" | "returned")),
        true,
        NONE,
    ),
    key(
        "delayed-retry-min",
        "delayed retry min",
        Values::AtLeast(1),
        true,
        NONE,
    ),
    key(
        "delayed-retry-max",
        "delayed retry max",
        Values::AtLeast(1),
        true,
        NONE,
    ),
    key(
        "queue-leader-locator",
        "queue leader locator value",
        Values::Word(|word| LeaderLocator::parse(word).is_some() && word != "min-masters"),
        false,
        NONE,
    ),
    key(
        "target-group-size",
        "target group size",
        Values::AtLeast(1),
        true,
        NOT_CLASSIC,
    ),
    key(
        "queue-mode",
        "queue-mode value",
        Values::Word(|word| matches!(word, "default" | "lazy")),
        false,
        NOT_QUORUM,
    ),
    key(
        "queue-version",
        "queue version",
        Values::Between(1, 2),
        true,
        NONE,
    ),
    key("max-age", "max age", Values::Word(is_max_age), false, BOTH),
    key(
        "stream-max-segment-size-bytes",
        "segment size",
        Values::AtLeast(0),
        false,
        BOTH,
    ),
    key(
        "stream-filter-size-bytes",
        "filter size",
        Values::Between(16, 255),
        false,
        NOT_QUORUM,
    ),
    key(
        "initial-cluster-size",
        "cluster size",
        Values::AtLeast(0),
        false,
        BOTH,
    ),
    key(
        "federation-upstream",
        "federation upstream name",
        Values::Text,
        false,
        NONE,
    ),
    key(
        "federation-upstream-set",
        "federation upstream set name",
        Values::Text,
        false,
        NONE,
    ),
    key(
        "federation-upstream-pattern",
        "federation upstream pattern",
        Values::Text,
        false,
        NONE,
    ),
    // Keys of this broker.
    key(
        "delayed-retry-multiplier",
        "delayed retry multiplier",
        Values::Multiplier,
        true,
        NONE,
    ),
    key(
        "delayed-retry-jitter",
        "delayed retry jitter in percent",
        Values::Between(0, 100),
        true,
        NONE,
    ),
    key(
        "expire-anywhere",
        "choice of where messages expire",
        Values::Truth,
        true,
        NONE,
    ),
    key(
        "poison-loop-returns",
        "number of returns of a poison loop",
        Values::AtLeast(0),
        true,
        NONE,
    ),
    key(
        "delivery-limit-counts",
        "rule for counting deliveries",
        Values::Word(|word| DeliveryLimitCounts::parse(word).is_some()),
        false,
        NONE,
    ),
    key(
        "consumer-timeout-action",
        "consumer timeout action",
        Values::Word(|word| ConsumerTimeoutAction::parse(word).is_some()),
        false,
        NONE,
    ),
    key(
        "capacity",
        "capacity in bytes",
        Values::AtLeast(0),
        true,
        NONE,
    ),
    key(
        "flow-resume-capacity",
        "flow resume capacity in bytes",
        Values::AtLeast(0),
        false,
        NONE,
    ),
    key(
        "capacity-messages",
        "capacity in messages",
        Values::AtLeast(0),
        true,
        NONE,
    ),
    key(
        "flow-resume-messages",
        "flow resume number of messages",
        Values::AtLeast(0),
        false,
        NONE,
    ),
    key(
        "hold-timeout",
        "hold timeout",
        Values::AtLeast(0),
        true,
        NONE,
    ),
    key(
        "memory-limit",
        "memory limit in bytes",
        Values::AtLeast(0),
        true,
        NONE,
    ),
    key(
        "memory-high-water",
        "memory high-water mark in percent",
        Values::Between(0, 100),
        true,
        NONE,
    ),
];

/// What the numbers of a key count, so that people may write them with units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKeyUnit {
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
}

/// The unit of a key's numbers; `None` for words, plain numbers and unknown keys.
pub fn policy_key_unit(name: &str) -> Option<PolicyKeyUnit> {
    match name {
        "max-length-bytes"
        | "max-in-memory-bytes"
        | "capacity"
        | "flow-resume-capacity"
        | "memory-limit"
        | "stream-max-segment-size-bytes" => Some(PolicyKeyUnit::Bytes),
        "message-ttl"
        | "expires"
        | "consumer-timeout"
        | "consumer-disconnected-timeout"
        | "delayed-retry-min"
        | "delayed-retry-max"
        | "hold-timeout" => Some(PolicyKeyUnit::Milliseconds),
        _ => None,
    }
}

/// The keys that policies of this scope may hold.
pub fn policy_key_names(scope: PolicyScope) -> impl Iterator<Item = &'static str> {
    KEYS.iter()
        .map(|key| key.name)
        .filter(move |name| is_settable(name, scope))
}

fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Whether a policy with this key may apply to a queue of this type.
pub(super) fn is_supported_by(name: &str, kind: QueueKind) -> bool {
    find(name).is_none_or(|key| !key.unsupported.contains(&kind))
}

/// Understands a definition: a map of known keys with values in range.
pub(super) fn parse_definition(
    definition: &Term,
    scope: PolicyScope,
) -> Result<Definition, PolicyFault> {
    let Term::Map(entries) = definition else {
        return Err(PolicyFault::DefinitionNotMap(definition.clone()));
    };
    if entries.is_empty() {
        return Err(PolicyFault::Empty);
    }
    let unknown: Vec<_> = entries
        .iter()
        .filter(|(name, _)| !is_settable(name, scope))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Err(PolicyFault::UnknownKeys(unknown));
    }
    for (name, value) in entries {
        check_value(name, value)?;
    }
    let parsed: Definition = entries.iter().cloned().collect();
    check_retry(&parsed)?;
    Ok(parsed)
}

fn is_settable(name: &str, scope: PolicyScope) -> bool {
    find(name).is_some_and(|key| key.operator || scope == PolicyScope::User)
}

fn check_value(name: &str, value: &Term) -> Result<(), PolicyFault> {
    let Some(key) = find(name) else { return Ok(()) };
    if accepts(key.values, value) {
        return Ok(());
    }
    Err(PolicyFault::Value {
        key: name.into(),
        value: value.clone(),
        noun: key.noun.into(),
    })
}

fn accepts(values: Values, value: &Term) -> bool {
    match values {
        Values::AtLeast(min) => value.as_integer().is_some_and(|number| number >= min),
        Values::Integer => value.as_integer().is_some(),
        Values::Between(min, max) => value
            .as_integer()
            .is_some_and(|number| (min..=max).contains(&number)),
        Values::Text => value.as_text().is_some(),
        Values::Word(accepts) => value.as_text().is_some_and(accepts),
        Values::Truth => value.as_bool().is_some(),
        Values::Multiplier => retry_multiplier(value).is_some(),
    }
}

/// `^[0-9]+[YMDhms]$`
pub(crate) fn is_max_age(word: &str) -> bool {
    let Some(digits) = word.strip_suffix(['Y', 'M', 'D', 'h', 'm', 's']) else {
        return false;
    };
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A retry type other than `disabled` needs a delay, and the longest is not below the shortest.
fn check_retry(definition: &Definition) -> Result<(), PolicyFault> {
    let number = |key: &str| definition.get(key).and_then(Term::as_integer);
    let min = number("delayed-retry-min");
    let kind = definition.get("delayed-retry-type").and_then(Term::as_text);
    if let (Some(kind), None) = (kind.filter(|kind| *kind != "disabled"), min) {
        return Err(PolicyFault::RetryWithoutMin(kind.into()));
    }
    match (min, number("delayed-retry-max")) {
        (Some(min), Some(max)) if max < min => Err(PolicyFault::RetryMaxBelowMin),
        _ => Ok(()),
    }
}
