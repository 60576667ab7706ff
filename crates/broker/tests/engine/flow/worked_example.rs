//! The worked example of the flow-control design on a running broker, step by step: a queue with a
//! capacity of 10 MiB and 5 MiB of memory, messages of 100 KiB, and a client that publishes and consumes
//! on one connection. What a message takes beside its body is left out in the design's numbers of memory.

use amqp::Value;
use broker_core::ConsumerTag;

use super::{KINDS, flow_of, id_of, options, until};
use crate::client::{Client, Left, open_with, quorum};

const MESSAGE: u64 = 102_400;
const MIB: u64 = 1 << 20;
/// What `Client::publish` sends as properties.
const PROPERTIES: usize = 3;

fn deliveries(left: &[Left]) -> Vec<u64> {
    let tag = |left: &Left| match left {
        Left::Deliver { tag, .. } => Some(*tag),
        _ => None,
    };
    left.iter().filter_map(tag).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worked_example_holds_number_by_number() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        options.flow.memory_limit_bytes = Some(1_024 * MIB);
        let broker = open_with(options).await;
        let memory = broker.memory();
        assert_eq!(memory.producers.limit, Some(1_024 * MIB * 60 / 100));
        assert_eq!(memory.consumers.limit, Some(1_024 * MIB * 40 / 100));

        let mut client = Client::connect(&broker);
        let mut arguments = vec![
            ("x-capacity", Value::I64(10_485_760)),
            ("x-flow-resume-capacity", Value::I64(8_388_608)),
            ("x-memory-limit", Value::I64(5 * MIB as i64)),
        ];
        let mut body = "x".repeat(MESSAGE as usize);
        if kind == "quorum" {
            arguments.extend(quorum());
            // rabbitmq: quorum queues count properties as well
            body.truncate(MESSAGE as usize - PROPERTIES);
        }
        client
            .declare("orders", kind != "transient", &arguments)
            .await;
        client.channel.confirm_select().unwrap();
        let orders = || flow_of(&broker, "orders");
        let logical = || {
            broker
                .queue_counts(id_of(&broker, "orders"))
                .unwrap()
                .bytes()
        };
        assert_eq!(orders().memory_high_water_bytes, Some(3_670_016), "{kind}");

        // 1: 35 messages stay in memory.
        for number in 1..=35 {
            client.publish("", "orders", &body);
            client.channel.end_turn();
            client.confirmed(number).await;
        }
        assert_eq!(logical(), 3_584_000, "{kind}");
        assert_eq!(orders().paged_messages, 0, "{kind}");
        assert!(orders().resident_bytes >= 3_584_000, "{kind}");

        // 2: with the 36th the queue is over its mark, and pages.
        client.publish("", "orders", &body);
        client.channel.end_turn();
        client.confirmed(36).await;
        assert_eq!(logical(), 3_686_400, "{kind}");
        until("one is on disk only", || orders().paged_messages >= 1).await;

        // 3: up to the 102nd it is under its capacity.
        for number in 37..=102 {
            client.publish("", "orders", &body);
            client.channel.end_turn();
            client.confirmed(number).await;
        }
        assert_eq!(logical(), 10_444_800, "{kind}");
        assert_eq!(orders().overfull_total, 0, "{kind}");
        until("35 at most are in memory", || {
            orders().paged_messages >= 67 && orders().resident_bytes <= 3_670_016
        })
        .await;

        // 4: the 103rd tips it and comes in.
        client.publish("", "orders", &body);
        client.channel.end_turn();
        client.confirmed(103).await;
        assert_eq!(logical(), 10_547_200, "{kind}");
        assert_eq!(orders().overfull_total, 1, "{kind}");
        assert!(orders().overfull_since_ms.is_some(), "{kind}");
        assert_eq!(broker.held_channels().len(), 1, "{kind}");

        // 5b: what follows waits unconfirmed; the window of the client is 20.
        for _ in 0..20 {
            client.publish("", "orders", &body);
        }
        client.channel.end_turn();
        let hold = broker.held_channels()[0].hold().unwrap();
        assert_eq!(hold.parked_messages, 20, "{kind}");
        assert!(
            (2_048_000..2_060_000).contains(&hold.parked_bytes),
            "{kind}"
        );
        assert!(hold.confirms_withheld && !hold.flow_sent && !hold.reading_stopped);
        let connection = broker.held_channels()[0].connection();
        assert_eq!(connection.parked_bytes(), broker.memory().parked, "{kind}");
        assert_eq!(broker.memory().parked, hold.parked_bytes, "{kind}");
        assert_eq!(logical(), 10_547_200, "{kind}");

        // 6: a consumer on the same connection; unacked messages count.
        let mut reader = client.session.open_channel(2).unwrap();
        reader.qos(0, 20).unwrap();
        let tag = reader
            .consume(broker::Consume {
                queue: "orders".into(),
                consumer_tag: ConsumerTag::new("reader"),
                no_ack: false,
                exclusive: false,
                arguments: amqp::Table::default(),
            })
            .await
            .unwrap();
        reader.start_consumer(&tag);
        let mut handed_out = deliveries(&client.left(20).await);
        assert_eq!(handed_out, (1..=20).collect::<Vec<_>>(), "{kind}");
        assert_eq!(logical(), 10_547_200, "{kind}");

        // 7: 21 are acked: still above the mark at which it resumes.
        for tag in 1..=21 {
            reader.ack(tag, false).unwrap();
            reader.end_turn();
            handed_out.extend(deliveries(&client.left(1).await));
        }
        assert_eq!(handed_out.len(), 41, "{kind}");
        assert_eq!(logical(), 8_396_800, "{kind}");
        assert_eq!(orders().parked_messages, 20, "{kind}");
        assert!(orders().overfull_since_ms.is_some(), "{kind}");

        // 8: the 22nd makes room: all that waited enters, is confirmed, and nothing holds any more.
        reader.ack(22, false).unwrap();
        reader.end_turn();
        until("everything has entered", || {
            logical() == 8_294_400 + 20 * MESSAGE && broker.held_channels().is_empty()
        })
        .await;
        assert_eq!(orders().overfull_since_ms, None, "{kind}");
        assert_eq!(broker.memory().parked, 0, "{kind}");
        let mut highest = 0;
        while highest < 123 {
            for left in client.left(1).await {
                match left {
                    Left::Ack { tag, .. } => highest = highest.max(tag),
                    Left::Deliver { .. } => {}
                    other => panic!("{kind}: {other:?}"),
                }
            }
        }
    }
}
