//! Opening and closing of channels, from both sides at once if need be.

use amqp::protocol::{AMQPClass, channel};

use super::client::{
    Closed, Said, capabilities, channel_close, channel_close_ok, channel_open, channel_open_ok,
    look_for_queue,
};
use super::*;

/// Makes the server close channel 1.
async fn provoke(client: &mut Client) {
    client.say(1, look_for_queue("nope")).await;
    assert_eq!(
        client.closed().await,
        Closed {
            channel: 1,
            code: 404,
            text: "NOT_FOUND - no queue 'nope' in vhost '/'".to_owned(),
            at: (50, 10),
        }
    );
}

#[tokio::test]
async fn a_closed_channel_hears_nothing_until_close_ok() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.declare(1, "q").await;
    // All of this was under way when the channel was closed: a declaration, a publish with
    // its content, half a content.
    let mut bytes = Vec::new();
    amqp::encode_method(&mut bytes, 1, &look_for_queue("nope"));
    amqp::encode_method(&mut bytes, 1, &look_for_queue("neither"));
    bytes.extend(client.publish_bytes(1, "q", false, b"lost"));
    bytes.extend(&client.publish_bytes(1, "q", false, b"lost")[..40]);
    let rest = client.publish_bytes(1, "q", false, b"lost").split_off(40);
    client.send(&bytes).await;
    assert_eq!(client.closed().await.code, 404);
    client.send(&rest).await;
    client.say(1, channel_close_ok()).await;
    client.open_channel(1).await;
    let answer = client.get(1, "q").await;
    assert!(
        matches!(answer, Said::Method(1, AMQPClass::Basic(_))),
        "nothing arrived: {answer:?}"
    );
}

#[tokio::test]
async fn other_channels_go_on_when_one_is_closed() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.open_channel(2).await;
    provoke(&mut client).await;
    client.declare(2, "q").await;
}

#[tokio::test]
async fn a_channel_is_opened_again_right_after_its_close() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    let mut bytes = Vec::new();
    amqp::encode_method(&mut bytes, 1, &channel_close());
    amqp::encode_method(&mut bytes, 1, &channel_open());
    client.send(&bytes).await;
    assert_eq!(client.listen().await, Said::Method(1, channel_close_ok()));
    assert_eq!(client.listen().await, Said::Method(1, channel_open_ok()));
}

#[tokio::test]
async fn closes_that_cross_are_both_answered() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    let mut bytes = Vec::new();
    amqp::encode_method(&mut bytes, 1, &look_for_queue("nope"));
    amqp::encode_method(&mut bytes, 1, &channel_close());
    client.send(&bytes).await;
    assert_eq!(client.closed().await.code, 404);
    assert_eq!(client.listen().await, Said::Method(1, channel_close_ok()));
    client.say(1, channel_close_ok()).await;
    client.open_channel(1).await;
}

#[tokio::test]
async fn after_crossed_closes_a_late_close_ok_does_no_harm() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    provoke(&mut client).await;
    client.say(1, channel_close()).await;
    assert_eq!(client.listen().await, Said::Method(1, channel_close_ok()));
    client.open_channel(1).await;
    client.say(1, channel_close_ok()).await;
    client.declare(1, "alive").await;
}

#[tokio::test]
async fn channel_max_counts_channels_and_not_numbers() {
    let world = World::new().await;
    let (mut client, _) = world.connect();
    client
        .log_in("PLAIN", b"\0guest\0guest", &capabilities())
        .await;
    client.tune_ok(2, 8192, 0).await;
    client.open_vhost("/").await;
    client.method(0).await;
    client.open_channel(65_535).await;
    client.open_channel(7).await;
    client.say(7, channel_close()).await;
    assert_eq!(client.listen().await, Said::Method(7, channel_close_ok()));
    client.open_channel(8).await;
    client.say(9, channel_open()).await;
    assert_eq!(
        client.closed().await,
        Closed {
            channel: 0,
            code: 530,
            text: "NOT_ALLOWED - number of channels opened (2) has reached the negotiated \
                   channel_max (2)"
                .to_owned(),
            at: (0, 0),
        }
    );
}

#[tokio::test]
async fn a_client_pauses_and_resumes_its_deliveries() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.open_channel(2).await;
    client.declare(1, "q").await;
    client.consume(1, "q", "tag").await;
    for active in [false, true] {
        let flow = channel::Flow { active };
        client
            .say(1, AMQPClass::Channel(channel::AMQPMethod::Flow(flow)))
            .await;
        let flow_ok = channel::FlowOk { active };
        let flow_ok = AMQPClass::Channel(channel::AMQPMethod::FlowOk(flow_ok));
        assert_eq!(client.listen().await, Said::Method(1, flow_ok));
        if !active {
            client.publish(2, "q", b"held").await;
            // The answer tells that the publish was handled; no delivery came before it.
            client.declare(2, "other").await;
        }
    }
    let said = client.listen().await;
    assert!(matches!(said, Said::Deliver { channel: 1, .. }), "{said:?}");
}

#[tokio::test]
async fn a_client_flow_may_be_refused_as_rabbitmq_does() {
    let world = World::with(AmqpServerOptions {
        obeys_client_flow: false,
        ..quick()
    })
    .await;
    let mut client = world.open_channel().await;
    let flow = |active| AMQPClass::Channel(channel::AMQPMethod::Flow(channel::Flow { active }));
    client.say(1, flow(true)).await;
    let flow_ok = channel::AMQPMethod::FlowOk(channel::FlowOk { active: true });
    assert_eq!(
        client.listen().await,
        Said::Method(1, AMQPClass::Channel(flow_ok))
    );
    client.say(1, flow(false)).await;
    assert_eq!(
        client.closed().await,
        Closed {
            channel: 0,
            code: 540,
            text: "NOT_IMPLEMENTED - active=false".to_owned(),
            at: (20, 20),
        }
    );
}
