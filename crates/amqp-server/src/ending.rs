//! What goes wrong, and how a connection ends. Values only.

use std::fmt;

use broker_core::Refusal;

use crate::fault::{MethodId, ProtocolFault};
use crate::reply::Close;

/// How a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client said connection.close.
    ClosedByClient,
    /// We say connection.close and wait for its close-ok.
    Closed(Close),
    /// We say connection.close and read nothing more.
    Fatal(Close),
    /// Nothing can or may be said.
    Dropped(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClosedByClient => f.write_str("closed by client"),
            Self::Closed(close) | Self::Fatal(close) => {
                write!(f, "{} {}", close.code.number(), close.text)
            }
            Self::Dropped(why) => f.write_str(why),
        }
    }
}

/// What went wrong with a method, a content or a frame.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) at: MethodId,
}

/// See [`Failure`].
#[derive(Debug)]
pub(crate) enum Cause {
    Refused(Refusal),
    Protocol(ProtocolFault),
    /// RabbitMQ drops the socket without a word.
    UnknownClass(u16),
    /// Not a fault: the client closes the connection.
    ClosedByClient,
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ProtocolFault> for Cause {
    fn from(fault: ProtocolFault) -> Self {
        Self::Protocol(fault)
    }
}

impl Cause {
    pub(crate) fn at(self, at: MethodId) -> Failure {
        Failure { cause: self, at }
    }
}
