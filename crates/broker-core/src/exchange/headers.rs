//! Headers bindings: which headers a message must carry.
//!
//! Values are compared by what they say, not by their width on the wire. Bindings are tried one by
//! one; each was understood once, when it was made.

use std::collections::BTreeMap;

use amqp::{ShortString, Table, Value};

use super::table::{Target, Targets};
use crate::arguments::show_value;
use crate::refusal::BindingFault;
use crate::term::Binary;

const X_MATCH: &str = "x-match";

/// Whether all headers of the binding must be there, or one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    All,
    Any,
}

/// A headers binding, understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HeadersMatch {
    quantity: Quantity,
    /// The headers that take part.
    wanted: Box<[(ShortString, Value)]>,
}

impl HeadersMatch {
    /// Understands the arguments of a binding.
    // rabbitmq docs: headers exchange, x-match
    pub(crate) fn parse(arguments: &Table) -> Result<Self, BindingFault> {
        let (quantity, with_x) = parse_mode(arguments.get(X_MATCH))?;
        let takes_part =
            |key: &[u8]| key != X_MATCH.as_bytes() && (with_x || !key.starts_with(b"x-"));
        let wanted = arguments
            .iter()
            .filter(|(key, _)| takes_part(key.as_bytes()))
            .cloned()
            .collect();
        Ok(Self { quantity, wanted })
    }

    /// Whether a message with these headers matches.
    pub(crate) fn matches(&self, headers: &Table) -> bool {
        let mut found = self.wanted.iter().map(|(key, wanted)| {
            headers.get(key).is_some_and(|value| {
                // A void asks for presence only.
                matches!(wanted, Value::Void) || same_value(wanted, value)
            })
        });
        match self.quantity {
            Quantity::All => found.all(|is_found| is_found),
            Quantity::Any => found.any(|is_found| is_found),
        }
    }
}

/// A value as this exchange's error texts show it.
fn shown(value: &Value) -> String {
    match value.as_bytes() {
        Some(octets) => Binary(&String::from_utf8_lossy(octets)).to_string(),
        None => show_value(value),
    }
}

fn parse_mode(mode: Option<&Value>) -> Result<(Quantity, bool), BindingFault> {
    let Some(value) = mode else {
        return Ok((Quantity::All, false));
    };
    let Value::LongString(word) = value else {
        return Err(BindingFault::HeadersMatchType {
            type_name: value.type_name().into(),
            value: shown(value).into(),
        });
    };
    match word.as_bytes() {
        b"all" => Ok((Quantity::All, false)),
        b"any" => Ok((Quantity::Any, false)),
        b"all-with-x" => Ok((Quantity::All, true)),
        b"any-with-x" => Ok((Quantity::Any, true)),
        other => Err(BindingFault::HeadersMatchValue(
            String::from_utf8_lossy(other).into(),
        )),
    }
}

/// Whether two values say the same, whatever their width. An integer never equals a float, a
/// string or a truth value.
pub(crate) fn same_value(one: &Value, other: &Value) -> bool {
    if let (Some(one), Some(other)) = (one.as_i64(), other.as_i64()) {
        return one == other;
    }
    if let (Some(one), Some(other)) = (one.as_bytes(), other.as_bytes()) {
        return one == other;
    }
    if let (Some(one), Some(other)) = (as_float(one), as_float(other)) {
        return one == other;
    }
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| same_value(one, other))
        }
        (Value::Table(one), Value::Table(other)) => same_table(one, other),
        _ => one == other,
    }
}

fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::F32(number) => Some(f64::from(*number)),
        Value::F64(number) => Some(*number),
        _ => None,
    }
}

fn same_table(one: &Table, other: &Table) -> bool {
    let covers = |one: &Table, other: &Table| {
        one.iter()
            .all(|(key, value)| other.get(key).is_some_and(|found| same_value(value, found)))
    };
    one.len() == other.len() && covers(one, other) && covers(other, one)
}

/// The bindings of a headers exchange, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadersTable {
    rules: BTreeMap<u64, (HeadersMatch, Target)>,
}

impl HeadersTable {
    pub(crate) fn bind(&mut self, sequence: u64, rule: HeadersMatch, target: Target) {
        self.rules.insert(sequence, (rule, target));
    }

    pub(crate) fn unbind(&mut self, sequence: u64) {
        self.rules.remove(&sequence);
    }

    pub(crate) fn route(&self, headers: Option<&Table>, out: &mut Targets) {
        let none = Table::new();
        let headers = headers.unwrap_or(&none);
        out.extend(
            self.rules
                .values()
                .filter(|(rule, _)| rule.matches(headers))
                .map(|(_, target)| *target),
        );
    }
}

#[cfg(test)]
mod tests {
    use amqp::ByteString;

    use super::*;

    fn check(one: impl Into<Value>, other: impl Into<Value>, same: bool) {
        let (one, other) = (one.into(), other.into());
        assert_eq!(same_value(&one, &other), same, "{one:?} {other:?}");
        assert_eq!(same_value(&other, &one), same, "{other:?} {one:?}");
    }

    fn table(entries: &[(&'static str, i64)]) -> Value {
        Value::Table(entries.iter().map(|(key, value)| (*key, *value)).collect())
    }

    #[test]
    fn widths_do_not_count() {
        check(1i8, 1i64, true);
        check(200u8, 200i16, true);
        check(1.5f32, 1.5f64, true);
        check("x", Value::ByteArray(ByteString::new(*b"x")), true);
        check(
            vec![Value::I8(1), Value::from("a")],
            vec![Value::I64(1), Value::from("a")],
            true,
        );
        check(Value::Timestamp(5), Value::Timestamp(5), true);
    }

    #[test]
    fn kinds_do() {
        check(1i64, 1.0f64, false);
        check(1i64, "1", false);
        check(true, 1i64, false);
        check(Value::Timestamp(5), 5i64, false);
        check(Value::Void, "", false);
        check(
            vec![Value::I8(1), Value::I8(2)],
            vec![Value::I8(2), Value::I8(1)],
            false,
        );
        check(vec![Value::I8(1)], vec![Value::I8(1), Value::I8(1)], false);
    }

    #[test]
    fn tables_are_the_same_in_any_order() {
        check(
            table(&[("a", 1), ("b", 2)]),
            table(&[("b", 2), ("a", 1)]),
            true,
        );
        check(table(&[("a", 1)]), table(&[("a", 2)]), false);
        check(table(&[("a", 1)]), table(&[("a", 1), ("b", 2)]), false);
    }
}
