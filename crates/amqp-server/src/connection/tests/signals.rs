//! What the broker wants of a connection, and clients that do not listen.

use amqp::protocol::{AMQPClass, channel, connection};
use amqp::{FrameDecoder, Method, Table, Value};
use broker::{SessionOptions, Signal};
use broker_core::Refusal;
use bytes::Buf;

use super::client::{Said, capabilities, frame};
use super::*;
use crate::client_traits::ClientTraits;
use crate::ending::End;
use crate::handshake::Tuned;
use crate::out_buffer::OutBuffer;
use crate::outbox::FrameOutbox;
use crate::serving::Serving;

/// A connection without a socket, with channel 1 open.
struct Bare {
    serving: Serving,
    outbox: Arc<FrameOutbox>,
}

impl Bare {
    async fn new(world: &World, properties: &Table) -> Self {
        let tuned = Tuned {
            channel_max: 10,
            frame_max: 8192,
            heartbeat_s: 0,
        };
        let outbox = Arc::new(FrameOutbox::new(tuned.frame_max));
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5672);
        let session = world
            .context
            .broker
            .open_session(SessionOptions {
                user: UserName::new("guest"),
                vhost: VhostName::new("/"),
                peer: address,
                local: address,
                client_properties: properties.clone(),
                outbox: outbox.clone(),
                channel_max: tuned.channel_max,
                frame_max: tuned.frame_max,
                heartbeat_s: tuned.heartbeat_s,
                mechanism: "PLAIN".to_owned(),
                tls: None,
            })
            .expect("a session");
        let traits = ClientTraits::of(properties);
        let options = &world.context.options;
        let serving = Serving::new(Arc::new(session), outbox.clone(), tuned, traits, options);
        let mut bare = Self { serving, outbox };
        bare.hear(&frame(1, 1, &[0, 20, 0, 10, 0]))
            .await
            .expect("channel.open");
        bare.said();
        bare
    }

    async fn hear(&mut self, bytes: &[u8]) -> Result<(), End> {
        let (used, outcome) = self.serving.frames(bytes).await;
        assert_eq!(used, bytes.len());
        outcome
    }

    /// The methods that were said since the last time.
    fn said(&self) -> Vec<AMQPClass> {
        let mut turn = OutBuffer::default();
        self.outbox.swap(&mut turn);
        let bytes = turn.copy_to_bytes(turn.remaining());
        let decoder = FrameDecoder::new(0);
        let mut said = Vec::new();
        let mut at = 0;
        while let Some((frame, used)) = decoder.next(&bytes[at..]).expect("good frames") {
            at += used;
            match Method::decode(frame.payload).expect("a good method") {
                Method::Other(other) => said.push(other.call),
                other => panic!("nothing of the kind is said here: {other:?}"),
            }
        }
        said
    }
}

#[tokio::test]
async fn blocked_and_unblocked_are_said_once_each_to_clients_that_know_them() {
    let world = World::new().await;
    let mut bare = Bare::new(&world, &capabilities()).await;
    for reason in ["low on memory", "low on disk & memory"] {
        bare.serving
            .signal(Signal::Blocked(reason.to_owned()))
            .await
            .expect("goes on");
    }
    assert!(bare.serving.is_blocked());
    let blocked = connection::Blocked {
        reason: "low on memory".into(),
    };
    let blocked = AMQPClass::Connection(connection::AMQPMethod::Blocked(blocked));
    assert_eq!(bare.said(), [blocked]);
    for _ in 0..2 {
        bare.serving
            .signal(Signal::Unblocked)
            .await
            .expect("goes on");
    }
    let unblocked = connection::AMQPMethod::Unblocked(connection::Unblocked {});
    assert_eq!(bare.said(), [AMQPClass::Connection(unblocked)]);
    assert!(!bare.serving.is_blocked());
}

#[tokio::test]
async fn clients_without_the_capability_hear_nothing_of_alarms() {
    let world = World::new().await;
    let mut bare = Bare::new(&world, &Table::new()).await;
    bare.serving
        .signal(Signal::Blocked("low on disk".to_owned()))
        .await
        .expect("goes on");
    assert!(
        bare.serving.is_blocked(),
        "its heartbeats are not judged all the same"
    );
    bare.serving
        .signal(Signal::Unblocked)
        .await
        .expect("goes on");
    assert_eq!(bare.said(), []);
}

#[tokio::test]
async fn one_flow_ok_is_taken_for_a_flow_of_ours() {
    let world = World::new().await;
    let mut bare = Bare::new(&world, &Table::new()).await;
    bare.serving
        .signal(Signal::Flow {
            channel: 1,
            active: false,
        })
        .await
        .expect("goes on");
    let flow = channel::AMQPMethod::Flow(channel::Flow { active: false });
    assert_eq!(bare.said(), [AMQPClass::Channel(flow)]);
    // Some clients answer with the opposite.
    let flow_ok = frame(1, 1, &[0, 20, 0, 21, 1]);
    bare.hear(&flow_ok).await.expect("the answer");
    let end = bare.hear(&flow_ok).await.expect_err("an answer to nothing");
    assert!(end.to_string().starts_with("503 "), "{end}");
}

#[tokio::test]
async fn flows_that_follow_each_other_faster_than_their_answers_are_each_answered_once() {
    let world = World::new().await;
    let mut bare = Bare::new(&world, &Table::new()).await;
    let turns = [false, true, false];
    for active in turns {
        let flow = Signal::Flow { channel: 1, active };
        bare.serving.signal(flow).await.expect("goes on");
    }
    for active in turns {
        let flow_ok = frame(1, 1, &[0, 20, 0, 21, u8::from(active)]);
        bare.hear(&flow_ok).await.expect("an answer");
    }
    let more = frame(1, 1, &[0, 20, 0, 21, 1]);
    let end = bare.hear(&more).await.expect_err("an answer to nothing");
    assert!(end.to_string().starts_with("503 "), "{end}");
}

#[tokio::test]
async fn an_echoed_flow_is_no_wish_of_the_client() {
    let world = World::new().await;
    let mut php = Table::new();
    php.push("product", Value::from("AMQPLib"));
    php.push("platform", Value::from("PHP"));
    let mut bare = Bare::new(&world, &php).await;
    bare.serving
        .signal(Signal::Flow {
            channel: 1,
            active: false,
        })
        .await
        .expect("goes on");
    bare.said();
    bare.hear(&frame(1, 1, &[0, 20, 0, 20, 0]))
        .await
        .expect("the echo");
    assert_eq!(bare.said(), [], "an echo is not answered");
}

#[tokio::test]
async fn a_late_close_of_a_channel_that_is_gone_is_forgotten() {
    let world = World::new().await;
    let mut bare = Bare::new(&world, &Table::new()).await;
    let refusal = || Refusal::UnknownDeliveryTag { tag: 1 };
    bare.serving
        .signal(Signal::CloseChannel {
            number: 7,
            refusal: refusal(),
        })
        .await
        .expect("goes on");
    assert_eq!(bare.said(), []);
    bare.serving
        .signal(Signal::CloseChannel {
            number: 1,
            refusal: refusal(),
        })
        .await
        .expect("goes on");
    assert_eq!(bare.said().len(), 1, "channel.close");
}

/// basic.publish, mandatory, to a queue that does not exist: comes back as a return.
fn unroutable(client: &Client) -> Vec<u8> {
    client.publish_bytes(1, "nowhere", true, &vec![5; 100_000])
}

#[tokio::test]
async fn a_client_that_reads_late_gets_everything() {
    let world = World::new().await;
    let mut client = world.open_channel().await;
    // More than what stops the reading, so that reading must stop and go on.
    const COUNT: usize = 300;
    let publish = unroutable(&client);
    // The clock moves when nothing else does: when the pipe is full and nobody reads.
    tokio::time::pause();
    let mut sent = 0;
    while sent < COUNT {
        let send = client.send(&publish);
        match tokio::time::timeout(std::time::Duration::from_millis(500), send).await {
            Ok(()) => sent += 1,
            Err(_) => break,
        }
    }
    assert!(sent > 100 && sent < COUNT, "reading stops: {sent} sent");
    // The last publish is cut somewhere; those before come back.
    for _ in 0..sent {
        let said = client.listen().await;
        assert!(matches!(said, Said::Return { .. }), "{said:?}");
    }
}

#[tokio::test]
async fn a_client_that_never_reads_is_dropped() {
    let world = World::new().await;
    let (mut client, served) = world.connect();
    client.handshake().await;
    client.open_channel(1).await;
    let publish = unroutable(&client);
    let publishing = tokio::spawn(async move {
        while !client.is_cut() {
            client.send(&publish).await;
        }
    });
    // The clock moves when nothing else does: when the pipe is full and nobody reads.
    tokio::time::pause();
    served.await.expect("the task ends by itself");
    publishing
        .await
        .expect("the client finds its socket closed");
}

#[tokio::test]
async fn a_client_that_publishes_faster_than_it_may_waits_and_stays() {
    let world = World::new().await;
    let broker = world.context.broker.clone();
    let change = broker_core::metadata::MetadataChange::SetUserLimit {
        user: UserName::new("guest"),
        name: "max-publish-rate".into(),
        value: broker_core::term::Term::Integer(1),
    };
    broker.apply(&change).await.expect("a limit");
    let mut client = world.open_channel().await;
    let publish = client.publish_bytes(1, "nowhere", true, b"x");
    // One is free, the second makes the third wait, though all came at once.
    client.send(&publish.repeat(3)).await;
    for _ in 0..2 {
        let said = client.listen().await;
        assert!(matches!(said, Said::Return { .. }), "{said:?}");
    }
    let connections = broker.connections();
    let why = connections[0].paced_by().expect("it waits for a second");
    assert_eq!(
        why.to_string(),
        "publish rate limit of user 'guest' (1) is reached"
    );
    let said = client.listen().await;
    assert!(matches!(said, Said::Return { .. }), "{said:?}");
}
