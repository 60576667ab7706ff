//! A span of time after which something happens, or never: `60s`, `off`.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, Span, serde_as_text};

/// When patience ends.
///
/// Read: everything that [`Span`] reads, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timeout {
    /// Never.
    Off,
    /// After this span.
    After(Span),
}

impl Timeout {
    pub(crate) const EXPECTED: &'static str =
        "a time span such as 30s, 30m or 1h30m (a number alone counts milliseconds), or off";

    /// The span in milliseconds, if there is one.
    pub const fn as_ms(self) -> Option<u64> {
        match self {
            Self::Off => None,
            Self::After(span) => Some(span.as_ms()),
        }
    }
}

impl FromStr for Timeout {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let span = text.parse().map_err(|error: ScalarError| ScalarError {
            expected: Self::EXPECTED,
            ..error
        })?;
        Ok(Self::After(span))
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::After(span) => write!(f, "{span}"),
        }
    }
}

serde_as_text!(Timeout);
