//! Faults of the protocol that a client can commit, as data. Words and reply codes are RabbitMQ's.
//!
//! Refusals of the broker (permissions, missing queues …) are not here: see `broker_core`.

use amqp::{FrameFault, ReplyCode};

/// The method that a close names; 0/0 when none is at fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MethodId {
    pub(crate) class: u16,
    pub(crate) method: u16,
}

impl MethodId {
    /// No method is at fault.
    pub(crate) const NONE: Self = Self {
        class: 0,
        method: 0,
    };
    /// basic.publish, at fault when its content is.
    pub(crate) const BASIC_PUBLISH: Self = Self {
        class: 60,
        method: 40,
    };

    /// Reads the ids from the beginning of a method frame's payload; 0 for what is not there.
    pub(crate) fn of(payload: &[u8]) -> Self {
        let number = |at: usize| match payload.get(at..at + 2) {
            Some(&[high, low]) => u16::from_be_bytes([high, low]),
            _ => 0,
        };
        Self {
            class: number(0),
            method: number(2),
        }
    }
}

/// The client broke the protocol. Every one of these ends the connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtocolFault {
    /// A content header or body that nobody announced.
    #[error("expected method frame, got non method frame instead")]
    ContentWithoutPublish,
    /// Another frame where the content header was due.
    #[error("expected content header for class 60, got non content header frame instead")]
    HeaderExpected,
    /// A content header of another class than basic.
    #[error("expected content header for class 60, got one for class {class} instead")]
    HeaderOfOtherClass { class: u16 },
    /// Another frame where a body frame was due.
    #[error("expected content body, got non content body frame instead")]
    BodyExpected,
    /// Body frames beyond the announced size.
    #[error("content body frame exceeds remaining content size")]
    BodyTooLong,
    /// An announced size above the protocol's ceiling.
    #[error("content body size {size} exceeds maximum allowed size {max}")]
    BodyAnnouncedTooLarge { size: u64, max: u64 },
    /// The frame itself is wrong.
    #[error("{}", .0.explanation())]
    Frame(FrameFault),
    /// A method that cannot be read; the text shows its arguments in Erlang's notation.
    #[error("{text}")]
    Method { code: ReplyCode, text: String },
    /// A malformed property block, which RabbitMQ answers with no more than the bare code.
    #[error("")]
    Internal,
    /// A method on a channel that is not open.
    #[error("expected 'channel.open'")]
    ChannelNotOpen,
    /// channel.open on an open channel.
    #[error("second 'channel.open' seen")]
    ChannelOpenTwice,
    /// A method that channel 0 takes only in another state.
    #[error("unexpected method in connection state running")]
    UnexpectedInRunning,
    /// A method in place of connection.open.
    #[error("unexpected method in connection state opening")]
    UnexpectedInOpening,
    /// A method that only servers send, or that does not belong on this channel.
    #[error("unimplemented method")]
    UnimplementedMethod,
    /// channel.flow from a client, where RabbitMQ's answer is wanted.
    #[error("active=false")]
    FlowNotImplemented,
    /// More half-received bodies than one connection may keep here.
    #[error("incomplete messages of this connection exceed {max} bytes")]
    AssemblyFull { max: u64 },
}

impl ProtocolFault {
    /// The reply code.
    pub(crate) fn code(&self) -> ReplyCode {
        match self {
            Self::ContentWithoutPublish
            | Self::HeaderExpected
            | Self::HeaderOfOtherClass { .. }
            | Self::BodyExpected => ReplyCode::UnexpectedFrame,
            Self::BodyTooLong | Self::BodyAnnouncedTooLarge { .. } => ReplyCode::FrameError,
            Self::Method { code, .. } => *code,
            Self::Frame(fault) => fault.reply_code(),
            Self::Internal => ReplyCode::InternalError,
            Self::ChannelNotOpen
            | Self::ChannelOpenTwice
            | Self::UnexpectedInRunning
            | Self::UnexpectedInOpening => ReplyCode::ChannelError,
            Self::UnimplementedMethod => ReplyCode::CommandInvalid,
            Self::FlowNotImplemented => ReplyCode::NotImplemented,
            Self::AssemblyFull { .. } => ReplyCode::ResourceError,
        }
    }

    /// The method that is at fault when this is found in a content.
    // rabbitmq: a property block that cannot be read names no method
    pub(crate) fn method_of_content(&self) -> MethodId {
        match self {
            Self::Internal => MethodId::NONE,
            _ => MethodId::BASIC_PUBLISH,
        }
    }

    /// After these the frame boundaries cannot be trusted: nothing more is read.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, Self::Frame(_)) && self.code() == ReplyCode::FrameError
    }
}
