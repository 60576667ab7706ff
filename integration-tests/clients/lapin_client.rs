//! lapin, the Rust client, as an application uses it.

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use integration_tests::Trial;
use integration_tests::connection::PATIENCE;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions,
    BasicPublishOptions, BasicQosOptions, BasicRecoverOptions, BasicRejectOptions,
    ConfirmSelectOptions, ExchangeBindOptions, ExchangeDeclareOptions, ExchangeDeleteOptions,
    QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
};

/// The two types that keep messages.
const BOTH: [&str; 2] = ["classic", "quorum"];

/// A connection and a channel in confirm mode.
struct Client {
    trial: Trial,
    connection: Connection,
    channel: Channel,
}

/// Runs a test on a runtime of its own, with an end.
#[track_caller]
fn with_client<F: Future<Output = lapin::Result<()>>>(test: impl FnOnce(Client) -> F) {
    let runtime = tokio::runtime::Runtime::new().expect("A runtime needs threads only.");
    runtime.block_on(async {
        let trial = Trial::shared();
        let whole = async {
            let connection = connect(&trial, "guest:guest").await?;
            let channel = connection.create_channel().await?;
            channel
                .confirm_select(ConfirmSelectOptions::default())
                .await?;
            test(Client {
                trial,
                connection,
                channel,
            })
            .await
        };
        let outcome = tokio::time::timeout(PATIENCE, whole).await;
        outcome
            .expect("The test must end in time.")
            .expect("The broker must do as asked.");
    });
}

async fn connect(trial: &Trial, credentials: &str) -> lapin::Result<Connection> {
    let uri = format!("amqp://{credentials}@{}/%2f", trial.address());
    Connection::connect(&uri, ConnectionProperties::default()).await
}

fn arguments(kind: &str) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString(LongString::from(kind)),
    );
    arguments
}

impl Client {
    async fn queue(&self, kind: &str) -> lapin::Result<ShortString> {
        let name = ShortString::from(self.trial.name("lapin"));
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        self.channel
            .queue_declare(name.clone(), options, arguments(kind))
            .await?;
        Ok(name)
    }

    async fn publish(&self, exchange: &str, key: &str, body: &[u8]) -> lapin::Result<Confirmation> {
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let properties = BasicProperties::default().with_delivery_mode(2);
        self.channel
            .basic_publish(exchange.into(), key.into(), options, body, properties)
            .await?
            .await
    }

    async fn fill(&self, queue: &ShortString, bodies: &[&str]) -> lapin::Result<()> {
        for body in bodies {
            let confirmed = self.publish("", queue.as_str(), body.as_bytes()).await?;
            assert!(
                matches!(confirmed, Confirmation::Ack(None)),
                "{body}: {confirmed:?}"
            );
        }
        Ok(())
    }

    async fn take(&self, queue: &ShortString) -> lapin::Result<Option<String>> {
        let options = BasicGetOptions { no_ack: true };
        let got = self.channel.basic_get(queue.clone(), options).await?;
        Ok(got.map(|message| text(&message.delivery.data)))
    }

    async fn delete(&self, queue: &ShortString) -> lapin::Result<u32> {
        self.channel
            .queue_delete(queue.clone(), QueueDeleteOptions::default())
            .await
    }

    async fn exchange(&self, kind: ExchangeKind) -> lapin::Result<ShortString> {
        let name = ShortString::from(self.trial.name("lapin"));
        let options = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        self.channel
            .exchange_declare(name.clone(), kind, options, FieldTable::default())
            .await?;
        Ok(name)
    }

    async fn bind(
        &self,
        queue: &ShortString,
        exchange: &ShortString,
        key: &str,
    ) -> lapin::Result<()> {
        let (queue, exchange) = (queue.clone(), exchange.clone());
        let options = QueueBindOptions::default();
        self.channel
            .queue_bind(queue, exchange, key.into(), options, FieldTable::default())
            .await
    }
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

#[test]
fn a_connection_opens_and_closes() {
    with_client(|client| async move {
        assert!(client.connection.status().connected());
        client.channel.close(200, "done".into()).await?;
        client.connection.close(200, "done".into()).await
    });
}

#[test]
fn a_wrong_password_is_refused() {
    with_client(|client| async move {
        let refused = connect(&client.trial, "guest:wrong").await;
        assert!(refused.is_err(), "expected a refusal");
        Ok(())
    });
}

#[test]
fn queues_are_declared_counted_purged_and_deleted() {
    with_client(|client| async move {
        for kind in BOTH {
            let queue = client.queue(kind).await?;
            client.fill(&queue, &["a", "b"]).await?;
            let options = QueueDeclareOptions {
                passive: true,
                ..QueueDeclareOptions::default()
            };
            let seen = client
                .channel
                .queue_declare(queue.clone(), options, arguments(kind))
                .await?;
            assert_eq!(
                (seen.message_count(), seen.consumer_count()),
                (2, 0),
                "{kind}"
            );
            let purge = QueuePurgeOptions::default();
            assert_eq!(
                client.channel.queue_purge(queue.clone(), purge).await?,
                2,
                "{kind}"
            );
            client.fill(&queue, &["c"]).await?;
            assert_eq!(client.delete(&queue).await?, 1, "{kind}");
        }
        Ok(())
    });
}

#[test]
fn the_three_exchange_types_route() {
    with_client(|client| async move {
        for (kind, key, wanted) in [
            (ExchangeKind::Direct, "a.b", ["a.b"].as_slice()),
            (ExchangeKind::Topic, "a.*", &["a.b", "a.c"]),
            (ExchangeKind::Fanout, "", &["a.b", "a.c", "b"]),
        ] {
            let exchange = client.exchange(kind).await?;
            let queue = client.queue("classic").await?;
            client.bind(&queue, &exchange, key).await?;
            for key in ["a.b", "a.c", "b"] {
                client
                    .publish(exchange.as_str(), key, key.as_bytes())
                    .await?;
            }
            let mut taken = Vec::new();
            while let Some(body) = client.take(&queue).await? {
                taken.push(body);
            }
            assert_eq!(taken, wanted);
            client.delete(&queue).await?;
            client
                .channel
                .exchange_delete(exchange, ExchangeDeleteOptions::default())
                .await?;
        }
        Ok(())
    });
}

#[test]
fn exchanges_are_bound_to_exchanges() {
    with_client(|client| async move {
        let (source, destination) = (
            client.exchange(ExchangeKind::Fanout).await?,
            client.exchange(ExchangeKind::Fanout).await?,
        );
        let queue = client.queue("classic").await?;
        client.bind(&queue, &destination, "").await?;
        let options = ExchangeBindOptions::default();
        let table = FieldTable::default();
        let (to, from) = (destination.clone(), source.clone());
        client
            .channel
            .exchange_bind(to, from, "".into(), options, table)
            .await?;
        client.publish(source.as_str(), "k", b"far").await?;
        assert_eq!(client.take(&queue).await?.as_deref(), Some("far"));
        client.delete(&queue).await?;
        for exchange in [source, destination] {
            client
                .channel
                .exchange_delete(exchange, ExchangeDeleteOptions::default())
                .await?;
        }
        Ok(())
    });
}

#[test]
fn a_mandatory_message_without_a_route_is_returned_with_its_confirm() {
    with_client(|client| async move {
        let confirmed = client
            .publish("", &client.trial.name("nowhere"), b"lost")
            .await?;
        let Confirmation::Ack(Some(returned)) = confirmed else {
            panic!("expected an ack with the message; came {confirmed:?}");
        };
        assert_eq!(
            (returned.reply_code, text(&returned.delivery.data)),
            (312, "lost".to_owned())
        );
        Ok(())
    });
}

#[test]
fn a_thousand_publishes_in_flight_are_confirmed() {
    with_client(|client| async move {
        for kind in BOTH {
            let queue = client.queue(kind).await?;
            let mut confirms = Vec::new();
            for n in 0..1000u32 {
                let properties = BasicProperties::default().with_delivery_mode(2);
                let options = BasicPublishOptions::default();
                let body = n.to_string();
                let publish = client.channel.basic_publish(
                    "".into(),
                    queue.clone(),
                    options,
                    body.as_bytes(),
                    properties,
                );
                confirms.push(publish.await?);
            }
            for confirm in confirms {
                let confirmed = confirm.await?;
                assert!(
                    matches!(confirmed, Confirmation::Ack(None)),
                    "{kind}: {confirmed:?}"
                );
            }
            assert_eq!(client.delete(&queue).await?, 1000, "{kind}");
        }
        Ok(())
    });
}

#[test]
fn consumers_get_ack_and_give_back() {
    with_client(|client| async move {
        for kind in BOTH {
            let queue = client.queue(kind).await?;
            client.fill(&queue, &["a"]).await?;
            client
                .channel
                .basic_qos(1, BasicQosOptions::default())
                .await?;
            let options = BasicConsumeOptions::default();
            let consuming = client.channel.basic_consume(
                queue.clone(),
                "".into(),
                options,
                FieldTable::default(),
            );
            let mut consumer = consuming.await?;
            let mut flags = Vec::new();
            for step in 0..4 {
                let delivery = consumer.next().await.expect("The consumer must go on.")?;
                flags.push(delivery.redelivered);
                match step {
                    0 => {
                        let requeue = BasicNackOptions {
                            requeue: true,
                            multiple: false,
                        };
                        delivery.nack(requeue).await?;
                    }
                    1 => {
                        delivery
                            .reject(BasicRejectOptions { requeue: true })
                            .await?;
                    }
                    2 => {
                        client
                            .channel
                            .basic_recover(BasicRecoverOptions { requeue: true })
                            .await?
                    }
                    _ => {
                        delivery.ack(BasicAckOptions::default()).await?;
                    }
                }
            }
            assert_eq!(flags, [false, true, true, true], "{kind}");
            let tag = consumer.tag();
            client
                .channel
                .basic_cancel(tag, BasicCancelOptions::default())
                .await?;
            assert_eq!(client.delete(&queue).await?, 0, "{kind}");
        }
        Ok(())
    });
}

#[test]
fn prefetch_holds_deliveries_back() {
    with_client(|client| async move {
        for kind in BOTH {
            let queue = client.queue(kind).await?;
            client.fill(&queue, &["a", "b", "c"]).await?;
            client
                .channel
                .basic_qos(2, BasicQosOptions::default())
                .await?;
            let options = BasicConsumeOptions::default();
            let consuming = client.channel.basic_consume(
                queue.clone(),
                "".into(),
                options,
                FieldTable::default(),
            );
            let mut consumer = consuming.await?;
            let first = consumer.next().await.expect("The consumer must go on.")?;
            consumer.next().await.expect("The consumer must go on.")?;
            let quiet = tokio::time::timeout(Duration::from_millis(300), consumer.next()).await;
            assert!(
                quiet.is_err(),
                "{kind}: expected no third delivery; came {quiet:?}"
            );
            first.ack(BasicAckOptions::default()).await?;
            let third = consumer.next().await.expect("The consumer must go on.")?;
            assert_eq!(text(&third.data), "c", "{kind}");
            client.delete(&queue).await?;
        }
        Ok(())
    });
}

#[test]
fn a_missing_queue_is_an_error_of_the_channel_only() {
    with_client(|client| async move {
        let missing = ShortString::from(client.trial.name("missing"));
        let got = client
            .channel
            .basic_get(missing, BasicGetOptions::default())
            .await;
        assert!(got.is_err(), "expected an error; came {got:?}");
        let other = client.connection.create_channel().await?;
        other.basic_qos(1, BasicQosOptions::default()).await
    });
}
