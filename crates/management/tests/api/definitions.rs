//! Export and import.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256};

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

/// Users as RabbitMQ exports them: password `test12`, salt 908dc60a, each algorithm. Made by Python's
/// hashlib; that of SHA-256 is the example of RabbitMQ's documentation.
const THEIRS: [(&str, &str, &str); 3] = [
    (
        "md5",
        "rabbit_password_hashing_md5",
        "kI3GChNpte2FApYFXScl+0dIluk=",
    ),
    (
        "sha256",
        "rabbit_password_hashing_sha256",
        "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
    ),
    (
        "sha512",
        "rabbit_password_hashing_sha512",
        "kI3GChuNuIYf8lRbCCxZjgjKwsY19ns6+uFO0zcXRBGA/XGJPYD8OWMy7EB8TaOmAzjP2azv84GbINYwX2cDWb4DHnc=",
    ),
];

#[tokio::test]
async fn users_of_every_hashing_algorithm_log_in_and_leave_as_they_came() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let users: Vec<_> = THEIRS
        .iter()
        .map(|(name, algorithm, hash)| {
            json!({
                "name": name, "password_hash": hash, "hashing_algorithm": algorithm,
                "tags": ["management"], "limits": {},
            })
        })
        .collect();
    let body = json!({"users": users});
    admin
        .post("/api/definitions", body)
        .await
        .expect_status(204);
    for (name, ..) in THEIRS {
        let whoami = stage.user(name, "test12").get("/api/whoami").await;
        whoami.expect_status(200);
        let wrong = stage.user(name, "test13").get("/api/whoami").await;
        wrong.expect_status(401);
    }
    // Hashed here, with our default.
    let body = json!({"password": "test12", "tags": ""});
    admin.put("/api/users/ours", body).await.expect_status(201);
    let exported = admin.get("/api/definitions").await.json();
    let exported = exported["users"].as_array().expect("users").clone();
    let named = |name: &str| {
        let user = exported.iter().find(|user| user["name"] == name);
        user.expect("it is exported").clone()
    };
    for user in &users {
        let name = user["name"].as_str().expect("a name");
        for key in ["password_hash", "hashing_algorithm", "tags"] {
            assert_eq!(named(name)[key], user[key], "{name}: {key}");
        }
    }
    let ours = named("ours");
    assert_eq!(ours["hashing_algorithm"], "rabbit_password_hashing_sha256");
    let hash = ours["password_hash"].as_str().expect("a text");
    let bytes = BASE64_STANDARD.decode(hash).expect("base64");
    assert_eq!(bytes.len(), 4 + 32, "salt and digest");
    let digest = Sha256::digest([&bytes[..4], b"test12"].concat());
    assert_eq!(bytes[4..], digest[..]);
}
