//! A span of time with a unit: `30m`, `500ms`, `1h30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{ScalarError, serde_as_text};

/// A span of time in whole milliseconds.
///
/// Read: whole numbers with `ms`, `s`, `m`, `h` or `d`, the larger unit first (`1h30m`). A number
/// without unit counts **milliseconds**, as timeouts in RabbitMQ's configuration do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    ms: u64,
}

const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Spans stay far from the end of the clock's range, so that a deadline can always be added up.
const SPAN_MS_MAX: u64 = 3650 * 86_400_000;

impl Span {
    pub(crate) const EXPECTED: &'static str = "a time span of at most 3650d: a whole number of \
         milliseconds, or whole numbers with units such as 500ms, 30m or 1h30m";

    /// A span of so many milliseconds.
    pub const fn ms(ms: u64) -> Self {
        Self { ms }
    }

    /// A span of so many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self { ms: seconds * 1000 }
    }

    /// The span in milliseconds.
    pub const fn as_ms(self) -> u64 {
        self.ms
    }

    /// The span as the standard library's type.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

impl FromStr for Span {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let fault = || ScalarError::new(text, Self::EXPECTED);
        let ms = match text.parse::<u64>() {
            Ok(ms) => Some(ms),
            Err(_) => sum_of_parts(text),
        };
        ms.filter(|ms| *ms <= SPAN_MS_MAX)
            .map(Self::ms)
            .ok_or_else(|| match unit_hint(text) {
                Some(hint) => fault().hint(hint),
                None => fault(),
            })
    }
}

/// Adds up `1h30m`; `None` unless each part has a unit smaller than the one before.
fn sum_of_parts(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut units = UNITS.as_slice();
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let place = units.iter().position(|(name, _)| *name == unit.trim())?;
        let part = number.parse::<u64>().ok()?.checked_mul(units[place].1)?;
        total = total.checked_add(part)?;
        units = &units[place + 1..];
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

fn unit_hint(text: &str) -> Option<String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit()).trim();
    let right = match unit.to_ascii_lowercase().as_str() {
        "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hour" | "hours" => "h",
        "day" | "days" => "d",
        "s" | "m" | "h" | "d" | "ms" if unit.chars().any(|c| c.is_ascii_uppercase()) => {
            return Some("units are written in small letters".to_owned());
        }
        _ => return None,
    };
    Some(format!("the unit is written {right}"))
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let exact = |scale: u64| self.ms >= scale && self.ms.is_multiple_of(scale);
        match UNITS.iter().find(|(_, scale)| exact(*scale)) {
            Some((unit, scale)) => write!(f, "{}{unit}", self.ms / scale),
            None => f.write_str("0s"),
        }
    }
}

serde_as_text!(Span);
