//! A number of bytes with an optional unit: `64MiB`, `100MB`, `1.5GiB`, `4096`.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, serde_as_text};

/// A number of bytes.
///
/// Read: digits with an optional fraction and one of `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000)
/// or `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024). A number without unit counts bytes. `K`, `M`
/// and `G` alone are refused: half of the world reads them as 1000, the other half as 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

/// Units from the largest down, binary before decimal where both would fit.
const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
];

/// More digits behind the point than this cannot change a byte count that anybody means.
const FRACTION_DIGITS_MAX: usize = 9;

impl ByteSize {
    pub(crate) const EXPECTED: &'static str =
        "a size: a whole number of bytes, or a number with a unit such as 64MiB or 100MB";

    /// A size of so many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size of so many units of 1024 × 1024 bytes.
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// The number of bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let fault = || ScalarError::new(text, Self::EXPECTED);
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let scale = unit_scale(unit.trim_start()).map_err(|hint| match hint {
            Some(hint) => fault().hint(hint),
            None => fault(),
        })?;
        if scale == 1 && number.contains('.') {
            return Err(fault());
        }
        scaled(number, scale).map(Self).ok_or_else(fault)
    }
}

fn unit_scale(unit: &str) -> Result<u64, Option<String>> {
    if unit.is_empty() || unit == "B" {
        return Ok(1);
    }
    if let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) {
        return Ok(*scale);
    }
    if unit == "KB" {
        return Ok(1_000);
    }
    Err(match unit {
        "K" | "k" => Some("write kB (1000) or KiB (1024)".to_owned()),
        "M" | "G" | "T" => Some(format!(
            "write {unit}B (powers of 1000) or {unit}iB (of 1024)"
        )),
        _ => UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|(name, _)| format!("the unit is written {name}")),
    })
}

/// `number` × `scale`, cut to whole bytes; `None` if it is no number or too large.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (number, ""),
    };
    if fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let whole: u128 = whole.parse().ok()?;
    let parts: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let whole_bytes = whole.checked_mul(u128::from(scale))?;
    let part_bytes = parts * u128::from(scale) / 10u128.pow(fraction.len() as u32);
    u64::try_from(whole_bytes.checked_add(part_bytes)?).ok()
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let exact = |scale: u64| self.0 >= scale && self.0.is_multiple_of(scale);
        match UNITS.iter().find(|(_, scale)| exact(*scale)) {
            Some((unit, scale)) => write!(f, "{}{unit}", self.0 / scale),
            None => write!(f, "{}", self.0),
        }
    }
}

serde_as_text!(ByteSize);
