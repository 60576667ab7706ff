//! The `expiration` property of a message: decimal text, in milliseconds.

use crate::refusal::{ExpirationFault, Refusal};
use crate::settings::TIME_MS_MAX;
use crate::time::Millis;

/// Reads the property as RabbitMQ does: an optional sign, digits, and nothing else, from 0 to ten
/// years.
///
/// # Errors
/// `InvalidExpiration` with what is wrong.
// rabbitmq: per-message TTL
pub fn parse(text: &[u8]) -> Result<Millis, Refusal> {
    parse_digits(text).map_err(|why| Refusal::InvalidExpiration {
        text: String::from_utf8_lossy(text).into(),
        why,
    })
}

fn parse_digits(text: &[u8]) -> Result<Millis, ExpirationFault> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let count = unsigned.iter().take_while(|octet| octet.is_ascii_digit()).count();
    let (digits, leftover) = unsigned.split_at(count);
    if digits.is_empty() {
        return Err(ExpirationFault::NoInteger);
    }
    if !leftover.is_empty() {
        return Err(ExpirationFault::Leftover(String::from_utf8_lossy(leftover).into()));
    }
    let digits = std::str::from_utf8(digits).map_err(|_| ExpirationFault::NoInteger)?;
    let significant = digits.trim_start_matches('0');
    let ms = if significant.is_empty() { Some(0) } else { significant.parse::<u64>().ok() };
    match (negative, ms) {
        (true, Some(ms)) if ms > 0 => {
            Err(ExpirationFault::Negative(-i64::try_from(ms).unwrap_or(i64::MAX)))
        }
        (true, None) => Err(ExpirationFault::Negative(i64::MIN)),
        (_, Some(ms)) if ms <= TIME_MS_MAX => Ok(Millis(ms)),
        _ => Err(ExpirationFault::TooLarge(significant.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let got = match parse(text.as_bytes()) {
            Ok(Millis(ms)) => ms.to_string(),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(got, expected, "expiration {text:?}");
    }

    #[test]
    fn whole_numbers_up_to_ten_years_are_taken() {
        check("0", "0");
        check("+5", "5");
        check("007", "7");
        check("315360000000", "315360000000");
    }

    #[test]
    fn everything_else_is_refused_in_rabbitmqs_words() {
        check("abc", "invalid expiration 'abc': no_integer");
        check("", "invalid expiration '': no_integer");
        check("-1", "invalid expiration '-1': {value_negative,-1}");
        check(
            "315360000001",
            "invalid expiration '315360000001': {value_too_large,315360000001}",
        );
        check("10 ", "invalid expiration '10 ': {leftover_string,\" \"}");
        check("1.5", "invalid expiration '1.5': {leftover_string,\".5\"}");
    }
}
