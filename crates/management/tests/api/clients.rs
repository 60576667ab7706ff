//! Connections, channels and consumers.

use amqp::{Table, Value};
use broker::{Consume, Signal};
use broker_core::{ConsumerTag, QueueName, Refusal};
use serde_json::json;

use crate::support::Stage;

const NAME: &str = "127.0.0.1%3A40001%20-%3E%20127.0.0.1%3A5672";

#[tokio::test]
async fn a_connection_is_listed_by_its_ends_and_closed_with_a_reason() {
    let stage = Stage::set().await;
    let session = stage.connect(40_001);
    let admin = stage.admin();
    let listed = admin
        .get("/api/connections/")
        .await
        .expect_status(200)
        .json();
    let connection = &listed[0];
    assert_eq!(connection["name"], "127.0.0.1:40001 -> 127.0.0.1:5672");
    assert_eq!(connection["client_properties"]["connection_name"], "story");
    assert_eq!(connection["user_provided_name"], "story");
    assert_eq!(
        (&connection["peer_port"], &connection["timeout"]),
        (&json!(40_001), &json!(60))
    );
    let one = admin
        .get(&format!("/api/connections/{NAME}"))
        .await
        .expect_status(200)
        .json();
    assert_eq!(one["vhost"], "/");
    let with_reason = stage.admin().with_header("x-reason: too old");
    with_reason
        .delete(&format!("/api/connections/{NAME}"))
        .await
        .expect_status(204);
    let expected = Signal::CloseConnection {
        refusal: Refusal::ClosedByOperator {
            reason: "too old".into(),
        },
    };
    assert_eq!(session.signal().await, expected);
    session.close().await;
    admin
        .get(&format!("/api/connections/{NAME}"))
        .await
        .expect_status(404);
    admin
        .delete(&format!("/api/connections/{NAME}"))
        .await
        .expect_status(404);
}

#[tokio::test]
async fn all_connections_of_a_user_are_closed_at_once() {
    let stage = Stage::set().await;
    let (one, other) = (stage.connect(40_001), stage.connect(40_002));
    let admin = stage.admin();
    let listed = admin.get("/api/connections/username/guest").await.json();
    let names = [
        "127.0.0.1:40001 -> 127.0.0.1:5672",
        "127.0.0.1:40002 -> 127.0.0.1:5672",
    ];
    let expected: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "vhost": "/", "user": "guest", "node": "rabbit@test"}))
        .collect();
    assert_eq!(listed, json!(expected));
    admin
        .delete("/api/connections/username/guest")
        .await
        .expect_status(204);
    for session in [&one, &other] {
        assert!(matches!(
            session.signal().await,
            Signal::CloseConnection { .. }
        ));
    }
    admin
        .delete("/api/connections/username/nobody")
        .await
        .expect_status(204);
}

#[tokio::test]
async fn a_user_sees_only_his_own_connections() {
    let stage = Stage::set().await;
    let _session = stage.connect(40_001);
    let other = stage.add_user("m", "management").await;
    assert_eq!(other.get("/api/connections").await.json(), json!([]));
    other
        .get(&format!("/api/connections/{NAME}"))
        .await
        .expect_status(401);
    other
        .delete("/api/connections/username/guest")
        .await
        .expect_status(401);
}

#[tokio::test]
async fn channels_and_consumers_show_how_they_stand() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    let session = stage.connect(40_001);
    let mut channel = session.open_channel(3).expect("a channel");
    channel.confirm_select().expect("confirm mode");
    channel.qos(0, 7).expect("a prefetch");
    let arguments: Table = [("x-priority", Value::I32(4))].into_iter().collect();
    let consume = Consume {
        queue: QueueName::new("q"),
        consumer_tag: ConsumerTag::new("c"),
        no_ack: false,
        exclusive: false,
        arguments,
    };
    let tag = channel.consume(consume).await.expect("a consumer");
    channel.start_consumer(&tag);
    let publish = json!({
        "properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string",
    });
    admin
        .post("/api/exchanges/%2F//publish", publish)
        .await
        .expect_status(200);

    let listed = admin.get("/api/channels").await.expect_status(200).json();
    let shown = &listed[0];
    assert_eq!(shown["name"], "127.0.0.1:40001 -> 127.0.0.1:5672 (3)");
    assert_eq!(
        (&shown["confirm"], &shown["prefetch_count"]),
        (&json!(true), &json!(7))
    );
    assert_eq!(shown["consumer_count"], 1);
    assert_eq!(shown["messages_unacknowledged"], 1);
    let one = admin
        .get(&format!("/api/channels/{NAME}%20%283%29"))
        .await
        .expect_status(200);
    assert_eq!(one.json()["consumer_details"][0]["consumer_tag"], "c");

    let consumers = admin.get("/api/consumers/%2F").await.json();
    assert_eq!(consumers[0]["arguments"], json!({"x-priority": 4}));
    assert_eq!(consumers[0]["queue"], json!({"name": "q", "vhost": "/"}));
    assert_eq!(consumers[0]["channel_details"]["number"], 3);
    let unacked = admin
        .get("/api/queues/%2F/q/unacked")
        .await
        .expect_status(200)
        .json();
    assert_eq!(
        (&unacked[0]["state"], &unacked[0]["consumer_tag"]),
        (&json!("unacked"), &json!("c"))
    );
    assert!(unacked[0]["unacked_since"].is_u64(), "{unacked}");
    let queue = admin.get("/api/queues/%2F/q").await.json();
    assert_eq!(
        (&queue["messages_unacknowledged"], &queue["consumers"]),
        (&json!(1), &json!(1))
    );
    channel.close().await;
    session.close().await;
    let overview = admin.get("/api/overview").await.json();
    assert_eq!(overview["churn_rates"]["channel_closed"], 1);
    assert_eq!(overview["message_stats"]["deliver"], 1);
}
