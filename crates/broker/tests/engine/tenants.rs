//! Limits that keep one user or vhost from taking what others need.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::{Broker, Channel, Consume, DeclareQueue, Publish};
use broker_core::metadata::MetadataChange;
use broker_core::term::Term;
use broker_core::{ConsumerTag, QueueName, Refusal, UserName, VhostName};

use crate::client::{Client, Left, open};

async fn limit_user(broker: &Broker, name: &str, limit: i64) {
    let change = MetadataChange::SetUserLimit {
        user: UserName::new("guest"),
        name: name.into(),
        value: Term::Integer(limit),
    };
    broker.apply(&change).await.unwrap();
}

async fn limit_vhost(broker: &Broker, name: &str, limit: i64) {
    let change = MetadataChange::SetVhostLimit {
        vhost: VhostName::new("/"),
        name: name.into(),
        value: Term::Integer(limit),
    };
    broker.apply(&change).await.unwrap();
}

fn consume(tag: &str) -> Consume {
    Consume {
        queue: QueueName::new("q"),
        consumer_tag: ConsumerTag::new(tag),
        no_ack: false,
        exclusive: false,
        arguments: Default::default(),
    }
}

fn publish<'a>(body: &'a [u8]) -> Publish<'a> {
    Publish {
        exchange: "",
        routing_key: "q",
        mandatory: false,
        immediate: false,
        properties: &[0, 0],
        body,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_of_a_user_are_counted_over_all_connections_and_come_back_when_they_end() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut one = Client::connect(&broker);
    let mut other = Client::connect(&broker);
    one.declare("q", false, &[]).await;
    limit_user(&broker, "max-consumers", 2).await;
    one.channel.consume(consume("a")).await.unwrap();
    other.channel.consume(consume("b")).await.unwrap();
    let refusal = other.channel.consume(consume("c")).await.unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "consumer limit of user 'guest' (2) is reached"
    );
    one.session.close().await;
    other.channel.consume(consume("c")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn channels_of_a_vhost_are_counted_over_all_connections() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let one = Client::connect(&broker);
    let other = Client::connect(&broker);
    limit_vhost(&broker, "max-channels", 3).await;
    let third = one.session.open_channel(2).unwrap();
    let refused = other.session.open_channel(2).map(|_| ()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "channel limit of vhost '/' (3) is reached"
    );
    third.close().await;
    assert!(other.session.open_channel(2).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smaller_of_two_message_sizes_counts_and_a_change_counts_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", false, &[]).await;
    client.channel.publish(publish(b"four")).unwrap();
    limit_user(&broker, "max-message-size", 100).await;
    limit_vhost(&broker, "max-message-size", 3).await;
    let refusal = client.channel.publish(publish(b"four")).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "message size limit of vhost '/' (3) is reached"
    );
    client.channel.publish(publish(b"123")).unwrap();
    limit_vhost(&broker, "max-message-size", -1).await;
    client.channel.publish(publish(b"four")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_come_too_fast_wait_and_then_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let delay = || broker.connection_delay(&UserName::new("guest"), &VhostName::new("/"));
    for _ in 0..100 {
        assert!(delay().unwrap().is_zero(), "nobody limits them");
    }
    limit_user(&broker, "max-connection-rate", 1).await;
    let mut waited = 0;
    let refusal = loop {
        match delay() {
            Ok(wait) if wait.is_zero() => {}
            Ok(_) => waited += 1,
            Err(refusal) => break refusal,
        }
    };
    assert!(waited > 0, "none has waited");
    assert!(
        matches!(refusal, Refusal::TenantLimit { .. }),
        "{refusal:?}"
    );
    assert_eq!(
        refusal.to_string(),
        "connection rate limit of user 'guest' (1) is reached"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_publishes_more_than_its_rate_waits_and_is_told_whose_limit_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", false, &[]).await;
    limit_user(&broker, "max-publish-rate", 100).await;
    for _ in 0..100 {
        client.channel.publish(publish(b"x")).unwrap();
        assert_eq!(client.session.pause(), None, "a second's worth is free");
    }
    // What the clock gave meanwhile is used up, too.
    while client.session.pause().is_none() {
        client.channel.publish(publish(b"x")).unwrap();
    }
    limit_user(&broker, "max-publish-rate", -1).await;
    limit_vhost(&broker, "max-publish-bytes-rate", 10).await;
    client.channel.publish(publish(&[0; 600])).unwrap();
    let view = broker.connections().pop().expect("the connection");
    assert_eq!(
        view.paced_by().expect("59 s to wait").to_string(),
        "publish bytes rate limit of vhost '/' (10) is reached"
    );
    limit_vhost(&broker, "max-publish-bytes-rate", 0).await;
    let refusal = client.channel.publish(publish(b"x")).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "publish bytes rate limit of vhost '/' (0) is reached"
    );
}

/// The tags of deliveries that have left.
fn delivered(client: &Client) -> Vec<u64> {
    let tag = |left| match left {
        Left::Deliver { tag, .. } => tag,
        other => panic!("expected deliveries, got {other:?}"),
    };
    client.left_now().into_iter().map(tag).collect()
}

/// Two connections with a queue and a consumer each, and messages in both queues.
async fn two_consumers(broker: &Broker, limit: i64) -> [Client; 2] {
    let mut clients = [Client::connect(broker), Client::connect(broker)];
    limit_user(broker, "max-unacked", limit).await;
    for (client, queue) in clients.iter_mut().zip(["a", "b"]) {
        client.declare(queue, false, &[]).await;
        client.consume(queue, "c", false).await;
    }
    for client in &mut clients {
        for queue in ["a", "b"] {
            for body in ["1", "2", "3", "4", "5"] {
                client.publish_transient("", queue, body);
            }
        }
        client.channel.end_turn();
    }
    clients
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_are_given_no_more_than_their_user_may_have_in_hand() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let [mut one, other] = two_consumers(&broker, 3).await;
    assert_eq!(delivered(&one), [1, 2, 3]);
    assert_eq!(delivered(&other).len(), 0);
    let more = |one: &Client| (delivered(one).len(), delivered(&other).len());
    let mut others = 0;
    for settle in [
        |channel: &mut Channel| channel.ack(1, false),
        |channel: &mut Channel| channel.nack(2, false, false),
        |channel: &mut Channel| channel.reject(3, true),
    ] {
        settle(&mut one.channel).unwrap();
        one.channel.end_turn();
        let (to_one, to_other) = more(&one);
        assert_eq!(to_one + to_other, 1);
        others += to_other;
    }
    assert!(others > 0, "those who wait take turns");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_channel_or_a_connection_had_in_hand_is_free_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let [one, mut other] = two_consumers(&broker, 3).await;
    assert_eq!((delivered(&one).len(), delivered(&other).len()), (3, 0));
    let Client {
        session, channel, ..
    } = one;
    channel.close().await;
    assert_eq!(delivered(&other), [1, 2, 3]);
    // A consumer that is cancelled keeps what it has, and waits for nothing.
    other.channel.cancel("c").await;
    other.channel.ack(0, true).unwrap();
    other.channel.end_turn();
    assert_eq!(delivered(&other).len(), 0);
    session.close().await;
    let mut third = Client::connect(&broker);
    third.consume("b", "c", false).await;
    assert_eq!(delivered(&third), [1, 2, 3]);
    other.consume("a", "d", false).await;
    assert_eq!(delivered(&other).len(), 0);
    third.session.close().await;
    assert_eq!(delivered(&other), [4, 5, 6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_what_is_in_hand_counts_at_once_and_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let [mut one, other] = two_consumers(&broker, 2).await;
    assert_eq!((delivered(&one).len(), delivered(&other).len()), (2, 0));
    limit_user(&broker, "max-unacked", 4).await;
    assert_eq!(delivered(&one).len() + delivered(&other).len(), 2);
    limit_vhost(&broker, "max-unacked", 3).await;
    limit_user(&broker, "max-unacked", -1).await;
    assert_eq!(delivered(&one).len() + delivered(&other).len(), 0);
    one.channel.ack(1, false).unwrap();
    one.channel.end_turn();
    assert_eq!(delivered(&one).len() + delivered(&other).len(), 0);
    limit_vhost(&broker, "max-unacked", -1).await;
    let rest = delivered(&one).len() + delivered(&other).len();
    assert_eq!(rest, 20 - 4, "nobody limits them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_not_fetched_beyond_the_limit_and_the_refusal_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", false, &[]).await;
    for body in ["1", "2", "3"] {
        client.publish_transient("", "q", body);
    }
    limit_vhost(&broker, "max-unacked", 1).await;
    let get = async |client: &mut Client, no_ack| {
        let got = client.channel.get(QueueName::new("q"), no_ack).await;
        got.map(|got| got.map(|got| got.delivery_tag))
    };
    assert_eq!(get(&mut client, false).await, Ok(Some(1)));
    let refusal = get(&mut client, false).await.unwrap_err();
    assert_eq!(refusal.code().number(), 406);
    assert_eq!(
        refusal.to_string(),
        "unacked delivery limit of vhost '/' (1) is reached"
    );
    assert_eq!(get(&mut client, true).await, Ok(Some(2)), "needs no ack");
    client.channel.ack(1, false).unwrap();
    assert_eq!(get(&mut client, false).await, Ok(Some(3)));
    client.channel.ack(3, false).unwrap();
    // An empty queue takes no place.
    for _ in 0..3 {
        assert_eq!(get(&mut client, false).await, Ok(None));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_queues_that_hand_out_at_once_stay_within_the_limit() {
    const LIMIT: u64 = 7;
    const MESSAGES: usize = 400;
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    limit_user(&broker, "max-unacked", LIMIT as i64).await;
    let in_hand = Arc::new(AtomicU64::new(0));
    let mut running = Vec::new();
    for queue in ["a", "b", "c", "d"] {
        let mut client = Client::connect(&broker);
        client.declare(queue, false, &[]).await;
        client.consume(queue, "c", false).await;
        let in_hand = in_hand.clone();
        running.push(tokio::spawn(async move {
            for _ in 0..MESSAGES {
                client.publish_transient("", queue, "x");
            }
            client.channel.end_turn();
            let mut settled = 0;
            while settled < MESSAGES {
                let left = client.left(1).await;
                let came = left.len() as u64;
                let now = in_hand.fetch_add(came, Ordering::SeqCst) + came;
                assert!(now <= LIMIT, "{now} at once");
                for one in left {
                    let Left::Deliver { tag, .. } = one else {
                        panic!("expected a delivery, got {one:?}");
                    };
                    in_hand.fetch_sub(1, Ordering::SeqCst);
                    client.channel.ack(tag, false).unwrap();
                    settled += 1;
                }
                client.channel.end_turn();
            }
        }));
    }
    for one in running {
        one.await.expect("all is delivered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queues_of_a_user_are_counted_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let declare = async |client: &mut Client, name: &str, durable| {
        let declare = DeclareQueue {
            queue: QueueName::new(name),
            passive: false,
            durable,
            exclusive: false,
            auto_delete: false,
            arguments: Default::default(),
        };
        let declared = client.channel.declare_queue(declare).await;
        declared.map(|_| ())
    };
    {
        let broker = open(dir.path()).await;
        limit_user(&broker, "max-queues", 2).await;
        let mut client = Client::connect(&broker);
        declare(&mut client, "stays", true).await.unwrap();
        declare(&mut client, "goes", false).await.unwrap();
        assert!(declare(&mut client, "more", true).await.is_err());
        client.session.close().await;
        broker.shutdown().await.unwrap();
    }
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "another", true).await.unwrap();
    let refusal = declare(&mut client, "more", true).await.unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "cannot declare queue 'more': queue limit of user 'guest' (2) is reached"
    );
}
