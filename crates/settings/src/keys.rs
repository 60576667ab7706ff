//! Which keys there are: the tree of the serialized defaults, what entries under a list or under
//! names hold, and the nearest key to a wrong one.

use serde::Serialize;
use serde_yaml::Value;

use crate::key_path::{KeyPath, Step};
use crate::sections::{FlowClient, FlowUser, FlowVhost, Settings};

/// The known keys, as a tree of their default values.
pub(crate) struct Keys {
    defaults: Value,
    entries: [Entries; 3],
}

/// A key whose value is entries that are sections of their own, by place or by the operator's names.
struct Entries {
    key: KeyPath,
    by_name: bool,
    /// The keys of each entry with their defaults.
    each: Value,
}

impl Entries {
    fn new(key: &str, by_name: bool, each: &impl Serialize) -> Self {
        Self {
            key: KeyPath::dotted(key),
            by_name,
            each: tree_of(each),
        }
    }

    /// The rest of a path that leads into an entry.
    fn within(&self, path: &KeyPath) -> Option<KeyPath> {
        let (entry, within) = path.below(&self.key)?;
        (matches!(entry, Step::Key(_)) == self.by_name).then_some(within)
    }
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
        Self {
            defaults: tree_of(&Settings::default()),
            entries: [
                Entries::new("flow.clients", false, &FlowClient::default()),
                Entries::new("flow.users", true, &FlowUser::default()),
                Entries::new("flow.vhosts", true, &FlowVhost::default()),
            ],
        }
    }

    pub(crate) fn defaults(&self) -> &Value {
        &self.defaults
    }

    pub(crate) fn look_up(&self, path: &KeyPath) -> Known<'_> {
        match self.default(path) {
            None => Known::Nothing,
            // No section is without keys: an empty one is for the operator's names.
            Some(Value::Mapping(keys)) if !keys.is_empty() => Known::Section,
            Some(default) => Known::Key(default),
        }
    }

    /// The default at the path's end; of a section, those of its keys.
    pub(crate) fn default(&self, path: &KeyPath) -> Option<&Value> {
        let mut entries = self.entries.iter();
        match entries.find_map(|entries| Some((&entries.each, entries.within(path)?))) {
            Some((each, within)) => within.value(each),
            None => path.value(&self.defaults),
        }
    }

    /// Whether the value of this key is entries with keys of their own.
    pub(crate) fn has_entries(&self, path: &KeyPath) -> bool {
        self.entries.iter().any(|entries| entries.key == *path)
    }

    /// Full paths of the keys in a section.
    pub(crate) fn below(&self, section: &KeyPath) -> Vec<String> {
        let entries = self.default(section).and_then(Value::as_mapping);
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
    /// `section` is where it was written.
    pub(crate) fn nearest(&self, wrong: &str, section: &KeyPath) -> Option<String> {
        if wrong.len() > KEY_LETTERS_MAX {
            return None;
        }
        let mut candidates = self.all();
        candidates.extend(self.below(&KeyPath::default()));
        // Among all keys there are none of an entry.
        candidates.extend(self.below(section));
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

fn tree_of(defaults: &impl Serialize) -> Value {
    serde_yaml::to_value(defaults).expect("settings are plain structs of texts, numbers and lists")
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
