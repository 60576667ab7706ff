//! Frames, methods and contents that are wrong: the right close, and nothing else is harmed.

use amqp::protocol::{AMQPClass, basic, confirm, connection, tx};

use super::client::{
    Closed, Said, channel_close_ok, channel_open, connection_close_ok, declare_queue, frame,
};
use super::*;

fn method_bytes(channel: u16, method: &AMQPClass) -> Vec<u8> {
    let mut bytes = Vec::new();
    amqp::encode_method(&mut bytes, channel, method);
    bytes
}

/// Payload of basic.publish to exchange `x` with key `k`.
const PUBLISH: &[u8] = b"\0\x3c\0\x28\0\0\x01x\x01k\0";

/// basic.publish on channel 1, followed by these frames.
fn publish_then(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = frame(1, 1, PUBLISH);
    bytes.extend(frames.concat());
    bytes
}

fn header(class: u8, weight: u8, size: u64, properties: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, class, 0, weight];
    payload.extend_from_slice(&size.to_be_bytes());
    payload.extend_from_slice(properties);
    frame(2, 1, &payload)
}

/// Sends bytes on a connection with channel 1 open; answers the close of the connection.
async fn close_after(world: &World, bytes: &[u8]) -> Closed {
    let mut client = world.open_channel().await;
    client.send(bytes).await;
    let closed = client.closed().await;
    assert_eq!(closed.channel, 0);
    client.say(0, connection_close_ok()).await;
    assert_eq!(client.listen().await, Said::End);
    closed
}

/// What it is, the bytes, and the close they draw: code, text, class and method.
type Case = (&'static str, Vec<u8>, u16, &'static str, (u16, u16));

async fn check(cases: &[Case]) {
    let world = World::new().await;
    for (what, bytes, code, text, at) in cases {
        let closed = close_after(&world, bytes).await;
        let expected = Closed {
            channel: 0,
            code: *code,
            text: (*text).to_owned(),
            at: *at,
        };
        assert_eq!(closed, expected, "{what}");
    }
    // Nothing of this has harmed anybody else.
    let mut client = world.open_channel().await;
    client.declare(1, "still-served").await;
    client.close().await;
}

#[tokio::test]
async fn broken_frames_are_frame_errors() {
    let mut wrong_end = frame(8, 0, b"");
    wrong_end[7] = 0;
    check(&[
        (
            "too large, judged by its head alone",
            vec![3, 0, 1, 0, 2, 0, 1],
            501,
            "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}",
            (0, 0),
        ),
        (
            "four gigabytes announced",
            vec![1, 0, 1, 255, 255, 255, 255],
            501,
            "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4294967295,131064}",
            (0, 0),
        ),
        (
            "wrong end octet",
            wrong_end,
            501,
            "FRAME_ERROR - type 8, all octets = <<>>: {invalid_frame_end_marker,0}",
            (0, 0),
        ),
        (
            "unknown type",
            frame(9, 1, b"abc"),
            501,
            "FRAME_ERROR - type 9, all octets = <<\"abc\">>: unknown_frame",
            (0, 0),
        ),
        (
            "heartbeat with payload",
            frame(8, 0, b"x"),
            501,
            "FRAME_ERROR - type 8, all octets = <<\"x\">>: unknown_frame",
            (0, 0),
        ),
        (
            "heartbeat on a channel",
            frame(8, 1, b""),
            505,
            "UNEXPECTED_FRAME - type 8, all octets = <<>>",
            (0, 0),
        ),
        (
            "body on channel 0",
            frame(3, 0, b"\0\x01"),
            505,
            "UNEXPECTED_FRAME - type 3, all octets = <<0,1>>",
            (0, 0),
        ),
    ])
    .await;
}

#[tokio::test]
async fn contents_out_of_order_are_unexpected_frames() {
    const NOT_A_HEADER: &str = "UNEXPECTED_FRAME - expected content header for class 60, \
                                got non content header frame instead";
    const NOT_A_BODY: &str =
        "UNEXPECTED_FRAME - expected content body, got non content body frame instead";
    let qos = frame(1, 1, &[0, 60, 0, 10, 0, 0, 0, 0, 0, 1, 0]);
    check(&[
        (
            "a body without a publish",
            frame(3, 1, b"abc"),
            505,
            "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
            (0, 0),
        ),
        (
            "a header of another class",
            publish_then(&[header(50, 0, 1, &[0, 0])]),
            505,
            "UNEXPECTED_FRAME - expected content header for class 60, \
             got one for class 50 instead",
            (60, 40),
        ),
        (
            "a header with weight",
            publish_then(&[header(60, 1, 1, &[0, 0])]),
            505,
            NOT_A_HEADER,
            (60, 40),
        ),
        (
            "a method for a header",
            publish_then(std::slice::from_ref(&qos)),
            505,
            NOT_A_HEADER,
            (60, 40),
        ),
        (
            "a body for a header",
            publish_then(&[frame(3, 1, b"abc")]),
            505,
            NOT_A_HEADER,
            (60, 40),
        ),
        (
            "a method for a body",
            publish_then(&[header(60, 0, 1, &[0, 0]), qos]),
            505,
            NOT_A_BODY,
            (60, 40),
        ),
        (
            "a header for a body",
            publish_then(&[header(60, 0, 1, &[0, 0]), header(60, 0, 1, &[0, 0])]),
            505,
            NOT_A_BODY,
            (60, 40),
        ),
        (
            "more body than announced",
            publish_then(&[header(60, 0, 2, &[0, 0]), frame(3, 1, b"abc")]),
            501,
            "FRAME_ERROR - content body frame exceeds remaining content size",
            (60, 40),
        ),
        (
            "more announced than the protocol's ceiling",
            publish_then(&[header(60, 0, (512 << 20) + 1, &[0, 0])]),
            501,
            "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912",
            (60, 40),
        ),
        (
            "malformed properties",
            publish_then(&[header(60, 0, 0, &[0, 1])]),
            541,
            "INTERNAL_ERROR",
            (0, 0),
        ),
    ])
    .await;
}

#[tokio::test]
async fn methods_that_cannot_be_read_are_frame_errors() {
    check(&[
        (
            "unknown method of a known class",
            frame(1, 1, &[0, 60, 0, 200]),
            501,
            "FRAME_ERROR - cannot decode <<>>",
            (60, 200),
        ),
        (
            "cut arguments",
            frame(1, 1, &[0, 60, 0, 20, 0]),
            501,
            "FRAME_ERROR - cannot decode <<0>>",
            (60, 20),
        ),
        (
            "cut arguments on channel 0",
            frame(1, 0, &[0, 10, 0, 40, 5]),
            541,
            "INTERNAL_ERROR",
            (0, 0),
        ),
        (
            "a routing key that is no text",
            frame(1, 1, b"\0\x3c\0\x28\0\0\x01x\x02\xff\xfe\0"),
            501,
            "FRAME_ERROR - Malformed UTF-8 in shortstr",
            (0, 0),
        ),
    ])
    .await;
}

#[tokio::test]
async fn methods_in_the_wrong_state_are_refused() {
    const NOT_OPEN: &str = "CHANNEL_ERROR - expected 'channel.open'";
    const UNIMPLEMENTED: &str = "COMMAND_INVALID - unimplemented method";
    const WRONG_STATE: &str = "CHANNEL_ERROR - unexpected method in connection state running";
    let open = connection::Open {
        virtual_host: "/".into(),
    };
    let open = AMQPClass::Connection(connection::AMQPMethod::Open(open));
    let get_empty = AMQPClass::Basic(basic::AMQPMethod::GetEmpty(basic::GetEmpty {}));
    let select_ok = AMQPClass::Confirm(confirm::AMQPMethod::SelectOk(confirm::SelectOk {}));
    let commit_ok = AMQPClass::Tx(tx::AMQPMethod::CommitOk(tx::CommitOk {}));
    check(&[
        (
            "on a closed channel",
            method_bytes(2, &declare_queue("q")),
            504,
            NOT_OPEN,
            (50, 10),
        ),
        (
            "publish on a closed channel",
            frame(1, 2, PUBLISH),
            504,
            NOT_OPEN,
            (60, 40),
        ),
        (
            "close-ok on a closed channel",
            method_bytes(2, &channel_close_ok()),
            504,
            NOT_OPEN,
            (20, 41),
        ),
        (
            "second open",
            method_bytes(1, &channel_open()),
            504,
            "CHANNEL_ERROR - second 'channel.open' seen",
            (20, 10),
        ),
        (
            "second connection.open",
            method_bytes(0, &open),
            504,
            WRONG_STATE,
            (10, 40),
        ),
        (
            "a queue method on channel 0",
            method_bytes(0, &declare_queue("q")),
            504,
            WRONG_STATE,
            (50, 10),
        ),
        (
            "publish on channel 0",
            frame(1, 0, PUBLISH),
            504,
            WRONG_STATE,
            (60, 40),
        ),
        (
            "connection.open on a channel",
            method_bytes(1, &open),
            503,
            UNIMPLEMENTED,
            (10, 40),
        ),
        (
            "basic.get-empty",
            method_bytes(1, &get_empty),
            503,
            UNIMPLEMENTED,
            (60, 72),
        ),
        (
            "confirm.select-ok",
            method_bytes(1, &select_ok),
            503,
            UNIMPLEMENTED,
            (85, 11),
        ),
        (
            "tx.commit-ok",
            method_bytes(1, &commit_ok),
            503,
            UNIMPLEMENTED,
            (90, 21),
        ),
        (
            "close-ok unasked",
            method_bytes(1, &channel_close_ok()),
            503,
            UNIMPLEMENTED,
            (20, 41),
        ),
        (
            "flow-ok unasked",
            frame(1, 1, &[0, 20, 0, 21, 1]),
            503,
            UNIMPLEMENTED,
            (20, 21),
        ),
        (
            "basic.deliver",
            frame(1, 1, b"\0\x3c\0\x3c\x01t\0\0\0\0\0\0\0\x01\0\0\0"),
            503,
            UNIMPLEMENTED,
            (60, 60),
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_the_broker_does_not_do_is_not_implemented() {
    check(&[
        (
            "immediate",
            publish_immediate(),
            540,
            "NOT_IMPLEMENTED - immediate=true",
            (60, 40),
        ),
        (
            "prefetch by size",
            frame(1, 1, &[0, 60, 0, 10, 0, 0, 0, 1, 0, 0, 0]),
            540,
            "NOT_IMPLEMENTED - prefetch_size!=0 (1)",
            (60, 10),
        ),
        (
            "recover without requeue",
            frame(1, 1, &[0, 60, 0, 110, 0]),
            540,
            "NOT_IMPLEMENTED - requeue=false",
            (60, 110),
        ),
    ])
    .await;
}

fn publish_immediate() -> Vec<u8> {
    let mut bytes = frame(1, 1, b"\0\x3c\0\x28\0\0\0\x01k\x02");
    bytes.extend(header(60, 0, 0, &[0, 0]));
    bytes
}

#[tokio::test]
async fn an_unknown_class_ends_without_a_word() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.send(&frame(1, 1, &[1, 0, 0, 1])).await;
    assert_eq!(client.listen().await, Said::End);
}

#[tokio::test]
async fn frames_cut_anywhere_are_put_together_again() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    let mut bytes = method_bytes(1, &declare_queue("q"));
    bytes.extend(client.publish_bytes(1, "q", false, b"in pieces"));
    for octet in bytes {
        client.send(&[octet]).await;
        tokio::task::yield_now().await;
    }
    client.method(1).await;
    let Said::GetOk { body, .. } = client.get(1, "q").await else {
        panic!("a message")
    };
    assert_eq!(body, b"in pieces");
}

#[tokio::test]
async fn a_conversation_that_breaks_off_anywhere_ends_its_task() {
    let world = World::new().await;
    let (client, _) = world.connect();
    let mut bytes = method_bytes(1, &declare_queue("cut"));
    bytes.extend(client.publish_bytes(1, "cut", false, b"body"));
    for end in 0..=bytes.len() {
        let (mut client, served) = world.connect();
        client.handshake().await;
        client.open_channel(1).await;
        client.send(&bytes[..end]).await;
        client.end().await;
        drop(client);
        served.await.expect("the task ends by itself");
    }
}

#[tokio::test]
async fn garbage_ends_only_its_own_connection() {
    let world = World::new().await;
    let mut bystander = world.open_channel().await;
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..200 {
        let mut garbage = Vec::new();
        for _ in 0..64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            garbage.extend_from_slice(&random.to_le_bytes());
        }
        if round % 2 == 0 {
            // A good envelope round nonsense reaches deeper.
            garbage = frame(
                1,
                1,
                &[&[0, [10, 20, 40, 50, 60][round / 2 % 5], 0], &garbage[..40]].concat(),
            );
        }
        let (mut client, served) = world.connect();
        client.handshake().await;
        client.open_channel(1).await;
        client.send(&garbage).await;
        client.end().await;
        while client.listen().await != Said::End {}
        served.await.expect("no panic");
    }
    bystander.declare(1, "unharmed").await;
}
