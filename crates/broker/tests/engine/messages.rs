//! Messages through live queues: publish, deliver, settle, confirm, return.

use broker_core::{ExchangeName, QueueName};

use crate::client::{Client, Left, open, quorum};

fn deliver(tag: u64, body: &str) -> Left {
    Left::Deliver {
        tag,
        redelivered: false,
        body: body.into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transient_queue_delivers_within_the_turn() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", false, &[]).await;
    client.consume("q", "c", true).await;
    client.publish("", "q", "a");
    client.publish("", "q", "b");
    client.channel.end_turn();
    assert_eq!(client.left(2).await, [deliver(1, "a"), deliver(2, "b")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_queue_confirms_and_delivers_in_order() {
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
    assert_eq!(client.drain("q").await, ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_is_seen_by_the_next_get_of_its_connection() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", true, &[]).await;
    for round in 0..50 {
        client.publish("", "q", &round.to_string());
        assert_eq!(client.get("q").await, Some((round.to_string(), false)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn persistent_and_transient_messages_of_a_durable_queue_keep_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", true, &[]).await;
    for number in 0..100 {
        match number % 2 {
            0 => client.publish("", "q", &number.to_string()),
            _ => client.publish_transient("", "q", &number.to_string()),
        }
    }
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(client.drain("q").await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unroutable_mandatory_message_returns_before_its_confirm() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.channel.confirm_select().unwrap();
    client.publish("amq.direct", "nowhere", "lost");
    client.channel.end_turn();
    assert_eq!(
        client.left(2).await,
        [
            Left::Return {
                body: "lost".into()
            },
            Left::Ack {
                tag: 1,
                multiple: false
            }
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fanout_reaches_durable_and_transient_queues_and_confirms_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("transient", false, &[]).await;
    client.declare("durable", true, &[]).await;
    client.declare("quorum", true, &quorum()).await;
    for queue in ["transient", "durable", "quorum"] {
        client.bind(queue, "amq.fanout", "").await;
    }
    client.channel.confirm_select().unwrap();
    client.publish("amq.fanout", "", "x");
    client.channel.end_turn();
    client.confirmed(1).await;
    for queue in ["transient", "durable", "quorum"] {
        assert_eq!(client.drain(queue).await, ["x"], "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_closed_channel_held_is_delivered_again() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut first = Client::connect(&broker);
    first.declare("q", true, &[]).await;
    first.publish("", "q", "a");
    first.consume("q", "c", false).await;
    assert_eq!(first.left(1).await, [deliver(1, "a")]);
    first.channel.close().await;
    let mut second = Client::connect(&broker);
    assert_eq!(second.get("q").await, Some(("a".into(), true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_messages_come_back_redelivered() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", false, &[]).await;
    client.consume("q", "c", false).await;
    client.publish("", "q", "a");
    client.channel.end_turn();
    client.left(1).await;
    client.channel.reject(1, true).unwrap();
    client.channel.end_turn();
    assert_eq!(
        client.left(1).await,
        [Left::Deliver {
            tag: 2,
            redelivered: true,
            body: "a".into()
        }]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_are_told_when_their_queue_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", false, &[]).await;
    client.consume("q", "c", true).await;
    let mut other = Client::connect(&broker);
    other
        .channel
        .delete_queue(QueueName::new("q"), false, false)
        .await
        .unwrap();
    assert_eq!(
        client.left(1).await,
        [Left::Cancel {
            consumer: "c".into()
        }]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_drops_publishes_and_a_commit_sends_them() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", true, &[]).await;
    client.channel.tx_select().unwrap();
    client.publish("", "q", "dropped");
    client.channel.tx_rollback().unwrap();
    client.publish("", "q", "kept");
    let mut other = Client::connect(&broker);
    assert_eq!(other.get("q").await, None);
    client.channel.tx_commit().await.unwrap();
    assert_eq!(other.drain("q").await, ["kept"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishing_to_a_missing_exchange_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    let refused = client.channel.publish(broker::Publish {
        exchange: "nope",
        routing_key: "",
        mandatory: false,
        immediate: false,
        properties: &[0, 0],
        body: b"",
    });
    assert_eq!(
        refused.unwrap_err().to_string(),
        "no exchange 'nope' in vhost '/'"
    );
    client
        .channel
        .delete_exchange(ExchangeName::new("nope"), false)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remembered_message_shows_no_blind_copies_either() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client
        .channel
        .declare_exchange(broker::DeclareExchange {
            exchange: ExchangeName::new("history"),
            exchange_type: "x-recent-history".into(),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: amqp::Table::default(),
        })
        .await
        .unwrap();
    let blind = amqp::Value::Array(vec![amqp::Value::from("hidden")]);
    let headers: amqp::Table = [("BCC", blind)].into_iter().collect();
    let properties = amqp::PropertiesBuilder::new().headers(&headers).build();
    client.publish_with("history", "k", "a", &properties);
    client.channel.end_turn();
    client.declare("late", false, &[]).await;
    client.bind("late", "history", "").await;
    let got = client
        .channel
        .get(QueueName::new("late"), true)
        .await
        .unwrap()
        .unwrap();
    let shown = got.with_view(|view| amqp::Properties::trusted(view.properties).header("BCC"));
    assert_eq!(shown, Some(None));
}
