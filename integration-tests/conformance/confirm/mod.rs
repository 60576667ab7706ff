//! Class confirm: what a publisher hears, and when.

use integration_tests::request::{confirm_select, queue_delete};
use integration_tests::{
    Close, ConsumerSpec, ExchangeSpec, Method, Properties, Publication, QueueSpec, conformance,
};

/// All kinds of queues that a publish can be confirmed by.
const KINDS: [&str; 2] = ["classic", "quorum"];

// rabbitmq: confirm.select
#[test]
fn select_may_be_repeated() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.call(&confirm_select());
        channel.call(&confirm_select());
    });
}

// rabbitmq: no-wait
#[test]
fn select_without_waiting_has_no_answer_and_counts() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.send(&Method::new("confirm.select", vec![true.into()]));
        channel.publish(&Publication::new("", &trial.name("nowhere"), "body"));
        let (ack, _) = channel.wait_for(&["basic.ack"]);
        assert_eq!(ack.number(0), 1);
    });
}

// rabbitmq: every publish is confirmed once.
#[test]
fn every_publish_is_confirmed_once() {
    conformance(|trial| {
        for kind in KINDS {
            let channel = trial.channel();
            let queue = trial.queue(kind);
            channel.declare(&QueueSpec::durable(&queue).argument("x-queue-type", kind));
            channel.confirm_select();
            (0..1000).for_each(|n| channel.put(&queue, &n.to_string()));
            let wanted: Vec<_> = (1..=1000).map(|n| (n, true)).collect();
            assert_eq!(channel.outcomes(), wanted, "{kind}");
            channel.connection().expect_quiet();
            channel.expect_ready(&queue, 1000);
        }
    });
}

// rabbitmq: a transient message is confirmed as well.
#[test]
fn transient_messages_and_queues_are_confirmed() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = channel.declare(&QueueSpec::transient("").exclusive()).name;
        assert!(channel.publish_confirmed(&Publication::to_queue(&queue, "a")));
        let persistent = Publication::to_queue(&queue, "b").with(Properties::persistent());
        assert!(channel.publish_confirmed(&persistent));
    });
}

// rabbitmq: a message without a route is confirmed.
#[test]
fn a_message_without_a_route_is_confirmed() {
    conformance(|trial| {
        let channel = trial.channel();
        assert!(channel.publish_confirmed(&Publication::new("", &trial.name("nowhere"), "a")));
    });
}

// rabbitmq: the return comes before the confirm.
#[test]
fn a_return_comes_before_its_confirm() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.confirm_select();
        channel.publish(&Publication::new("", &trial.name("nowhere"), "a").mandatory());
        let came = channel.wait_for(&["basic.return", "basic.ack"]).0;
        assert_eq!(came.name, "basic.return");
        assert_eq!(channel.outcomes(), [(1, true)]);
    });
}

// rabbitmq: several queues confirm a message together.
#[test]
fn a_message_for_several_queues_is_confirmed_once() {
    conformance(|trial| {
        let channel = trial.channel();
        let exchange = trial.exchange("fanout");
        channel.declare_exchange(&ExchangeSpec::durable(&exchange, "fanout"));
        let queues = ["classic", "quorum"].map(|kind| {
            let queue = trial.queue(kind);
            channel.declare(&QueueSpec::durable(&queue).argument("x-queue-type", kind));
            queue
        });
        let transient = trial.queue("transient");
        channel.declare(&QueueSpec::transient(&transient));
        for queue in queues.iter().chain([&transient]) {
            channel.bind(queue, &exchange, "");
        }
        let publication = Publication::new(&exchange, "", "a").with(Properties::persistent());
        assert!(channel.publish_confirmed(&publication));
        channel.connection().expect_quiet();
        for queue in queues.iter().chain([&transient]) {
            assert_eq!(channel.take_all(queue), ["a"], "{queue}");
        }
    });
}

// rabbitmq: numbers count from the select on.
#[test]
fn numbers_count_from_the_select() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.publish(&Publication::new("", &trial.name("nowhere"), "before"));
        channel.confirm_select();
        channel.publish(&Publication::new("", &trial.name("nowhere"), "after"));
        assert_eq!(channel.outcomes(), [(1, true)]);
    });
}

// rabbitmq: each channel counts for itself.
#[test]
fn each_channel_counts_for_itself() {
    conformance(|trial| {
        let connection = trial.connect();
        for channel in [connection.channel(1), connection.channel(2)] {
            channel.confirm_select();
            channel.publish(&Publication::new("", &trial.name("nowhere"), "a"));
            assert_eq!(channel.outcomes(), [(1, true)]);
        }
    });
}

// rabbitmq: a confirm does not wait for a consumer's ack.
#[test]
fn a_publish_is_confirmed_while_its_message_is_unacked() {
    conformance(|trial| {
        for kind in KINDS {
            let channel = trial.channel();
            let queue = trial.queue(kind);
            channel.declare(&QueueSpec::durable(&queue).argument("x-queue-type", kind));
            let consumer = trial.channel();
            consumer.consume(&ConsumerSpec::of(&queue));
            channel.put_all(&queue, ["a"]);
            consumer.expect_delivery();
        }
    });
}

// rabbitmq: publishes to a queue that goes are settled one way or the other.
#[test]
fn publishes_are_settled_when_their_queue_goes() {
    conformance(|trial| {
        for kind in KINDS {
            let channel = trial.channel();
            let queue = trial.queue(kind);
            channel.declare(&QueueSpec::durable(&queue).argument("x-queue-type", kind));
            channel.confirm_select();
            let other = trial.channel();
            (0..200).for_each(|n| channel.put(&queue, &n.to_string()));
            other.call(&queue_delete(&queue));
            (0..200).for_each(|n| channel.put(&queue, &n.to_string()));
            assert_eq!(channel.outcomes().len(), 400, "{kind}");
        }
    });
}

// rabbitmq: transactions and confirms exclude each other.
#[test]
fn confirms_on_a_transactional_channel_close_it_with_406() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.call(&Method::new("tx.select", vec![]));
        let close = channel.refused(&confirm_select());
        let text = "PRECONDITION_FAILED - cannot switch from tx to confirm mode";
        assert_eq!(close, Close::channel(406, text, "confirm.select"));
    });
}

// rabbitmq: a publish that costs the channel is not confirmed.
#[test]
fn a_publish_to_a_missing_exchange_is_not_confirmed() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.confirm_select();
        channel.publish(&Publication::new(&trial.name("missing"), "k", "a"));
        assert_eq!(channel.expect_close().code, 404);
        channel.connection().expect_quiet();
    });
}
