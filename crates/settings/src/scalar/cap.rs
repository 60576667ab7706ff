//! A count that may be without limit: `20`, `unlimited`.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, serde_as_text};

/// The most there may be of something.
///
/// Read: a whole number from 0 to 4294967295, or `unlimited`. A negative number means `unlimited`
/// too, because RabbitMQ's limits write it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cap {
    /// No limit.
    Unlimited,
    /// At most so many.
    AtMost(u32),
}

impl Cap {
    pub(crate) const EXPECTED: &'static str = "a whole number from 0 to 4294967295, or unlimited";

    /// The limit, if there is one.
    pub const fn limit(self) -> Option<u32> {
        match self {
            Self::Unlimited => None,
            Self::AtMost(limit) => Some(limit),
        }
    }
}

impl FromStr for Cap {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let fault = || ScalarError::new(text, Self::EXPECTED);
        let number: i64 = text.parse().map_err(|_| match text {
            "infinity" | "none" | "off" => fault().hint("write unlimited"),
            _ => fault(),
        })?;
        if number < 0 {
            return Ok(Self::Unlimited);
        }
        u32::try_from(number).map(Self::AtMost).map_err(|_| fault())
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::AtMost(limit) => write!(f, "{limit}"),
        }
    }
}

serde_as_text!(Cap);
