//! Flow control without a socket: who is held by an overfull queue, who is not, and how it ends.

mod ends;
mod levers;
mod memory;
mod release;
mod worked_example;

use std::path::Path;
use std::time::Duration;

use amqp::Value;
use broker::observe::{IncidentKind, QueueFlow};
use broker::{Broker, BrokerOptions};
use broker_core::metadata::{MetadataChange, QueueId};
use broker_core::policy::{PolicyForm, PolicyScope};
use broker_core::term::Term;

use crate::client::{Client, Left, open_with, quorum};

/// The three ways into a queue.
const KINDS: [&str; 3] = ["transient", "durable", "quorum"];

fn options(dir: &Path) -> BrokerOptions {
    BrokerOptions::new(dir)
}

/// A queue that is overfull above so many messages, and underfull at so many.
async fn declare(client: &mut Client, queue: &str, kind: &str, capacity: i64, resume: i64) {
    let mut arguments = vec![
        ("x-capacity-messages", Value::I64(capacity)),
        ("x-flow-resume-messages", Value::I64(resume)),
    ];
    if kind == "quorum" {
        arguments.extend(quorum());
    }
    client.declare(queue, kind != "transient", &arguments).await;
}

fn id_of(broker: &Broker, queue: &str) -> QueueId {
    let metadata = broker.metadata();
    let vhost = metadata.vhost(&"/".into()).unwrap();
    vhost.queue(queue).unwrap().id
}

fn flow_of(broker: &Broker, queue: &str) -> QueueFlow {
    broker.queue_flow(id_of(broker, queue)).unwrap()
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(waited.is_ok(), "waited in vain until {what}");
}

/// Publishes so many messages, as bodies numbered from `first`, in one turn.
fn publish(client: &mut Client, queue: &str, first: usize, count: usize) {
    for number in first..first + count {
        client.publish("", queue, &number.to_string());
    }
    client.channel.end_turn();
}

fn bodies(left: &[Left]) -> Vec<String> {
    let body = |left: &Left| match left {
        Left::Deliver { body, .. } => Some(body.clone()),
        _ => None,
    };
    left.iter().filter_map(body).collect()
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_message_that_tips_a_queue_comes_in_and_later_ones_wait_unconfirmed_in_order() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut publisher = Client::connect(&broker);
        declare(&mut publisher, "q", kind, 3, 1).await;
        publisher.channel.confirm_select().unwrap();
        publish(&mut publisher, "q", 0, 10);
        publisher.confirmed(4).await;
        let flow = flow_of(&broker, "q");
        assert_eq!(
            (flow.parked_messages, flow.held_channels.len()),
            (6, 1),
            "{kind}"
        );
        assert!(flow.overfull_since_ms.is_some(), "{kind}");
        let counts = broker.queue_counts(id_of(&broker, "q")).unwrap();
        assert_eq!(counts.messages(), 4, "{kind}");

        let mut consumer = Client::connect(&broker);
        consumer.consume("q", "c", true).await;
        publisher.confirmed(10).await;
        assert_eq!(bodies(&consumer.left(10).await), numbers(0..10), "{kind}");
        until("the channel is let go", || {
            broker.held_channels().is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_a_held_channel_for_other_queues_pass() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        declare(&mut client, "full", kind, 1, 0).await;
        client.declare("free", kind != "transient", &[]).await;
        client.bind("full", "amq.fanout", "").await;
        client.bind("free", "amq.fanout", "").await;
        publish(&mut client, "full", 0, 3);
        client.publish("", "free", "direct");
        client.publish("amq.fanout", "", "both");
        client.channel.end_turn();
        until("the copies are in", || {
            let counts = broker.queue_counts(id_of(&broker, "free")).unwrap();
            counts.messages() == 2
        })
        .await;
        assert_eq!(client.drain("free").await, ["direct", "both"], "{kind}");
        let flow = flow_of(&broker, "full");
        assert_eq!(flow.parked_messages, 2, "one and the copy ({kind})");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_connection_that_publishes_to_an_overfull_queue_is_held_at_its_first_publish() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut first = Client::connect(&broker);
    declare(&mut first, "q", "durable", 1, 0).await;
    publish(&mut first, "q", 0, 2);
    until("the queue is overfull", || {
        flow_of(&broker, "q").overfull_since_ms.is_some()
    })
    .await;
    let mut second = Client::connect(&broker);
    publish(&mut second, "q", 2, 1);
    let flow = flow_of(&broker, "q");
    assert_eq!((flow.held_channels.len(), flow.parked_messages), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_channel_says_what_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "orders", "durable", 1, 0).await;
    client.channel.confirm_select().unwrap();
    publish(&mut client, "orders", 0, 5);
    let held = broker.held_channels();
    let view = held[0].hold().unwrap();
    assert_eq!(view.held_by.len(), 1);
    assert_eq!(view.held_by[0].cause, "Queue orders");
    assert_eq!(view.parked_messages, 3);
    assert!(view.parked_bytes > 0 && view.confirms_withheld);
    assert!(!view.flow_sent, "an unknown client is sent no channel.flow");
    assert_eq!(broker.flow_counts().holds, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_to_disk_and_queues_without_a_capacity_hold_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    let arguments = [
        ("x-capacity-messages", Value::I64(1)),
        ("x-overflow", Value::from("flow-to-disk")),
    ];
    client.declare("q", true, &arguments).await;
    client.channel.confirm_select().unwrap();
    publish(&mut client, "q", 0, 10);
    client.confirmed(10).await;
    assert!(broker.held_channels().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_control_off_for_a_vhost_holds_nobody_in_it() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let off = MetadataChange::SetVhostDefaults {
            vhost: "/".into(),
            definition: Term::Map(vec![("overflow".into(), Term::text("flow-to-disk"))]),
        };
        broker.apply(&off).await.unwrap();
        let mut client = Client::connect(&broker);
        declare(&mut client, "q", kind, 1, 0).await;
        client.channel.confirm_select().unwrap();
        publish(&mut client, "q", 0, 10);
        client.confirmed(10).await;
        assert!(broker.held_channels().is_empty(), "{kind}");
        assert_eq!(client.drain("q").await, numbers(0..10), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_into_an_overfull_queue_are_not_lost_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "full", "durable", 1, 0).await;
    let arguments = [
        ("x-dead-letter-exchange", Value::from("")),
        ("x-dead-letter-routing-key", Value::from("full")),
        ("x-max-length", Value::I64(1)),
    ];
    client.declare("source", true, &arguments).await;
    publish(&mut client, "full", 0, 2);
    publish(&mut client, "source", 2, 4);
    until("the dead letters are in", || {
        let counts = broker.queue_counts(id_of(&broker, "full")).unwrap();
        counts.messages() == 5
    })
    .await;
    assert!(broker.flow_counts().internal_overshoot_bytes > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_turns_of_a_queue_and_what_waited_too_long_are_told_as_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.flow.hold_timeout_ms = 0;
    let broker = open_with(options).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    client.channel.confirm_select().unwrap();
    publish(&mut client, "q", 0, 3);
    let count = |name| {
        let counts = broker.incident_counts();
        let found = counts.into_iter().find(|(known, _)| *known == name);
        found.unwrap().1
    };
    until("the third message is refused", || {
        count("waited-too-long") == 1
    })
    .await;
    client.drain("q").await;
    until("the queue is underfull", || count("queue-underfull") == 1).await;
    let incidents = broker.recent_incidents();
    let kinds: Vec<&IncidentKind> = incidents.iter().map(|incident| &incident.kind).collect();
    assert!(
        matches!(
            kinds[..],
            [
                IncidentKind::QueueOverfull { messages: 2, .. },
                IncidentKind::WaitedTooLong { messages: 1 },
                IncidentKind::QueueUnderfull {
                    messages: 0,
                    bytes: 0
                },
            ]
        ),
        "{kinds:?}"
    );
}

/// A policy for every queue, of one number.
fn policy(name: &str, key: &str, value: i64) -> MetadataChange {
    policy_of(name, &[(key, value)])
}

/// A policy for every queue.
fn policy_of(name: &str, definition: &[(&str, i64)]) -> MetadataChange {
    let numbers = definition.iter();
    let definition = numbers.map(|(key, value)| ((*key).into(), Term::Integer(*value)));
    MetadataChange::SetPolicy {
        vhost: "/".into(),
        scope: PolicyScope::User,
        policy: PolicyForm {
            name: name.into(),
            pattern: Some(Term::text(".*")),
            definition: Some(Term::Map(definition.collect())),
            ..PolicyForm::default()
        },
    }
}
