//! basic.recover: all unacked messages of a channel go back.

use integration_tests::request::basic_recover;
use integration_tests::{Close, ConsumerSpec, Method, conformance};

use super::{BOTH, filled};

// amqp 1.8.3.16
#[test]
fn recover_puts_all_unacked_messages_back() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b"]);
            channel.get_soon(&queue);
            channel.get_soon(&queue);
            channel.call(&basic_recover(true));
            channel.expect_ready(&queue, 2);
            let again = [channel.get_soon(&queue), channel.get_soon(&queue)];
            let seen = again.map(|came| (came.text(), came.redelivered));
            assert_eq!(
                seen,
                [("a".to_owned(), true), ("b".to_owned(), true)],
                "{kind}"
            );
        }
    });
}

// amqp 1.8.3.16: the tags of before are forgotten.
#[test]
fn tags_from_before_a_recover_are_unknown() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a"]);
        let delivery = channel.get_soon(&queue);
        channel.call(&basic_recover(true));
        let close = channel.refused(&integration_tests::request::basic_ack(delivery.tag, false));
        assert_eq!(close.text, "PRECONDITION_FAILED - unknown delivery tag 1");
    });
}

// amqp 1.8.3.16: consumers of the channel get messages again.
#[test]
fn a_consumer_gets_recovered_messages_again() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a"]);
            channel.consume(&ConsumerSpec::of(&queue));
            channel.expect_delivery();
            channel.call(&basic_recover(true));
            let again = channel.expect_delivery();
            assert_eq!(
                (again.text().as_str(), again.redelivered),
                ("a", true),
                "{kind}"
            );
        }
    });
}

// amqp 1.8.3.16: a consumer at its limit has room again after a recover.
#[test]
fn recover_makes_room_for_a_consumer_at_its_limit() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a"]);
            channel.prefetch(1);
            channel.consume(&ConsumerSpec::of(&queue));
            for _ in 0..3 {
                assert_eq!(channel.expect_delivery().text(), "a", "{kind}");
                channel.call(&basic_recover(true));
            }
            channel.expect_delivery();
        }
    });
}

// amqp 1.8.3.17: clients forget what they hold when recover-ok comes, so that nothing that comes
// again may come before it.
#[test]
fn recover_ok_comes_before_the_messages_that_come_again() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b", "c"]);
            channel.prefetch(3);
            channel.consume(&ConsumerSpec::of(&queue));
            channel.expect_deliveries(3);
            for _ in 0..20 {
                channel.send(&basic_recover(true));
                let (first, _) = channel.wait_for(&["basic.deliver", "basic.recover-ok"]);
                assert_eq!(first.name, "basic.recover-ok", "{kind}");
                channel.expect_deliveries(3);
            }
        }
    });
}

// rabbitmq: keeping messages with their consumer is not there.
#[test]
fn recover_without_requeue_closes_with_540() {
    conformance(|trial| {
        let close = trial.channel().refused(&basic_recover(false));
        let text = "NOT_IMPLEMENTED - requeue=false";
        assert_eq!(close, Close::connection(540, text, "basic.recover"));
    });
}

// amqp 1.8.3.15: the old form has no answer.
#[test]
fn recover_async_puts_messages_back_without_an_answer() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a"]);
        channel.get_soon(&queue);
        channel.send(&Method::new("basic.recover-async", vec![true.into()]));
        channel.expect_ready(&queue, 1);
        channel.connection().expect_quiet();
    });
}

// amqp 1.8.3.16: with nothing unacked there is nothing to do.
#[test]
fn recover_with_nothing_unacked_is_answered() {
    conformance(|trial| {
        trial.channel().call(&basic_recover(true));
    });
}
