//! basic.consume: who gets messages, and in which order.

use integration_tests::request::{basic_consume, basic_get};
use integration_tests::{Close, ConsumerSpec, QueueSpec, conformance};

use super::{BOTH, filled};

// amqp 1.8.3.4: consume-ok comes before the first delivery.
#[test]
fn consume_ok_comes_before_the_first_delivery() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b"]);
            let tag = channel.consume(&ConsumerSpec::of(&queue).tag("mine"));
            assert_eq!(tag, "mine");
            let deliveries = channel.expect_deliveries(2);
            let seen: Vec<_> = deliveries
                .iter()
                .map(|came| (came.consumer_tag.as_str(), came.tag, came.text()))
                .collect();
            let wanted = [("mine", 1, "a".to_owned()), ("mine", 2, "b".to_owned())];
            assert_eq!(seen, wanted, "{kind}");
        }
    });
}

// amqp 1.8.3.3: the broker makes up tags.
#[test]
fn an_empty_tag_gets_one_from_the_broker() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        let tags = [0, 1].map(|_| channel.consume(&ConsumerSpec::of(&queue)));
        for tag in &tags {
            let made_up = tag.strip_prefix("amq.ctag-").map(str::len);
            assert_eq!(made_up, Some(22), "{tag}");
        }
        assert_ne!(tags[0], tags[1]);
    });
}

// amqp 1.8.3.3: tags are unique on their channel.
#[test]
fn a_tag_in_use_closes_with_530() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        channel.consume(&ConsumerSpec::of(&queue).tag("mine"));
        let close = channel.refused(&basic_consume(&ConsumerSpec::of(&queue).tag("mine")));
        let text = "NOT_ALLOWED - attempt to reuse consumer tag 'mine'";
        assert_eq!(close, Close::connection(530, text, "basic.consume"));
    });
}

// amqp 1.8.3.3: tags are local to a channel.
#[test]
fn two_channels_may_use_the_same_tag() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        channel.consume(&ConsumerSpec::of(&queue).tag("mine"));
        channel
            .connection()
            .channel(2)
            .consume(&ConsumerSpec::of(&queue).tag("mine"));
    });
}

// amqp 1.8.3.3: a missing queue
#[test]
fn consuming_from_a_missing_queue_closes_the_channel_with_404() {
    conformance(|trial| {
        let missing = trial.name("missing");
        let close = trial
            .channel()
            .refused(&basic_consume(&ConsumerSpec::of(&missing)));
        let text = format!("NOT_FOUND - no queue '{missing}' in vhost '/'");
        assert_eq!(close, Close::channel(404, text, "basic.consume"));
    });
}

// amqp 1.8.3.3: exclusive
#[test]
fn an_exclusive_consumer_keeps_others_out() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        channel.consume(&ConsumerSpec::of(&queue).exclusive());
        let close = trial
            .channel()
            .refused(&basic_consume(&ConsumerSpec::of(&queue)));
        let text = format!("ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use");
        assert_eq!(close, Close::channel(403, text, "basic.consume"));
    });
}

// amqp 1.8.3.3: exclusive
#[test]
fn an_exclusive_consumer_is_refused_beside_others() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        channel.consume(&ConsumerSpec::of(&queue));
        let exclusive = ConsumerSpec::of(&queue).exclusive();
        let close = trial.channel().refused(&basic_consume(&exclusive));
        assert_eq!(close.code, 403, "{close:?}");
    });
}

// amqp 1.8.3.5: the end of an exclusive consumer lets others in.
#[test]
fn others_may_consume_when_the_exclusive_consumer_is_gone() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        let tag = channel.consume(&ConsumerSpec::of(&queue).exclusive());
        channel.cancel(&tag);
        trial.channel().consume(&ConsumerSpec::of(&queue));
    });
}

// rabbitmq: no-local means nothing.
#[test]
fn no_local_means_nothing() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        channel.consume(&ConsumerSpec::of(&queue).no_local());
        channel.put_all(&queue, ["own"]);
        assert_eq!(channel.expect_delivery().text(), "own");
    });
}

// amqp 1.8.3.3: no-ack settles with the delivery.
#[test]
fn a_consumer_without_acks_settles_with_the_delivery() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &["a", "b"]);
            channel.consume(&ConsumerSpec::of(&queue).no_ack());
            assert_eq!(channel.expect_texts(2), ["a", "b"], "{kind}");
            channel.close();
            let watcher = trial.channel();
            watcher.expect_consumers(&queue, 0);
            assert_eq!(watcher.get(&queue), None, "{kind}");
        }
    });
}

// amqp 4.7: messages are handed round.
#[test]
fn consumers_take_turns() {
    conformance(|trial| {
        for kind in BOTH {
            let (publisher, queue) = filled(trial, kind, &[]);
            let consumers = [0, 1, 2].map(|_| trial.channel());
            for consumer in &consumers {
                consumer.prefetch(10);
                consumer.consume(&ConsumerSpec::of(&queue));
            }
            publisher.put_all(&queue, (0..9).map(|n| n.to_string()));
            for consumer in &consumers {
                consumer.expect_deliveries(3);
                consumer.expect_no_delivery();
            }
        }
    });
}

// rabbitmq: consumer priorities
#[test]
fn the_consumer_of_higher_priority_gets_messages_first() {
    conformance(|trial| {
        for kind in BOTH {
            let (publisher, queue) = filled(trial, kind, &[]);
            let (low, high) = (trial.channel(), trial.channel());
            for (channel, priority) in [(&low, -1), (&high, 5)] {
                channel.prefetch(2);
                channel.consume(&ConsumerSpec::of(&queue).argument("x-priority", priority));
            }
            publisher.put_all(&queue, ["a", "b"]);
            assert_eq!(high.expect_texts(2), ["a", "b"], "{kind}");
            low.expect_no_delivery();
            publisher.put_all(&queue, ["c"]);
            assert_eq!(low.expect_texts(1), ["c"], "{kind}");
        }
    });
}

// rabbitmq: text
#[test]
fn a_consumer_priority_that_is_no_number_closes_the_channel_with_406() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &[]);
        let spec = ConsumerSpec::of(&queue).argument("x-priority", "high");
        let close = channel.refused(&basic_consume(&spec));
        let text = format!(
            "PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' in vhost '/': \
             \"expected integer, got longstr\""
        );
        assert_eq!(close, Close::channel(406, text, "basic.consume"));
    });
}

// amqp 1.8.3.3: several consumers on one channel
#[test]
fn a_channel_may_consume_from_several_queues() {
    conformance(|trial| {
        let (channel, one) = filled(trial, "classic", &["1"]);
        let (_, two) = filled(trial, "quorum", &["2"]);
        channel.consume(&ConsumerSpec::of(&one).tag("one"));
        channel.consume(&ConsumerSpec::of(&two).tag("two"));
        let mut seen: Vec<_> = channel
            .expect_deliveries(2)
            .into_iter()
            .map(|came| (came.consumer_tag.clone(), came.text()))
            .collect();
        seen.sort();
        let wanted = [("one", "1"), ("two", "2")].map(|(tag, text)| (tag.into(), text.into()));
        assert_eq!(seen, wanted);
    });
}

// amqp 1.8.3.3: a consumer gets what comes later, too.
#[test]
fn a_consumer_gets_what_is_published_later() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &[]);
            channel.consume(&ConsumerSpec::of(&queue));
            let texts: Vec<String> = (0..100).map(|n| n.to_string()).collect();
            trial.channel().put_all(&queue, &texts);
            assert_eq!(channel.expect_texts(100), texts, "{kind}");
        }
    });
}

// rabbitmq: unlimited prefetch hands out everything.
#[test]
fn without_prefetch_a_consumer_gets_everything() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = filled(trial, kind, &[]);
            let texts: Vec<String> = (0..1500).map(|n| n.to_string()).collect();
            channel.put_all(&queue, &texts);
            channel.consume(&ConsumerSpec::of(&queue));
            assert_eq!(channel.expect_texts(1500), texts, "{kind}");
        }
    });
}

// amqp 1.8.3.3: an empty queue name means the last one.
#[test]
fn an_empty_queue_name_consumes_from_the_last_queue() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("last");
        channel.declare(&QueueSpec::durable(&queue));
        channel.consume(&ConsumerSpec::of(""));
        channel.put(&queue, "a");
        assert_eq!(channel.expect_delivery().text(), "a");
    });
}

// rabbitmq: get works beside consumers.
#[test]
fn get_finds_nothing_where_a_consumer_took_all() {
    conformance(|trial| {
        let (channel, queue) = filled(trial, "classic", &["a"]);
        channel.consume(&ConsumerSpec::of(&queue));
        channel.expect_delivery();
        channel.send(&basic_get(&queue, false));
        channel.wait_for(&["basic.get-empty"]);
    });
}
