//! A connection's way out: frames are encoded straight into the buffer that the writer sends.
//!
//! Everybody who has something to say to the client (the broker's deliveries and confirms, the
//! connection's replies) appends under one short lock; nobody waits. Knows encoders and bounds,
//! not the socket.

use std::io;

use amqp::protocol::AMQPClass;
use amqp::{
    BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicReturn, Content, ContentByReference,
    FrameEncoder, HEARTBEAT_FRAME, Properties, ReplyCode, encode_ack, encode_method, encode_nack,
};
use broker::{MessageView, OUTBOX_MARK, Outbox, Outgoing, Sent};
use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::out_buffer::OutBuffer;
use crate::reply;

/// Bodies from this size on are referenced, not copied.
pub(crate) const SHARED_BODY_BYTES_MIN: usize = 8 << 10;

/// Waiting bytes from which the connection is not read: the broker stops dispatching at its own
/// mark far below, so what piles up here answers what the client sends without reading.
pub(crate) const OUTBOX_PAUSE_BYTES: usize = 16 << 20;

/// Waiting bytes above which the client counts as one that never reads, and is dropped. The
/// bound is exceeded by no more than what one push carries.
pub(crate) const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// What waits to be written.
#[derive(Debug, Default)]
struct State {
    waiting: OutBuffer,
    /// Bytes that the writer took and has not written yet.
    in_flight: usize,
    written_total: u64,
    writes: u64,
    /// The broker was told of a full outbox and waits to hear that it is drained.
    over_mark: bool,
    /// The broker's pushes are not wanted any more: a close was said.
    sealed: bool,
    /// Nothing more will be appended; the writer ends when all is written.
    ended: bool,
    error: Option<io::Error>,
    overfull: bool,
}

impl State {
    fn bytes(&self) -> usize {
        self.waiting.remaining() + self.in_flight
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FrameOutbox {
    encoder: FrameEncoder,
    state: Mutex<State>,
    filled: Notify,
    eased: Notify,
    lost: CancellationToken,
}

/// Why an outbox cannot be written any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Loss {
    /// The socket failed.
    #[error("socket failed: {0}")]
    Socket(io::Error),
    /// More than [`OUTBOX_BYTES_MAX`] wait.
    #[error("client does not read: more than {OUTBOX_BYTES_MAX} bytes wait to be written")]
    Overfull,
}

impl FrameOutbox {
    /// `frame_max` as negotiated, in bytes.
    pub(crate) fn new(frame_max: u32) -> Self {
        Self {
            encoder: FrameEncoder::new(frame_max),
            state: Mutex::default(),
            filled: Notify::new(),
            eased: Notify::new(),
            lost: CancellationToken::new(),
        }
    }

    /// Appends what `write` says; answers the bytes that wait.
    fn append(&self, write: impl FnOnce(&mut State)) -> usize {
        let mut state = self.state.lock();
        if state.ended || state.overfull || state.error.is_some() {
            return 0;
        }
        if state.bytes() > OUTBOX_BYTES_MAX {
            state.overfull = true;
            state.waiting.release();
            self.lost.cancel();
            return 0;
        }
        let was_empty = !state.waiting.has_remaining();
        write(&mut state);
        let bytes = state.bytes();
        state.over_mark |= bytes >= OUTBOX_MARK;
        let wake = was_empty && state.waiting.has_remaining();
        drop(state);
        if wake {
            self.filled.notify_one();
        }
        bytes
    }

    /// Appends a method frame.
    pub(crate) fn reply(&self, channel: u16, method: &AMQPClass) {
        self.append(|state| encode_method(state.waiting.small(), channel, method));
    }

    /// Appends a method frame and drops whatever the broker pushes afterwards; for closes.
    pub(crate) fn last_words(&self, method: &AMQPClass) {
        self.append(|state| {
            encode_method(state.waiting.small(), 0, method);
            state.sealed = true;
        });
    }

    /// Appends the answer to basic.get.
    pub(crate) fn get_ok(
        &self,
        channel: u16,
        get_ok: &BasicGetOk<&str>,
        message: &MessageView<'_>,
    ) {
        self.append(|state| {
            let buffer = &mut state.waiting;
            if !is_shared(message) {
                self.encoder
                    .get_ok(buffer.small(), channel, get_ok, content(message));
                return;
            }
            let (small, place) = buffer.splicing(message.owner, message.body);
            self.encoder
                .get_ok_spliced(small, channel, get_ok, by_reference(message), place);
        });
    }

    /// Appends a heartbeat.
    pub(crate) fn push_heartbeat(&self) {
        self.append(|state| state.waiting.small().extend_from_slice(&HEARTBEAT_FRAME));
    }

    /// Nothing more is said; the writer ends when what waits is written.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.filled.notify_one();
    }

    // --- The writer's side. ---

    /// Waits for something to write. False when the outbox has ended and is empty. Cancelling the
    /// wait loses nothing.
    pub(crate) async fn filled(&self) -> bool {
        loop {
            {
                let state = self.state.lock();
                if state.waiting.has_remaining() {
                    return true;
                }
                if state.ended || state.overfull {
                    return false;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Gives memory back if nothing waits.
    pub(crate) fn rest(&self) {
        let mut state = self.state.lock();
        if !state.waiting.has_remaining() {
            state.waiting.release();
        }
    }

    /// Exchanges the filled buffer for an empty one.
    pub(crate) fn swap(&self, empty: &mut OutBuffer) {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.waiting, empty);
        state.in_flight = empty.remaining();
    }

    /// `count` bytes have left. True when the broker should hear that there is room again.
    pub(crate) fn wrote(&self, count: usize) -> bool {
        let mut state = self.state.lock();
        state.in_flight = state.in_flight.saturating_sub(count);
        state.written_total += count as u64;
        state.writes += 1;
        let bytes = state.bytes();
        let drained = state.over_mark && bytes < OUTBOX_MARK / 2;
        if drained {
            state.over_mark = false;
        }
        drop(state);
        if bytes < OUTBOX_PAUSE_BYTES / 2 {
            self.eased.notify_one();
        }
        drained
    }

    /// The socket failed.
    pub(crate) fn fail(&self, error: io::Error) {
        let mut state = self.state.lock();
        state.error.get_or_insert(error);
        state.waiting.release();
        state.in_flight = 0;
        drop(state);
        self.lost.cancel();
    }

    // --- The reader's side. ---

    /// Whether so much waits that the client is not read.
    pub(crate) fn must_pause(&self) -> bool {
        self.state.lock().bytes() >= OUTBOX_PAUSE_BYTES
    }

    /// Returns once waiting bytes fell under half of [`OUTBOX_PAUSE_BYTES`].
    pub(crate) async fn eased(&self) {
        loop {
            if self.state.lock().bytes() < OUTBOX_PAUSE_BYTES / 2 {
                return;
            }
            self.eased.notified().await;
        }
    }

    /// Bytes written so far; tells progress.
    pub(crate) fn written_total(&self) -> u64 {
        self.state.lock().written_total
    }

    /// Returns once nothing can be written any more.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Why nothing can be written any more.
    pub(crate) fn loss(&self) -> Loss {
        match self.state.lock().error.take() {
            Some(error) => Loss::Socket(error),
            None => Loss::Overfull,
        }
    }
}

impl Outbox for FrameOutbox {
    fn sent(&self) -> Sent {
        let state = self.state.lock();
        Sent {
            octets: state.written_total,
            writes: state.writes,
            pending_octets: state.bytes() as u64,
        }
    }

    fn push(&self, channel: u16, out: &[Outgoing<'_>]) -> usize {
        self.append(|state| {
            if state.sealed {
                return;
            }
            for item in out {
                encode(&self.encoder, &mut state.waiting, channel, item);
            }
        })
    }
}

fn encode(encoder: &FrameEncoder, buffer: &mut OutBuffer, channel: u16, item: &Outgoing<'_>) {
    match item {
        Outgoing::Deliver {
            consumer_tag,
            delivery_tag,
            redelivered,
            message,
        } => {
            let deliver = BasicDeliver {
                consumer_tag: *consumer_tag,
                delivery_tag: *delivery_tag,
                redelivered: *redelivered,
                exchange: message.exchange,
                routing_key: message.routing_key,
            };
            encode_deliver(encoder, buffer, channel, &deliver, message);
        }
        Outgoing::Ack {
            delivery_tag,
            multiple,
        } => {
            let ack = BasicAck {
                delivery_tag: *delivery_tag,
                multiple: *multiple,
            };
            encode_ack(buffer.small(), channel, ack);
        }
        Outgoing::Nack {
            delivery_tag,
            multiple,
        } => {
            // The requeue bit means nothing here.
            let nack = BasicNack {
                delivery_tag: *delivery_tag,
                multiple: *multiple,
                requeue: false,
            };
            encode_nack(buffer.small(), channel, nack);
        }
        // rabbitmq: the text of a return is the bare name.
        Outgoing::Return { message } => {
            let why = (ReplyCode::NoRoute.number(), ReplyCode::NoRoute.name());
            encode_return(encoder, buffer, channel, why, message);
        }
        Outgoing::ReturnFull { message, queue } => {
            let text = format!("queue '{queue}' full");
            let why = (ReplyCode::ContentTooLarge.number(), text.as_str());
            encode_return(encoder, buffer, channel, why, message);
        }
        Outgoing::CommitOk => encode_method(buffer.small(), channel, &reply::tx_commit_ok()),
        Outgoing::CancelConsumer { consumer_tag } => {
            encode_method(buffer.small(), channel, &reply::cancel(consumer_tag));
        }
    }
}

#[inline]
fn encode_deliver(
    encoder: &FrameEncoder,
    buffer: &mut OutBuffer,
    channel: u16,
    deliver: &BasicDeliver<&str>,
    message: &MessageView<'_>,
) {
    if !is_shared(message) {
        encoder.deliver(buffer.small(), channel, deliver, content(message));
        return;
    }
    let (small, place) = buffer.splicing(message.owner, message.body);
    encoder.deliver_spliced(small, channel, deliver, by_reference(message), place);
}

fn encode_return(
    encoder: &FrameEncoder,
    buffer: &mut OutBuffer,
    channel: u16,
    why: (u16, &str),
    message: &MessageView<'_>,
) {
    let returned = BasicReturn {
        reply_code: why.0,
        reply_text: why.1,
        exchange: message.exchange,
        routing_key: message.routing_key,
    };
    if !is_shared(message) {
        encoder.return_(buffer.small(), channel, &returned, content(message));
        return;
    }
    let (small, place) = buffer.splicing(message.owner, message.body);
    encoder.return_spliced(small, channel, &returned, by_reference(message), place);
}

/// Whether the body is sent by reference. Its owner must really hold it: the slice of another
/// buffer would not be there to be referenced.
fn is_shared(message: &MessageView<'_>) -> bool {
    message.body.len() >= SHARED_BODY_BYTES_MIN && holds(message.owner, message.body)
}

fn holds(owner: &Bytes, body: &[u8]) -> bool {
    let (owner, body) = (owner.as_ptr_range(), body.as_ptr_range());
    owner.start <= body.start && body.end <= owner.end
}

fn content<'a>(message: &MessageView<'a>) -> Content<'a> {
    Content {
        properties: Properties::trusted(message.properties),
        body: message.body,
    }
}

fn by_reference<'a>(message: &MessageView<'a>) -> ContentByReference<'a> {
    let properties = Properties::trusted(message.properties);
    ContentByReference {
        properties,
        body_bytes: message.body.len(),
    }
}

#[cfg(test)]
mod tests;
