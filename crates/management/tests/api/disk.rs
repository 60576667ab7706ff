//! What takes room on the disk, over HTTP.

use serde_json::json;

use crate::support::Stage;

const BODY_BYTES: u64 = 5_000;

#[tokio::test]
async fn the_disk_report_tells_the_room_that_a_queue_takes() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    for queue in ["full", "empty"] {
        let body = json!({"durable": true});
        let path = format!("/api/queues/%2F/{queue}");
        admin.put(&path, body).await.expect_status(201);
    }
    let message = json!({
        "properties": {"delivery_mode": 2}, "routing_key": "full", "payload_encoding": "string",
        "payload": "x".repeat(BODY_BYTES as usize),
    });
    admin
        .post("/api/exchanges/%2F/amq.default/publish", message)
        .await
        .expect_status(200);
    let of_queue = admin.get("/api/queues/%2F/full/disk").await.json();
    assert_eq!(
        (&of_queue["vhost"], &of_queue["queue"]),
        (&json!("/"), &json!("full"))
    );
    let taken = of_queue["journal_bytes"].as_u64().expect("a number");
    assert!((BODY_BYTES..2 * BODY_BYTES).contains(&taken), "{of_queue}");
    assert_eq!(of_queue["pinned_by"], json!([]), "it is in no segment");

    let disk = admin.get("/api/disk").await.json();
    assert_eq!(
        disk["queues"],
        json!([of_queue]),
        "the empty queue takes no room"
    );
    assert!(disk["journal_bytes"].as_u64() > Some(BODY_BYTES), "{disk}");

    admin
        .get("/api/queues/%2F/nosuch/disk")
        .await
        .expect_status(404);
    let watcher = stage.add_user("watcher", "monitoring").await;
    watcher.get("/api/disk").await.expect_status(200);
    let app = stage.add_user("app", "management").await;
    app.get("/api/disk").await.expect_status(401);
}
