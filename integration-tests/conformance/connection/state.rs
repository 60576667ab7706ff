//! Methods that come at the wrong time or on the wrong channel.

use integration_tests::connection::open;
use integration_tests::request::{
    basic_qos, channel_close, channel_open, connection_close, queue_declare,
};
use integration_tests::{Close, Connection, Login, Method, QueueSpec, Trial, conformance};

/// The close that follows `method` on channel `number`; channel 1 is open.
fn refused(trial: &Trial, number: u16, method: &Method) -> Close {
    let connection = trial.connect();
    connection.channel(1);
    connection.send(number, method);
    connection.expect_close(0)
}

// amqp 1.5.2.1: a channel must be opened first.
#[test]
fn a_method_on_an_unopened_channel_closes_with_504() {
    conformance(|trial| {
        let close = refused(trial, 2, &basic_qos(1));
        let text = "CHANNEL_ERROR - expected 'channel.open'";
        assert_eq!(close, Close::connection(504, text, "basic.qos"));
    });
}

// rabbitmq: even channel.close needs an open channel.
#[test]
fn closing_an_unopened_channel_closes_with_504() {
    conformance(|trial| {
        let close = refused(trial, 2, &channel_close());
        let text = "CHANNEL_ERROR - expected 'channel.open'";
        assert_eq!(close, Close::connection(504, text, "channel.close"));
    });
}

// amqp 1.5.2.5: a closed channel is an unopened one.
#[test]
fn a_method_on_a_closed_channel_closes_with_504() {
    conformance(|trial| {
        let connection = trial.connect();
        let channel = connection.channel(1);
        channel.close();
        channel.send(&queue_declare(&QueueSpec::passive("any")));
        let text = "CHANNEL_ERROR - expected 'channel.open'";
        let close = connection.expect_close(0);
        assert_eq!(close, Close::connection(504, text, "queue.declare"));
    });
}

// amqp 1.5.2.1
#[test]
fn opening_a_channel_twice_closes_with_504() {
    conformance(|trial| {
        let close = refused(trial, 1, &channel_open());
        let text = "CHANNEL_ERROR - second 'channel.open' seen";
        assert_eq!(close, Close::connection(504, text, "channel.open"));
    });
}

// rabbitmq: connection.open comes once.
#[test]
fn a_second_connection_open_closes_with_504() {
    conformance(|trial| {
        let close = refused(trial, 0, &open("/"));
        let text = "CHANNEL_ERROR - unexpected method in connection state running";
        assert_eq!(close, Close::connection(504, text, "connection.open"));
    });
}

// rabbitmq: methods of class connection belong to channel 0.
#[test]
fn a_connection_method_on_an_open_channel_closes_with_503() {
    conformance(|trial| {
        let close = refused(trial, 1, &connection_close());
        let text = "COMMAND_INVALID - unimplemented method";
        assert_eq!(close, Close::connection(503, text, "connection.close"));
    });
}

// amqp 4.2.4: methods that only a server sends
#[test]
fn a_method_that_only_servers_send_closes_with_503() {
    conformance(|trial| {
        let close = refused(trial, 1, &Method::new("basic.qos-ok", vec![]));
        let text = "COMMAND_INVALID - unimplemented method";
        assert_eq!(close, Close::connection(503, text, "basic.qos-ok"));
    });
}

// rabbitmq: an answer to a question that nobody asked
#[test]
fn an_unsolicited_channel_close_ok_closes_with_503() {
    conformance(|trial| {
        let close = refused(trial, 1, &Method::new("channel.close-ok", vec![]));
        let text = "COMMAND_INVALID - unimplemented method";
        assert_eq!(close, Close::connection(503, text, "channel.close-ok"));
    });
}

// rabbitmq: an answer to a question that nobody asked
#[test]
fn an_unsolicited_flow_ok_closes_with_503() {
    conformance(|trial| {
        let close = refused(trial, 1, &Method::new("channel.flow-ok", vec![true.into()]));
        let text = "COMMAND_INVALID - unimplemented method";
        assert_eq!(close, Close::connection(503, text, "channel.flow-ok"));
    });
}

// amqp 4.2.6: an error of one connection is nothing to another.
#[test]
fn an_error_of_one_connection_leaves_others_alone() {
    conformance(|trial| {
        let bystander = trial.channel();
        refused(trial, 1, &channel_open());
        bystander.sync();
    });
}

// amqp 1.5.2.5: a number is taken until its close-ok has come.
#[test]
fn opening_a_channel_before_its_close_ok_closes_with_504() {
    conformance(|trial| {
        let connection = trial.connect();
        let channel = connection.channel(1);
        channel.send(&queue_declare(&QueueSpec::passive("none such")));
        channel.send(&channel_open());
        let text = "CHANNEL_ERROR - second 'channel.open' seen";
        let close = connection.expect_close(0);
        assert_eq!(close, Close::connection(504, text, "channel.open"));
    });
}

/// A connection whose terms are settled and that is not open.
fn opening(trial: &Trial) -> Connection {
    let connection = Connection::dial(trial.address());
    let tune = connection.log_in(&Login::default());
    connection.send(0, &tune.accept());
    connection
}

// rabbitmq: who is known is told what was wrong.
#[test]
fn what_comes_in_place_of_connection_open_is_told_with_a_close() {
    conformance(|trial| {
        let connection = opening(trial);
        connection.send(0, &Method::new("connection.close-ok", vec![]));
        let text = "CHANNEL_ERROR - unexpected method in connection state opening";
        let close = connection.expect_close(0);
        assert_eq!(close, Close::connection(504, text, "connection.close-ok"));
        let connection = opening(trial);
        connection.send(1, &channel_open());
        let close = connection.expect_close(0);
        let text = "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>";
        assert_eq!((close.code, &*close.text, close.fault), (505, text, (0, 0)));
    });
}
