//! No-wait: methods that take effect without an answer. Errors are told all the same.

use integration_tests::request::{
    basic_cancel, basic_consume, exchange_bind, exchange_declare, exchange_delete, exchange_unbind,
    queue_bind, queue_declare, queue_delete, queue_purge,
};
use integration_tests::wire::Argument;
use integration_tests::{
    Channel, ConsumerSpec, ExchangeSpec, Method, Publication, QueueSpec, Table, conformance,
};

/// The method with its no-wait flag, the last bit that it has.
fn silent(mut method: Method) -> Method {
    let is_bit = |argument: &&mut Argument| matches!(argument, Argument::Bit(_));
    let flag = method.arguments.iter_mut().rev().find(is_bit);
    *flag.expect("The method has a no-wait flag.") = Argument::Bit(true);
    method
}

fn send_silently(channel: &Channel, method: Method) {
    channel.send(&silent(method));
}

// amqp: no-wait of every method that has it
#[test]
fn everything_takes_effect_without_an_answer() {
    conformance(|trial| {
        let channel = trial.channel();
        let (queue, exchange) = (trial.queue("silent"), trial.exchange("silent"));
        let source = trial.exchange("source");
        send_silently(&channel, queue_declare(&QueueSpec::durable(&queue)));
        for name in [&exchange, &source] {
            let spec = ExchangeSpec::durable(name, "fanout");
            send_silently(&channel, exchange_declare(&spec));
        }
        send_silently(&channel, exchange_bind(&exchange, &source, ""));
        send_silently(
            &channel,
            queue_bind(&queue, &exchange, "", &Table::default()),
        );
        channel.publish(&Publication::new(&source, "", "purged"));
        send_silently(&channel, queue_purge(&queue));
        send_silently(
            &channel,
            basic_consume(&ConsumerSpec::of(&queue).tag("t").no_ack()),
        );
        channel.publish(&Publication::new(&source, "", "delivered"));
        // Had anything been answered, it would have come before the delivery.
        assert_eq!(channel.expect_delivery().text(), "delivered");
        send_silently(&channel, exchange_unbind(&exchange, &source, ""));
        channel.publish(&Publication::new(&source, "", "lost"));
        send_silently(&channel, basic_cancel("t"));
        channel.expect_consumers(&queue, 0);
        channel.publish(&Publication::new(&exchange, "", "kept"));
        channel.expect_ready(&queue, 1);
        send_silently(&channel, queue_delete(&queue));
        send_silently(&channel, exchange_delete(&exchange));
        channel.connection().expect_quiet();
        let queue = channel.refused(&queue_declare(&QueueSpec::passive(&queue)));
        assert_eq!(queue.code, 404);
        let other = trial.channel();
        let exchange = ExchangeSpec::passive(&exchange, "fanout");
        assert_eq!(other.refused(&exchange_declare(&exchange)).code, 404);
    });
}

// amqp: an error is told even without waiting.
#[test]
fn errors_are_told_without_waiting() {
    conformance(|trial| {
        let missing = trial.name("missing");
        let bogus = ExchangeSpec::durable(&missing, "bogus");
        let cases = [
            (
                queue_bind(&missing, "amq.direct", "k", &Table::default()),
                404,
            ),
            (queue_purge(&missing), 404),
            (basic_consume(&ConsumerSpec::of(&missing)), 404),
            (exchange_declare(&bogus), 406),
            (exchange_bind(&missing, "amq.direct", "k"), 404),
            (exchange_delete("amq.direct"), 403),
        ];
        for (method, code) in cases {
            let channel = trial.channel();
            let name = method.name;
            send_silently(&channel, method);
            assert_eq!(channel.expect_close().code, code, "{name}");
        }
    });
}
