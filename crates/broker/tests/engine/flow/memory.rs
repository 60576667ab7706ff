//! The memory tree adds up, and a full part of it holds the publishers of the guilty queues.

use amqp::Value;
use broker_core::metadata::MetadataChange;
use broker_core::term::Term;

use super::{KINDS, flow_of, options, publish, until};
use crate::client::{Client, Left, open_with, quorum};

async fn declare(client: &mut Client, queue: &str, kind: &str) {
    let arguments = match kind {
        "quorum" => quorum().to_vec(),
        _ => Vec::<(&str, Value)>::new(),
    };
    client.declare(queue, kind != "transient", &arguments).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_body_counts_once_above_the_queues_and_in_full_in_each() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        client.channel.confirm_select().unwrap();
        for queue in ["a", "b", "c"] {
            declare(&mut client, queue, kind).await;
            client.bind(queue, "amq.fanout", "").await;
        }
        client.publish("amq.fanout", "", &"x".repeat(1_000));
        client.channel.end_turn();
        client.confirmed(1).await;
        let each = flow_of(&broker, "a").resident_bytes;
        assert!(each >= 1_000, "{kind}");
        assert_eq!(flow_of(&broker, "c").resident_bytes, each, "{kind}");
        // Queues of one kind may be of several groups, each of which keeps its own copy.
        let main = broker.memory().main.used;
        match kind {
            "quorum" => assert!((each..=3 * each).contains(&main), "{main} of {each}"),
            _ => assert_eq!(main, each, "{kind}"),
        }
        let vhosts = broker.memory().vhosts;
        assert_eq!(vhosts.len(), 1);
        assert_eq!((vhosts[0].0.as_str(), vhosts[0].1.used), ("/", main));
        for queue in ["a", "b", "c"] {
            assert_eq!(client.drain(queue).await.len(), 1);
        }
        assert_eq!(broker.memory().main.used, 0, "{kind}");
        assert_eq!(flow_of(&broker, "b").resident_bytes, 0, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_body_that_goes_elsewhere_last_takes_nothing_off_other_messages() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        let mut other = Client::connect(&broker);
        client.channel.confirm_select().unwrap();
        for queue in ["a", "b", "c"] {
            declare(&mut client, queue, kind).await;
            client.bind(queue, "amq.fanout", "").await;
        }
        // The first body has left queue a before it comes to b, and goes last from c.
        other.consume("a", "at once", true).await;
        client.publish("amq.fanout", "", &"x".repeat(1_000));
        client.channel.end_turn();
        client.confirmed(1).await;
        other.left(1).await;
        other.channel.cancel("at once").await;
        client.drain("b").await;
        client.drain("c").await;
        // The second one is handed out by two queues at the same time.
        client.publish("amq.fanout", "", &"x".repeat(1_000));
        client.channel.end_turn();
        client.confirmed(2).await;
        other.consume("a", "first", false).await;
        other.consume("b", "second", false).await;
        until("both queues have handed it out", || {
            ["a", "b"].iter().all(|queue| {
                let id = super::id_of(&broker, queue);
                broker.queue_counts(id).unwrap().unacked == 1
            })
        })
        .await;
        let memory = broker.memory();
        assert!(memory.main.used >= 1_000, "{kind}");
        let parts = memory.producers.used + memory.consumers.used;
        assert_eq!(parts, memory.main.used, "{kind}");
        other.channel.ack(0, true).unwrap();
        other.channel.end_turn();
        client.drain("c").await;
        until("nothing is used", || broker.memory().main.used == 0).await;
        assert_eq!(broker.memory().consumers.used, 0, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_handed_out_moves_to_the_consumers_and_back() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        declare(&mut client, "q", kind).await;
        client.channel.confirm_select().unwrap();
        publish(&mut client, "q", 0, 10);
        client.confirmed(10).await;
        let whole = broker.memory();
        assert_eq!(
            (whole.producers.used, whole.consumers.used),
            (whole.main.used, 0)
        );
        client.channel.qos(0, 4).unwrap();
        client.consume("q", "c", false).await;
        client.left(4).await;
        let memory = broker.memory();
        assert_eq!(
            memory.main.used, whole.main.used,
            "{kind}: a move keeps the sum"
        );
        assert_eq!(memory.consumers.used, whole.main.used / 10 * 4, "{kind}");
        client.channel.cancel("c").await;
        client.channel.nack(4, true, true).unwrap();
        client.channel.end_turn();
        let memory = broker.memory();
        assert_eq!(
            (memory.main.used, memory.consumers.used),
            (whole.main.used, 0),
            "{kind}"
        );
        client.drain("q").await;
        assert_eq!(broker.memory().main.used, 0, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_out_of_a_queue_gives_its_memory_back() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        let mut arguments = vec![
            ("x-max-length", Value::I64(5)),
            ("x-dead-letter-exchange", Value::from("")),
            ("x-dead-letter-routing-key", Value::from("dead")),
        ];
        if kind != "quorum" {
            arguments.push(("x-overflow", Value::from("reject-publish-dlx")));
        } else {
            arguments.extend(quorum());
        }
        client.declare("q", kind != "transient", &arguments).await;
        declare(&mut client, "dead", kind).await;
        client.channel.confirm_select().unwrap();
        publish(&mut client, "q", 0, 8);
        // Three are refused, or make room.
        until("all are settled", || {
            flow_of(&broker, "dead").resident_bytes > 0
        })
        .await;
        let _ = client.channel.get("q".into(), true).await.unwrap();
        client.consume("q", "c", false).await;
        let mut tags = Vec::new();
        while tags.len() < 4 {
            let delivered = client.left(1).await;
            tags.extend(delivered.iter().filter_map(|left| match left {
                Left::Deliver { tag, .. } => Some(*tag),
                _ => None,
            }));
        }
        client.channel.ack(tags[0], false).unwrap();
        client.channel.reject(tags[1], false).unwrap();
        client.channel.nack(tags[3], true, false).unwrap();
        client.channel.end_turn();
        until("the queue is empty", || {
            flow_of(&broker, "q").resident_bytes == 0
        })
        .await;
        until("the dead are in", || {
            let id = super::id_of(&broker, "dead");
            broker.queue_counts(id).unwrap().messages() == 6
        })
        .await;
        let id = super::id_of(&broker, "dead");
        broker
            .purge(id)
            .await
            .expect("it is there")
            .expect("it is led here");
        until("nothing is used", || broker.memory().main.used == 0).await;
        publish(&mut client, "dead", 0, 3);
        until("they are in", || {
            flow_of(&broker, "dead").resident_bytes > 0
        })
        .await;
        let why = broker_core::metadata::QueueGone::Expired;
        broker.remove_queue(id, why).await.unwrap();
        until("nothing is used", || broker.memory().main.used == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_part_of_the_memory_holds_the_publishers_of_the_guilty_queue() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    // 1 % of 4 GiB: the process itself takes less.
    options.flow.memory_limit_bytes = Some(4 << 30);
    options.flow.producer_percent = 1;
    options.flow.page_out_percent = 0;
    let broker = open_with(options).await;
    let mut greedy = Client::connect(&broker);
    let mut modest = Client::connect(&broker);
    declare(&mut greedy, "big", "transient").await;
    declare(&mut modest, "small", "transient").await;
    publish(&mut modest, "small", 0, 1);
    let body = "x".repeat(100_000);
    let limit = broker.memory().producers.limit.unwrap();
    until("the channel is held", || {
        greedy.publish("", "big", &body);
        greedy.channel.end_turn();
        !broker.held_channels().is_empty()
    })
    .await;
    let memory = broker.memory();
    assert!(memory.producers.used <= limit, "{}", memory.producers.used);
    publish(&mut modest, "small", 1, 1);
    assert_eq!(flow_of(&broker, "big").parked_messages, 1);
    assert_eq!(flow_of(&broker, "small").parked_messages, 0);
    let cause = &broker.held_channels()[0].hold().unwrap().held_by[0].cause;
    assert_eq!(cause, "Queue big, memory");
    broker
        .purge(super::id_of(&broker, "big"))
        .await
        .expect("it is there")
        .expect("it is led here");
    until("the channel is let go", || {
        broker.held_channels().is_empty()
    })
    .await;
    until("the message is in", || {
        let id = super::id_of(&broker, "big");
        broker.queue_counts(id).unwrap().messages() == 1
    })
    .await;
    assert!(!broker.alarms().memory);
}

/// A number in a body of 100,000 digits.
fn padded(number: u64) -> String {
    let digits = number.to_string();
    "0".repeat(100_000 - digits.len()) + &digits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_queue_keeps_beyond_its_share_leaves_memory_before_anybody_is_held() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        options.flow.memory_limit_bytes = Some(4 << 30);
        options.flow.producer_percent = 1;
        let broker = open_with(options).await;
        let mut greedy = Client::connect(&broker);
        let mut modest = Client::connect(&broker);
        declare(&mut greedy, "big", kind).await;
        declare(&mut modest, "small", kind).await;
        for client in [&mut greedy, &mut modest] {
            client.channel.confirm_select().unwrap();
        }
        publish(&mut modest, "small", 0, 1);
        modest.confirmed(1).await;
        let small = flow_of(&broker, "small").resident_bytes;
        let limit = broker.memory().producers.limit.unwrap();
        // Three quarters of the limit: over the mark, and nobody is held.
        let count = limit / 100_000 * 3 / 4;
        for number in 0..count {
            greedy.publish("", "big", &padded(number));
            greedy.channel.end_turn();
            greedy.confirmed(number + 1).await;
        }
        until("the queue is down to its share", || {
            broker.memory().producers.used < limit / 2
        })
        .await;
        assert!(broker.held_channels().is_empty(), "{kind}");
        assert_eq!(flow_of(&broker, "small").resident_bytes, small, "{kind}");
        let bodies = greedy.drain("big").await;
        let numbers = bodies.iter().map(|body| body.parse::<u64>().unwrap());
        assert!(numbers.eq(0..count), "{kind}: in order, none missing");
        assert_eq!(modest.drain("small").await.len(), 1, "{kind}");
        assert_eq!(broker.memory().main.used, 0, "{kind}");
    }
}

/// A queue with a memory limit of its own that pages from this percentage of it on, and twenty
/// messages of a thousand bytes for it.
async fn fill(client: &mut Client, kind: &str, overflow: &str, high_water: i64) {
    let mut arguments = vec![
        ("x-memory-limit", Value::I64(10_000)),
        ("x-memory-high-water", Value::I64(high_water)),
        ("x-overflow", Value::from(overflow)),
    ];
    if kind == "quorum" {
        arguments.extend(quorum());
    }
    client.declare("q", kind != "transient", &arguments).await;
    client.channel.confirm_select().unwrap();
    for _ in 0..20 {
        client.publish("", "q", &"x".repeat(1_000));
        client.channel.end_turn();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_whose_own_memory_is_full_holds_its_publishers_until_it_has_room() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        // At 100 % nothing is paged.
        fill(&mut client, kind, "drop-head", 100).await;
        client.confirmed(9).await;
        let flow = flow_of(&broker, "q");
        assert!(flow.over_memory_share, "{kind}");
        let resident = flow.resident_bytes;
        assert!((9_000..=10_000).contains(&resident), "{kind}: {resident}");
        assert_eq!(flow.parked_messages, 11, "{kind}");
        let cause = &broker.held_channels()[0].hold().unwrap().held_by[0].cause;
        assert_eq!(cause, "Queue q, memory");
        let mut other = Client::connect(&broker);
        let mut got = 0;
        while got < 20 {
            got += other.drain("q").await.len();
            assert!(flow_of(&broker, "q").resident_bytes <= 10_000, "{kind}");
            tokio::task::yield_now().await;
        }
        client.confirmed(20).await;
        until("the channel is let go", || {
            broker.held_channels().is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_high_water_mark_of_a_queue_on_messages_are_paged_and_nobody_is_held_for_long() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        fill(&mut client, kind, "drop-head", 70).await;
        client.confirmed(20).await;
        until("the queue is down to its mark", || {
            flow_of(&broker, "q").resident_bytes <= 7_000
        })
        .await;
        let flow = flow_of(&broker, "q");
        assert!(flow.paged_messages >= 13, "{kind}: {}", flow.paged_messages);
        until("the channel is let go", || {
            broker.held_channels().is_empty()
        })
        .await;
        let mut other = Client::connect(&broker);
        assert_eq!(other.drain("q").await.len(), 20, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_larger_than_the_memory_limit_comes_in_alone() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        let mut arguments = vec![("x-memory-limit", Value::I64(10_000))];
        if kind == "quorum" {
            arguments.extend(quorum());
        }
        client.declare("q", kind != "transient", &arguments).await;
        client.channel.confirm_select().unwrap();
        for _ in 0..3 {
            client.publish("", "q", &"x".repeat(30_000));
            client.channel.end_turn();
        }
        // Each makes room by leaving for the disk.
        client.confirmed(3).await;
        assert_eq!(client.drain("q").await.len(), 3, "{kind}");
    }
}

/// A limit of the vhost's memory.
fn vhost_limit(bytes: i64) -> MetadataChange {
    MetadataChange::SetVhostLimit {
        vhost: "/".into(),
        name: "max-memory".into(),
        value: Term::Integer(bytes),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_with_its_memory_full_holds_the_publishers_of_the_guilty_queue() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.flow.memory_limit_bytes = Some(4 << 30);
    options.flow.page_out_percent = 0;
    let broker = open_with(options).await;
    let mut greedy = Client::connect(&broker);
    let mut modest = Client::connect(&broker);
    declare(&mut greedy, "big", "transient").await;
    declare(&mut modest, "small", "transient").await;
    broker.apply(&vhost_limit(1_000_000)).await.unwrap();
    until("the limit is in force", || {
        let vhosts = broker.memory().vhosts;
        vhosts.first().is_some_and(|(_, view)| view.limit.is_some())
    })
    .await;
    modest.channel.confirm_select().unwrap();
    publish(&mut modest, "small", 0, 1);
    modest.confirmed(1).await;
    until("the channel is held", || {
        greedy.publish("", "big", &"x".repeat(100_000));
        greedy.channel.end_turn();
        !broker.held_channels().is_empty()
    })
    .await;
    let used = broker.memory().vhosts[0].1.used;
    assert!((800_000..=1_000_000).contains(&used), "{used}");
    let cause = &broker.held_channels()[0].hold().unwrap().held_by[0].cause;
    assert_eq!(cause, "Queue big, memory");
    publish(&mut modest, "small", 1, 1);
    modest.confirmed(2).await;
    broker.apply(&vhost_limit(-1)).await.unwrap();
    until("the channel is let go", || {
        broker.held_channels().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_memory_limit_lets_the_channels_of_an_idle_queue_go() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect(&broker);
    client.declare("q", true, &[]).await;
    let policy = |limit| {
        let definition = [("memory-limit", limit), ("memory-high-water", 100)];
        super::policy_of("memory", &definition)
    };
    broker.apply(&policy(3_000)).await.unwrap();
    client.channel.confirm_select().unwrap();
    for _ in 0..10 {
        client.publish("", "q", &"x".repeat(1_000));
        client.channel.end_turn();
    }
    until("the channel is held", || !broker.held_channels().is_empty()).await;
    broker.apply(&policy(100_000)).await.unwrap();
    client.confirmed(10).await;
    until("the channel is let go", || {
        broker.held_channels().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_flow_control_off_everything_is_taken_and_usage_above_the_limit_is_shown() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut client = Client::connect(&broker);
        fill(&mut client, kind, "flow-to-disk", 100).await;
        client.confirmed(20).await;
        let flow = flow_of(&broker, "q");
        assert!(!flow.over_memory_share, "{kind}");
        assert!(flow.resident_bytes <= 21_500, "{kind}");
        assert!(broker.held_channels().is_empty(), "{kind}");
        assert_eq!(client.drain("q").await.len(), 20, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_with_more_than_its_share_of_memory_gets_no_more_until_it_acks() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        // The consumers' part is 4 MiB, its mark 70 % of that.
        options.flow.memory_limit_bytes = Some(400 << 20);
        options.flow.producer_percent = 99;
        let broker = open_with(options).await;
        let mut publisher = Client::connect(&broker);
        declare(&mut publisher, "q", kind).await;
        let mut hoarder = Client::connect(&broker);
        hoarder.consume("q", "hoarder", false).await;
        let mark = broker.memory().consumers.high_water.unwrap();
        let mut number = 0;
        until("the consumer is rationed", || {
            while broker.memory().consumers.used < mark && number < 200 {
                number += 1;
                publisher.publish("", "q", &padded(number));
                publisher.channel.end_turn();
            }
            broker.rationed_queues() > 0
        })
        .await;
        // With its deliveries settled it gets all of them.
        let mut handed_out = 0;
        while handed_out < number {
            for left in hoarder.left(1).await {
                if let Left::Deliver { tag, .. } = left {
                    handed_out += 1;
                    hoarder.channel.ack(tag, false).unwrap();
                }
            }
            hoarder.channel.end_turn();
        }
        assert_eq!(handed_out, number, "{kind}");
        until("nothing is rationed", || broker.rationed_queues() == 0).await;
    }
}
