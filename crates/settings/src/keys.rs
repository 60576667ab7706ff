//! Which keys there are: the tree of the serialized defaults, and the nearest key to a wrong one.

use serde_yaml::Value;

use crate::key_path::KeyPath;
use crate::sections::Settings;

/// The known keys, as a tree of their default values.
pub(crate) struct Keys {
    defaults: Value,
}

/// What a path leads to.
pub(crate) enum Known<'a> {
    Section,
    Key(&'a Value),
    Nothing,
}

/// Two words with more edits between them than a third of their length are different words.
const EDITS_PER_LETTERS: usize = 3;

/// Longer words are no typing errors, and comparing takes time by the square of the length.
const KEY_LETTERS_MAX: usize = 100;

impl Keys {
    pub(crate) fn new() -> Self {
        let defaults = serde_yaml::to_value(Settings::default())
            .expect("settings are plain structs of texts, numbers and lists");
        Self { defaults }
    }

    pub(crate) fn defaults(&self) -> &Value {
        &self.defaults
    }

    pub(crate) fn look_up(&self, path: &KeyPath) -> Known<'_> {
        match path.value(&self.defaults) {
            None => Known::Nothing,
            Some(Value::Mapping(_)) => Known::Section,
            Some(default) => Known::Key(default),
        }
    }

    /// Full paths of the keys in a section.
    pub(crate) fn below(&self, section: &KeyPath) -> Vec<String> {
        let entries = section.value(&self.defaults).and_then(Value::as_mapping);
        entries
            .into_iter()
            .flat_map(|entries| entries.keys().filter_map(Value::as_str))
            .map(|key| section.child(key).to_string())
            .collect()
    }

    /// Full paths of all keys, section by section.
    pub(crate) fn all(&self) -> Vec<String> {
        let root = KeyPath::default();
        let sections = self.below(&root);
        sections
            .iter()
            .flat_map(|section| self.below(&KeyPath::dotted(section)))
            .collect()
    }

    /// The key or section that an unknown path was probably meant to be.
    ///
    /// First a typing error in the whole path, then the right last word in the wrong section.
    pub(crate) fn nearest(&self, wrong: &str) -> Option<String> {
        if wrong.len() > KEY_LETTERS_MAX {
            return None;
        }
        let mut candidates = self.all();
        candidates.extend(self.below(&KeyPath::default()));
        let wrong_word = last_word(wrong);
        let by_path = candidates
            .iter()
            .filter(|right| {
                right.matches('.').count() == wrong.matches('.').count()
                    && is_near(wrong_word, last_word(right))
            })
            .map(|right| (edits(wrong, right), right))
            .filter(|(edits, right)| *edits <= right.len() / EDITS_PER_LETTERS)
            .min();
        if let Some((_, right)) = by_path {
            return Some(right.clone());
        }
        candidates
            .iter()
            .filter(|right| is_near(wrong_word, last_word(right)))
            .min_by_key(|right| edits(wrong_word, last_word(right)))
            .cloned()
    }
}

/// The one of `words` that a wrong word was probably meant to be.
pub(crate) fn nearest_word<'a>(
    wrong: &str,
    words: impl Iterator<Item = &'a str>,
) -> Option<String> {
    if wrong.len() > KEY_LETTERS_MAX {
        return None;
    }
    words
        .filter(|right| is_near(wrong, right))
        .min_by_key(|right| edits(wrong, right))
        .map(str::to_owned)
}

fn last_word(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn is_near(wrong: &str, right: &str) -> bool {
    edits(wrong, right) <= right.len() / EDITS_PER_LETTERS
}

/// Insertions, deletions, replacements and swaps of neighbours between two words.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // `table[i][j]`: edits between the first i letters of a and the first j of b.
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            if i == 0 || j == 0 {
                table[i][j] = i + j;
                continue;
            }
            let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(table[i - 2][j - 2] + 1);
            }
            table[i][j] = least;
        }
    }
    table[a.len()][b.len()]
}
