//! Merging, against the table of the reference written down a second time and in another way:
//! what each key's resolution is, applied to three words that may each be missing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::names::VhostName;
use crate::policy::{ApplyTo, PolicyForm, PolicyList, PolicyOrigin, PolicyScope};

/// How the word of a policy meets that of an operator policy, or that of an argument.
#[derive(Clone, Copy, Debug)]
enum Meeting {
    Smaller,
    Larger,
    /// The larger if one is negative, else the smaller.
    DeliveryLimit,
}

fn met(one: Option<i64>, other: Option<i64>, how: Meeting) -> Option<i64> {
    let (Some(one), Some(other)) = (one, other) else {
        return one.or(other);
    };
    Some(match how {
        Meeting::Smaller => one.min(other),
        Meeting::Larger => one.max(other),
        Meeting::DeliveryLimit if one < 0 || other < 0 => one.max(other),
        Meeting::DeliveryLimit => one.min(other),
    })
}

// rabbitmq docs: policies, operator policy conflict resolution
const NUMBERS: [(&str, Meeting); 10] = [
    ("message-ttl", Meeting::Smaller),
    ("expires", Meeting::Smaller),
    ("max-length", Meeting::Smaller),
    ("max-length-bytes", Meeting::Smaller),
    ("max-in-memory-length", Meeting::Smaller),
    ("max-in-memory-bytes", Meeting::Smaller),
    ("delivery-limit", Meeting::DeliveryLimit),
    ("target-group-size", Meeting::Larger),
    ("delayed-retry-min", Meeting::Larger),
    ("delayed-retry-max", Meeting::Smaller),
];

// The same place.
const CHOICES: [(&str, &[&str]); 3] = [
    (
        "overflow",
        &["drop-head", "reject-publish", "reject-publish-dlx"],
    ),
    ("queue-version", &["1", "2"]),
    (
        "delayed-retry-type",
        &["disabled", "all", "failed", "returned"],
    ),
];

const QUEUES: [&str; 4] = ["q1", "q2", "xq1", "y"];

/// Patterns, and whom they match, found out in another way.
type Matches = fn(&str) -> bool;
const PATTERNS: [(&str, Matches); 4] = [
    ("", |_| true),
    ("^q", |name| name.starts_with('q')),
    ("q1$", |name| name.ends_with("q1")),
    ("[x-y]", |name| name.contains(['x', 'y'])),
];

/// A policy before it is parsed.
#[derive(Clone, Debug)]
struct Written {
    name: &'static str,
    priority: i64,
    pattern: usize,
    apply_to: ApplyTo,
    key: &'static str,
}

fn written() -> impl Strategy<Value = Written> {
    let applies = [
        ApplyTo::All,
        ApplyTo::Exchanges,
        ApplyTo::Queues,
        ApplyTo::ClassicQueues,
        ApplyTo::QuorumQueues,
        ApplyTo::Streams,
    ];
    let strategy = (
        prop::sample::select(vec!["a", "b", "c", "d"]),
        0i64..3,
        0..PATTERNS.len(),
        prop::sample::select(applies.to_vec()),
        prop::sample::select(vec!["max-length", "delivery-limit", "queue-mode"]),
    );
    strategy.prop_map(|(name, priority, pattern, apply_to, key)| Written {
        name,
        priority,
        pattern,
        apply_to,
        key,
    })
}

impl Written {
    fn parsed(&self) -> Policy {
        let value = match self.key {
            "queue-mode" => Term::text("lazy"),
            _ => Term::Integer(5),
        };
        let form = PolicyForm::new(
            self.name,
            PATTERNS[self.pattern].0,
            self.apply_to,
            self.priority,
            Term::Map(vec![(self.key.into(), value)]),
        );
        let vhost = VhostName::new("/");
        Policy::parse(&form, PolicyScope::User, PolicyOrigin::Api, &vhost).expect("a policy")
    }

    // rabbitmq docs: policies, which policy applies
    fn fits(&self, name: &str, kind: QueueKind) -> bool {
        let is_quorum = kind == QueueKind::Quorum;
        let is_covered = match self.apply_to {
            ApplyTo::All | ApplyTo::Queues => true,
            ApplyTo::ClassicQueues => !is_quorum,
            ApplyTo::QuorumQueues => is_quorum,
            ApplyTo::Exchanges | ApplyTo::Streams => false,
        };
        let is_strange = match self.key {
            "delivery-limit" => !is_quorum,
            "queue-mode" => is_quorum,
            _ => false,
        };
        is_covered && !is_strange && PATTERNS[self.pattern].1(name)
    }
}

fn policy(key: &str, value: Term, scope: PolicyScope) -> Policy {
    let form = PolicyForm::new(
        "p",
        "",
        ApplyTo::All,
        0,
        // A retry wants its shortest delay, too.
        Term::Map(match key {
            "delayed-retry-type" => vec![
                (key.into(), value),
                ("delayed-retry-min".into(), Term::Integer(5)),
            ],
            _ => vec![(key.into(), value)],
        }),
    );
    Policy::parse(&form, scope, PolicyOrigin::Api, &VhostName::new("/")).expect("a policy")
}

fn effective(
    kind: QueueKind,
    arguments: &Table,
    policy: Option<&Policy>,
    operator: Option<&Policy>,
) -> EffectiveSettings {
    effective_settings(Say {
        kind,
        arguments,
        policy,
        operator,
        vhost_defaults: &Definition::new(),
        defaults: &QuorumDefaults::default(),
    })
}

fn kinds() -> impl Strategy<Value = QueueKind> {
    prop_oneof![Just(QueueKind::Classic), Just(QueueKind::Quorum)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_number_of_policy_and_operator_policy_is_resolved_as_the_reference_says(
        key in 0..NUMBERS.len(),
        user in prop::option::of(1i64..9),
        operator in prop::option::of(1i64..9),
        negate in any::<(bool, bool)>(),
    ) {
        let (key, how) = NUMBERS[key];
        let sign = |number: Option<i64>, negate: bool| match how {
            Meeting::DeliveryLimit if negate => number.map(|number| -number),
            _ => number,
        };
        let (user, operator) = (sign(user, negate.0), sign(operator, negate.1));
        let by = |number: Option<i64>, scope| number.map(|n| policy(key, Term::Integer(n), scope));
        let merged = merge_definitions(
            by(user, PolicyScope::User).as_ref(),
            by(operator, PolicyScope::Operator).as_ref(),
        );
        let found = merged.get(key).and_then(|(value, _)| value.as_integer());
        prop_assert_eq!(found, met(user, operator, how), "{}", key);
    }

    #[test]
    fn what_has_no_order_is_the_operators_when_both_say_it(
        key in 0..CHOICES.len(),
        user in prop::option::of(0usize..6),
        operator in prop::option::of(0usize..6),
    ) {
        let (key, choices) = CHOICES[key];
        let choice = |number: usize| match choices[number % choices.len()] {
            "1" => Term::Integer(1),
            "2" => Term::Integer(2),
            word => Term::text(word),
        };
        let by = |number: Option<usize>, scope| {
            number.map(|number| policy(key, choice(number), scope))
        };
        let merged = merge_definitions(
            by(user, PolicyScope::User).as_ref(),
            by(operator, PolicyScope::Operator).as_ref(),
        );
        let found = merged.get(key).map(|(value, _)| value.clone());
        prop_assert_eq!(found, operator.or(user).map(choice));
    }

    #[test]
    fn a_delivery_limit_of_argument_and_policies_is_unlimited_if_one_says_so_else_the_smallest(
        argument in prop::option::of(-2i64..9),
        user in prop::option::of(-2i64..9),
        operator in prop::option::of(-2i64..9),
    ) {
        let mut arguments = Table::new();
        if let Some(argument) = argument {
            arguments.push("x-delivery-limit", Value::I64(argument));
        }
        let key = "delivery-limit";
        let by = |number: Option<i64>, scope| number.map(|n| policy(key, Term::Integer(n), scope));
        let found = effective(
            QueueKind::Quorum,
            &arguments,
            by(user, PolicyScope::User).as_ref(),
            by(operator, PolicyScope::Operator).as_ref(),
        );
        let how = Meeting::DeliveryLimit;
        // Nobody says anything: 20.
        let wanted = met(argument, met(user, operator, how), how).or(Some(20));
        let source = found.sources.iter().find(|source| source.key == key);
        prop_assert_eq!(source.and_then(|source| source.value.as_integer()), wanted);
    }

    #[test]
    fn the_policy_of_a_queue_is_the_highest_that_matches_and_holds_nothing_strange_to_its_type(
        written in prop::collection::vec(written(), 0..8),
        kind in kinds(),
        name in 0usize..QUEUES.len(),
    ) {
        let mut list = PolicyList::default();
        let mut latest = BTreeMap::new();
        for one in written {
            list.set(one.parsed());
            latest.insert(one.name, one);
        }
        let name = QUEUES[name];
        let fitting = latest.values().filter(|one| one.fits(name, kind));
        let wanted = fitting.max_by_key(|one| (one.priority, Reverse(one.name)));
        let found = list.for_queue(name, kind).map(|policy| &*policy.name);
        prop_assert_eq!(found, wanted.map(|one| one.name));
    }

    #[test]
    fn limits_of_argument_policy_and_operator_policy_are_the_smallest(
        kind in kinds(), key in 0usize..4,
        argument in prop::option::of(1i64..9),
        user in prop::option::of(1i64..9),
        operator in prop::option::of(1i64..9),
    ) {
        let key = ["message-ttl", "expires", "max-length", "max-length-bytes"][key];
        let mut arguments = Table::new();
        if let Some(argument) = argument {
            arguments.push(format!("x-{key}"), Value::I64(argument));
        }
        let by = |number: Option<i64>, scope| number.map(|n| policy(key, Term::Integer(n), scope));
        let (user_policy, operator_policy) =
            (by(user, PolicyScope::User), by(operator, PolicyScope::Operator));
        let found = effective(kind, &arguments, user_policy.as_ref(), operator_policy.as_ref());
        let settings = &found.settings;
        let value = match key {
            "message-ttl" => settings.message_ttl_ms,
            "expires" => settings.expires_ms,
            "max-length" => settings.max_length,
            _ => settings.max_length_bytes,
        };
        let smallest = [argument, user, operator].into_iter().flatten().min();
        prop_assert_eq!(value.map(|value| value as i64), smallest);
        let source = found.sources.iter().find(|source| source.key == key);
        prop_assert_eq!(source.and_then(|source| source.value.as_integer()), smallest);
        if let (Some(source), Some(argument)) = (source, argument)
            && smallest == Some(argument)
        {
            prop_assert_eq!(&source.origin, &Origin::Argument);
        }
    }

    #[test]
    fn overflow_is_the_arguments_on_classic_queues_and_the_policys_on_quorum_queues(
        kind in kinds(), argument in prop::option::of(0usize..2), user in prop::option::of(0usize..2),
    ) {
        const WORDS: [&str; 2] = ["drop-head", "reject-publish"];
        let mut arguments = Table::new();
        if let Some(word) = argument {
            arguments.push("x-overflow", Value::from(WORDS[word]));
        }
        let policy = user.map(|word| policy("overflow", Term::text(WORDS[word]), PolicyScope::User));
        let found = effective(kind, &arguments, policy.as_ref(), None).settings.overflow;
        let first = match kind {
            QueueKind::Classic => argument.or(user),
            QueueKind::Quorum => user.or(argument),
        };
        let wanted = Overflow::parse(WORDS[first.unwrap_or(0)]);
        prop_assert_eq!(Some(found), wanted);
    }

    #[test]
    fn dead_letter_exchanges_are_the_arguments_first(
        kind in kinds(), argument in any::<bool>(), user in any::<bool>(),
    ) {
        let mut arguments = Table::new();
        if argument {
            arguments.push("x-dead-letter-exchange", Value::from("argument"));
        }
        let by_policy = policy("dead-letter-exchange", Term::text("policy"), PolicyScope::User);
        let found = effective(kind, &arguments, user.then_some(&by_policy), None);
        let name = found.settings.dead_letter_exchange;
        let wanted = match (argument, user) {
            (true, _) => Some("argument"),
            (false, true) => Some("policy"),
            (false, false) => None,
        };
        prop_assert_eq!(name.as_ref().map(ExchangeName::as_str), wanted);
    }
}
