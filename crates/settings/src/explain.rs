//! What a key means, in the words of the reference file, and what it is set to.
//!
//! `config/broker.yaml` is part of the program, so that the words are those of this version.

use crate::key_path::KeyPath;
use crate::keys::{Keys, Known};
use crate::layer;

const REFERENCE: &str = include_str!("../../../config/broker.yaml");

/// A key or a section, explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The full path.
    pub key: String,
    /// What the reference file says of it, line by line.
    pub about: Vec<String>,
    /// The default on one line; `None` for a section.
    pub default: Option<String>,
    /// The environment variable that sets it; `None` for a section.
    pub variable: Option<String>,
}

/// Full paths of all keys, section by section.
pub fn key_names() -> Vec<String> {
    Keys::new().all()
}

/// Explains a key, or each key of a section.
///
/// # Errors
/// There is no such key; the nearest one that exists, if any is near.
pub fn explain(wanted: &str) -> Result<Vec<Explanation>, Option<String>> {
    let keys = Keys::new();
    let path = KeyPath::dotted(wanted);
    match keys.look_up(&path) {
        Known::Key(_) => Ok(vec![explained(&keys, wanted)]),
        Known::Section => {
            let below = keys.below(&path);
            Ok(below.iter().map(|key| explained(&keys, key)).collect())
        }
        Known::Nothing => Err(keys.nearest(wanted, &KeyPath::default())),
    }
}

fn explained(keys: &Keys, key: &str) -> Explanation {
    let path = KeyPath::dotted(key);
    Explanation {
        key: key.to_owned(),
        about: about(key),
        default: keys.default(&path).map(|value| layer::plain(&path, value)),
        variable: Some(format!(
            "{}{}",
            crate::VARIABLE_PREFIX,
            key.to_ascii_uppercase().replace('.', "__")
        )),
    }
}

/// The comment above the key, or above the group of keys that it stands in. Keys of entries are
/// explained with the key that has the entries.
fn about(key: &str) -> Vec<String> {
    let mut words = key.split('.');
    let (Some(section), Some(name)) = (words.next(), words.next()) else {
        return Vec::new();
    };
    let mut lines = REFERENCE
        .lines()
        .skip_while(|line| line.strip_suffix(':') != Some(section))
        .skip(1)
        .take_while(|line| line.is_empty() || line.starts_with(' '));
    let mut comment: Vec<String> = Vec::new();
    let mut after_key = false;
    for line in &mut lines {
        let line = line.trim();
        if let Some(words) = line.strip_prefix('#') {
            if after_key {
                comment.clear();
                after_key = false;
            }
            comment.push(words.strip_prefix(' ').unwrap_or(words).to_owned());
        } else if let Some((found, _)) = line.split_once(':') {
            if found == name {
                return comment;
            }
            after_key = true;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_explained() {
        for key in Keys::new().all() {
            let explained = explain(&key).expect("the key exists");
            assert!(!explained[0].about.is_empty(), "{key} has no words");
        }
    }

    #[test]
    fn a_key_is_told_with_its_default_and_its_variable() {
        let [found] = &explain("limits.heartbeat").expect("the key exists")[..] else {
            panic!("one key")
        };
        assert_eq!(found.default.as_deref(), Some("1m"));
        let variable = found.variable.as_deref();
        assert_eq!(variable, Some("SLUICEMQ__LIMITS__HEARTBEAT"));
        assert!(found.about[0].starts_with("Heartbeat period"), "{found:?}");
    }

    #[test]
    fn keys_of_entries_are_explained_with_the_key_that_has_them() {
        let [found] = &explain("flow.users").expect("the key exists")[..] else {
            panic!("one key")
        };
        assert_eq!(found.default.as_deref(), Some("{}"));
        let [channel_flow, _] = &explain("flow.users.batch").expect("a name's keys")[..] else {
            panic!("two keys")
        };
        assert_eq!(channel_flow.key, "flow.users.batch.channel_flow");
        assert_eq!(channel_flow.about, found.about);
    }

    #[test]
    fn a_wrong_key_is_told_with_the_nearest() {
        assert_eq!(
            explain("limits.hartbeat"),
            Err(Some("limits.heartbeat".to_owned()))
        );
    }
}
