//! Content: header and body frames behind a method, and what is wrong without them.

use integration_tests::connection::{header_payload, publish_octets};
use integration_tests::request::basic_publish;
use integration_tests::wire::frame::{BODY, HEADER, METHOD, frame};
use integration_tests::{
    Channel, Close, Connection, Properties, Publication, QueueSpec, Trial, conformance,
};

/// The largest body that is ever taken, 512 MiB.
const BODY_BYTES_MAX: u64 = 536_870_912;

/// Channel 1 that has heard basic.publish and waits for the content.
fn publishing(trial: &Trial) -> (Connection, Channel) {
    let channel = trial.channel();
    channel.send(&basic_publish(&Publication::new("", "nowhere", "")));
    (channel.connection().clone(), channel)
}

// amqp 4.2.6.1: content follows its method.
#[test]
fn a_content_header_without_a_publish_closes_with_505() {
    conformance(|trial| {
        let connection = trial.connect();
        connection.channel(1);
        let header = header_payload(0, &Properties::default());
        connection.send_octets(&frame(HEADER, 1, &header));
        let close = connection.expect_close(0);
        let text = "UNEXPECTED_FRAME - expected method frame, got non method frame instead";
        assert_eq!(close, Close::connection(505, text, ""));
    });
}

// amqp 4.2.6.1
#[test]
fn a_body_without_a_header_closes_with_505() {
    conformance(|trial| {
        let (connection, _channel) = publishing(trial);
        connection.send_octets(&frame(BODY, 1, b"body"));
        let text = "UNEXPECTED_FRAME - expected content header for class 60, \
                    got non content header frame instead";
        let close = connection.expect_close(0);
        assert_eq!(close, Close::connection(505, text, "basic.publish"));
    });
}

// amqp 4.2.6.1: header and method are of one class.
#[test]
fn a_header_of_another_class_closes_with_505() {
    conformance(|trial| {
        let (connection, _channel) = publishing(trial);
        let mut header = header_payload(0, &Properties::default());
        header[1] = 50;
        connection.send_octets(&frame(HEADER, 1, &header));
        let text = "UNEXPECTED_FRAME - expected content header for class 60, \
                    got one for class 50 instead";
        let close = connection.expect_close(0);
        assert_eq!(close, Close::connection(505, text, "basic.publish"));
    });
}

// amqp 4.2.6.1: the weight is zero.
#[test]
fn a_header_with_weight_closes_with_505() {
    conformance(|trial| {
        let (connection, _channel) = publishing(trial);
        let mut header = header_payload(0, &Properties::default());
        header[3] = 1;
        connection.send_octets(&frame(HEADER, 1, &header));
        let close = connection.expect_close(0);
        assert_eq!(close.code, 505, "{close:?}");
    });
}

// amqp 4.2.6: on one channel nothing comes between a method and its content.
#[test]
fn a_method_in_the_middle_of_a_body_closes_with_505() {
    conformance(|trial| {
        let (connection, channel) = publishing(trial);
        connection.send_octets(&frame(
            HEADER,
            1,
            &header_payload(10, &Properties::default()),
        ));
        connection.send_octets(&frame(BODY, 1, b"half"));
        channel.send(&integration_tests::request::basic_qos(1));
        let text = "UNEXPECTED_FRAME - expected content body, got non content body frame instead";
        let close = connection.expect_close(0);
        assert_eq!(close, Close::connection(505, text, "basic.publish"));
    });
}

// amqp 4.2.6.2: the body is as long as the header says.
#[test]
fn a_body_longer_than_announced_closes_with_501() {
    conformance(|trial| {
        let (connection, _channel) = publishing(trial);
        connection.send_octets(&frame(
            HEADER,
            1,
            &header_payload(3, &Properties::default()),
        ));
        connection.send_octets(&frame(BODY, 1, b"four"));
        let close = connection.expect_close(0);
        assert_eq!(close.code, 501, "{close:?}");
        let wanted = "FRAME_ERROR - content body frame exceeds remaining content size";
        assert_eq!(close.text, wanted);
    });
}

// rabbitmq: no body is larger than 512 MiB.
#[test]
fn an_announced_body_beyond_all_bounds_closes_with_501() {
    conformance(|trial| {
        let (connection, _channel) = publishing(trial);
        let header = header_payload(BODY_BYTES_MAX + 1, &Properties::default());
        connection.send_octets(&frame(HEADER, 1, &header));
        let close = connection.expect_close(0);
        let wanted = "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size \
                      536870912";
        assert_eq!((close.code, close.text.as_str()), (501, wanted));
    });
}

// rabbitmq: properties that do not parse are an internal error.
#[test]
fn a_malformed_property_list_closes_with_541() {
    conformance(|trial| {
        let (connection, _channel) = publishing(trial);
        let mut header = header_payload(0, &Properties::default());
        let length = header.len();
        // Says that a content type follows, and nothing follows.
        header[length - 2] = 0x80;
        connection.send_octets(&frame(HEADER, 1, &header));
        let close = connection.expect_close(0);
        assert_eq!(close.code, 541, "{close:?}");
    });
}

// rabbitmq: a second set of flags is not for class basic.
#[test]
fn continued_property_flags_close_with_541() {
    conformance(|trial| {
        let (connection, _channel) = publishing(trial);
        let mut header = header_payload(0, &Properties::default());
        let length = header.len();
        header[length - 1] = 0x01;
        header.extend([0, 0]);
        connection.send_octets(&frame(HEADER, 1, &header));
        let close = connection.expect_close(0);
        assert_eq!(close.code, 541, "{close:?}");
    });
}

// rabbitmq: the flag that no property has is overlooked.
#[test]
fn the_unused_property_flag_is_tolerated() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("flag");
        channel.declare(&QueueSpec::durable(&queue));
        channel.send(&basic_publish(&Publication::to_queue(&queue, "")));
        let mut header = header_payload(0, &Properties::default());
        let length = header.len();
        header[length - 1] = 0x02;
        channel.connection().send_octets(&frame(HEADER, 1, &header));
        assert_eq!(channel.get_soon(&queue).text(), "");
    });
}

// amqp 4.2.6.1: an empty body has a header and no frame.
#[test]
fn an_empty_body_has_no_body_frame() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("empty");
        channel.declare(&QueueSpec::durable(&queue));
        channel.put_all(&queue, [""]);
        let delivery = channel.get_soon(&queue);
        assert_eq!(
            (delivery.text().as_str(), delivery.frame_bytes.len()),
            ("", 0)
        );
    });
}

// amqp 4.2.6.2: empty body frames add nothing.
#[test]
fn empty_body_frames_are_allowed() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("empties");
        channel.declare(&QueueSpec::durable(&queue));
        channel.send(&basic_publish(&Publication::to_queue(&queue, "")));
        let connection = channel.connection();
        connection.send_octets(&frame(
            HEADER,
            1,
            &header_payload(4, &Properties::default()),
        ));
        for part in [&b"ab"[..], b"", b"cd"] {
            connection.send_octets(&frame(BODY, 1, part));
        }
        assert_eq!(channel.get_soon(&queue).text(), "abcd");
    });
}

// amqp 4.2.6: content of several channels may be interleaved.
#[test]
fn content_of_two_channels_may_be_interleaved() {
    conformance(|trial| {
        let connection = trial.connect();
        let (first, second) = (connection.channel(1), connection.channel(2));
        let queue = trial.queue("woven");
        first.declare(&QueueSpec::durable(&queue));
        for channel in [&first, &second] {
            channel.send(&basic_publish(&Publication::to_queue(&queue, "")));
        }
        for number in [2, 1] {
            let header = header_payload(6, &Properties::default());
            connection.send_octets(&frame(HEADER, number, &header));
        }
        let parts = [(1, "fir"), (2, "sec"), (2, "ond"), (1, "st!")];
        for (number, part) in parts {
            connection.send_octets(&frame(BODY, number, part.as_bytes()));
        }
        first.expect_ready(&queue, 2);
        // The order between channels is nobody's promise.
        let mut texts = first.take_all(&queue);
        texts.sort_unstable();
        assert_eq!(texts, ["first!", "second"]);
    });
}

// amqp 4.2.6: methods of another channel pass through an unfinished body.
#[test]
fn another_channel_works_while_a_body_is_unfinished() {
    conformance(|trial| {
        let connection = trial.connect();
        let (first, second) = (connection.channel(1), connection.channel(2));
        let queue = trial.queue("slow");
        first.declare(&QueueSpec::durable(&queue));
        let octets = publish_octets(1, &Publication::to_queue(&queue, "slow"), 131_072);
        let (begin, end) = octets.split_at(octets.len() - 12);
        connection.send_octets(begin);
        second.sync();
        connection.send_octets(end);
        assert_eq!(first.get_soon(&queue).text(), "slow");
    });
}

// rabbitmq: a message above max_message_size is refused when it has come whole.
#[test]
fn a_message_above_the_size_limit_closes_the_channel_with_406() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("huge");
        channel.declare(&QueueSpec::durable(&queue));
        channel.publish(&Publication::to_queue(&queue, vec![0u8; 16_777_217]));
        let text = "PRECONDITION_FAILED - message size 16777217 is larger than configured max \
                    size 16777216";
        assert_eq!(
            channel.expect_close(),
            Close::channel(406, text, "basic.publish")
        );
        assert_eq!(channel.connection().channel(2).ready(&queue), 0);
    });
}

// rabbitmq: the limit itself is allowed.
#[test]
fn a_message_of_just_the_size_limit_passes() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("large");
        channel.declare(&QueueSpec::durable(&queue));
        let publication = Publication::to_queue(&queue, vec![1u8; 16_777_216]);
        assert!(channel.publish_confirmed(&publication));
        assert_eq!(channel.get_soon(&queue).body.len(), 16_777_216);
    });
}

// amqp 4.2.3: the frame type of a publish's parts
#[test]
fn frames_of_another_channel_between_method_and_header_are_fine() {
    conformance(|trial| {
        let connection = trial.connect();
        let (first, second) = (connection.channel(1), connection.channel(2));
        let queue = trial.queue("gap");
        first.declare(&QueueSpec::durable(&queue));
        let publish = basic_publish(&Publication::to_queue(&queue, "")).encode();
        connection.send_octets(&frame(METHOD, 1, &publish));
        second.sync();
        let header = header_payload(0, &Properties::default());
        connection.send_octets(&frame(HEADER, 1, &header));
        assert_eq!(first.get_soon(&queue).text(), "");
    });
}
