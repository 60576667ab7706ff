//! From the first byte to open-ok, and all the ways not to get there.

use amqp::protocol::{AMQPClass, connection};
use amqp::{PROTOCOL_HEADER, Table, Value};

use super::client::{Closed, Said, capabilities, channel_open, connection_close, frame};
use super::*;

/// The client hears nothing more.
async fn ends_silently(client: &mut Client) {
    assert_eq!(client.listen().await, Said::End);
}

#[tokio::test]
async fn a_good_handshake_opens_and_closes() {
    let world = World::new().await;
    let (mut client, served) = world.connect();
    client.handshake().await;
    client.close().await;
    served.await.expect("the task ends by itself");
}

#[tokio::test]
async fn other_protocols_hear_which_one_is_spoken() {
    let world = World::new().await;
    for header in [
        b"GET / HT",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"AMQP\x00\x00\x0a\x00",
    ] {
        let (mut client, served) = world.connect();
        client.send(header).await;
        assert_eq!(client.bytes(9).await, PROTOCOL_HEADER, "{header:?}");
        drop(client);
        served.await.expect("the task ends by itself");
    }
}

#[tokio::test]
async fn the_0_9_header_is_served() {
    let world = World::new().await;
    let (mut client, _) = world.connect();
    client.send(b"AMQP\x01\x01\x00\x09").await;
    let start = client.method(0).await;
    assert!(matches!(
        start,
        AMQPClass::Connection(connection::AMQPMethod::Start(_))
    ));
}

#[tokio::test]
async fn a_peer_that_leaves_within_the_header_is_forgotten() {
    let world = World::new().await;
    let (mut client, served) = world.connect();
    client.send(b"AMQ").await;
    client.end().await;
    ends_silently(&mut client).await;
    served.await.expect("the task ends by itself");
}

#[tokio::test]
async fn amqplain_logs_in() {
    let world = World::new().await;
    let mut login = Table::new();
    login.push("LOGIN", Value::from("guest"));
    login.push("PASSWORD", Value::from("guest"));
    let mut response = Vec::new();
    login.encode(&mut response);
    let (mut client, _) = world.connect();
    let tune = client.log_in("AMQPLAIN", &response, &Table::new()).await;
    assert_eq!((tune.channel_max, tune.frame_max), (2047, 131_072));
}

#[tokio::test]
async fn a_wrong_password_is_told_to_clients_that_can_bear_it() {
    let world = World::new().await;
    let (mut client, _) = world.connect();
    client
        .start_ok("PLAIN", b"\0guest\0wrong", &capabilities())
        .await;
    assert_eq!(
        client.closed().await,
        Closed {
            channel: 0,
            code: 403,
            text: "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. \
                   For details see the broker logfile."
                .to_owned(),
            at: (0, 0),
        }
    );
    ends_silently(&mut client).await;
}

#[tokio::test]
async fn other_login_failures_end_silently() {
    let world = World::new().await;
    for (mechanism, response, properties) in [
        ("PLAIN", &b"\0guest\0wrong"[..], Table::new()),
        ("PLAIN", b"guest", capabilities()),
        ("NONSENSE", b"\0guest\0guest", capabilities()),
    ] {
        let (mut client, _) = world.connect();
        client.start_ok(mechanism, response, &properties).await;
        ends_silently(&mut client).await;
    }
}

#[tokio::test]
async fn terms_outside_of_the_offer_are_named() {
    let world = World::new().await;
    for (channel_max, frame_max, text) in [
        (
            0,
            8192,
            "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
        (
            2048,
            8192,
            "channel_max = 2048 is higher than the maximum allowed value (2047)",
        ),
        (
            1,
            4095,
            "frame_max = 4095 is lower than the minimum allowed value (4096)",
        ),
        (
            1,
            131_073,
            "frame_max = 131073 is higher than the maximum allowed value (131072)",
        ),
        (
            1,
            0,
            "frame_max = 0 (no limit) is higher than the maximum allowed value (131072)",
        ),
    ] {
        let (mut client, _) = world.connect();
        client
            .log_in("PLAIN", b"\0guest\0guest", &capabilities())
            .await;
        client.tune_ok(channel_max, frame_max, 0).await;
        // Most clients send this in the same breath.
        client.open_vhost("/").await;
        let text = format!("NOT_ALLOWED - negotiated {text}");
        assert_eq!(
            client.closed().await,
            Closed {
                channel: 0,
                code: 530,
                text,
                at: (10, 31)
            }
        );
        ends_silently(&mut client).await;
    }
}

#[tokio::test]
async fn the_smallest_frame_size_of_the_protocol_is_accepted() {
    let world = World::new().await;
    let (mut client, _) = world.connect();
    client
        .log_in("PLAIN", b"\0guest\0guest", &capabilities())
        .await;
    client.tune_ok(10, 4096, 0).await;
    client.open_vhost("/").await;
    client.method(0).await;
    client.open_channel(1).await;
    client.declare(1, "q").await;
    let body = vec![3; 50_000];
    client.publish(1, "q", &body).await;
    // `get` checks that no frame is larger than was negotiated.
    let Said::GetOk { body: got, .. } = client.get(1, "q").await else {
        panic!("a message")
    };
    assert_eq!(got, body);
}

#[tokio::test]
async fn an_unknown_vhost_is_named() {
    let world = World::new().await;
    let (mut client, _) = world.connect();
    client
        .log_in("PLAIN", b"\0guest\0guest", &Table::new())
        .await;
    client.tune_ok(1, 8192, 0).await;
    client.open_vhost("nowhere").await;
    assert_eq!(
        client.closed().await,
        Closed {
            channel: 0,
            code: 530,
            text: "NOT_ALLOWED - vhost nowhere not found".to_owned(),
            at: (10, 40),
        }
    );
    client.say(0, client::connection_close_ok()).await;
    ends_silently(&mut client).await;
}

#[tokio::test]
async fn methods_out_of_order_end_silently() {
    let world = World::new().await;
    for bytes in [
        // channel.open, a heartbeat with payload, an oversized frame, an unknown class
        frame(1, 1, &[0, 20, 0, 10, 0]),
        frame(8, 0, b"x"),
        frame(1, 0, &[0; 8193]),
        frame(1, 0, &[1, 1, 0, 1]),
    ] {
        let (mut client, _) = world.connect();
        client.send(&PROTOCOL_HEADER).await;
        client.method(0).await;
        client.send(&bytes).await;
        ends_silently(&mut client).await;
    }
}

#[tokio::test]
async fn a_client_that_closes_before_it_opened_hears_close_ok() {
    let world = World::new().await;
    let (mut client, _) = world.connect();
    client
        .log_in("PLAIN", b"\0guest\0guest", &Table::new())
        .await;
    client.say(0, connection_close()).await;
    assert_eq!(
        client.listen().await,
        Said::Method(0, client::connection_close_ok())
    );
    ends_silently(&mut client).await;
}

#[tokio::test]
async fn methods_may_follow_open_in_the_same_breath() {
    let world = World::new().await;
    let (mut client, _) = world.connect();
    client
        .log_in("PLAIN", b"\0guest\0guest", &Table::new())
        .await;
    let mut bytes = Vec::new();
    let tune_ok = connection::TuneOk {
        channel_max: 1,
        frame_max: 8192,
        heartbeat: 0,
    };
    let open = connection::Open {
        virtual_host: "/".into(),
    };
    for method in [
        AMQPClass::Connection(connection::AMQPMethod::TuneOk(tune_ok)),
        AMQPClass::Connection(connection::AMQPMethod::Open(open)),
    ] {
        amqp::encode_method(&mut bytes, 0, &method);
    }
    amqp::encode_method(&mut bytes, 1, &channel_open());
    client.send(&bytes).await;
    client.method(0).await;
    assert_eq!(
        client.listen().await,
        Said::Method(1, client::channel_open_ok())
    );
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_dropped_in_time() {
    let world = World::new().await;
    let (mut silent, _) = world.connect();
    let (mut half, _) = world.connect();
    half.send(&PROTOCOL_HEADER).await;
    half.method(0).await;
    // From here on only the clock moves.
    tokio::time::pause();
    ends_silently(&mut silent).await;
    ends_silently(&mut half).await;
}
