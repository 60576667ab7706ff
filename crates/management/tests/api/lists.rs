//! Pages, sorting and columns, and the lists that have none.

use serde_json::{Value, json};

use crate::support::{Http, NODE, Stage};

async fn declare(client: &Http, names: &[&str]) {
    for name in names {
        let path = format!("/api/queues/%2F/{name}");
        client
            .put(&path, json!({"durable": true}))
            .await
            .expect_status(201);
    }
}

fn names(list: &Value) -> Vec<&str> {
    let items = list
        .get("items")
        .unwrap_or(list)
        .as_array()
        .expect("a list");
    items
        .iter()
        .map(|item| item["name"].as_str().expect("a name"))
        .collect()
}

#[tokio::test]
async fn a_scaler_finds_its_queues_by_expression_on_a_page() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, &["jobs.a", "jobs.b", "other"]).await;
    let path = "/api/queues/%2F?page=1&use_regex=true&pagination=false&name=%5Ejobs&page_size=100";
    let page = admin.get(path).await.expect_status(200).json();
    assert_eq!(names(&page), ["jobs.a", "jobs.b"]);
    assert_eq!(
        (&page["total_count"], &page["filtered_count"]),
        (&json!(3), &json!(2))
    );
    let beyond = admin.get("/api/queues?page=9").await;
    let reason = "Page out of range, page: 9 page size: 100, len: 3";
    beyond.expect_refusal(400, "page_out_of_range", reason);
}

#[tokio::test]
async fn lists_come_by_name_and_are_sorted_and_cut_as_asked() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, &["b", "c", "a"]).await;
    assert_eq!(
        names(&admin.get("/api/queues").await.json()),
        ["a", "b", "c"]
    );
    let sorted = admin
        .get("/api/queues?sort=name&sort_reverse=true&columns=name")
        .await
        .json();
    assert_eq!(sorted, json!([{"name": "c"}, {"name": "b"}, {"name": "a"}]));
    let bare = admin
        .get("/api/queues?disable_stats=true&enable_queue_totals=true")
        .await
        .json();
    assert_eq!(
        (&bare[0]["messages"], bare[0].get("memory")),
        (&json!(0), None)
    );
}

#[tokio::test]
async fn the_overview_and_the_nodes_have_what_tools_decode() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let overview = admin.get("/api/overview").await.expect_status(200).json();
    assert_eq!(overview["rabbitmq_version"], "4.3.6");
    assert_eq!(overview["object_totals"]["exchanges"], 7);
    assert_eq!(overview["queue_totals"], json!({}));
    assert_eq!(overview["listeners"][0]["protocol"], "amqp");
    let nodes = admin.get("/api/nodes").await.expect_status(200).json();
    let node = &nodes[0];
    assert!(
        node["os_pid"]
            .as_str()
            .is_some_and(|pid| pid.parse::<u32>().is_ok()),
        "{node}"
    );
    for key in [
        "mem_used",
        "mem_limit",
        "disk_free",
        "fd_used",
        "fd_total",
        "proc_used",
    ] {
        assert!(
            node[key].as_u64().is_some_and(|figure| figure > 0),
            "{key}: {}",
            node[key]
        );
    }
    admin.get("/api/nodes/rabbit@test").await.expect_status(200);
    admin.get("/api/nodes/nope").await.expect_status(404);
    let memory = admin
        .get("/api/nodes/rabbit@test/memory")
        .await
        .expect_status(200)
        .json();
    assert!(
        memory["memory"]["total"]["rss"]
            .as_u64()
            .is_some_and(|bytes| bytes > 0),
        "{memory}"
    );
}

#[tokio::test]
async fn health_checks_tell_what_is_missing() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    for check in [
        "alarms",
        "local-alarms",
        "virtual-hosts",
        "is-in-service",
        "ready-to-serve-clients",
    ] {
        let answer = admin
            .get(&format!("/api/health/checks/{check}"))
            .await
            .expect_status(200);
        assert_eq!(answer.json(), json!({"status": "ok"}), "{check}");
    }
    let critical = admin
        .get("/api/health/checks/node-is-quorum-critical")
        .await
        .json();
    assert_eq!(
        critical,
        json!({"status": "ok", "reason": "single node cluster"})
    );
    admin
        .get("/api/health/checks/port-listener/5672")
        .await
        .expect_status(200);
    let missing = admin
        .get("/api/health/checks/port-listener/1")
        .await
        .expect_status(503)
        .json();
    assert_eq!(
        (&missing["status"], &missing["missing"]),
        (&json!("failed"), &json!(1))
    );
    let missing = admin
        .get("/api/health/checks/protocol-listener/amqp,mqtt")
        .await;
    assert_eq!(
        missing.expect_status(503).json()["missing"],
        json!(["mqtt"])
    );
    let bad = admin.get("/api/health/checks/port-listener/x").await;
    bad.expect_refusal(400, "bad_request", "Invalid port");
}

#[tokio::test]
async fn feature_flags_are_on_and_unknown_ones_are_not_enabled() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let flags = admin
        .get("/api/feature-flags")
        .await
        .expect_status(200)
        .json();
    let all = flags.as_array().expect("a list");
    assert!(all.iter().all(|flag| flag["state"] == "enabled") && !all.is_empty());
    admin
        .put("/api/feature-flags/quorum_queue/enable", json!({}))
        .await
        .expect_status(204);
    let unknown = admin
        .put("/api/feature-flags/bogus/enable", json!({}))
        .await;
    unknown.expect_refusal(400, "bad_request", "unsupported");
}

#[tokio::test]
async fn alarms_fail_their_checks_and_limits_at_run_time_raise_and_end_them() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let path = format!("/api/nodes/{NODE}/alarm-limits");
    let limits = json!({"memory_share": 0.0, "disk_free_bytes": u64::MAX >> 1});
    admin.put(&path, limits).await.expect_status(204);
    for (check, reason) in [
        ("alarms", "There are alarms in effect in the cluster"),
        ("local-alarms", "There are alarms in effect on the node"),
    ] {
        let answer = admin.get(&format!("/api/health/checks/{check}")).await;
        let failed = answer.expect_status(503).json();
        assert_eq!(failed["status"], "failed");
        assert_eq!(failed["reason"], reason);
        let alarms =
            [("memory"), ("disk")].map(|resource| json!({"node": NODE, "resource": resource}));
        assert_eq!(failed["alarms"], json!(alarms));
    }
    let limits = json!({"memory_bytes": u64::MAX >> 1, "disk_free_memory_share": 0});
    admin.put(&path, limits).await.expect_status(204);
    let well = admin.get("/api/health/checks/alarms").await;
    assert_eq!(well.expect_status(200).json(), json!({"status": "ok"}));

    for wrong in [
        json!({"memory_bytes": 1, "memory_share": 0.5}),
        json!({"memory_share": -0.5}),
        json!({"memory": 5}),
    ] {
        admin.put(&path, wrong).await.expect_status(400);
    }
    let app = stage.add_user("app", "monitoring").await;
    app.put(&path, json!({})).await.expect_status(401);
}

#[tokio::test]
async fn certificates_that_nobody_serves_do_not_run_out_and_units_are_checked() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let check = |rest: &str| format!("/api/health/checks/certificate-expiration/{rest}");
    admin.get(&check("10/years")).await.expect_status(200);
    admin.get(&check("1/fortnights")).await.expect_status(400);
    admin.get(&check("soon/days")).await.expect_status(400);
}
