//! Octets as RabbitMQ's error texts show them: the notation of Erlang binaries, line breaks
//! included.
//!
//! Knows nothing of what the octets are.

use std::fmt::Write as _;

/// The column that Erlang's printer keeps clear when it lists numbers.
const COLUMNS_MAX: usize = 80;

/// Appends `<<>>`, `<<"abc">>` where all is printable, `<<"é"/utf8>>` where the text is beyond
/// ASCII, else `<<0,1,2>>`. Long lists of numbers are broken as Erlang breaks them, which depends
/// on how much stands in `text` already.
// erlang: ~tp of a binary, tried with +pc unicode as RabbitMQ runs
pub(crate) fn push_binary(text: &mut String, octets: &[u8]) {
    text.push_str("<<");
    if !octets.is_empty() {
        push_content(text, octets);
    }
    text.push_str(">>");
}

/// Octets that the longest reply text has room for.
const OCTETS_SHOWN_MAX: usize = 128;

/// Appends a binary as numbers, whatever it holds, and on one line. What is beyond the longest
/// reply text is left out.
// erlang: ~w of a binary
pub(crate) fn push_octets(text: &mut String, octets: &[u8]) {
    text.push_str("<<");
    for (at, octet) in octets.iter().take(OCTETS_SHOWN_MAX).enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{octet}");
    }
    text.push_str(">>");
}

fn push_content(text: &mut String, octets: &[u8]) {
    let utf8 = std::str::from_utf8(octets)
        .ok()
        .filter(|t| t.chars().all(is_printable));
    if let Some(characters) = utf8 {
        push_quoted(text, characters.chars());
        if !characters.is_ascii() {
            text.push_str("/utf8");
        }
    } else if octets.iter().all(|octet| is_printable(char::from(*octet))) {
        // Erlang takes what is no UTF-8 for Latin-1.
        push_quoted(text, octets.iter().copied().map(char::from));
    } else {
        push_numbers(text, octets);
    }
}

fn is_printable(character: char) -> bool {
    let control = u32::from(character) < 32 || ('\x7f'..='\u{9f}').contains(&character);
    !control || matches!(character, '\x08'..='\r' | '\x1b')
}

fn push_quoted(text: &mut String, characters: impl Iterator<Item = char>) {
    text.push('"');
    for character in characters {
        match character {
            '\x08' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\x0b' => text.push_str("\\v"),
            '\x0c' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            '\x1b' => text.push_str("\\e"),
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            visible => text.push(visible),
        }
    }
    text.push('"');
}

fn push_numbers(text: &mut String, octets: &[u8]) {
    let indent = text.chars().count();
    let mut column = indent;
    for (place, octet) in octets.iter().enumerate() {
        let comma = if place.saturating_add(1) < octets.len() {
            ","
        } else {
            ""
        };
        let digits = if *octet < 10 {
            1
        } else if *octet < 100 {
            2
        } else {
            3
        };
        let width = digits + comma.len();
        if column + width >= COLUMNS_MAX && column > indent {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        column += width;
        // Writing to a string cannot fail.
        let _ = write!(text, "{octet}{comma}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(octets: &[u8], expected: &str) {
        let mut text = String::new();
        push_binary(&mut text, octets);
        assert_eq!(text, expected);
    }

    #[test]
    fn octets_can_be_shown_as_numbers_whatever_they_are() {
        let mut text = String::new();
        push_octets(&mut text, b"x\0");
        push_octets(&mut text, b"");
        assert_eq!(text, "<<120,0>><<>>");
    }

    #[test]
    fn printable_octets_are_shown_as_text() {
        check(b"", "<<>>");
        check(b"abc", r#"<<"abc">>"#);
        check(
            b"a\"b\\c\n\t\x08\x0b\x0c\r\x1b",
            r#"<<"a\"b\\c\n\t\b\v\f\r\e">>"#,
        );
        check("€".as_bytes(), r#"<<"€"/utf8>>"#);
        check(&[233], r#"<<"é">>"#);
    }

    #[test]
    fn other_octets_are_shown_as_numbers() {
        check(&[0], "<<0>>");
        check(b"ab\0", "<<97,98,0>>");
        check(&[127], "<<127>>");
        check(&[194, 133], "<<194,133>>");
        check(&[233, 0], "<<233,0>>");
    }

    #[test]
    fn long_lists_break_where_erlang_breaks_them() {
        let numbers = |n| vec!["128"; n].join(",");
        let shown = |octets: &[u8]| {
            let mut text = "first 16 octets = ".to_owned();
            push_binary(&mut text, octets);
            text
        };
        let on_one_line = format!("first 16 octets = <<{}>>", numbers(15));
        assert_eq!(shown(&[128; 15]), on_one_line);
        let indent = " ".repeat(20);
        let on_two = format!("first 16 octets = <<{},\n{indent}128,128>>", numbers(14));
        assert_eq!(shown(&[128; 16]), on_two);
    }
}
