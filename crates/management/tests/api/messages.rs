//! Publishing, getting and looking at messages.

use serde_json::{Value, json};

use crate::support::{Http, Stage};

async fn publish(client: &Http, key: &str, payload: &str) -> bool {
    let body = json!({
        "properties": {"delivery_mode": 2, "headers": {"n": 1}},
        "routing_key": key,
        "payload": payload,
        "payload_encoding": "string",
    });
    let answer = client
        .post("/api/exchanges/%2F/amq.default/publish", body)
        .await;
    answer.expect_status(200).json()["routed"]
        .as_bool()
        .expect("a truth value")
}

async fn get(client: &Http, count: u64, mode: &str) -> Vec<Value> {
    let body = json!({"count": count, "ackmode": mode, "encoding": "auto"});
    let answer = client
        .post("/api/queues/%2F/q/get", body)
        .await
        .expect_status(200);
    answer.json().as_array().expect("a list").clone()
}

fn payloads(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message["payload"].as_str().expect("text"))
        .collect()
}

#[tokio::test]
async fn what_is_published_is_got_in_order_and_stays_when_it_is_put_back() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    assert!(publish(&admin, "q", "1").await && publish(&admin, "q", "2").await);
    assert!(!publish(&admin, "nowhere", "3").await);
    let first = get(&admin, 5, "ack_requeue_true").await;
    assert_eq!(payloads(&first), ["1", "2"]);
    assert_eq!(
        first[0]["properties"],
        json!({"delivery_mode": 2, "headers": {"n": 1}})
    );
    assert_eq!(
        (&first[0]["redelivered"], &first[1]["message_count"]),
        (&json!(false), &json!(0))
    );
    let second = get(&admin, 5, "ack_requeue_false").await;
    assert_eq!(payloads(&second), ["1", "2"]);
    assert_eq!(second[0]["redelivered"], true);
    assert!(get(&admin, 5, "ack_requeue_false").await.is_empty());
}

#[tokio::test]
async fn octets_that_are_no_text_travel_as_base64() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    let body = json!({
        "properties": {}, "routing_key": "q", "payload": "/wA=", "payload_encoding": "base64",
    });
    admin
        .post("/api/exchanges/%2F//publish", body)
        .await
        .expect_status(200);
    let got = get(&admin, 1, "ack_requeue_false").await;
    assert_eq!(
        (&got[0]["payload"], &got[0]["payload_encoding"]),
        (&json!("/wA="), &json!("base64"))
    );
    assert_eq!(
        (&got[0]["payload_bytes"], &got[0]["properties"]),
        (&json!(2), &json!([]))
    );
}

#[tokio::test]
async fn what_is_missing_from_a_publish_or_a_get_is_told() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let refused = admin
        .post("/api/exchanges/%2F/none/publish", json!({}))
        .await;
    refused.expect_refusal(404, "not_found", "exchange_not_found");
    let refused = admin
        .post(
            "/api/exchanges/%2F/amq.topic/publish",
            json!({"properties": {}}),
        )
        .await;
    let reason = "[{key_missing,routing_key},{key_missing,payload},{key_missing,payload_encoding}]";
    refused.expect_refusal(400, "bad_request", reason);
    let refused = admin.post("/api/queues/%2F/none/get", json!({})).await;
    refused.expect_refusal(404, "not_found", "queue_not_found");
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    let body = json!({"count": 1, "ackmode": "zz", "encoding": "auto"});
    let refused = admin
        .post("/api/queues/%2F/q/get", body)
        .await
        .expect_status(400)
        .json();
    let reason = refused["reason"].as_str().expect("text");
    assert!(reason.starts_with("Invalid ackmode value: zz."), "{reason}");
}

#[tokio::test]
async fn a_queue_is_purged_and_deleted_only_if_it_is_empty_when_that_is_asked() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    assert!(publish(&admin, "q", "1").await);
    admin
        .delete("/api/queues/%2F/q?if-empty=true")
        .await
        .expect_status(400);
    admin
        .delete("/api/queues/%2F/q/contents")
        .await
        .expect_status(204);
    assert_eq!(admin.get("/api/queues/%2F/q").await.json()["messages"], 0);
    admin
        .delete("/api/queues/%2F/q?if-empty=true")
        .await
        .expect_status(204);
    admin
        .delete("/api/queues/%2F/q/contents")
        .await
        .expect_status(404);
}

#[tokio::test]
async fn a_peek_touches_nothing() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    for payload in ["1", "2", "3"] {
        assert!(publish(&admin, "q", payload).await);
    }
    let seen = admin
        .get("/api/queues/%2F/q/peek?offset=1&count=1")
        .await
        .expect_status(200)
        .json();
    assert_eq!(seen.as_array().map(Vec::len), Some(1));
    assert_eq!(seen[0]["message"]["payload"], "2");
    assert_eq!(
        (&seen[0]["state"], &seen[0]["persistent"]),
        (&json!("ready"), &json!(true))
    );
    let got = get(&admin, 3, "ack_requeue_false").await;
    assert_eq!(payloads(&got), ["1", "2", "3"]);
    assert!(
        got.iter().all(|message| message["redelivered"] == false),
        "{got:?}"
    );
}

#[tokio::test]
async fn counters_of_a_queue_show_with_the_first_event() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    assert!(publish(&admin, "q", "1").await);
    get(&admin, 1, "ack_requeue_false").await;
    get(&admin, 1, "ack_requeue_false").await;
    let stats = admin.get("/api/queues/%2F/q").await.json()["message_stats"].clone();
    assert_eq!(
        (&stats["publish"], &stats["get_no_ack"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&stats["get_empty"], &stats["deliver_get"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(stats["publish_details"]["rate"].as_f64(), Some(0.0));
    let overview = admin.get("/api/overview").await.json();
    assert_eq!(overview["message_stats"]["publish"], 1);
    let exchange = admin.get("/api/exchanges/%2F/amq.default").await.json();
    assert_eq!(exchange["message_stats"]["publish_out"], 1);
}

#[tokio::test]
async fn an_aliveness_test_leaves_its_queue_empty() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    for _ in 0..2 {
        let alive = admin
            .get("/api/aliveness-test/%2F")
            .await
            .expect_status(200);
        assert_eq!(alive.json(), json!({"status": "ok"}));
    }
    let queue = admin
        .get("/api/queues/%2F/aliveness-test")
        .await
        .expect_status(200)
        .json();
    assert_eq!(queue["messages"], 0);
    assert_eq!(admin.get("/api/connections").await.json(), json!([]));
}
