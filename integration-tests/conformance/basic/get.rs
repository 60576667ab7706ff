//! basic.get: one message at a time.

use integration_tests::request::{basic_ack, basic_get};
use integration_tests::{Close, QueueSpec, conformance};

use super::{BOTH, filled};

// amqp 1.8.3.10
#[test]
fn get_from_an_empty_queue_answers_get_empty() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &[]);
            channel.send(&basic_get(&queue, false));
            let (empty, _) = channel.wait_for(&["basic.get-empty"]);
            assert_eq!(empty.text(0), "", "{kind}");
        }
    });
}

// rabbitmq: basic.get of a missing queue
#[test]
fn get_from_a_missing_queue_closes_the_channel_with_404() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.name("missing");
        let close = channel.refused(&basic_get(&queue, false));
        let text = format!("NOT_FOUND - no queue '{queue}' in vhost '/'");
        assert_eq!(close, Close::channel(404, text, "basic.get"));
    });
}

// amqp 1.8.3.10: message-count is what is left behind the message.
#[test]
fn get_tells_how_many_messages_are_ready_behind() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["one", "two", "three"]);
            let behind = |_| {
                channel
                    .get(&queue)
                    .and_then(|delivery| delivery.ready_behind)
            };
            let behind: Vec<_> = (0..3).map(behind).collect();
            assert_eq!(behind, [Some(2), Some(1), Some(0)], "{kind}");
        }
    });
}

// amqp 1.8.3.10: order of arrival
#[test]
fn messages_come_in_the_order_of_their_arrival() {
    conformance(|trial| {
        for kind in BOTH {
            let texts: Vec<String> = (0..200).map(|n| n.to_string()).collect();
            let (channel, queue) = filled(trial, kind, &[]);
            channel.put_all(&queue, &texts);
            assert_eq!(channel.take_all(&queue), texts, "{kind}");
        }
    });
}

// amqp 1.8.3.10: with no-ack the message is settled at once.
#[test]
fn get_without_ack_settles_at_once() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a"]);
            let taken = channel.take(&queue).expect("A message is there.");
            let close = channel.refused(&basic_ack(taken.tag, false));
            let text = format!("PRECONDITION_FAILED - unknown delivery tag {}", taken.tag);
            assert_eq!(close, Close::channel(406, text, "basic.ack"), "{kind}");
            assert_eq!(trial.channel().get(&queue), None, "{kind}");
        }
    });
}

// rabbitmq: delivery tags of get and deliver are one sequence.
#[test]
fn get_and_deliver_count_tags_together() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a", "b", "c"]);
        assert_eq!(channel.get_soon(&queue).tag, 1);
        channel.consume(&integration_tests::ConsumerSpec::of(&queue));
        assert_eq!(
            channel
                .expect_deliveries(2)
                .iter()
                .map(|came| came.tag)
                .max(),
            Some(3)
        );
    });
}

// amqp 1.8.3.10: a first delivery is none again.
#[test]
fn a_message_that_was_never_out_is_not_redelivered() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a"]);
            assert!(!channel.get_soon(&queue).redelivered, "{kind}");
        }
    });
}

// amqp 1.8.3.10: a queue without messages answers even while others hold some.
#[test]
fn unacked_messages_are_not_got_again() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a"]);
            channel.get_soon(&queue);
            assert_eq!(channel.get(&queue), None, "{kind}");
            assert_eq!(
                channel.declare(&QueueSpec::passive(&queue)).ready,
                0,
                "{kind}"
            );
        }
    });
}
