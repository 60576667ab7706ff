//! basic.ack, nack and reject: which tags they may name.

use integration_tests::request::{basic_ack, basic_nack, basic_reject};
use integration_tests::{Close, ConsumerSpec, Method, conformance};

use super::{BOTH, filled};

/// The close that answers a tag that nobody knows.
fn unknown(method: &Method, tag: u64) -> Close {
    let text = format!("PRECONDITION_FAILED - unknown delivery tag {tag}");
    Close::channel(406, text, method.name)
}

// amqp 1.8.3.13
#[test]
fn an_unknown_tag_closes_the_channel_with_406() {
    conformance(|trial| {
        for method in [
            basic_ack(5, false),
            basic_nack(5, false, true),
            basic_reject(5, true),
            basic_ack(5, true),
        ] {
            let close = trial.channel().refused(&method);
            assert_eq!(close, unknown(&method, 5));
        }
    });
}

// amqp 1.8.3.13
#[test]
fn a_tag_that_is_settled_closes_the_channel_with_406() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a"]);
            let delivery = channel.get_soon(&queue);
            channel.ack(&delivery);
            let again = basic_ack(delivery.tag, false);
            assert_eq!(
                channel.refused(&again),
                unknown(&again, delivery.tag),
                "{kind}"
            );
        }
    });
}

// amqp 1.8.3.13: an ack takes the message out for good.
#[test]
fn an_acked_message_does_not_come_back() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b"]);
            let delivery = channel.get_soon(&queue);
            channel.ack(&delivery);
            channel.close();
            let other = trial.channel();
            other.expect_ready(&queue, 1);
            assert_eq!(other.take_all(&queue), ["b"], "{kind}");
        }
    });
}

// amqp 1.8.3.13: multiple means up to and including.
#[test]
fn multiple_settles_up_to_the_tag() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b", "c", "d"]);
            let held: Vec<_> = (0..4).map(|_| channel.get_soon(&queue)).collect();
            channel.send(&basic_ack(held[2].tag, true));
            channel.close();
            let other = trial.channel();
            other.expect_ready(&queue, 1);
            assert_eq!(other.take_all(&queue), ["d"], "{kind}");
        }
    });
}

// amqp 1.8.3.13: multiple passes over what is settled already.
#[test]
fn multiple_passes_over_settled_tags() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b", "c", "d"]);
            let held: Vec<_> = (0..4).map(|_| channel.get_soon(&queue)).collect();
            channel.ack(&held[1]);
            channel.send(&basic_ack(held[2].tag, true));
            channel.ack(&held[3]);
            channel.sync();
            channel.close();
            assert_eq!(trial.channel().get(&queue), None, "{kind}");
        }
    });
}

// amqp 1.8.3.13: tag zero with multiple means all.
#[test]
fn tag_zero_with_multiple_settles_everything() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b", "c"]);
            channel.consume(&ConsumerSpec::of(&queue));
            channel.expect_deliveries(3);
            channel.send(&basic_ack(0, true));
            // With nothing left the same is still fine.
            channel.send(&basic_ack(0, true));
            channel.sync();
            channel.close();
            assert_eq!(trial.channel().get(&queue), None, "{kind}");
        }
    });
}

// amqp 1.8.3.13: tag zero alone means nothing.
#[test]
fn tag_zero_without_multiple_closes_the_channel_with_406() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a"]);
        channel.get_soon(&queue);
        let ack = basic_ack(0, false);
        assert_eq!(channel.refused(&ack), unknown(&ack, 0));
    });
}

// amqp 1.8.3: tags are the channel's own.
#[test]
fn a_tag_of_another_channel_closes_the_channel_with_406() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a"]);
        let delivery = channel.get_soon(&queue);
        let ack = basic_ack(delivery.tag, false);
        let close = channel.connection().channel(2).refused(&ack);
        assert_eq!(close, unknown(&ack, delivery.tag));
        channel.ack(&delivery);
        channel.sync();
    });
}

// rabbitmq: nack with requeue=false and reject are the same without a dead-letter exchange.
#[test]
fn discarded_messages_are_gone() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b", "c"]);
            let held: Vec<_> = (0..3).map(|_| channel.get_soon(&queue)).collect();
            channel.discard(&held[0]);
            channel.send(&basic_nack(held[2].tag, true, false));
            channel.sync();
            channel.close();
            assert_eq!(trial.channel().get(&queue), None, "{kind}");
        }
    });
}

// amqp 1.8.3.13: acks of one multiple may reach over queues.
#[test]
fn multiple_reaches_over_queues() {
    conformance(|trial| {
        let (channel, classic) = filled(trial, "classic", &["a"]);
        let (_, quorum) = filled(trial, "quorum", &["b"]);
        channel.get_soon(&classic);
        let last = channel.get_soon(&quorum);
        channel.send(&basic_ack(last.tag, true));
        channel.sync();
        channel.close();
        let other = trial.channel();
        assert_eq!((other.get(&classic), other.get(&quorum)), (None, None));
    });
}

// rabbitmq: a channel that is closed for a bad tag gives its messages back.
#[test]
fn a_bad_tag_gives_unacked_messages_back() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a"]);
            channel.get_soon(&queue);
            channel.refused(&basic_ack(99, false));
            let other = trial.channel();
            assert!(other.get_soon(&queue).redelivered, "{kind}");
        }
    });
}
