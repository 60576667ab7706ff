//! How connections end: by the client, by us, by both, by the node.

use amqp::protocol::{AMQPClass, queue};
use broker_core::Refusal;

use super::client::{
    Closed, Said, connection_close, connection_close_ok, declare_queue, frame, look_for_queue,
};
use super::*;

fn exclusive(name: &str) -> AMQPClass {
    let declare = queue::Declare {
        queue: client::short(name),
        exclusive: true,
        ..queue::Declare::default()
    };
    AMQPClass::Queue(queue::AMQPMethod::Declare(declare))
}

#[tokio::test]
async fn exclusive_queues_are_gone_before_close_ok() {
    let world = World::new().await;
    let mut owner = world.open_channel().await;
    let mut other = world.open_channel().await;
    owner.say(1, exclusive("mine")).await;
    owner.method(1).await;
    owner.say(0, connection_close()).await;
    assert_eq!(owner.listen().await, Said::Method(0, connection_close_ok()));
    other.say(1, look_for_queue("mine")).await;
    assert_eq!(other.closed().await.code, 404);
}

#[tokio::test]
async fn exclusive_queues_of_a_client_that_vanished_are_deleted() {
    let world = World::new().await;
    let (mut owner, served) = world.connect();
    owner.handshake().await;
    owner.open_channel(1).await;
    owner.say(1, exclusive("mine")).await;
    owner.method(1).await;
    drop(owner);
    served.await.expect("the task ends by itself");
    let mut other = world.open_channel().await;
    other.say(1, look_for_queue("mine")).await;
    assert_eq!(other.closed().await.code, 404);
}

#[tokio::test]
async fn publishes_in_flight_count_when_the_connection_closes() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    client.declare(1, "q").await;
    let mut bytes = client.publish_bytes(1, "q", false, b"counts");
    amqp::encode_method(&mut bytes, 0, &connection_close());
    client.send(&bytes).await;
    assert_eq!(
        client.listen().await,
        Said::Method(0, connection_close_ok())
    );
    let mut other = world.open_channel().await;
    let said = other.get(1, "q").await;
    assert!(
        matches!(&said, Said::GetOk { body, .. } if body == b"counts"),
        "{said:?}"
    );
}

#[tokio::test]
async fn connection_closes_that_cross_are_both_answered() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    let mut bytes = Vec::new();
    // A method on a channel that is not open, then more frames, then the client's own close.
    amqp::encode_method(&mut bytes, 5, &declare_queue("q"));
    amqp::encode_method(&mut bytes, 1, &declare_queue("q"));
    amqp::encode_method(&mut bytes, 0, &connection_close());
    client.send(&bytes).await;
    assert_eq!(client.closed().await.code, 504);
    assert_eq!(
        client.listen().await,
        Said::Method(0, connection_close_ok())
    );
    assert_eq!(client.listen().await, Said::End);
}

#[tokio::test]
async fn after_a_broken_frame_nothing_more_is_read() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    let mut bytes = frame(9, 0, b"");
    amqp::encode_method(&mut bytes, 0, &connection_close());
    client.send(&bytes).await;
    assert_eq!(client.closed().await.code, 501);
    assert_eq!(client.listen().await, Said::End);
}

#[tokio::test]
async fn a_client_that_does_not_answer_our_close_is_dropped() {
    let world = World::new().await;
    let (mut client, served) = world.connect();
    client.handshake().await;
    client.say(5, declare_queue("q")).await;
    assert_eq!(client.closed().await.code, 504);
    tokio::time::pause();
    served.await.expect("the task ends by itself");
}

#[tokio::test]
async fn a_shutdown_is_told_to_every_connection() {
    let world = World::new().await;
    let (mut client, served) = world.connect();
    client.handshake().await;
    world.shutdown.cancel();
    assert_eq!(
        client.closed().await,
        Closed {
            channel: 0,
            code: 320,
            text: "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
                .to_owned(),
            at: (0, 0),
        }
    );
    client.say(0, connection_close_ok()).await;
    assert_eq!(client.listen().await, Said::End);
    served.await.expect("the task ends by itself");
}

#[tokio::test]
async fn an_operator_closes_connections_with_a_reason() {
    let world = World::new().await;
    let mut client = world.open().await;
    let reason = Refusal::ClosedByOperator {
        reason: "enough".into(),
    };
    world.context.broker.close_connections(reason);
    let closed = client.closed().await;
    assert_eq!(
        (closed.code, closed.text.as_str()),
        (320, "CONNECTION_FORCED - enough")
    );
}

#[tokio::test]
async fn a_server_on_a_socket_serves_and_stops() {
    let world = World::new().await;
    let Context {
        broker,
        authenticator,
        options,
        ..
    } = &*world.context;
    let address = "127.0.0.1:0".parse().expect("an address");
    let (broker, authenticator) = (broker.clone(), authenticator.clone());
    let server = crate::AmqpServer::bind(address, broker, authenticator, (**options).clone())
        .expect("a free port");
    let address = server.local_addr().expect("an address");
    let serving = tokio::spawn(server.serve(world.shutdown.clone()));
    let mut socket = tokio::net::TcpStream::connect(address)
        .await
        .expect("a connection");
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let copying = tokio::spawn(async move {
        let mut theirs = theirs;
        let _ = tokio::io::copy_bidirectional(&mut theirs, &mut socket).await;
    });
    let mut client = Client::new(ours);
    client.handshake().await;
    world.shutdown.cancel();
    assert_eq!(client.closed().await.code, 320);
    client.say(0, connection_close_ok()).await;
    assert_eq!(client.listen().await, Said::End);
    drop(client);
    copying.await.expect("copied");
    serving.await.expect("no panic").expect("no error");
    assert!(
        tokio::net::TcpStream::connect(address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn sockets_beyond_the_table_are_closed_at_once() {
    let world = World::new().await;
    let Context {
        broker,
        authenticator,
        options,
        ..
    } = &*world.context;
    let options = AmqpServerOptions {
        connections_max: 1,
        ..(**options).clone()
    };
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = crate::AmqpServer::bind(address, broker.clone(), authenticator.clone(), options)
        .expect("a free port");
    let address = server.local_addr().expect("an address");
    let serving = tokio::spawn(server.serve(world.shutdown.clone()));
    let first = tokio::net::TcpStream::connect(address)
        .await
        .expect("a connection");
    let second = tokio::net::TcpStream::connect(address)
        .await
        .expect("accepted by the kernel");
    second.readable().await.expect("readable");
    let end = second.try_read(&mut [0; 8]);
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    drop(first);
    world.shutdown.cancel();
    serving.await.expect("no panic").expect("no error");
}
