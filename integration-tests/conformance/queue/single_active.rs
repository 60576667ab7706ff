//! Single active consumer: the first gets all, the others wait.

use integration_tests::request::{basic_consume, basic_get};
use integration_tests::{Close, ConsumerSpec, QueueSpec, conformance};

use super::{BOTH, queue_of};

fn single(spec: QueueSpec) -> QueueSpec {
    spec.argument("x-single-active-consumer", true)
}

// rabbitmq: single active consumer
#[test]
fn only_the_first_consumer_gets_messages() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, single);
            let (first, second) = (trial.channel(), trial.channel());
            first.consume(&ConsumerSpec::of(&queue));
            second.consume(&ConsumerSpec::of(&queue));
            channel.put_all(&queue, ["a", "b", "c"]);
            assert_eq!(first.expect_texts(3), ["a", "b", "c"], "{kind}");
            second.expect_no_delivery();
        }
    });
}

// rabbitmq: the next in age takes over.
#[test]
fn the_next_consumer_takes_over_when_the_first_cancels() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, single);
            let (first, second, third) = (trial.channel(), trial.channel(), trial.channel());
            let tag = first.consume(&ConsumerSpec::of(&queue));
            second.consume(&ConsumerSpec::of(&queue));
            third.consume(&ConsumerSpec::of(&queue));
            first.cancel(&tag);
            channel.put_all(&queue, ["a"]);
            assert_eq!(second.expect_texts(1), ["a"], "{kind}");
            third.expect_no_delivery();
        }
    });
}

// rabbitmq: the end of its channel ends the active consumer.
#[test]
fn the_next_consumer_takes_over_when_the_first_loses_its_connection() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, single);
            let (first, second) = (trial.channel(), trial.channel());
            first.consume(&ConsumerSpec::of(&queue));
            second.consume(&ConsumerSpec::of(&queue));
            channel.put_all(&queue, ["a", "b"]);
            assert_eq!(first.expect_texts(2), ["a", "b"], "{kind}");
            first.connection().drop_socket();
            let back = second.expect_deliveries(2);
            let seen: Vec<_> = back
                .iter()
                .map(|came| (came.text(), came.redelivered))
                .collect();
            let wanted = [("a".to_owned(), true), ("b".to_owned(), true)];
            assert_eq!(seen, wanted, "{kind}");
        }
    });
}

// rabbitmq: exclusive and single active do not go together.
#[test]
fn an_exclusive_consumer_is_refused() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", single);
        let close = channel.refused(&basic_consume(&ConsumerSpec::of(&queue).exclusive()));
        let text = format!("ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use");
        assert_eq!(close, Close::channel(403, text, "basic.consume"));
    });
}

// rabbitmq: basic.get works beside a single active consumer of a classic queue.
#[test]
fn get_from_a_classic_queue_works() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", single);
        channel.put_all(&queue, ["a"]);
        assert_eq!(channel.get_soon(&queue).text(), "a");
    });
}

// rabbitmq: a quorum queue refuses basic.get then.
#[test]
fn get_from_a_quorum_queue_is_refused() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "quorum", single);
        let close = channel.refused(&basic_get(&queue, false));
        let text = format!(
            "RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. \
             basic.get operations are not supported by <<\"quorum\">> queues with single active \
             consumer"
        );
        assert_eq!(close, Close::channel(405, text, "basic.get"));
    });
}
