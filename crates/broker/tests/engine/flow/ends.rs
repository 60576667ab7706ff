//! Nothing is held for ever: what waits too long, or finds no room to wait, is refused.

use broker::{BrokerOptions, Signal};
use broker_core::Refusal;

use super::{declare, flow_of, id_of, numbers, options, publish, until};
use crate::client::{Client, Left, open_with};

fn impatient(dir: &std::path::Path) -> BrokerOptions {
    let mut options = options(dir);
    options.flow.hold_timeout_ms = 100;
    options.flow.bounds.grace_ms = 0;
    options
}

fn cramped(dir: &std::path::Path) -> BrokerOptions {
    let mut options = options(dir);
    options.flow.bounds.memory_bytes = 100;
    options.flow.bounds.spill_bytes = 200;
    options.flow.bounds.grace_ms = 0;
    options
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_too_long_is_nacked_and_so_is_what_follows_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(impatient(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    client.channel.confirm_select().unwrap();
    publish(&mut client, "q", 0, 2);
    client.confirmed(2).await;
    publish(&mut client, "q", 2, 2);
    let nack = |tag, multiple| Left::Nack { tag, multiple };
    assert_eq!(client.left(1).await, [nack(4, true)]);
    assert_eq!(broker.flow_counts().timed_out, 2);
    client.publish("", "q", "4");
    client.channel.end_turn();
    assert_eq!(
        client.left(2).await,
        [Left::ReturnFull { queue: "q".into() }, nack(5, false)]
    );
    assert_eq!(client.drain("q").await, numbers(0..2));
    until("the channel is let go", || {
        broker.held_channels().is_empty()
    })
    .await;
    publish(&mut client, "q", 5, 1);
    let ack = Left::Ack {
        tag: 6,
        multiple: false,
    };
    assert_eq!(client.left(1).await, [ack]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_publisher_that_waits_too_long_loses_its_channel_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(impatient(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    publish(&mut client, "q", 0, 4);
    let Signal::CloseChannel { number, refusal } = client.session.signal().await else {
        panic!("expected the channel to be closed");
    };
    assert_eq!(number, 1);
    assert!(matches!(refusal, Refusal::HeldTooLong { .. }), "{refusal}");
    assert_eq!(
        (refusal.code().number(), refusal.scope()),
        (406, broker_core::refusal::Scope::Channel)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_obedient_client_is_woken_before_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(impatient(dir.path())).await;
    let mut client = Client::connect_as(&broker, "RabbitMQ", "Java");
    declare(&mut client, "q", "durable", 1, 0).await;
    client.channel.confirm_select().unwrap();
    publish(&mut client, "q", 0, 2);
    for active in [false, true] {
        let flow = Signal::Flow { channel: 1, active };
        assert_eq!(client.session.signal().await, flow);
    }
    client.confirmed(2).await;
    client.publish("", "q", "2");
    client.channel.end_turn();
    assert!(matches!(client.left(2).await[1], Left::Nack { tag: 3, .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_finds_no_room_to_wait_is_nacked() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(cramped(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    client.consume("q", "c", false).await;
    client.channel.confirm_select().unwrap();
    let body = "x".repeat(80);
    for _ in 0..6 {
        client.publish("", "q", &body);
    }
    client.channel.end_turn();
    let left = client.left(6).await;
    let nacks = left.iter().filter(|left| matches!(left, Left::Nack { .. }));
    assert!(nacks.count() >= 1, "{left:?}");
    // One waits in memory, two on disk.
    assert_eq!(flow_of(&broker, "q").parked_messages, 3);
    assert!(broker.parked_bytes().1 > 0);
    assert!(broker.flow_counts().no_room >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_waited_on_disk_come_in_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = cramped(dir.path());
    options.flow.bounds.spill_bytes = 1 << 20;
    let broker = open_with(options).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    client.channel.confirm_select().unwrap();
    publish(&mut client, "q", 0, 100);
    assert!(broker.parked_bytes().1 > 0);
    let mut got = client.drain("q").await;
    while got.len() < 100 {
        got.extend(client.drain("q").await);
    }
    assert_eq!(got, numbers(0..100));
    client.confirmed(100).await;
    assert_eq!(broker.parked_bytes(), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cycle_of_two_full_queues_ends_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(impatient(dir.path())).await;
    let mut services = [Client::connect(&broker), Client::connect(&broker)];
    for queue in ["a", "b"] {
        declare(&mut services[0], queue, "durable", 2, 1).await;
        let mut feeder = Client::connect(&broker);
        feeder.channel.confirm_select().unwrap();
        publish(&mut feeder, queue, 0, 3);
        feeder.confirmed(3).await;
    }
    // Each moves a message from its queue to the other's, and acks when that is confirmed.
    for (service, [from, to]) in services.iter_mut().zip([["a", "b"], ["b", "a"]]) {
        service.channel.confirm_select().unwrap();
        let (body, _) = {
            let got = service.channel.get(from.into(), false).await.unwrap();
            (got.unwrap().delivery_tag, ())
        };
        assert_eq!(body, 1);
        publish(service, to, 9, 1);
    }
    for service in &mut services {
        let nack = Left::Nack {
            tag: 1,
            multiple: false,
        };
        assert_eq!(service.left(1).await, [nack]);
        // The delivery is dropped; its queue has room.
        service.channel.nack(1, false, false).unwrap();
        service.channel.end_turn();
    }
    for queue in ["a", "b"] {
        until("the queues are below their capacities", || {
            broker
                .queue_counts(id_of(&broker, queue))
                .unwrap()
                .messages()
                == 2
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_answered_when_its_messages_are_in() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    client.channel.tx_select().unwrap();
    publish(&mut client, "q", 0, 4);
    assert!(!client.channel.tx_commit().await.unwrap());
    assert_eq!(flow_of(&broker, "q").parked_messages, 2);
    let mut other = Client::connect(&broker);
    let mut got = Vec::new();
    while got.len() < 4 {
        got.extend(other.drain("q").await);
    }
    assert_eq!(got, numbers(0..4));
    assert_eq!(client.left(1).await, [Left::CommitOk]);
    publish(&mut client, "q", 4, 1);
    assert!(client.channel.tx_commit().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_waits_too_long_ends_with_its_channel() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(impatient(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    client.channel.tx_select().unwrap();
    publish(&mut client, "q", 0, 4);
    assert!(!client.channel.tx_commit().await.unwrap());
    let refusal = Refusal::PartialTransaction;
    let close = Signal::CloseChannel { number: 1, refusal };
    assert_eq!(client.session.signal().await, close);
}
