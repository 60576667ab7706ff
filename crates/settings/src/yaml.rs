//! The only reader of YAML text: text to value tree, and back from a path to line and column.
//!
//! The tree carries no places, and serde hands them out only with an error. So `locate` reads the
//! text a second time and fails on purpose where the path leads: the error knows the place. It
//! runs only when there is a fault to report.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_yaml::Value;

use crate::error::{Place, Problem};
use crate::key_path::{KeyPath, Step};

/// A text that is no tree.
#[derive(Debug)]
pub(crate) struct TextFault {
    pub(crate) place: Option<Place>,
    /// The key that appears twice, if that is the problem.
    pub(crate) key: Option<String>,
    pub(crate) problem: Problem,
}

/// Reads one document. An empty text is a null.
pub(crate) fn read(text: &str) -> Result<Value, TextFault> {
    serde_yaml::from_str(text).map_err(|error| text_fault(text, &error))
}

const DUPLICATE: &str = "duplicate entry with key ";

fn text_fault(text: &str, error: &serde_yaml::Error) -> TextFault {
    let place = error.location().map(|at| Place {
        line: at.line(),
        column: at.column(),
    });
    let whole = error.to_string();
    // The parser repeats the place, and names the section of a duplicate, in its message.
    let why = whole.split(" at line ").next().unwrap_or(&whole);
    if let Some(at) = why.find(DUPLICATE) {
        let key = why[at + DUPLICATE.len()..].trim_matches('"');
        let section = why[..at].trim_end_matches([' ', ':', '.']);
        let path = if section.is_empty() {
            key.to_owned()
        } else {
            format!("{section}.{key}")
        };
        // The parser points at the section's start.
        let place = locate(text, &KeyPath::dotted(&path), Aim::Repeat).or(place);
        return TextFault {
            place,
            key: Some(path),
            problem: Problem::DuplicateKey,
        };
    }
    let hint = syntax_hint(text, place, why);
    TextFault {
        place,
        key: None,
        problem: Problem::Syntax {
            why: why.to_owned(),
            hint,
        },
    }
}

fn syntax_hint(text: &str, place: Option<Place>, why: &str) -> Option<String> {
    if why.contains("more than one document") {
        return Some("keep one document, without `---` in the middle of the file".to_owned());
    }
    let line = text.lines().nth(place?.line.checked_sub(1)?)?;
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    indent
        .contains('\t')
        .then(|| "a tab stands in the indentation; YAML wants spaces".to_owned())
}

/// What of a path's end is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    Key,
    /// The key where it appears for the second time.
    Repeat,
    Value,
}

/// Where in `text` the path's key or value stands; `None` if the path is not there.
pub(crate) fn locate(text: &str, path: &KeyPath, aim: Aim) -> Option<Place> {
    let seek = Seek {
        steps: path.steps(),
        aim,
    };
    let error = seek
        .deserialize(serde_yaml::Deserializer::from_str(text))
        .err()?;
    let at = error.location()?;
    error.to_string().contains(HERE).then(|| Place {
        line: at.line(),
        column: at.column(),
    })
}

/// The message of the deliberate error. No YAML text produces it.
const HERE: &str = "\u{1}the sought place";

struct Seek<'a> {
    steps: &'a [Step],
    aim: Aim,
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl Seek<'_> {
    /// A leaf: the place, if the path ends here.
    fn leaf<E: serde::de::Error>(&self) -> Result<(), E> {
        if self.steps.is_empty() {
            Err(E::custom(HERE))
        } else {
            Ok(())
        }
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.leaf()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.leaf()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.leaf()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.leaf()
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        self.leaf()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.leaf()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.steps.split_first() else {
            return Err(A::Error::custom(HERE));
        };
        let Step::Index(wanted) = first else {
            return drain_seq(items);
        };
        for _ in 0..*wanted {
            if items.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
        }
        items.next_element_seed(Seek {
            steps: rest,
            aim: self.aim,
        })?;
        drain_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.steps.split_first() else {
            return Err(A::Error::custom(HERE));
        };
        let mut fail = rest.is_empty() && self.aim == Aim::Key;
        while let Some(found) = entries.next_key_seed(SeekKey {
            wanted: first,
            fail,
        })? {
            if found && rest.is_empty() && self.aim == Aim::Repeat {
                fail = true;
                entries.next_value::<IgnoredAny>()?;
            } else if found {
                entries.next_value_seed(Seek {
                    steps: rest,
                    aim: self.aim,
                })?;
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    /// A tagged value, `!tag value`: the tag is no step of the path.
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<(), A::Error> {
        let (_, tagged) = data.variant::<IgnoredAny>()?;
        tagged.newtype_variant_seed(self)
    }
}

fn drain_seq<'de, A: SeqAccess<'de>>(mut items: A) -> Result<(), A::Error> {
    while items.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Says whether a key is the wanted one, or fails on it.
struct SeekKey<'a> {
    wanted: &'a Step,
    fail: bool,
}

impl<'de> DeserializeSeed<'de> for SeekKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<bool, D::Error> {
        source.deserialize_any(self)
    }
}

impl SeekKey<'_> {
    fn compare<E: serde::de::Error>(&self, key: &str) -> Result<bool, E> {
        let found = matches!(self.wanted, Step::Key(wanted) if wanted == key);
        if found && self.fail {
            Err(E::custom(HERE))
        } else {
            Ok(found)
        }
    }
}

impl<'de> Visitor<'de> for SeekKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bool<E: serde::de::Error>(self, key: bool) -> Result<bool, E> {
        self.compare(&key.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, key: i64) -> Result<bool, E> {
        self.compare(&key.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, key: u64) -> Result<bool, E> {
        self.compare(&key.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, key: f64) -> Result<bool, E> {
        self.compare(&key.to_string())
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<bool, E> {
        self.compare(key)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<bool, E> {
        self.compare("null")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<bool, A::Error> {
        drain_seq(items)?;
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<bool, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(false)
    }
}

/// A value as the operator would write it on one line.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::Null => "no value".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => format!("{s:?}"),
        Value::Sequence(items) => {
            let items: Vec<String> = items.iter().map(show).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Mapping(entries) => {
            let keys: Vec<String> = entries.keys().map(show_key).collect();
            format!("a section with the keys {}", keys.join(", "))
        }
        Value::Tagged(tagged) => format!("{} {}", tagged.tag, show(&tagged.value)),
    }
}

/// A value with all that is in it, on one line. What is unset is left out.
pub(crate) fn on_one_line(value: &Value) -> String {
    match value {
        Value::Sequence(items) => {
            let items: Vec<String> = items.iter().map(on_one_line).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Mapping(entries) => {
            let set = entries.iter().filter(|(_, value)| !value.is_null());
            let entry = |(key, value)| format!("{}: {}", show_key(key), on_one_line(value));
            let entries: Vec<String> = set.map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => show(other),
    }
}

/// A key as text, as `locate` compares it.
pub(crate) fn show_key(key: &Value) -> String {
    match key {
        Value::String(s) => s.clone(),
        Value::Null => "null".to_owned(),
        other => show(other),
    }
}
