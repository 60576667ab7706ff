//! A client within the process: publishes and gets single messages for the API, through a session
//! and a channel like any other client, with the caller's own rights.

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
}

/// What the broker said of the one message that is under way.
#[derive(Debug, Default)]
struct Verdicts {
    state: Mutex<Verdict>,
    arrived: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Verdict {
    returned: bool,
    confirmed: Option<bool>,
}

impl Outbox for Verdicts {
    fn push(&self, _channel: u16, out: &[Outgoing<'_>]) -> usize {
        let mut state = self.state.lock();
        for outgoing in out {
            match outgoing {
                Outgoing::Return { .. } => state.returned = true,
                Outgoing::Ack { .. } => state.confirmed = Some(true),
                Outgoing::Nack { .. } => state.confirmed = Some(false),
                // Nothing is consumed here.
                Outgoing::Deliver { .. } | Outgoing::CancelConsumer { .. } => {}
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
        })?;
        let channel = session.open_channel(CHANNEL)?;
        Ok(Self {
            session,
            channel,
            verdicts,
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
        self.channel.confirm_select()?;
        *self.verdicts.state.lock() = Verdict::default();
        self.channel.publish(Publish {
            exchange,
            routing_key,
            mandatory: true,
            immediate: false,
            properties,
            body,
        })?;
        self.channel.end_turn();
        let verdict = tokio::time::timeout(CONFIRM_TIMEOUT, self.verdicts.confirmed()).await;
        let verdict =
            verdict.map_err(|_| ApiError::Broken("a message was not confirmed in time".into()))?;
        Ok(!verdict.returned && verdict.confirmed == Some(true))
    }

    /// Ends the session; what was got and not settled goes back.
    pub(crate) async fn close(self) {
        self.channel.close().await;
        self.session.close().await;
    }
}

impl Verdicts {
    async fn confirmed(&self) -> Verdict {
        loop {
            let arrived = self.arrived.notified();
            let verdict = *self.state.lock();
            if verdict.confirmed.is_some() {
                return verdict;
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
