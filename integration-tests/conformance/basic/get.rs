//! basic.get: one message at a time.

use integration_tests::request::{basic_ack, basic_get};
use integration_tests::{Close, QueueSpec, conformance};

// amqp 1.8.3.10
#[test]
fn get_from_an_empty_queue_answers_get_empty() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("empty");
        channel.declare(&QueueSpec::durable(&queue));
        assert_eq!(channel.get(&queue), None);
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
        let channel = trial.channel();
        let queue = trial.queue("counted");
        channel.declare(&QueueSpec::durable(&queue));
        channel.put_all(&queue, ["one", "two", "three"]);
        let behind = |_| {
            channel
                .get(&queue)
                .and_then(|delivery| delivery.ready_behind)
        };
        assert_eq!(
            (0..3).map(behind).collect::<Vec<_>>(),
            [Some(2), Some(1), Some(0)]
        );
    });
}

// amqp 1.8.3.13
#[test]
fn ack_of_an_unknown_tag_closes_the_channel_with_406() {
    conformance(|trial| {
        let channel = trial.channel();
        let close = channel.refused(&basic_ack(5, false));
        let text = "PRECONDITION_FAILED - unknown delivery tag 5";
        assert_eq!(close, Close::channel(406, text, "basic.ack"));
    });
}
