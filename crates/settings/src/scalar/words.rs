//! Settings that are one word out of a few.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, serde_as_text};

macro_rules! word {
    (
        $(#[$about:meta])* $type:ident, $expected:literal,
        $($(#[$word_about:meta])* $word:ident = $text:literal),+ $(,)?
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$word_about])* $word),+
        }

        impl $type {
            pub(crate) const EXPECTED: &'static str = $expected;

            /// The word as it is written in files.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$word => $text),+ }
            }
        }

        impl FromStr for $type {
            type Err = ScalarError;

            fn from_str(text: &str) -> Result<Self, ScalarError> {
                match text {
                    $($text => Ok(Self::$word),)+
                    _ => Err(ScalarError::new(text, Self::EXPECTED)),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        serde_as_text!($type);
    };
}

word! {
    /// What happens when a consumer keeps a delivery longer than its ack timeout.
    TimeoutAction, "one of close, cancel, return",
    /// The channel is closed with 406 PRECONDITION_FAILED.
    Close = "close",
    /// The consumer is cancelled, if its client understands that; else the channel is closed.
    Cancel = "cancel",
    /// Only the late delivery goes back to its queue.
    Return = "return",
}

word! {
    /// What counts towards a quorum queue's delivery limit.
    DeliveryLimitCounts, "one of returns, failures",
    /// Every return: nack, reject, recover, lost connection, timeout.
    Returns = "returns",
    /// Only failures: reject and lost connection.
    Failures = "failures",
}

word! {
    /// When a lever of flow control is used.
    Lever, "one of auto, always, never",
    /// With clients that are known to bear it.
    Auto = "auto",
    /// With every client.
    Always = "always",
    /// With none.
    Never = "never",
}

word! {
    /// How surely dead letters reach their targets.
    DeadLetterStrategy, "one of at-most-once, at-least-once",
    /// Published once, without waiting.
    AtMostOnce = "at-most-once",
    /// Kept until the targets have confirmed.
    AtLeastOnce = "at-least-once",
}

word! {
    /// Which returns are held back before they are delivered again.
    DelayedRetry, "one of disabled, all, failed, returned",
    /// None.
    Disabled = "disabled",
    /// All.
    All = "all",
    /// Rejects and lost connections.
    Failed = "failed",
    /// The others.
    Returned = "returned",
}

word! {
    /// The shape of log lines.
    LogFormat, "one of auto, text, json",
    /// Text; with colours if standard error is a terminal.
    Auto = "auto",
    /// Text without colours.
    Text = "text",
    /// One JSON object a line.
    Json = "json",
}

word! {
    /// Whether clients show a TLS certificate.
    ClientCertificates, "one of off, optional, required",
    /// They are not asked.
    Off = "off",
    /// They may.
    Optional = "optional",
    /// They must.
    Required = "required",
}

word! {
    /// A version of TLS.
    TlsVersion, "one of 1.2, 1.3",
    /// TLS 1.2.
    OneTwo = "1.2",
    /// TLS 1.3.
    OneThree = "1.3",
}

word! {
    /// Which name of a client's certificate is the user's.
    LoginFrom, "one of distinguished_name, common_name, subject_alternative_name",
    /// The whole subject.
    DistinguishedName = "distinguished_name",
    /// The common name.
    CommonName = "common_name",
    /// An alternative name.
    SubjectAlternativeName = "subject_alternative_name",
}

word! {
    /// A kind of alternative names.
    SanType, "one of dns, ip, email, uri, other_name",
    /// A host's name.
    Dns = "dns",
    /// An address.
    Ip = "ip",
    /// A mailbox.
    Email = "email",
    /// A URI.
    Uri = "uri",
    /// A name of another kind.
    OtherName = "other_name",
}
