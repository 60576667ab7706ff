//! Settings of quorum queues that change while the queue lives, where each comes from, and what the
//! API tells of what went wrong; with kill -9 and a new start in the middle.

use lapin::options::{BasicConsumeOptions, BasicRejectOptions};
use lapin::types::{AMQPValue, FieldTable};
use serde_json::{Value as Json, json};

use crate::lapin_scene::{Scene, back, body, header, scene, text, until};

/// The value of a setting and where it comes from.
fn setting(scene: &Scene, queue: &str, key: &str) -> (Json, String) {
    let path = format!("/api/queues/%2F/{queue}/settings");
    let answer = scene.http().ok("GET", &path, None);
    let settings = answer["settings"].as_array().cloned().unwrap_or_default();
    let found = settings.iter().find(|setting| setting["key"] == key);
    let found = found.unwrap_or_else(|| panic!("{key} is missing in {answer}"));
    let origin = found["origin"].as_str().unwrap_or_default();
    (found["value"].clone(), origin.to_owned())
}

fn operator_policy(scene: &Scene, queue: &str, definition: &Json) {
    let policy = json!({
        "pattern": format!("^{queue}$"), "definition": definition, "apply-to": "queues",
    });
    let path = format!("/api/operator-policies/%2F/{queue}");
    scene.http().ok("PUT", &path, Some(&policy));
}

#[test]
fn policies_reach_queues_that_live_and_every_value_tells_its_origin() {
    scene(|mut scene| async move {
        let limit = ("x-delivery-limit", AMQPValue::LongInt(7));
        scene.declare("q", &[limit]).await?;
        scene.fill("q", &["a"]).await?;
        let says = |scene: &Scene, key: &str| setting(scene, "q", key);
        assert_eq!(
            says(&scene, "delivery-limit"),
            (json!(7), "argument".into())
        );
        let default = (json!("returns"), "default".into());
        assert_eq!(says(&scene, "delivery-limit-counts"), default);
        let definition = json!({
            "delivery-limit": 3, "delayed-retry-type": "all", "delayed-retry-min": 1,
            "delayed-retry-max": 5, "delayed-retry-multiplier": 2, "delayed-retry-jitter": 10,
            "consumer-timeout": 3_600_000, "consumer-timeout-action": "return",
            "poison-loop-returns": 2, "expire-anywhere": true, "delivery-limit-counts": "returns",
            "dead-letter-exchange": "", "dead-letter-routing-key": "dead",
            "dead-letter-strategy": "at-least-once",
        });
        scene.http().add_policy("q", &definition);
        operator_policy(&scene, "q", &json!({"delivery-limit": 1}));
        for (key, value) in definition.as_object().into_iter().flatten() {
            if key != "delivery-limit" {
                let wanted = (value.clone(), "policy q".to_owned());
                assert_eq!(says(&scene, key), wanted, "{key}");
            }
        }
        let by_operator = (json!(1), "operator policy q".to_owned());
        assert_eq!(says(&scene, "delivery-limit"), by_operator);
        scene.get_soon("q").await?.acker.nack(back()).await?;
        scene.declare("dead", &[]).await?;
        scene.crash().await?;
        assert_eq!(says(&scene, "delivery-limit"), by_operator);
        let delivery = scene.get_soon("q").await?;
        assert_eq!(header(&delivery, "x-delivery-count").as_deref(), Some("1"));
        delivery.acker.nack(back()).await?;
        let dead = scene.get_soon("dead").await?;
        assert_eq!(body(&dead), "a");
        let reason = header(&dead, "x-last-death-reason");
        assert_eq!(reason.as_deref(), Some("delivery_limit"));
        until("the confirm", || scene.queue("q")["messages"] == 0).await;
        assert_eq!(
            scene.queue("q")["messages_dead_lettered"]["delivery_limit"],
            1
        );
        Ok(())
    });
}

#[test]
fn a_classic_queue_holds_returns_back_when_a_policy_wants_it() {
    scene(|mut scene| async move {
        let classic = ("x-queue-type", text("classic"));
        scene.declare("q", &[classic]).await?;
        let definition = json!({"delayed-retry-type": "all", "delayed-retry-min": 1500});
        scene.http().add_policy("q", &definition);
        let kept = lapin::BasicProperties::default().with_delivery_mode(2);
        assert!(scene.publish("", "q", "a", kept.clone()).await?);
        scene.get_soon("q").await?.acker.nack(back()).await?;
        assert!(scene.publish("", "q", "mark", kept).await?);
        until("the delay", || scene.queue("q")["messages_delayed"] == 1).await;
        let until_ms = scene.queue("q")["next_delayed_at"].clone();
        let peeked = scene.http().ok("GET", "/api/queues/%2F/q/peek", None);
        assert_eq!(peeked[0]["state"], "delayed");
        assert_eq!(peeked[0]["delayed_until"], until_ms);
        scene.crash().await?;
        assert_eq!(scene.queue("q")["next_delayed_at"], until_ms);
        assert_eq!(body(&scene.get_soon("q").await?), "mark", "a is held back");
        assert_eq!(body(&scene.get_soon("q").await?), "a");
        Ok(())
    });
}

/// How often a kind of incident happened.
fn incidents_counted(scene: &Scene, kind: &str) -> Option<u64> {
    let counts = scene.http().ok("GET", "/api/incident-counts", None);
    let of_kind = counts
        .as_array()?
        .iter()
        .find(|count| count["kind"] == kind)?;
    of_kind["count"].as_u64()
}

#[test]
fn what_went_wrong_in_a_queue_is_listed_with_who_did_it() {
    scene(|mut scene| async move {
        let arguments = [
            ("x-delivery-limit", AMQPValue::LongInt(-1)),
            ("x-poison-loop-returns", AMQPValue::LongInt(3)),
            ("x-dead-letter-exchange", text("missing")),
            ("x-dead-letter-strategy", text("at-least-once")),
            ("x-consumer-timeout", AMQPValue::LongInt(1500)),
        ];
        scene.declare("q", &arguments).await?;
        for round in 0..2 {
            scene.fill("q", &["a"]).await?;
            for _ in 0..5 {
                scene.get_soon("q").await?.acker.nack(back()).await?;
            }
            let delivery = scene.get_soon("q").await?;
            delivery.acker.reject(BasicRejectOptions::default()).await?;
            scene.fill("q", &["b"]).await?;
            let slow = scene.connection.create_channel().await?;
            let options = BasicConsumeOptions::default();
            let _consumer = slow
                .basic_consume("q".into(), "slow".into(), options, FieldTable::default())
                .await?;
            until("the timeout", || !slow.status().connected()).await;
            let path = "/api/incidents/%2F/q";
            let incidents = scene.http().ok("GET", path, None);
            let find = |kind: &str| {
                let mut all = incidents.as_array().into_iter().flatten();
                all.find(|incident| incident["kind"] == kind).cloned()
            };
            let poison = find("poison-loop").expect("a poison loop");
            assert_eq!(
                (&poison["returns"], &poison["queue"]),
                (&json!(4), &json!("q"))
            );
            let late = find("delivery-timed-out").expect("a late delivery");
            let told = ["consumer_tag", "timeout_ms", "delivery_tag", "action"];
            let told = told.map(|field| late[field].clone());
            assert_eq!(told, [json!("slow"), json!(1500), json!(1), json!("close")]);
            let held = find("dead-letters-held").expect("a held dead letter");
            assert!(
                held["text"].to_string().contains("does not exist"),
                "{held}"
            );
            assert_eq!(incidents_counted(&scene, "poison-loop"), Some(1));
            let why = scene.queue("q")["dead_letters_held"]["why"].to_string();
            assert!(why.contains("does not exist"), "{why}");
            assert_eq!(scene.queue("q")["messages_dlx"], round + 1);
            if round == 0 {
                scene
                    .get_soon("q")
                    .await?
                    .acker
                    .ack(Default::default())
                    .await?;
                scene.fill("q", &["mark"]).await?;
                scene.crash().await?;
                scene
                    .get_soon("q")
                    .await?
                    .acker
                    .ack(Default::default())
                    .await?;
            }
        }
        Ok(())
    });
}
