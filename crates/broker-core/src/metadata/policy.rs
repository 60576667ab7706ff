//! Policies are set and deleted, and everything that they touch goes by its new settings.

use std::sync::Arc;

use super::event::MetadataEvent;
use super::exchange::with_policy;
use super::record::{QueueId, QueueRecord};
use super::vhost::Vhost;
use super::{Metadata, check_name_length, check_room};
use crate::names::VhostName;
use crate::policy::{
    Definition, EffectiveDefinition, EffectiveSettings, POLICIES_PER_VHOST_MAX, Policy, PolicyForm,
    PolicyOrigin, PolicyScope, Say, VHOST_DEFAULTS, effective_settings, merge_definitions,
    parse_vhost_defaults,
};
use crate::refusal::{Refusal, Result};
use crate::settings::{QueueKind, QueueSettings};
use crate::term::Term;

impl Metadata {
    /// A queue's settings with the origin of each value.
    pub fn explain_settings(&self, record: &QueueRecord) -> Option<EffectiveSettings> {
        let vhost = self.vhosts.get(&record.vhost)?;
        Some(effective_settings(self.say(vhost, record)))
    }

    /// Policy and operator policy of a queue in one, as the HTTP API shows them.
    pub fn queue_policy_definition(&self, record: &QueueRecord) -> EffectiveDefinition {
        let Some(vhost) = self.vhosts.get(&record.vhost) else {
            return Default::default();
        };
        let find = |scope, name: &Option<Arc<str>>| {
            name.as_deref()
                .and_then(|name| vhost.policies(scope).find(name))
        };
        merge_definitions(
            find(PolicyScope::User, &record.policy),
            find(PolicyScope::Operator, &record.operator_policy),
        )
    }

    /// The record as policies, arguments and defaults want it.
    pub(super) fn configured(&self, mut record: QueueRecord) -> QueueRecord {
        let Some(vhost) = self.vhosts.get(&record.vhost) else {
            return record;
        };
        let (name, kind) = (record.name.as_str(), record.kind);
        let policy_name = |scope| {
            vhost
                .policies(scope)
                .for_queue(name, kind)
                .map(|policy: &Policy| policy.name.clone())
        };
        record.policy = policy_name(PolicyScope::User);
        record.operator_policy = policy_name(PolicyScope::Operator);
        record.settings = self.settings_of(vhost, &record);
        record
    }

    /// Most queues have nothing but their type: they share one value.
    fn settings_of(&self, vhost: &Vhost, record: &QueueRecord) -> Arc<QueueSettings> {
        let is_plain = record.policy.is_none()
            && record.operator_policy.is_none()
            && vhost.defaults.is_empty()
            && record.arguments.len() <= 1;
        match (is_plain, record.kind) {
            (true, QueueKind::Classic) => self.plain_settings.classic.clone(),
            (true, QueueKind::Quorum) => self.plain_settings.quorum.clone(),
            (false, _) => Arc::new(effective_settings(self.say(vhost, record)).settings),
        }
    }

    fn say<'a>(&'a self, vhost: &'a Vhost, record: &'a QueueRecord) -> Say<'a> {
        let find = |scope, name: &Option<Arc<str>>| {
            name.as_deref()
                .and_then(|name| vhost.policies(scope).find(name))
        };
        Say {
            kind: record.kind,
            arguments: &record.arguments,
            policy: find(PolicyScope::User, &record.policy),
            operator: find(PolicyScope::Operator, &record.operator_policy),
            vhost_defaults: &vhost.defaults,
            defaults: &self.defaults.quorum,
        }
    }

    pub(super) fn parse_policy(
        &self,
        vhost: &VhostName,
        scope: PolicyScope,
        form: &PolicyForm,
    ) -> Result<Policy> {
        let list = self.vhost(vhost)?.policies(scope);
        check_name_length("policy", &form.name)?;
        let policy = Policy::parse(form, scope, PolicyOrigin::Api, vhost)?;
        match list.find(&form.name) {
            Some(current) => check_writable(current, vhost)?,
            None => check_room("policy", list.len(), POLICIES_PER_VHOST_MAX)?,
        }
        Ok(policy)
    }

    pub(super) fn set_policy(
        &mut self,
        vhost: &VhostName,
        scope: PolicyScope,
        policy: Policy,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let name = policy.name.clone();
        let old = self.vhost_mut(vhost)?.policies_mut(scope).set(policy);
        events.push(MetadataEvent::PolicySet {
            vhost: vhost.clone(),
            scope,
            policy: name,
            created: old.is_none(),
        });
        self.reconfigure(vhost, events);
        Ok(())
    }

    pub(super) fn check_delete_policy(
        &self,
        vhost: &VhostName,
        scope: PolicyScope,
        name: &str,
    ) -> Result<()> {
        match self.vhost(vhost)?.policies(scope).find(name) {
            Some(policy) => check_writable(policy, vhost),
            None => Ok(()),
        }
    }

    pub(super) fn delete_policy(
        &mut self,
        vhost: &VhostName,
        scope: PolicyScope,
        name: &str,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.check_delete_policy(vhost, scope, name)?;
        let Some(gone) = self.vhost_mut(vhost)?.policies_mut(scope).remove(name) else {
            return Ok(());
        };
        let policy = gone.name;
        events.push(MetadataEvent::PolicyDeleted {
            vhost: vhost.clone(),
            scope,
            policy,
        });
        self.reconfigure(vhost, events);
        Ok(())
    }

    pub(super) fn parse_vhost_defaults(
        &self,
        vhost: &VhostName,
        definition: &Term,
    ) -> Result<Definition> {
        if self.vhost(vhost)?.defaults_origin == PolicyOrigin::File {
            return Err(Refusal::PolicyReadOnly {
                policy: VHOST_DEFAULTS.into(),
                vhost: vhost.clone(),
            });
        }
        parse_vhost_defaults(definition, vhost)
    }

    pub(super) fn set_vhost_defaults(
        &mut self,
        vhost: &VhostName,
        definition: &Term,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let defaults = self.parse_vhost_defaults(vhost, definition)?;
        let current = &mut self.vhost_mut(vhost)?.defaults;
        if *current == defaults {
            return Ok(());
        }
        *current = defaults;
        events.push(MetadataEvent::VhostPut {
            vhost: vhost.clone(),
            created: false,
        });
        self.reconfigure(vhost, events);
        Ok(())
    }

    pub(super) fn reconfigure_all(&mut self, events: &mut Vec<MetadataEvent>) {
        let vhosts: Vec<VhostName> = self.vhosts.keys().cloned().collect();
        for vhost in vhosts {
            self.reconfigure(&vhost, events);
        }
    }

    /// Gives every queue and exchange of a vhost the settings that hold now, and reports those
    /// that change.
    pub(super) fn reconfigure(&mut self, vhost: &VhostName, events: &mut Vec<MetadataEvent>) {
        self.reconfigure_queues(vhost, events);
        self.reconfigure_exchanges(vhost, events);
    }

    fn reconfigure_queues(&mut self, vhost: &VhostName, events: &mut Vec<MetadataEvent>) {
        let Some(found) = self.vhosts.get(vhost) else {
            return;
        };
        let mut ids: Vec<QueueId> = found.queues().map(|record| record.id).collect();
        ids.sort_unstable();
        for id in ids {
            let Some(current) = self.queues.get(&id) else {
                continue;
            };
            let wanted = self.configured(QueueRecord::clone(current));
            if wanted == **current {
                continue;
            }
            let record = Arc::new(wanted);
            self.queues.insert(id, record.clone());
            if let Some(vhost) = self.vhosts.get_mut(vhost) {
                vhost.update_queue(record.clone());
            }
            events.push(MetadataEvent::QueueReconfigured { record });
        }
    }

    fn reconfigure_exchanges(&mut self, vhost: &VhostName, events: &mut Vec<MetadataEvent>) {
        let Some(found) = self.vhosts.get_mut(vhost) else {
            return;
        };
        let mut changed: Vec<_> = found
            .exchanges()
            .filter_map(|exchange| {
                let current = exchange.record();
                let wanted = with_policy((**current).clone(), found);
                (wanted != **current).then(|| Arc::new(wanted))
            })
            .collect();
        changed.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        for record in changed {
            found.update_exchange(record.clone());
            events.push(MetadataEvent::ExchangeReconfigured { record });
        }
    }
}

/// What a file holds is changed by the file only.
fn check_writable(policy: &Policy, vhost: &VhostName) -> Result<()> {
    match policy.origin {
        PolicyOrigin::Api => Ok(()),
        PolicyOrigin::File => Err(Refusal::PolicyReadOnly {
            policy: policy.name.as_ref().into(),
            vhost: vhost.clone(),
        }),
    }
}
