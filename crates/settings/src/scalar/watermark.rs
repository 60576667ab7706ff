//! A level of memory: a share of what the machine has, or a size.

use std::fmt;
use std::str::FromStr;

use super::{ByteSize, ScalarError, serde_as_text};

/// How much memory may be in use before publishers are held.
///
/// Read: a number from 0 to 1 (a share, `0.6`; 0 holds every publisher at once, as in RabbitMQ)
/// or a size with a unit (`2GiB`). A whole number above 1 is refused: it might mean either.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Watermark {
    /// A share from 0.0 to 1.0 of the memory that the process may use (the control group's limit
    /// if there is one, else the machine's).
    Share(f64),
    /// A size, whatever the machine has.
    Size(ByteSize),
}

impl Watermark {
    pub(crate) const EXPECTED: &'static str =
        "a share of memory from 0 to 1 such as 0.6, or a size with a unit such as 2GiB";

    /// The level in bytes on a machine that lets the process use `total_bytes`.
    pub fn bytes_of(self, total_bytes: u64) -> u64 {
        match self {
            Self::Share(share) => (total_bytes as f64 * share) as u64,
            Self::Size(size) => size.as_bytes(),
        }
    }
}

impl FromStr for Watermark {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let fault = || ScalarError::new(text, Self::EXPECTED);
        if text.ends_with(|c: char| c.is_ascii_alphabetic()) {
            return text
                .parse()
                .map(Self::Size)
                .map_err(|e: ScalarError| match e.hint {
                    Some(hint) => fault().hint(hint),
                    None => fault(),
                });
        }
        if let Some(percent) = text.strip_suffix('%').and_then(|p| p.parse::<f64>().ok()) {
            return Err(fault().hint(format!("write the share {}", percent / 100.0)));
        }
        match text.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self::Share(share)),
            _ => Err(fault()),
        }
    }
}

impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Share(share) => write!(f, "{share}"),
            // Without a unit a size would be read as a share.
            Self::Size(size) if size.to_string().ends_with(|c: char| c.is_ascii_digit()) => {
                write!(f, "{size}B")
            }
            Self::Size(size) => write!(f, "{size}"),
        }
    }
}

serde_as_text!(Watermark);
