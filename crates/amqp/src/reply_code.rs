//! Reply codes and the texts that go with them.
//!
//! Knows each code's number, name and reach. Which fault deserves which code is decided by those
//! who know the fault.

use crate::octets::{SHORT_STRING_BYTES_MAX, ShortString};

/// What a code ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyScope {
    /// Nothing: a code of `basic.return`, or success.
    None,
    /// The channel.
    Channel,
    /// The connection.
    Connection,
}

macro_rules! reply_codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $scope:ident;)*) => {
        /// A reply code of the protocol.
        // amqp 1.2 constants, with RabbitMQ's choice of scope
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum ReplyCode {
            $($(#[$doc])* $variant = $number,)*
        }

        impl ReplyCode {
            /// Every code, by number.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name as reply texts begin with it, e.g. `PRECONDITION_FAILED`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What this code ends.
            #[must_use]
            pub const fn scope(self) -> ReplyScope {
                match self {
                    $(Self::$variant => ReplyScope::$scope,)*
                }
            }

            /// The code with this number.
            #[must_use]
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

reply_codes! {
    /// An orderly end.
    ReplySuccess = 200, "REPLY_SUCCESS", None;
    /// The content is larger than the receiver takes at the moment.
    ContentTooLarge = 311, "CONTENT_TOO_LARGE", Channel;
    /// `basic.return`: no queue matched.
    NoRoute = 312, "NO_ROUTE", None;
    /// No consumer for an immediate message; not produced by RabbitMQ.
    NoConsumers = 313, "NO_CONSUMERS", Channel;
    /// An operator ended the connection.
    ConnectionForced = 320, "CONNECTION_FORCED", Connection;
    /// Unknown path.
    InvalidPath = 402, "INVALID_PATH", Connection;
    /// The user may not.
    AccessRefused = 403, "ACCESS_REFUSED", Channel;
    /// No such thing.
    NotFound = 404, "NOT_FOUND", Channel;
    /// Somebody else has it to himself.
    ResourceLocked = 405, "RESOURCE_LOCKED", Channel;
    /// The request contradicts the state of things.
    PreconditionFailed = 406, "PRECONDITION_FAILED", Channel;
    /// Malformed frame or method.
    FrameError = 501, "FRAME_ERROR", Connection;
    /// Illegal values.
    SyntaxError = 502, "SYNTAX_ERROR", Connection;
    /// A method that may not be sent.
    CommandInvalid = 503, "COMMAND_INVALID", Connection;
    /// The channel is not in the state for it.
    ChannelError = 504, "CHANNEL_ERROR", Connection;
    /// A frame that may not come at this place.
    UnexpectedFrame = 505, "UNEXPECTED_FRAME", Connection;
    /// A resource is short.
    ResourceError = 506, "RESOURCE_ERROR", Connection;
    /// Forbidden by policy of the server.
    NotAllowed = 530, "NOT_ALLOWED", Connection;
    /// Not offered.
    NotImplemented = 540, "NOT_IMPLEMENTED", Connection;
    /// The server is broken, or says so.
    InternalError = 541, "INTERNAL_ERROR", Connection;
}

impl ReplyCode {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }
}

/// What stands at the end of a text that had to be cut.
const ELLIPSIS: &str = "...";

/// `NAME - explanation`, or the bare name where there is nothing to explain. A text longer than
/// 255 bytes is cut at a character's boundary and ends in `...`.
// rabbitmq: reply_text of a close
#[must_use]
pub fn reply_text(code: ReplyCode, explanation: &str) -> ShortString {
    if explanation.is_empty() {
        return ShortString::from(code.name());
    }
    let mut text = format!("{} - {explanation}", code.name());
    if text.len() > SHORT_STRING_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SHORT_STRING_BYTES_MAX - ELLIPSIS.len()));
        text.push_str(ELLIPSIS);
    }
    ShortString::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_text_is_name_dash_explanation() {
        let text = reply_text(ReplyCode::NotFound, "no queue 'q' in vhost '/'");
        assert_eq!(text.as_str(), Some("NOT_FOUND - no queue 'q' in vhost '/'"));
        assert_eq!(
            reply_text(ReplyCode::InternalError, "").as_str(),
            Some("INTERNAL_ERROR")
        );
    }

    #[test]
    fn a_text_of_255_bytes_stays_and_a_longer_one_ends_in_dots() {
        let prefix = "NOT_FOUND - ".len();
        let fits = reply_text(ReplyCode::NotFound, &"x".repeat(255 - prefix));
        assert_eq!(fits.as_bytes().len(), 255);
        assert!(fits.as_bytes().ends_with(b"xxx"));
        let cut = reply_text(ReplyCode::NotFound, &"x".repeat(256 - prefix));
        assert_eq!(cut.as_bytes().len(), 255);
        assert!(cut.as_bytes().ends_with(b"x..."));
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        for shift in 0..4 {
            let explanation = format!("{}{}", "x".repeat(shift), "€".repeat(200));
            let cut = reply_text(ReplyCode::NotAllowed, &explanation);
            let text = cut.as_str().expect("still text");
            assert!(text.ends_with("€..."), "{text}");
            assert!((253..=255).contains(&text.len()), "{}", text.len());
        }
    }

    #[test]
    fn every_number_finds_its_code_and_other_numbers_find_none() {
        for code in ReplyCode::ALL {
            assert_eq!(ReplyCode::from_number(code.number()), Some(*code));
        }
        let known = (0..=u16::MAX)
            .filter(|n| ReplyCode::from_number(*n).is_some())
            .count();
        assert_eq!(known, ReplyCode::ALL.len());
    }
}
