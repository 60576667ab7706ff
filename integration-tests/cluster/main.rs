//! Three real processes as a cluster: clients on any node, the death of nodes, the loss of a
//! majority, and a restart of all; in `faults` what happens to it under load.

mod clients;
mod coming_back;
mod faults;
mod history;
mod invariants;
mod members;
mod net;
mod scene;
mod trio;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use integration_tests::request::queue_declare;
use integration_tests::{Channel, ConsumerSpec, Publication, QueueSpec, expect_soon};

use crate::trio::{NODES, Trio};

/// Queues enough that each node leads some.
const QUEUES: usize = 8;

fn queues() -> Vec<String> {
    (0..QUEUES)
        .map(|number| format!("cluster.{number}"))
        .collect()
}

fn declare_all(channel: &Channel) {
    for queue in queues() {
        channel.declare(&QueueSpec::quorum(&queue));
    }
}

/// Publishes and waits for the outcome; answers what was confirmed.
fn publish_all(channel: &Channel, prefix: &str, count: usize) -> Vec<String> {
    let queues = queues();
    let texts = (0..count).map(|number| format!("{prefix}{number}"));
    texts
        .zip(queues.iter().cycle())
        .filter(|(text, queue)| {
            channel.publish_confirmed(&Publication::to_queue(queue, text.as_bytes()))
        })
        .map(|(text, _)| text)
        .collect()
}

/// Takes messages until all of these have come.
#[track_caller]
fn expect_all(trio: &Trio, channel: &Channel, mut wanted: BTreeSet<String>) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(30);
    let mut taken = Vec::new();
    while !wanted.is_empty() {
        assert!(
            Instant::now() < end,
            "{} confirmed messages do not come: {:?}\n{}",
            wanted.len(),
            wanted.iter().take(5).collect::<Vec<_>>(),
            trio.last_words()
        );
        if let Some(delivery) = channel.delivery_within(Duration::from_millis(200)) {
            channel.ack(&delivery);
            wanted.remove(&delivery.text());
            taken.push(delivery.text());
        }
    }
    taken
}

fn consume_all(channel: &Channel) {
    channel.prefetch(50);
    for queue in queues() {
        channel.consume(&ConsumerSpec::of(&queue));
    }
}

/// All nodes say the same of each queue.
fn expect_equal_counts(trio: &Trio, wanted: u64) {
    for node in 1..=NODES {
        let channel = trio.channel(node);
        let total = || {
            queues()
                .iter()
                .map(|queue| channel.ready(queue))
                .sum::<u64>()
        };
        expect_soon(
            &format!("messages as seen from node {node}"),
            &wanted,
            total,
        );
    }
}

#[test]
fn clients_of_every_node_use_the_same_queues() {
    let trio = Trio::start();
    declare_all(&trio.channel(1));
    let mut wanted = BTreeSet::new();
    for node in 1..=NODES {
        let channel = trio.channel(node);
        channel.confirm_select();
        let confirmed = publish_all(&channel, &format!("from {node}: "), 40);
        assert_eq!(confirmed.len(), 40, "all are confirmed through node {node}");
        wanted.extend(confirmed);
    }
    expect_equal_counts(&trio, 120);
    let consumer = trio.channel(3);
    consume_all(&consumer);
    let taken = expect_all(&trio, &consumer, wanted);
    assert_eq!(taken.len(), 120, "none comes twice");
    // What one publisher sent to one queue comes in its order.
    for queue in 0..QUEUES {
        for node in 1..=NODES {
            let prefix = format!("from {node}: ");
            let numbers = taken.iter().filter_map(|text| text.strip_prefix(&prefix));
            let numbers: Vec<usize> = numbers
                .map(|number| number.parse().expect("A number."))
                .filter(|number| number % QUEUES == queue)
                .collect();
            assert!(numbers.is_sorted(), "queue {queue}: {numbers:?}");
        }
    }
    expect_equal_counts(&trio, 0);
}

#[test]
fn a_classic_queue_is_served_through_every_node_and_is_away_with_its_own() {
    let mut trio = Trio::start();
    trio.channel(1).declare(&QueueSpec::durable("classic"));
    let publisher = trio.channel(2);
    publisher.confirm_select();
    for text in ["a", "b"] {
        assert!(publisher.publish_confirmed(&Publication::to_queue("classic", text)));
    }
    let consumer = trio.channel(3);
    consumer.consume(&ConsumerSpec::of("classic"));
    assert_eq!(consumer.expect_texts(2), ["a", "b"]);
    trio.kill(1);
    let confirmed = publisher.publish_confirmed(&Publication::to_queue("classic", "c"));
    assert!(!confirmed, "nobody has stored it");
    let close = trio
        .channel(2)
        .refused(&queue_declare(&QueueSpec::passive("classic")));
    assert_eq!(close.code, 404, "{close:?}");
    assert!(close.text.contains("is down or inaccessible"), "{close:?}");
}

#[test]
fn what_was_confirmed_outlives_the_leader_and_consumers_go_on() {
    let mut trio = Trio::start();
    declare_all(&trio.channel(1));
    let victim = trio.leader("cluster.0", 1);
    let (one, other) = (victim % NODES + 1, (victim + 1) % NODES + 1);
    let publisher = trio.channel(one);
    publisher.confirm_select();
    let mut wanted: BTreeSet<String> = publish_all(&publisher, "before ", 80).into_iter().collect();
    let consumer = trio.channel(other);
    consume_all(&consumer);
    trio.kill(victim);
    // The connections live on; what the dead leader had in hand is refused or confirmed.
    wanted.extend(publish_all(&publisher, "after ", 80));
    let after = wanted.iter().filter(|text| text.starts_with("after"));
    assert!(after.count() > 40, "the others take over");
    expect_all(&trio, &consumer, wanted);
    trio.restart(&[victim]);
    expect_equal_counts(&trio, 0);
}

#[test]
fn a_minority_confirms_nothing_says_why_and_goes_on_with_the_majority() {
    let mut trio = Trio::start();
    declare_all(&trio.channel(1));
    trio.kill(1);
    trio.kill(3);
    let http = trio.http(2);
    let why = || {
        let why = http.ok("GET", "/api/queues/%2F/cluster.0/why", None);
        why["verdict"].as_str().unwrap_or_default().to_owned()
    };
    expect_soon("the verdict", &"no_majority".to_owned(), why);
    let said = http.ok("GET", "/api/queues/%2F/cluster.0/why", None);
    let text = said["text"].as_str().unwrap_or_default();
    assert!(text.contains("1 of 3 members"), "{text}");
    let publisher = trio.channel(2);
    publisher.confirm_select();
    publisher.publish(&Publication::to_queue("cluster.0", "held"));
    trio.restart(&[1, 3]);
    let outcomes = publisher.outcomes();
    assert_eq!(
        outcomes.len(),
        1,
        "the publish has its outcome: {outcomes:?}"
    );
    // A nack would be an honest outcome as well; what was confirmed is there.
    let confirmed = outcomes.iter().filter(|(_, confirmed)| *confirmed).count();
    expect_soon("the message", &true, || {
        trio.channel(1).ready("cluster.0") >= confirmed as u64
    });
}

#[test]
fn all_nodes_stop_and_come_back_with_everything() {
    let mut trio = Trio::start();
    declare_all(&trio.channel(1));
    let publisher = trio.channel(2);
    publisher.confirm_select();
    assert_eq!(publish_all(&publisher, "kept ", 80).len(), 80);
    trio.terminate();
    trio.restart(&[1, 2, 3]);
    expect_equal_counts(&trio, 80);
}
