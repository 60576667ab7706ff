//! How policy, operator policy, vhost defaults, arguments and the node's defaults become one.
//!
//! First the definitions among each other, then with the queue's arguments. Each value keeps its
//! origin, so that "why does this queue have that limit" has an answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use amqp::{Table, Value};

use super::{Definition, Policy};
use crate::names::ExchangeName;
use crate::settings::{
    ConsumerTimeoutAction, DeadLetterStrategy, DelayedRetry, DelayedRetryKind, DeliveryLimitCounts,
    LeaderLocator, Origin, Overflow, QueueKind, QueueSettings, QuorumDefaults,
    RETRY_MULTIPLIER_MAX,
};
use crate::term::Term;

/// Policy and operator policy of an object in one, each value with its origin.
pub type EffectiveDefinition = BTreeMap<Box<str>, (Term, Origin)>;

/// A queue's settings, and where each that is not a plain default comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveSettings {
    /// What the queue goes by.
    pub settings: QueueSettings,
    /// One for each key that somebody set, in the order of the policy keys.
    pub sources: Vec<SettingSource>,
}

/// Where one value comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingSource {
    /// The policy key (without `x-`).
    pub key: &'static str,
    /// The effective value.
    pub value: Term,
    /// Who set it.
    pub origin: Origin,
}

/// Merges what a policy and an operator policy say.
// rabbitmq docs: policies, operator policy conflict resolution
pub(crate) fn merge_definitions(
    policy: Option<&Policy>,
    operator: Option<&Policy>,
) -> EffectiveDefinition {
    let mut merged = EffectiveDefinition::new();
    if let Some(policy) = policy {
        overlay(
            &mut merged,
            &policy.definition,
            &Origin::Policy(policy.name.clone()),
        );
    }
    bound(&mut merged, operator);
    merged
}

fn overlay(merged: &mut EffectiveDefinition, definition: &Definition, origin: &Origin) {
    for (key, value) in definition {
        merged.insert(key.clone(), (value.clone(), origin.clone()));
    }
}

/// Applies an operator policy on top of what others say.
fn bound(merged: &mut EffectiveDefinition, operator: Option<&Policy>) {
    let Some(operator) = operator else { return };
    let origin = Origin::OperatorPolicy(operator.name.clone());
    for (key, value) in &operator.definition {
        let wins = merged
            .get(key)
            .is_none_or(|(user, _)| operator_wins(key, user, value));
        if wins {
            merged.insert(key.clone(), (value.clone(), origin.clone()));
        }
    }
}

fn operator_wins(key: &str, user: &Term, operator: &Term) -> bool {
    let (Some(user), Some(operator)) = (user.as_integer(), operator.as_integer()) else {
        // Words: the operator's.
        return true;
    };
    match key {
        "queue-version" => true,
        "delivery-limit" => stricter_delivery_limit(user, operator) != user,
        "target-group-size" | "delayed-retry-min" => operator > user,
        // No limit yields to any limit.
        "capacity" | "capacity-messages" | "memory-limit" => {
            user == 0 || (operator != 0 && operator < user)
        }
        _ => operator < user,
    }
}

/// The smaller limit; but a negative one, which is no limit, makes the larger win.
// rabbitmq: quorum delivery limit, resolution of argument and policy
fn stricter_delivery_limit(one: i64, other: i64) -> i64 {
    if one < 0 || other < 0 {
        one.max(other)
    } else {
        one.min(other)
    }
}

/// Everything that has a say in a queue's settings.
#[derive(Clone, Copy)]
pub(crate) struct Say<'a> {
    pub(crate) kind: QueueKind,
    pub(crate) arguments: &'a Table,
    pub(crate) policy: Option<&'a Policy>,
    pub(crate) operator: Option<&'a Policy>,
    pub(crate) vhost_defaults: &'a Definition,
    pub(crate) defaults: &'a QuorumDefaults,
}

/// The settings of a queue.
pub(crate) fn effective_settings(say: Say<'_>) -> EffectiveSettings {
    let mut definition = EffectiveDefinition::new();
    overlay(&mut definition, say.vhost_defaults, &Origin::VhostDefault);
    if let Some(policy) = say.policy {
        overlay(
            &mut definition,
            &policy.definition,
            &Origin::Policy(policy.name.clone()),
        );
    }
    bound(&mut definition, say.operator);
    let mut merge = Merge {
        kind: say.kind,
        arguments: say.arguments,
        definition: &definition,
        sources: Vec::new(),
    };
    let settings = merge.settings(QueueSettings::of_kind(say.kind, say.defaults));
    EffectiveSettings {
        settings,
        sources: merge.sources,
    }
}

struct Merge<'a> {
    kind: QueueKind,
    arguments: &'a Table,
    definition: &'a EffectiveDefinition,
    sources: Vec<SettingSource>,
}

impl Merge<'_> {
    fn settings(&mut self, base: QueueSettings) -> QueueSettings {
        let settings = QueueSettings {
            message_ttl_ms: self.smaller("message-ttl"),
            expires_ms: self.smaller("expires"),
            max_length: self.smaller("max-length"),
            max_length_bytes: self.smaller("max-length-bytes"),
            overflow: self.overflow(),
            dead_letter_exchange: self
                .text("dead-letter-exchange")
                .map(|name| ExchangeName::new(&*name)),
            dead_letter_routing_key: self.text("dead-letter-routing-key"),
            dead_letter_strategy: self
                .word("dead-letter-strategy", DeadLetterStrategy::parse)
                .filter(|_| self.kind == QueueKind::Quorum)
                .unwrap_or(base.dead_letter_strategy),
            max_priority: self.max_priority(),
            single_active_consumer: self.single_active_consumer(),
            delivery_limit: self.delivery_limit(base.delivery_limit),
            delivery_limit_counts: self
                .word("delivery-limit-counts", DeliveryLimitCounts::parse)
                .unwrap_or(base.delivery_limit_counts),
            consumer_timeout_ms: self
                .smaller("consumer-timeout")
                .or_else(|| self.default("consumer-timeout", base.consumer_timeout_ms)),
            consumer_timeout_action: self
                .word("consumer-timeout-action", ConsumerTimeoutAction::parse)
                .unwrap_or(base.consumer_timeout_action),
            consumer_disconnected_timeout_ms: self
                .smaller("consumer-disconnected-timeout")
                .unwrap_or(base.consumer_disconnected_timeout_ms),
            delayed_retry: self.delayed_retry(base.delayed_retry),
            expire_anywhere: self
                .truth("expire-anywhere")
                .unwrap_or(base.expire_anywhere),
            poison_loop_returns: self.poison_loop_returns(base.poison_loop_returns),
            leader_locator: self.leader_locator(),
            initial_group_size: self
                .argument_only("quorum-initial-group-size")
                .and_then(to_u32),
            target_group_size: self
                .smaller("target-group-size")
                .and_then(|n| u32::try_from(n).ok()),
            capacity_bytes: self.smaller_limit("capacity", "x-qpid-capacity"),
            flow_resume_capacity_bytes: self.smaller_of(
                "flow-resume-capacity",
                "x-qpid-flow-resume-capacity",
                |_| true,
            ),
            capacity_messages: self.smaller_limit("capacity-messages", ""),
            flow_resume_messages: self.smaller("flow-resume-messages"),
            hold_timeout_ms: self.smaller("hold-timeout"),
            memory_limit_bytes: self.smaller_limit("memory-limit", ""),
            memory_high_water_percent: self.smaller("memory-high-water"),
        };
        if settings.overflow == Overflow::FlowControl {
            return lengths_as_capacity(settings);
        }
        settings
    }

    fn argument(&self, key: &str) -> Option<&Value> {
        self.arguments.get(format!("x-{key}"))
    }

    fn policy(&self, key: &str) -> Option<(Term, Origin)> {
        self.definition.get(key).cloned()
    }

    fn note(&mut self, key: &'static str, value: Term, origin: Origin) {
        self.sources.push(SettingSource { key, value, origin });
    }

    /// The smaller of argument and policy.
    fn smaller(&mut self, key: &'static str) -> Option<u64> {
        self.smaller_of(key, "", |_| true)
    }

    /// The smaller of two limits of which 0 is none.
    fn smaller_limit(&mut self, key: &'static str, alias: &str) -> Option<u64> {
        self.smaller_of(key, alias, |number| number > 0)
    }

    fn smaller_of(
        &mut self,
        key: &'static str,
        alias: &str,
        counts: impl Fn(i64) -> bool,
    ) -> Option<u64> {
        let argument = self
            .argument(key)
            .or_else(|| self.arguments.get(alias))
            .and_then(Value::as_i64)
            .map(|number| (number, Origin::Argument));
        let policy = self
            .policy(key)
            .and_then(|(term, origin)| Some((term.as_integer()?, origin)));
        let (number, origin) = [argument, policy]
            .into_iter()
            .flatten()
            .filter(|(number, _)| *number >= 0 && counts(*number))
            .min_by_key(|(number, _)| *number)?;
        self.note(key, Term::Integer(number), origin);
        u64::try_from(number).ok()
    }

    fn argument_only(&mut self, key: &'static str) -> Option<i64> {
        let number = self.argument(key)?.as_i64()?;
        self.note(key, Term::Integer(number), Origin::Argument);
        Some(number)
    }

    /// The argument, else the policy.
    fn text(&mut self, key: &'static str) -> Option<Arc<str>> {
        let argument = self
            .argument(key)
            .and_then(Value::as_str)
            .map(|text| (Arc::from(text), Origin::Argument));
        let (text, origin): (Arc<str>, Origin) = argument.or_else(|| self.policy_text(key))?;
        self.note(key, Term::text(&text), origin);
        Some(text)
    }

    fn policy_text(&self, key: &str) -> Option<(Arc<str>, Origin)> {
        let (term, origin) = self.policy(key)?;
        Some((Arc::from(term.as_text()?), origin))
    }

    /// A word that is understood: the argument's, else the policy's.
    fn word<T>(&mut self, key: &'static str, parse: fn(&str) -> Option<T>) -> Option<T> {
        parse(&self.text(key)?)
    }

    /// A word that is understood: the policy's, else the argument's.
    fn policy_word<T>(&mut self, key: &'static str, parse: fn(&str) -> Option<T>) -> Option<T> {
        let Some((word, origin)) = self.policy_text(key) else {
            return self.word(key, parse);
        };
        self.note(key, Term::text(&word), origin);
        parse(&word)
    }

    /// Classic queues prefer their argument, quorum queues their policy, and cannot reject with
    /// dead-lettering.
    // rabbitmq: quorum queues, overflow
    fn overflow(&mut self) -> Overflow {
        match self.kind {
            QueueKind::Classic => self.word("overflow", Overflow::parse).unwrap_or_default(),
            QueueKind::Quorum => match self.policy_word("overflow", Overflow::parse) {
                None | Some(Overflow::RejectPublishDlx) => Overflow::DropHead,
                Some(overflow) => overflow,
            },
        }
    }

    /// The argument's truth, else the policy's.
    fn truth(&mut self, key: &'static str) -> Option<bool> {
        let argument = self
            .argument(key)
            .and_then(Value::as_bool)
            .map(|truth| (truth, Origin::Argument));
        let by_policy = || {
            let (term, origin) = self.policy(key)?;
            Some((term.as_bool()?, origin))
        };
        let (truth, origin) = argument.or_else(by_policy)?;
        self.note(key, Term::Bool(truth), origin);
        Some(truth)
    }

    /// The argument's number, else the policy's, in thousandths.
    fn permille(&mut self, key: &'static str) -> Option<u32> {
        let argument = self
            .argument(key)
            .map(|value| (Term::from(value), Origin::Argument));
        let (term, origin) = argument.or_else(|| self.policy(key))?;
        let number = retry_multiplier(&term)?;
        self.note(key, term, origin);
        Some(number)
    }

    fn max_priority(&mut self) -> Option<u8> {
        u8::try_from(self.argument_only("max-priority")?).ok()
    }

    fn single_active_consumer(&mut self) -> bool {
        let wanted = self
            .argument("single-active-consumer")
            .and_then(Value::as_bool);
        if let Some(wanted) = wanted {
            self.note(
                "single-active-consumer",
                Term::Bool(wanted),
                Origin::Argument,
            );
        }
        wanted.unwrap_or_default()
    }

    /// What the node says, when nobody says more.
    fn default<T: Copy + Into<u64>>(&mut self, key: &'static str, value: Option<T>) -> Option<T> {
        let number = i64::try_from(value?.into()).unwrap_or(i64::MAX);
        self.note(key, Term::Integer(number), Origin::Default);
        value
    }

    /// Negative is unlimited; an argument that is no integer counts as none.
    fn delivery_limit(&mut self, default: Option<u32>) -> Option<u32> {
        let argument = self.argument("delivery-limit").and_then(Value::as_i64);
        let policy = self
            .policy("delivery-limit")
            .and_then(|(term, origin)| Some((term.as_integer()?, origin)));
        let (limit, origin) = match (argument, policy) {
            (None, None) => return self.default("delivery-limit", default),
            (Some(argument), None) => (argument, Origin::Argument),
            (None, Some((policy, origin))) => (policy, origin),
            (Some(argument), Some((policy, origin))) => {
                let limit = stricter_delivery_limit(argument, policy);
                (
                    limit,
                    if limit == argument {
                        Origin::Argument
                    } else {
                        origin
                    },
                )
            }
        };
        self.note("delivery-limit", Term::Integer(limit), origin);
        (limit >= 0).then(|| u32::try_from(limit).unwrap_or(u32::MAX))
    }

    /// Wrong values of arguments mean that nothing waits.
    fn delayed_retry(&mut self, default: Option<DelayedRetry>) -> Option<DelayedRetry> {
        const TYPE: &str = "delayed-retry-type";
        let is_said = self.policy(TYPE).is_some() || self.argument(TYPE).is_some();
        let kind = match (is_said, default) {
            (false, None) => return None,
            (false, Some(default)) => default.kind,
            (true, _) => self.policy_word(TYPE, DelayedRetryKind::parse)?,
        };
        let min_ms = self
            .smaller_limit("delayed-retry-min", "")
            .or(default.map(|default| default.min_ms))?;
        let max_ms = self
            .smaller_limit("delayed-retry-max", "")
            .or(default.map(|default| default.max_ms))
            .unwrap_or(min_ms);
        let jitter_percent = self
            .smaller("delayed-retry-jitter")
            .map(|percent| u8::try_from(percent.min(100)).unwrap_or(100))
            .or(default.map(|default| default.jitter_percent))
            .unwrap_or(0);
        Some(DelayedRetry {
            kind,
            min_ms,
            max_ms,
            multiplier_permille: self
                .permille("delayed-retry-multiplier")
                .or(default.and_then(|default| default.multiplier_permille)),
            jitter_percent,
        })
    }

    /// The smaller number wins; 0 does not watch.
    fn poison_loop_returns(&mut self, default: Option<u32>) -> Option<u32> {
        match self.smaller("poison-loop-returns") {
            None => default,
            Some(0) => None,
            Some(returns) => Some(u32::try_from(returns).unwrap_or(u32::MAX)),
        }
    }

    fn leader_locator(&mut self) -> LeaderLocator {
        self.policy_word("queue-leader-locator", LeaderLocator::parse)
            .unwrap_or_default()
    }
}

/// A factor of at least 1, in thousandths; `None` for anything else.
pub(crate) fn retry_multiplier(term: &Term) -> Option<u32> {
    let number = match term {
        Term::Integer(number) => *number as f64,
        Term::Float(number) => *number,
        _ => return None,
    };
    let in_range = (1.0..=f64::from(RETRY_MULTIPLIER_MAX)).contains(&number);
    in_range.then_some((number * 1000.0).round() as u32)
}

fn to_u32(number: i64) -> Option<u32> {
    u32::try_from(number).ok()
}

/// Under flow control a length limit does not drop: it is the capacity.
fn lengths_as_capacity(settings: QueueSettings) -> QueueSettings {
    let smaller = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
    QueueSettings {
        capacity_bytes: smaller(settings.capacity_bytes, settings.max_length_bytes),
        capacity_messages: smaller(settings.capacity_messages, settings.max_length),
        max_length: None,
        max_length_bytes: None,
        ..settings
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
