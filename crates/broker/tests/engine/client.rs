//! A client without a socket: an outbox that keeps what leaves, and short calls for the stories.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use amqp::{Table, Value};
use broker::{
    BindQueue, Broker, BrokerOptions, Channel, Consume, DeclareQueue, Outbox, Outgoing, Publish,
    Session, SessionOptions,
};
use broker_core::metadata::{MetadataChange, VhostRecord};
use broker_core::{ConsumerTag, QueueName, UserName, VhostName};
use tokio::sync::Notify;

/// Something that left on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Deliver {
        tag: u64,
        redelivered: bool,
        body: String,
    },
    Ack {
        tag: u64,
        multiple: bool,
    },
    Nack {
        tag: u64,
        multiple: bool,
    },
    Return {
        body: String,
    },
    Cancel {
        consumer: String,
    },
    ReturnFull {
        queue: String,
    },
    CommitOk,
}

#[derive(Default)]
pub(crate) struct Collector {
    left: Mutex<Vec<Left>>,
    more: Notify,
}

impl Outbox for Collector {
    fn push(&self, _channel: u16, out: &[Outgoing<'_>]) -> usize {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut left = self.left.lock().unwrap();
        left.extend(out.iter().map(|outgoing| match outgoing {
            Outgoing::Deliver {
                delivery_tag,
                redelivered,
                message,
                ..
            } => Left::Deliver {
                tag: *delivery_tag,
                redelivered: *redelivered,
                body: text(message.body),
            },
            Outgoing::Ack {
                delivery_tag,
                multiple,
            } => Left::Ack {
                tag: *delivery_tag,
                multiple: *multiple,
            },
            Outgoing::Nack {
                delivery_tag,
                multiple,
            } => Left::Nack {
                tag: *delivery_tag,
                multiple: *multiple,
            },
            Outgoing::Return { message } => Left::Return {
                body: text(message.body),
            },
            Outgoing::ReturnFull { queue, .. } => Left::ReturnFull {
                queue: (*queue).to_owned(),
            },
            Outgoing::CommitOk => Left::CommitOk,
            Outgoing::CancelConsumer { consumer_tag } => Left::Cancel {
                consumer: (*consumer_tag).to_owned(),
            },
        }));
        drop(left);
        self.more.notify_waiters();
        0
    }
}

/// Opens a broker with one vhost and one user that may do everything.
pub(crate) async fn open(dir: &Path) -> Broker {
    open_with(BrokerOptions::new(dir)).await
}

/// As [`open`], with other options.
pub(crate) async fn open_with(options: BrokerOptions) -> Broker {
    let broker = Broker::open(options).await.unwrap();
    if broker.metadata().vhosts().next().is_none() {
        let vhost = VhostName::new("/");
        let user = UserName::new("guest");
        let changes = [
            MetadataChange::PutVhost {
                vhost: vhost.clone(),
                record: VhostRecord::default(),
            },
            MetadataChange::PutUser {
                user: user.clone(),
                password_hash: "".into(),
                hashing_algorithm: "rabbit_password_hashing_sha256".into(),
                tags: Vec::new(),
            },
            MetadataChange::SetPermission {
                user,
                vhost,
                configure: ".*".into(),
                write: ".*".into(),
                read: ".*".into(),
            },
        ];
        for change in changes {
            broker.apply(&change).await.unwrap();
        }
    }
    broker
}

pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) channel: Channel,
    outbox: Arc<Collector>,
    acked: HashSet<u64>,
}

impl Client {
    pub(crate) fn connect(broker: &Broker) -> Self {
        Self::connect_as(broker, "test", "")
    }

    /// A client that describes itself so.
    pub(crate) fn connect_as(broker: &Broker, product: &str, platform: &str) -> Self {
        let outbox = Arc::new(Collector::default());
        let capabilities: Table = ["consumer_cancel_notify", "connection.blocked"]
            .map(|capability| (capability, Value::Bool(true)))
            .into_iter()
            .collect();
        let address = "127.0.0.1:5672".parse().unwrap();
        let session = broker
            .open_session(SessionOptions {
                user: UserName::new("guest"),
                vhost: VhostName::new("/"),
                peer: address,
                local: address,
                client_properties: [
                    ("product", Value::from(product)),
                    ("platform", Value::from(platform)),
                    ("capabilities", Value::Table(capabilities)),
                ]
                .into_iter()
                .collect(),
                outbox: outbox.clone(),
                channel_max: 2047,
                frame_max: 131_072,
                heartbeat_s: 0,
                mechanism: "PLAIN".into(),
                tls: None,
            })
            .unwrap();
        let channel = session.open_channel(1).unwrap();
        Self {
            session,
            channel,
            outbox,
            acked: HashSet::new(),
        }
    }

    pub(crate) async fn declare(
        &mut self,
        queue: &str,
        durable: bool,
        arguments: &[(&str, Value)],
    ) {
        self.channel
            .declare_queue(DeclareQueue {
                queue: QueueName::new(queue),
                passive: false,
                durable,
                exclusive: false,
                auto_delete: false,
                arguments: arguments.iter().cloned().collect(),
            })
            .await
            .unwrap();
    }

    pub(crate) async fn bind(&mut self, queue: &str, exchange: &str, key: &str) {
        self.channel
            .bind_queue(BindQueue {
                queue: QueueName::new(queue),
                exchange: exchange.into(),
                binding_key: key.into(),
                arguments: Table::default(),
            })
            .await
            .unwrap();
    }

    pub(crate) fn publish(&mut self, exchange: &str, key: &str, body: &str) {
        self.publish_with(exchange, key, body, &[0x10, 0, 2]);
    }

    /// A message that is not persistent.
    pub(crate) fn publish_transient(&mut self, exchange: &str, key: &str, body: &str) {
        self.publish_with(exchange, key, body, &[0, 0]);
    }

    pub(crate) fn publish_with(
        &mut self,
        exchange: &str,
        key: &str,
        body: &str,
        properties: &[u8],
    ) {
        self.channel
            .publish(Publish {
                exchange,
                routing_key: key,
                mandatory: true,
                immediate: false,
                properties,
                body: body.as_bytes(),
            })
            .unwrap();
    }

    pub(crate) async fn consume(&mut self, queue: &str, tag: &str, no_ack: bool) {
        let consume = Consume {
            queue: QueueName::new(queue),
            consumer_tag: ConsumerTag::new(tag),
            no_ack,
            exclusive: false,
            arguments: Table::default(),
        };
        let tag = self.channel.consume(consume).await.unwrap();
        self.channel.start_consumer(&tag);
    }

    /// Waits until so many things have left, and takes all of them.
    pub(crate) async fn left(&self, count: usize) -> Vec<Left> {
        let waiting = async {
            loop {
                let more = self.outbox.more.notified();
                if self.outbox.left.lock().unwrap().len() >= count {
                    return std::mem::take(&mut *self.outbox.left.lock().unwrap());
                }
                more.await;
            }
        };
        match tokio::time::timeout(Duration::from_secs(20), waiting).await {
            Ok(left) => left,
            Err(_) => panic!(
                "expected {count} to leave, got {:?}",
                self.outbox.left.lock().unwrap()
            ),
        }
    }

    /// Takes what has left by now.
    pub(crate) fn left_now(&self) -> Vec<Left> {
        std::mem::take(&mut *self.outbox.left.lock().unwrap())
    }

    /// Waits until every publish up to this number is acked.
    pub(crate) async fn confirmed(&mut self, up_to: u64) {
        while !(1..=up_to).all(|number| self.acked.contains(&number)) {
            for left in self.left(1).await {
                match left {
                    Left::Ack {
                        tag,
                        multiple: true,
                    } => self.acked.extend(1..=tag),
                    Left::Ack {
                        tag,
                        multiple: false,
                    } => self.acked.extend([tag]),
                    other => panic!("expected acks, got {other:?}"),
                }
            }
        }
    }

    /// Takes one message by `basic.get`, with an ack.
    pub(crate) async fn get(&mut self, queue: &str) -> Option<(String, bool)> {
        let got = self
            .channel
            .get(QueueName::new(queue), true)
            .await
            .unwrap()?;
        let body = got
            .with_view(|view| String::from_utf8_lossy(view.body).into_owned())
            .unwrap();
        Some((body, got.redelivered))
    }

    /// Takes everything that is ready.
    pub(crate) async fn drain(&mut self, queue: &str) -> Vec<String> {
        let mut bodies = Vec::new();
        while let Some((body, _)) = self.get(queue).await {
            bodies.push(body);
        }
        bodies
    }
}

pub(crate) fn quorum() -> [(&'static str, Value); 1] {
    [("x-queue-type", Value::from("quorum"))]
}
