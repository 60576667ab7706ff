//! The `expiration` property: milliseconds as decimal text.

use crate::refusal::{ExpirationFault, Refusal, Result};
use crate::settings::TIME_MS_MAX;
use crate::time::Millis;

/// Understands the text: an optional sign, digits, nothing else; up to ten years.
///
/// # Errors
/// `InvalidExpiration`.
// rabbitmq docs: ttl, per-message
pub fn parse(text: &[u8]) -> Result<Millis> {
    let shown = String::from_utf8_lossy(text);
    parse_text(&shown).map_err(|why| Refusal::InvalidExpiration {
        text: shown.as_ref().into(),
        why,
    })
}

fn parse_text(text: &str) -> Result<Millis, ExpirationFault> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits_end = unsigned
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(unsigned.len());
    let (digits, rest) = unsigned.split_at(digits_end);
    if digits.is_empty() {
        return Err(ExpirationFault::NoInteger);
    }
    if !rest.is_empty() {
        return Err(ExpirationFault::Leftover(rest.into()));
    }
    let value = digits
        .parse::<u64>()
        .ok()
        .filter(|ms| *ms <= i64::MAX as u64);
    match (value, text.starts_with('-')) {
        (Some(0), _) => Ok(Millis(0)),
        (Some(ms), true) => Err(ExpirationFault::Negative(
            -i64::try_from(ms).unwrap_or(i64::MAX),
        )),
        (None, true) => Err(ExpirationFault::Negative(i64::MIN)),
        (Some(ms), false) if ms <= TIME_MS_MAX => Ok(Millis(ms)),
        (_, false) => {
            let shown = digits.trim_start_matches('0');
            Err(ExpirationFault::TooLarge(shown.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::time::Millis;

    fn check(text: &str, expected: Result<u64, &str>) {
        let got = parse(text.as_bytes()).map_err(|refusal| refusal.to_string());
        assert_eq!(got, expected.map(Millis).map_err(str::to_owned), "{text:?}");
    }

    #[test]
    fn whole_numbers_up_to_ten_years_pass() {
        check("0", Ok(0));
        check("60000", Ok(60_000));
        check("+5", Ok(5));
        check("007", Ok(7));
        check("-0", Ok(0));
        check("315360000000", Ok(315_360_000_000));
    }

    #[test]
    fn everything_else_is_refused_with_the_reason() {
        check("", Err("invalid expiration '': no_integer"));
        check("abc", Err("invalid expiration 'abc': no_integer"));
        check(" 1", Err("invalid expiration ' 1': no_integer"));
        check("-1", Err("invalid expiration '-1': {value_negative,-1}"));
        check(
            "10 ",
            Err("invalid expiration '10 ': {leftover_string,\" \"}"),
        );
        check(
            "1.5",
            Err("invalid expiration '1.5': {leftover_string,\".5\"}"),
        );
        check(
            "315360000001",
            Err("invalid expiration '315360000001': {value_too_large,315360000001}"),
        );
        check(
            "99999999999999999999",
            Err(
                "invalid expiration '99999999999999999999': {value_too_large,99999999999999999999}",
            ),
        );
    }
}
