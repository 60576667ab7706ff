//! What lets a held channel go, and in which order.

use std::collections::BTreeMap;

use amqp::Value;
use broker_core::metadata::{MetadataChange, QueueGone};
use broker_core::policy::PolicyScope;

use super::{KINDS, bodies, declare, flow_of, id_of, numbers, options, publish, until};
use crate::client::{Client, open_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_lets_the_waiting_messages_in() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        declare(&mut client, "q", kind, 5, 2).await;
        client.channel.confirm_select().unwrap();
        publish(&mut client, "q", 0, 8);
        client.confirmed(6).await;
        assert_eq!(broker.purge(id_of(&broker, "q")).await, Some(Ok(6)));
        client.confirmed(8).await;
        assert_eq!(client.drain("q").await, numbers(6..8), "{kind}");
        until("the channel is let go", || {
            broker.held_channels().is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_the_queue_lets_its_channels_go() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        declare(&mut client, "q", kind, 1, 0).await;
        client.channel.confirm_select().unwrap();
        publish(&mut client, "q", 0, 5);
        client.confirmed(2).await;
        let id = id_of(&broker, "q");
        broker.remove_queue(id, QueueGone::Expired).await.unwrap();
        client.confirmed(5).await;
        assert!(broker.held_channels().is_empty(), "{kind}");
        assert_eq!(broker.parked_bytes(), (0, 0), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_the_vhost_lets_its_channels_go() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    publish(&mut client, "q", 0, 5);
    assert_eq!(broker.held_channels().len(), 1);
    let delete = MetadataChange::DeleteVhost { vhost: "/".into() };
    broker.apply(&delete).await.unwrap();
    until("the channel is let go", || {
        broker.held_channels().is_empty()
    })
    .await;
    client.channel.close().await;
    until("nothing is kept", || {
        broker.parked_bytes() == (0, 0) && broker.memory().main.used == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_raises_the_capacity_or_takes_it_away_lets_its_channels_go() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    client.declare("q", true, &[]).await;
    let policy = |capacity| super::policy("limits", "capacity-messages", capacity);
    broker.apply(&policy(2)).await.unwrap();
    client.channel.confirm_select().unwrap();
    publish(&mut client, "q", 0, 10);
    client.confirmed(3).await;
    assert_eq!(flow_of(&broker, "q").parked_messages, 7);
    broker.apply(&policy(5)).await.unwrap();
    client.confirmed(5).await;
    let delete = MetadataChange::DeletePolicy {
        vhost: "/".into(),
        scope: PolicyScope::User,
        name: "limits".into(),
    };
    broker.apply(&delete).await.unwrap();
    client.confirmed(10).await;
    assert_eq!(client.drain("q").await, numbers(0..10));
    assert!(broker.held_channels().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_vanishes_with_its_channel() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    client.channel.confirm_select().unwrap();
    publish(&mut client, "q", 0, 5);
    client.confirmed(2).await;
    let channel = std::mem::replace(&mut client.channel, client.session.open_channel(2).unwrap());
    channel.close().await;
    assert_eq!(broker.parked_bytes(), (0, 0));
    assert!(broker.held_channels().is_empty());
    assert!(flow_of(&broker, "q").held_channels.is_empty());
    assert_eq!(client.drain("q").await, numbers(0..2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_held_channels_are_let_in_round_robin_and_without_overshoot() {
    const CHANNELS: usize = 1_000;
    const CAPACITY: u64 = 100;
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "transient", CAPACITY as i64, 50).await;
    publish(&mut client, "q", 0, CAPACITY as usize + 1);
    let mut publishers: Vec<Client> = (0..CHANNELS).map(|_| Client::connect(&broker)).collect();
    for (at, publisher) in publishers.iter_mut().enumerate() {
        for _ in 0..3 {
            publisher.publish("", "q", &format!("from {at}"));
        }
        publisher.channel.end_turn();
    }
    assert_eq!(flow_of(&broker, "q").parked_messages, 3 * CHANNELS as u64);
    let id = id_of(&broker, "q");
    let mut first_half = BTreeMap::new();
    let mut got = 0;
    while let Some((body, _)) = client.get("q").await {
        got += 1;
        let size = broker.queue_counts(id).unwrap().messages();
        assert!(
            size <= CAPACITY + 1,
            "{size} messages are more than the capacity"
        );
        if body.starts_with("from") && got <= CAPACITY as usize + 1 + 3 * CHANNELS / 2 {
            *first_half.entry(body).or_insert(0_u32) += 1;
        }
    }
    assert_eq!(got, CAPACITY as usize + 1 + 3 * CHANNELS);
    // Half of what waited came in: everybody has one or two of three.
    assert_eq!(first_half.len(), CHANNELS);
    assert!(first_half.values().all(|count| (1..=2).contains(count)));
    until("all are let go", || broker.held_channels().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_a_channel_is_kept_while_others_come_in_between() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut consumer = Client::connect(&broker);
        declare(&mut consumer, "q", kind, 4, 2).await;
        let mut publishers: Vec<Client> = (0..3).map(|_| Client::connect(&broker)).collect();
        consumer.consume("q", "c", true).await;
        for number in 0..200 {
            for (at, publisher) in publishers.iter_mut().enumerate() {
                publisher.publish("", "q", &format!("{at}:{number}"));
                if number % 7 == at {
                    publisher.channel.end_turn();
                }
            }
        }
        for publisher in &mut publishers {
            publisher.channel.end_turn();
        }
        let left = consumer.left(600).await;
        for at in 0..3 {
            let prefix = format!("{at}:");
            let own: Vec<String> = bodies(&left)
                .into_iter()
                .filter_map(|body| body.strip_prefix(&prefix).map(str::to_owned))
                .collect();
            assert_eq!(own, numbers(0..200), "channel {at} of {kind}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_that_a_message_waits_counts_towards_the_queues_time_to_live() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    let arguments = [
        ("x-capacity-messages", Value::I64(1)),
        ("x-message-ttl", Value::I64(50)),
    ];
    client.declare("q", true, &arguments).await;
    client.channel.confirm_select().unwrap();
    publish(&mut client, "q", 0, 20);
    // All of them come in and expire, one after the other, though nobody consumes.
    client.confirmed(20).await;
    until("all have expired", || {
        broker.queue_counts(id_of(&broker, "q")).unwrap().messages() == 0
    })
    .await;
}
