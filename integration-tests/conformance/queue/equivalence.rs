//! Declaring a queue again: what must be the same, and what is said when it is not.

use integration_tests::request::queue_declare;
use integration_tests::{Close, QueueSpec, Table, Value, conformance};

/// Declares `first`, then `second` on the same name, which must be refused with `why`.
#[track_caller]
fn differ(
    first: impl Fn(QueueSpec) -> QueueSpec,
    second: impl Fn(QueueSpec) -> QueueSpec,
    trial: &integration_tests::Trial,
    argument: &str,
    why: &str,
) {
    let channel = trial.channel();
    let name = trial.queue("again");
    channel.declare(&first(QueueSpec::durable(&name)));
    let close = channel.refused(&queue_declare(&second(QueueSpec::durable(&name))));
    let text = format!(
        "PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{name}' in vhost '/': \
         {why}"
    );
    assert_eq!(close, Close::channel(406, text, "queue.declare"));
}

// amqp 1.7.2.1, rabbitmq: text
#[test]
fn another_durability_closes_the_channel_with_406() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("again");
        channel.declare(&QueueSpec::durable(&name));
        let close = channel.refused(&queue_declare(&QueueSpec::transient(&name)));
        let text = format!(
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{name}' in vhost '/': \
             received 'false' but current is 'true'"
        );
        assert_eq!(close, Close::channel(406, text, "queue.declare"));
    });
}

// amqp 1.7.2.1, rabbitmq: text
#[test]
fn another_auto_delete_closes_the_channel_with_406() {
    conformance(|trial| {
        let why = "received 'true' but current is 'false'";
        differ(
            |spec| spec,
            QueueSpec::auto_delete,
            trial,
            "auto_delete",
            why,
        );
    });
}

// rabbitmq: an argument that is only in the request
#[test]
fn an_argument_more_closes_the_channel_with_406() {
    conformance(|trial| {
        let why = "received the value '1000' of type 'signedint' but current is none";
        let more = |spec: QueueSpec| spec.argument("x-max-length", 1000);
        differ(|spec| spec, more, trial, "x-max-length", why);
    });
}

// rabbitmq: an argument that is only in the queue
#[test]
fn an_argument_less_closes_the_channel_with_406() {
    conformance(|trial| {
        let why = "received none but current is the value '1000' of type 'signedint'";
        let more = |spec: QueueSpec| spec.argument("x-max-length", 1000);
        differ(more, |spec| spec, trial, "x-max-length", why);
    });
}

// rabbitmq: an argument of another value
#[test]
fn an_argument_of_another_value_closes_the_channel_with_406() {
    conformance(|trial| {
        let why = "received '2000' but current is '1000'";
        let of = |length| move |spec: QueueSpec| spec.argument("x-max-length", length);
        differ(of(1000), of(2000), trial, "x-max-length", why);
    });
}

// rabbitmq: queue types differ.
#[test]
fn another_type_closes_the_channel_with_406() {
    conformance(|trial| {
        let why = "received 'quorum' but current is 'classic'";
        let quorum = |spec: QueueSpec| spec.argument("x-queue-type", "quorum");
        differ(|spec| spec, quorum, trial, "x-queue-type", why);
    });
}

// rabbitmq: no type means the default type.
#[test]
fn naming_the_default_type_changes_nothing() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("again");
        channel.declare(&QueueSpec::durable(&name));
        channel.declare(&QueueSpec::durable(&name).argument("x-queue-type", "classic"));
    });
}

// rabbitmq: all widths of integers are one class.
#[test]
fn integers_of_different_widths_are_the_same() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("again");
        let of = |value: Value| QueueSpec::durable(&name).argument("x-max-length", value);
        channel.declare(&of(Value::I64(9)));
        for value in [
            Value::I8(9),
            Value::U8(9),
            Value::I16(9),
            Value::I32(9),
            Value::U32(9),
        ] {
            channel.declare(&of(value));
        }
    });
}

// rabbitmq: arguments that mean nothing are not compared.
#[test]
fn unknown_arguments_are_not_compared() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("again");
        channel.declare(&QueueSpec::durable(&name).argument("x-mine", 1));
        channel.declare(&QueueSpec::durable(&name).argument("x-mine", 2));
        channel.declare(&QueueSpec::durable(&name));
    });
}

// rabbitmq: a quorum queue compares its own arguments.
#[test]
fn a_quorum_queue_compares_its_delivery_limit() {
    conformance(|trial| {
        let why = "received '5' but current is '3'";
        let of = |limit| {
            move |spec: QueueSpec| {
                spec.argument("x-queue-type", "quorum")
                    .argument("x-delivery-limit", limit)
            }
        };
        differ(of(3), of(5), trial, "x-delivery-limit", why);
    });
}

// amqp 1.7.2.1: the same again changes nothing.
#[test]
fn declaring_again_with_the_same_arguments_is_fine() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("again");
        let spec = QueueSpec::durable(&name)
            .argument("x-message-ttl", 60_000)
            .argument("x-dead-letter-exchange", "amq.direct")
            .argument("x-max-priority", 3)
            .argument("x-single-active-consumer", true);
        channel.declare(&spec);
        channel.put_all(&name, ["kept"]);
        assert_eq!(channel.declare(&spec).ready, 1);
    });
}

// rabbitmq: bytes are compared whatever their type; a void is told as no argument.
#[test]
fn a_void_is_told_as_no_argument_and_bytes_count_as_text() {
    conformance(|trial| {
        for kind in super::BOTH {
            let (channel, queue) = super::queue_of(trial, kind, |spec| {
                spec.argument("x-dead-letter-exchange", "dlx")
            });
            let again = |exchange: Value| {
                let spec = QueueSpec::durable(&queue).argument("x-queue-type", kind);
                queue_declare(&spec.argument("x-dead-letter-exchange", exchange))
            };
            channel.call(&again(Value::Bytes(b"dlx".to_vec())));
            let close = channel.refused(&again(Value::Void));
            let text = "received none but current is 'dlx'";
            assert!(close.text.ends_with(text), "{}", close.text);
        }
    });
}

// rabbitmq: text
#[test]
fn a_void_where_there_is_no_argument_differs_from_none() {
    conformance(|trial| {
        for kind in super::BOTH {
            let (channel, queue) = super::queue_of(trial, kind, |spec| spec);
            let spec = QueueSpec::durable(&queue).argument("x-queue-type", kind);
            let spec = spec.argument("x-message-ttl", Value::Void);
            let close = channel.refused(&queue_declare(&spec));
            let text = "received the value 'undefined' of type 'void' but current is none";
            assert!(close.text.ends_with(text), "{}", close.text);
        }
    });
}

// rabbitmq: text
#[test]
fn arrays_and_tables_are_told_with_the_types_of_their_values() {
    conformance(|trial| {
        let wanted = [
            (Value::Array(vec![Value::I32(1)]), "[{signedint,1}]"),
            (
                Value::Table(Table::default().with("a", "x")),
                "[{<<\"a\">>,longstr,<<\"x\">>}]",
            ),
        ];
        for (value, shown) in wanted {
            let (channel, queue) =
                super::queue_of(trial, "classic", |spec| spec.argument("x-expires", 60_000));
            let spec = QueueSpec::durable(&queue).argument("x-expires", value);
            let close = channel.refused(&queue_declare(&spec));
            let text = format!("received '{shown}' but current is '60000'");
            assert!(close.text.ends_with(&text), "{}", close.text);
        }
    });
}
