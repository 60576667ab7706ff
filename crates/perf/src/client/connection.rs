//! One connection: bytes in and out, frames cut, questions answered.
//!
//! The owner appends frames to `out`, polls, and takes frames from `input`; or it asks one
//! question and waits for its answer. Knows the closing of channels and connections, and
//! heartbeats; nothing of what a channel is used for.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use amqp::protocol::{AMQPClass, channel, connection};
use amqp::{
    Frame, FrameDecoder, FrameEncoder, FrameKind, HEARTBEAT_FRAME, Method, OtherMethod, Table,
    encode_method, encode_method_with_table,
};

use super::ClientFault;
use super::handshake::{ServerIdentity, Tuned};
use super::link::Link;
use crate::clock::{NS_PER_SECOND, now_ns};

/// The most bytes that go out in one write, and about the most that wait to go out.
pub(crate) const WRITE_BYTES_MAX: usize = 128 * 1024;
/// The frame size before the broker named one.
const FRAME_BYTES_BEFORE_TUNING: u32 = 131_072;
const ANSWER_SECONDS_MAX: u64 = 60;
const CLOSE_SECONDS_MAX: u64 = 5;
const REPLY_SUCCESS: u16 = 200;

pub(crate) struct Connection {
    link: Link,
    pub(crate) input: Input,
    /// Frames that wait to go out.
    pub(crate) out: Vec<u8>,
    written: usize,
    flush_due: bool,
    pub(crate) encoder: FrameEncoder,
    pub(crate) server: ServerIdentity,
    heartbeat_seconds: u64,
    channel_max: u16,
    pub(crate) frame_bytes_max: usize,
    heard_ns: u64,
}

/// Received bytes, of which whole frames are cut.
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    decoder: FrameDecoder,
}

impl Input {
    fn new(frame_bytes_max: u32) -> Self {
        let decoder = FrameDecoder::new(frame_bytes_max);
        Self {
            bytes: vec![0; decoder.buffer_bytes_max()],
            start: 0,
            end: 0,
            decoder,
        }
    }

    /// The next whole frame.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, ClientFault> {
        let unread = &self.bytes[self.start..self.end];
        let Some((frame, consumed)) = self.decoder.next(unread)? else {
            return Ok(None);
        };
        self.start += consumed;
        Ok(Some(frame))
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Room behind the unread bytes; at least one whole frame fits altogether.
    fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }
}

impl Connection {
    pub(super) fn unopened(link: Link) -> Self {
        Self {
            link,
            input: Input::new(FRAME_BYTES_BEFORE_TUNING),
            out: Vec::with_capacity(WRITE_BYTES_MAX / 8),
            written: 0,
            flush_due: false,
            encoder: FrameEncoder::new(FRAME_BYTES_BEFORE_TUNING),
            server: ServerIdentity::default(),
            heartbeat_seconds: 0,
            channel_max: 0,
            frame_bytes_max: FRAME_BYTES_BEFORE_TUNING as usize,
            heard_ns: now_ns(),
        }
    }

    pub(super) fn tuned_to(&mut self, tuned: Tuned) {
        self.encoder = FrameEncoder::new(tuned.frame_bytes_max);
        self.heartbeat_seconds = u64::from(tuned.heartbeat_seconds);
        self.channel_max = tuned.channel_max;
        self.frame_bytes_max = tuned.frame_bytes_max as usize;
    }

    /// How many channels the broker allows on a connection.
    pub(crate) fn channels_max(&self) -> u16 {
        if self.channel_max == 0 {
            u16::MAX
        } else {
            self.channel_max
        }
    }

    /// Whether everything appended has gone out.
    pub(crate) fn is_flushed(&self) -> bool {
        self.out.is_empty() && !self.flush_due
    }

    /// Writes what waits and, if allowed, reads what came. Ready when bytes moved.
    pub(crate) fn poll_io(
        &mut self,
        cx: &mut Context<'_>,
        may_read: bool,
    ) -> Poll<Result<(), ClientFault>> {
        let wrote = self.poll_out(cx)?;
        let read = may_read && self.poll_in(cx)?;
        if wrote || read {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    fn poll_out(&mut self, cx: &mut Context<'_>) -> Result<bool, ClientFault> {
        let mut wrote = false;
        if self.written < self.out.len() {
            let end = self.out.len().min(self.written + WRITE_BYTES_MAX);
            match self.link.poll_write(cx, &self.out[self.written..end]) {
                Poll::Ready(Ok(0)) => return Err(ClientFault::Dropped),
                Poll::Ready(Ok(bytes)) => {
                    self.written += bytes;
                    wrote = true;
                }
                Poll::Ready(Err(fault)) => return Err(self.parting_word(cx, fault.into())),
                Poll::Pending => return Ok(false),
            }
            if self.written == self.out.len() {
                self.out.clear();
                self.written = 0;
                self.flush_due = true;
            }
        }
        if self.flush_due && self.link.poll_flush(cx)?.is_ready() {
            self.flush_due = false;
            wrote = true;
        }
        Ok(wrote)
    }

    fn poll_in(&mut self, cx: &mut Context<'_>) -> Result<bool, ClientFault> {
        let room = self.input.room();
        if room.is_empty() {
            return Ok(false);
        }
        match self.link.poll_read(cx, room) {
            Poll::Ready(Ok(0)) => Err(ClientFault::Dropped),
            Poll::Ready(Ok(bytes)) => {
                self.input.end += bytes;
                Ok(true)
            }
            Poll::Ready(Err(fault)) => Err(fault.into()),
            Poll::Pending => Ok(false),
        }
    }

    /// A broker that closes may stop reading before we stopped writing: its reason is then still
    /// in the socket, and says more than the broken pipe.
    fn parting_word(&mut self, cx: &mut Context<'_>, fault: ClientFault) -> ClientFault {
        while let Ok(true) = self.poll_in(cx) {
            while let Ok(Some(frame)) = self.input.next_frame() {
                if let Some(closed) = closing_fault(&frame) {
                    return closed;
                }
            }
        }
        fault
    }

    /// Keeps the heartbeat, to be called every [`Connection::beat_every`].
    pub(crate) fn beat(&mut self) -> Result<(), ClientFault> {
        if self.heartbeat_seconds == 0 {
            return Ok(());
        }
        let silence_ns_max = 2 * self.heartbeat_seconds * NS_PER_SECOND;
        if now_ns().saturating_sub(self.heard_ns) > silence_ns_max {
            let seconds = 2 * self.heartbeat_seconds;
            return Err(ClientFault::Silent { seconds });
        }
        if self.out.is_empty() {
            self.out.extend_from_slice(&HEARTBEAT_FRAME);
        }
        Ok(())
    }

    /// A quarter of the heartbeat interval; none without heartbeats.
    pub(crate) fn beat_every(&self) -> Option<Duration> {
        (self.heartbeat_seconds > 0).then(|| Duration::from_millis(self.heartbeat_seconds * 250))
    }

    /// Notes that something was heard, once per turn that read.
    pub(crate) fn heard(&mut self, at_ns: u64) {
        self.heard_ns = at_ns;
    }

    /// Asks and waits for the answer.
    pub(crate) async fn call(
        &mut self,
        channel: u16,
        question: &AMQPClass,
    ) -> Result<OtherMethod, ClientFault> {
        encode_method(&mut self.out, channel, question);
        self.answer(channel, &format!("{question:?}")).await
    }

    /// Asks with a table among the arguments.
    pub(crate) async fn call_with_table(
        &mut self,
        channel: u16,
        question: &AMQPClass,
        table: &Table,
    ) -> Result<OtherMethod, ClientFault> {
        encode_method_with_table(&mut self.out, channel, question, table);
        self.answer(channel, &format!("{question:?}")).await
    }

    /// Flushes, then waits for a method that is an answer.
    pub(super) async fn answer(
        &mut self,
        channel: u16,
        question: &str,
    ) -> Result<OtherMethod, ClientFault> {
        let limit = Duration::from_secs(ANSWER_SECONDS_MAX);
        tokio::time::timeout(limit, self.next_answer(channel))
            .await
            .map_err(|_elapsed| ClientFault::NoAnswer {
                question: question.to_owned(),
                seconds: ANSWER_SECONDS_MAX,
            })?
    }

    async fn next_answer(&mut self, channel: u16) -> Result<OtherMethod, ClientFault> {
        loop {
            if self.input.unread().starts_with(b"AMQP") {
                let answer = String::from_utf8_lossy(self.input.unread()).into_owned();
                return Err(ClientFault::OtherProtocol { answer });
            }
            while let Some(frame) = self.input.next_frame()? {
                if frame.kind != FrameKind::Method {
                    continue;
                }
                if let Some(closed) = closing_fault(&frame) {
                    acknowledge_close(&mut self.out, &closed);
                    self.flush().await;
                    return Err(closed);
                }
                if frame.channel != channel {
                    continue;
                }
                if let Method::Other(other) = Method::decode(frame.payload)?
                    && !is_announcement(&other.call)
                {
                    return Ok(*other);
                }
            }
            poll_fn(|cx| self.poll_io(cx, true)).await?;
        }
    }

    /// Sends what waits, as far as the socket lives.
    async fn flush(&mut self) {
        let flushed = poll_fn(|cx| match self.poll_out(cx) {
            Ok(_) if self.is_flushed() => Poll::Ready(()),
            Ok(true) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(false) => Poll::Pending,
            Err(_gone) => Poll::Ready(()),
        });
        let limit = Duration::from_secs(CLOSE_SECONDS_MAX);
        let _sent_or_given_up = tokio::time::timeout(limit, flushed).await;
    }

    pub(crate) async fn open_channel(&mut self, channel: u16) -> Result<(), ClientFault> {
        let open = AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}));
        match self.call(channel, &open).await?.call {
            AMQPClass::Channel(channel::AMQPMethod::OpenOk(_)) => Ok(()),
            other => Err(ClientFault::unexpected(
                format!("{other:?}"),
                "channel.open-ok",
            )),
        }
    }

    /// Closes politely; a broker that does not answer is left.
    pub(crate) async fn close(mut self) -> Result<(), ClientFault> {
        let close = connection::Close {
            reply_code: REPLY_SUCCESS,
            reply_text: "finished".into(),
            class_id: 0,
            method_id: 0,
        };
        let close = AMQPClass::Connection(connection::AMQPMethod::Close(close));
        encode_method(&mut self.out, 0, &close);
        let limit = Duration::from_secs(CLOSE_SECONDS_MAX);
        let closed = tokio::time::timeout(limit, self.next_answer(0));
        match closed.await {
            Ok(answer) => answer.map(drop),
            Err(_elapsed) => Err(ClientFault::NoAnswer {
                question: "connection.close".to_owned(),
                seconds: CLOSE_SECONDS_MAX,
            }),
        }
    }
}

/// The fault that a close method means.
pub(crate) fn closing_fault(frame: &Frame<'_>) -> Option<ClientFault> {
    const CONNECTION_CLOSE: (u16, u16) = (10, 50);
    const CHANNEL_CLOSE: (u16, u16) = (20, 40);
    if frame.kind != FrameKind::Method {
        return None;
    }
    // Looking at the ids first keeps everything else from being decoded twice.
    let ids = Method::ids(frame.payload)?;
    if ids != CONNECTION_CLOSE && ids != CHANNEL_CLOSE {
        return None;
    }
    let Ok(Method::Other(other)) = Method::decode(frame.payload) else {
        return None;
    };
    match other.call {
        AMQPClass::Connection(connection::AMQPMethod::Close(close)) => {
            Some(ClientFault::ConnectionClosed {
                code: close.reply_code,
                text: close.reply_text.as_str().to_owned(),
            })
        }
        AMQPClass::Channel(channel::AMQPMethod::Close(close)) => Some(ClientFault::ChannelClosed {
            channel: frame.channel,
            code: close.reply_code,
            text: close.reply_text.as_str().to_owned(),
        }),
        _ => None,
    }
}

/// Answers a close as the protocol wants it.
pub(crate) fn acknowledge_close(out: &mut Vec<u8>, closed: &ClientFault) {
    match closed {
        ClientFault::ConnectionClosed { .. } => {
            let ok = connection::AMQPMethod::CloseOk(connection::CloseOk {});
            encode_method(out, 0, &AMQPClass::Connection(ok));
        }
        ClientFault::ChannelClosed { channel, .. } => {
            let ok = channel::AMQPMethod::CloseOk(channel::CloseOk {});
            encode_method(out, *channel, &AMQPClass::Channel(ok));
        }
        _ => {}
    }
}

/// What a broker says without being asked.
fn is_announcement(call: &AMQPClass) -> bool {
    matches!(
        call,
        AMQPClass::Connection(
            connection::AMQPMethod::Blocked(_) | connection::AMQPMethod::Unblocked(_)
        ) | AMQPClass::Channel(channel::AMQPMethod::Flow(_))
    )
}
