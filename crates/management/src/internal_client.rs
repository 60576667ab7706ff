//! A client within the process: publishes and gets single messages for the API, through a session
//! and a channel like any other client, with the caller's own rights.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use broker::observe::INTERNAL_MECHANISM;
use broker::{Broker, Channel, Outbox, Outgoing, Publish, Session, SessionOptions};
use broker_core::{Refusal, UserName, VhostName};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{ApiError, Result};

/// Longest wait for a confirm; a full queue may hold its publishers.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);

const CHANNEL: u16 = 1;
const FRAME_BYTES_MAX: u32 = 131_072;

/// A session with one channel. Must be closed by [`InternalClient::close`].
pub(crate) struct InternalClient {
    session: Session,
    channel: Channel,
    verdicts: Arc<Verdicts>,
    published: u64,
}

/// A message to be published.
pub(crate) struct Copy {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) properties: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// What the broker said of the messages that are under way.
#[derive(Debug, Default)]
struct Verdicts {
    state: Mutex<Verdict>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Verdict {
    /// The message that is being published came back.
    returned: bool,
    /// Publishes that wait for a confirm, by number.
    open: BTreeSet<u64>,
    nacked: BTreeSet<u64>,
}

impl Verdict {
    fn settle(&mut self, tag: u64, multiple: bool, taken: bool) {
        let settled: Vec<u64> = match multiple {
            true => self.open.range(..=tag).copied().collect(),
            false => self.open.get(&tag).copied().into_iter().collect(),
        };
        for tag in settled {
            self.open.remove(&tag);
            if !taken {
                self.nacked.insert(tag);
            }
        }
    }
}

impl Outbox for Verdicts {
    fn push(&self, _channel: u16, out: &[Outgoing<'_>]) -> usize {
        let mut state = self.state.lock();
        for outgoing in out {
            match outgoing {
                // Full is told apart from unroutable by the nack that follows.
                Outgoing::Return { .. } => state.returned = true,
                Outgoing::Ack {
                    delivery_tag,
                    multiple,
                } => state.settle(*delivery_tag, *multiple, true),
                Outgoing::Nack {
                    delivery_tag,
                    multiple,
                } => state.settle(*delivery_tag, *multiple, false),
                // Nothing is consumed or committed here.
                Outgoing::Deliver { .. }
                | Outgoing::CancelConsumer { .. }
                | Outgoing::ReturnFull { .. }
                | Outgoing::CommitOk => {}
            }
        }
        drop(state);
        self.arrived.notify_one();
        0
    }
}

impl InternalClient {
    /// Opens a session for a user.
    ///
    /// # Errors
    /// The user has no access to the vhost, or a limit is reached.
    pub(crate) fn open(broker: &Broker, user: &UserName, vhost: &VhostName) -> Result<Self> {
        let verdicts = Arc::new(Verdicts::default());
        let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let session = broker.open_session(SessionOptions {
            user: user.clone(),
            vhost: vhost.clone(),
            peer: nowhere,
            local: nowhere,
            client_properties: amqp::Table::default(),
            outbox: verdicts.clone(),
            channel_max: CHANNEL,
            frame_max: FRAME_BYTES_MAX,
            heartbeat_s: 0,
            mechanism: INTERNAL_MECHANISM.into(),
            tls: None,
        })?;
        let channel = session.open_channel(CHANNEL)?;
        Ok(Self {
            session,
            channel,
            verdicts,
            published: 0,
        })
    }

    /// The channel, for everything but publishing.
    pub(crate) fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// Publishes and waits until the broker has taken the message. Answers whether a queue has
    /// it.
    ///
    /// # Errors
    /// The exchange refuses it, or the broker does not confirm it in time.
    pub(crate) async fn publish(
        &mut self,
        exchange: &str,
        routing_key: &str,
        properties: &[u8],
        body: &[u8],
    ) -> Result<bool> {
        let (tag, returned) = self.begin(exchange, routing_key, properties, body)?;
        self.channel.end_turn();
        let nacked = self.confirmed().await?;
        Ok(!returned && !nacked.contains(&tag))
    }

    /// Publishes all and waits until the broker has taken or refused each. Answers which of them
    /// a queue has.
    ///
    /// # Errors
    /// The broker does not confirm them in time.
    pub(crate) async fn publish_all(&mut self, copies: &[&Copy]) -> Result<Vec<bool>> {
        let mut begun = Vec::with_capacity(copies.len());
        for copy in copies {
            let Copy {
                exchange,
                routing_key,
                properties,
                body,
            } = copy;
            // What the rules refuse stays where it is, as what no queue takes.
            begun.push(self.begin(exchange, routing_key, properties, body).ok());
        }
        self.channel.end_turn();
        let nacked = self.confirmed().await?;
        let is_taken = |begun: Option<(u64, bool)>| {
            begun.is_some_and(|(tag, returned)| !returned && !nacked.contains(&tag))
        };
        Ok(begun.into_iter().map(is_taken).collect())
    }

    /// Publishes one message; answers its number, and whether it came back at once.
    fn begin(
        &mut self,
        exchange: &str,
        routing_key: &str,
        properties: &[u8],
        body: &[u8],
    ) -> Result<(u64, bool)> {
        self.channel.confirm_select()?;
        let tag = self.published + 1;
        {
            let mut verdict = self.verdicts.state.lock();
            verdict.returned = false;
            verdict.open.insert(tag);
        }
        let sent = self.channel.publish(Publish {
            exchange,
            routing_key,
            mandatory: true,
            immediate: false,
            properties,
            body,
        });
        let mut verdict = self.verdicts.state.lock();
        if let Err(refusal) = sent {
            verdict.open.remove(&tag);
            return Err(refusal.into());
        }
        self.published = tag;
        Ok((tag, verdict.returned))
    }

    /// Waits until nothing is under way; answers what was nacked.
    async fn confirmed(&self) -> Result<BTreeSet<u64>> {
        let all = tokio::time::timeout(CONFIRM_TIMEOUT, self.verdicts.confirmed()).await;
        all.map_err(|_| ApiError::Broken("a message was not confirmed in time".into()))
    }

    /// Ends the session; what was got and not settled goes back.
    pub(crate) async fn close(self) {
        self.channel.close().await;
        self.session.close().await;
    }
}

impl Verdicts {
    async fn confirmed(&self) -> BTreeSet<u64> {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut verdict = self.state.lock();
                if verdict.open.is_empty() {
                    return std::mem::take(&mut verdict.nacked);
                }
            }
            arrived.await;
        }
    }
}

/// A refusal of an operation on an object that a body or a path names.
pub(crate) fn missing(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::QueueNotFound { .. } => ApiError::NotFound("queue_not_found".into()),
        Refusal::ExchangeNotFound { .. } => ApiError::NotFound("exchange_not_found".into()),
        other => other.into(),
    }
}
