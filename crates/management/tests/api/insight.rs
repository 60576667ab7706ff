//! What RabbitMQ's API does not have: moving, redriving, and answers to why.

use broker::{Consume, Publish};
use broker_core::{ConsumerTag, QueueName};
use serde_json::{Value, json};

use crate::support::{Http, Stage};

async fn declare(admin: &Http, queue: &str, arguments: Value) {
    let body = json!({"durable": true, "arguments": arguments});
    let path = format!("/api/queues/%2F/{queue}");
    admin.put(&path, body).await.expect_status(201);
}

fn consume(queue: &str, tag: &str) -> Consume {
    Consume {
        queue: QueueName::new(queue),
        consumer_tag: ConsumerTag::new(tag),
        no_ack: false,
        exclusive: false,
        arguments: amqp::Table::default(),
    }
}

async fn publish(admin: &Http, key: &str, payload: &str, headers: Value) {
    let body = json!({
        "properties": {"headers": headers}, "routing_key": key, "payload": payload,
        "payload_encoding": "string",
    });
    let answer = admin
        .post("/api/exchanges/%2F/amq.default/publish", body)
        .await;
    assert_eq!(answer.json(), json!({"routed": true}));
}

async fn payloads(admin: &Http, queue: &str) -> Vec<String> {
    let seen = admin
        .get(&format!("/api/queues/%2F/{queue}/peek?count=1000"))
        .await
        .json();
    let rows = seen.as_array().expect("an array").clone();
    rows.iter()
        .map(|row| row["message"]["payload"].as_str().expect("text").to_owned())
        .collect()
}

/// Queue `work` whose dead letters go to `dead`, and three messages that were rejected.
async fn with_dead_letters(admin: &Http) {
    declare(admin, "dead", json!({})).await;
    let arguments = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
    declare(admin, "work", arguments).await;
    for (payload, attempt) in [("a", 1), ("b", 2), ("c", 3)] {
        publish(admin, "work", payload, json!({"try": attempt})).await;
    }
    let discard = json!({"count": 3, "ackmode": "reject_requeue_false", "encoding": "auto"});
    admin
        .post("/api/queues/%2F/work/get", discard)
        .await
        .expect_status(200);
    // The rejects are answered before the dead letters have landed.
    for _ in 0..200 {
        if payloads(admin, "dead").await.len() == 3 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the dead letters did not arrive");
}

#[tokio::test]
async fn dead_letters_go_back_to_the_queue_they_died_in() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    with_dead_letters(&admin).await;
    let report = admin
        .post("/api/queues/%2F/dead/redrive", json!({}))
        .await
        .json();
    assert_eq!(
        (
            &report["examined"],
            &report["moved"],
            &report["refused"],
            &report["more"]
        ),
        (&json!(3), &json!(3), &json!(0), &json!(false))
    );
    let mut back = payloads(&admin, "work").await;
    back.sort();
    assert_eq!(back, ["a", "b", "c"]);
    assert!(payloads(&admin, "dead").await.is_empty());
}

#[tokio::test]
async fn a_dry_run_tells_what_would_move_and_moves_nothing() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    with_dead_letters(&admin).await;
    let body = json!({"dry_run": true, "filter": {"reason": "rejected", "headers": {"try": 2}}});
    let report = admin
        .post("/api/queues/%2F/dead/redrive", body)
        .await
        .json();
    assert_eq!(
        (&report["matched"], &report["moved"]),
        (&json!(1), &json!(0))
    );
    let sample = &report["samples"][0];
    assert_eq!(
        (
            &sample["reason"],
            &sample["died_in"],
            &sample["to_routing_key"]
        ),
        (&json!("rejected"), &json!("work"), &json!("work"))
    );
    assert_eq!(payloads(&admin, "dead").await.len(), 3);
}

#[tokio::test]
async fn a_filter_leaves_the_others_in_their_order() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    with_dead_letters(&admin).await;
    declare(&admin, "other", json!({})).await;
    let before = payloads(&admin, "dead").await;
    let body = json!({"to": {"queue": "other"}, "filter": {"headers": {"try": 2}}});
    let report = admin.post("/api/queues/%2F/dead/move", body).await.json();
    assert_eq!(report["moved"], 1);
    assert_eq!(payloads(&admin, "other").await, ["b"]);
    let others: Vec<String> = before
        .into_iter()
        .filter(|payload| payload != "b")
        .collect();
    assert_eq!(payloads(&admin, "dead").await, others);
    let seen = admin
        .get("/api/queues/%2F/dead/peek?header=try=3")
        .await
        .json();
    assert_eq!(seen.as_array().map(Vec::len), Some(1));
    assert_eq!(seen[0]["message"]["payload"], "c");
}

#[tokio::test]
async fn what_no_queue_takes_stays_where_it_is() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, "q", json!({})).await;
    publish(&admin, "q", "a", json!({})).await;
    admin
        .put("/api/exchanges/%2F/void", json!({"type": "fanout"}))
        .await
        .expect_status(201);
    let body = json!({"to": {"exchange": "void"}});
    let report = admin.post("/api/queues/%2F/q/move", body).await.json();
    assert_eq!(
        (&report["moved"], &report["refused"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(payloads(&admin, "q").await, ["a"]);
}

#[tokio::test]
async fn a_walk_in_parts_goes_on_behind_the_last_entry() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, "q", json!({})).await;
    declare(&admin, "other", json!({})).await;
    for payload in ["a", "b", "c"] {
        publish(&admin, "q", payload, json!({})).await;
    }
    let part = |after: Value| json!({"to": {"queue": "other"}, "limit": 2, "after": after});
    let first = admin
        .post("/api/queues/%2F/q/move", part(Value::Null))
        .await
        .json();
    assert_eq!((&first["moved"], &first["more"]), (&json!(2), &json!(true)));
    let after = first["last_entry"].clone();
    let second = admin
        .post("/api/queues/%2F/q/move", part(after))
        .await
        .json();
    assert_eq!(
        (&second["moved"], &second["more"]),
        (&json!(1), &json!(false))
    );
    assert_eq!(payloads(&admin, "other").await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_move_without_a_usable_target_is_refused_and_changes_nothing() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, "q", json!({})).await;
    publish(&admin, "q", "a", json!({})).await;
    let refuse = async |body: Value, status| {
        admin
            .post("/api/queues/%2F/q/move", body)
            .await
            .expect_status(status);
    };
    refuse(json!({}), 400).await;
    refuse(json!({"to": {}}), 400).await;
    refuse(json!({"to": {"queue": "q", "exchange": "x"}}), 400).await;
    refuse(json!({"to": {"queue": "none"}}), 404).await;
    refuse(json!({"to": {"queue": "q"}, "rate": 0}), 400).await;
    refuse(json!({"to": {"queue": "q"}, "typo": 1}), 400).await;
    assert_eq!(payloads(&admin, "q").await, ["a"]);
}

#[tokio::test]
async fn a_route_is_told_with_the_bindings_on_its_way() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, "q", json!({})).await;
    let bind = json!({"routing_key": "a.#"});
    admin
        .post("/api/bindings/%2F/e/amq.topic/q/q", bind)
        .await
        .expect_status(201);
    let ask = async |key: &str| {
        let body = json!({"routing_key": key});
        admin
            .post("/api/exchanges/%2F/amq.topic/route", body)
            .await
            .json()
    };
    let answer = ask("a.b").await;
    assert_eq!(answer["queues"][0]["queue"], "q");
    let why = answer["queues"][0]["why"].as_str().expect("text");
    assert!(why.contains("by key 'a.#'"), "{why}");
    assert_eq!(ask("b").await, json!({"routed": false, "queues": []}));
    let asked = admin.post("/api/exchanges/%2F/none/route", json!({})).await;
    asked.expect_refusal(404, "not_found", "exchange_not_found");
}

#[tokio::test]
async fn settings_name_who_set_them() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, "q", json!({"x-max-length": 9})).await;
    let policy = json!({"pattern": "q", "definition": {"message-ttl": 5000}});
    admin
        .put("/api/policies/%2F/p", policy)
        .await
        .expect_status(201);
    let shown = admin.get("/api/queues/%2F/q/settings").await.json();
    let rows = shown["settings"].as_array().expect("rows");
    let origin = |key: &str| {
        let row = rows.iter().find(|row| row["key"] == key);
        row.map(|row| (row["value"].clone(), row["origin"].clone()))
    };
    assert_eq!(origin("max-length"), Some((json!(9), json!("argument"))));
    assert_eq!(
        origin("message-ttl"),
        Some((json!(5000), json!("policy p")))
    );
    assert_eq!(shown["policy"], "p");
}

#[tokio::test]
async fn a_queue_that_waits_for_consumers_says_so() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, "q", json!({})).await;
    assert_eq!(
        admin.get("/api/queues/%2F/q/why").await.json()["verdict"],
        "unused"
    );
    publish(&admin, "q", "a", json!({})).await;
    publish(&admin, "q", "b", json!({})).await;
    assert_eq!(
        admin.get("/api/queues/%2F/q/why").await.json()["verdict"],
        "no_consumer"
    );
    let session = stage.connect(40_001);
    let mut channel = session.open_channel(1).expect("a channel");
    channel.qos(0, 1).expect("a prefetch");
    let tag = channel
        .consume(consume("q", "busy"))
        .await
        .expect("a consumer");
    channel.start_consumer(&tag);
    channel.end_turn();
    let why = admin.get("/api/queues/%2F/q/why").await.json();
    assert_eq!(why["verdict"], "consumers_are_the_limit", "{why}");
    assert_eq!(why["consumers"][0]["consumer_tag"], "busy");
    assert_eq!(why["consumers"][0]["unacked"], 1);
    channel.close().await;
    session.close().await;
}

#[tokio::test]
async fn the_limit_of_a_user_is_named_when_it_keeps_consumers_waiting() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, "q", json!({})).await;
    for key in ["a", "b"] {
        publish(&admin, "q", key, json!({})).await;
    }
    admin
        .put("/api/user-limits/guest/max-unacked", json!({"value": 1}))
        .await
        .expect_status(204);
    let limits = admin.get("/api/user-limits/guest").await.json();
    assert_eq!(limits[0]["value"], json!({"max-unacked": 1}));
    let session = stage.connect(40_001);
    let mut channel = session.open_channel(1).expect("a channel");
    let tag = channel
        .consume(consume("q", "greedy"))
        .await
        .expect("a consumer");
    channel.start_consumer(&tag);
    let why = admin.get("/api/queues/%2F/q/why").await.json();
    assert_eq!(why["verdict"], "tenant_limit", "{why}");
    let limit = "unacked delivery limit of user 'guest' (1) is reached";
    assert_eq!(why["consumers"][0]["held_by"], limit);
    assert_eq!(why["consumers"][0]["unacked"], 1);
    channel.close().await;
    session.close().await;
}

#[tokio::test]
async fn a_queue_whose_dead_letters_cannot_go_says_why() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let arguments = json!({
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "nowhere",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    });
    declare(&admin, "q", arguments).await;
    publish(&admin, "q", "a", json!({})).await;
    let reject = json!({"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"});
    admin
        .post("/api/queues/%2F/q/get", reject)
        .await
        .expect_status(200);
    let told = async {
        loop {
            let why = admin.get("/api/queues/%2F/q/why").await.json();
            let text = why["text"].as_str().expect("a text").to_owned();
            if text.contains("dead letters are held") {
                return text;
            }
            tokio::task::yield_now().await;
        }
    };
    let text = tokio::time::timeout(std::time::Duration::from_secs(20), told)
        .await
        .expect("the dead letter is held");
    assert!(
        text.ends_with("the dead-letter exchange does not exist"),
        "{text}"
    );
}

#[tokio::test]
async fn a_publisher_is_found_by_a_part_of_its_name() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    declare(&admin, "q", json!({})).await;
    let session = stage.connect(40_002);
    let mut channel = session.open_channel(1).expect("a channel");
    let nothing = amqp::PropertiesBuilder::new().build();
    let publish = Publish {
        exchange: "",
        routing_key: "q",
        mandatory: false,
        immediate: false,
        properties: &nothing,
        body: b"x",
    };
    channel.publish(publish).expect("a publish");
    channel.end_turn();
    let why = admin.get("/api/publishers/40002/why").await.json();
    assert_eq!(why["state"], "open");
    assert!(
        why["name"]
            .as_str()
            .is_some_and(|name| name.ends_with("(1)")),
        "{why}"
    );
    admin
        .get("/api/publishers/nobody/why")
        .await
        .expect_status(404);
    channel.close().await;
    session.close().await;
}

#[tokio::test]
async fn a_held_publisher_and_the_queue_that_holds_it_name_each_other() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let arguments = json!({"x-capacity-messages": 1, "x-flow-resume-messages": 0});
    declare(&admin, "full", arguments).await;
    let session = stage.connect(40_003);
    let mut channel = session.open_channel(1).expect("a channel");
    channel.confirm_select().expect("confirms");
    let nothing = amqp::PropertiesBuilder::new().build();
    for _ in 0..5 {
        let publish = Publish {
            exchange: "",
            routing_key: "full",
            mandatory: false,
            immediate: false,
            properties: &nothing,
            body: b"x",
        };
        channel.publish(publish).expect("a publish");
    }
    channel.end_turn();
    let queue = admin.get("/api/queues/%2F/full").await.json();
    let flow = &queue["flow"];
    let shown = [
        &flow["overfull"],
        &flow["capacity_messages"],
        &flow["flow_resume_messages"],
        &flow["parked_messages"],
        &flow["held_channels_total"],
        &flow["overfull_total"],
    ];
    assert_eq!(
        shown,
        [
            &json!(true),
            &json!(1),
            &json!(0),
            &json!(3),
            &json!(1),
            &json!(1)
        ],
        "{queue}"
    );
    let name = flow["held_channels"][0]["name"].as_str().expect("a name");
    assert!(name.contains("40003"), "{name}");
    let path = "/api/channels";
    let channels = admin.get(path).await.json();
    let shown = &channels[0];
    assert_eq!(shown["state"], "flow", "{shown}");
    assert_eq!(shown["hold"]["stage"], "held");
    assert_eq!(shown["hold"]["held_by"][0]["queue"], "full");
    assert_eq!(shown["hold"]["levers"], json!(["confirms-withheld"]));
    assert_eq!(shown["hold"]["parked_messages"], 3);
    let why = admin.get("/api/queues/%2F/full/why").await.json();
    assert_eq!(why["flow"]["parked_messages"], 3);
    assert!(
        why["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("overfull: 1 publishers are held with 3")),
        "{why}"
    );
    let why = admin.get("/api/publishers/40003/why").await.json();
    assert_eq!(why["hold"]["levers"], json!(["confirms-withheld"]));
    let metrics = stage.scraper().get("/metrics/per-object").await;
    for sample in [
        "sluicemq_queue_overfull{vhost=\"/\",queue=\"full\"} 1",
        "sluicemq_queue_held_channels{vhost=\"/\",queue=\"full\"} 1",
        "sluicemq_queue_parked_messages{vhost=\"/\",queue=\"full\"} 3",
        "sluicemq_memory_used_bytes{meter=\"main\"}",
    ] {
        assert!(metrics.text.contains(sample), "{sample} is missing");
    }
    channel.close().await;
    session.close().await;
}

#[tokio::test]
async fn a_refused_publish_is_explained_by_its_queue_and_told_as_an_incident() {
    let stage = Stage::set().await;
    let admin = stage.admin();
    let body = json!({
        "durable": true,
        "arguments": {"x-max-length": 1, "x-overflow": "reject-publish"},
    });
    admin
        .put("/api/queues/%2F/full", body)
        .await
        .expect_status(201);
    let message = json!({
        "properties": {}, "routing_key": "full", "payload_encoding": "string", "payload": "x",
    });
    for _ in 0..3 {
        let path = "/api/exchanges/%2F/amq.default/publish";
        admin.post(path, message.clone()).await.expect_status(200);
    }
    let why = admin.get("/api/queues/%2F/full/why").await.json();
    assert_eq!(why["figures"]["refused_publishes"], 2, "{why}");
    let text = why["text"].as_str().expect("a sentence");
    assert!(
        text.contains("it was full and has refused 2 publishes"),
        "{text}"
    );
    let incidents = admin.get("/api/incidents").await.json();
    assert!(
        incidents.to_string().contains("publishes-refused"),
        "{incidents}"
    );
}
