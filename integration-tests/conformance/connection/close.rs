//! The orderly end of a connection, from either side.

use integration_tests::request::{channel_close, connection_close};
use integration_tests::{Close, Method, Publication, QueueSpec, conformance, expect_soon};

// amqp 1.4.2.8
#[test]
fn close_is_answered_with_close_ok() {
    conformance(|trial| trial.connect().close());
}

// amqp 1.4.2.8: closing the connection closes its channels.
#[test]
fn close_with_open_channels_is_answered_with_close_ok() {
    conformance(|trial| {
        let connection = trial.connect();
        connection.channel(1);
        connection.channel(2);
        connection.close();
    });
}

// amqp 1.4.2.8: what was sent before the close counts.
#[test]
fn publishes_before_the_close_count() {
    conformance(|trial| {
        let watcher = trial.channel();
        let queue = trial.queue("last");
        watcher.declare(&QueueSpec::durable(&queue));
        let connection = trial.connect();
        let channel = connection.channel(1);
        (0..50).for_each(|n| channel.put(&queue, &n.to_string()));
        connection.close();
        watcher.expect_ready(&queue, 50);
    });
}

// rabbitmq: a socket that just ends does no harm to what was handled.
#[test]
fn confirmed_publishes_survive_the_end_of_the_socket() {
    conformance(|trial| {
        let watcher = trial.channel();
        let queue = trial.queue("cut");
        watcher.declare(&QueueSpec::durable(&queue));
        let channel = trial.channel();
        channel.put_all(&queue, ["one", "two"]);
        channel.connection().drop_socket();
        watcher.expect_ready(&queue, 2);
    });
}

// rabbitmq: the end of the socket gives unacked messages back.
#[test]
fn the_end_of_the_socket_requeues_unacked_messages() {
    conformance(|trial| {
        let watcher = trial.channel();
        let queue = trial.queue("back");
        watcher.declare(&QueueSpec::durable(&queue));
        watcher.put_all(&queue, ["one"]);
        let channel = trial.channel();
        channel.get_soon(&queue);
        channel.connection().drop_socket();
        watcher.expect_ready(&queue, 1);
        assert!(watcher.get_soon(&queue).redelivered);
    });
}

// amqp 1.4.2.8: a half-sent message is no message.
#[test]
fn a_publish_without_its_body_is_forgotten_with_the_connection() {
    conformance(|trial| {
        let watcher = trial.channel();
        let queue = trial.queue("half");
        watcher.declare(&QueueSpec::durable(&queue));
        let channel = trial.channel();
        let publication = Publication::to_queue(&queue, "whole");
        let octets = integration_tests::connection::publish_octets(1, &publication, 131_072);
        channel
            .connection()
            .send_octets(&octets[..octets.len() - 8]);
        channel.connection().drop_socket();
        watcher.put_all(&queue, ["other"]);
        assert_eq!(watcher.take_all(&queue), ["other"]);
    });
}

// rabbitmq: exclusive queues are gone before close-ok.
#[test]
fn exclusive_queues_are_gone_when_close_ok_comes() {
    conformance(|trial| {
        let connection = trial.connect();
        let queue = trial.queue("mine");
        connection
            .channel(1)
            .declare(&QueueSpec::transient(&queue).exclusive());
        connection.close();
        let passive = integration_tests::request::queue_declare(&QueueSpec::passive(&queue));
        let close = trial.channel().refused(&passive);
        assert_eq!(close.code, 404, "{close:?}");
    });
}

// rabbitmq: a client may close while the broker's close is under way.
#[test]
fn a_close_that_crosses_the_brokers_close_is_answered() {
    conformance(|trial| {
        let connection = trial.connect();
        connection.channel(1);
        // The second open of a channel is an error of the connection; the close follows it at once.
        connection.send(1, &integration_tests::request::channel_open());
        connection.send(0, &connection_close());
        let close = connection.expect_close(0);
        assert_eq!(close.code, 504, "{close:?}");
    });
}

// amqp 1.4.2.8: after the broker's close everything but close and close-ok is discarded.
#[test]
fn frames_after_the_brokers_close_are_ignored() {
    conformance(|trial| {
        let watcher = trial.channel();
        let queue = trial.queue("late");
        watcher.declare(&QueueSpec::durable(&queue));
        let connection = trial.connect();
        let channel = connection.channel(1);
        connection.send(1, &integration_tests::request::channel_open());
        channel.put(&queue, "too late");
        let close = connection.expect_close(0);
        let text = "CHANNEL_ERROR - second 'channel.open' seen";
        assert_eq!(close, Close::connection(504, text, "channel.open"));
        connection.expect_gone();
        assert_eq!(watcher.ready(&queue), 0);
    });
}

// amqp 1.5.2.5: closing one channel leaves the others alone.
#[test]
fn closing_a_channel_leaves_the_connection_open() {
    conformance(|trial| {
        let connection = trial.connect();
        let (first, second) = (connection.channel(1), connection.channel(2));
        first.call(&channel_close());
        second.sync();
    });
}

// rabbitmq: consumers of an ended connection are gone.
#[test]
fn the_end_of_the_socket_cancels_consumers() {
    conformance(|trial| {
        let watcher = trial.channel();
        let queue = trial.queue("left");
        watcher.declare(&QueueSpec::durable(&queue));
        let channel = trial.channel();
        channel.consume(&integration_tests::ConsumerSpec::of(&queue));
        assert_eq!(watcher.declare(&QueueSpec::passive(&queue)).consumers, 1);
        channel.connection().drop_socket();
        let look = || watcher.declare(&QueueSpec::passive(&queue)).consumers;
        expect_soon("consumers", &0, look);
    });
}

// rabbitmq: update-secret is answered.
#[test]
fn update_secret_is_answered() {
    conformance(|trial| {
        let connection = trial.connect();
        let secret = integration_tests::wire::Argument::LongString(b"guest".to_vec());
        let update = Method::new("connection.update-secret", vec![secret, "renewed".into()]);
        connection.send(0, &update);
        connection.wait_for(0, &["connection.update-secret-ok"]);
    });
}
