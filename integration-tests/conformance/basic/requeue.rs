//! Messages that go back to their queue: where they stand then, and what they carry.

use integration_tests::request::{basic_nack, basic_reject};
use integration_tests::{ConsumerSpec, conformance};

use super::{BOTH, filled};

// amqp 1.8.3.14: a message that comes again says so.
#[test]
fn a_requeued_message_is_redelivered() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a"]);
            let first = channel.get_soon(&queue);
            channel.send(&basic_reject(first.tag, true));
            let second = channel.get_soon(&queue);
            channel.send(&basic_nack(second.tag, false, true));
            let third = channel.get_soon(&queue);
            let flags = [first.redelivered, second.redelivered, third.redelivered];
            assert_eq!(flags, [false, true, true], "{kind}");
        }
    });
}

// rabbitmq: a classic queue puts a message back where it was.
#[test]
fn a_classic_queue_puts_messages_back_in_their_place() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a", "b", "c", "d", "e"]);
        let held: Vec<_> = (0..4).map(|_| channel.get_soon(&queue)).collect();
        // Out of order and in pieces.
        channel.requeue(&held[3]);
        channel.requeue(&held[1]);
        channel.send(&basic_nack(0, true, true));
        channel.expect_ready(&queue, 5);
        assert_eq!(channel.take_all(&queue), ["a", "b", "c", "d", "e"]);
    });
}

// amqp 1.8.3.14: other consumers may get a message that comes back.
#[test]
fn a_requeued_message_may_go_to_another_consumer() {
    conformance(|trial| {
        for kind in BOTH {
            let (first, queue) = filled(trial, kind, &["a"]);
            first.prefetch(1);
            let tag = first.consume(&ConsumerSpec::of(&queue));
            let held = first.expect_delivery();
            let second = trial.channel();
            second.consume(&ConsumerSpec::of(&queue));
            first.cancel(&tag);
            first.requeue(&held);
            assert!(second.expect_delivery().redelivered, "{kind}");
        }
    });
}

// rabbitmq: nack multiple with requeue
#[test]
fn nack_multiple_puts_all_back() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b", "c"]);
            let held: Vec<_> = (0..3).map(|_| channel.get_soon(&queue)).collect();
            channel.send(&basic_nack(held[2].tag, true, true));
            channel.expect_ready(&queue, 3);
            assert_eq!(channel.take_all(&queue), ["a", "b", "c"], "{kind}");
        }
    });
}

// rabbitmq: a consumer may get its own message again at once.
#[test]
fn a_lone_consumer_gets_its_own_message_again() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a"]);
            channel.prefetch(1);
            channel.consume(&ConsumerSpec::of(&queue));
            for n in 0..10 {
                let delivery = channel.expect_delivery();
                assert_eq!(
                    (delivery.tag, delivery.redelivered),
                    (n + 1, n > 0),
                    "{kind}"
                );
                channel.requeue(&delivery);
            }
        }
    });
}
