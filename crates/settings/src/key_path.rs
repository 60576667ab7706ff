//! The way to a value in a tree: `auth.loopback_users[0]`.

use std::fmt;

use serde_path_to_error::{Path, Segment};
use serde_yaml::Value;

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// Steps from the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyPath(Vec<Step>);

impl KeyPath {
    /// The path of a key as written with dots.
    pub(crate) fn dotted(text: &str) -> Self {
        Self(
            text.split('.')
                .map(|key| Step::Key(key.to_owned()))
                .collect(),
        )
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    pub(crate) fn child(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        Self(steps)
    }

    pub(crate) fn item(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Index(index));
        Self(steps)
    }

    /// The first step after another path, and the rest; `None` if this path does not go on from it.
    pub(crate) fn below(&self, other: &Self) -> Option<(&Step, Self)> {
        let (first, rest) = self.0.strip_prefix(&other.0[..])?.split_first()?;
        Some((first, Self(rest.to_vec())))
    }

    /// The part that names a key: list positions at the end are cut off.
    pub(crate) fn key_part(&self) -> Self {
        let is_key = |step: &Step| matches!(step, Step::Key(_));
        let len = self.0.iter().rposition(is_key).map_or(0, |last| last + 1);
        Self(self.0[..len].to_vec())
    }

    /// The value at the path's end.
    pub(crate) fn value<'a>(&self, tree: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(tree, |node, step| match step {
            Step::Key(key) => node.get(key.as_str()),
            Step::Index(index) => node.get(*index),
        })
    }

    /// Takes the path's last key out of the tree.
    pub(crate) fn remove(&self, tree: &mut Value) -> Option<Value> {
        let (Step::Key(last), way) = self.0.split_last()? else {
            return None;
        };
        let node = way.iter().try_fold(tree, |node, step| match step {
            Step::Key(key) => node.get_mut(key.as_str()),
            Step::Index(index) => node.get_mut(*index),
        })?;
        node.as_mapping_mut()?.remove(last.as_str())
    }
}

impl From<&Path> for KeyPath {
    fn from(path: &Path) -> Self {
        let step = |segment: &Segment| match segment {
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        Self(path.iter().filter_map(step).collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (nth, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if nth == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
