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
    let mut helped = HashSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            assert!(!help.trim().is_empty(), "{name} has no help");
            assert!(helped.insert(name), "{name} has two helps");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().expect("a name");
            assert!(families.insert(family), "{family} begins twice");
            lint(family, rest.rsplit(' ').next().expect("a type"));
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
    assert_eq!(families, helped);
    samples
}

/// What promtool says of names: counters end in `_total` and nothing else does, no abbreviated
/// units, no types in names. Raft's names are RabbitMQ's own.
fn lint(family: &str, kind: &str) {
    let is_name = family.starts_with(|first: char| first.is_ascii_lowercase())
        && family
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    assert!(is_name, "{family} is no name");
    if !family.starts_with("rabbitmq_raft_") {
        assert_eq!(
            family.ends_with("_total"),
            kind == "counter",
            "{family} is a {kind}"
        );
    }
    for word in ["_ms", "_kb", "_mb", "_gauge", "_counter", "_histogram"] {
        assert!(!family.ends_with(word), "{family} ends in {word}");
    }
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

#[tokio::test]
async fn memory_disk_and_syncs_are_shown_beside_the_logs_of_quorum_queues() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let quorum = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    admin
        .put("/api/queues/%2F/q", quorum)
        .await
        .expect_status(201);
    let publish = json!({
        "properties": {"delivery_mode": 2}, "routing_key": "q",
        "payload": "hello", "payload_encoding": "string",
    });
    admin
        .post("/api/exchanges/%2F/amq.default/publish", publish)
        .await
        .expect_status(200);
    let scraper = stage.scraper();
    let number = |text: &str, identity: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(identity));
        let number = found.unwrap_or_else(|| panic!("{identity} is missing"));
        number.trim().parse::<f64>().expect("a number")
    };
    let text = scraper.get("/metrics").await.expect_status(200).text;
    check(&text);
    let syncs = number(&text, "sluicemq_journal_sync_duration_seconds_count");
    assert!(
        syncs >= 2.0,
        "the queue and the message were synced: {syncs}"
    );
    let longest = "sluicemq_journal_sync_duration_seconds_bucket{le=\"+Inf\"}";
    assert!(number(&text, longest) >= syncs);
    assert!(number(&text, "sluicemq_disk_journal_bytes") > 0.0);
    assert_eq!(number(&text, "sluicemq_disk_dead_bytes"), 0.0);
    assert!(number(&text, "sluicemq_memory_used_bytes{meter=\"producers\"}") >= 5.0);
    let latency = "rabbitmq_raft_max_commit_latency_seconds{ra_system=\"quorum_queues\"}";
    assert!(number(&text, latency) > 0.0);

    let text = scraper.get("/metrics/per-object").await.text;
    check(&text);
    let written = "rabbitmq_raft_last_written_index{vhost=\"/\",queue=\"q\"}";
    assert!(number(&text, written) >= 1.0);
    let path = "/metrics/detailed?family=ra_metrics&vhost=%2F";
    let text = scraper.get(path).await.expect_status(200).text;
    check(&text);
    let committed = "rabbitmq_detailed_raft_commit_index{vhost=\"/\",queue=\"q\"}";
    assert!(number(&text, committed) >= 1.0);
}
