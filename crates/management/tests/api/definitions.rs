//! Export and import.

use serde_json::json;

use crate::support::Stage;

#[tokio::test]
async fn a_vhosts_definitions_make_the_same_in_another() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    for vhost in ["a", "b"] {
        admin
            .put(&format!("/api/vhosts/{vhost}"), json!({}))
            .await
            .expect_status(201);
    }
    let quorum = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    admin
        .put("/api/queues/a/q", quorum)
        .await
        .expect_status(201);
    admin
        .put("/api/exchanges/a/x", json!({"type": "topic"}))
        .await
        .expect_status(201);
    let binding = json!({"routing_key": "k", "arguments": {"n": 1}});
    admin
        .post("/api/bindings/a/e/x/q/q", binding)
        .await
        .expect_status(201);
    let policy = json!({"pattern": "^q", "definition": {"max-length": 3}});
    admin
        .put("/api/policies/a/p", policy)
        .await
        .expect_status(201);
    let exported = admin
        .get("/api/definitions/a")
        .await
        .expect_status(200)
        .json();
    for _ in 0..2 {
        admin
            .post("/api/definitions/b", exported.clone())
            .await
            .expect_status(204);
    }
    let again = admin.get("/api/definitions/b").await.json();
    for section in ["queues", "exchanges", "bindings", "policies"] {
        assert_eq!(again[section], exported[section], "{section}");
        assert_ne!(exported[section], json!([]), "{section}");
    }
}

#[tokio::test]
async fn definitions_of_a_vhost_that_is_missing_are_refused() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let body = json!({"queues": [{"name": "q", "vhost": "nope", "durable": true}]});
    let refused = admin.post("/api/definitions", body).await;
    let reason = "Please create virtual host \"nope\" prior to importing definitions.";
    refused.expect_refusal(400, "bad_request", reason);
    let broken = admin.send("POST", "/api/definitions", "x").await;
    broken.expect_refusal(400, "bad_request", "failed_to_parse_json");
}

#[tokio::test]
async fn queues_of_a_type_that_is_not_there_are_passed_over_and_named() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let body = json!({
        "queues": [
            {"name": "s", "vhost": "/", "durable": true, "arguments": {"x-queue-type": "stream"}},
            {"name": "q", "vhost": "/", "durable": true},
        ],
        "bindings": [{
            "source": "amq.topic", "vhost": "/", "destination": "s",
            "destination_type": "queue", "routing_key": "k",
        }],
    });
    let imported = admin
        .post("/api/definitions", body)
        .await
        .expect_status(204);
    assert_eq!(imported.header("x-skipped-queues"), Some("%2f/s"));
    admin.get("/api/queues/%2F/q").await.expect_status(200);
    admin.get("/api/queues/%2F/s").await.expect_status(404);
}
