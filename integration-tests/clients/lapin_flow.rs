//! lapin and overfull queues, on connections that only publish and on shared ones: its consumer
//! must live, and neither channel.flow nor connection.blocked may stop its acks.

use std::net::SocketAddr;

use futures::StreamExt;
use integration_tests::Trial;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

use crate::{alarms, flow_stories};

const MESSAGES: usize = 300;
const CAPACITY: i32 = 20;
const PREFETCH: u16 = 10;

async fn connect(address: SocketAddr) -> lapin::Result<Connection> {
    let uri = format!("amqp://guest:guest@{address}/%2f");
    Connection::connect(&uri, ConnectionProperties::default()).await
}

async fn declare(channel: &Channel, queue: &ShortString) -> lapin::Result<()> {
    let mut arguments = FieldTable::default();
    let kind = AMQPValue::LongString(LongString::from("quorum"));
    arguments.insert("x-queue-type".into(), kind);
    arguments.insert("x-capacity-messages".into(), AMQPValue::LongInt(CAPACITY));
    arguments.insert(
        "x-flow-resume-messages".into(),
        AMQPValue::LongInt(CAPACITY / 2),
    );
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(queue.clone(), options, arguments)
        .await?;
    Ok(())
}

async fn publish(channel: &Channel, queue: &ShortString) -> lapin::Result<()> {
    let mut confirms = Vec::new();
    for number in 0..MESSAGES {
        let body = number.to_string();
        let publishing = channel.basic_publish(
            "".into(),
            queue.clone(),
            BasicPublishOptions::default(),
            body.as_bytes(),
            BasicProperties::default(),
        );
        confirms.push(publishing.await?);
    }
    for confirm in confirms {
        confirm.await?;
    }
    Ok(())
}

async fn consume(channel: &Channel, queue: &ShortString) -> lapin::Result<Vec<usize>> {
    channel
        .basic_qos(PREFETCH, BasicQosOptions::default())
        .await?;
    let options = BasicConsumeOptions::default();
    let tag = ShortString::from("");
    let mut deliveries = channel
        .basic_consume(queue.clone(), tag, options, FieldTable::default())
        .await?;
    let mut numbers = Vec::new();
    while numbers.len() < MESSAGES {
        let Some(delivery) = deliveries.next().await else {
            break;
        };
        let delivery = delivery?;
        let text = String::from_utf8_lossy(&delivery.data).into_owned();
        numbers.push(text.parse().expect("Bodies are numbers."));
        delivery.ack(BasicAckOptions::default()).await?;
    }
    Ok(numbers)
}

async fn story(
    address: SocketAddr,
    queue: String,
    confirm: bool,
    shared: bool,
) -> lapin::Result<()> {
    let queue = ShortString::from(queue);
    let connection = connect(address).await?;
    let publisher = connection.create_channel().await?;
    declare(&publisher, &queue).await?;
    if confirm {
        publisher
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
    }
    let other = match shared {
        true => None,
        false => Some(connect(address).await?),
    };
    let consumer = other
        .as_ref()
        .unwrap_or(&connection)
        .create_channel()
        .await?;
    let (published, numbers) =
        futures::join!(publish(&publisher, &queue), consume(&consumer, &queue));
    published?;
    let mut numbers = numbers?;
    numbers.sort_unstable();
    assert!(
        numbers.into_iter().eq(0..MESSAGES),
        "confirm {confirm}, shared {shared}"
    );
    assert!(connection.status().connected());
    publisher
        .queue_delete(queue, QueueDeleteOptions::default())
        .await?;
    connection.close(200, "done".into()).await
}

fn all_stories(address: SocketAddr, name: impl Fn() -> String) {
    flow_stories::tell_all(name, |queue, confirm, shared| {
        story(address, queue, confirm, shared)
    });
}

#[test]
fn an_overfull_queue_costs_lapin_neither_connection_nor_consumer() {
    let trial = Trial::shared();
    all_stories(trial.address(), || trial.name("lapin.flow"));
}

#[test]
fn alarms_of_memory_and_disk_cost_lapin_neither_connection_nor_consumer() {
    alarms::live_through("lapin.flow", |address, name| all_stories(address, name));
}
