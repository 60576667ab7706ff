//! basic.qos: how many messages a consumer may hold.

use integration_tests::request::basic_qos;
use integration_tests::{Close, ConsumerSpec, Method, conformance};

use super::{BOTH, filled};

// amqp 1.8.3.1: prefetch-count
#[test]
fn a_consumer_holds_no_more_than_its_prefetch() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b", "c", "d"]);
            channel.prefetch(2);
            channel.consume(&ConsumerSpec::of(&queue));
            let held = channel.expect_deliveries(2);
            channel.expect_no_delivery();
            channel.ack(&held[0]);
            assert_eq!(channel.expect_texts(1), ["c"], "{kind}");
            channel.expect_no_delivery();
        }
    });
}

// rabbitmq: each settlement gives room, not only acks.
#[test]
fn every_settlement_makes_room() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b", "c"]);
            channel.prefetch(1);
            channel.consume(&ConsumerSpec::of(&queue));
            let a = channel.expect_delivery();
            channel.discard(&a);
            let b = channel.expect_delivery();
            channel.send(&integration_tests::request::basic_nack(b.tag, false, false));
            assert_eq!(channel.expect_texts(1), ["c"], "{kind}");
        }
    });
}

// rabbitmq: the limit is each consumer's own.
#[test]
fn each_consumer_of_a_channel_has_its_own_limit() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a", "b", "c", "d", "e"]);
        channel.prefetch(2);
        channel.consume(&ConsumerSpec::of(&queue).tag("one"));
        channel.consume(&ConsumerSpec::of(&queue).tag("two"));
        let held = channel.expect_deliveries(4);
        let of = |tag: &str| held.iter().filter(|came| came.consumer_tag == tag).count();
        assert_eq!((of("one"), of("two")), (2, 2));
        channel.expect_no_delivery();
    });
}

// rabbitmq: a limit is for consumers that start later.
#[test]
fn a_limit_is_for_consumers_that_start_later() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        channel.prefetch(1);
        channel.consume(&ConsumerSpec::of(&queue).tag("tight"));
        channel.prefetch(3);
        channel.put_all(&queue, ["a", "b", "c"]);
        channel.expect_delivery();
        channel.expect_no_delivery();
        channel.consume(&ConsumerSpec::of(&queue).tag("wide"));
        let more = channel.expect_deliveries(2);
        assert!(
            more.iter().all(|came| came.consumer_tag == "wide"),
            "{more:?}"
        );
    });
}

// rabbitmq: global limits are taken for limits of each consumer.
#[test]
fn a_global_limit_is_taken_for_one_of_each_consumer() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a", "b", "c"]);
        let global = Method::new("basic.qos", vec![0u32.into(), 1u16.into(), true.into()]);
        channel.call(&global);
        channel.consume(&ConsumerSpec::of(&queue));
        channel.consume(&ConsumerSpec::of(&queue));
        channel.expect_deliveries(2);
        channel.expect_no_delivery();
    });
}

// rabbitmq: a limit on octets is not there.
#[test]
fn a_prefetch_size_closes_with_540() {
    conformance(|trial| {
        let octets = Method::new("basic.qos", vec![1u32.into(), 0u16.into(), false.into()]);
        let close = trial.channel().refused(&octets);
        let text = "NOT_IMPLEMENTED - prefetch_size!=0 (1)";
        assert_eq!(close, Close::connection(540, text, "basic.qos"));
    });
}

// amqp 1.8.3.1: no-ack consumers have no limit.
#[test]
fn a_consumer_without_acks_has_no_limit() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b", "c"]);
            channel.prefetch(1);
            channel.consume(&ConsumerSpec::of(&queue).no_ack());
            assert_eq!(channel.expect_texts(3), ["a", "b", "c"], "{kind}");
        }
    });
}

// amqp 1.8.3.1: basic.get asks for itself.
#[test]
fn get_is_not_limited_by_prefetch() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a", "b"]);
        channel.call(&basic_qos(1));
        channel.get_soon(&queue);
        channel.get_soon(&queue);
    });
}

// rabbitmq: messages stay in the queue until somebody has room.
#[test]
fn a_slow_consumer_leaves_messages_to_others() {
    conformance(|trial| {
        for kind in BOTH {
            let (slow, queue) = filled(trial, kind, &[]);
            slow.prefetch(1);
            slow.consume(&ConsumerSpec::of(&queue));
            let quick = trial.channel();
            quick.prefetch(1);
            quick.consume(&ConsumerSpec::of(&queue));
            trial
                .channel()
                .put_all(&queue, (0..6).map(|n| n.to_string()));
            slow.expect_delivery();
            for _ in 0..5 {
                let delivery = quick.expect_delivery();
                quick.ack(&delivery);
            }
            slow.expect_no_delivery();
        }
    });
}
