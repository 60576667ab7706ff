//! What a restart finds: confirmed messages, settled ones gone, metadata as it was.

use broker::{Broker, BrokerOptions, StorageOptions};
use broker_core::QueueName;

use crate::client::{Client, Left, open, quorum};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn persistent_messages_survive_a_restart_and_transient_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("classic", true, &[]).await;
    client.declare("quorum", true, &quorum()).await;
    client.declare("transient", false, &[]).await;
    client.channel.confirm_select().unwrap();
    for queue in ["classic", "quorum", "transient"] {
        client.publish("", queue, "persistent");
        client.publish_transient("", queue, "transient");
    }
    client.channel.end_turn();
    client.confirmed(6).await;
    client.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, broker));

    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    assert_eq!(client.drain("classic").await, ["persistent"]);
    // A quorum queue stores everything.
    assert_eq!(client.drain("quorum").await, ["persistent", "transient"]);
    let gone = client.channel.get(QueueName::new("transient"), true).await;
    assert_eq!(
        gone.unwrap_err().to_string(),
        "no queue 'transient' in vhost '/'"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acked_messages_stay_gone_and_returned_ones_keep_their_counts() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", true, &quorum()).await;
    client.channel.confirm_select().unwrap();
    for body in ["a", "b", "c"] {
        client.publish("", "q", body);
    }
    client.channel.end_turn();
    client.confirmed(3).await;
    for _ in 0..2 {
        client
            .channel
            .get(QueueName::new("q"), false)
            .await
            .unwrap();
    }
    client.channel.ack(1, false).unwrap();
    client.channel.reject(2, true).unwrap();
    client.channel.end_turn();
    client.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, broker));

    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    assert_eq!(client.get("q").await, Some(("b".into(), true)));
    assert_eq!(client.get("q").await, Some(("c".into(), false)));
    assert_eq!(client.get("q").await, None);
}

/// Small files, so that a few thousand messages pass through all of storage.
fn small_files(dir: &std::path::Path) -> BrokerOptions {
    let mut options = BrokerOptions::new(dir);
    options.storage = StorageOptions {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 256 << 10,
        segment_bytes: 64 << 10,
        ..StorageOptions::default()
    };
    options
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_of_many_journal_files_survives_and_drains_in_order() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await.shutdown().await);
    for round in 0..3 {
        let broker = Broker::open(small_files(dir.path())).await.unwrap();
        let mut client = Client::connect(&broker);
        client.declare("q", true, &quorum()).await;
        client.channel.confirm_select().unwrap();
        for number in 0..5_000_u64 {
            client.publish("", "q", &format!("{round}-{number:0>100}"));
            if number % 100 == 99 {
                client.channel.end_turn();
                client.confirmed(number + 1).await;
            }
        }
        client.session.close().await;
        broker.shutdown().await.unwrap();
    }
    let broker = Broker::open(small_files(dir.path())).await.unwrap();
    let mut client = Client::connect(&broker);
    let drained = client.drain("q").await;
    let expected: Vec<String> = (0..3)
        .flat_map(|round| (0..5_000).map(move |number| format!("{round}-{number:0>100}")))
        .collect();
    assert_eq!(drained.len(), expected.len());
    assert_eq!(drained, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_filled_and_emptied_again_and_again_hands_out_what_was_published() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await.shutdown().await);
    // One segment holds a round: whatever is read ahead of it covers all of it.
    let mut options = small_files(dir.path());
    options.storage.segment_bytes = 1 << 20;
    let broker = Broker::open(options).await.unwrap();
    let mut client = Client::connect(&broker);
    client.declare("q", true, &quorum()).await;
    client.channel.confirm_select().unwrap();
    let mut published = 0;
    for round in 0..8 {
        // All bodies are of one size, so that a wrong place in a segment holds a whole message.
        let bodies: Vec<String> = (0..2_000).map(|n| format!("{round}-{n:0>100}")).collect();
        for turn in bodies.chunks(100) {
            turn.iter().for_each(|body| client.publish("", "q", body));
            client.channel.end_turn();
            published += turn.len() as u64;
            client.confirmed(published).await;
        }
        client.consume("q", "c", true).await;
        let mut delivered = Vec::new();
        while delivered.len() < bodies.len() {
            delivered.extend(client.left(1).await.into_iter().map(|left| match left {
                Left::Deliver { body, .. } => body,
                other => panic!("expected a delivery, got {other:?}"),
            }));
        }
        assert_eq!(delivered, bodies, "round {round}");
        client.channel.cancel("c").await;
    }
}

fn disk_bytes(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let bytes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => disk_bytes(&entry.path()),
        false => entry.metadata().map_or(0, |metadata| metadata.len()),
    });
    bytes.sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_thousand_requeues_do_not_grow_the_disk() {
    const MESSAGES: usize = 200;
    const ROUNDS: u64 = 1_000;
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await.shutdown().await);
    let options = small_files(dir.path());
    // The journal, and as much again for what is being copied. The requeues write five times that.
    let most = 4 * options.storage.journal_bytes_max;
    let broker = Broker::open(options).await.unwrap();
    let mut client = Client::connect(&broker);
    let unlimited = ("x-delivery-limit", amqp::Value::I32(-1));
    let [kind] = quorum();
    client.declare("q", true, &[kind, unlimited]).await;
    for n in 0..MESSAGES {
        client.publish("", "q", &n.to_string());
    }
    client.consume("q", "c", false).await;
    client.channel.end_turn();
    let mut tag = 0;
    let mut highest = 0;
    for round in 0..ROUNDS {
        let mut delivered = 0;
        while delivered < MESSAGES {
            delivered += client.left(1).await.len();
        }
        tag += MESSAGES as u64;
        client.channel.nack(tag, true, true).unwrap();
        client.channel.end_turn();
        if round % 50 == 0 {
            highest = highest.max(disk_bytes(dir.path()));
        }
    }
    highest = highest.max(disk_bytes(dir.path()));
    assert!(highest <= most, "{highest} bytes, {most} are expected");
    client.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, broker));

    let broker = Broker::open(small_files(dir.path())).await.unwrap();
    let mut client = Client::connect(&broker);
    let mut bodies = client.drain("q").await;
    bodies.sort_unstable_by_key(|body| body.parse::<usize>().unwrap());
    let wanted: Vec<String> = (0..MESSAGES).map(|n| n.to_string()).collect();
    assert_eq!(bodies, wanted);
}
