//! One layer: what one file, variable or option says, checked against the known keys.
//!
//! A layer is checked alone, while its text is at hand, so that every fault gets its line. What
//! is left is well typed, and laying layers over each other cannot fail on a value.

use std::path::{Path, PathBuf};

use serde_yaml::Value;

use crate::error::{Fault, Origin, Place, Problem};
use crate::key_path::{KeyPath, Step};
use crate::keys::{Keys, Known};
use crate::scalar::HINT_MARK;
use crate::sections::Settings;
use crate::yaml::{self, Aim};

/// A checked layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) source: Source,
    /// Sections and keys that exist, with values of their types.
    pub(crate) tree: Value,
}

/// Where a layer comes from, with what is needed to find a place in it.
#[derive(Debug)]
pub(crate) enum Source {
    Default,
    File {
        path: PathBuf,
        text: String,
    },
    /// A setting of a file that is no YAML.
    Line {
        path: PathBuf,
        line: usize,
    },
    Variable(String),
    Option(String),
}

impl Source {
    pub(crate) fn origin(&self, place: Option<Place>) -> Origin {
        match self {
            Self::Default => Origin::Default,
            Self::File { path, .. } => Origin::File {
                path: path.clone(),
                place,
            },
            Self::Line { path, line } => Origin::File {
                path: path.clone(),
                place: Some(Place {
                    line: *line,
                    column: 1,
                }),
            },
            Self::Variable(name) => Origin::Variable(name.clone()),
            Self::Option(option) => Origin::Option(option.clone()),
        }
    }

    /// Where the layer writes this key.
    pub(crate) fn origin_of(&self, path: &KeyPath, aim: Aim) -> Origin {
        match self {
            Self::File { text, .. } => self.origin(yaml::locate(text, path, aim)),
            _ => self.origin(None),
        }
    }
}

/// The source that has the last word on a key.
pub(crate) fn last_word<'a>(layers: &'a [Layer], key: &KeyPath) -> &'a Source {
    let says = |layer: &&Layer| key.value(&layer.tree).is_some();
    layers
        .iter()
        .rev()
        .find(says)
        .map_or(&Source::Default, |layer| &layer.source)
}

/// Reads a file's text as a layer.
pub(crate) fn from_file(
    keys: &Keys,
    path: &Path,
    text: String,
    faults: &mut Vec<Fault>,
) -> Option<Layer> {
    let read = yaml::read(&text);
    let source = Source::File {
        path: path.to_owned(),
        text,
    };
    match read {
        Ok(tree) => Some(checked(keys, source, tree, faults)),
        Err(fault) => {
            let origin = source.origin(fault.place);
            faults.push(Fault {
                origin,
                key: fault.key,
                problem: fault.problem,
            });
            None
        }
    }
}

/// Makes a layer of one key with a value given as text, as options and variables give it.
pub(crate) fn from_text(
    keys: &Keys,
    source: Source,
    key: &str,
    text: &str,
    faults: &mut Vec<Fault>,
) -> Layer {
    let path = KeyPath::dotted(key);
    let value = match keys.look_up(&path) {
        Known::Key(default) => typed_by(default, text),
        Known::Section => Value::String(text.to_owned()),
        Known::Nothing => {
            let problem = unknown_key(keys, &KeyPath::default(), &path);
            faults.push(
                Found {
                    path,
                    aim: Aim::Key,
                    problem,
                }
                .at(&source),
            );
            return Layer {
                source,
                tree: Value::Mapping(Default::default()),
            };
        }
    };
    let tree = path
        .steps()
        .iter()
        .rev()
        .fold(value, |inner, step| match step {
            Step::Key(key) => {
                Value::Mapping([(Value::from(key.as_str()), inner)].into_iter().collect())
            }
            Step::Index(_) => inner,
        });
    checked(keys, source, tree, faults)
}

/// The text as the kind of value that the key's default is; a text that does not fit stays a
/// text and is refused by the key's type.
fn typed_by(default: &Value, text: &str) -> Value {
    let as_yaml = || yaml::read(text).ok();
    let fallback = || Value::String(text.to_owned());
    match default {
        Value::Bool(_) => as_yaml().filter(Value::is_bool).unwrap_or_else(fallback),
        Value::Number(_) => as_yaml().filter(Value::is_number).unwrap_or_else(fallback),
        Value::Sequence(_) if text.trim_start().starts_with('[') => as_yaml()
            .filter(Value::is_sequence)
            .unwrap_or_else(fallback),
        Value::Sequence(_) => {
            let items = text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            Value::Sequence(items.map(Value::from).collect())
        }
        Value::Mapping(_) => as_yaml().filter(Value::is_mapping).unwrap_or_else(fallback),
        _ => fallback(),
    }
}

fn checked(keys: &Keys, source: Source, mut tree: Value, faults: &mut Vec<Fault>) -> Layer {
    for fault in structure(keys, &mut tree) {
        faults.push(fault.at(&source));
    }
    // serde stops at its first error: take the faulty value out and try again, to report all.
    while let Err(fault) = types(&tree) {
        let removed = fault.path.key_part().remove(&mut tree).is_some();
        faults.push(fault.at(&source));
        if !removed {
            break;
        }
    }
    Layer { source, tree }
}

/// A fault whose place is not yet looked up.
struct Found {
    path: KeyPath,
    aim: Aim,
    problem: Problem,
}

impl Found {
    fn at(self, source: &Source) -> Fault {
        let key = (!self.path.steps().is_empty()).then(|| self.path.to_string());
        Fault {
            origin: source.origin_of(&self.path, self.aim),
            key,
            problem: self.problem,
        }
    }
}

/// Takes out of the tree what is no section or no key, and empty sections.
fn structure(keys: &Keys, tree: &mut Value) -> Vec<Found> {
    let mut found = Vec::new();
    prune(keys, &KeyPath::default(), tree, &mut found);
    if !tree.is_mapping() {
        *tree = Value::Mapping(Default::default());
    }
    found
}

fn prune(keys: &Keys, section: &KeyPath, tree: &mut Value, found: &mut Vec<Found>) {
    let entries = match tree {
        Value::Mapping(entries) => entries,
        // A section whose keys are all commented out.
        Value::Null => return,
        other => {
            let problem = Problem::NotASection {
                found: yaml::show(other),
                keys: keys.below(section),
            };
            found.push(Found {
                path: section.clone(),
                aim: Aim::Value,
                problem,
            });
            return;
        }
    };
    entries.retain(|key, value| {
        let path = section.child(&yaml::show_key(key));
        if let Value::Tagged(tagged) = value {
            let problem = Problem::Tagged {
                tag: tagged.tag.to_string(),
            };
            found.push(Found {
                path,
                aim: Aim::Value,
                problem,
            });
            return false;
        }
        let known = if key.is_string() {
            keys.look_up(&path)
        } else {
            Known::Nothing
        };
        match known {
            Known::Key(_) => {
                if keys.has_entries(&path) {
                    prune_entries(keys, &path, value, found);
                }
                true
            }
            Known::Section => {
                prune(keys, &path, value, found);
                value.is_mapping()
            }
            Known::Nothing => {
                let problem = unknown_key(keys, section, &path);
                found.push(Found {
                    path,
                    aim: Aim::Key,
                    problem,
                });
                false
            }
        }
    });
}

/// Does the same for entries that are sections of their own. A list where names belong, or names
/// where a list belongs, are a fault of the value's type.
fn prune_entries(keys: &Keys, key: &KeyPath, value: &mut Value, found: &mut Vec<Found>) {
    match value {
        Value::Sequence(items) => {
            for (index, entry) in items.iter_mut().enumerate() {
                prune_entry(keys, &key.item(index), entry, found);
            }
        }
        Value::Mapping(names) => names.retain(|name, entry| {
            let path = key.child(&yaml::show_key(name));
            if name.is_string() {
                prune_entry(keys, &path, entry, found);
            } else {
                let problem = not_a_name(name);
                found.push(Found {
                    path,
                    aim: Aim::Key,
                    problem,
                });
            }
            name.is_string()
        }),
        _ => {}
    }
}

fn prune_entry(keys: &Keys, path: &KeyPath, entry: &mut Value, found: &mut Vec<Found>) {
    if !matches!(keys.look_up(path), Known::Section) {
        return;
    }
    prune(keys, path, entry, found);
    if !entry.is_mapping() {
        *entry = Value::Mapping(Default::default());
    }
}

fn not_a_name(name: &Value) -> Problem {
    let found = yaml::show(name);
    Problem::BadValue {
        hint: yaml_trap(name, &found, "a text"),
        found,
        expected: "a text".to_owned(),
    }
}

fn unknown_key(keys: &Keys, section: &KeyPath, path: &KeyPath) -> Problem {
    let written = path.to_string();
    if path.steps().len() == 1 && matches!(keys.look_up(&KeyPath::dotted(&written)), Known::Key(_))
    {
        let nested = written.split('.').collect::<Vec<_>>().join(": {");
        let closing = "}".repeat(written.matches('.').count());
        return Problem::FlatKey {
            nested: format!("{nested}: …{closing}"),
        };
    }
    Problem::UnknownKey {
        nearest: keys.nearest(&written, section),
        siblings: keys.below(section),
    }
}

fn types(tree: &Value) -> Result<Settings, Found> {
    serde_path_to_error::deserialize(tree).map_err(|error| {
        let path = KeyPath::from(error.path());
        let problem = bad_value(&path, tree, &error.inner().to_string());
        Found {
            path,
            aim: Aim::Value,
            problem,
        }
    })
}

/// Turns serde's one message format, "invalid KIND: FOUND, expected EXPECTED", into data.
fn bad_value(path: &KeyPath, tree: &Value, message: &str) -> Problem {
    let (_, expected) = message.split_once(", expected ").unwrap_or(("", message));
    let (expected, hint) = match expected.split_once(HINT_MARK) {
        Some((expected, hint)) => (expected, Some(hint.to_owned())),
        None => (expected, None),
    };
    let expected = words_for(expected);
    let value = path.value(tree).unwrap_or(&Value::Null);
    let found = shown(path, value);
    Problem::BadValue {
        hint: hint.or_else(|| yaml_trap(value, &found, expected)),
        found,
        expected: expected.to_owned(),
    }
}

/// Stands for a value that must not be shown.
const HIDDEN: &str = "(hidden)";

/// What the names of keys have in them whose values must not be shown.
const SECRET_WORDS: [&str; 2] = ["password", "secret"];

/// A value as it may appear in messages: passwords and secrets are not shown.
pub(crate) fn shown(path: &KeyPath, value: &Value) -> String {
    let path = path.to_string();
    match SECRET_WORDS.iter().any(|word| path.contains(word)) {
        true => HIDDEN.to_owned(),
        false => yaml::show(value),
    }
}

/// A value as a reader of the log expects it: a text without quotes, entries with what they say.
pub(crate) fn plain(path: &KeyPath, value: &Value) -> String {
    match (shown(path, value), value) {
        (shown, _) if shown == HIDDEN => shown,
        (_, Value::String(text)) => text.clone(),
        (_, whole) => yaml::on_one_line(whole),
    }
}

fn words_for(expected: &str) -> &str {
    match expected {
        "a string" | "path string" | "string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list, as in [a, b]",
        "a map" => "names with keys of their own, as in {name: {key: value}}",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        other => other,
    }
}

/// Explains what YAML made of a value that looks right to its writer.
fn yaml_trap(value: &Value, shown: &str, expected: &str) -> Option<String> {
    match value {
        Value::Null => Some("write a value, or leave the key out for its default".to_owned()),
        Value::Bool(_) | Value::Number(_) if expected == "a text" => {
            Some(format!("write it in quotes: \"{shown}\""))
        }
        Value::Bool(false) if expected.ends_with("or off") => Some("write off".to_owned()),
        Value::String(text) => string_trap(text, expected),
        _ => None,
    }
}

fn string_trap(text: &str, expected: &str) -> Option<String> {
    if expected == "true or false" && ["yes", "no", "on", "off", "y", "n"].contains(&text) {
        return Some("only true and false are truth values".to_owned());
    }
    if expected.ends_with("or off") && ["no", "none", "never", "false", "disabled"].contains(&text)
    {
        return Some("write off".to_owned());
    }
    if !expected.starts_with("a whole number") || text.is_empty() {
        return None;
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let leads_with_zero = text.len() > 1 && text.starts_with('0');
        let hint = if leads_with_zero {
            "a number does not start with 0"
        } else {
            "write it without quotes"
        };
        return Some(hint.to_owned());
    }
    let digits_only = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b == b'_' || b == b',');
    digits_only.then(|| "write the digits alone".to_owned())
}
