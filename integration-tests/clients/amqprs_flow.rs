//! amqprs at overfull queues and through alarms, on connections that only publish and on shared ones:
//! it says that it goes on when it is asked to pause, and must lose nothing.

use std::net::SocketAddr;

use amqprs::callbacks::{ChannelCallback, DefaultConnectionCallback};
use amqprs::channel::{
    BasicAckArguments, BasicConsumeArguments, BasicPublishArguments, BasicQosArguments, Channel,
    ConfirmSelectArguments, QueueDeclareArguments, QueueDeleteArguments,
};
use amqprs::connection::{Connection, OpenConnectionArguments};
use amqprs::error::Error;
use amqprs::{
    Ack, BasicProperties, Cancel, CloseChannel, FieldTable, FieldValue, LongStr, Nack, Return,
    ShortStr,
};
use async_trait::async_trait;
use integration_tests::Trial;
use tokio::sync::watch;

use crate::{alarms, flow_stories};

const MESSAGES: usize = 300;
const CAPACITY: i32 = 20;
const PREFETCH: u16 = 10;

type Result<T> = std::result::Result<T, Error>;

/// What the broker has said of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// Up to which publish it has acked.
    acked: u64,
    /// It has nacked, returned, cancelled or closed something.
    failed: bool,
}

/// Keeps what the broker says of a channel.
struct Ears(watch::Sender<Said>);

impl Ears {
    fn failed(&self) {
        self.0.send_modify(|said| said.failed = true);
    }
}

#[async_trait]
impl ChannelCallback for Ears {
    async fn close(&mut self, _: &Channel, _: CloseChannel) -> Result<()> {
        self.failed();
        Ok(())
    }

    async fn cancel(&mut self, _: &Channel, _: Cancel) -> Result<()> {
        self.failed();
        Ok(())
    }

    async fn flow(&mut self, _: &Channel, active: bool) -> Result<bool> {
        // It is never sent one.
        self.failed();
        Ok(active)
    }

    async fn publish_ack(&mut self, _: &Channel, ack: Ack) {
        self.0
            .send_modify(|said| said.acked = said.acked.max(ack.delivery_tag()));
    }

    async fn publish_nack(&mut self, _: &Channel, _: Nack) {
        self.failed();
    }

    async fn publish_return(&mut self, _: &Channel, _: Return, _: BasicProperties, _: Vec<u8>) {
        self.failed();
    }
}

async fn connect(address: SocketAddr) -> Result<Connection> {
    let host = address.ip().to_string();
    let arguments = OpenConnectionArguments::new(&host, address.port(), "guest", "guest");
    let connection = Connection::open(&arguments).await?;
    connection
        .register_callback(DefaultConnectionCallback)
        .await?;
    Ok(connection)
}

async fn open(connection: &Connection) -> Result<(Channel, watch::Receiver<Said>)> {
    let channel = connection.open_channel(None).await?;
    let (said, heard) = watch::channel(Said::default());
    channel.register_callback(Ears(said)).await?;
    Ok((channel, heard))
}

fn short(text: &str) -> ShortStr {
    ShortStr::try_from(text).expect("The text is short.")
}

async fn declare(channel: &Channel, queue: &str) -> Result<()> {
    let mut table = FieldTable::new();
    let kind = LongStr::try_from("quorum").expect("The text is short.");
    table.insert(short("x-queue-type"), FieldValue::S(kind));
    table.insert(short("x-capacity-messages"), FieldValue::I(CAPACITY));
    table.insert(short("x-flow-resume-messages"), FieldValue::I(CAPACITY / 2));
    let mut arguments = QueueDeclareArguments::durable_client_named(queue);
    channel
        .queue_declare(arguments.arguments(table).finish())
        .await?;
    Ok(())
}

async fn publish(
    channel: &Channel,
    queue: &str,
    confirms: Option<watch::Receiver<Said>>,
) -> Result<()> {
    for number in 0..MESSAGES {
        let body = number.to_string().into_bytes();
        let arguments = BasicPublishArguments::new("", queue);
        channel
            .basic_publish(BasicProperties::default(), body, arguments)
            .await?;
    }
    if let Some(mut heard) = confirms {
        heard
            .wait_for(|said| said.acked == MESSAGES as u64 || said.failed)
            .await
            .expect("The channel lives.");
    }
    Ok(())
}

async fn consume(channel: &Channel, queue: &str) -> Result<Vec<usize>> {
    channel
        .basic_qos(BasicQosArguments::new(0, PREFETCH, false))
        .await?;
    let arguments = BasicConsumeArguments::new(queue, "");
    let (_, mut deliveries) = channel.basic_consume_rx(arguments).await?;
    let mut numbers = Vec::new();
    while numbers.len() < MESSAGES {
        let Some(delivery) = deliveries.recv().await else {
            break;
        };
        let body = String::from_utf8(delivery.content.unwrap_or_default());
        let body = body.expect("Bodies are text.");
        numbers.push(body.parse().expect("Bodies are numbers."));
        let tag = delivery.deliver.map(|deliver| deliver.delivery_tag());
        let tag = tag.expect("A delivery has a tag.");
        channel
            .basic_ack(BasicAckArguments::new(tag, false))
            .await?;
    }
    Ok(numbers)
}

async fn story(address: SocketAddr, queue: String, confirm: bool, shared: bool) -> Result<()> {
    let connection = connect(address).await?;
    let (publisher, heard) = open(&connection).await?;
    declare(&publisher, &queue).await?;
    if confirm {
        publisher
            .confirm_select(ConfirmSelectArguments::default())
            .await?;
    }
    let other = match shared {
        true => connection.clone(),
        false => connect(address).await?,
    };
    let (consumer, consumer_heard) = open(&other).await?;
    let confirms = confirm.then(|| heard.clone());
    let (published, numbers) = futures::join!(
        publish(&publisher, &queue, confirms),
        consume(&consumer, &queue)
    );
    published?;
    let mut numbers = numbers?;
    numbers.sort_unstable();
    assert!(
        numbers.into_iter().eq(0..MESSAGES),
        "confirm {confirm}, shared {shared}"
    );
    for heard in [heard, consumer_heard] {
        let said = *heard.borrow();
        assert!(!said.failed, "{said:?}, confirm {confirm}, shared {shared}");
    }
    assert!(connection.is_open() && publisher.is_open() && consumer.is_open());
    publisher
        .queue_delete(QueueDeleteArguments::new(&queue))
        .await?;
    if !shared {
        leave(other).await;
    }
    leave(connection).await;
    Ok(())
}

/// Closes a connection. amqprs gives its own close up when another frame, as `connection.unblocked`,
/// crosses it: it takes itself for closed from the start.
async fn leave(connection: Connection) {
    if let Err(error) = connection.close().await {
        assert!(
            matches!(
                error,
                Error::InternalChannelError(_) | Error::ConnectionCloseError(_)
            ),
            "{error}"
        );
    }
}

fn all_stories(address: SocketAddr, name: impl Fn() -> String) {
    flow_stories::tell_all(name, |queue, confirm, shared| {
        story(address, queue, confirm, shared)
    });
}

#[test]
fn an_overfull_queue_costs_amqprs_neither_connection_nor_consumer() {
    let trial = Trial::shared();
    all_stories(trial.address(), || trial.name("amqprs.flow"));
}

#[test]
fn alarms_of_memory_and_disk_cost_amqprs_neither_connection_nor_consumer() {
    alarms::live_through("amqprs.flow", |address, name| all_stories(address, name));
}
