//! Queue arguments that are refused, with RabbitMQ's explanations.

use integration_tests::request::queue_declare;
use integration_tests::{Close, QueueSpec, Trial, Value, conformance};

/// Declares a queue of type `kind` with one argument, which must be refused with `why`.
#[track_caller]
fn refuses(trial: &Trial, kind: &str, argument: &str, value: impl Into<Value>, why: &str) {
    let name = trial.queue("odd");
    let spec = QueueSpec::durable(&name)
        .argument("x-queue-type", kind)
        .argument(argument, value);
    let close = trial.channel().refused(&queue_declare(&spec));
    let text = format!(
        "PRECONDITION_FAILED - invalid arg '{argument}' for queue '{name}' in vhost '/'{why}"
    );
    assert_eq!(close, Close::channel(406, text, "queue.declare"));
}

/// Declares a queue of type `kind` with one argument, which must be taken.
#[track_caller]
fn takes(trial: &Trial, kind: &str, argument: &str, value: impl Into<Value>) {
    let name = trial.queue("fine");
    let spec = QueueSpec::durable(&name)
        .argument("x-queue-type", kind)
        .argument(argument, value);
    trial.channel().declare(&spec);
}

// rabbitmq: numbers are numbers and not negative.
#[test]
fn numbers_must_be_integers_that_are_not_negative() {
    conformance(|trial| {
        for argument in [
            "x-message-ttl",
            "x-expires",
            "x-max-length",
            "x-max-length-bytes",
            "x-max-priority",
        ] {
            refuses(trial, "classic", argument, -1, ": {value_negative,-1}");
            let why = ": \"expected integer, got longstr\"";
            refuses(trial, "classic", argument, "5", why);
            let why = ": \"expected integer, got bool\"";
            refuses(trial, "classic", argument, true, why);
        }
    });
}

// rabbitmq: times go up to ten years.
#[test]
fn times_are_at_most_ten_years() {
    conformance(|trial| {
        for argument in ["x-message-ttl", "x-expires"] {
            let why = ": {value_too_large,315360000001}";
            refuses(trial, "classic", argument, 315_360_000_001i64, why);
            takes(trial, "classic", argument, 315_360_000_000i64);
        }
    });
}

// rabbitmq: a queue that is gone at once is nobody's wish.
#[test]
fn an_expiry_of_zero_is_refused() {
    conformance(|trial| refuses(trial, "classic", "x-expires", 0, ": {value_zero,0}"));
}

// rabbitmq: a time to live of zero is a wish.
#[test]
fn a_time_to_live_of_zero_is_taken() {
    conformance(|trial| takes(trial, "classic", "x-message-ttl", 0));
}

// rabbitmq: levels go up to 255.
#[test]
fn priorities_go_up_to_255() {
    conformance(|trial| {
        refuses(
            trial,
            "classic",
            "x-max-priority",
            256,
            ": {max_value_exceeded,256}",
        );
        takes(trial, "classic", "x-max-priority", 255);
    });
}

// rabbitmq: x-overflow has three values.
#[test]
fn an_unknown_overflow_is_refused() {
    conformance(|trial| refuses(trial, "classic", "x-overflow", "odd", ": invalid_overflow"));
}

// rabbitmq: queue types
#[test]
fn an_unknown_queue_type_is_refused() {
    conformance(|trial| {
        let name = trial.queue("odd");
        let spec = QueueSpec::durable(&name).argument("x-queue-type", "bogus");
        let close = trial.channel().refused(&queue_declare(&spec));
        let text = format!(
            "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue '{name}' in vhost '/': \
             \"unsupported queue type 'bogus'\""
        );
        assert_eq!(close, Close::channel(406, text, "queue.declare"));
    });
}

// rabbitmq: a dead-letter key needs an exchange.
#[test]
fn a_dead_letter_key_without_an_exchange_is_refused() {
    conformance(|trial| {
        let why = ": routing_key_but_no_dlx_defined";
        refuses(trial, "classic", "x-dead-letter-routing-key", "k", why);
    });
}

// rabbitmq: text
#[test]
fn a_dead_letter_exchange_that_is_no_text_is_refused() {
    conformance(|trial| {
        let name = trial.queue("odd");
        let spec = QueueSpec::durable(&name).argument("x-dead-letter-exchange", 5);
        let close = trial.channel().refused(&queue_declare(&spec));
        let text = format!(
            "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in \
             queue '{name}' in vhost '/'"
        );
        assert_eq!(close, Close::channel(406, text, "queue.declare"));
    });
}

// rabbitmq: single active consumer is yes or no.
#[test]
fn a_single_active_consumer_that_is_no_bool_is_refused() {
    conformance(|trial| {
        let why = ": {unacceptable_type,longstr}";
        refuses(trial, "classic", "x-single-active-consumer", "yes", why);
    });
}

// rabbitmq: arguments of another type of queue
#[test]
fn classic_queues_refuse_arguments_of_quorum_queues() {
    conformance(|trial| {
        for argument in [
            "x-delivery-limit",
            "x-quorum-initial-group-size",
            "x-consumer-timeout",
        ] {
            let why = " of queue type rabbit_classic_queue";
            refuses(trial, "classic", argument, 3, why);
        }
    });
}

// rabbitmq: arguments of another type of queue
#[test]
fn quorum_queues_refuse_arguments_of_classic_queues() {
    conformance(|trial| {
        let why = " of queue type rabbit_quorum_queue";
        refuses(trial, "quorum", "x-max-priority", 5, why);
        refuses(trial, "quorum", "x-queue-mode", "lazy", why);
    });
}

// rabbitmq: lazy mode is history and harmless.
#[test]
fn a_classic_queue_takes_any_queue_mode() {
    conformance(|trial| {
        takes(trial, "classic", "x-queue-mode", "lazy");
        takes(trial, "classic", "x-queue-mode", "odd");
    });
}

// rabbitmq: group sizes begin with one.
#[test]
fn a_quorum_group_of_nobody_is_refused() {
    conformance(|trial| {
        refuses(
            trial,
            "quorum",
            "x-quorum-initial-group-size",
            0,
            ": {value_zero,0}",
        );
        takes(trial, "quorum", "x-quorum-initial-group-size", 1);
    });
}

// rabbitmq: dead-letter strategies
#[test]
fn an_unknown_dead_letter_strategy_is_refused() {
    conformance(|trial| {
        let why = ": invalid_dlx_strategy";
        refuses(trial, "quorum", "x-dead-letter-strategy", "odd", why);
        takes(trial, "quorum", "x-dead-letter-strategy", "at-least-once");
    });
}

// rabbitmq: an argument that nobody knows is kept and means nothing.
#[test]
fn unknown_arguments_are_taken() {
    conformance(|trial| {
        for kind in super::BOTH {
            takes(trial, kind, "x-mine", "whatever");
        }
    });
}

// rabbitmq: limits of a quorum queue
#[test]
fn a_quorum_queue_takes_its_arguments() {
    conformance(|trial| {
        for (argument, value) in [
            ("x-delivery-limit", Value::I32(5)),
            ("x-delivery-limit", Value::I32(-1)),
            ("x-max-length", Value::I64(10)),
            ("x-message-ttl", Value::U32(60_000)),
            ("x-expires", Value::I32(60_000)),
            ("x-overflow", Value::from("reject-publish")),
            ("x-single-active-consumer", Value::Bool(true)),
            ("x-consumer-timeout", Value::I32(60_000)),
        ] {
            takes(trial, "quorum", argument, value);
        }
    });
}
