//! What a channel does: publish or consume. Both are plain state, without sockets or async: the
//! driver brings frames and time, and sends what they append.

pub(crate) mod consumer;
mod incoming;
pub(crate) mod publisher;
mod service;
mod template;
mod transaction;

pub(crate) use transaction::{TRANSACTION_MESSAGES_MAX, Transaction};

use amqp::protocol::{AMQPClass, channel};
use amqp::{Method, encode_method};

use crate::client::ClientFault;
use crate::figures::Tally;
use crate::orders::Orders;
use consumer::Consumer;
use publisher::Publisher;

/// One turn of a connection's loop.
pub(crate) struct Turn<'a> {
    /// Read once per turn: after the socket was read, before anything is published.
    pub(crate) now_ns: u64,
    pub(crate) orders: Orders,
    /// The broker asked this connection to publish no more for the moment.
    pub(crate) blocked: bool,
    /// How many more publishes may go into this write.
    pub(crate) publishes_left: u32,
    /// Frames to send.
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) tally: &'a mut Tally,
}

/// The user of one channel.
pub(crate) enum Role {
    Publisher(Box<Publisher>),
    Consumer(Box<Consumer>),
}

impl Role {
    /// Does what can be done without hearing from the broker; answers when to be called again at
    /// the latest, in monotonic nanoseconds.
    pub(crate) fn pump(&mut self, turn: &mut Turn<'_>) -> Option<u64> {
        match self {
            Self::Publisher(publisher) => publisher.pump(turn),
            Self::Consumer(consumer) => consumer.pump(turn),
        }
    }

    pub(crate) fn on_method(
        &mut self,
        method: Method<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<(), ClientFault> {
        match self {
            Self::Publisher(publisher) => publisher.on_method(method, turn),
            Self::Consumer(consumer) => consumer.on_method(method, turn),
        }
    }

    pub(crate) fn on_header(&mut self, body_bytes: u64, turn: &mut Turn<'_>) {
        match self {
            Self::Publisher(publisher) => publisher.on_header(),
            Self::Consumer(consumer) => consumer.on_header(body_bytes, turn),
        }
    }

    pub(crate) fn on_body(&mut self, piece: &[u8], turn: &mut Turn<'_>) {
        match self {
            Self::Publisher(publisher) => publisher.on_body(piece),
            Self::Consumer(consumer) => consumer.on_body(piece, turn),
        }
    }

    /// To be called when the frames of a turn are handled.
    pub(crate) fn end_turn(&mut self, turn: &mut Turn<'_>) {
        if let Self::Consumer(consumer) = self {
            consumer.end_turn(turn);
        }
    }

    /// Whether it has so much to do that nothing more should be read.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Consumer(consumer) if consumer.is_full())
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Publisher(publisher) => publisher.is_done(),
            Self::Consumer(consumer) => consumer.is_done(),
        }
    }
}

/// Closing the channel is how a role makes sure that the broker has handled all it sent.
fn close_channel(out: &mut Vec<u8>, channel: u16) {
    let close = channel::Close {
        reply_code: 200,
        reply_text: "finished".into(),
        class_id: 0,
        method_id: 0,
    };
    let close = AMQPClass::Channel(channel::AMQPMethod::Close(close));
    encode_method(out, channel, &close);
}

/// Answers the broker's channel.flow.
fn obey_flow(out: &mut Vec<u8>, channel: u16, active: bool) {
    let ok = channel::AMQPMethod::FlowOk(channel::FlowOk { active });
    encode_method(out, channel, &AMQPClass::Channel(ok));
}
