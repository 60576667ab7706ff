//! A plain value as operators write it: in a policy's definition, in a parameter, in definitions.
//!
//! Serialises as the natural value of the format (a number is a number). `Display` is RabbitMQ's
//! notation, since error texts show values in it. Knows no format and no key.

use std::fmt;

use amqp::{Table, Value};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value without AMQP's widths.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number, also whole ones beyond 64 bits.
    Float(f64),
    /// A string.
    Text(Box<str>),
    /// A list.
    List(Vec<Term>),
    /// Names and values in the order given.
    Map(Vec<(Box<str>, Term)>),
}

impl Term {
    /// A string.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(text.as_ref().into())
    }

    /// The whole number; a float does not count, even a whole one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The value of a map's key.
    pub fn get(&self, key: &str) -> Option<&Term> {
        match self {
            Self::Map(entries) => entries
                .iter()
                .find(|(name, _)| &**name == key)
                .map(|(_, v)| v),
            _ => None,
        }
    }

    /// `[{<<"key">>,value},…]`, the way error texts list settings.
    pub(crate) fn pairs(entries: &[(Box<str>, Term)]) -> String {
        let shown: Vec<String> = entries
            .iter()
            .map(|(key, value)| format!("{{{},{value}}}", Binary(key)))
            .collect();
        format!("[{}]", shown.join(","))
    }

    /// The table of arguments that a map stands for: whole numbers become `long`, others `double`.
    /// Keys longer than a short string are cut off the table.
    // rabbitmq: arguments of the HTTP API
    pub fn to_table(&self) -> Table {
        let Self::Map(entries) = self else {
            return Table::new();
        };
        let mut table = Table::new();
        for (key, value) in entries {
            if key.len() <= amqp::SHORT_STRING_BYTES_MAX {
                table.insert(key.as_ref(), value.to_value());
            }
        }
        table
    }

    /// The AMQP value that this stands for in arguments.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Void,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Integer(number) => Value::I64(*number),
            Self::Float(number) => Value::F64(*number),
            Self::Text(text) => Value::from(&**text),
            Self::List(elements) => Value::Array(elements.iter().map(Term::to_value).collect()),
            Self::Map(_) => Value::Table(self.to_table()),
        }
    }
}

/// Widths are lost, text that is not UTF-8 is replaced: the loss of every JSON of arguments.
impl From<&Value> for Term {
    fn from(value: &Value) -> Self {
        match value {
            Value::Bool(truth) => Self::Bool(*truth),
            Value::F32(number) => Self::Float(f64::from(*number)),
            Value::F64(number) => Self::Float(*number),
            Value::Decimal { scale, value } => {
                Self::Float(f64::from(*value) / 10f64.powi(i32::from(*scale)))
            }
            Value::Timestamp(seconds) => {
                i64::try_from(*seconds).map_or(Self::Float(*seconds as f64), Self::Integer)
            }
            Value::Array(elements) => Self::List(elements.iter().map(Term::from).collect()),
            Value::Table(table) => Self::from(table),
            Value::Void => Self::Null,
            other => match (other.as_i64(), other.as_bytes()) {
                (Some(number), _) => Self::Integer(number),
                (None, Some(bytes)) => Self::text(String::from_utf8_lossy(bytes)),
                (None, None) => Self::Null,
            },
        }
    }
}

impl From<&Table> for Term {
    fn from(table: &Table) -> Self {
        Self::Map(
            table
                .iter()
                .map(|(key, value)| {
                    (
                        String::from_utf8_lossy(key.as_bytes()).into(),
                        Term::from(value),
                    )
                })
                .collect(),
        )
    }
}

impl From<i64> for Term {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<&str> for Term {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<bool> for Term {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(truth) => truth.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Text(text) => Binary(text).fmt(f),
            Self::List(elements) => {
                f.write_str("[")?;
                for (at, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if at == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Self::Map(entries) => {
                f.write_str("#{")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    write!(
                        f,
                        "{}{} => {value}",
                        if at == 0 { "" } else { "," },
                        Binary(key)
                    )?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Text as a binary: `<<"abc">>`, with a mark when it is not plain ASCII.
pub(crate) struct Binary<'a>(pub(crate) &'a str);

impl fmt::Display for Binary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("<<>>");
        }
        let escaped = self.0.replace('\\', "\\\\").replace('"', "\\\"");
        let mark = if self.0.is_ascii() { "" } else { "/utf8" };
        write!(f, "<<\"{escaped}\"{mark}>>")
    }
}

impl Serialize for Term {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(truth) => serializer.serialize_bool(*truth),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(elements) => serializer.collect_seq(elements),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Term {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TermVisitor)
    }
}

struct TermVisitor;

impl<'de> Visitor<'de> for TermVisitor {
    type Value = Term;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value")
    }

    fn visit_unit<E>(self) -> Result<Term, E> {
        Ok(Term::Null)
    }

    fn visit_none<E>(self) -> Result<Term, E> {
        Ok(Term::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Term, D::Error> {
        deserializer.deserialize_any(TermVisitor)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Term, E> {
        Ok(Term::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Term, E> {
        Ok(Term::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Term, E> {
        Ok(i64::try_from(number).map_or(Term::Float(number as f64), Term::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Term, E> {
        Ok(Term::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Term, E> {
        Ok(Term::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Term, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Term::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Term, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<String, Term>()? {
            map.push((key.into_boxed_str(), value));
        }
        Ok(Term::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use amqp::Value;

    use super::*;

    fn read(json: &str) -> Term {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn values_are_shown_in_rabbitmqs_notation() {
        assert_eq!(read("\"x\"").to_string(), "<<\"x\">>");
        assert_eq!(read("\"ä\\\"\"").to_string(), "<<\"ä\\\"\"/utf8>>");
        assert_eq!(read("[1,2.5,true,null]").to_string(), "[1,2.5,true,null]");
        assert_eq!(
            read("{\"a\":1,\"b\":{}}").to_string(),
            "#{<<\"a\">> => 1,<<\"b\">> => #{}}"
        );
        assert_eq!(
            Term::pairs(&[("bogus".into(), Term::Integer(11))]),
            "[{<<\"bogus\">>,11}]"
        );
    }

    #[test]
    fn json_comes_back_as_it_was() {
        let json = r#"{"z":[1,-2,1.5,"s",null,true],"a":{"deep":{"er":9007199254740993}}}"#;
        assert_eq!(serde_json::to_string(&read(json)).unwrap(), json);
        assert_eq!(
            read("18446744073709551615"),
            Term::Float(18_446_744_073_709_551_615.0)
        );
    }

    #[test]
    fn arguments_become_wide_and_come_back_plain() {
        let term = read(r#"{"i":5,"s":"x","b":true,"f":1.5,"a":[1],"t":{"n":null}}"#);
        let table = term.to_table();
        assert_eq!(table.get("i"), Some(&Value::I64(5)));
        assert_eq!(table.get("f"), Some(&Value::F64(1.5)));
        assert_eq!(table.get("a"), Some(&Value::Array(vec![Value::I64(1)])));
        assert_eq!(Term::from(&table), term);
        assert_eq!(Term::from(&Value::U8(5)), Term::Integer(5));
        assert_eq!(
            Term::from(&Value::Decimal {
                scale: 2,
                value: 150
            }),
            Term::Float(1.5)
        );
        assert_eq!(Term::from(&Value::Timestamp(5)), Term::Integer(5));
    }
}
