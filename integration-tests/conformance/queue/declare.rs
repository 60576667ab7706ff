//! queue.declare: names, properties, owners.

use integration_tests::request::{
    basic_get, queue_bind, queue_declare, queue_declare_nowait, queue_delete, queue_purge,
};
use integration_tests::{
    Close, ConsumerSpec, Declared, Publication, QueueSpec, Table, Trial, conformance,
};

/// The close that answers a declare.
fn refused(trial: &Trial, spec: &QueueSpec) -> Close {
    trial.channel().refused(&queue_declare(spec))
}

/// The close of a channel because of queue.declare.
fn close(code: u16, text: impl Into<String>) -> Close {
    Close::channel(code, text, "queue.declare")
}

// amqp 1.7.2.2: declare-ok tells name, ready messages and consumers.
#[test]
fn declare_ok_tells_name_messages_and_consumers() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("told");
        let fresh = Declared {
            name: name.clone(),
            ready: 0,
            consumers: 0,
        };
        assert_eq!(channel.declare(&QueueSpec::durable(&name)), fresh);
        channel.put_all(&name, ["a", "b"]);
        channel.prefetch(1);
        channel.consume(&ConsumerSpec::of(&name));
        channel.expect_delivery();
        let used = Declared {
            name: name.clone(),
            ready: 1,
            consumers: 1,
        };
        assert_eq!(channel.declare(&QueueSpec::durable(&name)), used);
    });
}

// amqp 1.7.2.1: the broker makes up a name.
#[test]
fn an_empty_name_gets_one_from_the_broker() {
    conformance(|trial| {
        let channel = trial.channel();
        let one = channel.declare(&QueueSpec::transient("").exclusive()).name;
        let two = channel.declare(&QueueSpec::transient("").exclusive()).name;
        for name in [&one, &two] {
            let made_up = name.strip_prefix("amq.gen-");
            assert_eq!(made_up.map(str::len), Some(22), "{name}");
        }
        assert_ne!(one, two);
    });
}

// amqp 1.7.2.1: the empty name then means the last queue of the channel.
#[test]
fn the_empty_name_means_the_last_queue_of_the_channel() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("last");
        channel.declare(&QueueSpec::durable(&name));
        channel.put_all(&name, ["a"]);
        assert_eq!(
            channel.take("").map(|delivery| delivery.text()),
            Some("a".to_owned())
        );
        assert_eq!(channel.purge(""), 0);
        assert_eq!(channel.delete(""), 0);
    });
}

// amqp 1.7.2.1: names that begin with amq. are the broker's.
#[test]
fn a_reserved_name_closes_the_channel_with_403() {
    conformance(|trial| {
        let close = refused(trial, &QueueSpec::durable("amq.mine"));
        let text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'";
        assert_eq!(close, self::close(403, text));
    });
}

// amqp 1.7.2.1: passive only asks.
#[test]
fn a_passive_declare_of_a_missing_queue_closes_the_channel_with_404() {
    conformance(|trial| {
        let name = trial.name("missing");
        let close = refused(trial, &QueueSpec::passive(&name));
        assert_eq!(
            close,
            self::close(404, format!("NOT_FOUND - no queue '{name}' in vhost '/'"))
        );
    });
}

// rabbitmq: asking for a queue without a name asks for no queue at all.
#[test]
fn a_passive_declare_without_a_name_closes_the_channel_with_404() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.declare(&QueueSpec::transient("").exclusive());
        let close = channel.refused(&queue_declare(&QueueSpec::passive("")));
        assert_eq!(
            close,
            self::close(404, "NOT_FOUND - no queue '' in vhost '/'")
        );
    });
}

// rabbitmq: passive compares nothing but the owner.
#[test]
fn a_passive_declare_does_not_compare() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("asked");
        channel.declare(&QueueSpec::durable(&name).argument("x-max-length", 5));
        channel.declare(&QueueSpec::passive(&name));
    });
}

// amqp 1.7.2.1: no-wait has no answer.
#[test]
fn a_declare_without_waiting_has_no_answer() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("silent");
        channel.send(&queue_declare_nowait(&QueueSpec::durable(&name)));
        channel.connection().expect_quiet();
        channel.declare(&QueueSpec::passive(&name));
    });
}

// amqp 1.7.2.1: an error is told even without waiting.
#[test]
fn a_refused_declare_without_waiting_closes_the_channel() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.send(&queue_declare_nowait(&QueueSpec::passive(
            &trial.name("missing"),
        )));
        assert_eq!(channel.expect_close().code, 404);
    });
}

// rabbitmq: line ends are taken out of names.
#[test]
fn line_ends_are_taken_out_of_names() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("line");
        let broken = format!("\r\n{name}\n");
        assert_eq!(channel.declare(&QueueSpec::durable(&broken)).name, name);
    });
}

// amqp 1.7.2.1: names are UTF-8.
#[test]
fn a_name_may_be_any_utf_8() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("Warteschlange für ✉");
        channel.declare(&QueueSpec::durable(&name));
        channel.put_all(&name, ["a"]);
        assert_eq!(channel.get_soon(&name).routing_key, name);
    });
}

/// The text that protects an exclusive queue.
fn locked(name: &str) -> String {
    format!(
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'. \
         It could be originally declared on another connection or the exclusive property value \
         does not match that of the original declaration."
    )
}

// amqp 1.7.2.1: exclusive queues are their connection's own.
#[test]
fn another_connection_can_do_nothing_with_an_exclusive_queue() {
    conformance(|trial| {
        let owner = trial.channel();
        let name = trial.queue("mine");
        owner.declare(&QueueSpec::transient(&name).exclusive());
        let consume = integration_tests::request::basic_consume(&ConsumerSpec::of(&name));
        let methods = [
            queue_declare(&QueueSpec::transient(&name).exclusive()),
            queue_declare(&QueueSpec::passive(&name)),
            queue_bind(&name, "amq.fanout", "", &Table::default()),
            queue_purge(&name),
            queue_delete(&name),
            basic_get(&name, false),
            consume,
        ];
        let other = trial.connect();
        for method in methods {
            let close = other.channel(1).refused(&method);
            assert_eq!(close, Close::channel(405, locked(&name), method.name));
        }
    });
}

// rabbitmq: exclusive is about the queue, not about who publishes to it.
#[test]
fn another_connection_may_publish_to_an_exclusive_queue() {
    conformance(|trial| {
        let owner = trial.channel();
        let name = trial.queue("mine");
        owner.declare(&QueueSpec::transient(&name).exclusive());
        assert!(
            trial
                .channel()
                .publish_confirmed(&Publication::to_queue(&name, "a"))
        );
        assert_eq!(owner.take_all(&name), ["a"]);
    });
}

// amqp 1.7.2.1: any channel of the owner's connection may use it.
#[test]
fn another_channel_of_the_owner_may_use_an_exclusive_queue() {
    conformance(|trial| {
        let owner = trial.channel();
        let name = trial.queue("mine");
        owner.declare(&QueueSpec::transient(&name).exclusive());
        owner
            .connection()
            .channel(2)
            .declare(&QueueSpec::transient(&name).exclusive());
    });
}

// rabbitmq: exclusive or not must be the same on both sides.
#[test]
fn an_exclusive_declare_of_a_shared_queue_closes_the_channel_with_405() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("shared");
        channel.declare(&QueueSpec::transient(&name));
        let close = channel.refused(&queue_declare(&QueueSpec::transient(&name).exclusive()));
        assert_eq!(close, self::close(405, locked(&name)));
    });
}

// rabbitmq: exclusive queues are never durable, whatever was asked.
#[test]
fn durable_means_nothing_for_an_exclusive_queue() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("mine");
        channel.declare(&QueueSpec::durable(&name).exclusive());
        channel.declare(&QueueSpec::transient(&name).exclusive());
    });
}

// amqp 1.7.2.1: auto-delete goes with the last consumer.
#[test]
fn an_auto_delete_queue_goes_with_its_last_consumer() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("auto");
        channel.declare(&QueueSpec::transient(&name).auto_delete());
        let one = channel.consume(&ConsumerSpec::of(&name));
        let two = channel.consume(&ConsumerSpec::of(&name));
        channel.cancel(&one);
        channel.expect_consumers(&name, 1);
        channel.cancel(&two);
        let close = channel.refused(&queue_declare(&QueueSpec::passive(&name)));
        assert_eq!(close.code, 404);
    });
}

// rabbitmq: the end of the consumer's channel counts as well.
#[test]
fn an_auto_delete_queue_goes_with_the_channel_of_its_last_consumer() {
    conformance(|trial| {
        let connection = trial.connect();
        let (one, two) = (connection.channel(1), connection.channel(2));
        let name = trial.queue("auto");
        one.declare(&QueueSpec::transient(&name).auto_delete());
        one.consume(&ConsumerSpec::of(&name));
        one.close();
        let close = two.refused(&queue_declare(&QueueSpec::passive(&name)));
        assert_eq!(close.code, 404);
    });
}

// amqp 1.7.2.1: a queue that never had a consumer stays; basic.get is no consumer.
#[test]
fn an_auto_delete_queue_without_consumers_stays() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.queue("auto");
        channel.declare(&QueueSpec::transient(&name).auto_delete());
        channel.put_all(&name, ["a"]);
        assert_eq!(channel.take_all(&name), ["a"]);
        channel.declare(&QueueSpec::passive(&name));
    });
}

// rabbitmq: another connection sees the queue at once.
#[test]
fn a_declared_queue_is_seen_by_other_connections_at_once() {
    conformance(|trial| {
        let (one, two) = (trial.channel(), trial.channel());
        for stem in ["a", "b", "c"] {
            let name = trial.queue(stem);
            one.declare(&QueueSpec::durable(&name));
            two.declare(&QueueSpec::passive(&name));
        }
    });
}
