//! Queues, exchanges, bindings and policies.

use serde_json::json;

use crate::support::Stage;

#[tokio::test]
async fn a_queue_shows_what_it_is_from_the_first_moment() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let body = json!({"durable": true, "arguments": {"x-max-length": 5}});
    admin
        .put("/api/queues/%2F/q", body.clone())
        .await
        .expect_status(201);
    admin
        .put("/api/queues/%2F/q", body)
        .await
        .expect_status(204);
    let queue = admin
        .get("/api/queues/%2F/q")
        .await
        .expect_status(200)
        .json();
    let expected = json!({"x-max-length": 5, "x-queue-type": "classic"});
    assert_eq!(queue["arguments"], expected);
    for (key, value) in [
        ("type", json!("classic")),
        ("durable", json!(true)),
        ("exclusive", json!(false)),
        ("state", json!("running")),
        ("messages", json!(0)),
        ("consumers", json!(0)),
        ("policy", json!(null)),
        ("effective_policy_definition", json!({})),
        ("consumer_details", json!([])),
    ] {
        assert_eq!(queue[key], value, "{key}");
    }
    assert!(queue.get("message_stats").is_none());
    let differs = admin
        .put("/api/queues/%2F/q", json!({"durable": false}))
        .await;
    let reason = differs.expect_status(400).json()["reason"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(
        reason.starts_with("inequivalent arg 'durable' for queue 'q'"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_quorum_queue_shows_its_group_and_wants_to_be_durable() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let arguments = json!({"x-queue-type": "quorum"});
    let refused = admin
        .put("/api/queues/%2F/q", json!({"arguments": arguments}))
        .await;
    refused.expect_status(400);
    let body = json!({"durable": true, "arguments": arguments});
    admin
        .put("/api/queues/%2F/q", body)
        .await
        .expect_status(201);
    let queue = admin.get("/api/queues/%2F/q").await.json();
    assert_eq!(queue["members"], json!(["rabbit@test"]));
    assert_eq!(
        (&queue["leader"], &queue["delivery_limit"]),
        (&json!("rabbit@test"), &json!(20))
    );
    let status = admin
        .get("/api/queues/quorum/%2F/q/status")
        .await
        .expect_status(200)
        .json();
    assert_eq!(status[0]["Raft State"], "leader");
}

#[tokio::test]
async fn an_exchange_is_named_by_its_public_name_in_paths() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    for path in ["/api/exchanges/%2F/amq.default", "/api/exchanges/%2F//"] {
        assert_eq!(
            admin.get(path).await.expect_status(200).json()["name"],
            "",
            "{path}"
        );
    }
    admin
        .put("/api/exchanges/%2F/x", json!({}))
        .await
        .expect_status(201);
    let exchange = admin.get("/api/exchanges/%2F/x").await.json();
    assert_eq!(
        (&exchange["type"], &exchange["durable"]),
        (&json!("direct"), &json!(false))
    );
    let reserved = admin.put("/api/exchanges/%2F/amq.mine", json!({})).await;
    reserved.expect_refusal(401, "not_authorised", "Access refused.");
    let unknown = admin
        .put("/api/exchanges/%2F/y", json!({"type": "bogus"}))
        .await;
    unknown.expect_refusal(400, "bad_request", "unknown exchange type 'bogus'");
    admin
        .delete("/api/exchanges/%2F/x?if-unused=true")
        .await
        .expect_status(204);
    admin
        .delete("/api/exchanges/%2F/x")
        .await
        .expect_status(404);
}

#[tokio::test]
async fn a_binding_is_found_and_removed_by_the_key_of_its_location() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    let path = "/api/bindings/%2F/e/amq.topic/q/q";
    for (body, key) in [
        (json!({"routing_key": "a.b/c d"}), "a.b%252fc%2bd"),
        (json!({}), "~"),
        (
            json!({"routing_key": "k", "arguments": {"n": 5, "s": "5", "l": ["x"]}}),
            "k~",
        ),
    ] {
        let made = admin.post(path, body.clone()).await.expect_status(201);
        let location = made.header("location").expect("a location");
        assert!(location.starts_with(&format!("q/{key}")), "{location}");
        let listed = admin.get(path).await.json();
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
        let properties_key = listed[0]["properties_key"].as_str().expect("text");
        let encoded = properties_key.replace('%', "%25").replace('+', "%2B");
        let one = admin
            .get(&format!("{path}/{encoded}"))
            .await
            .expect_status(200)
            .json();
        assert_eq!(
            one["arguments"],
            *body.get("arguments").unwrap_or(&json!({}))
        );
        admin
            .delete(&format!("{path}/{encoded}"))
            .await
            .expect_status(204);
        admin
            .delete(&format!("{path}/{encoded}"))
            .await
            .expect_status(404);
    }
    let missing = admin
        .post("/api/bindings/%2F/e/amq.topic/q/none", json!({}))
        .await;
    missing.expect_refusal(404, "not_found", "no queue 'none' in vhost '/'");
}

#[tokio::test]
async fn every_queue_has_its_implicit_binding() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    let expected = json!([{
        "source": "", "vhost": "/", "destination": "q", "destination_type": "queue",
        "routing_key": "q", "arguments": {}, "properties_key": "q",
    }]);
    for path in [
        "/api/queues/%2F/q/bindings",
        "/api/bindings/%2F",
        "/api/bindings/%2F/e//q/q",
        "/api/exchanges/%2F/amq.default/bindings/source",
    ] {
        assert_eq!(admin.get(path).await.json(), expected, "{path}");
    }
}

#[tokio::test]
async fn policies_merge_with_operator_policies_on_queues() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    let user = json!({"pattern": "^q", "definition": {"max-length": 9}, "apply-to": "queues"});
    let operator = json!({"pattern": "^q", "definition": {"max-length": 2}, "priority": 3});
    admin
        .put("/api/policies/%2F/u", user)
        .await
        .expect_status(201);
    admin
        .put("/api/operator-policies/%2F/o", operator)
        .await
        .expect_status(201);
    let queue = admin.get("/api/queues/%2F/q").await.json();
    assert_eq!(
        (&queue["policy"], &queue["operator_policy"]),
        (&json!("u"), &json!("o"))
    );
    assert_eq!(
        queue["effective_policy_definition"],
        json!({"max-length": 2})
    );
    let policy = admin.get("/api/policies/%2F/u").await.json();
    assert_eq!(
        (&policy["apply-to"], &policy["priority"]),
        (&json!("queues"), &json!(0))
    );
    let parameter = admin.get("/api/parameters/operator_policy").await.json();
    assert_eq!(parameter[0]["value"]["priority"], 3);
    let missing = admin
        .put("/api/policies/%2F/x", json!({"pattern": "x"}))
        .await;
    missing.expect_refusal(400, "bad_request", "[{key_missing,definition}]");
    admin.delete("/api/policies/%2F/u").await.expect_status(204);
    admin.delete("/api/policies/%2F/u").await.expect_status(404);
}
