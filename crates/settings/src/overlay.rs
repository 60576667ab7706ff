//! Layers laid over each other by the `config` crate, and what differs from the defaults then.

use config::{Config, ConfigError, Map, ValueKind};
use serde_yaml::Value;

use crate::error::{Fault, Origin, Problem, SettingsError};
use crate::key_path::KeyPath;
use crate::keys::Keys;
use crate::layer::{self, Layer, last_word};
use crate::sections::Settings;
use crate::yaml::Aim;

/// A key that somebody set to something else than its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The key's full path.
    pub key: String,
    /// Its value on one line; a secret is not shown.
    pub value: String,
    /// Who set it last.
    pub origin: Origin,
}

/// The settings that count: for each key the value of the last layer that has it.
pub(crate) fn settle(layers: &[Layer]) -> Result<Settings, SettingsError> {
    let stack = layers.iter().fold(Config::builder(), |stack, layer| {
        stack.add_source(Tree(layer.tree.clone()))
    });
    stack
        .build()
        .and_then(Config::try_deserialize)
        .map_err(|error| {
            // Each layer was read as `Settings` alone, so their sum can be, too.
            let problem = Problem::Unreadable {
                why: error.to_string(),
            };
            SettingsError {
                faults: vec![Fault {
                    origin: Origin::Default,
                    key: None,
                    problem,
                }],
            }
        })
}

/// A value tree as a source of the `config` crate.
#[derive(Clone, Debug)]
struct Tree(Value);

impl config::Source for Tree {
    fn clone_into_box(&self) -> Box<dyn config::Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, config::Value>, ConfigError> {
        Ok(entries(&self.0))
    }
}

fn entries(tree: &Value) -> Map<String, config::Value> {
    let pairs = tree.as_mapping().into_iter().flatten();
    pairs
        .filter_map(|(key, value)| Some((key.as_str()?.to_owned(), converted(value))))
        .collect()
}

fn converted(value: &Value) -> config::Value {
    let kind = match value {
        Value::Null => ValueKind::Nil,
        Value::Bool(b) => ValueKind::Boolean(*b),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(signed), _) => ValueKind::I64(signed),
            (None, Some(unsigned)) => ValueKind::U64(unsigned),
            (None, None) => ValueKind::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => ValueKind::String(text.clone()),
        Value::Sequence(items) => ValueKind::Array(items.iter().map(converted).collect()),
        Value::Mapping(_) => ValueKind::Table(entries(value)),
        Value::Tagged(tagged) => return converted(&tagged.value),
    };
    config::Value::new(None, kind)
}

/// Keys whose value is not the default, with the layer that set them.
pub(crate) fn changed(keys: &Keys, layers: &[Layer], settings: &Settings) -> Vec<Changed> {
    let Ok(tree) = serde_yaml::to_value(settings) else {
        return Vec::new();
    };
    let differs = |path: &KeyPath| path.value(&tree) != path.value(keys.defaults());
    let paths = keys.all().into_iter().map(|key| KeyPath::dotted(&key));
    paths
        .filter(differs)
        .map(|path| Changed {
            value: layer::plain(&path, path.value(&tree).unwrap_or(&Value::Null)),
            origin: last_word(layers, &path).origin_of(&path, Aim::Value),
            key: path.to_string(),
        })
        .collect()
}

/// Keys whose values differ between two settings, by path.
pub fn differing_keys(one: &Settings, other: &Settings) -> Vec<String> {
    let keys = Keys::new();
    let trees = [one, other].map(serde_yaml::to_value);
    let [Ok(one), Ok(other)] = trees else {
        return Vec::new();
    };
    let differs = |key: &String| {
        let path = KeyPath::dotted(key);
        path.value(&one) != path.value(&other)
    };
    keys.all().into_iter().filter(differs).collect()
}
