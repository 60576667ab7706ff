//! Vhosts, users, limits, parameters.

use serde_json::json;

use crate::support::Stage;

#[tokio::test]
async fn a_vhost_lives_from_put_to_delete() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let body = json!({"description": "d", "tags": "a,b", "default_queue_type": "quorum"});
    admin
        .put("/api/vhosts/a%2Fb", body)
        .await
        .expect_status(201);
    let vhost = admin
        .get("/api/vhosts/a%2Fb")
        .await
        .expect_status(200)
        .json();
    assert_eq!(
        (&vhost["name"], &vhost["tags"]),
        (&json!("a/b"), &json!(["a", "b"]))
    );
    assert_eq!(vhost["default_queue_type"], "quorum");
    assert_eq!(vhost["cluster_state"]["rabbit@test"], "running");
    let permissions = admin.get("/api/vhosts/a%2Fb/permissions").await.json();
    assert_eq!(permissions[0]["user"], "guest");
    admin
        .send("PUT", "/api/vhosts/a%2Fb", "")
        .await
        .expect_status(204);
    admin.delete("/api/vhosts/a%2Fb").await.expect_status(204);
    let missing = admin.delete("/api/vhosts/a%2Fb").await;
    missing.expect_refusal(404, "Object Not Found", "Not Found");
}

#[tokio::test]
async fn a_protected_vhost_is_not_deleted() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/vhosts/v", json!({}))
        .await
        .expect_status(201);
    admin
        .send("POST", "/api/vhosts/v/deletion/protection", "")
        .await
        .expect_status(204);
    let refused = admin.delete("/api/vhosts/v").await;
    let reason = "Refusing to delete virtual host 'v' because it is protected from deletion";
    refused.expect_refusal(412, "precondition_failed", reason);
    admin
        .put("/api/vhosts/v", json!({}))
        .await
        .expect_status(204);
    admin.delete("/api/vhosts/v").await.expect_status(412);
    admin
        .delete("/api/vhosts/v/deletion/protection")
        .await
        .expect_status(204);
    admin.delete("/api/vhosts/v").await.expect_status(204);
}

#[tokio::test]
async fn users_are_made_with_a_password_or_its_hash() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let body = json!({"password": "one", "tags": "management,policymaker"});
    admin.put("/api/users/u", body).await.expect_status(201);
    let user = admin.get("/api/users/u").await.expect_status(200).json();
    assert_eq!(user["tags"], json!(["management", "policymaker"]));
    let body = json!({"password_hash": user["password_hash"], "tags": ["monitoring"]});
    admin.put("/api/users/u", body).await.expect_status(204);
    stage
        .user("u", "one")
        .get("/api/whoami")
        .await
        .expect_status(200);
    let no_tags = admin.put("/api/users/u", json!({"password": "two"})).await;
    no_tags.expect_refusal(400, "bad_request", "tags_not_present");
    admin
        .post("/api/users/bulk-delete", json!({"users": ["u", "none"]}))
        .await
        .expect_status(204);
    admin.get("/api/users/u").await.expect_status(404);
}

#[tokio::test]
async fn permissions_want_three_patterns_and_two_ends() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
    let refused = admin.put("/api/permissions/nope/guest", all.clone()).await;
    refused.expect_refusal(400, "bad_request", "vhost_or_user_not_found");
    let refused = admin
        .put("/api/permissions/%2F/guest", json!({"configure": "x"}))
        .await;
    refused.expect_refusal(
        400,
        "bad_request",
        "[{key_missing,write},{key_missing,read}]",
    );
    let broken = json!({"configure": "(", "write": "", "read": ""});
    admin
        .put("/api/permissions/%2F/guest", broken)
        .await
        .expect_status(400);
    let kept = admin
        .get("/api/permissions/%2F/guest")
        .await
        .expect_status(200)
        .json();
    assert_eq!(kept["configure"], ".*");
}

#[tokio::test]
async fn topic_permissions_are_set_per_exchange_and_cleared_together() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let body = json!({"exchange": "amq.topic", "write": "a", "read": "b"});
    admin
        .put("/api/topic-permissions/%2F/guest", body.clone())
        .await
        .expect_status(201);
    admin
        .put("/api/topic-permissions/%2F/guest", body)
        .await
        .expect_status(204);
    let listed = admin
        .get("/api/topic-permissions/%2F/guest")
        .await
        .expect_status(200)
        .json();
    assert_eq!(listed[0]["exchange"], "amq.topic");
    let unknown = json!({"exchange": "none", "write": "a", "read": "b"});
    let refused = admin.put("/api/topic-permissions/%2F/guest", unknown).await;
    assert_eq!(
        refused.expect_status(400).json()["reason"],
        json!(["no_such_exchange", "none"])
    );
    admin
        .delete("/api/topic-permissions/%2F/guest")
        .await
        .expect_status(204);
    admin
        .delete("/api/topic-permissions/%2F/guest")
        .await
        .expect_status(404);
}

#[tokio::test]
async fn limits_are_parameters_as_well() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/vhost-limits/%2F/max-queues", json!({"value": 5}))
        .await
        .expect_status(204);
    let limits = admin.get("/api/vhost-limits/%2F").await.json();
    assert_eq!(limits, json!([{"vhost": "/", "value": {"max-queues": 5}}]));
    let parameter = admin
        .get("/api/parameters/vhost-limits/%2F/limits")
        .await
        .json();
    assert_eq!(parameter["value"], json!({"max-queues": 5}));
    let refused = admin
        .put("/api/vhost-limits/%2F/max-queues", json!({"value": "x"}))
        .await;
    let reason = "Validation failed\n\nmax-queues should be a number, actually was <<\"x\">>\n";
    refused.expect_refusal(400, "bad_request", reason);
    admin
        .delete("/api/parameters/vhost-limits/%2F/limits")
        .await
        .expect_status(204);
    assert_eq!(admin.get("/api/vhost-limits/%2F").await.json(), json!([]));
    admin
        .put("/api/user-limits/guest/max-channels", json!({"value": 9}))
        .await
        .expect_status(204);
    let limits = admin.get("/api/user-limits").await.json();
    assert_eq!(
        limits,
        json!([{"user": "guest", "value": {"max-channels": 9}}])
    );
}

#[tokio::test]
async fn the_cluster_is_named_by_a_global_parameter() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    assert_eq!(
        admin.get("/api/cluster-name").await.json(),
        json!({"name": "rabbit@test"})
    );
    admin
        .put("/api/cluster-name", json!({"name": "ours"}))
        .await
        .expect_status(204);
    assert_eq!(
        admin.get("/api/overview").await.json()["cluster_name"],
        "ours"
    );
    admin
        .put("/api/global-parameters/g", json!({"value": [1]}))
        .await
        .expect_status(201);
    let shown = admin.get("/api/global-parameters/g").await.json();
    assert_eq!(shown, json!({"name": "g", "value": [1]}));
    admin
        .delete("/api/global-parameters/g")
        .await
        .expect_status(204);
    admin
        .delete("/api/global-parameters/g")
        .await
        .expect_status(404);
}
