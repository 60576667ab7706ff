//! What quorum queues do in their own way: what they may not be, how they count deliveries.

use integration_tests::request::{basic_nack, basic_recover, basic_reject, queue_declare};
use integration_tests::{
    Channel, Close, ConsumerSpec, Delivery, QueueSpec, Trial, Value, conformance,
};

use super::queue_of;

/// The close that answers a declare.
fn refused(trial: &Trial, spec: &QueueSpec) -> Close {
    trial.channel().refused(&queue_declare(spec))
}

/// The close that says that a quorum queue is never so.
fn never(queue: &str, property: &str) -> Close {
    let text = format!(
        "PRECONDITION_FAILED - invalid property '{property}' for queue '{queue}' in vhost '/'"
    );
    Close::channel(406, text, "queue.declare")
}

/// The counts that a redelivery carries: deliveries counted as failed, and all of them.
fn counts(delivery: &Delivery) -> (Option<i64>, Option<i64>) {
    let count = |key| delivery.properties.get(key).and_then(Value::as_integer);
    (count("x-delivery-count"), count("x-acquired-count"))
}

/// A quorum queue with a delivery limit and one message.
fn with_limit(trial: &Trial, limit: i32) -> (Channel, String) {
    let (channel, queue) = queue_of(trial, "quorum", |spec| {
        spec.argument("x-delivery-limit", limit)
    });
    channel.put_all(&queue, ["a"]);
    (channel, queue)
}

// rabbitmq: quorum queues are durable.
#[test]
fn a_transient_quorum_queue_is_refused() {
    conformance(|trial| {
        let queue = trial.queue("never");
        let spec = QueueSpec::transient(&queue).argument("x-queue-type", "quorum");
        assert_eq!(refused(trial, &spec), never(&queue, "non-durable"));
    });
}

// rabbitmq: quorum queues are nobody's own.
#[test]
fn an_exclusive_quorum_queue_is_refused() {
    conformance(|trial| {
        let queue = trial.queue("never");
        let close = refused(trial, &QueueSpec::quorum(&queue).exclusive());
        assert_eq!(close, never(&queue, "exclusive-owner"));
    });
}

// rabbitmq: quorum queues stay without consumers.
#[test]
fn an_auto_delete_quorum_queue_is_refused() {
    conformance(|trial| {
        let queue = trial.queue("never");
        let close = refused(trial, &QueueSpec::quorum(&queue).auto_delete());
        assert_eq!(close, never(&queue, "auto-delete"));
    });
}

// rabbitmq: quorum queues have names of their own.
#[test]
fn a_quorum_queue_without_a_name_is_refused() {
    conformance(|trial| {
        let close = refused(trial, &QueueSpec::quorum(""));
        let text = "PRECONDITION_FAILED - Cannot declare a server-named queue for type \
                    rabbit_quorum_queue";
        assert_eq!(close, Close::channel(406, text, "queue.declare"));
    });
}

// rabbitmq: the first delivery carries no counts.
#[test]
fn a_first_delivery_carries_no_counts() {
    conformance(|trial| {
        let (channel, queue) = with_limit(trial, 5);
        let delivery = channel.get_soon(&queue);
        assert_eq!(
            (delivery.redelivered, counts(&delivery)),
            (false, (None, None))
        );
    });
}

// rabbitmq: a reject counts as a failure.
#[test]
fn a_reject_raises_both_counts() {
    conformance(|trial| {
        let (channel, queue) = with_limit(trial, 5);
        for n in 1..=2 {
            let delivery = channel.get_soon(&queue);
            channel.send(&basic_reject(delivery.tag, true));
            let again = channel.get_soon(&queue);
            assert_eq!(
                (again.redelivered, counts(&again)),
                (true, (Some(n), Some(n)))
            );
            channel.send(&basic_nack(again.tag, false, true));
            // A nack counts as handed out only; take that one off again.
            let last = channel.get_soon(&queue);
            assert_eq!(counts(&last), (Some(n), Some(n + 1)));
            channel.ack(&last);
            channel.put_all(&queue, ["b"]);
            if n == 1 {
                return;
            }
        }
    });
}

// rabbitmq: explicit returns may go on for ever.
#[test]
fn nacks_do_not_count_towards_the_limit() {
    conformance(|trial| {
        let (channel, queue) = with_limit(trial, 1);
        for n in 0..5 {
            let delivery = channel.get_soon(&queue);
            let wanted = if n == 0 {
                (None, None)
            } else {
                (None, Some(n))
            };
            assert_eq!(counts(&delivery), wanted);
            channel.send(&basic_nack(delivery.tag, false, true));
        }
    });
}

// rabbitmq: recover is an explicit return.
#[test]
fn recover_does_not_count_towards_the_limit() {
    conformance(|trial| {
        let (channel, queue) = with_limit(trial, 0);
        for _ in 0..3 {
            channel.get_soon(&queue);
            channel.call(&basic_recover(true));
        }
        assert_eq!(counts(&channel.get_soon(&queue)), (None, Some(3)));
    });
}

// rabbitmq: the message goes when its failures exceed the limit.
#[test]
fn a_message_is_gone_when_its_failures_exceed_the_limit() {
    conformance(|trial| {
        let (channel, queue) = with_limit(trial, 2);
        for _ in 0..3 {
            let delivery = channel.get_soon(&queue);
            channel.send(&basic_reject(delivery.tag, true));
        }
        channel.sync();
        channel.expect_ready(&queue, 0);
        assert_eq!(channel.get(&queue), None);
    });
}

// rabbitmq: the default limit is 20.
#[test]
fn by_default_the_21st_failure_is_the_last() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "quorum", |spec| spec);
        channel.put_all(&queue, ["a"]);
        for n in 0..21 {
            let delivery = channel.get_soon(&queue);
            assert_eq!(counts(&delivery).0.unwrap_or(0), n);
            channel.send(&basic_reject(delivery.tag, true));
        }
        channel.expect_ready(&queue, 0);
    });
}

// rabbitmq: a negative limit is none.
#[test]
fn a_negative_limit_is_no_limit() {
    conformance(|trial| {
        let (channel, queue) = with_limit(trial, -1);
        for _ in 0..25 {
            let delivery = channel.get_soon(&queue);
            channel.send(&basic_reject(delivery.tag, true));
        }
        assert_eq!(counts(&channel.get_soon(&queue)).0, Some(25));
    });
}

// rabbitmq: losing the connection counts as a failure.
#[test]
fn a_lost_connection_counts_as_a_failure() {
    conformance(|trial| {
        let (channel, queue) = with_limit(trial, 5);
        let lost = trial.channel();
        lost.get_soon(&queue);
        lost.connection().drop_socket();
        let again = channel.get_soon(&queue);
        assert_eq!(
            (again.redelivered, counts(&again)),
            (true, (Some(1), Some(1)))
        );
    });
}

// rabbitmq: returned messages come before all others, in the order of their return.
#[test]
fn returned_messages_come_first_in_the_order_of_their_return() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "quorum", |spec| spec);
        channel.put_all(&queue, ["a", "b", "c", "d"]);
        let held: Vec<_> = (0..3).map(|_| channel.get_soon(&queue)).collect();
        for index in [1, 0, 2] {
            channel.requeue(&held[index]);
        }
        channel.expect_ready(&queue, 4);
        assert_eq!(channel.take_all(&queue), ["b", "a", "c", "d"]);
    });
}

// rabbitmq: exclusive consumers are overlooked.
#[test]
fn the_exclusive_flag_of_a_consumer_means_nothing() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "quorum", |spec| spec);
        channel.consume(&ConsumerSpec::of(&queue).exclusive());
        trial.channel().consume(&ConsumerSpec::of(&queue));
    });
}

// rabbitmq: a quorum queue confirms and keeps transient messages too.
#[test]
fn a_quorum_queue_takes_transient_messages() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "quorum", |spec| spec);
        let publication = integration_tests::Publication::to_queue(&queue, "transient");
        assert!(channel.publish_confirmed(&publication));
        assert_eq!(channel.take_all(&queue), ["transient"]);
    });
}

// rabbitmq: a late ack cancels the consumer of a client that can bear it.
#[test]
fn a_consumer_that_does_not_ack_in_time_is_cancelled() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "quorum", |spec| {
            spec.argument("x-consumer-timeout", 500)
        });
        let slow = trial.channel();
        let tag = slow.consume(&ConsumerSpec::of(&queue).tag("slow"));
        channel.put_all(&queue, ["a"]);
        let late = slow.expect_delivery();
        assert_eq!(slow.expect_cancel(), tag);
        let again = channel.get_soon(&queue);
        assert_eq!((again.text().as_str(), again.redelivered), ("a", true));
        slow.ack(&late);
        slow.sync();
    });
}

// rabbitmq: a message taken by basic.get costs the channel.
#[test]
fn a_late_ack_after_get_closes_the_channel_with_406() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "quorum", |spec| {
            spec.argument("x-consumer-timeout", 500)
        });
        channel.put_all(&queue, ["a"]);
        channel.get_soon(&queue);
        let close = channel.expect_close();
        assert_eq!((close.code, close.fault), (406, (0, 0)), "{close:?}");
        let wanted = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out.";
        assert!(close.text.starts_with(wanted), "{close:?}");
    });
}
