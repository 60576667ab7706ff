//! The queue machine against a naive one: random calls, and every effect judged by rules that
//! are written down a second time, over a plain list.
//!
//! The naive queue does not predict; it judges. Each effect must be allowed at its moment (the
//! right head, a consumer that has credit, a limit that is exceeded) and changes the list; after
//! each call the machine must hold exactly what the list holds, in the same states.

#[path = "model/naive.rs"]
mod naive;
#[path = "model/play.rs"]
mod play;

use broker_core::settings::{
    ConsumerTimeoutAction, DeadLetterStrategy, DelayedRetry, DelayedRetryKind, DeliveryLimitCounts,
    Overflow, QueueKind, QueueSettings,
};
use proptest::prelude::*;

use play::{Op, Play};

fn settings() -> impl Strategy<Value = QueueSettings> {
    let limits = (
        prop::option::weighted(0.4, 0u64..12),
        prop::option::weighted(0.2, 0u64..40),
        prop::sample::select(vec![
            Overflow::DropHead,
            Overflow::RejectPublish,
            Overflow::RejectPublishDlx,
            Overflow::FlowControl,
        ]),
        prop::option::weighted(0.3, 0u64..60),
        prop::option::weighted(0.5, 0u8..4),
    );
    let deaths = (
        any::<bool>(),
        any::<bool>(),
        prop::option::weighted(0.6, 0u32..4),
        any::<bool>(),
    );
    let consumers = (
        prop::option::weighted(0.4, 0u64..80),
        prop::sample::select(vec![
            ConsumerTimeoutAction::Close,
            ConsumerTimeoutAction::Cancel,
            ConsumerTimeoutAction::Return,
        ]),
        prop::option::weighted(
            0.3,
            (
                (0u8..3, 1u64..30, 1u64..60),
                prop::option::of(1000u32..3000),
                prop_oneof![Just(0u8), 0u8..=100],
            ),
        ),
        prop::bool::weighted(0.2),
        (
            prop::bool::weighted(0.3),
            prop::option::weighted(0.5, 0u32..3),
        ),
    );
    (limits, deaths, consumers).prop_map(|(limits, deaths, consumers)| {
        let (max_length, max_length_bytes, overflow, message_ttl_ms, max_priority) = limits;
        let (dlx, at_least_once, delivery_limit, failures) = deaths;
        let (consumer_timeout_ms, consumer_timeout_action, retry, single_active, watch) = consumers;
        let (expire_anywhere, poison_loop_returns) = watch;
        QueueSettings {
            max_length,
            max_length_bytes,
            overflow,
            message_ttl_ms,
            max_priority,
            dead_letter_exchange: dlx.then(|| "dlx".into()),
            dead_letter_strategy: match at_least_once {
                true => DeadLetterStrategy::AtLeastOnce,
                false => DeadLetterStrategy::AtMostOnce,
            },
            delivery_limit,
            delivery_limit_counts: match failures {
                true => DeliveryLimitCounts::Failures,
                false => DeliveryLimitCounts::Returns,
            },
            consumer_timeout_ms,
            consumer_timeout_action,
            delayed_retry: retry.map(
                |((kind, min_ms, max_ms), multiplier_permille, jitter_percent)| DelayedRetry {
                    kind: match kind {
                        0 => DelayedRetryKind::All,
                        1 => DelayedRetryKind::Failed,
                        _ => DelayedRetryKind::Returned,
                    },
                    min_ms,
                    max_ms,
                    multiplier_permille,
                    jitter_percent,
                },
            ),
            expire_anywhere,
            poison_loop_returns,
            single_active_consumer: single_active,
            ..QueueSettings::default()
        }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let pick = any::<prop::sample::Index>;
    let picks = || prop::collection::vec(any::<prop::sample::Index>(), 1..5);
    prop_oneof![
        8 => (prop_oneof![9 => 1u8..5, 1 => 30u8..90], prop::option::of(0u8..40), prop::option::of(0u64..50), 0u32..9)
            .prop_map(|(count, priority, ttl_ms, bytes)| Op::Enqueue { count, priority, ttl_ms, bytes }),
        6 => (1u32..12).prop_map(|messages| Op::Dispatch { messages }),
        3 => (0u64..4, 0u16..4, -1i64..2, prop::bool::weighted(0.2), prop::bool::weighted(0.8))
            .prop_map(|(holder, prefetch, priority, no_ack, cancel_notify)| Op::Consume {
                holder, prefetch, priority, no_ack, cancel_notify,
            }),
        1 => (pick(), any::<bool>()).prop_map(|(which, flow)| Op::Pause { which, flow }),
        1 => (pick(), any::<bool>()).prop_map(|(which, flow)| Op::Resume { which, flow }),
        1 => pick().prop_map(Op::Cancel),
        1 => (0u64..4, 0u8..3).prop_map(|(holder, cause)| Op::Detach { holder, cause }),
        8 => (picks(), 0u8..7).prop_map(|(which, how)| Op::Settle { which, how }),
        2 => (0u64..4, any::<bool>()).prop_map(|(holder, no_ack)| Op::Get { holder, no_ack }),
        4 => (0u64..40).prop_map(Op::Advance),
        1 => (1u32..6).prop_map(Op::Purge),
        1 => (prop::option::of(0u64..8), any::<bool>(), any::<bool>(), prop::option::of(0u64..80))
            .prop_map(|(max_length, dlx, expire_anywhere, timeout_ms)| Op::Reconfigure {
                max_length, dlx, expire_anywhere, timeout_ms,
            }),
        2 => (pick(), any::<bool>()).prop_map(|(which, stored)| Op::DeadLetterDone { which, stored }),
        1 => picks().prop_map(Op::Forget),
        1 => (0u64..4, picks()).prop_map(|(holder, which)| Op::HoldAgain { holder, which }),
        1 => (pick(), prop::bool::ANY).prop_map(|(which, extend)| Op::Touch { which, extend }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_classic_queue_does_what_the_rules_allow_and_nothing_else(
        settings in settings(), ops in prop::collection::vec(op(), 1..90)
    ) {
        Play::new(QueueKind::Classic, settings).run(ops);
    }

    #[test]
    fn a_quorum_queue_does_what_the_rules_allow_and_nothing_else(
        settings in settings(), ops in prop::collection::vec(op(), 1..90)
    ) {
        Play::new(QueueKind::Quorum, settings).run(ops);
    }
}
