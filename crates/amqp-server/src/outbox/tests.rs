//! What is pushed comes out in order, whole and bounded.

use amqp::{Frame, FrameDecoder, FrameKind, Method};
use broker::MessageView;

use super::*;

fn outbox() -> FrameOutbox {
    FrameOutbox::new(131_072)
}

/// Everything that waits, as the writer would send it.
fn written(outbox: &FrameOutbox) -> Vec<u8> {
    let mut turn = OutBuffer::default();
    outbox.swap(&mut turn);
    let mut bytes = Vec::new();
    while turn.has_remaining() {
        let chunk = turn.chunk();
        bytes.extend_from_slice(chunk);
        let count = chunk.len();
        turn.advance(count);
        outbox.wrote(count);
    }
    bytes
}

fn frames(bytes: &[u8]) -> Vec<Frame<'_>> {
    let decoder = FrameDecoder::new(131_072);
    let mut frames = Vec::new();
    let mut at = 0;
    while let Some((frame, used)) = decoder.next(&bytes[at..]).expect("whole frames") {
        frames.push(frame);
        at += used;
    }
    assert_eq!(at, bytes.len());
    frames
}

fn deliver<'a>(delivery_tag: u64, owner: &'a Bytes, body: &'a [u8]) -> Outgoing<'a> {
    let message = MessageView {
        exchange: "x",
        routing_key: "key",
        properties: &[0, 0],
        body,
        owner,
    };
    Outgoing::Deliver {
        consumer_tag: "tag",
        delivery_tag,
        redelivered: false,
        message,
    }
}

#[test]
fn small_and_large_deliveries_come_out_whole_and_in_order() {
    let outbox = outbox();
    let large = Bytes::from(vec![7; 300_000]);
    let small = Bytes::from_static(b"small");
    let alien = [9; SHARED_BODY_BYTES_MIN];
    outbox.push(
        3,
        &[
            deliver(1, &small, &small),
            deliver(2, &large, &large[100..]),
            deliver(3, &small, &small),
            // A body that its owner does not hold is copied.
            deliver(4, &small, &alien),
            Outgoing::Ack {
                delivery_tag: 9,
                multiple: true,
            },
        ],
    );
    let bytes = written(&outbox);
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    let mut tags = Vec::new();
    for frame in frames(&bytes) {
        assert_eq!(frame.channel, 3);
        match frame.kind {
            FrameKind::Method => match Method::decode(frame.payload).unwrap() {
                Method::BasicDeliver(deliver) => {
                    tags.push(deliver.delivery_tag);
                    bodies.push(Vec::new());
                }
                Method::BasicAck(ack) => tags.push(ack.delivery_tag),
                other => panic!("unexpected {other:?}"),
            },
            FrameKind::Body => bodies.last_mut().unwrap().extend_from_slice(frame.payload),
            _ => {}
        }
    }
    assert_eq!(tags, [1, 2, 3, 4, 9]);
    assert_eq!(bodies, [&small[..], &large[100..], &small[..], &alien[..]]);
}

#[test]
fn large_bodies_are_referenced_not_copied() {
    let outbox = outbox();
    let large = Bytes::from(vec![7; 1 << 20]);
    outbox.push(1, &[deliver(1, &large, &large)]);
    let mut turn = OutBuffer::default();
    outbox.swap(&mut turn);
    assert!(turn.remaining() > 1 << 20);
    assert!(turn.small().len() < 1024, "only envelopes are written");
}

#[test]
fn a_return_carries_the_bare_name() {
    let outbox = outbox();
    let body = Bytes::from_static(b"b");
    let message = MessageView {
        exchange: "x",
        routing_key: "key",
        properties: &[0, 0],
        body: &body,
        owner: &body,
    };
    outbox.push(1, &[Outgoing::Return { message }]);
    let bytes = written(&outbox);
    let Method::BasicReturn(returned) = Method::decode(frames(&bytes)[0].payload).unwrap() else {
        panic!("basic.return");
    };
    assert_eq!(
        (returned.reply_code, returned.reply_text),
        (312, "NO_ROUTE")
    );
}

#[test]
fn the_broker_hears_once_that_a_full_outbox_is_drained() {
    let outbox = outbox();
    let large = Bytes::from(vec![7; 600 << 10]);
    let half = outbox.push(1, &[deliver(1, &large, &large)]);
    assert!(half < OUTBOX_MARK);
    let full = outbox.push(1, &[deliver(2, &large, &large)]);
    assert!(full >= OUTBOX_MARK);
    let mut turn = OutBuffer::default();
    outbox.swap(&mut turn);
    assert!(!outbox.wrote(100 << 10));
    assert!(!outbox.wrote(500 << 10));
    assert!(outbox.wrote(200 << 10));
    assert!(!outbox.wrote(100 << 10), "said only once");
}

#[tokio::test]
async fn a_client_that_never_reads_is_given_up_at_the_bound() {
    let outbox = outbox();
    let large = Bytes::from(vec![7; 8 << 20]);
    for tag in 0..8 {
        assert!(!outbox.lost.is_cancelled(), "delivery {tag}");
        outbox.push(1, &[deliver(tag, &large, &large)]);
    }
    assert!(outbox.must_pause());
    outbox.push(1, &[deliver(10, &large, &large)]);
    outbox.lost().await;
    assert!(matches!(outbox.loss(), Loss::Overfull));
    assert_eq!(outbox.push(1, &[deliver(11, &large, &large)]), 0);
    assert!(written(&outbox).is_empty(), "its memory is given back");
}

#[test]
fn after_the_last_words_only_replies_are_taken() {
    let outbox = outbox();
    let body = Bytes::from_static(b"b");
    outbox.last_words(&reply::connection_close_ok());
    outbox.push(1, &[deliver(1, &body, &body)]);
    outbox.reply(0, &reply::connection_close_ok());
    assert_eq!(frames(&written(&outbox)).len(), 2);
}

#[tokio::test]
async fn an_ended_outbox_is_written_to_its_end() {
    let outbox = outbox();
    outbox.push_heartbeat();
    outbox.end();
    assert!(outbox.filled().await);
    assert_eq!(written(&outbox), HEARTBEAT_FRAME);
    assert!(!outbox.filled().await);
}
