//! A broker of a test's own and lapin as an application uses it, with kill -9 and a new start when
//! the test wants one.

use std::future::Future;
use std::time::{Duration, Instant};

use integration_tests::connection::PATIENCE;
use integration_tests::http::Http;
use integration_tests::{BrokerProcess, own_broker};
use lapin::message::Delivery;
use lapin::options::{
    BasicGetOptions, BasicNackOptions, BasicPublishOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::Value as Json;

/// Nobody waits until the end of a delivery is written; by then it is, many times over.
const WRITTEN_AFTER: Duration = Duration::from_millis(200);

/// A broker of the test's own and a connection to it.
pub(crate) struct Scene {
    pub(crate) broker: BrokerProcess,
    pub(crate) connection: Connection,
    pub(crate) channel: Channel,
}

/// Runs a test on a runtime of its own, with an end.
#[track_caller]
pub(crate) fn scene<F: Future<Output = lapin::Result<()>>>(test: impl FnOnce(Scene) -> F) {
    own_broker(|| {
        let runtime = tokio::runtime::Runtime::new().expect("A runtime needs threads only.");
        runtime.block_on(async {
            let broker = BrokerProcess::start();
            let whole = async {
                let (connection, channel) = connect(&broker).await?;
                test(Scene {
                    broker,
                    connection,
                    channel,
                })
                .await
            };
            let outcome = tokio::time::timeout(3 * PATIENCE, whole).await;
            outcome
                .expect("The test must end in time.")
                .expect("The broker must do as asked.");
        });
    });
}

async fn connect(broker: &BrokerProcess) -> lapin::Result<(Connection, Channel)> {
    let uri = format!("amqp://guest:guest@{}/%2f", broker.address());
    let connection = Connection::connect(&uri, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let options = ConfirmSelectOptions::default();
    channel.confirm_select(options).await?;
    Ok((connection, channel))
}

pub(crate) fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value))
}

pub(crate) fn table(pairs: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert(ShortString::from(*name), value.clone());
    }
    table
}

/// A header as text, whatever its type.
pub(crate) fn header(delivery: &Delivery, name: &str) -> Option<String> {
    let headers = delivery.properties.headers().as_ref()?;
    Some(match headers.inner().get(&ShortString::from(name))? {
        AMQPValue::LongString(text) => text.to_string(),
        AMQPValue::LongLongInt(number) => number.to_string(),
        AMQPValue::LongInt(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

impl Scene {
    /// Ends the broker as a power cut would, starts it again and connects.
    pub(crate) async fn crash(&mut self) -> lapin::Result<()> {
        tokio::time::sleep(WRITTEN_AFTER).await;
        self.broker.kill9();
        self.broker.restart();
        (self.connection, self.channel) = connect(&self.broker).await?;
        Ok(())
    }

    /// A durable queue, a quorum queue unless the arguments say otherwise.
    pub(crate) async fn declare(
        &self,
        queue: &str,
        arguments: &[(&str, AMQPValue)],
    ) -> lapin::Result<()> {
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let mut arguments = table(arguments);
        if !arguments.contains_key("x-queue-type") {
            arguments.insert("x-queue-type".into(), text("quorum"));
        }
        self.channel
            .queue_declare(queue.into(), options, arguments)
            .await?;
        Ok(())
    }

    pub(crate) async fn exchange(
        &self,
        name: &str,
        kind: &str,
        arguments: FieldTable,
    ) -> lapin::Result<()> {
        let kind = match kind {
            "fanout" => ExchangeKind::Fanout,
            other => ExchangeKind::Custom(other.into()),
        };
        let options = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        self.channel
            .exchange_declare(name.into(), kind, options, arguments)
            .await
    }

    pub(crate) async fn bind(&self, queue: &str, exchange: &str) -> lapin::Result<()> {
        let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
        self.channel
            .queue_bind(
                queue.into(),
                exchange.into(),
                "k".into(),
                options,
                arguments,
            )
            .await
    }

    /// Publishes and waits for the confirm; answers whether it was an ack.
    pub(crate) async fn publish(
        &self,
        exchange: &str,
        key: &str,
        body: &str,
        properties: BasicProperties,
    ) -> lapin::Result<bool> {
        let options = BasicPublishOptions::default();
        let confirm = self
            .channel
            .basic_publish(
                exchange.into(),
                key.into(),
                options,
                body.as_bytes(),
                properties,
            )
            .await?;
        Ok(confirm.await?.is_ack())
    }

    pub(crate) async fn fill(&self, queue: &str, bodies: &[&str]) -> lapin::Result<()> {
        for body in bodies {
            let confirmed = self.publish("", queue, body, BasicProperties::default());
            assert!(confirmed.await?, "{body}");
        }
        Ok(())
    }

    pub(crate) async fn get(&self, queue: &str) -> lapin::Result<Option<Delivery>> {
        let options = BasicGetOptions::default();
        let got = self.channel.basic_get(queue.into(), options).await?;
        Ok(got.map(|got| got.delivery))
    }

    pub(crate) fn http(&self) -> Http {
        let address = self.broker.management();
        Http::new(address.expect("The management listener is on."))
    }

    /// A queue of vhost `/` as the API shows it.
    pub(crate) fn queue(&self, queue: &str) -> Json {
        self.http()
            .ok("GET", &format!("/api/queues/%2F/{queue}"), None)
    }

    pub(crate) async fn get_soon(&self, queue: &str) -> lapin::Result<Delivery> {
        loop {
            if let Some(delivery) = self.get(queue).await? {
                return Ok(delivery);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn take_all(&self, queue: &str) -> lapin::Result<Vec<String>> {
        let mut bodies = Vec::new();
        while let Some(delivery) = self.get(queue).await? {
            bodies.push(body(&delivery));
        }
        Ok(bodies)
    }
}

/// Waits until `holds`.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn body(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.data).into_owned()
}

pub(crate) fn back() -> BasicNackOptions {
    BasicNackOptions {
        requeue: true,
        ..BasicNackOptions::default()
    }
}
