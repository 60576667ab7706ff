//! Policy files: YAML to policies that the rules have accepted, or every fault with its place.
//!
//! A file is judged whole and without a broker. What only a broker knows, whether a virtual host
//! exists, is not looked at here. Sizes and time spans may carry units.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use broker_core::VhostName;
use broker_core::metadata::{FileDefaults, FilePolicy};
use broker_core::policy::{
    Policy, PolicyForm, PolicyKeyUnit, PolicyOrigin, PolicyScope, policy_key_names, policy_key_unit,
};
use broker_core::refusal::{PolicyFault, Refusal};
use broker_core::term::Term;
use serde_yaml::Value;

use crate::error::{Fault, Problem, SettingsError};
use crate::key_path::KeyPath;
use crate::keys;
use crate::layer::Source;
use crate::load::{read_text, unreadable, yaml_files};
use crate::scalar::{ByteSize, ScalarError, Span};
use crate::yaml::{self, Aim};

/// What policy files say, all of it acceptable to the rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyFiles {
    /// The files, in the order in which they were read.
    pub files: Vec<PathBuf>,
    /// Policies and operator policies.
    pub policies: Vec<FilePolicy>,
    /// Defaults of virtual hosts.
    pub defaults: Vec<FileDefaults>,
}

/// Reads a policy file and the folder `NAME.d` beside it, or a folder of `*.yaml`.
///
/// # Errors
/// Every fault of every file; then nothing of them may count.
pub fn load_policies(path: &Path) -> Result<PolicyFiles, SettingsError> {
    let mut faults = Vec::new();
    let files = files_of(path, &mut faults);
    let mut read = PolicyFiles::default();
    let mut seen = HashMap::new();
    for file in &files {
        let Some(text) = read_text(file, &mut faults) else {
            continue;
        };
        read_file(file, text, &mut read, &mut seen, &mut faults);
    }
    read.files = files;
    if faults.is_empty() {
        Ok(read)
    } else {
        Err(SettingsError { faults })
    }
}

/// The files that a path stands for.
pub(crate) fn files_of(path: &Path, faults: &mut Vec<Fault>) -> Vec<PathBuf> {
    let (mut files, folder) = if path.is_dir() {
        (Vec::new(), path.to_owned())
    } else {
        (vec![path.to_owned()], path.with_extension("d"))
    };
    if folder.is_dir() {
        match yaml_files(&folder) {
            Ok(found) => files.extend(found),
            Err(why) => faults.push(unreadable(&folder, why)),
        }
    }
    files
}

/// Where each policy was seen first, so that the second of a name can be told.
type Seen = HashMap<(String, PolicyScope, String), PathBuf>;

fn read_file(
    path: &Path,
    text: String,
    read: &mut PolicyFiles,
    seen: &mut Seen,
    faults: &mut Vec<Fault>,
) {
    let tree = yaml::read(&text);
    let source = Source::File {
        path: path.to_owned(),
        text,
    };
    match tree {
        Ok(tree) => Reader {
            path,
            source: &source,
            read,
            seen,
            faults,
        }
        .document(&tree),
        Err(fault) => faults.push(Fault {
            origin: source.origin(fault.place),
            key: fault.key,
            problem: fault.problem,
        }),
    }
}

struct Reader<'a> {
    path: &'a Path,
    source: &'a Source,
    read: &'a mut PolicyFiles,
    seen: &'a mut Seen,
    faults: &'a mut Vec<Fault>,
}

const VHOST_KEYS: [&str; 3] = ["policies", "operator_policies", "defaults"];

/// Each with the spelling of the HTTP API where that differs.
const POLICY_KEYS: [&str; 6] = [
    "name",
    "pattern",
    "apply_to",
    "apply-to",
    "priority",
    "definition",
];

impl Reader<'_> {
    fn fault(&mut self, path: &KeyPath, aim: Aim, problem: Problem) {
        let key = (!path.steps().is_empty()).then(|| path.to_string());
        self.faults.push(Fault {
            origin: self.source.origin_of(path, aim),
            key,
            problem,
        });
    }

    /// A mapping whose keys are texts; `None` with a fault for anything else, empty for nothing.
    fn section<'v>(
        &mut self,
        path: &KeyPath,
        value: &'v Value,
        keys: &[&str],
    ) -> Vec<(&'v str, &'v Value)> {
        let entries = match value {
            Value::Mapping(entries) => entries,
            Value::Null => return Vec::new(),
            other => {
                let problem = Problem::NotASection {
                    found: yaml::show(other),
                    keys: keys.iter().map(ToString::to_string).collect(),
                };
                self.fault(path, Aim::Value, problem);
                return Vec::new();
            }
        };
        let mut texts = Vec::new();
        for (key, value) in entries {
            match key.as_str() {
                Some(text) => texts.push((text, value)),
                None => {
                    let shown = yaml::show_key(key);
                    let problem = Problem::BadValue {
                        hint: Some(format!("write it in quotes: \"{shown}\"")),
                        found: shown.clone(),
                        expected: "a text".to_owned(),
                    };
                    self.fault(&path.child(&shown), Aim::Key, problem);
                }
            }
        }
        texts
    }

    fn unknown(&mut self, path: &KeyPath, key: &str, known: &[&str]) {
        let problem = Problem::UnknownKey {
            nearest: keys::nearest_word(key, known.iter().copied()),
            siblings: known.iter().map(ToString::to_string).collect(),
        };
        self.fault(&path.child(key), Aim::Key, problem);
    }

    fn document(&mut self, tree: &Value) {
        let root = KeyPath::default();
        for (key, value) in self.section(&root, tree, &["vhosts"]) {
            if key != "vhosts" {
                self.unknown(&root, key, &["vhosts"]);
                continue;
            }
            let path = root.child(key);
            for (name, vhost) in self.section(&path, value, &["the names of virtual hosts"]) {
                self.vhost(&path.child(name), &VhostName::new(name), vhost);
            }
        }
    }

    fn vhost(&mut self, path: &KeyPath, vhost: &VhostName, value: &Value) {
        for (key, value) in self.section(path, value, &VHOST_KEYS) {
            let below = path.child(key);
            match key {
                "policies" => self.policies(&below, vhost, PolicyScope::User, value),
                "operator_policies" | "operator-policies" => {
                    self.policies(&below, vhost, PolicyScope::Operator, value);
                }
                "defaults" => self.defaults(&below, vhost, value),
                _ => self.unknown(path, key, &VHOST_KEYS),
            }
        }
    }

    fn policies(&mut self, path: &KeyPath, vhost: &VhostName, scope: PolicyScope, value: &Value) {
        let items = match value {
            Value::Sequence(items) => items.as_slice(),
            Value::Null => return,
            other => {
                let problem = Problem::BadValue {
                    found: yaml::show(other),
                    expected: "a list of policies".to_owned(),
                    hint: Some("begin each policy with `- name: …`".to_owned()),
                };
                self.fault(path, Aim::Value, problem);
                return;
            }
        };
        for (nth, item) in items.iter().enumerate() {
            self.policy(&path.item(nth), vhost, scope, item);
        }
    }

    fn policy(&mut self, path: &KeyPath, vhost: &VhostName, scope: PolicyScope, value: &Value) {
        let faults_before = self.faults.len();
        let mut form = PolicyForm::default();
        let mut name = None;
        for (key, value) in self.section(path, value, &POLICY_KEYS) {
            let below = path.child(key);
            match key {
                "name" => name = self.text(&below, value),
                "pattern" => form.pattern = self.text(&below, value).map(Term::text),
                "apply_to" | "apply-to" => {
                    form.apply_to = self.text(&below, value).map(Term::text);
                }
                "priority" => form.priority = Some(term(value)),
                "definition" => form.definition = Some(self.definition(&below, scope, value)),
                _ => self.unknown(path, key, &POLICY_KEYS),
            }
        }
        let missing = [
            ("name", name.is_none()),
            ("pattern", form.pattern.is_none()),
            ("definition", form.definition.is_none()),
        ];
        if self.faults.len() > faults_before {
            return;
        }
        for (key, _) in missing.into_iter().filter(|(_, missing)| *missing) {
            let why = format!("a policy needs `{key}`; add it");
            self.fault(path, Aim::Value, Problem::Refused { why });
        }
        let Some(name) = name.filter(|_| self.faults.len() == faults_before) else {
            return;
        };
        form.name = name.as_str().into();
        self.accept(path, vhost, scope, form);
    }

    fn accept(&mut self, path: &KeyPath, vhost: &VhostName, scope: PolicyScope, form: PolicyForm) {
        if let Err(refusal) = Policy::parse(&form, scope, PolicyOrigin::File, vhost) {
            self.refused(path, scope, &refusal);
            return;
        }
        let key = (vhost.to_string(), scope, form.name.to_string());
        if let Some(first) = self.seen.insert(key, self.path.to_owned()) {
            let why = format!(
                "a policy {:?} is written twice, first in {}; keep one of them",
                form.name,
                first.display()
            );
            self.fault(&path.child("name"), Aim::Value, Problem::Refused { why });
            return;
        }
        self.read.policies.push(FilePolicy {
            vhost: vhost.clone(),
            scope,
            policy: form,
        });
    }

    fn defaults(&mut self, path: &KeyPath, vhost: &VhostName, value: &Value) {
        let faults_before = self.faults.len();
        let definition = self.definition(path, PolicyScope::User, value);
        let is_empty = matches!(&definition, Term::Map(entries) if entries.is_empty());
        if is_empty || self.faults.len() > faults_before {
            return;
        }
        // The rules know defaults as a definition without a pattern.
        let form = PolicyForm {
            pattern: Some(Term::text("")),
            definition: Some(definition.clone()),
            ..PolicyForm::default()
        };
        match Policy::parse(&form, PolicyScope::User, PolicyOrigin::File, vhost) {
            Ok(_) if self.read.defaults.iter().any(|other| other.vhost == *vhost) => {
                let why = format!("the defaults of {vhost:?} are in another file, too; keep one");
                self.fault(path, Aim::Value, Problem::Refused { why });
            }
            Ok(_) => self.read.defaults.push(FileDefaults {
                vhost: vhost.clone(),
                definition,
            }),
            Err(refusal) => self.refused_definition(path, PolicyScope::User, &refusal),
        }
    }

    fn definition(&mut self, path: &KeyPath, scope: PolicyScope, value: &Value) -> Term {
        let names: Vec<&str> = policy_key_names(scope).collect();
        let entries = self.section(path, value, &names);
        let mut definition = Vec::new();
        for (key, value) in entries {
            match with_unit(key, value) {
                Ok(term) => definition.push((Box::from(key), term)),
                Err(error) => {
                    let problem = Problem::BadValue {
                        found: yaml::show(value),
                        expected: error.expected.to_owned(),
                        hint: error.hint,
                    };
                    self.fault(&path.child(key), Aim::Value, problem);
                }
            }
        }
        Term::Map(definition)
    }

    fn text(&mut self, path: &KeyPath, value: &Value) -> Option<String> {
        if let Value::String(text) = value {
            return Some(text.clone());
        }
        let found = yaml::show(value);
        let hint = match value {
            Value::Bool(_) | Value::Number(_) => Some(format!("write it in quotes: \"{found}\"")),
            _ => None,
        };
        let problem = Problem::BadValue {
            found,
            expected: "a text".to_owned(),
            hint,
        };
        self.fault(path, Aim::Value, problem);
        None
    }

    fn refused(&mut self, path: &KeyPath, scope: PolicyScope, refusal: &Refusal) {
        let Refusal::InvalidPolicy { why, .. } = refusal else {
            let why = refusal.to_string();
            return self.fault(path, Aim::Value, Problem::Refused { why });
        };
        let (key, problem) = match why {
            PolicyFault::Pattern { problem, position } => {
                let why = format!(
                    "not a regular expression: {problem} at character {}; \
                     write it in single quotes, so that YAML leaves backslashes alone",
                    position + 1
                );
                ("pattern", Problem::Refused { why })
            }
            PolicyFault::ApplyTo(word) => {
                let problem = Problem::BadValue {
                    found: format!("{word:?}"),
                    expected:
                        "one of all, queues, classic_queues, quorum_queues, exchanges, streams"
                            .to_owned(),
                    hint: None,
                };
                ("apply_to", problem)
            }
            PolicyFault::Priority(value) => {
                let problem = Problem::BadValue {
                    found: value.to_string(),
                    expected: "a number".to_owned(),
                    hint: None,
                };
                ("priority", problem)
            }
            _ => return self.refused_definition(&path.child("definition"), scope, refusal),
        };
        self.fault(&path.child(key), Aim::Value, problem);
    }

    fn refused_definition(&mut self, path: &KeyPath, scope: PolicyScope, refusal: &Refusal) {
        let Refusal::InvalidPolicy { why, .. } = refusal else {
            let why = refusal.to_string();
            return self.fault(path, Aim::Value, Problem::Refused { why });
        };
        match why {
            PolicyFault::UnknownKeys(entries) => {
                let names: Vec<&str> = policy_key_names(scope).collect();
                for (key, _) in entries {
                    let user_only = policy_key_names(PolicyScope::User).any(|name| name == &**key);
                    if user_only {
                        let why = "operator policies may not hold this key; \
                                   write it in a policy"
                            .to_owned();
                        self.fault(&path.child(key), Aim::Key, Problem::Refused { why });
                    } else {
                        self.unknown(path, key, &names);
                    }
                }
            }
            PolicyFault::Value { key, value, noun } => {
                let problem = Problem::BadValue {
                    found: shown(value),
                    expected: format!("a valid {noun}"),
                    hint: None,
                };
                self.fault(&path.child(key), Aim::Value, problem);
            }
            PolicyFault::Empty => {
                let why = "a policy needs at least one key in its definition".to_owned();
                self.fault(path, Aim::Value, Problem::Refused { why });
            }
            other => {
                let whole = other.to_string();
                let why = whole
                    .trim_start_matches("Validation failed")
                    .trim()
                    .to_owned();
                self.fault(path, Aim::Value, Problem::Refused { why });
            }
        }
    }
}

/// A definition's value; sizes and time spans in the unit of the key.
fn with_unit(key: &str, value: &Value) -> Result<Term, ScalarError> {
    let Value::String(text) = value else {
        return Ok(term(value));
    };
    let number = match policy_key_unit(key) {
        Some(PolicyKeyUnit::Bytes) => text.parse::<ByteSize>()?.as_bytes(),
        Some(PolicyKeyUnit::Milliseconds) => text.parse::<Span>()?.as_ms(),
        None => return Ok(Term::text(text)),
    };
    Ok(i64::try_from(number).map_or(Term::text(text), Term::Integer))
}

fn term(value: &Value) -> Term {
    match value {
        Value::Null => Term::Null,
        Value::Bool(truth) => Term::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Term::Integer(number),
            None => Term::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Term::text(text),
        Value::Sequence(items) => Term::List(items.iter().map(term).collect()),
        Value::Mapping(entries) => Term::Map(
            entries
                .iter()
                .map(|(key, value)| (yaml::show_key(key).into(), term(value)))
                .collect(),
        ),
        Value::Tagged(tagged) => term(&tagged.value),
    }
}

fn shown(term: &Term) -> String {
    term.as_text()
        .map_or_else(|| term.to_string(), |text| format!("{text:?}"))
}

#[cfg(test)]
mod tests;
