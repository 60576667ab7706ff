//! One connection from accept to its end.
//!
//! The reader's loop: wait for whatever comes first (bytes, a signal of the broker, a heartbeat's
//! due, room, shutdown), handle one read's frames as one turn, and end the connection in the
//! way its cause deserves. Frames are understood in `serving`; writing is `writer`'s task.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::Authenticator;
use broker::{Broker, Session, Signal, TlsDetails};
use broker_core::Refusal;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::ending::End;
use crate::fault::MethodId;
use crate::handshake::{self, Opened};
use crate::heartbeat::{HeartbeatWatch, Pulse};
use crate::input::Input;
use crate::linger::{self, LastWord};
use crate::options::AmqpServerOptions;
use crate::outbox::FrameOutbox;
use crate::reply::{self, Close};
use crate::serving::Serving;
use crate::writer;

/// Longest time without a written byte while so much waits that the client is not read.
const WRITE_STALL_MAX: Duration = Duration::from_secs(120);

/// Time between two looks at a connection without heartbeats: quiet ones give memory back.
const QUIET: Duration = Duration::from_secs(30);

/// Time between two reads from a client whose publishes wait.
const HELD_PEEK: Duration = Duration::from_secs(1);

/// Most bytes of one such read: a frame of the size that clients usually negotiate.
const HELD_PEEK_BYTES: usize = 128 << 10;

/// Longest wait for the writer to write what is left after a connection's end.
const FLUSH_MAX: Duration = Duration::from_secs(10);

/// What a connection is served with.
pub(crate) struct Context {
    pub(crate) broker: Broker,
    pub(crate) authenticator: Authenticator,
    pub(crate) options: Arc<AmqpServerOptions>,
    pub(crate) tls: Option<ClientTls>,
}

/// The encryption of a connection.
pub(crate) struct ClientTls {
    /// For listings.
    pub(crate) details: TlsDetails,
    /// The client showed a certificate.
    pub(crate) has_certificate: bool,
    /// Whom it names.
    pub(crate) certificate_name: Option<String>,
}

impl Context {
    #[cfg(test)]
    pub(crate) fn new(
        broker: Broker,
        authenticator: Authenticator,
        options: AmqpServerOptions,
    ) -> Self {
        Self {
            broker,
            authenticator,
            options: Arc::new(options.bounded()),
            tls: None,
        }
    }

    /// The client as logins see it.
    pub(crate) fn client(&self, endpoint: Endpoint) -> auth::Client {
        let named = self.tls.as_ref();
        auth::Client {
            address: endpoint.peer.ip(),
            certificate_name: named.and_then(|tls| tls.certificate_name.clone()),
        }
    }
}

/// The two ends of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Serves one socket until its connection has ended. Generic over the socket, so that TLS
/// streams and in-memory pipes are served alike.
pub(crate) async fn serve_connection<R, W>(
    reader: R,
    writer: W,
    endpoint: Endpoint,
    context: Arc<Context>,
    shutdown: CancellationToken,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let peer = endpoint.peer;
    tracing::info!(%peer, local = %endpoint.local, "connection accepted");
    match handshake::open(reader, writer, endpoint, &context, &shutdown).await {
        Err(fault) => tracing::info!(%peer, reason = %fault, "connection not opened"),
        Ok(opened) => {
            let traits = &opened.traits;
            tracing::info!(
                %peer, user = %opened.user, vhost = %opened.vhost,
                product = traits.product.as_deref(), name = traits.name.as_deref(),
                "connection opened",
            );
            let end = Running::start(opened, &context.options)
                .run(&shutdown)
                .await;
            tracing::info!(%peer, reason = %end, "connection closed");
        }
    }
}

/// An open connection.
struct Running<R> {
    reader: R,
    input: Input,
    serving: Serving,
    session: Arc<Session>,
    outbox: Arc<FrameOutbox>,
    watch: HeartbeatWatch,
    heartbeat_s: u16,
    refusal_delay: Duration,
    writer: JoinHandle<()>,
    session_closed: bool,
    /// Since when, and at how many written bytes, the outbox keeps us from reading.
    stalled: Option<(Instant, u64)>,
}

/// What keeps the socket from being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Nothing.
    Open,
    /// The broker has too much to store.
    Pressure,
    /// Too much waits to be written to this client.
    Outbox,
    /// What the client published waits for a queue, and it takes no messages.
    Held,
    /// A body is under way that memory has no room for.
    Memory,
    /// Its user or vhost has published as much as a limit allows, for so long.
    Paced(Duration),
}

impl Gate {
    fn lets_read(self) -> bool {
        matches!(self, Gate::Open | Gate::Held | Gate::Memory)
    }
}

/// What came first.
enum Event {
    Shutdown,
    Lost,
    Signal(Signal),
    Tick,
    Read(io::Result<usize>),
    GateOpened,
    PauseEnded,
    Stalled,
}

impl<R: AsyncRead + Unpin> Running<R> {
    fn start<W>(opened: Opened<R, W>, options: &AmqpServerOptions) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let Opened {
            reader,
            writer,
            input,
            session,
            outbox,
            tuned,
            traits,
            ..
        } = opened;
        let session = Arc::new(session);
        let drained = session.clone();
        let writer = tokio::spawn(writer::run(
            writer,
            outbox.clone(),
            tuned.heartbeat_s,
            move || drained.drained(),
        ));
        let serving = Serving::new(session.clone(), outbox.clone(), tuned, traits, options);
        Self {
            reader,
            input,
            serving,
            session,
            outbox,
            watch: HeartbeatWatch::new(tuned.heartbeat_s),
            heartbeat_s: tuned.heartbeat_s,
            refusal_delay: options.refusal_delay,
            writer,
            session_closed: false,
            stalled: None,
        }
    }

    /// Runs to the end, including everything that must be said and given back.
    async fn run(mut self, shutdown: &CancellationToken) -> End {
        let end = self.serve(shutdown).await;
        self.finish(&end).await;
        end
    }

    async fn serve(&mut self, shutdown: &CancellationToken) -> End {
        let mut ticks = ticks(self.watch.interval().unwrap_or(QUIET));
        // Methods may have come together with connection.open.
        let mut outcome = self.turn().await;
        loop {
            if let Err(end) = outcome {
                return end;
            }
            let gate = self.gate();
            outcome = match self.wait(gate, &mut ticks, shutdown).await {
                Event::Shutdown => Err(closed(&Refusal::Shutdown)),
                Event::Lost => Err(End::Dropped(self.outbox.loss().to_string())),
                Event::Signal(signal) => self.serving.signal(signal).await,
                Event::Tick => self.tick(gate),
                Event::Read(Ok(0)) => Err(End::Dropped("client closed the socket".into())),
                Event::Read(Err(error)) => Err(End::Dropped(format!("socket failed: {error}"))),
                Event::Read(Ok(count)) => {
                    self.session.received(count);
                    self.watch.heard();
                    self.turn().await
                }
                Event::GateOpened => Ok(()),
                // What was read before the pause goes first.
                Event::PauseEnded => self.turn().await,
                Event::Stalled => Err(End::Dropped(format!(
                    "client does not read: nothing could be written for {} s",
                    WRITE_STALL_MAX.as_secs()
                ))),
            };
        }
    }

    /// Handles every whole frame that was read, then lets the touched channels do their work.
    async fn turn(&mut self) -> Result<(), End> {
        let (used, outcome) = self.serving.frames(self.input.bytes()).await;
        self.input.consume(used);
        self.serving.end_turn();
        outcome
    }

    fn gate(&mut self) -> Gate {
        if self.outbox.must_pause() {
            let written = self.outbox.written_total();
            match self.stalled {
                Some((_, before)) if before == written => {}
                _ => self.stalled = Some((Instant::now(), written)),
            }
            return Gate::Outbox;
        }
        self.stalled = None;
        if self.serving.is_paused() {
            return Gate::Paced(self.session.pause().unwrap_or_default());
        }
        if self.session.is_held() {
            return Gate::Held;
        }
        if self.serving.lacks_memory() {
            return Gate::Memory;
        }
        // Only publishers add to the pressure; whoever consumes is read, its acks free memory.
        if self.serving.published() && self.session.must_wait() {
            return Gate::Pressure;
        }
        Gate::Open
    }

    async fn wait(
        &mut self,
        gate: Gate,
        ticks: &mut Interval,
        shutdown: &CancellationToken,
    ) -> Event {
        let Self {
            reader,
            input,
            session,
            outbox,
            stalled,
            ..
        } = self;
        let pause = match gate {
            Gate::Paced(pause) => pause,
            _ => Duration::ZERO,
        };
        let stall_end = stalled.map_or_else(Instant::now, |(since, _)| since) + WRITE_STALL_MAX;
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Event::Shutdown,
            () = outbox.lost() => Event::Lost,
            signal = session.signal() => Event::Signal(signal),
            _ = ticks.tick() => Event::Tick,
            count = read(input, reader, gate), if gate.lets_read() => Event::Read(count),
            () = session.room(), if gate == Gate::Pressure => Event::GateOpened,
            () = session.released(), if gate == Gate::Held => Event::GateOpened,
            () = tokio::time::sleep(pause), if matches!(gate, Gate::Paced(_)) => Event::PauseEnded,
            eased = tokio::time::timeout_at(stall_end, outbox.eased()), if gate == Gate::Outbox => {
                self.after_stall(eased.is_ok())
            }
        }
    }

    /// The outbox has room, or a stall's time is over; bytes written meanwhile excuse it.
    fn after_stall(&self, eased: bool) -> Event {
        let progress = self
            .stalled
            .is_none_or(|(_, before)| before != self.outbox.written_total());
        if eased || progress {
            Event::GateOpened
        } else {
            Event::Stalled
        }
    }

    fn tick(&mut self, gate: Gate) -> Result<(), End> {
        // A client that was told to stop may stop its heartbeats as well.
        let reading = gate == Gate::Open && !self.serving.is_blocked();
        if !self.watch.was_heard() {
            self.input.rest();
        }
        match self.watch.check(reading) {
            Pulse::Dead => Err(End::Dropped("client missed its heartbeats".into())),
            Pulse::Alive => Ok(()),
        }
    }

    /// Says what is to be said, gives back what the session holds, and lets the socket go.
    async fn finish(&mut self, end: &End) {
        match end {
            End::ClosedByClient => {
                // Exclusive queues are gone before close-ok is heard.
                self.close_session().await;
                self.outbox.last_words(&reply::connection_close_ok());
                self.flush(linger::AFTER_END).await;
            }
            End::Closed(close) => {
                self.outbox.last_words(&close.of_connection());
                self.close_session().await;
                self.await_close_ok().await;
                self.flush(linger::AFTER_END).await;
            }
            End::Fatal(close) => {
                self.outbox.last_words(&close.of_connection());
                self.close_session().await;
                // Where the next frame begins is not known: nothing is read as one.
                self.flush(self.refusal_delay).await;
            }
            End::Dropped(_) => {
                self.writer.abort();
                self.close_session().await;
            }
        }
    }

    async fn close_session(&mut self) {
        self.serving.close_channels().await;
        self.session.close().await;
        self.session_closed = true;
    }

    async fn await_close_ok(&mut self) {
        let limit = linger::close_ok_limit(self.heartbeat_s);
        let decoder = self.serving.decoder();
        let word = linger::until_close_ok(&mut self.reader, &mut self.input, &decoder, limit).await;
        if word == LastWord::Close {
            self.outbox.reply(0, &reply::connection_close_ok());
        }
    }

    /// Lets the writer write the rest and end the stream, then waits for the peer's end.
    async fn flush(&mut self, limit: Duration) {
        self.outbox.end();
        if tokio::time::timeout(FLUSH_MAX, &mut self.writer)
            .await
            .is_err()
        {
            self.writer.abort();
            return;
        }
        linger::until_eof(&mut self.reader, limit).await;
    }
}

/// Whatever ends the task, a bug included, ends the writer and the session as well: what the
/// client held must not stay with nobody.
impl<R> Drop for Running<R> {
    fn drop(&mut self) {
        self.writer.abort();
        if !self.session_closed
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let session = self.session.clone();
            runtime.spawn(async move { session.close().await });
        }
    }
}

/// Reads what came. Of a held client a little is read once in a while: it may close, or begin to
/// consume, and is then held no more.
async fn read<R: AsyncRead + Unpin>(
    input: &mut Input,
    reader: &mut R,
    gate: Gate,
) -> io::Result<usize> {
    if gate != Gate::Open {
        tokio::time::sleep(HELD_PEEK).await;
        return input.fill_at_most(reader, HELD_PEEK_BYTES).await;
    }
    input.fill(reader).await
}

fn closed(refusal: &Refusal) -> End {
    End::Closed(Close::refusal(refusal, MethodId::NONE))
}

fn ticks(interval: Duration) -> Interval {
    let mut ticks = tokio::time::interval_at(Instant::now() + interval, interval);
    // A long turn must not be followed by a burst of checks that find nothing new.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests;
