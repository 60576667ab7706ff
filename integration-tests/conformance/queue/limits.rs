//! Length limits, and what happens to the message that is too much.

use integration_tests::{ConsumerSpec, Publication, QueueSpec, conformance};

use super::{BOTH, queue_of};

/// A limit on messages.
fn at_most(count: i32) -> impl FnOnce(QueueSpec) -> QueueSpec {
    move |spec| spec.argument("x-max-length", count)
}

// rabbitmq: drop-head
#[test]
fn the_oldest_messages_go_when_there_are_too_many() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, at_most(2));
            channel.put_all(&queue, ["a", "b", "c", "d"]);
            channel.expect_ready(&queue, 2);
            assert_eq!(channel.take_all(&queue), ["c", "d"], "{kind}");
        }
    });
}

// rabbitmq: x-max-length-bytes counts bodies.
#[test]
fn the_oldest_messages_go_when_there_are_too_many_octets() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| {
            spec.argument("x-max-length-bytes", 10)
        });
        channel.put_all(&queue, ["aaaa", "bbbb", "cccc"]);
        channel.expect_ready(&queue, 2);
        assert_eq!(channel.take_all(&queue), ["bbbb", "cccc"]);
    });
}

// rabbitmq: whichever limit is met first
#[test]
fn both_limits_count() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| {
            spec.argument("x-max-length", 3)
                .argument("x-max-length-bytes", 5)
        });
        channel.put_all(&queue, ["a", "b", "c", "d"]);
        assert_eq!(channel.take_all(&queue), ["b", "c", "d"]);
        channel.put_all(&queue, ["eee", "fff"]);
        assert_eq!(channel.take_all(&queue), ["fff"]);
    });
}

// rabbitmq: only ready messages count.
#[test]
fn unacked_messages_do_not_count() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, at_most(2));
            channel.put_all(&queue, ["a", "b"]);
            channel.get_soon(&queue);
            channel.get_soon(&queue);
            channel.put_all(&queue, ["c", "d"]);
            channel.expect_ready(&queue, 2);
            assert_eq!(channel.take_all(&queue), ["c", "d"], "{kind}");
        }
    });
}

// rabbitmq: a limit of zero drops everything and confirms it.
#[test]
fn a_limit_of_zero_keeps_nothing_and_confirms() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, at_most(0));
            channel.put_all(&queue, ["a", "b"]);
            channel.expect_ready(&queue, 0);
        }
    });
}

// rabbitmq: a limit of zero still hands messages to a waiting consumer.
#[test]
fn a_limit_of_zero_passes_messages_to_a_waiting_consumer() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", at_most(0));
        channel.consume(&ConsumerSpec::of(&queue).no_ack());
        channel.put_all(&queue, ["a"]);
        assert_eq!(channel.expect_delivery().text(), "a");
    });
}

// rabbitmq: reject-publish is exact in classic queues.
#[test]
fn a_full_queue_refuses_publishes_with_nack() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| {
            spec.argument("x-max-length", 3)
                .argument("x-overflow", "reject-publish")
        });
        channel.confirm_select();
        (0..5).for_each(|n| channel.put(&queue, &n.to_string()));
        let acks: Vec<bool> = channel.outcomes().into_iter().map(|(_, ack)| ack).collect();
        assert_eq!(acks, [true, true, true, false, false]);
        assert_eq!(channel.take_all(&queue), ["0", "1", "2"]);
        assert!(channel.publish_confirmed(&Publication::to_queue(&queue, "room again")));
    });
}

// rabbitmq: without confirms a refused message is just gone.
#[test]
fn without_confirms_a_refused_message_is_gone() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| {
            spec.argument("x-max-length", 1)
                .argument("x-overflow", "reject-publish")
        });
        channel.put(&queue, "in");
        channel.put(&queue, "out");
        channel.expect_ready(&queue, 1);
        assert_eq!(channel.take_all(&queue), ["in"]);
    });
}

// rabbitmq: one refusal of several queues is a nack; the others keep their copy.
#[test]
fn one_full_queue_of_several_is_enough_for_a_nack() {
    conformance(|trial| {
        let (channel, full) = queue_of(trial, "classic", |spec| {
            spec.argument("x-max-length", 0)
                .argument("x-overflow", "reject-publish")
        });
        let roomy = trial.queue("roomy");
        channel.declare(&QueueSpec::durable(&roomy));
        let exchange = trial.exchange("both");
        channel.declare_exchange(&integration_tests::ExchangeSpec::durable(
            &exchange, "fanout",
        ));
        channel.bind(&full, &exchange, "");
        channel.bind(&roomy, &exchange, "");
        assert!(!channel.publish_confirmed(&Publication::new(&exchange, "", "body")));
        assert_eq!(channel.take_all(&roomy), ["body"]);
    });
}

// Length limits are exact in every queue type.
#[test]
fn a_full_quorum_queue_refuses_what_does_not_fit_and_nothing_else() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "quorum", |spec| {
            spec.argument("x-max-length", 10)
                .argument("x-overflow", "reject-publish")
        });
        channel.confirm_select();
        (0..30).for_each(|n| channel.put(&queue, &n.to_string()));
        let acks: Vec<bool> = channel.outcomes().into_iter().map(|(_, ack)| ack).collect();
        let wanted: Vec<bool> = (0..30).map(|n| n < 10).collect();
        assert_eq!(acks, wanted);
        channel.take(&queue);
        let publish = || channel.publish_confirmed(&Publication::to_queue(&queue, "body"));
        assert!(publish(), "there is room for one");
        assert!(!publish(), "and for no more");
    });
}

// rabbitmq: a message that is larger than the whole limit
#[test]
fn a_message_larger_than_the_limit_is_dropped_and_confirmed() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| {
            spec.argument("x-max-length-bytes", 3)
        });
        channel.put_all(&queue, ["a", "too long"]);
        assert_eq!(channel.take_all(&queue), [""; 0]);
    });
}
