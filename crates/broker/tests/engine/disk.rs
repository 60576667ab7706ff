//! What is on the disk, what keeps it there, and what happens when there is little room.

use std::path::Path;
use std::time::Duration;

use broker::observe::{MessageState, QueueDisk};
use broker::{Broker, BrokerOptions, StorageOptions};
use broker_core::metadata::QueueId;

use crate::client::{Client, open, quorum};

/// Small files, so that a few thousand messages pass through all of storage.
fn small_files(dir: &Path) -> BrokerOptions {
    let mut options = BrokerOptions::new(dir);
    options.storage = StorageOptions {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 256 << 10,
        segment_bytes: 64 << 10,
        dead_bytes_allowed: 0,
        ..StorageOptions::default()
    };
    options
}

async fn reopen(dir: &Path) -> Broker {
    open(dir).await.shutdown().await.unwrap();
    Broker::open(small_files(dir)).await.unwrap()
}

fn id_of(broker: &Broker, queue: &str) -> QueueId {
    let metadata = broker.metadata();
    let mut queues = metadata.queues();
    let found = queues.find(|record| record.name.as_str() == queue);
    found.expect("the queue is declared").id
}

async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert!(waited.is_ok(), "gave up waiting until {what}");
}

fn body(number: u64) -> String {
    format!("{number:0>200}")
}

async fn publish(client: &mut Client, queue: &str, numbers: std::ops::Range<u64>, sent: &mut u64) {
    for number in numbers {
        client.publish("", queue, &body(number));
        *sent += 1;
        if sent.is_multiple_of(50) {
            client.channel.end_turn();
            client.confirmed(*sent).await;
        }
    }
    client.channel.end_turn();
    client.confirmed(*sent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_stuck_message_holds_little_and_the_report_names_it_and_who_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let broker = reopen(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", true, &quorum()).await;
    client.channel.confirm_select().unwrap();
    let mut sent = 0;
    publish(&mut client, "q", 0..1, &mut sent).await;
    // Another channel takes the first one and keeps it.
    let mut stuck = Client::connect(&broker);
    stuck.consume("q", "stuck", false).await;
    stuck.left(1).await;
    stuck.channel.cancel("stuck").await;
    for round in 0..10 {
        let numbers = 1 + round * 1_000..1 + (round + 1) * 1_000;
        publish(&mut client, "q", numbers.clone(), &mut sent).await;
        for number in numbers {
            assert_eq!(client.get("q").await.unwrap().0, body(number));
        }
    }
    let id = id_of(&broker, "q");
    let look = || broker.disk_report_of(id).unwrap();
    wait_until("little but the stuck message is in segments", || {
        let report = look();
        !report.pins.is_empty() && report.live_bytes + report.dead_bytes < 200 << 10
    })
    .await;
    let report: QueueDisk = look();
    let pin = report.pins.iter().min_by_key(|pin| pin.entry).unwrap();
    assert!(pin.published_ms.is_some());
    match &pin.state {
        MessageState::Unacked {
            channel, since_ms, ..
        } => {
            assert!(channel.is_some() && *since_ms > 0);
        }
        _ => panic!("the stuck message is handed out"),
    }
    let all = broker.disk_report();
    assert!(all.free_bytes > 0 && !all.is_low);
    assert!(all.queues.iter().any(|queue| queue.queue == id));
    client.session.close().await;
    stuck.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, stuck, broker));

    let broker = Broker::open(small_files(dir.path())).await.unwrap();
    let mut client = Client::connect(&broker);
    assert_eq!(client.drain("q").await, [body(0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paged_messages_come_back_in_order_and_the_durable_ones_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.channel.confirm_select().unwrap();
    client.declare("durable", true, &quorum()).await;
    client.declare("transient", false, &[]).await;
    let mut sent = 0;
    for queue in ["durable", "transient"] {
        publish(&mut client, queue, 0..2_000, &mut sent).await;
    }
    let (durable, transient) = (id_of(&broker, "durable"), id_of(&broker, "transient"));
    for queue in [durable, transient] {
        assert!(broker.page_out(queue, 50_000));
    }
    wait_until("most of it is on disk", || {
        let look = |queue| broker.disk_report_of(queue).unwrap();
        look(durable).live_bytes > 350_000 && look(transient).paged_bytes > 350_000
    })
    .await;
    let kept = broker.disk_report_of(durable).unwrap().journal_bytes;
    assert!((30_000..=50_000).contains(&kept), "{kept} bytes stay");
    // More comes behind, and some of the front goes.
    for queue in ["durable", "transient"] {
        publish(&mut client, queue, 2_000..2_500, &mut sent).await;
        for number in 0..100 {
            assert_eq!(client.get(queue).await.unwrap().0, body(number), "{queue}");
        }
    }
    let expected: Vec<String> = (100..2_500).map(body).collect();
    assert_eq!(client.drain("transient").await, expected);
    wait_until("the paged store is empty", || {
        broker.disk_report_of(transient).unwrap().paged_bytes == 0
    })
    .await;
    client.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, broker));

    // The front is in the journal alone, what comes behind it in segments too.
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    assert_eq!(client.drain("durable").await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_looks_into_segments_when_they_are_needed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = reopen(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.channel.confirm_select().unwrap();
    let mut sent = 0;
    for queue in ["a", "b", "c"] {
        client.declare(queue, true, &quorum()).await;
        publish(&mut client, queue, 0..2_000, &mut sent).await;
    }
    client.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, broker));
    for _ in 0..3 {
        // Stopped again before or while the queues are taken in.
        let broker = Broker::open(small_files(dir.path())).await.unwrap();
        broker.shutdown().await.unwrap();
        drop(broker);
        let broker = Broker::open(small_files(dir.path())).await.unwrap();
        for queue in ["c", "a", "b"] {
            let counts = broker.queue_counts(id_of(&broker, queue)).unwrap();
            assert_eq!(counts.ready, 2_000);
        }
        broker.shutdown().await.unwrap();
    }
    let broker = Broker::open(small_files(dir.path())).await.unwrap();
    let mut client = Client::connect(&broker);
    let expected: Vec<String> = (0..2_000).map(body).collect();
    for queue in ["b", "c", "a"] {
        assert_eq!(client.drain(queue).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_fewer_groups_than_its_queues_need_does_not_start_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    for number in 0..8 {
        client.declare(&format!("q{number}"), true, &quorum()).await;
    }
    client.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, broker));
    let mut options = BrokerOptions::new(dir.path());
    options.groups = 2;
    let Err(error) = Broker::open(options.clone()).await else {
        panic!("it must not start");
    };
    let text = error.to_string();
    assert!(text.starts_with("`quorum.groups` is 2"), "{text}");
    options.groups = 16;
    Broker::open(options)
        .await
        .unwrap()
        .shutdown()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishers_are_held_while_the_disk_is_short_of_room_and_consumers_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", true, &quorum()).await;
    client.channel.confirm_select().unwrap();
    let mut sent = 0;
    publish(&mut client, "q", 0..10, &mut sent).await;
    wait_until("the disk was looked at", || {
        broker.disk_report().free_bytes > 0
    })
    .await;
    assert!(!broker.is_disk_low());
    client.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, broker));

    let mut options = BrokerOptions::new(dir.path());
    options.flow.disk_free_limit_bytes = u64::MAX;
    let broker = Broker::open(options).await.unwrap();
    wait_until("the alarm is raised", || broker.is_disk_low()).await;
    let mut publisher = Client::connect(&broker);
    publisher.channel.confirm_select().unwrap();
    publisher.publish("", "q", "waits");
    publisher.channel.end_turn();
    assert!(publisher.session.is_held());
    let mut consumer = Client::connect(&broker);
    assert_eq!(consumer.drain("q").await.len(), 10);
    assert!(publisher.session.is_held());

    // There is room again: nobody has to do anything.
    broker.set_disk_free_limit(0);
    publisher.session.released().await;
    publisher.confirmed(1).await;
    assert_eq!(consumer.drain("q").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_of_the_data_finds_the_live_messages_and_saves_what_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let broker = reopen(dir.path()).await;
    let in_use = broker::check_data(dir.path(), None).unwrap_err();
    assert!(in_use.to_string().contains("in use"), "{in_use}");
    let mut client = Client::connect(&broker);
    client.declare("a/b", true, &quorum()).await;
    client.channel.confirm_select().unwrap();
    let mut sent = 0;
    publish(&mut client, "a/b", 0..2_000, &mut sent).await;
    for number in 0..500 {
        assert_eq!(client.get("a/b").await.unwrap().0, body(number));
    }
    client.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, broker));

    let folder = tempfile::tempdir().unwrap();
    let report = broker::check_data(dir.path(), Some(folder.path())).unwrap();
    assert_eq!(report.checked.damage, []);
    let [found] = &report.queues[..] else {
        panic!("one queue, got {:?}", report.queues);
    };
    assert_eq!(found.name.as_deref(), Some("//a/b"));
    assert_eq!(found.messages, 1_500);
    let saved = std::fs::read_to_string(found.saved_to.as_ref().unwrap()).unwrap();
    assert_eq!(saved.lines().count(), 1_500);
    assert!(
        saved
            .lines()
            .all(|line| line.contains(r#""routing_key":"a/b""#))
    );

    // One byte in the middle of a segment costs one message.
    let segments = std::fs::read_dir(dir.path().join("segments")).unwrap();
    let largest = segments.map(|entry| entry.unwrap().path());
    let largest = largest.max_by_key(|path| path.metadata().unwrap().len());
    let path = largest.unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let report = broker::check_data(dir.path(), None).unwrap();
    assert_eq!(report.queues[0].messages, 1_499);
    assert_eq!(report.checked.damage.len(), 1);
    assert_eq!(report.checked.damage[0].path, path);
}
