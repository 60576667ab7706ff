//! What a scraper and a probe are told.

use std::collections::HashSet;

use serde_json::json;

use crate::support::Stage;

/// Checks the text: one head a family, samples below it, none twice.
fn check(text: &str) -> Vec<&str> {
    let mut families = HashSet::new();
    let mut seen = HashSet::new();
    let mut family = "";
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().expect("a name");
            assert!(families.insert(family), "{family} begins twice");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (identity, number) = line.rsplit_once(' ').expect("a sample");
        assert!(
            identity.starts_with(family),
            "{identity} stands below {family}"
        );
        assert!(seen.insert(identity), "{identity} comes twice");
        number.parse::<f64>().expect("a number");
        samples.push(line);
    }
    samples
}

#[tokio::test]
async fn every_endpoint_is_well_formed_with_odd_names_around() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    for name in ["plain", "with%20%22quotes%22", "back%5Cslash"] {
        let path = format!("/api/queues/%2F/{name}");
        admin
            .put(&path, json!({"durable": true}))
            .await
            .expect_status(201);
    }
    let _session = stage.connect(40_001);
    let scraper = stage.scraper();
    for path in [
        "/metrics",
        "/metrics/per-object",
        "/metrics/memory-breakdown",
        "/metrics/detailed?family=queue_coarse_metrics&family=queue_metrics&family=exchange_names",
    ] {
        let answer = scraper.get(path).await.expect_status(200);
        assert!(
            answer
                .header("content-type")
                .is_some_and(|kind| kind.starts_with("text/plain"))
        );
        let samples = check(&answer.text);
        assert!(
            samples
                .iter()
                .any(|line| line.starts_with("rabbitmq_identity_info")),
            "{path}"
        );
    }
    let per_object = scraper.get("/metrics/per-object").await.text;
    let odd = r#"rabbitmq_queue_messages{vhost="/",queue="with \"quotes\""} 0"#;
    assert!(per_object.lines().any(|line| line == odd));
    scraper
        .send("HEAD", "/metrics", "")
        .await
        .expect_status(204);
    scraper.get("/").await.expect_status(404);
}

#[tokio::test]
async fn counters_add_up_over_queues_that_are_gone() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/queues/%2F/q", json!({"durable": true}))
        .await
        .expect_status(201);
    let publish = json!({
        "properties": {}, "routing_key": "q", "payload": "hello", "payload_encoding": "string",
    });
    admin
        .post("/api/exchanges/%2F//publish", publish)
        .await
        .expect_status(200);
    let get = json!({"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"});
    admin
        .post("/api/queues/%2F/q/get", get)
        .await
        .expect_status(200);
    admin.delete("/api/queues/%2F/q").await.expect_status(204);
    let text = stage
        .scraper()
        .get("/metrics")
        .await
        .expect_status(200)
        .text;
    for line in [
        "rabbitmq_queues 0",
        "rabbitmq_queues_created_total 1",
        "rabbitmq_queues_deleted_total 1",
        "rabbitmq_global_messages_received_total{protocol=\"amqp091\"} 1",
        "rabbitmq_global_messages_delivered_get_auto_ack_total{protocol=\"amqp091\",queue_type=\"rabbit_classic_queue\"} 1",
        "rabbitmq_message_size_bytes_sum{protocol=\"amqp091\"} 5",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is missing");
    }
}

#[tokio::test]
async fn families_are_narrowed_by_vhost_and_queue() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    admin
        .put("/api/vhosts/v", json!({}))
        .await
        .expect_status(201);
    for path in ["/api/queues/%2F/a", "/api/queues/v/a", "/api/queues/v/b"] {
        admin
            .put(path, json!({"durable": true}))
            .await
            .expect_status(201);
    }
    let path = "/metrics/detailed?family=queue_consumer_count&vhost=v&queue=%5Ea";
    let text = stage.scraper().get(path).await.expect_status(200).text;
    let queues: Vec<_> = check(&text)
        .into_iter()
        .filter(|line| line.contains("queue_consumers"))
        .collect();
    assert_eq!(
        queues,
        [r#"rabbitmq_detailed_queue_consumers{vhost="v",queue="a"} 0"#]
    );
}

#[tokio::test]
async fn probes_need_no_login() {
    let stage = Stage::set().await;
    let scraper = stage.scraper();
    scraper.get("/healthz/live").await.expect_status(200);
    scraper.get("/healthz/ready").await.expect_status(200);
}
