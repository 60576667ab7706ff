//! The table of arguments, row by row.

use amqp::{ByteString, Table, Value};

use super::*;
use crate::metadata::{Metadata, MetadataChange, NodeId, QueueDeclaration, VhostRecord};

fn declare(kind: &str, entries: Vec<(&'static str, Value)>) -> Result<(), String> {
    let mut metadata = Metadata::default();
    let vhost = VhostName::new("/");
    metadata
        .apply(&MetadataChange::PutVhost {
            vhost: vhost.clone(),
            record: VhostRecord::default(),
        })
        .unwrap();
    let mut arguments: Table = entries.into_iter().collect();
    arguments.insert(QUEUE_TYPE, kind);
    let declaration = QueueDeclaration {
        vhost,
        queue: QueueName::new("q"),
        server_named: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments,
        connection: None,
        user: None,
        node: NodeId(0),
        groups: 1,
    };
    match metadata.apply(&MetadataChange::DeclareQueue(declaration)) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(refusal.to_string()),
    }
}

fn takes(kind: &str, key: &'static str, value: impl Into<Value>) {
    let value = value.into();
    assert_eq!(
        declare(kind, vec![(key, value.clone())]),
        Ok(()),
        "{kind} {key} {value:?}"
    );
}

fn refuses(kind: &str, key: &'static str, value: impl Into<Value>, why: &str) {
    let expected = format!("invalid arg '{key}' for queue 'q' in vhost '/': {why}");
    assert_eq!(
        declare(kind, vec![(key, value.into())]),
        Err(expected),
        "{kind} {key}"
    );
}

fn has_not(kind: &str, key: &'static str, value: impl Into<Value>) {
    let expected =
        format!("invalid arg '{key}' for queue 'q' in vhost '/' of queue type rabbit_{kind}_queue");
    assert_eq!(
        declare(kind, vec![(key, value.into())]),
        Err(expected),
        "{kind} {key}"
    );
}

const BOTH_KINDS: [&str; 2] = ["classic", "quorum"];

#[test]
fn times_are_whole_and_end_after_ten_years() {
    for kind in BOTH_KINDS {
        takes(kind, "x-message-ttl", 0);
        takes(kind, "x-message-ttl", 315_360_000_000i64);
        takes(kind, "x-message-ttl", 5i8);
        refuses(kind, "x-message-ttl", -1, "{value_negative,-1}");
        refuses(
            kind,
            "x-message-ttl",
            315_360_000_001i64,
            "{value_too_large,315360000001}",
        );
        refuses(
            kind,
            "x-message-ttl",
            "5",
            "\"expected integer, got longstr\"",
        );
        refuses(
            kind,
            "x-message-ttl",
            1.5,
            "\"expected integer, got double\"",
        );
        refuses(
            kind,
            "x-message-ttl",
            true,
            "\"expected integer, got bool\"",
        );
        takes(kind, "x-expires", 1);
        refuses(kind, "x-expires", 0, "{value_zero,0}");
        refuses(kind, "x-expires", -1, "{value_negative,-1}");
        refuses(
            kind,
            "x-expires",
            315_360_000_001i64,
            "{value_too_large,315360000001}",
        );
    }
}

#[test]
fn lengths_are_whole_and_not_negative() {
    for kind in BOTH_KINDS {
        for key in ["x-max-length", "x-max-length-bytes"] {
            takes(kind, key, 0);
            takes(kind, key, i64::MAX);
            refuses(kind, key, -1, "{value_negative,-1}");
            refuses(kind, key, "1", "\"expected integer, got longstr\"");
        }
    }
    takes("quorum", "x-max-in-memory-length", 5);
    takes("quorum", "x-max-in-memory-bytes", 5);
    has_not("classic", "x-max-in-memory-length", 5);
    has_not("classic", "x-max-in-memory-bytes", 5);
}

#[test]
fn overflow_is_one_of_the_words() {
    for kind in BOTH_KINDS {
        for word in [
            "drop-head",
            "reject-publish",
            "reject-publish-dlx",
            "flow-control",
        ] {
            takes(kind, "x-overflow", word);
        }
        refuses(kind, "x-overflow", "reject_publish", "invalid_overflow");
        refuses(kind, "x-overflow", 1, "{unacceptable_type,signedint}");
    }
}

#[test]
fn dead_letters_need_an_exchange_that_is_a_string() {
    for kind in BOTH_KINDS {
        takes(kind, "x-dead-letter-exchange", "");
        takes(kind, "x-dead-letter-exchange", "dlx");
        assert_eq!(
            declare(kind, vec![("x-dead-letter-exchange", Value::I32(5))]),
            Err(
                "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost \
                 '/'"
                .into()
            )
        );
        refuses(
            kind,
            "x-dead-letter-routing-key",
            "k",
            "routing_key_but_no_dlx_defined",
        );
        refuses(
            kind,
            "x-dead-letter-routing-key",
            1,
            "{unacceptable_type,signedint}",
        );
        let both: Vec<(&str, Value)> = vec![
            ("x-dead-letter-routing-key", "k".into()),
            ("x-dead-letter-exchange", "dlx".into()),
        ];
        assert_eq!(declare(kind, both), Ok(()));
    }
    takes("quorum", "x-dead-letter-strategy", "at-least-once");
    refuses(
        "quorum",
        "x-dead-letter-strategy",
        "perhaps",
        "invalid_dlx_strategy",
    );
    has_not("classic", "x-dead-letter-strategy", "at-least-once");
}

#[test]
fn arguments_that_rabbitmq_does_not_have_are_not_taken_with_any_value() {
    takes("quorum", "x-delivery-limit-counts", "failures");
    let unknown = "\"unknown word 'nacks'\"";
    refuses("quorum", "x-delivery-limit-counts", "nacks", unknown);
    takes("quorum", "x-consumer-timeout-action", "return");
    let unknown = "\"unknown word 'wait'\"";
    refuses("quorum", "x-consumer-timeout-action", "wait", unknown);
    for kind in ["classic", "quorum"] {
        takes(kind, "x-delayed-retry-multiplier", 2);
        let range = "\"expected a number from 1 to 1000\"";
        refuses(kind, "x-delayed-retry-multiplier", 0, range);
        refuses(kind, "x-delayed-retry-multiplier", "x", range);
        takes(kind, "x-delayed-retry-jitter", 100);
        refuses(kind, "x-delayed-retry-jitter", 101, "{value_too_large,101}");
    }
}

#[test]
fn classic_queues_have_priorities_and_a_storage_version() {
    takes("classic", "x-max-priority", 0);
    takes("classic", "x-max-priority", 255);
    refuses("classic", "x-max-priority", 256, "{max_value_exceeded,256}");
    refuses("classic", "x-max-priority", -1, "{value_negative,-1}");
    has_not("quorum", "x-max-priority", 5);
    takes("classic", "x-queue-version", 2);
    refuses("classic", "x-queue-version", -1, "{value_negative,-1}");
    refuses(
        "classic",
        "x-queue-version",
        1,
        "\"unsupported queue version '1'\"",
    );
    has_not("quorum", "x-queue-version", 2);
    takes("classic", "x-queue-mode", "lazy");
    takes("classic", "x-queue-mode", 7);
    has_not("quorum", "x-queue-mode", "lazy");
}

#[test]
fn quorum_queues_have_limits_of_their_own() {
    takes("quorum", "x-delivery-limit", 5);
    takes("quorum", "x-delivery-limit", -1);
    takes("quorum", "x-delivery-limit", "abc");
    takes("quorum", "x-delivery-limit", 1.5);
    has_not("classic", "x-delivery-limit", 5);
    takes("quorum", "x-consumer-timeout", 0);
    takes("quorum", "x-consumer-timeout", 315_360_000_001i64);
    refuses("quorum", "x-consumer-timeout", -1, "{value_negative,-1}");
    refuses(
        "quorum",
        "x-consumer-timeout",
        "60000",
        "\"expected integer, got longstr\"",
    );
    has_not("classic", "x-consumer-timeout", 60_000);
    takes("quorum", "x-consumer-disconnected-timeout", 0);
    has_not("classic", "x-consumer-disconnected-timeout", 0);
    takes("quorum", "x-quorum-initial-group-size", 3);
    refuses("quorum", "x-quorum-initial-group-size", 0, "{value_zero,0}");
    has_not("classic", "x-quorum-initial-group-size", 3);
    for key in [
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
    ] {
        for kind in BOTH_KINDS {
            takes(kind, key, "anything");
        }
    }
}

#[test]
fn both_kinds_have_one_active_consumer_and_a_locator() {
    for kind in BOTH_KINDS {
        takes(kind, "x-single-active-consumer", true);
        refuses(
            kind,
            "x-single-active-consumer",
            "true",
            "{unacceptable_type,longstr}",
        );
        for word in [
            "client-local",
            "balanced",
            "random",
            "least-leaders",
            "min-masters",
        ] {
            takes(kind, "x-queue-leader-locator", word);
        }
        refuses(
            kind,
            "x-queue-leader-locator",
            "north",
            "invalid_queue_locator_arg",
        );
    }
}

#[test]
fn arguments_of_streams_are_nobodys() {
    for kind in BOTH_KINDS {
        has_not(kind, "x-initial-cluster-size", 3);
        has_not(kind, "x-max-age", "1h");
        has_not(kind, "x-stream-max-segment-size-bytes", 5);
        has_not(kind, "x-stream-filter-size-bytes", 16);
    }
}

#[test]
fn the_retired_locator_is_refused_in_two_ways() {
    assert_eq!(
        declare(
            "classic",
            vec![("x-queue-master-locator", "min-masters".into())]
        ),
        Err(
            "Feature `queue_master_locator` is deprecated.\nBy default, this feature is not \
             permitted anymore."
                .into()
        )
    );
    has_not("quorum", "x-queue-master-locator", "min-masters");
}

#[test]
fn unknown_arguments_are_kept_without_a_word() {
    for kind in BOTH_KINDS {
        takes(kind, "x-foo", Value::Void);
        takes(kind, "x-cancel-on-ha-failover", true);
        takes(kind, "x-ha-policy", "all");
        takes(
            kind,
            "anything",
            Value::ByteArray(ByteString::new(*b"\xff")),
        );
    }
}

#[test]
fn values_are_looked_at_before_foreign_arguments() {
    let entries: Vec<(&str, Value)> = vec![
        ("x-delivery-limit", Value::I32(1)),
        ("x-expires", Value::I32(0)),
    ];
    assert_eq!(
        declare("classic", entries),
        Err("invalid arg 'x-expires' for queue 'q' in vhost '/': {value_zero,0}".into())
    );
}

fn consumer(
    kind: QueueKind,
    key: &str,
    value: impl Into<Value>,
) -> Result<(i64, Option<u64>), String> {
    let arguments: Table = [(key, value.into())].into_iter().collect();
    ConsumerArguments::parse(&arguments, kind, &"q".into(), &"/".into())
        .map(|parsed| (parsed.priority, parsed.timeout_ms))
        .map_err(|refusal| refusal.to_string())
}

#[test]
fn consumers_have_a_priority_and_on_quorum_queues_a_timeout() {
    let (classic, quorum) = (QueueKind::Classic, QueueKind::Quorum);
    assert_eq!(consumer(classic, "x-priority", 5), Ok((5, None)));
    assert_eq!(consumer(quorum, "x-priority", -5i64), Ok((-5, None)));
    assert_eq!(
        consumer(classic, "x-priority", "5"),
        Err(
            "invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got \
             longstr\""
                .into()
        )
    );
    assert_eq!(
        consumer(quorum, "x-consumer-timeout", 60_000),
        Ok((0, Some(60_000)))
    );
    assert_eq!(
        consumer(quorum, "x-consumer-timeout", -1),
        Err(
            "invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/': {value_negative,-1}"
                .into()
        )
    );
    assert_eq!(
        consumer(classic, "x-consumer-timeout", 60_000),
        Err(
            "invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/' of queue type \
             rabbit_classic_queue"
                .into()
        )
    );
    assert_eq!(
        consumer(classic, "x-cancel-on-ha-failover", true),
        Ok((0, None))
    );
}

#[test]
fn arrays_and_tables_are_shown_with_their_types() {
    let mut table = Table::new();
    table.push("a", 1i32);
    table.push("b", vec![Value::from("x"), Value::Bool(true)]);
    let cases = [
        (Value::Array(vec![Value::I32(1)]), "[{signedint,1}]"),
        (
            Value::Table(table),
            "[{<<\"a\">>,signedint,1},{<<\"b\">>,array,[{longstr,<<\"x\">>},{bool,true}]}]",
        ),
    ];
    for (value, wanted) in cases {
        assert_eq!(show_value(&value), wanted);
    }
}
