//! The stream of events.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::Stage;

/// Reads events until so many have come.
async fn follow(stage: &Stage, query: &str, count: usize, cause: impl AsyncFnOnce()) -> Vec<Value> {
    let mut stream = TcpStream::connect(stage.api).await.expect("a connection");
    // guest:guest
    let request = format!(
        "GET /api/events{query} HTTP/1.1\r\nhost: test\r\nauthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
    );
    stream
        .write_all(request.as_bytes())
        .await
        .expect("a sent request");
    let mut lines = BufReader::new(stream).lines();
    // Once the head has come, nothing that happens is missed.
    while let Some(line) = lines.next_line().await.expect("a line") {
        if line.is_empty() {
            break;
        }
    }
    cause().await;
    let mut events = Vec::new();
    while events.len() < count {
        let line = lines.next_line().await.expect("a line").expect("no end");
        if let Some(data) = line.strip_prefix("data: ") {
            events.push(serde_json::from_str(data).expect("JSON"));
        }
    }
    events
}

#[tokio::test]
async fn what_happens_is_told_as_it_happens() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let events = follow(&stage, "", 2, async || {
        let body = json!({"durable": true});
        admin
            .put("/api/queues/%2F/q", body)
            .await
            .expect_status(201);
        admin.delete("/api/queues/%2F/q").await.expect_status(204);
    })
    .await;
    assert_eq!(
        (&events[0]["event"], &events[0]["about"]),
        (&json!("queue.created"), &json!("q"))
    );
    assert_eq!(
        (&events[1]["event"], &events[1]["vhost"]),
        (&json!("queue.deleted"), &json!("/"))
    );
}

#[tokio::test]
async fn a_prefix_chooses_events() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let events = follow(&stage, "?type=user", 1, async || {
        admin
            .put("/api/queues/%2F/q", json!({"durable": true}))
            .await
            .expect_status(201);
        let body = json!({"password": "pw", "tags": ""});
        admin.put("/api/users/bob", body).await.expect_status(201);
    })
    .await;
    assert_eq!(events[0]["event"], "user.created");
}

#[tokio::test]
async fn events_need_a_login() {
    let stage = Stage::set().await;
    stage.nobody().get("/api/events").await.expect_status(401);
}
