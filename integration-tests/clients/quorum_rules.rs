//! The rules of quorum queues as applications of lapin meet them, with kill -9 and a new start in
//! the middle of each: counts, delays, dead letters and order survive.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::options::{BasicConsumeOptions, BasicRejectOptions};
use lapin::types::{AMQPValue, FieldTable};

use crate::lapin_scene::{Scene, back, body, header, scene, table, text};

#[test]
fn returns_are_counted_over_a_crash_and_the_limit_dead_letters() {
    scene(|mut scene| async move {
        let arguments = [
            ("x-delivery-limit", AMQPValue::LongInt(2)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dead")),
        ];
        scene.declare("q", &arguments).await?;
        scene.declare("dead", &[]).await?;
        scene.fill("q", &["a"]).await?;
        for _ in 0..2 {
            let delivery = scene.get_soon("q").await?;
            delivery.acker.nack(back()).await?;
        }
        scene.fill("dead", &["mark"]).await?;
        scene.fill("q", &["b"]).await?;
        scene.crash().await?;
        let delivery = scene.get_soon("q").await?;
        assert_eq!(body(&delivery), "a");
        assert_eq!(header(&delivery, "x-delivery-count").as_deref(), Some("2"));
        assert_eq!(header(&delivery, "x-acquired-count").as_deref(), Some("2"));
        delivery.acker.nack(back()).await?;
        assert_eq!(body(&scene.get_soon("dead").await?), "mark");
        let dead = scene.get_soon("dead").await?;
        let reason = header(&dead, "x-first-death-reason");
        assert_eq!(reason.as_deref(), Some("delivery_limit"));
        Ok(())
    });
}

#[test]
fn a_late_consumer_loses_its_channel_and_the_message_is_there_after_a_crash() {
    scene(|mut scene| async move {
        let timeout = ("x-consumer-timeout", AMQPValue::LongInt(200));
        scene.declare("q", &[timeout]).await?;
        scene.fill("q", &["a"]).await?;
        let slow = scene.connection.create_channel().await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let _consumer = slow
            .basic_consume("q".into(), "slow".into(), options, arguments)
            .await?;
        while slow.status().connected() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let log = scene.broker.stderr_tail();
        for part in ["slow", "not acknowledged in time", "200"] {
            assert!(log.contains(part), "{part} is missing in {log}");
        }
        scene.fill("q", &["b"]).await?;
        scene.crash().await?;
        let delivery = scene.get_soon("q").await?;
        assert_eq!((body(&delivery), delivery.redelivered), ("a".into(), true));
        assert_eq!(header(&delivery, "x-delivery-count").as_deref(), Some("1"));
        Ok(())
    });
}

#[test]
fn held_dead_letters_survive_a_crash_and_go_when_they_can() {
    scene(|mut scene| async move {
        let arguments = [
            ("x-dead-letter-exchange", text("later")),
            ("x-dead-letter-strategy", text("at-least-once")),
        ];
        scene.declare("q", &arguments).await?;
        let bodies: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let borrowed: Vec<&str> = bodies.iter().map(String::as_str).collect();
        scene.fill("q", &borrowed).await?;
        for _ in 0..40 {
            let delivery = scene.get_soon("q").await?;
            delivery.acker.reject(BasicRejectOptions::default()).await?;
        }
        scene.fill("q", &["mark"]).await?;
        scene.crash().await?;
        assert_eq!(
            scene.take_all("q").await?,
            ["mark"],
            "dead ones are not ready"
        );
        scene
            .exchange("later", "fanout", FieldTable::default())
            .await?;
        scene.declare("target", &[]).await?;
        scene.bind("target", "later").await?;
        let mut came = Vec::new();
        while came.len() < 40 {
            let delivery = scene.get_soon("target").await?;
            let reason = header(&delivery, "x-last-death-reason");
            assert_eq!(reason.as_deref(), Some("rejected"));
            came.push(body(&delivery));
        }
        came.sort_by_key(|body| body.parse::<u32>().unwrap_or_default());
        assert_eq!(came, bodies);
        Ok(())
    });
}

#[test]
fn a_delayed_retry_goes_on_after_a_crash() {
    scene(|mut scene| async move {
        let arguments = [
            ("x-delayed-retry-type", text("all")),
            ("x-delayed-retry-min", AMQPValue::LongInt(1000)),
            ("x-delayed-retry-max", AMQPValue::LongInt(4000)),
            ("x-delayed-retry-multiplier", AMQPValue::LongInt(2)),
        ];
        scene.declare("q", &arguments).await?;
        scene.fill("q", &["a"]).await?;
        scene.get_soon("q").await?.acker.nack(back()).await?;
        scene.fill("q", &["b"]).await?;
        scene.crash().await?;
        assert_eq!(body(&scene.get_soon("q").await?), "b", "a is held back");
        let delivery = scene.get_soon("q").await?;
        assert_eq!(body(&delivery), "a");
        assert_eq!(header(&delivery, "x-delivery-count").as_deref(), Some("1"));
        Ok(())
    });
}

#[test]
fn a_poison_loop_is_told_with_queue_and_consumer() {
    scene(|mut scene| async move {
        scene
            .declare("q", &[("x-delivery-limit", AMQPValue::LongInt(-1))])
            .await?;
        scene.fill("q", &["a"]).await?;
        for _ in 0..15 {
            scene.get_soon("q").await?.acker.nack(back()).await?;
        }
        scene.fill("q", &["b"]).await?;
        let log = scene.broker.stderr_tail();
        let told = log.lines().filter(|line| line.contains("too often"));
        assert_eq!(told.count(), 1, "{log}");
        scene.crash().await?;
        let delivery = scene.get_soon("q").await?;
        assert_eq!(header(&delivery, "x-delivery-count").as_deref(), Some("15"));
        Ok(())
    });
}

#[test]
fn order_limits_and_expiry_are_the_same_after_a_crash() {
    scene(|mut scene| async move {
        let arguments = [
            ("x-max-length", AMQPValue::LongInt(6)),
            ("x-overflow", text("reject-publish")),
            ("x-expire-anywhere", AMQPValue::Boolean(true)),
        ];
        scene.declare("q", &arguments).await?;
        let publish = async |scene: &Scene, body: &str, properties| {
            scene.publish("", "q", body, properties).await
        };
        let plain = BasicProperties::default;
        for (body, properties) in [
            ("low", plain().with_priority(1)),
            ("first", plain()),
            ("short", plain().with_expiration("700".into())),
            ("high", plain().with_priority(9)),
            ("second", plain()),
            ("returned", plain().with_priority(20)),
        ] {
            assert!(publish(&scene, body, properties).await?, "{body}");
        }
        assert!(!publish(&scene, "too much", plain()).await?);
        let delivery = scene.get_soon("q").await?;
        assert_eq!(body(&delivery), "returned");
        delivery.acker.nack(back()).await?;
        assert!(!publish(&scene, "too much", plain()).await?);
        scene.crash().await?;
        // The short one expires behind others that do not.
        while !publish(&scene, "last", plain()).await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!publish(&scene, "too much", plain()).await?);
        let came = scene.take_all("q").await?;
        assert_eq!(came, ["returned", "high", "first", "second", "last", "low"]);
        Ok(())
    });
}

#[test]
fn a_delayed_exchange_keeps_its_messages_over_a_crash() {
    scene(|mut scene| async move {
        let by_key = table(&[("x-delayed-type", text("direct"))]);
        scene.exchange("d", "x-delayed-message", by_key).await?;
        scene.declare("q", &[]).await?;
        scene.bind("q", "d").await?;
        for (body, delay_ms) in [("late", 1500), ("soon", 800)] {
            let headers = table(&[("x-delay", AMQPValue::LongInt(delay_ms))]);
            let properties = BasicProperties::default().with_headers(headers);
            assert!(scene.publish("d", "k", body, properties).await?);
        }
        scene.crash().await?;
        for (wanted, delay) in [("soon", "-800"), ("late", "-1500")] {
            let delivery = scene.get_soon("q").await?;
            assert_eq!(body(&delivery), wanted);
            assert_eq!(header(&delivery, "x-delay").as_deref(), Some(delay));
        }
        Ok(())
    });
}
