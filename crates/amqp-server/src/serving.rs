//! Frames of an open connection, understood: hot methods are carried out at once, all others go
//! to `dispatch`. Also which channel or connection a failure closes.
//!
//! Knows the channel table, the session and the outbox; must not know the socket.

use std::sync::Arc;

use amqp::{BasicPublish, Frame, FrameDecoder, FrameFault, FrameKind, Method, MethodFault};
use broker::{Publish, Session, Signal};
use broker_core::Refusal;
use broker_core::refusal::Scope;

use crate::assembler::{self, Assembly, PublishCall, Step};
use crate::channel_table::{ChannelTable, Slot};
use crate::client_traits::ClientTraits;
use crate::ending::{Cause, End, Failure};
use crate::fault::{MethodId, ProtocolFault};
use crate::handshake::Tuned;
use crate::options::{AmqpServerOptions, MESSAGE_SIZE_CEILING};
use crate::outbox::FrameOutbox;
use crate::reply::{self, Close};

/// Bytes of half-received bodies that one connection may keep, over all its channels: four of
/// the largest messages, and never less than this.
const ASSEMBLY_BYTES_MIN: u64 = 64 << 20;

/// What became of a frame.
enum Accepted<'a> {
    /// Done; the content that followed took so many bytes more.
    Done { taken: usize },
    /// A method that may have to wait.
    Cold(Method<'a>),
}

const DONE: Accepted<'static> = Accepted::Done { taken: 0 };

/// The state of an open connection apart from its socket.
pub(crate) struct Serving {
    pub(crate) session: Arc<Session>,
    pub(crate) outbox: Arc<FrameOutbox>,
    pub(crate) channels: ChannelTable,
    pub(crate) traits: ClientTraits,
    pub(crate) obeys_client_flow: bool,
    decoder: FrameDecoder,
    message_size_max: u64,
    assembly_bytes: u64,
    assembly_bytes_max: u64,
    /// Bodies that are announced and not complete, by their whole sizes.
    announced_bytes: u64,
    /// connection.blocked was said and not yet taken back.
    blocked: bool,
    /// The last turn published something.
    published: bool,
    /// The last turn ended early, for the client publishes faster than it may.
    paused: bool,
}

impl Serving {
    pub(crate) fn new(
        session: Arc<Session>,
        outbox: Arc<FrameOutbox>,
        tuned: Tuned,
        traits: ClientTraits,
        options: &AmqpServerOptions,
    ) -> Self {
        let message_size_max = options.max_message_size;
        Self {
            session,
            outbox,
            channels: ChannelTable::new(tuned.channel_max),
            traits,
            obeys_client_flow: options.obeys_client_flow,
            decoder: FrameDecoder::new(tuned.frame_max),
            message_size_max,
            assembly_bytes: 0,
            announced_bytes: 0,
            assembly_bytes_max: ASSEMBLY_BYTES_MIN.max(4 * message_size_max),
            blocked: false,
            published: false,
            paused: false,
        }
    }

    pub(crate) fn decoder(&self) -> FrameDecoder {
        self.decoder
    }

    /// Whether the client was told to stop publishing.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether the last turn published something.
    pub(crate) fn published(&self) -> bool {
        self.published
    }

    /// Whether the last turn ended early, since the client publishes faster than it may.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Handles all whole frames of `bytes`; answers how many bytes that took.
    /// Stops early behind a publish after which the client has to wait.
    pub(crate) async fn frames(&mut self, bytes: &[u8]) -> (usize, Result<(), End>) {
        self.published = false;
        self.paused = false;
        let mut at = 0;
        loop {
            if self.published && self.session.pause().is_some() {
                self.paused = true;
                return (at, Ok(()));
            }
            let (frame, used) = match self.decoder.next(&bytes[at..]) {
                Ok(Some(cut)) => cut,
                Ok(None) => return (at, Ok(())),
                Err(fault) => {
                    let failure = Cause::from(ProtocolFault::Frame(fault)).at(MethodId::NONE);
                    return (at, self.fail(0, failure).await);
                }
            };
            at += used;
            let handled = match self.accept(frame, &bytes[at..]) {
                Ok(Accepted::Done { taken }) => {
                    at += taken;
                    continue;
                }
                Ok(Accepted::Cold(method)) => self.dispatch(frame, method).await,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = handled
                && let Err(end) = self.fail(frame.channel, failure).await
            {
                return (at, Err(end));
            }
        }
    }

    /// Lets every touched channel do what its methods collected.
    pub(crate) fn end_turn(&mut self) {
        self.channels.end_turn();
    }

    /// Carries a failure out: closes the channel, or answers how the connection ends.
    pub(crate) async fn fail(&mut self, channel: u16, failure: Failure) -> Result<(), End> {
        let Failure { cause, at } = failure;
        match cause {
            Cause::ClosedByClient => Err(End::ClosedByClient),
            Cause::UnknownClass(class) => Err(End::Dropped(format!("unknown class {class}"))),
            Cause::Protocol(fault) => {
                let close = Close::fault(&fault, at);
                Err(if fault.is_fatal() {
                    End::Fatal(close)
                } else {
                    End::Closed(close)
                })
            }
            Cause::Refused(refusal) => match reply::scope(&refusal, channel) {
                Scope::Connection => Err(End::Closed(Close::refusal(&refusal, at))),
                // A channel that did not come to be cannot be closed.
                Scope::Channel if self.channels.open(channel).is_none() => {
                    Err(End::Closed(Close::refusal(&refusal, at)))
                }
                Scope::Channel => {
                    self.close_channel(channel, &refusal, at).await;
                    Ok(())
                }
            },
        }
    }

    /// Ends a channel from our side: its publishes so far count, everything else on it is ignored
    /// until close-ok.
    async fn close_channel(&mut self, number: u16, refusal: &Refusal, at: MethodId) {
        self.forget_assembly(number);
        let Some(mut open) = self.channels.begin_close(number) else {
            return;
        };
        if open.touched {
            open.channel.end_turn();
        }
        open.channel.close().await;
        let close = Close::refusal(refusal, at);
        tracing::info!(channel = number, reason = %close.text, "channel closed");
        self.outbox.reply(number, &close.of_channel());
    }

    /// Ends all channels; their publishes so far count.
    pub(crate) async fn close_channels(&mut self) {
        for mut open in self.channels.take_all() {
            if open.touched {
                open.channel.end_turn();
            }
            open.channel.close().await;
        }
    }

    /// Does what the broker wants of this connection.
    pub(crate) async fn signal(&mut self, signal: Signal) -> Result<(), End> {
        match signal {
            Signal::CloseChannel { number, refusal } => {
                // The client may have closed it meanwhile.
                if self.channels.open(number).is_none() {
                    return Ok(());
                }
                self.fail(number, Cause::from(refusal).at(MethodId::NONE))
                    .await
            }
            Signal::CloseConnection { refusal } => {
                Err(End::Closed(Close::refusal(&refusal, MethodId::NONE)))
            }
            Signal::Blocked(reason) => {
                if self.traits.connection_blocked && !self.blocked {
                    self.outbox.reply(0, &reply::blocked(&reason));
                }
                self.blocked = true;
                Ok(())
            }
            Signal::Unblocked => {
                if self.traits.connection_blocked && self.blocked {
                    self.outbox.reply(0, &reply::unblocked());
                }
                self.blocked = false;
                Ok(())
            }
            Signal::Flow { channel, active } => {
                if let Some(open) = self.channels.open(channel) {
                    open.flows_asked.ask(active);
                    self.outbox.reply(channel, &reply::flow(active));
                }
                Ok(())
            }
        }
    }

    fn accept<'a>(&mut self, frame: Frame<'a>, rest: &'a [u8]) -> Result<Accepted<'a>, Failure> {
        match frame.kind {
            FrameKind::Method => self.method(frame, rest),
            FrameKind::Header | FrameKind::Body if frame.channel == 0 => {
                let fault = ProtocolFault::Frame(FrameFault::unexpected(&frame));
                Err(Cause::from(fault).at(MethodId::NONE))
            }
            FrameKind::Header | FrameKind::Body => self.content(frame),
            FrameKind::Heartbeat => Ok(DONE),
        }
    }

    fn method<'a>(&mut self, frame: Frame<'a>, rest: &'a [u8]) -> Result<Accepted<'a>, Failure> {
        match self.channels.slot(frame.channel) {
            Some(Slot::Open(open)) => {
                if let Some(assembly) = &open.assembly {
                    return Err(Cause::from(assembly.out_of_turn()).at(MethodId::BASIC_PUBLISH));
                }
            }
            Some(Slot::Closing | Slot::Crossed) if !ends_a_close(frame.payload) => {
                return Ok(DONE);
            }
            Some(Slot::Closing | Slot::Crossed) | None => {}
        }
        let number = frame.channel;
        let method = Method::decode(frame.payload).map_err(|fault| undecodable(fault, &frame))?;
        // A channel that is not open has no hot methods either.
        let Some(open) = self.channels.touch(number) else {
            return Ok(Accepted::Cold(method));
        };
        let at = MethodId::of(frame.payload);
        let settled = match method {
            Method::BasicPublish(publish) => return self.publish(number, &publish, rest),
            Method::BasicAck(ack) => open.channel.ack(ack.delivery_tag, ack.multiple),
            Method::BasicNack(nack) => {
                open.channel
                    .nack(nack.delivery_tag, nack.multiple, nack.requeue)
            }
            Method::BasicReject(reject) => open.channel.reject(reject.delivery_tag, reject.requeue),
            method => return Ok(Accepted::Cold(method)),
        };
        settled.map_err(|refusal| Cause::from(refusal).at(at))?;
        Ok(DONE)
    }

    /// Takes basic.publish: together with its content when that is all here, else as the
    /// beginning of an assembly.
    fn publish<'a>(
        &mut self,
        number: u16,
        call: &BasicPublish<&str>,
        rest: &'a [u8],
    ) -> Result<Accepted<'a>, Failure> {
        let Some(content) =
            assembler::whole_content(&self.decoder, rest, number, self.message_size_max)
        else {
            if let Some(open) = self.channels.open(number) {
                open.assembly = Some(Assembly::AwaitHeader(PublishCall::from(call)));
            }
            return Ok(DONE);
        };
        self.complete(
            number,
            Publish {
                exchange: call.exchange,
                routing_key: call.routing_key,
                mandatory: call.mandatory,
                immediate: call.immediate,
                properties: content.properties,
                body: content.body,
            },
        )?;
        Ok(Accepted::Done {
            taken: content.used,
        })
    }

    /// Takes a content header or body frame on channel ≥ 1.
    fn content(&mut self, frame: Frame<'_>) -> Result<Accepted<'static>, Failure> {
        let number = frame.channel;
        let assembly = match self.channels.slot(number) {
            Some(Slot::Open(open)) => open.assembly.take(),
            // In flight when the channel was closed.
            Some(Slot::Closing | Slot::Crossed) => return Ok(DONE),
            None => None,
        };
        let Some(assembly) = assembly else {
            return Err(Cause::from(ProtocolFault::ContentWithoutPublish).at(MethodId::NONE));
        };
        self.assembly_bytes -= assembly.kept_bytes() as u64;
        let announced = assembly.announced_bytes(self.message_size_max);
        let step = match frame.kind {
            FrameKind::Header => assembly.header(frame.payload),
            _ => assembly.body(frame.payload, self.message_size_max),
        };
        let next = match &step {
            Ok(Step::More(assembly)) => assembly.announced_bytes(self.message_size_max),
            _ => 0,
        };
        self.announce(announced, next);
        let failed = |fault: ProtocolFault| {
            let at = fault.method_of_content();
            Cause::from(fault).at(at)
        };
        match step.map_err(failed)? {
            Step::More(assembly) => self.keep(number, assembly)?,
            Step::Complete(content) => self.assembled(number, &content)?,
        }
        Ok(DONE)
    }

    fn keep(&mut self, number: u16, assembly: Assembly) -> Result<(), Failure> {
        self.assembly_bytes += assembly.kept_bytes() as u64;
        if self.assembly_bytes > self.assembly_bytes_max {
            let fault = ProtocolFault::AssemblyFull {
                max: self.assembly_bytes_max,
            };
            return Err(Cause::from(fault).at(MethodId::BASIC_PUBLISH));
        }
        if let Some(open) = self.channels.open(number) {
            open.assembly = Some(assembly);
        }
        Ok(())
    }

    fn forget_assembly(&mut self, number: u16) {
        if let Some(assembly) = self
            .channels
            .open(number)
            .and_then(|open| open.assembly.take())
        {
            self.assembly_bytes -= assembly.kept_bytes() as u64;
            self.announce(assembly.announced_bytes(self.message_size_max), 0);
        }
    }

    /// What is announced is charged before it arrives.
    fn announce(&mut self, before: u64, after: u64) {
        if before != after {
            self.announced_bytes = self.announced_bytes - before + after;
            self.session.announce(before, after);
        }
    }

    /// Whether a body is under way that memory has no room for.
    pub(crate) fn lacks_memory(&self) -> bool {
        self.announced_bytes > 0 && self.session.lacks_memory()
    }

    fn assembled(&mut self, number: u16, content: &assembler::Content) -> Result<(), Failure> {
        // rabbitmq: refused only when the whole body has come
        if content.body_size > self.message_size_max {
            let refusal = Refusal::MessageTooLarge {
                size: content.body_size,
                max: self.message_size_max,
                configured: self.message_size_max < MESSAGE_SIZE_CEILING,
            };
            return Err(Cause::from(refusal).at(MethodId::BASIC_PUBLISH));
        }
        self.complete(
            number,
            Publish {
                exchange: &content.call.exchange,
                routing_key: &content.call.routing_key,
                mandatory: content.call.mandatory,
                immediate: content.call.immediate,
                properties: &content.properties,
                body: &content.body,
            },
        )
    }

    fn complete(&mut self, number: u16, publish: Publish<'_>) -> Result<(), Failure> {
        self.published = true;
        let Some(open) = self.channels.touch(number) else {
            return Ok(());
        };
        open.channel
            .publish(publish)
            .map_err(|refusal| Cause::from(refusal).at(MethodId::BASIC_PUBLISH))
    }
}

/// What a lost connection announced will not come.
impl Drop for Serving {
    fn drop(&mut self) {
        self.session.announce(self.announced_bytes, 0);
    }
}

/// Whether the payload is a method that a channel under close still hears: close, close-ok, and
/// open, which may follow a crossed close at once.
fn ends_a_close(payload: &[u8]) -> bool {
    matches!(
        MethodId::of(payload),
        MethodId {
            class: 20,
            method: 10 | 40 | 41
        }
    )
}

fn undecodable(fault: MethodFault, frame: &Frame<'_>) -> Failure {
    let (class, method) = fault.ids(frame.channel);
    let at = MethodId { class, method };
    match fault.reply_code(frame.channel) {
        None => Cause::UnknownClass(MethodId::of(frame.payload).class).at(at),
        Some(code) => {
            let text = fault.explanation(frame.channel, frame.payload);
            Cause::from(ProtocolFault::Method { code, text }).at(at)
        }
    }
}
