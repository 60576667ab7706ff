//! The envelope of a frame, and the eight octets that open a connection.
//!
//! Knows types, sizes and the end octet; what a payload says is the business of `method` and
//! `content_header`.

use std::fmt;

use crate::notation::push_binary;
use crate::reply_code::ReplyCode;

/// Octets of a frame round its payload: type, channel, size in front, the end octet behind.
pub const FRAME_ENVELOPE_BYTES: usize = FRAME_HEADER_BYTES + 1;

/// Octets in front of a payload.
pub(crate) const FRAME_HEADER_BYTES: usize = 7;

/// The last octet of every frame.
pub const FRAME_END: u8 = 0xCE;

/// What a client says first when it wants AMQP 0-9-1, and what the server says to one that
/// asked for something else.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// How many payload octets an error text shows.
const SNIPPET_BYTES_MAX: usize = 16;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A method.
    Method = 1,
    /// A content header.
    Header = 2,
    /// Octets of a body.
    Body = 3,
    /// A sign of life.
    Heartbeat = 8,
}

impl FrameKind {
    /// The kind with this type octet.
    #[inline]
    #[must_use]
    pub const fn from_octet(octet: u8) -> Option<Self> {
        match octet {
            1 => Some(Self::Method),
            2 => Some(Self::Header),
            3 => Some(Self::Body),
            8 => Some(Self::Heartbeat),
            _ => None,
        }
    }
}

/// A whole frame in somebody's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it carries.
    pub kind: FrameKind,
    /// The channel; 0 is the connection itself.
    pub channel: u16,
    /// What stands between size and end octet.
    pub payload: &'a [u8],
}

/// The payload octets that an error text shows: at most sixteen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Snippet {
    octets: [u8; SNIPPET_BYTES_MAX],
    shown: usize,
    cut: bool,
}

impl Snippet {
    pub(crate) fn of(payload: &[u8]) -> Self {
        let mut octets = [0; SNIPPET_BYTES_MAX];
        let shown = payload.len().min(SNIPPET_BYTES_MAX);
        for (place, octet) in octets.iter_mut().zip(payload) {
            *place = *octet;
        }
        Self {
            octets,
            shown,
            cut: payload.len() > SNIPPET_BYTES_MAX,
        }
    }

    /// The octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.octets.get(..self.shown).unwrap_or(&self.octets)
    }
}

impl fmt::Debug for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.cut { " and more" } else { "" };
        write!(f, "{:?}{more}", self.octets())
    }
}

/// `type 1, all octets = <<…>>` or `type 1, first 16 octets = <<…>>`.
fn shown(type_octet: &u8, snippet: &Snippet) -> String {
    let how_many = if snippet.cut { "first 16" } else { "all" };
    let mut text = format!("type {type_octet}, {how_many} octets = ");
    push_binary(&mut text, snippet.octets());
    text
}

/// The peer sent what is no frame, or a frame that may not be. Ends the connection; nothing
/// behind it can be read. The displayed text is RabbitMQ's explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// The announced payload does not fit the negotiated frame size.
    #[error("type {type_octet}, all octets = <<>>: {{frame_too_large,{size},{max}}}")]
    TooLarge {
        /// The frame's type as announced, whether it exists or not.
        type_octet: u8,
        /// The channel as announced.
        channel: u16,
        /// Announced payload bytes.
        size: u32,
        /// Payload bytes of a full frame: the negotiated size less the envelope.
        max: u32,
    },
    /// The octet behind the payload is not [`FRAME_END`].
    #[error("{}: {{invalid_frame_end_marker,{end_octet}}}", shown(.type_octet, .snippet))]
    InvalidEnd {
        /// The frame's type as sent.
        type_octet: u8,
        /// The octet in the end's place.
        end_octet: u8,
        /// The beginning of the payload.
        snippet: Snippet,
    },
    /// No such frame type, a heartbeat with payload, or a method or header frame that is too
    /// short for its ids.
    #[error("{}: unknown_frame", shown(.type_octet, .snippet))]
    Unknown {
        /// The frame's type as sent.
        type_octet: u8,
        /// The beginning of the payload.
        snippet: Snippet,
    },
    /// A good frame that may not come on this channel: a heartbeat on any but 0, content on 0.
    #[error("{}", shown(.type_octet, .snippet))]
    Unexpected {
        /// The frame's type.
        type_octet: u8,
        /// The beginning of the payload.
        snippet: Snippet,
    },
}

impl FrameFault {
    /// The fault of a frame that is well-formed but may not come where it came.
    #[must_use]
    pub fn unexpected(frame: &Frame<'_>) -> Self {
        Self::Unexpected {
            type_octet: frame.kind as u8,
            snippet: Snippet::of(frame.payload),
        }
    }

    /// The code to close the connection with.
    #[must_use]
    pub const fn reply_code(&self) -> ReplyCode {
        match self {
            Self::TooLarge { .. } | Self::InvalidEnd { .. } | Self::Unknown { .. } => {
                ReplyCode::FrameError
            }
            Self::Unexpected { .. } => ReplyCode::UnexpectedFrame,
        }
    }

    /// RabbitMQ's explanation, without the code's name.
    #[must_use]
    pub fn explanation(&self) -> String {
        self.to_string()
    }
}

/// What the first eight octets of a connection ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolHeader {
    /// AMQP 0-9-1.
    Amqp091,
    /// AMQP 0-9, which RabbitMQ serves as if 0-9-1 had been asked for.
    Amqp09,
    /// AMQP 1.0 with this protocol id (0 plain, 2 TLS, 3 SASL).
    Amqp10 {
        /// The id.
        protocol_id: u8,
    },
    /// Begins with `AMQP` and asks for a version that is none of these.
    OtherVersion {
        /// The four octets behind `AMQP`.
        asked: [u8; 4],
    },
    /// Not AMQP at all.
    Foreign,
}

impl ProtocolHeader {
    /// Reads the first eight octets; `None` while there are fewer.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [a, m, q, p, asked @ ..] = *bytes.first_chunk::<8>()?;
        if [a, m, q, p] != *b"AMQP" {
            return Some(Self::Foreign);
        }
        Some(match asked {
            [0, 0, 9, 1] => Self::Amqp091,
            [1, 1, 0, 9] => Self::Amqp09,
            [protocol_id, 1, 0, 0] => Self::Amqp10 { protocol_id },
            asked => Self::OtherVersion { asked },
        })
    }

    /// Whether the connection goes on with `connection.start`.
    #[must_use]
    pub const fn is_served(&self) -> bool {
        matches!(self, Self::Amqp091 | Self::Amqp09)
    }
}
