//! Class channel: opening, closing and flow.

use integration_tests::connection::PATIENCE;
use integration_tests::request::{
    basic_get, basic_qos, channel_close, channel_flow, channel_open, queue_declare,
};
use integration_tests::socket::Incoming;
use integration_tests::wire::frame::{METHOD, frame};
use integration_tests::{Close, ConsumerSpec, Method, Publication, QueueSpec, conformance};

// amqp 1.5.2.2: open-ok carries an empty long string.
#[test]
fn open_is_answered_with_an_empty_open_ok() {
    conformance(|trial| {
        let connection = trial.connect();
        connection.send(7, &channel_open());
        let (open_ok, _) = connection.wait_for(7, &["channel.open-ok"]);
        assert_eq!(open_ok.text(0), "");
    });
}

// amqp 1.5.2.5
#[test]
fn a_closed_channel_may_be_opened_again() {
    conformance(|trial| {
        let connection = trial.connect();
        for _ in 0..3 {
            let channel = connection.channel(1);
            channel.sync();
            channel.close();
        }
    });
}

// amqp 1.5.2.5: the number is free as soon as the close was sent; answers keep their order.
#[test]
fn a_channel_may_be_opened_right_behind_its_close() {
    conformance(|trial| {
        let connection = trial.connect();
        let channel = connection.channel(1);
        let mut octets = frame(METHOD, 1, &channel_close().encode());
        octets.extend(frame(METHOD, 1, &channel_open().encode()));
        connection.send_octets(&octets);
        channel.wait_for(&["channel.close-ok"]);
        channel.wait_for(&["channel.open-ok"]);
        channel.sync();
    });
}

// amqp 1.5.2.5: after the broker's close everything but close and close-ok is ignored.
#[test]
fn methods_after_the_brokers_close_are_ignored_until_close_ok() {
    conformance(|trial| {
        let connection = trial.connect();
        let channel = connection.channel(1);
        let missing = trial.name("missing");
        // All leave before the first can have been answered.
        for _ in 0..5 {
            channel.send(&basic_get(&missing, false));
        }
        let close = channel.expect_close();
        assert_eq!(close.code, 404, "{close:?}");
        connection.channel(1).sync();
    });
}

// amqp 1.5.2.5: a close that crosses the broker's is answered.
#[test]
fn a_close_that_crosses_the_brokers_close_is_answered() {
    conformance(|trial| {
        let connection = trial.connect();
        let channel = connection.channel(1);
        channel.send(&basic_get(&trial.name("missing"), false));
        channel.send(&channel_close());
        assert_eq!(channel.expect_close().code, 404);
        channel.wait_for(&["channel.close-ok"]);
        connection.channel(1).sync();
    });
}

// amqp 1.5.2.5: a channel is closed, not its connection.
#[test]
fn a_channel_error_leaves_other_channels_alone() {
    conformance(|trial| {
        let connection = trial.connect();
        let (first, second) = (connection.channel(1), connection.channel(2));
        let close = first.refused(&basic_get(&trial.name("missing"), false));
        assert_eq!(close.code, 404);
        second.sync();
    });
}

// rabbitmq: closing a channel gives its unacked messages back.
#[test]
fn closing_a_channel_requeues_its_unacked_messages_in_their_old_order() {
    conformance(|trial| {
        let connection = trial.connect();
        let (first, second) = (connection.channel(1), connection.channel(2));
        let queue = trial.queue("back");
        first.declare(&QueueSpec::durable(&queue));
        first.put_all(&queue, ["a", "b", "c"]);
        first.get_soon(&queue);
        first.get_soon(&queue);
        first.close();
        second.expect_ready(&queue, 3);
        assert_eq!(second.take_all(&queue), ["a", "b", "c"]);
    });
}

// amqp 1.5.2.5: what was published before the close counts.
#[test]
fn publishes_before_the_close_of_a_channel_count() {
    conformance(|trial| {
        let connection = trial.connect();
        let (first, second) = (connection.channel(1), connection.channel(2));
        let queue = trial.queue("last");
        first.declare(&QueueSpec::durable(&queue));
        (0..50).for_each(|n| first.put(&queue, &n.to_string()));
        first.close();
        second.expect_ready(&queue, 50);
    });
}

// rabbitmq: closing a channel ends its consumers.
#[test]
fn closing_a_channel_ends_its_consumers() {
    conformance(|trial| {
        let connection = trial.connect();
        let (first, second) = (connection.channel(1), connection.channel(2));
        let queue = trial.queue("left");
        first.declare(&QueueSpec::durable(&queue));
        first.consume(&ConsumerSpec::of(&queue));
        second.expect_consumers(&queue, 1);
        first.close();
        second.expect_consumers(&queue, 0);
    });
}

// amqp 1.8.3: delivery tags are the channel's own.
#[test]
fn delivery_tags_start_from_one_on_each_channel() {
    conformance(|trial| {
        let connection = trial.connect();
        let queue = trial.queue("tags");
        let channel = connection.channel(1);
        channel.declare(&QueueSpec::durable(&queue));
        channel.put_all(&queue, ["a", "b", "c", "d"]);
        let other = connection.channel(2);
        let tags = [&channel, &channel, &other, &other].map(|on| on.get_soon(&queue).tag);
        assert_eq!(tags, [1, 2, 1, 2]);
    });
}

// amqp 1.5.2.3: flow that is active already
#[test]
fn flow_on_is_answered_with_flow_ok() {
    conformance(|trial| {
        let answer = trial.channel().call(&channel_flow(true));
        assert!(answer.bit(0));
    });
}

// amqp 1.5.2.3: a client may stop the content that comes to it.
#[test]
fn flow_off_pauses_deliveries_until_flow_on() {
    conformance(|trial| {
        let connection = trial.connect();
        let (receiver, sender) = (connection.channel(1), connection.channel(2));
        let queue = trial.queue("paused");
        sender.declare(&QueueSpec::durable(&queue));
        receiver.consume(&ConsumerSpec::of(&queue));
        assert!(!receiver.call(&channel_flow(false)).bit(0));
        sender.put_all(&queue, ["a", "b"]);
        receiver.expect_no_delivery();
        assert!(receiver.call(&channel_flow(true)).bit(0));
        assert_eq!(receiver.expect_texts(2), ["a", "b"]);
    });
}

// rabbitmq: access tickets are handed out and mean nothing.
#[test]
fn access_request_is_answered_with_a_ticket() {
    conformance(|trial| {
        let bits = [
            true.into(),
            false.into(),
            true.into(),
            true.into(),
            true.into(),
        ];
        let mut arguments = vec!["/data".into()];
        arguments.extend(bits);
        let answer = trial
            .channel()
            .call(&Method::new("access.request", arguments));
        assert_eq!(answer.number(0), 1);
    });
}

// amqp 2.3.5.1: answers keep the order of the questions.
#[test]
fn pipelined_methods_are_answered_in_order() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("order");
        channel.send(&queue_declare(&QueueSpec::durable(&queue)));
        channel.send(&basic_qos(1));
        channel.send(&basic_get(&queue, true));
        for wanted in ["queue.declare-ok", "basic.qos-ok", "basic.get-empty"] {
            let came = channel
                .connection()
                .receive(integration_tests::connection::PATIENCE);
            let Some(integration_tests::connection::Incoming::Method { method, .. }) = came else {
                panic!("expected {wanted}; came: {came:?}");
            };
            assert_eq!(method.name, wanted);
        }
    });
}

// rabbitmq: a failed publish closes its channel only.
#[test]
fn a_channel_closed_for_a_publish_can_be_opened_again() {
    conformance(|trial| {
        let connection = trial.connect();
        let missing = trial.name("missing");
        let channel = connection.channel(1);
        channel.publish(&integration_tests::Publication::new(&missing, "k", "body"));
        let text = format!("NOT_FOUND - no exchange '{missing}' in vhost '/'");
        assert_eq!(
            channel.expect_close(),
            Close::channel(404, text, "basic.publish")
        );
        connection.channel(1).sync();
    });
}

// rabbitmq: after its channel.close the broker says nothing more on the channel.
#[test]
fn nothing_is_delivered_behind_the_brokers_close() {
    conformance(|trial| {
        let queue = trial.queue("busy");
        let publisher = trial.channel();
        publisher.declare(&QueueSpec::durable(&queue));
        let texts: Vec<String> = (0..400).map(|number| number.to_string()).collect();
        publisher.put_all(&queue, &texts);
        publisher.sync();
        let consumer = trial.channel();
        consumer.consume(&ConsumerSpec::of(&queue));
        let missing = trial.name("missing");
        consumer.publish(&Publication::new(&missing, "", "bad"));
        loop {
            match consumer.connection().receive(PATIENCE) {
                Some(Incoming::Method { method, .. }) if method.name == "channel.close" => break,
                Some(Incoming::Method { .. } | Incoming::Heartbeat) => {}
                other => panic!("expected a close; came: {other:?}"),
            }
        }
        publisher.put_all(&queue, &texts);
        consumer.connection().expect_quiet();
    });
}
