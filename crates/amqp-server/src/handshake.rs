//! From the first byte to connection.open-ok.
//!
//! The states are types: each owns what was settled so far and has one way on, the method that
//! is due. Whatever else comes ends the connection, until the terms are settled without a word and
//! after a delay that makes guessing slow. Knows SASL only by `auth`'s answers and sessions only by opening one.

mod greeting;
mod login;
mod tune;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use amqp::protocol::{AMQPClass, connection};
use amqp::{FrameDecoder, FrameFault, ProtocolHeader, Table, encode_method};
use broker::{Session, SessionOptions};
use broker_core::{Refusal, UserName, VhostName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::client_traits::ClientTraits;
use crate::connection::{Context, Endpoint};
use crate::fault::{MethodId, ProtocolFault};
use crate::input::Input;
use crate::linger;
use crate::outbox::FrameOutbox;
use crate::reply::{self, Close};

pub(crate) use tune::{TuneFault, Tuned};
use wire::Wire;

/// Largest frame before tune-ok.
// rabbitmq: frames over 8192 bytes before tuning end the connection
const FRAME_SIZE_UNTUNED: u32 = 8192;

/// Everything a running connection starts with.
pub(crate) struct Opened<R, W> {
    pub(crate) reader: R,
    pub(crate) writer: W,
    pub(crate) input: Input,
    pub(crate) session: Session,
    pub(crate) outbox: Arc<FrameOutbox>,
    pub(crate) tuned: Tuned,
    pub(crate) traits: ClientTraits,
    pub(crate) user: UserName,
    pub(crate) vhost: VhostName,
}

/// Why a connection was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeFault {
    /// The first eight octets do not ask for this protocol.
    #[error("asked for another protocol: {0:?}")]
    OtherProtocol(ProtocolHeader),
    /// The client broke the protocol; it hears nothing.
    #[error("{0}")]
    Protocol(String),
    /// A frame that is no method on channel 0; who has agreed on the terms hears so.
    #[error("{}", .0.explanation())]
    OtherFrame(FrameFault),
    /// A method that is not due; likewise.
    #[error("method {}/{} in connection state {state}", at.class, at.method)]
    OtherMethod { at: MethodId, state: &'static str },
    /// The client may not log in. It hears so only if it can bear that.
    #[error("login refused: {reason}")]
    Login {
        reason: String,
        close: Option<Close>,
    },
    /// The client answered the offer with terms outside of it.
    #[error("{}", .0.text)]
    Tune(Close),
    /// The client is known, and may not open this vhost.
    #[error("{}", .close.text)]
    Open { close: Close, heartbeat_s: u16 },
    /// The client changed its mind.
    #[error("client closed before it opened")]
    ClosedByClient,
    /// The socket failed or ended.
    #[error("socket failed: {0}")]
    Socket(#[from] std::io::Error),
    /// It took too long.
    #[error("handshake timed out")]
    TimedOut,
    /// The node stops.
    #[error("node shuts down")]
    Shutdown,
}

/// Leads a fresh socket to an open session. When that fails, the client has heard what it may
/// hear and the socket is done with when this returns.
pub(crate) async fn open<R, W>(
    reader: R,
    writer: W,
    endpoint: Endpoint,
    context: &Context,
    shutdown: &CancellationToken,
) -> Result<Opened<R, W>, HandshakeFault>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut wire = Wire::new(reader, writer, FrameDecoder::new(FRAME_SIZE_UNTUNED));
    let talk = async {
        let greeted = AwaitHeader.header(&mut wire, context).await?;
        let known = greeted.start_ok(&mut wire, endpoint, context).await?;
        let tuned = known.tune_ok(&mut wire).await?;
        tuned.open(&mut wire, endpoint, context).await
    };
    let talk = tokio::time::timeout(context.options.handshake_timeout, talk);
    let outcome = tokio::select! {
        () = shutdown.cancelled() => Err(HandshakeFault::Shutdown),
        outcome = talk => outcome.unwrap_or(Err(HandshakeFault::TimedOut)),
    };
    match outcome {
        Ok(ready) => Ok(ready.opened(wire)),
        Err(fault) => {
            let delay = context.options.refusal_delay;
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = part(&mut wire, &fault, delay) => {}
            }
            Err(fault)
        }
    }
}

/// The last things said to a client that was not let in.
async fn part(
    wire: &mut Wire<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    fault: &HandshakeFault,
    delay: Duration,
) {
    // Failures while parting change nothing: the socket is dropped next.
    match fault {
        HandshakeFault::OtherProtocol(_) => {
            let _ = wire.send(&amqp::PROTOCOL_HEADER).await;
            wire.end().await;
            linger::until_eof(&mut wire.reader, linger::AFTER_END).await;
        }
        HandshakeFault::Protocol(_)
        | HandshakeFault::OtherFrame(_)
        | HandshakeFault::OtherMethod { .. }
        | HandshakeFault::Login { close: None, .. } => {
            linger::until_eof(&mut wire.reader, delay).await;
        }
        HandshakeFault::Login {
            close: Some(close), ..
        }
        | HandshakeFault::Tune(close) => {
            let _ = wire.say(&close.of_connection()).await;
            linger::until_eof(&mut wire.reader, delay).await;
        }
        HandshakeFault::Open { close, heartbeat_s } => {
            let _ = wire.say(&close.of_connection()).await;
            let limit = linger::close_ok_limit(*heartbeat_s);
            let Wire {
                reader,
                writer: _,
                input,
                decoder,
            } = wire;
            if linger::until_close_ok(reader, input, decoder, limit).await
                == linger::LastWord::Close
            {
                let _ = wire.say(&reply::connection_close_ok()).await;
            }
            wire.end().await;
        }
        HandshakeFault::ClosedByClient => {
            let _ = wire.say(&reply::connection_close_ok()).await;
            wire.end().await;
            linger::until_eof(&mut wire.reader, linger::AFTER_END).await;
        }
        HandshakeFault::Socket(_) | HandshakeFault::TimedOut | HandshakeFault::Shutdown => {}
    }
}

/// Nothing came yet.
struct AwaitHeader;

impl AwaitHeader {
    async fn header(
        self,
        wire: &mut Wire<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
        context: &Context,
    ) -> Result<AwaitStartOk, HandshakeFault> {
        let header = wire.protocol_header().await?;
        if !header.is_served() {
            return Err(HandshakeFault::OtherProtocol(header));
        }
        let has_certificate = context.tls.as_ref().is_some_and(|tls| tls.has_certificate);
        wire.send(&greeting::start(
            &context.options.identity,
            &context.authenticator.offer(has_certificate),
        ))
        .await?;
        Ok(AwaitStartOk)
    }
}

/// The client knows who we are; its login is due.
struct AwaitStartOk;

impl AwaitStartOk {
    async fn start_ok(
        self,
        wire: &mut Wire<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
        endpoint: Endpoint,
        context: &Context,
    ) -> Result<AwaitTuneOk, HandshakeFault> {
        let (method, client_properties) = wire.method().await?;
        let connection::AMQPMethod::StartOk(start_ok) = method else {
            return Err(unexpected(&method, "starting"));
        };
        let traits = ClientTraits::of(&client_properties);
        let mechanism = start_ok.mechanism.as_str();
        let response = start_ok.response.as_bytes();
        // Challenges (connection.secure) would be a state of their own here; no mechanism on
        // offer sends one.
        let user = login::login(context, mechanism, response, endpoint, &traits)?;
        let offer = tune::Offer::of(&context.options);
        wire.say(&offer.as_method()).await?;
        let mechanism = mechanism.to_owned();
        Ok(AwaitTuneOk {
            user,
            mechanism,
            client_properties,
            traits,
            offer,
        })
    }
}

/// The client is who it says; the terms are due.
struct AwaitTuneOk {
    user: UserName,
    mechanism: String,
    client_properties: Table,
    traits: ClientTraits,
    offer: tune::Offer,
}

impl AwaitTuneOk {
    async fn tune_ok(
        self,
        wire: &mut Wire<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    ) -> Result<AwaitOpen, HandshakeFault> {
        let (method, _) = wire.method().await?;
        let connection::AMQPMethod::TuneOk(answer) = method else {
            return Err(unexpected(&method, "tuning"));
        };
        let tuned = self
            .offer
            .settle(&answer)
            .map_err(|fault| HandshakeFault::Tune(Close::tune(&fault)))?;
        wire.decoder = FrameDecoder::new(tuned.frame_max);
        Ok(AwaitOpen { known: self, tuned })
    }
}

/// The terms are settled; a vhost is due.
struct AwaitOpen {
    known: AwaitTuneOk,
    tuned: Tuned,
}

impl AwaitOpen {
    async fn open(
        self,
        wire: &mut Wire<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
        endpoint: Endpoint,
        context: &Context,
    ) -> Result<Ready, HandshakeFault> {
        let tuned = self.tuned;
        let open = wire.method().await.and_then(|(method, _)| match method {
            connection::AMQPMethod::Open(open) => Ok(open),
            method => Err(unexpected(&method, "opening")),
        });
        let open = open.map_err(|fault| fault.told(tuned.heartbeat_s))?;
        let AwaitTuneOk {
            user,
            mechanism,
            client_properties,
            traits,
            ..
        } = self.known;
        let vhost = VhostName::new(open.virtual_host.as_str());
        let delay = context
            .broker
            .connection_delay(&user, &vhost)
            .map_err(|refusal| refused(&refusal, tuned.heartbeat_s))?;
        if !delay.is_zero() {
            tracing::info!(%user, %vhost, ?delay, "connections come too fast; this one waits");
            tokio::time::sleep(delay).await;
        }
        let outbox = Arc::new(FrameOutbox::new(tuned.frame_max));
        let session = context
            .broker
            .open_session(SessionOptions {
                user: user.clone(),
                vhost: vhost.clone(),
                peer: endpoint.peer,
                local: endpoint.local,
                client_properties,
                outbox: outbox.clone(),
                channel_max: tuned.channel_max,
                frame_max: tuned.frame_max,
                heartbeat_s: tuned.heartbeat_s,
                mechanism,
                tls: context.tls.as_ref().map(|tls| tls.details.clone()),
            })
            .map_err(|refusal| refused(&refusal, tuned.heartbeat_s))?;
        // Said through the outbox, so that it comes before anything else the session says.
        outbox.reply(0, &reply::connection_open_ok());
        Ok(Ready {
            session,
            outbox,
            tuned,
            traits,
            user,
            vhost,
        })
    }
}

/// All is settled.
struct Ready {
    session: Session,
    outbox: Arc<FrameOutbox>,
    tuned: Tuned,
    traits: ClientTraits,
    user: UserName,
    vhost: VhostName,
}

impl Ready {
    fn opened<R, W>(self, wire: Wire<R, W>) -> Opened<R, W> {
        let Wire {
            reader,
            writer,
            input,
            decoder: _,
        } = wire;
        let Self {
            session,
            outbox,
            tuned,
            traits,
            user,
            vhost,
        } = self;
        Opened {
            reader,
            writer,
            input,
            session,
            outbox,
            tuned,
            traits,
            user,
            vhost,
        }
    }
}

fn refused(refusal: &Refusal, heartbeat_s: u16) -> HandshakeFault {
    const OPEN: MethodId = MethodId {
        class: 10,
        method: 40,
    };
    HandshakeFault::Open {
        close: Close::refusal(refusal, OPEN),
        heartbeat_s,
    }
}

fn unexpected(method: &connection::AMQPMethod, state: &'static str) -> HandshakeFault {
    if matches!(method, connection::AMQPMethod::Close(_)) {
        return HandshakeFault::ClosedByClient;
    }
    let method = AMQPClass::Connection(method.clone());
    let at = MethodId {
        class: method.get_amqp_class_id(),
        method: method.get_amqp_method_id(),
    };
    HandshakeFault::OtherMethod { at, state }
}

impl HandshakeFault {
    /// The fault as a client hears it that has agreed on the terms: with a close.
    fn told(self, heartbeat_s: u16) -> Self {
        let close = match self {
            Self::OtherFrame(fault) => Close::fault(&ProtocolFault::Frame(fault), MethodId::NONE),
            Self::OtherMethod { at, .. } => Close::fault(&ProtocolFault::UnexpectedInOpening, at),
            other => return other,
        };
        Self::Open { close, heartbeat_s }
    }
}

/// A method as the bytes of its frame.
fn frame(method: &AMQPClass) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_method(&mut bytes, 0, method);
    bytes
}
