//! Which fields each method has, in order.
//!
//! With it, arguments can be checked before `amq-protocol` sees them: it reports every fault as
//! the same error, and it follows nested tables by recursion without a bound. A payload that
//! passed [`Layout::walk`] has valid lengths and text, and the place of its table is known, so
//! the table can be decoded by our own code and kept away from `amq-protocol`.

use std::ops::Range;

use crate::wire::Reader;

/// The type of one field. Consecutive bits share octets and count as one `Octet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Octet,
    Short,
    Long,
    LongLong,
    ShortString,
    LongString,
    Table,
}

/// Why arguments do not fit their layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// Too short or too long.
    Length,
    /// A short string is not UTF-8.
    NotUtf8,
}

/// What a class and method id name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    UnknownClass,
    UnknownMethod,
    Known(&'static [Slot]),
}

impl Layout {
    /// The fields of a method, both directions.
    // amqp 1.3 to 1.9, with RabbitMQ's extensions
    pub(crate) const fn of(class: u16, method: u16) -> Self {
        use Slot::{LongString, Octet, ShortString, Table};
        const SHORT: Slot = Slot::Short;
        const LONG: Slot = Slot::Long;
        const TAG: Slot = Slot::LongLong;
        Self::Known(match (class, method) {
            // connection
            (10, 10) => &[Octet, Octet, Table, LongString, LongString],
            (10, 11) => &[Table, ShortString, LongString, ShortString],
            (10, 20 | 21) => &[LongString],
            (10, 30 | 31) => &[SHORT, LONG, SHORT],
            (10, 40) => &[ShortString, ShortString, Octet],
            (10, 41) | (10, 60) => &[ShortString],
            (10, 50) | (20, 40) => &[SHORT, ShortString, SHORT, SHORT],
            (10, 51 | 61 | 71) => &[],
            (10, 70) => &[LongString, ShortString],
            // channel
            (20, 10) => &[ShortString],
            (20, 11) => &[LongString],
            (20, 20 | 21) => &[Octet],
            (20, 41) => &[],
            // access
            (30, 10) => &[ShortString, Octet],
            (30, 11) => &[SHORT],
            // exchange
            (40, 10) => &[SHORT, ShortString, ShortString, Octet, Table],
            (40, 20) => &[SHORT, ShortString, Octet],
            (40, 30 | 40) => &[SHORT, ShortString, ShortString, ShortString, Octet, Table],
            (40, 11 | 21 | 31 | 51) => &[],
            // queue
            (50, 10) => &[SHORT, ShortString, Octet, Table],
            (50, 11) => &[ShortString, LONG, LONG],
            (50, 20) => &[SHORT, ShortString, ShortString, ShortString, Octet, Table],
            (50, 30 | 40) => &[SHORT, ShortString, Octet],
            (50, 31 | 41) => &[LONG],
            (50, 50) => &[SHORT, ShortString, ShortString, ShortString, Table],
            (50, 21 | 51) => &[],
            // basic
            (60, 10) => &[LONG, SHORT, Octet],
            (60, 20) => &[SHORT, ShortString, ShortString, Octet, Table],
            (60, 21 | 31 | 72) => &[ShortString],
            (60, 30) => &[ShortString, Octet],
            (60, 40) => &[SHORT, ShortString, ShortString, Octet],
            (60, 50) => &[SHORT, ShortString, ShortString, ShortString],
            (60, 60) => &[ShortString, TAG, Octet, ShortString, ShortString],
            (60, 70) => &[SHORT, ShortString, Octet],
            (60, 71) => &[TAG, Octet, ShortString, ShortString, LONG],
            (60, 80 | 90 | 120) => &[TAG, Octet],
            (60, 100 | 110) => &[Octet],
            (60, 11 | 111) => &[],
            // confirm
            (85, 10) => &[Octet],
            (85, 11) => &[],
            // tx
            (90, 10 | 11 | 20 | 21 | 30 | 31) => &[],
            (10 | 20 | 30 | 40 | 50 | 60 | 85 | 90, _) => return Self::UnknownMethod,
            _ => return Self::UnknownClass,
        })
    }

    /// Checks arguments against a method's fields; answers where in them the table stands, its
    /// four length octets included.
    pub(crate) fn walk(slots: &[Slot], arguments: &[u8]) -> Result<Option<Range<usize>>, Misfit> {
        let mut reader = Reader::new(arguments);
        let mut table = None;
        let mut all_text = true;
        for slot in slots {
            let start = arguments.len().saturating_sub(reader.rest().len());
            let bytes = slot.read(&mut reader).ok_or(Misfit::Length)?;
            match slot {
                Slot::ShortString => all_text &= std::str::from_utf8(bytes).is_ok(),
                Slot::Table => table = Some(start..start.saturating_add(4 + bytes.len())),
                _ => {}
            }
        }
        if !reader.is_empty() {
            return Err(Misfit::Length);
        }
        if all_text {
            Ok(table)
        } else {
            Err(Misfit::NotUtf8)
        }
    }
}

impl Slot {
    fn read<'a>(self, reader: &mut Reader<'a>) -> Option<&'a [u8]> {
        match self {
            Self::Octet => reader.take(1),
            Self::Short => reader.take(2),
            Self::Long => reader.take(4),
            Self::LongLong => reader.take(8),
            Self::ShortString => reader.short_string(),
            Self::LongString | Self::Table => reader.long_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use amq_protocol::protocol::parse_class;

    use super::*;

    /// Arguments with something in every field.
    fn filled(slots: &[Slot]) -> Vec<u8> {
        let fill = |slot: &Slot| match slot {
            Slot::Octet => vec![1],
            Slot::Short => vec![0, 2],
            Slot::Long => vec![0, 0, 0, 3],
            Slot::LongLong => vec![0, 0, 0, 0, 0, 0, 0, 4],
            Slot::ShortString => vec![2, b'a', b'b'],
            Slot::LongString => vec![0, 0, 0, 5, b'a', b'b', b'c', b'd', b'e'],
            Slot::Table => vec![0, 0, 0, 3, 1, b'k', b'V'],
        };
        slots.iter().flat_map(fill).collect()
    }

    #[test]
    fn the_table_of_methods_is_that_of_amq_protocol() {
        let mut n_known = 0;
        for (class, method) in (0..=100).flat_map(|c| (0..=200).map(move |m| (c, m))) {
            let slots = match Layout::of(class, method) {
                Layout::Known(slots) => slots,
                Layout::UnknownClass | Layout::UnknownMethod => &[],
            };
            let arguments = filled(slots);
            let [c1, c0] = class.to_be_bytes();
            let [m1, m0] = method.to_be_bytes();
            let payload = [&[c1, c0, m1, m0][..], &arguments].concat();
            let parsed = parse_class(payload.as_slice());
            let known = matches!(Layout::of(class, method), Layout::Known(_));
            assert_eq!(
                parsed.is_ok_and(|(rest, _)| rest.is_empty()),
                known,
                "{class}/{method}"
            );
            n_known += usize::from(known);
        }
        assert_eq!(n_known, 66);
    }

    #[test]
    fn the_place_of_the_table_is_found() {
        let Layout::Known(slots) = Layout::of(10, 11) else {
            panic!("start-ok is known")
        };
        assert_eq!(Layout::walk(slots, &filled(slots)), Ok(Some(0..7)));
        let Layout::Known(slots) = Layout::of(60, 20) else {
            panic!("consume is known")
        };
        assert_eq!(Layout::walk(slots, &filled(slots)), Ok(Some(9..16)));
    }
}
