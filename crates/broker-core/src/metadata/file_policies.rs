//! Policies and vhost defaults that files hold: replaced whole, and what replacing them would do.
//!
//! Knows no YAML: whoever reads the files brings forms. A file's word is changed by the file only.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::{FileDefaults, FilePolicy, MetadataChange};
use super::event::MetadataEvent;
use super::record::QueueRecord;
use super::{Metadata, check_name_length, check_room};
use crate::names::VhostName;
use crate::policy::{
    Definition, POLICIES_PER_VHOST_MAX, Policy, PolicyOrigin, PolicyScope, parse_vhost_defaults,
};
use crate::refusal::Result;
use crate::settings::Origin;
use crate::term::Term;

const SCOPES: [PolicyScope; 2] = [PolicyScope::User, PolicyScope::Operator];

type Wanted = Vec<(VhostName, PolicyScope, Policy)>;

impl Metadata {
    pub(super) fn check_file_policies(
        &self,
        policies: &[FilePolicy],
        defaults: &[FileDefaults],
    ) -> Result<()> {
        self.parse_file_policies(policies)?;
        self.parse_file_defaults(defaults)?;
        Ok(())
    }

    fn parse_file_policies(&self, policies: &[FilePolicy]) -> Result<Wanted> {
        check_room(
            "policy",
            policies.len().saturating_sub(1),
            POLICIES_PER_VHOST_MAX,
        )?;
        let parse = |file: &FilePolicy| {
            let FilePolicy {
                vhost,
                scope,
                policy: form,
            } = file;
            self.vhost(vhost)?;
            check_name_length("policy", &form.name)?;
            let policy = Policy::parse(form, *scope, PolicyOrigin::File, vhost)?;
            Ok((vhost.clone(), *scope, policy))
        };
        policies.iter().map(parse).collect()
    }

    fn parse_file_defaults(
        &self,
        defaults: &[FileDefaults],
    ) -> Result<BTreeMap<VhostName, Definition>> {
        let parse = |file: &FileDefaults| {
            self.vhost(&file.vhost)?;
            let definition = parse_vhost_defaults(&file.definition, &file.vhost)?;
            Ok((file.vhost.clone(), definition))
        };
        defaults.iter().map(parse).collect()
    }

    /// Policies that a file no longer holds go; one of the same name that came through another
    /// door is taken over.
    pub(super) fn replace_file_policies(
        &mut self,
        policies: &[FilePolicy],
        defaults: &[FileDefaults],
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let wanted = self.parse_file_policies(policies)?;
        let defaults = self.parse_file_defaults(defaults)?;
        self.drop_file_policies_except(&wanted, events);
        for (vhost, scope, policy) in wanted {
            let list = self.vhost_mut(&vhost)?.policies_mut(scope);
            if list.find(&policy.name) == Some(&policy) {
                continue;
            }
            let name = policy.name.clone();
            let created = list.set(policy).is_none();
            events.push(MetadataEvent::PolicySet {
                vhost,
                scope,
                policy: name,
                created,
            });
        }
        self.replace_file_defaults(defaults, events);
        if !events.is_empty() {
            self.reconfigure_all(events);
        }
        Ok(())
    }

    fn drop_file_policies_except(&mut self, wanted: &Wanted, events: &mut Vec<MetadataEvent>) {
        for vhost in self.vhosts.values_mut() {
            for scope in SCOPES {
                let is_wanted = |name: &str| {
                    wanted.iter().any(|(in_vhost, in_scope, policy)| {
                        in_vhost == vhost.name() && *in_scope == scope && &*policy.name == name
                    })
                };
                let of_file = vhost
                    .policies(scope)
                    .iter()
                    .filter(|policy| policy.origin == PolicyOrigin::File);
                let gone: Vec<Arc<str>> = of_file
                    .filter(|policy| !is_wanted(&policy.name))
                    .map(|policy| policy.name.clone())
                    .collect();
                for policy in gone {
                    vhost.policies_mut(scope).remove(&policy);
                    let vhost = vhost.name().clone();
                    events.push(MetadataEvent::PolicyDeleted {
                        vhost,
                        scope,
                        policy,
                    });
                }
            }
        }
    }

    fn replace_file_defaults(
        &mut self,
        mut wanted: BTreeMap<VhostName, Definition>,
        events: &mut Vec<MetadataEvent>,
    ) {
        for vhost in self.vhosts.values_mut() {
            let (defaults, origin) = match wanted.remove(vhost.name()) {
                Some(defaults) => (defaults, PolicyOrigin::File),
                None if vhost.defaults_origin == PolicyOrigin::File => {
                    (Definition::new(), PolicyOrigin::Api)
                }
                None => continue,
            };
            vhost.defaults_origin = origin;
            if vhost.defaults != defaults {
                vhost.defaults = defaults;
                events.push(MetadataEvent::VhostPut {
                    vhost: vhost.name().clone(),
                    created: false,
                });
            }
        }
    }

    /// What replacing the policies of files by these would do, without doing it.
    ///
    /// # Errors
    /// Those of [`MetadataChange::ReplaceFilePolicies`].
    pub fn plan_file_policies(
        &self,
        policies: &[FilePolicy],
        defaults: &[FileDefaults],
    ) -> Result<PolicyPlan> {
        self.plan(&MetadataChange::ReplaceFilePolicies {
            policies: policies.to_vec(),
            defaults: defaults.to_vec(),
        })
    }

    fn plan(&self, change: &MetadataChange) -> Result<PolicyPlan> {
        let mut after = self.clone();
        let outcome = after.apply(change)?;
        let mut plan = PolicyPlan::default();
        for event in &outcome.events {
            match event {
                MetadataEvent::PolicySet {
                    vhost,
                    scope,
                    policy,
                    ..
                }
                | MetadataEvent::PolicyDeleted {
                    vhost,
                    scope,
                    policy,
                } => plan.policies.push(PolicyDifference {
                    vhost: vhost.clone(),
                    scope: *scope,
                    name: policy.as_ref().into(),
                    from: self.policy_term(vhost, *scope, policy),
                    to: after.policy_term(vhost, *scope, policy),
                }),
                MetadataEvent::QueueReconfigured { record } => {
                    plan.queues.extend(self.queue_plan(&after, record));
                }
                MetadataEvent::ExchangeReconfigured { record } => {
                    let before = self.vhost(&record.vhost).ok();
                    let before = before.and_then(|vhost| vhost.exchange(record.name.as_str()));
                    let policy = before.and_then(|exchange| exchange.record().policy.clone());
                    plan.exchanges.push(ObjectPlan {
                        vhost: record.vhost.clone(),
                        name: record.name.as_str().into(),
                        policy: (text(policy), text(record.policy.clone())),
                        operator_policy: (None, None),
                        values: Vec::new(),
                    });
                }
                _ => {}
            }
        }
        Ok(plan)
    }

    fn policy_term(&self, vhost: &VhostName, scope: PolicyScope, name: &str) -> Option<Term> {
        let policy = self.vhosts.get(vhost)?.policies(scope).find(name)?;
        let form = policy.form();
        let fields = [
            ("pattern", form.pattern),
            ("apply-to", form.apply_to),
            ("priority", form.priority),
            ("definition", form.definition),
        ];
        let fields = fields.into_iter().filter_map(|(key, value)| {
            let value = value?;
            Some((Box::from(key), value))
        });
        Some(Term::Map(fields.collect()))
    }

    fn queue_plan(&self, after: &Metadata, record: &QueueRecord) -> Option<ObjectPlan> {
        let before = self.queue_by_id(record.id)?;
        Some(ObjectPlan {
            vhost: record.vhost.clone(),
            name: record.name.as_str().into(),
            policy: (text(before.policy.clone()), text(record.policy.clone())),
            operator_policy: (
                text(before.operator_policy.clone()),
                text(record.operator_policy.clone()),
            ),
            values: differing(self.values_of(before), after.values_of(record)),
        })
    }

    fn values_of(&self, record: &QueueRecord) -> Values {
        let explained = self.explain_settings(record);
        let sources = explained.into_iter().flat_map(|found| found.sources);
        sources
            .map(|source| (source.key, (source.value, source.origin)))
            .collect()
    }
}

type Values = BTreeMap<&'static str, (Term, Origin)>;

fn text(name: Option<Arc<str>>) -> Option<Box<str>> {
    name.map(|name| name.as_ref().into())
}

fn differing(before: Values, after: Values) -> Vec<ValuePlan> {
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let value = |values: &Values, key| values.get(key).map(|(value, _)| value.clone());
    let plans = keys.into_iter().map(|key| ValuePlan {
        key: key.into(),
        from: value(&before, key),
        to: value(&after, key),
        origin: after.get(key).map(|(_, origin)| origin.clone()),
    });
    plans.filter(|plan| plan.from != plan.to).collect()
}

/// What a change of policies would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyPlan {
    /// Policies that are created, changed or deleted.
    pub policies: Vec<PolicyDifference>,
    /// Queues that go by another policy or by other values.
    pub queues: Vec<ObjectPlan>,
    /// Exchanges that go by another policy.
    pub exchanges: Vec<ObjectPlan>,
}

impl PolicyPlan {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.queues.is_empty() && self.exchanges.is_empty()
    }
}

/// One policy, as it is and as it would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyDifference {
    /// Its vhost.
    pub vhost: VhostName,
    /// Policy or operator policy.
    pub scope: PolicyScope,
    /// Its name.
    pub name: Box<str>,
    /// What it says; `None` if it does not exist.
    pub from: Option<Term>,
    /// What it would say; `None` if it would go.
    pub to: Option<Term>,
}

/// One queue or exchange that goes by something else, each time first what is, then what would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectPlan {
    /// Its vhost.
    pub vhost: VhostName,
    /// Its name.
    pub name: Box<str>,
    /// The policies' names.
    pub policy: (Option<Box<str>>, Option<Box<str>>),
    /// The operator policies' names.
    pub operator_policy: (Option<Box<str>>, Option<Box<str>>),
    /// Effective values that differ.
    pub values: Vec<ValuePlan>,
}

/// One effective value that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValuePlan {
    /// The policy key.
    pub key: Box<str>,
    /// As it is; `None` for the plain default.
    pub from: Option<Term>,
    /// As it would be.
    pub to: Option<Term>,
    /// Who would set it.
    pub origin: Option<Origin>,
}
