//! What is wrong with what the operator wrote: every part as data, and the words for people.
//!
//! A message names the place (file, line and column, environment variable or option), the key's
//! full path, what was found, what is expected, and what to do next.

use std::fmt;
use std::path::{Path, PathBuf};

/// All faults of one load, in the order in which the layers are read. Never empty.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    /// The faults.
    pub faults: Vec<Fault>,
}

impl SettingsError {
    /// A file that cannot be read, with the system's words.
    pub fn unreadable(path: &Path, why: String) -> Self {
        Self {
            faults: vec![Fault {
                origin: Origin::File {
                    path: path.to_owned(),
                    place: None,
                },
                key: None,
                problem: Problem::Unreadable { why },
            }],
        }
    }

    /// One thing that is wrong at a place of a file.
    pub fn at(path: &Path, place: Place, problem: Problem) -> Self {
        Self {
            faults: vec![Fault {
                origin: Origin::File {
                    path: path.to_owned(),
                    place: Some(place),
                },
                key: None,
                problem,
            }],
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (nth, fault) in self.faults.iter().enumerate() {
            let break_line = if nth == 0 { "" } else { "\n" };
            write!(f, "{break_line}{fault}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it was written.
    pub origin: Origin,
    /// The key's full path, `limits.heartbeat`; `None` if the fault is of the whole layer.
    pub key: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The built-in defaults.
    Default,
    /// In a file.
    File {
        /// The file, as it was named to us.
        path: PathBuf,
        /// Where in it; `None` if the fault is of the file as a whole.
        place: Option<Place>,
    },
    /// In an environment variable.
    Variable(String),
    /// On the command line; the option with its argument's key, such as `--set limits.heartbeat`.
    Option(String),
}

/// A place in a text, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file or folder could not be read.
    Unreadable {
        /// The system's words.
        why: String,
    },
    /// The file is larger than any configuration is.
    TooLarge {
        /// The largest size that is read, in bytes.
        max_bytes: u64,
    },
    /// The text is not YAML, or more than one document.
    Syntax {
        /// The parser's words.
        why: String,
        /// What to change, where the text shows it.
        hint: Option<String>,
    },
    /// There is no such key.
    UnknownKey {
        /// The nearest key that exists, as a full path.
        nearest: Option<String>,
        /// All keys beside it: those of the section it was written in.
        siblings: Vec<String>,
    },
    /// The key appears twice in one file.
    DuplicateKey,
    /// The key is written with dots where sections are nested.
    FlatKey {
        /// The key as it is nested, on one line.
        nested: String,
    },
    /// A section was given a value.
    NotASection {
        /// The value, as written.
        found: String,
        /// The section's keys.
        keys: Vec<String>,
    },
    /// The value is not what the key takes.
    BadValue {
        /// The value, as written; a secret is not shown.
        found: String,
        /// What the key takes.
        expected: String,
        /// What to write instead, where the value shows what was meant.
        hint: Option<String>,
    },
    /// The value has a YAML tag (`!tag value`).
    Tagged {
        /// The tag, with its exclamation mark.
        tag: String,
    },
    /// The value is of the right kind, but the broker cannot run with it.
    OutOfRange {
        /// The value that counts after all layers; a secret is not shown.
        found: String,
        /// The rule and what to do.
        rule: String,
    },
    /// The value breaks a rule of the broker.
    Refused {
        /// The rule in words, and what to do.
        why: String,
    },
    /// `--set` without `KEY=VALUE`.
    NoAssignment,
    /// Layers that are each valid do not make valid settings together. Our fault.
    Unsound {
        /// The words of the layering library.
        why: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        match &self.key {
            Some(key) => self.problem.tell(f, &format!("`{key}`")),
            None => self.problem.tell(f, "the whole"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Default => f.write_str("built-in default"),
            Self::File { path, place: None } => write!(f, "{}", path.display()),
            Self::File {
                path,
                place: Some(Place { line, column }),
            } => {
                write!(f, "{}:{line}:{column}", path.display())
            }
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Option(option) => write!(f, "option {option}"),
        }
    }
}

impl Problem {
    fn tell(&self, f: &mut fmt::Formatter, key: &str) -> fmt::Result {
        match self {
            Self::Unreadable { why } => {
                write!(
                    f,
                    "cannot be read: {why}; check the path and its permissions"
                )
            }
            Self::TooLarge { max_bytes } => {
                write!(
                    f,
                    "is larger than {max_bytes} bytes; is this a configuration file?"
                )
            }
            Self::Syntax { why, hint } => write!(f, "not valid YAML: {why}{}", tail(hint)),
            Self::UnknownKey { nearest, siblings } => tell_unknown(f, key, nearest, siblings),
            Self::FlatKey { nested } => {
                write!(
                    f,
                    "{key} is written with dots; nest it in its section: `{nested}`"
                )
            }
            Self::DuplicateKey => write!(f, "{key} appears twice; keep one of them"),
            Self::NotASection { found, keys } => {
                let keys = keys.join(", ");
                write!(
                    f,
                    "{key} is a section, but found {found}; set its keys instead: {keys}"
                )
            }
            Self::BadValue {
                found,
                expected,
                hint,
            } => {
                write!(f, "{key}: found {found}, expected {expected}{}", tail(hint))
            }
            Self::Tagged { tag } => {
                write!(
                    f,
                    "{key} has the tag {tag}, which means nothing here; take it away"
                )
            }
            Self::OutOfRange { found, rule } => write!(f, "{key} is {found}; {rule}"),
            Self::Unsound { why } => {
                write!(
                    f,
                    "valid layers do not fit together: {why}; this is a fault of the program"
                )
            }
            Self::Refused { why } => write!(f, "{key}: {why}"),
            Self::NoAssignment => write!(f, "expected KEY=VALUE, as in limits.heartbeat=30s"),
        }
    }
}

fn tail(hint: &Option<String>) -> String {
    hint.as_ref()
        .map(|hint| format!("; {hint}"))
        .unwrap_or_default()
}

fn tell_unknown(
    f: &mut fmt::Formatter,
    key: &str,
    nearest: &Option<String>,
    siblings: &[String],
) -> fmt::Result {
    write!(f, "unknown key {key}; ")?;
    match nearest {
        Some(nearest) => write!(f, "did you mean `{nearest}`?"),
        None => write!(f, "the keys here are {}", siblings.join(", ")),
    }
}
