//! The whole topology as plain lists, for storage. What can be computed again is left out.
//!
//! Stored for ever: fields are added with defaults, never renamed.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use super::record::{
    Binding, ExchangeRecord, Limits, Parameter, QueueRecord, UserRecord, VhostRecord,
};
use super::vhost::Vhost;
use super::{Defaults, Metadata, PlainSettings, QueueId, User};
use crate::names::{ExchangeName, UserName, VhostName};
use crate::policy::{Definition, Policy, PolicyForm, PolicyOrigin, PolicyScope};
use crate::refusal::{Refusal, Result};
use crate::term::Term;

/// Everything that `Metadata` must remember.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetadataSnapshot {
    defaults: Defaults,
    users: Vec<StoredUser>,
    vhosts: Vec<StoredVhost>,
    permissions: Vec<StoredPermission>,
    topic_permissions: Vec<StoredTopicPermission>,
    global_parameters: Vec<(Box<str>, Term)>,
    next_queue: u64,
    next_binding: u64,
    version: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredUser {
    name: UserName,
    record: UserRecord,
    #[serde(default)]
    limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredVhost {
    name: VhostName,
    record: VhostRecord,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    defaults: Definition,
    #[serde(default)]
    defaults_origin: PolicyOrigin,
    #[serde(default)]
    policies: Vec<StoredPolicy>,
    #[serde(default)]
    parameters: Vec<Parameter>,
    exchanges: Vec<Arc<ExchangeRecord>>,
    /// In the order of their ids.
    queues: Vec<Arc<QueueRecord>>,
    /// In the order in which they were made, with their sequence.
    bindings: Vec<(u64, Arc<Binding>)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredPolicy {
    scope: PolicyScope,
    #[serde(default)]
    origin: PolicyOrigin,
    form: PolicyForm,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredPermission {
    user: UserName,
    vhost: VhostName,
    configure: Box<str>,
    write: Box<str>,
    read: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredTopicPermission {
    user: UserName,
    vhost: VhostName,
    exchange: ExchangeName,
    write: Box<str>,
    read: Box<str>,
}

impl Metadata {
    /// The whole value as plain lists.
    pub fn snapshot(&self) -> MetadataSnapshot {
        MetadataSnapshot {
            defaults: self.defaults,
            users: self
                .users
                .iter()
                .map(|(name, user)| StoredUser {
                    name: name.clone(),
                    record: user.record.clone(),
                    limits: user.limits.clone(),
                })
                .collect(),
            vhosts: self.vhosts.values().map(store_vhost).collect(),
            permissions: self
                .permissions()
                .map(|(user, vhost, record)| StoredPermission {
                    user: user.clone(),
                    vhost: vhost.clone(),
                    configure: record.configure.as_str().into(),
                    write: record.write.as_str().into(),
                    read: record.read.as_str().into(),
                })
                .collect(),
            topic_permissions: self
                .topic_permissions()
                .map(|(user, vhost, exchange, record)| StoredTopicPermission {
                    user: user.clone(),
                    vhost: vhost.clone(),
                    exchange: exchange.clone(),
                    write: record.write.as_str().into(),
                    read: record.read.as_str().into(),
                })
                .collect(),
            global_parameters: self
                .global_parameters
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            next_queue: self.next_queue,
            next_binding: self.next_binding,
            version: self.version,
        }
    }

    /// The value that a snapshot was taken of.
    ///
    /// # Errors
    /// A refusal of the first thing that the rules do not understand.
    pub fn restore(snapshot: MetadataSnapshot) -> Result<Self> {
        let mut restored = Self {
            defaults: snapshot.defaults,
            plain_settings: PlainSettings::of(&snapshot.defaults),
            next_queue: snapshot.next_queue,
            next_binding: snapshot.next_binding,
            version: snapshot.version,
            global_parameters: snapshot.global_parameters.into_iter().collect(),
            ..Self::default()
        };
        for StoredUser {
            name,
            record,
            limits,
        } in snapshot.users
        {
            restored.users.insert(name, User { record, limits });
        }
        for vhost in snapshot.vhosts {
            restored.restore_vhost(vhost)?;
        }
        for stored in snapshot.permissions {
            let StoredPermission {
                user,
                vhost,
                configure,
                write,
                read,
            } = &stored;
            let record = restored.parse_permission(user, vhost, configure, write, read)?;
            restored.set_permission(user, vhost, record, &mut Vec::new());
        }
        for stored in snapshot.topic_permissions {
            let StoredTopicPermission {
                user,
                vhost,
                exchange,
                write,
                read,
            } = &stored;
            let record = restored.parse_topic_permission(user, vhost, write, read)?;
            restored.set_topic_permission(user, vhost, exchange, record, &mut Vec::new());
        }
        // Whoever kept verdicts of the value before this one must drop them.
        restored.permission_version += restored.version;
        Ok(restored)
    }

    /// Computes every setting again, from arguments, policies and defaults. Restoring has done so.
    pub fn recompute(&mut self) {
        self.plain_settings = PlainSettings::of(&self.defaults);
        self.reconfigure_all(&mut Vec::new());
    }

    fn restore_vhost(&mut self, stored: StoredVhost) -> Result<()> {
        let mut vhost = Vhost::new(stored.name.clone(), stored.record);
        vhost.limits = stored.limits;
        vhost.defaults = stored.defaults;
        vhost.defaults_origin = stored.defaults_origin;
        vhost.parameters = stored
            .parameters
            .into_iter()
            .map(|parameter| {
                (
                    (parameter.component.clone(), parameter.name.clone()),
                    parameter,
                )
            })
            .collect();
        for StoredPolicy {
            scope,
            origin,
            form,
        } in stored.policies
        {
            let policy = Policy::parse(&form, scope, origin, &stored.name)?;
            vhost.policies_mut(scope).set(policy);
        }
        self.exchange_count += stored.exchanges.len();
        for record in stored.exchanges {
            let record = super::exchange::with_policy((*record).clone(), &vhost);
            vhost.put_exchange(Arc::new(record));
        }
        self.vhosts.insert(stored.name.clone(), vhost);
        self.add_standard_exchanges(&stored.name);
        for record in stored.queues {
            let record = Arc::new(self.configured((*record).clone()));
            self.put_queue(record);
        }
        for (sequence, binding) in stored.bindings {
            self.restore_binding(&stored.name, sequence, binding)?;
        }
        Ok(())
    }

    fn restore_binding(
        &mut self,
        vhost: &VhostName,
        sequence: u64,
        binding: Arc<Binding>,
    ) -> Result<()> {
        let into = self.vhost_mut(vhost)?;
        let source = into.exchange_slot(binding.source.as_str());
        let target = into.target(&binding.destination);
        let (Some(source), Some(target)) = (source, target) else {
            return Err(Refusal::Broken {
                what: format!("a stored binding of vhost '{vhost}' has no ends: {binding:?}")
                    .into(),
            });
        };
        into.put_binding(source, target, binding, sequence);
        self.binding_count += 1;
        Ok(())
    }
}

fn store_vhost(vhost: &Vhost) -> StoredVhost {
    let mut queues: Vec<_> = vhost.queues().cloned().collect();
    queues.sort_unstable_by_key(|record: &Arc<QueueRecord>| -> QueueId { record.id });
    let mut exchanges: Vec<_> = vhost
        .exchanges()
        .map(|exchange| exchange.record().clone())
        .collect();
    exchanges.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let mut bindings: Vec<_> = vhost
        .exchanges()
        .flat_map(|exchange| exchange.outgoing())
        .map(|(sequence, binding)| (sequence, binding.clone()))
        .collect();
    bindings.sort_unstable_by_key(|(sequence, _)| *sequence);
    let stored_policies = |scope| {
        vhost
            .policies(scope)
            .iter()
            .map(move |policy| StoredPolicy {
                scope,
                origin: policy.origin,
                form: policy.form(),
            })
    };
    StoredVhost {
        name: vhost.name().clone(),
        record: vhost.record.clone(),
        limits: vhost.limits.clone(),
        defaults: vhost.defaults.clone(),
        defaults_origin: vhost.defaults_origin,
        policies: stored_policies(PolicyScope::User)
            .chain(stored_policies(PolicyScope::Operator))
            .collect(),
        parameters: vhost.parameters.values().cloned().collect(),
        exchanges,
        queues,
        bindings,
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.snapshot().serialize(serializer)
    }
}

impl TryFrom<MetadataSnapshot> for Metadata {
    type Error = Refusal;

    fn try_from(snapshot: MetadataSnapshot) -> Result<Self> {
        Self::restore(snapshot)
    }
}
