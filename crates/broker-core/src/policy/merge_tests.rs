//! Merging, against the table of the reference written down a second time and in another way:
//! what each key's resolution is, applied to three words that may each be missing.

use proptest::prelude::*;

use super::*;
use crate::names::VhostName;
use crate::policy::{ApplyTo, PolicyForm, PolicyOrigin, PolicyScope};

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
const NUMBERS: [(&str, Meeting); 8] = [
    ("message-ttl", Meeting::Smaller),
    ("expires", Meeting::Smaller),
    ("max-length", Meeting::Smaller),
    ("max-length-bytes", Meeting::Smaller),
    ("delivery-limit", Meeting::DeliveryLimit),
    ("target-group-size", Meeting::Larger),
    ("delayed-retry-min", Meeting::Larger),
    ("delayed-retry-max", Meeting::Smaller),
];

fn policy(key: &str, value: Term, scope: PolicyScope) -> Policy {
    let form = PolicyForm::new(
        "p",
        "",
        ApplyTo::All,
        0,
        Term::Map(vec![(key.into(), value)]),
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
    fn a_word_of_both_is_the_operators(
        user in prop::option::of(0usize..3), operator in prop::option::of(0usize..3),
    ) {
        const WORDS: [&str; 3] = ["drop-head", "reject-publish", "reject-publish-dlx"];
        let by = |word: Option<usize>, scope| {
            word.map(|word| policy("overflow", Term::text(WORDS[word]), scope))
        };
        let merged = merge_definitions(
            by(user, PolicyScope::User).as_ref(),
            by(operator, PolicyScope::Operator).as_ref(),
        );
        let found = merged.get("overflow").and_then(|(value, _)| value.as_text());
        prop_assert_eq!(found, operator.or(user).map(|word| WORDS[word]));
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
