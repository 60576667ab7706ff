//! What quorum queues do with consumers as applications of lapin meet it: deadlines that pass, who
//! is served first, what is refused; with kill -9 and a new start in the middle.

use std::time::Duration;

use futures::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Consumer};

use crate::lapin_scene::{Scene, back, body, header, scene, table, text, until};

async fn consume(
    channel: &Channel,
    queue: &str,
    tag: &str,
    arguments: FieldTable,
) -> lapin::Result<Consumer> {
    let options = BasicConsumeOptions::default();
    channel
        .basic_consume(queue.into(), tag.into(), options, arguments)
        .await
}

async fn next(consumer: &mut Consumer) -> lapin::Result<Delivery> {
    consumer.next().await.expect("the consumer must go on")
}

fn timeout(action: &str, after_ms: i32) -> [(&str, AMQPValue); 2] {
    [
        ("x-consumer-timeout", AMQPValue::LongInt(after_ms)),
        ("x-consumer-timeout-action", text(action)),
    ]
}

#[test]
fn a_late_consumer_is_cancelled_and_really_gone() {
    scene(|mut scene| async move {
        scene.declare("q", &timeout("cancel", 300)).await?;
        scene.fill("q", &["a"]).await?;
        let slow = scene.connection.create_channel().await?;
        let mut consumer = consume(&slow, "q", "slow", FieldTable::default()).await?;
        let late = next(&mut consumer).await?;
        assert!(consumer.next().await.is_none(), "a cancel ends the stream");
        assert_eq!(scene.queue("q")["consumers"], 0);
        late.acker.ack(BasicAckOptions::default()).await?;
        // The tag is free, and the channel goes on.
        let patient = table(&[("x-consumer-timeout", AMQPValue::LongInt(3_600_000))]);
        let mut again = consume(&slow, "q", "slow", patient).await?;
        let delivery = next(&mut again).await?;
        assert_eq!((body(&delivery), delivery.redelivered), ("a".into(), true));
        assert_eq!(scene.queue("q")["late_settles"], 1);
        scene.fill("q", &["mark"]).await?;
        scene.crash().await?;
        let delivery = scene.get_soon("q").await?;
        assert_eq!(body(&delivery), "a");
        assert_eq!(header(&delivery, "x-delivery-count").as_deref(), Some("1"));
        Ok(())
    });
}

#[test]
fn only_the_late_delivery_goes_back_and_its_late_ack_settles_nothing() {
    scene(|mut scene| async move {
        scene.declare("q", &timeout("return", 300)).await?;
        scene.fill("q", &["a"]).await?;
        let slow = scene.connection.create_channel().await?;
        let mut consumer = consume(&slow, "q", "slow", FieldTable::default()).await?;
        let late = next(&mut consumer).await?;
        let again = next(&mut consumer).await?;
        assert_eq!((late.delivery_tag, again.delivery_tag), (1, 2));
        assert_eq!((body(&again), again.redelivered), ("a".into(), true));
        late.acker.ack(BasicAckOptions::default()).await?;
        scene.fill("q", &["mark"]).await?;
        assert_eq!(scene.queue("q")["late_settles"], 1);
        scene.crash().await?;
        let delivery = scene.get_soon("q").await?;
        assert_eq!(body(&delivery), "a", "the late ack has not settled it");
        Ok(())
    });
}

#[test]
fn a_consumer_pushes_the_deadline_of_its_delivery_back() {
    scene(|mut scene| async move {
        scene.declare("q", &timeout("close", 1500)).await?;
        scene.fill("q", &["a"]).await?;
        let slow = scene.connection.create_channel().await?;
        let mut consumer = consume(&slow, "q", "slow", FieldTable::default()).await?;
        let delivery = next(&mut consumer).await?;
        let tag = i64::try_from(delivery.delivery_tag).expect("a small number");
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let headers = table(&[("delivery-tag", AMQPValue::LongLongInt(tag))]);
            let properties = BasicProperties::default().with_headers(headers);
            let options = BasicPublishOptions::default();
            slow.basic_publish(
                "sluicemq.deadline".into(),
                "".into(),
                options,
                &[],
                properties,
            )
            .await?;
        }
        delivery.acker.ack(BasicAckOptions::default()).await?;
        until("the ack", || scene.queue("q")["messages"] == 0).await;
        assert!(slow.status().connected(), "it was never late");
        scene.fill("q", &["b"]).await?;
        scene.crash().await?;
        assert_eq!(scene.take_all("q").await?, ["b"]);
        Ok(())
    });
}

#[test]
fn the_single_active_consumer_gives_way_to_a_higher_priority() {
    scene(|mut scene| async move {
        let single = ("x-single-active-consumer", AMQPValue::Boolean(true));
        scene.declare("q", &[single]).await?;
        let arguments = |priority: i32| table(&[("x-priority", AMQPValue::LongInt(priority))]);
        for round in ["before", "after"] {
            let channel = scene.connection.create_channel().await?;
            channel.basic_qos(1, BasicQosOptions::default()).await?;
            let mut low = consume(&channel, "q", "low", arguments(1)).await?;
            scene.fill("q", &[round, "next"]).await?;
            let first = next(&mut low).await?;
            assert_eq!(body(&first), round);
            let mut high = consume(&channel, "q", "high", arguments(5)).await?;
            // It takes over when the other has settled what it holds.
            first.acker.ack(BasicAckOptions::default()).await?;
            let second = next(&mut high).await?;
            assert_eq!(body(&second), "next");
            assert_eq!(scene.queue("q")["single_active_consumer_tag"], "high");
            second.acker.ack(BasicAckOptions::default()).await?;
            until("the ack", || scene.queue("q")["messages"] == 0).await;
            if round == "before" {
                scene.crash().await?;
            }
        }
        Ok(())
    });
}

#[test]
fn returns_come_first_and_then_priorities_in_the_order_of_publishing() {
    scene(|mut scene| async move {
        scene.declare("q", &[]).await?;
        for (body, priority) in [("low", 0), ("plain", 4), ("high", 31), ("above", 200)] {
            let properties = BasicProperties::default().with_priority(priority);
            assert!(scene.publish("", "q", body, properties).await?);
        }
        scene.fill("q", &["unset"]).await?;
        let taken = scene.get_soon("q").await?;
        assert_eq!(body(&taken), "high");
        let other = scene.get_soon("q").await?;
        assert_eq!(body(&other), "above", "what is above 31 counts as 31");
        other.acker.nack(back()).await?;
        taken.acker.nack(back()).await?;
        scene.fill("q", &["last"]).await?;
        scene.crash().await?;
        let order = ["above", "high", "plain", "unset", "last", "low"];
        assert_eq!(scene.take_all("q").await?, order);
        Ok(())
    });
}

/// Declares and answers the reply text of the refusal.
async fn refusal(
    scene: &Scene,
    options: QueueDeclareOptions,
    name: &str,
    value: AMQPValue,
) -> String {
    let channel = scene.connection.create_channel().await;
    let channel = channel.expect("a channel");
    let mut arguments = table(&[("x-queue-type", text("quorum"))]);
    arguments.insert(name.into(), value);
    let declared = channel.queue_declare("refused".into(), options, arguments);
    let error = declared.await.expect_err("it must be refused");
    error.to_string()
}

#[test]
fn what_quorum_queues_cannot_do_is_refused_before_and_after_a_crash() {
    scene(|mut scene| async move {
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let transient = QueueDeclareOptions::default();
        let exclusive = QueueDeclareOptions {
            exclusive: true,
            ..durable
        };
        let auto_delete = QueueDeclareOptions {
            auto_delete: true,
            ..durable
        };
        for round in 0..2 {
            let number = AMQPValue::LongInt(0);
            for (options, name, value, text) in [
                (
                    transient,
                    "x-expires",
                    AMQPValue::LongInt(60_000),
                    "non-durable",
                ),
                (
                    exclusive,
                    "x-expires",
                    AMQPValue::LongInt(60_000),
                    "exclusive",
                ),
                (
                    auto_delete,
                    "x-expires",
                    AMQPValue::LongInt(60_000),
                    "auto-delete",
                ),
                (
                    durable,
                    "x-max-priority",
                    AMQPValue::LongInt(3),
                    "x-max-priority",
                ),
                (durable, "x-queue-mode", text("lazy"), "x-queue-mode"),
                (
                    durable,
                    "x-queue-leader-locator",
                    text("nowhere"),
                    "x-queue-leader-locator",
                ),
                (
                    durable,
                    "x-quorum-initial-group-size",
                    number,
                    "x-quorum-initial-group-size",
                ),
                (
                    durable,
                    "x-consumer-timeout-action",
                    text("wait"),
                    "x-consumer-timeout-action",
                ),
                (
                    durable,
                    "x-delivery-limit-counts",
                    text("nacks"),
                    "x-delivery-limit-counts",
                ),
            ] {
                let refused = refusal(&scene, options, name, value).await;
                assert!(
                    refused.contains("PRECONDITION_FAILED") && refused.contains(text),
                    "{name}: {refused}"
                );
            }
            if round == 0 {
                scene.crash().await?;
            }
        }
        Ok(())
    });
}
