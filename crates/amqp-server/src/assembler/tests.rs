//! Contents cut into frames in every way, and every way in which they can be wrong.

use amqp::{Content as OutContent, FrameEncoder, Properties};

use super::*;

const SIZE_MAX: u64 = 1 << 20;
const DECODER: FrameDecoder = FrameDecoder::new(4096);

fn header_payload(class: u16, weight: u16, size: u64, properties: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend_from_slice(&class.to_be_bytes());
    payload.extend_from_slice(&weight.to_be_bytes());
    payload.extend_from_slice(&size.to_be_bytes());
    payload.extend_from_slice(properties);
    payload
}

fn header(size: u64) -> Vec<u8> {
    header_payload(60, 0, size, &[0, 0])
}

fn call() -> BasicPublish<&'static str> {
    BasicPublish {
        exchange: "x",
        routing_key: "key",
        mandatory: true,
        immediate: false,
    }
}

fn begun() -> Assembly {
    Assembly::AwaitHeader(PublishCall::from(&call()))
}

fn more(step: Result<Step, ProtocolFault>) -> Assembly {
    match step {
        Ok(Step::More(assembly)) => assembly,
        other => panic!("more frames are due, not {other:?}"),
    }
}

fn complete(step: Result<Step, ProtocolFault>) -> Content {
    match step {
        Ok(Step::Complete(content)) => content,
        other => panic!("the message is whole, not {other:?}"),
    }
}

fn fault(step: Result<Step, ProtocolFault>) -> (u16, String) {
    let fault = step.expect_err("a fault");
    (fault.code().number(), fault.to_string())
}

/// The frames of a publish without its method frame.
fn content_frames(channel: u16, body: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    let content = OutContent {
        properties: Properties::empty(),
        body,
    };
    FrameEncoder::new(4096).publish(&mut frames, channel, &call(), content);
    let (_, method) = DECODER.next(&frames).unwrap().unwrap();
    frames.split_off(method)
}

#[test]
fn a_body_in_pieces_is_put_together() {
    let assembly = more(begun().header(&header(6)));
    let assembly = more(assembly.body(b"abc", SIZE_MAX));
    let assembly = more(assembly.body(b"", SIZE_MAX));
    assert_eq!(assembly.kept_bytes(), 3);
    let content = complete(assembly.body(b"def", SIZE_MAX));
    assert_eq!(content.body, b"abcdef");
    assert_eq!(content.properties, [0, 0]);
    assert_eq!(content.call, PublishCall::from(&call()));
}

#[test]
fn an_empty_body_has_no_frame() {
    let content = complete(begun().header(&header(0)));
    assert_eq!((content.body.len(), content.body_size), (0, 0));
}

#[test]
fn an_announced_size_keeps_nothing() {
    let assembly = more(begun().header(&header(MESSAGE_SIZE_CEILING)));
    let Assembly::AwaitBody { content, .. } = &assembly else {
        panic!("a body is due")
    };
    assert_eq!(content.body.capacity(), 0);
}

#[test]
fn a_body_over_the_limit_is_counted_but_not_kept() {
    let mut assembly = more(begun().header(&header(SIZE_MAX + 1)));
    for _ in 0..16 {
        assembly = more(assembly.body(&[0; 1 << 16], SIZE_MAX));
        assert_eq!(assembly.kept_bytes(), 0);
    }
    let content = complete(assembly.body(&[0], SIZE_MAX));
    assert_eq!((content.body.len(), content.body_size), (0, SIZE_MAX + 1));
}

#[test]
fn a_size_above_the_ceiling_is_a_frame_error() {
    let text = "content body size 536870913 exceeds maximum allowed size 536870912";
    let step = begun().header(&header(MESSAGE_SIZE_CEILING + 1));
    assert_eq!(fault(step), (501, text.to_owned()));
}

#[test]
fn a_body_longer_than_announced_is_a_frame_error() {
    let assembly = more(begun().header(&header(2)));
    let text = "content body frame exceeds remaining content size";
    assert_eq!(
        fault(assembly.body(b"abc", SIZE_MAX)),
        (501, text.to_owned())
    );
}

#[test]
fn frames_out_of_turn_are_unexpected() {
    let text = "expected content header for class 60, got non content header frame instead";
    assert_eq!(
        fault(begun().body(b"abc", SIZE_MAX)),
        (505, text.to_owned())
    );
    assert_eq!(begun().out_of_turn().to_string(), text);
    let assembly = more(begun().header(&header(2)));
    let text = "expected content body, got non content body frame instead";
    assert_eq!(assembly.out_of_turn().to_string(), text);
    assert_eq!(fault(assembly.header(&header(2))), (505, text.to_owned()));
}

#[test]
fn a_header_of_another_class_or_weight_is_unexpected() {
    let text = "expected content header for class 60, got one for class 50 instead";
    let step = begun().header(&header_payload(50, 0, 2, &[0, 0]));
    assert_eq!(fault(step), (505, text.to_owned()));
    let text = "expected content header for class 60, got non content header frame instead";
    for class in [60, 50] {
        let step = begun().header(&header_payload(class, 1, 2, &[0, 0]));
        assert_eq!(fault(step), (505, text.to_owned()), "class {class}");
    }
}

#[test]
fn malformed_properties_are_an_internal_error() {
    for properties in [&[0x80, 0, 9][..], &[0, 1], &[0], &[0, 0, 1]] {
        let step = begun().header(&header_payload(60, 0, 0, properties));
        assert_eq!(fault(step), (541, String::new()), "{properties:?}");
    }
}

#[test]
fn a_whole_content_is_found_as_slices_of_the_buffer() {
    for body in [&b""[..], b"0123456789"] {
        let mut bytes = content_frames(7, body);
        let length = bytes.len();
        bytes.extend_from_slice(b"what follows");
        let content = whole_content(&DECODER, &bytes, 7, SIZE_MAX).expect("whole");
        assert_eq!((content.body, content.used), (body, length));
        assert_eq!(content.properties, [0, 0]);
    }
}

#[test]
fn a_content_that_is_cut_anywhere_is_left_to_the_assembly() {
    let bytes = content_frames(7, b"0123456789");
    for end in 0..bytes.len() {
        assert_eq!(
            whole_content(&DECODER, &bytes[..end], 7, SIZE_MAX),
            None,
            "at {end}"
        );
    }
}

#[test]
fn contents_of_other_channels_in_pieces_or_too_large_are_left_to_the_assembly() {
    let bytes = content_frames(7, b"0123456789");
    assert_eq!(whole_content(&DECODER, &bytes, 8, SIZE_MAX), None);
    assert_eq!(whole_content(&DECODER, &bytes, 7, 9), None);
    let bytes = content_frames(7, &[1; 10_000]);
    assert_eq!(whole_content(&DECODER, &bytes, 7, SIZE_MAX), None);
}
