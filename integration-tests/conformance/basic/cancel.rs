//! basic.cancel, from either side.

use integration_tests::request::basic_cancel;
use integration_tests::{ConsumerSpec, conformance};

use super::{BOTH, filled};

// amqp 1.8.3.5
#[test]
fn a_cancelled_consumer_gets_nothing_more() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &[]);
            let tag = channel.consume(&ConsumerSpec::of(&queue));
            channel.cancel(&tag);
            channel.put_all(&queue, ["a"]);
            channel.expect_no_delivery();
            assert_eq!(channel.ready(&queue), 1, "{kind}");
        }
    });
}

// amqp 1.8.3.5: cancel-ok repeats the tag.
#[test]
fn cancel_ok_repeats_the_tag() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        channel.consume(&ConsumerSpec::of(&queue).tag("mine"));
        assert_eq!(channel.call(&basic_cancel("mine")).text(0), "mine");
    });
}

// amqp 1.8.3.5: cancelling nobody
#[test]
fn cancelling_an_unknown_tag_is_fine() {
    conformance(|trial| {
        assert_eq!(
            trial.channel().call(&basic_cancel("nobody")).text(0),
            "nobody"
        );
    });
}

// rabbitmq: unacked messages stay with the channel.
#[test]
fn a_cancelled_consumers_messages_stay_unacked() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b"]);
            let tag = channel.consume(&ConsumerSpec::of(&queue));
            let held = channel.expect_deliveries(2);
            channel.cancel(&tag);
            assert_eq!(channel.ready(&queue), 0, "{kind}");
            channel.ack(&held[0]);
            channel.requeue(&held[1]);
            channel.expect_ready(&queue, 1);
            assert_eq!(channel.take_all(&queue), ["b"], "{kind}");
        }
    });
}

// amqp 1.8.3.5: the tag is free then.
#[test]
fn a_tag_may_be_used_again_after_cancel() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &[]);
            for _ in 0..3 {
                channel.consume(&ConsumerSpec::of(&queue).tag("mine"));
                channel.cancel("mine");
            }
        }
    });
}

// amqp 1.8.3.5: no-wait has no answer.
#[test]
fn a_cancel_without_waiting_has_no_answer() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        channel.consume(&ConsumerSpec::of(&queue).tag("mine"));
        let cancel = vec!["mine".into(), true.into()];
        channel.send(&integration_tests::Method::new("basic.cancel", cancel));
        channel.connection().expect_quiet();
        channel.expect_consumers(&queue, 0);
    });
}

// rabbitmq: what nobody holds goes to the other consumers.
#[test]
fn other_consumers_go_on_after_a_cancel() {
    conformance(|trial| {
        let (first, queue) = filled(trial, "classic", &[]);
        let tag = first.consume(&ConsumerSpec::of(&queue));
        let second = trial.channel();
        second.consume(&ConsumerSpec::of(&queue));
        first.cancel(&tag);
        first.put_all(&queue, ["a", "b"]);
        assert_eq!(second.expect_texts(2), ["a", "b"]);
    });
}

// amqp 1.8.3.5: messages may be on their way until cancel-ok, and none comes behind it.
#[test]
fn no_delivery_comes_behind_cancel_ok() {
    conformance(|trial| {
        for kind in BOTH {
            let (publisher, queue) = filled(trial, kind, &[]);
            publisher.confirm_select();
            let channel = trial.channel();
            channel.consume(&ConsumerSpec::of(&queue).tag("mine").no_ack());
            (0..300).for_each(|n| publisher.put(&queue, &n.to_string()));
            channel.expect_delivery();
            channel.send(&basic_cancel("mine"));
            let mut texts = vec!["0".to_owned()];
            loop {
                let (method, content) = channel.wait_for(&["basic.deliver", "basic.cancel-ok"]);
                match content {
                    Some(content) => texts.push(String::from_utf8_lossy(&content.body).into()),
                    None => break assert_eq!(method.text(0), "mine"),
                }
            }
            channel.expect_no_delivery();
            publisher.outcomes();
            texts.extend(publisher.take_all(&queue));
            let wanted: Vec<String> = (0..300).map(|n| n.to_string()).collect();
            assert_eq!(
                texts, wanted,
                "{kind}: delivered before the cancel, and left behind it"
            );
        }
    });
}

// rabbitmq: cancel-ok from a client cancels the consumer; no answer.
#[test]
fn a_cancel_ok_from_the_client_cancels_its_consumer() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        channel.consume(&ConsumerSpec::of(&queue).tag("mine"));
        channel.send(&integration_tests::Method::new(
            "basic.cancel-ok",
            vec!["mine".into()],
        ));
        channel.expect_consumers(&queue, 0);
    });
}
