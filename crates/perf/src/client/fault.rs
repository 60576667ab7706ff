//! What can go wrong between the tool and a broker, sorted by who is at fault.

use std::io;

use amqp::{ContentHeaderFault, FrameFault, MethodFault};

use crate::confirms::ConfirmFault;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientFault {
    // The broker said no.
    #[error("the broker closed the connection: {code} {text}")]
    ConnectionClosed { code: u16, text: String },
    #[error("the broker closed channel {channel}: {code} {text}")]
    ChannelClosed {
        channel: u16,
        code: u16,
        text: String,
    },
    #[error("the broker cancelled consumer {tag:?}; was its queue deleted?")]
    Cancelled { tag: String },
    #[error("the broker does not speak AMQP 0-9-1: it answered {answer:?}")]
    OtherProtocol { answer: String },

    // The broker is not there, or no longer.
    #[error("cannot connect to {endpoint}: {source}")]
    Unreachable { endpoint: String, source: io::Error },
    #[error("the broker dropped the connection without a close")]
    Dropped,
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    #[error("no answer to {question} within {seconds} s")]
    NoAnswer { question: String, seconds: u64 },
    #[error("nothing heard for {seconds} s, twice the heartbeat")]
    Silent { seconds: u64 },

    // The broker broke the protocol.
    #[error("the broker sent a bad frame: {0}")]
    Frame(#[from] FrameFault),
    #[error("the broker sent a bad method: {0}")]
    Method(#[from] MethodFault),
    #[error("the broker sent a bad content header: {0}")]
    Header(#[from] ContentHeaderFault),
    #[error("the broker sent {got} where {expected} was due")]
    Unexpected { got: String, expected: String },
    #[error(transparent)]
    Confirm(#[from] ConfirmFault),

    // We were asked for what we cannot do.
    #[error("TLS: {0}")]
    Tls(String),
}

impl ClientFault {
    pub(crate) fn unexpected(got: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Unexpected {
            got: got.into(),
            expected: expected.into(),
        }
    }

    /// Whether the broker closed the channel because something does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::ChannelClosed { code: 404, .. })
    }
}
