//! The names of the field as types. Cheap to clone; compared and hashed by their text.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is; bounds (255 bytes) are held by the wire format.
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

/// Longest name or key, in bytes: what a short string of the wire holds.
// amqp 4.2.5.3
pub const NAME_BYTES_MAX: usize = 255;

impl ExchangeName {
    /// The name that a client wrote, without line ends.
    // rabbitmq: CR and LF are removed from exchange and queue names
    pub fn cleaned(text: &str) -> Self {
        Self::new(without_line_ends(text))
    }
}

impl QueueName {
    /// The name that a client wrote, without line ends.
    // rabbitmq: CR and LF are removed from exchange and queue names
    pub fn cleaned(text: &str) -> Self {
        Self::new(without_line_ends(text))
    }
}

fn without_line_ends(text: &str) -> Cow<'_, str> {
    if !text.contains(['\r', '\n']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(['\r', '\n'], ""))
}

name!(
    /// A virtual host.
    VhostName
);
name!(
    /// An exchange within its vhost; empty for the default exchange.
    ExchangeName
);
name!(
    /// A queue within its vhost.
    QueueName
);
name!(
    /// A consumer within its channel.
    ConsumerTag
);
name!(
    /// A user of the broker.
    UserName
);

#[cfg(test)]
mod tests {
    use super::{ExchangeName, QueueName};

    #[test]
    fn line_ends_are_no_part_of_a_name() {
        assert_eq!(QueueName::cleaned("cr\r\nlf").as_str(), "crlf");
        assert_eq!(ExchangeName::cleaned("\n").as_str(), "");
        assert_eq!(ExchangeName::cleaned("plain").as_str(), "plain");
    }
}
