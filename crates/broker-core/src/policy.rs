//! Policies: which one applies to a queue or an exchange, and what it says.
//!
//! At most one policy and one operator policy apply to an object; they are merged with each other
//! and with the object's arguments into its settings. A policy is parsed as a whole or refused.
//! This file knows no YAML and no JSON: values come as terms.

mod explain;
mod keys;
mod merge;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use keys::is_max_age;
pub use keys::{PolicyKeyUnit, policy_key_names, policy_key_unit};
pub(crate) use merge::retry_multiplier;
pub use merge::{EffectiveDefinition, EffectiveSettings, SettingSource};
pub(crate) use merge::{Say, effective_settings, merge_definitions};

use crate::names::VhostName;
use crate::pattern::Pattern;
use crate::refusal::{PolicyFault, Refusal, Result};
use crate::settings::QueueKind;
use crate::term::Term;

/// Keys and values of a policy, sorted by key.
pub type Definition = BTreeMap<Box<str>, Term>;

/// Most policies of one scope in one vhost.
pub const POLICIES_PER_VHOST_MAX: usize = 10_000;

/// Who wrote a policy for whom.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PolicyScope {
    /// A policy.
    #[default]
    User,
    /// An operator policy: it bounds what policies may say.
    Operator,
}

/// Which door a policy came through. What a file holds is changed by the file only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyOrigin {
    /// HTTP, the command line, definitions.
    #[default]
    Api,
    /// A policy file.
    File,
}

/// What a policy may apply to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyTo {
    /// Queues and exchanges.
    #[default]
    All,
    /// Exchanges.
    Exchanges,
    /// Queues of any type.
    Queues,
    /// Classic queues.
    ClassicQueues,
    /// Quorum queues.
    QuorumQueues,
    /// Streams, which this broker has not.
    Streams,
}

impl ApplyTo {
    /// The word in policies.
    pub fn name(self) -> &'static str {
        match self {
            ApplyTo::All => "all",
            ApplyTo::Exchanges => "exchanges",
            ApplyTo::Queues => "queues",
            ApplyTo::ClassicQueues => "classic_queues",
            ApplyTo::QuorumQueues => "quorum_queues",
            ApplyTo::Streams => "streams",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [
            ApplyTo::All,
            ApplyTo::Exchanges,
            ApplyTo::Queues,
            ApplyTo::ClassicQueues,
            ApplyTo::QuorumQueues,
            ApplyTo::Streams,
        ]
        .into_iter()
        .find(|apply_to| apply_to.name() == word)
    }

    fn covers_queue(self, kind: QueueKind) -> bool {
        match self {
            ApplyTo::All | ApplyTo::Queues => true,
            ApplyTo::ClassicQueues => kind == QueueKind::Classic,
            ApplyTo::QuorumQueues => kind == QueueKind::Quorum,
            ApplyTo::Exchanges | ApplyTo::Streams => false,
        }
    }

    fn covers_exchange(self) -> bool {
        matches!(self, ApplyTo::All | ApplyTo::Exchanges)
    }
}

/// A policy as somebody wrote it, not yet understood. Missing fields are refused or defaulted when
/// it is parsed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyForm {
    /// Its name; the HTTP API has it in the path.
    #[serde(default)]
    pub name: Box<str>,
    /// A regular expression, searched anywhere in the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Term>,
    /// `all` when missing.
    #[serde(default, rename = "apply-to", skip_serializing_if = "Option::is_none")]
    pub apply_to: Option<Term>,
    /// A map; not empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Term>,
    /// 0 when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Term>,
}

impl PolicyForm {
    /// A form of the usual fields.
    pub fn new(
        name: &str,
        pattern: &str,
        apply_to: ApplyTo,
        priority: i64,
        definition: Term,
    ) -> Self {
        Self {
            name: name.into(),
            pattern: Some(Term::text(pattern)),
            apply_to: Some(Term::text(apply_to.name())),
            definition: Some(definition),
            priority: Some(Term::Integer(priority)),
        }
    }
}

/// A policy that is understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Its name.
    pub name: Arc<str>,
    /// Names that it matches.
    pub pattern: Pattern,
    /// What it applies to.
    pub apply_to: ApplyTo,
    /// The highest matching one is chosen.
    pub priority: Priority,
    /// What it says.
    pub definition: Definition,
    /// Who may change it.
    pub origin: PolicyOrigin,
}

/// The priority of a policy: a number, whole in nearly all cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priority(f64);

impl Priority {
    fn parse(term: &Term) -> Option<Self> {
        match term {
            Term::Integer(number) => Some(Self(*number as f64)),
            Term::Float(number) if number.is_finite() => Some(Self(*number)),
            _ => None,
        }
    }

    /// The number as it was written.
    pub fn term(self) -> Term {
        if self.0.fract() == 0.0 && self.0.abs() < 9e15 {
            return Term::Integer(self.0 as i64);
        }
        Term::Float(self.0)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Policy {
    /// Understands a form.
    ///
    /// # Errors
    /// `InvalidPolicy` with the first thing that is wrong.
    pub fn parse(
        form: &PolicyForm,
        scope: PolicyScope,
        origin: PolicyOrigin,
        vhost: &VhostName,
    ) -> Result<Self> {
        Self::parse_fields(form, scope, origin).map_err(|why| Refusal::InvalidPolicy {
            policy: form.name.clone(),
            vhost: vhost.clone(),
            why,
        })
    }

    fn parse_fields(
        form: &PolicyForm,
        scope: PolicyScope,
        origin: PolicyOrigin,
    ) -> Result<Self, PolicyFault> {
        let (Some(pattern), Some(definition)) = (&form.pattern, &form.definition) else {
            return Err(PolicyFault::FieldsMissing(missing_fields(form)));
        };
        Ok(Self {
            name: form.name.as_ref().into(),
            pattern: parse_pattern(pattern)?,
            apply_to: parse_apply_to(form.apply_to.as_ref())?,
            definition: keys::parse_definition(definition, scope)?,
            priority: parse_priority(form.priority.as_ref())?,
            origin,
        })
    }

    /// The form that this was parsed from.
    pub fn form(&self) -> PolicyForm {
        PolicyForm {
            name: self.name.as_ref().into(),
            pattern: Some(Term::text(self.pattern.as_str())),
            apply_to: Some(Term::text(self.apply_to.name())),
            definition: Some(self.definition_term()),
            priority: Some(self.priority.term()),
        }
    }

    /// What it says, as one value.
    pub fn definition_term(&self) -> Term {
        Term::Map(
            self.definition
                .iter()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        )
    }

    /// Whether it applies to a queue. One key that the type does not know takes the whole policy
    /// off the queue.
    // rabbitmq docs: policies, "a policy with unsupported keys is skipped"
    pub fn applies_to_queue(&self, name: &str, kind: QueueKind) -> bool {
        self.apply_to.covers_queue(kind)
            && self
                .definition
                .keys()
                .all(|key| keys::is_supported_by(key, kind))
            && self.pattern.matches(name)
    }

    /// Whether it applies to an exchange.
    pub fn applies_to_exchange(&self, name: &str) -> bool {
        self.apply_to.covers_exchange() && self.pattern.matches(name)
    }
}

/// What stands in the place of a policy's name where vhost defaults are meant.
pub(crate) const VHOST_DEFAULTS: &str = "vhost defaults";

/// The vhost defaults of queues: a definition without a pattern, of the keys of policies.
pub(crate) fn parse_vhost_defaults(definition: &Term, vhost: &VhostName) -> Result<Definition> {
    if matches!(definition, Term::Map(entries) if entries.is_empty()) {
        return Ok(Definition::new());
    }
    keys::parse_definition(definition, PolicyScope::User).map_err(|why| Refusal::InvalidPolicy {
        policy: VHOST_DEFAULTS.into(),
        vhost: vhost.clone(),
        why,
    })
}

/// The policies of one scope in one vhost, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub struct PolicyList {
    /// Highest priority first, then by name.
    ranked: Vec<Policy>,
}

impl PolicyList {
    /// The policies, highest priority first.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.ranked.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.ranked.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// By name.
    pub fn find(&self, name: &str) -> Option<&Policy> {
        self.ranked.iter().find(|policy| &*policy.name == name)
    }

    /// The one policy for a queue.
    pub fn for_queue(&self, name: &str, kind: QueueKind) -> Option<&Policy> {
        self.ranked
            .iter()
            .find(|policy| policy.applies_to_queue(name, kind))
    }

    /// The one policy for an exchange.
    pub fn for_exchange(&self, name: &str) -> Option<&Policy> {
        self.ranked
            .iter()
            .find(|policy| policy.applies_to_exchange(name))
    }

    /// Puts a policy in its place; answers the one of this name that it replaces.
    pub(crate) fn set(&mut self, policy: Policy) -> Option<Policy> {
        let old = self.remove(&policy.name);
        let at = self
            .ranked
            .partition_point(|other| comes_before(other, &policy));
        self.ranked.insert(at, policy);
        old
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Policy> {
        let at = self
            .ranked
            .iter()
            .position(|policy| &*policy.name == name)?;
        Some(self.ranked.remove(at))
    }
}

fn comes_before(one: &Policy, other: &Policy) -> bool {
    other
        .priority
        .0
        .total_cmp(&one.priority.0)
        .then_with(|| one.name.cmp(&other.name))
        .is_lt()
}

fn missing_fields(form: &PolicyForm) -> Vec<Box<str>> {
    [
        ("pattern", form.pattern.is_none()),
        ("definition", form.definition.is_none()),
    ]
    .into_iter()
    .filter(|(_, missing)| *missing)
    .map(|(key, _)| key.into())
    .collect()
}

fn parse_pattern(pattern: &Term) -> Result<Pattern, PolicyFault> {
    let Some(text) = pattern.as_text() else {
        return Err(PolicyFault::PatternNotString(pattern.clone()));
    };
    Pattern::compile(text).map_err(|fault| PolicyFault::Pattern {
        problem: fault.problem,
        position: fault.position,
    })
}

fn parse_apply_to(apply_to: Option<&Term>) -> Result<ApplyTo, PolicyFault> {
    let Some(term) = apply_to else {
        return Ok(ApplyTo::All);
    };
    let word = term
        .as_text()
        .map_or_else(|| term.to_string(), str::to_owned);
    ApplyTo::parse(&word).ok_or_else(|| PolicyFault::ApplyTo(word.into()))
}

fn parse_priority(priority: Option<&Term>) -> Result<Priority, PolicyFault> {
    match priority {
        None => Ok(Priority(0.0)),
        Some(term) => Priority::parse(term).ok_or_else(|| PolicyFault::Priority(term.clone())),
    }
}
