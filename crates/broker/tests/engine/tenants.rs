//! Limits that keep one user or vhost from taking what others need.

use broker::{Broker, Consume, Publish};
use broker_core::metadata::MetadataChange;
use broker_core::term::Term;
use broker_core::{ConsumerTag, QueueName, Refusal, UserName, VhostName};

use crate::client::{Client, open};

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
