//! Regular expressions of policies and permissions: unanchored, compiled once when they are set.
//!
//! Text and compiled form are one value, so nothing downstream needs a cache of expressions.
//! Only the text is stored: an empty one means everything in a policy and nothing in a permission.

use std::fmt;
use std::sync::Arc;

use fancy_regex::{Regex, RegexBuilder};

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Steps that a pattern with look-around or back-references may take on one name. Beyond them it
/// does not match: a pattern must not stop the broker.
const BACKTRACK_STEPS_MAX: usize = 100_000;

/// Bytes of compiled program that one pattern may have.
const PROGRAM_BYTES_MAX: usize = 1024 * 1024;

/// A compiled regular expression with its text.
#[derive(Clone)]
pub struct Pattern {
    text: Arc<str>,
    matcher: Matcher,
}

/// The two patterns that nearly everybody uses need no program.
#[derive(Clone)]
enum Matcher {
    Everything,
    Nothing,
    Regex(Arc<Regex>),
}

/// Why a pattern is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct PatternFault {
    /// What is wrong, for people.
    pub problem: Box<str>,
    /// Where, in bytes from the start; 0 where it cannot be told.
    pub position: usize,
}

impl Pattern {
    /// Compiles. The empty pattern matches everything, as in policies.
    pub fn compile(text: &str) -> Result<Self, PatternFault> {
        let matcher = match text {
            "" | ".*" | "^.*" | "^.*$" | ".*$" => Matcher::Everything,
            _ => Matcher::Regex(Arc::new(compile(text)?)),
        };
        Ok(Self {
            text: text.into(),
            matcher,
        })
    }

    /// Compiles a permission: the empty pattern allows nothing.
    // rabbitmq docs: access control, how permissions are evaluated
    pub fn compile_permission(text: &str) -> Result<Self, PatternFault> {
        match text {
            "" | "^$" => Ok(Self {
                text: text.into(),
                matcher: Matcher::Nothing,
            }),
            _ => Self::compile(text),
        }
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Compiles `expanded` but shows the text that this has.
    pub(crate) fn with_program_of(&self, expanded: &str) -> Result<Self, PatternFault> {
        let program = Self::compile_permission(expanded)?;
        Ok(Self {
            text: self.text.clone(),
            matcher: program.matcher,
        })
    }

    /// Whether the pattern is found anywhere in the name.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Everything => true,
            Matcher::Nothing => false,
            Matcher::Regex(regex) => regex.is_match(name).unwrap_or(false),
        }
    }
}

fn compile(text: &str) -> Result<Regex, PatternFault> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err(PatternFault {
            problem: "regular expression is too large".into(),
            position: 0,
        });
    }
    RegexBuilder::new(text)
        .backtrack_limit(BACKTRACK_STEPS_MAX)
        .delegate_size_limit(PROGRAM_BYTES_MAX)
        .build()
        .map_err(|fault| match fault {
            fancy_regex::Error::ParseError(position, problem) => PatternFault {
                problem: problem.to_string().into(),
                position,
            },
            other => PatternFault {
                problem: last_line(&other.to_string()),
                position: 0,
            },
        })
}

/// The regular-expression engine draws the expression first and says what is wrong last.
fn last_line(text: &str) -> Box<str> {
    text.lines().last().unwrap_or_default().trim().into()
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
