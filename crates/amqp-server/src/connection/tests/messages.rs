//! Messages in and out: contents in every shape, answers in their order.

use amqp::protocol::{AMQPClass, access, basic, confirm, connection, queue};
use amqp::protocol_types::LongString;

use super::client::{Closed, Said, channel_close_ok, consume, declare_queue, frame, short};
use super::*;

fn get_ok(said: Said) -> Vec<u8> {
    match said {
        Said::GetOk { body, .. } => body,
        other => panic!("a message is due, not {other:?}"),
    }
}

#[tokio::test]
async fn bodies_of_every_size_come_back_whole() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.declare(1, "q").await;
    // Around the frame size, the shared size and the read size.
    for size in [
        0, 1, 8191, 8192, 131_063, 131_064, 131_065, 300_000, 1_000_000,
    ] {
        let body: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        client.publish(1, "q", &body).await;
        assert_eq!(get_ok(client.get(1, "q").await), body, "{size} bytes");
    }
    let said = client.get(1, "q").await;
    let empty = AMQPClass::Basic(basic::AMQPMethod::GetEmpty(basic::GetEmpty {}));
    assert_eq!(said, Said::Method(1, empty));
}

#[tokio::test]
async fn contents_of_several_channels_may_be_interleaved() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.open_channel(2).await;
    client.declare(1, "q").await;
    let one = client.publish_bytes(1, "q", false, b"one");
    let two = client.publish_bytes(2, "q", false, b"two");
    let cut = |bytes: &[u8]| {
        let decoder = amqp::FrameDecoder::new(0);
        let mut frames = Vec::new();
        let mut at = 0;
        while let Some((_, used)) = decoder.next(&bytes[at..]).expect("good frames") {
            frames.push(bytes[at..at + used].to_vec());
            at += used;
        }
        frames
    };
    let mixed: Vec<u8> = cut(&one)
        .into_iter()
        .zip(cut(&two))
        .flat_map(|(one, two)| [one, two].concat())
        .collect();
    client.send(&mixed).await;
    client.declare(2, "done").await;
    let mut bodies = [
        get_ok(client.get(1, "q").await),
        get_ok(client.get(1, "q").await),
    ];
    bodies.sort();
    assert_eq!(bodies, [b"one".to_vec(), b"two".to_vec()]);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_only_when_it_has_come() {
    let world = World::with(AmqpServerOptions {
        max_message_size: 1000,
        ..quick()
    })
    .await;
    let mut client = world.open_channel().await;
    client.declare(1, "q").await;
    // basic.publish and a header that announces 1001 bytes, then the body in two frames.
    client
        .send(&frame(1, 1, b"\0\x3c\0\x28\0\0\0\x01q\0"))
        .await;
    client
        .send(&frame(
            2,
            1,
            &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0xe9, 0, 0],
        ))
        .await;
    client.send(&frame(3, 1, &[0; 1000])).await;
    client.open_channel(2).await;
    client.send(&frame(3, 1, &[0])).await;
    assert_eq!(
        client.closed().await,
        Closed {
            channel: 1,
            code: 406,
            text: "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
                .to_owned(),
            at: (60, 40),
        }
    );
    client.say(1, channel_close_ok()).await;
    client.open_channel(1).await;
    client.publish(1, "q", &[7; 1000]).await;
    assert_eq!(get_ok(client.get(1, "q").await), [7; 1000]);
}

#[tokio::test]
async fn consume_ok_comes_before_the_first_delivery() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.declare(1, "q").await;
    for body in 0..10_u8 {
        client.publish(1, "q", &[body]).await;
    }
    client.consume(1, "q", "tag").await;
    for body in 0..10_u8 {
        let expected = Said::Deliver {
            channel: 1,
            consumer_tag: "tag".to_owned(),
            delivery_tag: u64::from(body) + 1,
            redelivered: false,
            body: vec![body],
        };
        assert_eq!(client.listen().await, expected);
    }
}

#[tokio::test]
async fn a_return_comes_before_its_confirm() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    let select = confirm::Select { nowait: false };
    client
        .say(1, AMQPClass::Confirm(confirm::AMQPMethod::Select(select)))
        .await;
    client.method(1).await;
    let bytes = client.publish_bytes(1, "nowhere", true, b"back");
    client.send(&bytes).await;
    let returned = Said::Return {
        channel: 1,
        code: 312,
        text: "NO_ROUTE".to_owned(),
        body: b"back".to_vec(),
    };
    assert_eq!(client.listen().await, returned);
    let ack = Said::Ack {
        channel: 1,
        delivery_tag: 1,
        multiple: false,
    };
    assert_eq!(client.listen().await, ack);
}

#[tokio::test]
async fn every_publish_of_a_burst_is_confirmed() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.declare(1, "q").await;
    let select = confirm::Select { nowait: true };
    client
        .say(1, AMQPClass::Confirm(confirm::AMQPMethod::Select(select)))
        .await;
    let burst: Vec<u8> = (0..5000)
        .flat_map(|_| client.publish_bytes(1, "q", false, b"0123456789abcdef"))
        .collect();
    client.send(&burst).await;
    let mut confirmed = 0;
    while confirmed < 5000 {
        match client.listen().await {
            Said::Ack {
                delivery_tag,
                multiple: true,
                ..
            } => confirmed = delivery_tag,
            Said::Ack {
                multiple: false, ..
            } => confirmed += 1,
            other => panic!("confirms are due, not {other:?}"),
        }
    }
    assert_eq!(confirmed, 5000);
}

#[tokio::test]
async fn a_duplicate_consumer_tag_ends_the_connection() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.declare(1, "q").await;
    client.consume(1, "q", "a").await;
    client.say(1, consume("q", "a")).await;
    let closed = client.closed().await;
    assert_eq!((closed.channel, closed.code), (0, 530));
    assert_eq!(
        closed.text,
        "NOT_ALLOWED - attempt to reuse consumer tag 'a'"
    );
}

#[tokio::test]
async fn nowait_is_carried_out_and_not_answered() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    let declare = queue::Declare {
        queue: short("quiet"),
        nowait: true,
        ..queue::Declare::default()
    };
    client
        .say(1, AMQPClass::Queue(queue::AMQPMethod::Declare(declare)))
        .await;
    client.publish(1, "quiet", b"there").await;
    assert_eq!(get_ok(client.get(1, "quiet").await), b"there");
}

#[tokio::test]
async fn line_ends_are_taken_out_of_queue_names() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.say(1, declare_queue("cr\r\nlf")).await;
    match client.method(1).await {
        AMQPClass::Queue(queue::AMQPMethod::DeclareOk(declared)) => {
            assert_eq!(declared.queue.as_str(), "crlf");
        }
        other => panic!("queue.declare-ok is due, not {other:?}"),
    }
}

#[tokio::test]
async fn an_unknown_delivery_tag_closes_the_channel() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    // ack, nack and reject of tag 5
    for method in [80, 120, 90] {
        client
            .send(&frame(1, 1, &[0, 60, 0, method, 0, 0, 0, 0, 0, 0, 0, 5, 0]))
            .await;
        assert_eq!(
            client.closed().await,
            Closed {
                channel: 1,
                code: 406,
                text: "PRECONDITION_FAILED - unknown delivery tag 5".to_owned(),
                at: (60, method.into()),
            }
        );
        client.say(1, channel_close_ok()).await;
        client.open_channel(1).await;
    }
}

#[tokio::test]
async fn relics_and_extensions_are_answered() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    let request = access::Request {
        realm: short("/data"),
        ..access::Request::default()
    };
    client
        .say(1, AMQPClass::Access(access::AMQPMethod::Request(request)))
        .await;
    let request_ok = AMQPClass::Access(access::AMQPMethod::RequestOk(access::RequestOk {}));
    assert_eq!(client.listen().await, Said::Method(1, request_ok));
    let update = connection::UpdateSecret {
        new_secret: LongString::from("secret"),
        reason: short("because"),
    };
    client
        .say(
            0,
            AMQPClass::Connection(connection::AMQPMethod::UpdateSecret(update)),
        )
        .await;
    let updated = connection::AMQPMethod::UpdateSecretOk(connection::UpdateSecretOk {});
    assert_eq!(
        client.listen().await,
        Said::Method(0, AMQPClass::Connection(updated))
    );
}
