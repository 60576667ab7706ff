//! Logins, tags and the errors of the road itself.

use serde_json::json;

use crate::support::Stage;

#[tokio::test]
async fn without_credentials_a_login_is_asked_for() {
    let stage = Stage::set().await;
    let answer = stage.nobody().get("/api/overview").await.expect_status(401);
    assert_eq!(
        answer.header("www-authenticate"),
        Some("basic realm=\"rabbitmq management\"")
    );
    assert_eq!(answer.text, "");
}

#[tokio::test]
async fn wrong_credentials_are_refused_and_counted() {
    let stage = Stage::set().await;
    let wrong = stage.user("guest", "wrong").get("/api/whoami").await;
    wrong.expect_refusal(401, "not_authorized", "Not_Authorized");
    let attempts = stage
        .admin()
        .get("/api/auth/attempts/rabbit@test")
        .await
        .expect_status(200);
    assert_eq!(attempts.json()[0]["auth_attempts_failed"], 1);
}

#[tokio::test]
async fn a_user_without_a_tag_may_not_use_the_api() {
    let stage = Stage::set().await;
    let client = stage.add_user("plain", "").await;
    let refused = client.get("/api/overview").await;
    refused.expect_refusal(401, "not_authorised", "Not management user");
}

#[tokio::test]
async fn each_tag_opens_what_it_is_for() {
    let stage = Stage::set().await;
    let management = stage.add_user("m", "management").await;
    let monitoring = stage.add_user("o", "monitoring").await;
    let policymaker = stage.add_user("p", "policymaker").await;
    management.get("/api/queues/%2F").await.expect_status(200);
    let nodes = management.get("/api/nodes").await;
    nodes.expect_refusal(401, "not_authorised", "Not monitor user");
    monitoring.get("/api/nodes").await.expect_status(200);
    let users = monitoring.get("/api/users").await;
    users.expect_refusal(401, "not_authorised", "Not administrator user");
    let policy = json!({"pattern": "x", "definition": {"max-length": 1}});
    let refused = management.put("/api/policies/%2F/p", policy.clone()).await;
    refused.expect_refusal(
        401,
        "not_authorised",
        "User not authorised to access object",
    );
    policymaker
        .put("/api/policies/%2F/p", policy)
        .await
        .expect_status(201);
}

#[tokio::test]
async fn a_vhost_that_is_not_the_users_is_hidden_and_writing_needs_permissions() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/vhosts/secret", json!({}))
        .await
        .expect_status(201);
    let client = stage.add_user("m", "management").await;
    let hidden = client.get("/api/queues/secret").await;
    hidden.expect_refusal(404, "not_found", "Not Found");
    let listed = client.get("/api/vhosts").await.expect_status(200).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    admin
        .delete("/api/permissions/secret/guest")
        .await
        .expect_status(204);
    admin.get("/api/queues/secret").await.expect_status(200);
    let refused = admin
        .put("/api/queues/secret/q", json!({"durable": true}))
        .await;
    refused.expect_refusal(401, "not_authorised", "Access refused.");
}

#[tokio::test]
async fn unknown_paths_wrong_methods_and_options_are_answered_before_the_login() {
    let stage = Stage::set().await;
    let nobody = stage.nobody();
    let nothing = nobody.get("/api/nothing-here").await;
    nothing.expect_refusal(404, "Object Not Found", "Not Found");
    let wrong = nobody
        .post("/api/queues/%2F/q", json!({}))
        .await
        .expect_status(405);
    assert_eq!(
        wrong.header("allow"),
        Some("head, get, put, delete, options")
    );
    assert_eq!(wrong.text, "");
    nobody
        .send("OPTIONS", "/api/overview", "")
        .await
        .expect_status(200);
    let head = stage
        .admin()
        .send("HEAD", "/api/whoami", "")
        .await
        .expect_status(200);
    assert_eq!(head.text, "");
}

#[tokio::test]
async fn broken_bodies_are_refused_and_change_nothing() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    for body in ["{\"durable\": tru", "[]", "5"] {
        let refused = admin.send("PUT", "/api/queues/%2F/q", body).await;
        refused.expect_refusal(400, "bad_request", "not_json");
    }
    let refused = admin
        .put("/api/queues/%2F/q", json!({"durable": "yes"}))
        .await;
    assert_eq!(
        refused.expect_status(400).json()["reason"],
        json!(["not_boolean", "yes"])
    );
    for arguments in [json!("x"), json!(3), json!(["x"])] {
        let body = json!({"durable": true, "arguments": arguments});
        let refused = admin.put("/api/queues/%2F/q", body).await;
        assert_eq!(
            refused.expect_status(400).json()["reason"],
            json!(["not_object", arguments])
        );
    }
    let huge = "a".repeat((24 << 20) + 1);
    let refused = admin.send("PUT", "/api/queues/%2F/q", &huge).await;
    refused.expect_refusal(400, "bad_request", "Exceeded HTTP request body size limit");
    admin.get("/api/queues/%2F/q").await.expect_status(404);
    admin.get("/api/queues/%FF/q").await.expect_status(404);
}

#[tokio::test]
async fn a_form_is_answered_with_the_token_of_later_requests() {
    let stage = Stage::set().await;
    let nobody = stage.nobody();
    let answer = nobody
        .send("POST", "/api/login", "username=guest&password=guest")
        .await;
    let answer = answer.expect_status(200).json();
    // guest:guest
    assert_eq!(answer["token"]["value"], "Z3Vlc3Q6Z3Vlc3Q=");
    assert_eq!(answer["user"]["name"], "guest");
    let wrong = nobody
        .send("POST", "/api/login", "username=guest&password=no")
        .await;
    wrong.expect_refusal(401, "not_authorized", "Not_Authorized");
    nobody
        .send("POST", "/api/login", "{}")
        .await
        .expect_status(400);
}
