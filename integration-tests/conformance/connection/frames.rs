//! Frames that are wrong in themselves. The explanations are RabbitMQ's, Erlang notation included,
//! since people search for them.

use integration_tests::wire::frame::{BODY, HEADER, HEARTBEAT, METHOD, frame, frame_with};
use integration_tests::{Close, Connection, Login, Method, Trial, conformance};

/// The close that follows `octets` on a fresh connection; channel 1 is open.
fn close_after(trial: &Trial, octets: &[u8]) -> Close {
    let connection = trial.connect();
    connection.channel(1);
    connection.send_octets(octets);
    connection.expect_close(0)
}

// amqp 4.2.3: the end octet is 206.
#[test]
fn a_wrong_end_octet_closes_with_501() {
    conformance(|trial| {
        let close = close_after(trial, &frame_with(HEARTBEAT, 0, 0, &[], 0));
        let text = "FRAME_ERROR - type 8, all octets = <<>>: {invalid_frame_end_marker,0}";
        assert_eq!(close, Close::connection(501, text, ""));
    });
}

// amqp 4.2.3: only the four types are valid.
#[test]
fn an_unknown_frame_type_closes_with_501() {
    conformance(|trial| {
        let close = close_after(trial, &frame(9, 0, b"abc"));
        let text = "FRAME_ERROR - type 9, all octets = <<\"abc\">>: unknown_frame";
        assert_eq!(close, Close::connection(501, text, ""));
    });
}

// amqp 4.2.7: a heartbeat is empty.
#[test]
fn a_heartbeat_with_payload_closes_with_501() {
    conformance(|trial| {
        let close = close_after(trial, &frame(HEARTBEAT, 0, b"x"));
        let text = "FRAME_ERROR - type 8, all octets = <<\"x\">>: unknown_frame";
        assert_eq!(close, Close::connection(501, text, ""));
    });
}

// amqp 4.2.7: heartbeats belong to channel 0.
#[test]
fn a_heartbeat_on_a_channel_closes_with_505() {
    conformance(|trial| {
        let close = close_after(trial, &frame(HEARTBEAT, 1, &[]));
        let text = "UNEXPECTED_FRAME - type 8, all octets = <<>>";
        assert_eq!(close, Close::connection(505, text, ""));
    });
}

// amqp 4.2.3: a frame may not be larger than agreed.
#[test]
fn a_frame_above_the_agreed_size_closes_with_501() {
    conformance(|trial| {
        // Eight octets beyond the agreed size are still let through.
        let size = 131_072 + 1;
        let close = close_after(trial, &frame(BODY, 1, &vec![0; size]));
        let text = "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}";
        assert_eq!(close, Close::connection(501, text, ""));
    });
}

// amqp 4.2.3: the size is refused from the frame's head, before its payload comes.
#[test]
fn a_frame_size_beyond_all_bounds_is_refused_from_its_head() {
    conformance(|trial| {
        let close = close_after(trial, &[METHOD, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(close.code, 501, "{close:?}");
        let wanted = "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4294967295,131064}";
        assert_eq!(close.text, wanted);
    });
}

// rabbitmq: before tune-ok a frame may have 8192 octets; more ends the socket.
#[test]
fn a_large_frame_before_tune_ok_ends_the_socket_silently() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        connection.start();
        let mut login = Login::default();
        login.properties = login.properties.with("filler", "x".repeat(9000));
        connection.send(0, &login.start_ok());
        connection.expect_gone();
    });
}

// rabbitmq: content belongs to channels.
#[test]
fn a_content_body_on_channel_0_closes_with_505() {
    conformance(|trial| {
        let close = close_after(trial, &frame(BODY, 0, b"abc"));
        let text = "UNEXPECTED_FRAME - type 3, all octets = <<\"abc\">>";
        assert_eq!(close, Close::connection(505, text, ""));
    });
}

// rabbitmq: a content header needs its twelve octets before it is one.
#[test]
fn a_short_content_header_on_channel_0_closes_with_501() {
    conformance(|trial| {
        let close = close_after(trial, &frame(HEADER, 0, b"abc"));
        let text = "FRAME_ERROR - type 2, all octets = <<\"abc\">>: unknown_frame";
        assert_eq!(close, Close::connection(501, text, ""));
    });
}

// rabbitmq: an unknown class ends the socket without a word.
#[test]
fn an_unknown_class_ends_the_socket_silently() {
    conformance(|trial| {
        let connection = trial.connect();
        connection.channel(1);
        connection.send_octets(&frame(METHOD, 1, &[0, 99, 0, 1]));
        connection.expect_gone();
    });
}

// rabbitmq: an unknown method of a known class
#[test]
fn an_unknown_method_closes_with_501() {
    conformance(|trial| {
        let close = close_after(trial, &frame(METHOD, 1, &[0, 60, 0, 200]));
        assert_eq!(
            (close.code, close.text.as_str()),
            (501, "FRAME_ERROR - cannot decode <<>>")
        );
        assert_eq!(close.fault, (60, 200));
    });
}

// rabbitmq: arguments that end too early
#[test]
fn truncated_arguments_close_with_501() {
    conformance(|trial| {
        let close = close_after(trial, &frame(METHOD, 1, &[0, 60, 0, 80, 0]));
        let text = "FRAME_ERROR - cannot decode <<0>>";
        assert_eq!(close, Close::connection(501, text, "basic.ack"));
    });
}

// rabbitmq: arguments that go on too long
#[test]
fn octets_behind_the_arguments_close_with_501() {
    conformance(|trial| {
        let mut payload = Method::new("tx.select", vec![]).encode();
        payload.push(0);
        let close = close_after(trial, &frame(METHOD, 1, &payload));
        let text = "FRAME_ERROR - cannot decode <<0>>";
        assert_eq!(close, Close::connection(501, text, "tx.select"));
    });
}

// rabbitmq: on channel 0 the same is an internal error.
#[test]
fn truncated_arguments_on_channel_0_close_with_541() {
    conformance(|trial| {
        let close = close_after(trial, &frame(METHOD, 0, &[0, 10, 0, 50, 0]));
        assert_eq!((close.code, close.fault), (541, (0, 0)), "{close:?}");
        assert!(close.text.starts_with("INTERNAL_ERROR"), "{close:?}");
    });
}

// rabbitmq: names are UTF-8.
#[test]
fn a_name_that_is_not_utf_8_closes_with_501() {
    conformance(|trial| {
        let name = integration_tests::wire::Argument::ShortString(vec![0xC3, 0x28]);
        let arguments = vec![0u16.into(), name, false.into()];
        let get = Method::new("basic.get", arguments).encode();
        let close = close_after(trial, &frame(METHOD, 1, &get));
        assert_eq!(close.code, 501, "{close:?}");
        assert_eq!(close.text, "FRAME_ERROR - Malformed UTF-8 in shortstr");
    });
}

// amqp 4.2.3: octets come in any pieces.
#[test]
fn frames_that_come_octet_by_octet_are_understood() {
    conformance(|trial| {
        let connection = trial.connect();
        let channel = connection.channel(1);
        let octets = frame(
            METHOD,
            1,
            &integration_tests::request::basic_qos(1).encode(),
        );
        octets
            .iter()
            .for_each(|octet| connection.send_octets(&[*octet]));
        channel.wait_for(&["basic.qos-ok"]);
    });
}

// amqp 2.3.5.1: many methods in one packet are answered in order.
#[test]
fn methods_that_come_together_are_answered_in_order() {
    conformance(|trial| {
        let connection = trial.connect();
        let (first, second) = (connection.channel(1), connection.channel(2));
        let mut octets = Vec::new();
        for number in [1, 2, 1] {
            let qos = integration_tests::request::basic_qos(1).encode();
            octets.extend(frame(METHOD, number, &qos));
        }
        connection.send_octets(&octets);
        first.wait_for(&["basic.qos-ok"]);
        first.wait_for(&["basic.qos-ok"]);
        second.wait_for(&["basic.qos-ok"]);
    });
}
