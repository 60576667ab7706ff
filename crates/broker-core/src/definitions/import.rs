//! From definitions to changes.
//!
//! Importing adds and updates, never deletes: queues and exchanges that exist are left as they are
//! and are not compared. Applying the changes in order gives what the definitions say.

use amqp::Table;

use super::{
    BindingDefinition, Definitions, ParameterDefinition, UserDefinition, VhostDefinition,
    VhostMetadata,
};
use crate::arguments::QUEUE_TYPE;
use crate::metadata::{
    Destination, Metadata, MetadataChange, NodeId, QueueDeclaration, Vhost, VhostRecord,
};
use crate::names::{ExchangeName, QueueName, UserName, VhostName};
use crate::policy::{PolicyForm, PolicyOrigin, PolicyScope};
use crate::refusal::{Refusal, ResourceKind, Result};
use crate::settings::QueueKind;
use crate::term::Term;

/// The hash that a user record is taken to have when it names none.
const HASHING_ALGORITHM_DEFAULT: &str = "rabbit_password_hashing_sha256";

/// The node's word on what an import makes.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: NodeId,
    groups: u32,
}

impl Definitions {
    /// The changes that bring the metadata to what these definitions of a cluster say. `node` and
    /// `groups` are those of a `QueueDeclaration`.
    ///
    /// # Errors
    /// `DefinitionsVhostMissing` for an element of a vhost that neither exists nor is defined;
    /// `InvalidQueueType`. Everything else shows when the changes are applied.
    pub fn changes(
        &self,
        metadata: &Metadata,
        node: NodeId,
        groups: u32,
    ) -> Result<Vec<MetadataChange>> {
        let mut import = Import::new(metadata, None, Place { node, groups });
        import.users(self.users.as_deref().unwrap_or_default());
        import.vhosts(self.vhosts.as_deref().unwrap_or_default())?;
        import.permissions(self)?;
        import.in_vhosts(self)?;
        Ok(import.changes)
    }

    /// The changes that bring one vhost to what these definitions say; vhosts that they name are
    /// ignored, users and permissions as well.
    ///
    /// # Errors
    /// `DefinitionsVhostMissing`.
    pub fn changes_in(
        &self,
        metadata: &Metadata,
        vhost: &VhostName,
        node: NodeId,
        groups: u32,
    ) -> Result<Vec<MetadataChange>> {
        let mut import = Import::new(metadata, Some(vhost.clone()), Place { node, groups });
        import.vhost_of(None)?;
        import.in_vhosts(self)?;
        Ok(import.changes)
    }
}

struct Import<'a> {
    metadata: &'a Metadata,
    /// The one vhost that everything goes into.
    into: Option<VhostName>,
    place: Place,
    /// Vhosts that the definitions bring.
    defined: Vec<VhostName>,
    changes: Vec<MetadataChange>,
}

impl<'a> Import<'a> {
    fn new(metadata: &'a Metadata, into: Option<VhostName>, place: Place) -> Self {
        Self {
            metadata,
            into,
            place,
            defined: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// The vhost of an element, which must be there.
    fn vhost_of(&self, named: Option<&VhostName>) -> Result<VhostName> {
        let vhost = self
            .into
            .as_ref()
            .or(named)
            .cloned()
            .unwrap_or_else(|| VhostName::new(""));
        if self.defined.contains(&vhost) || self.metadata.vhost(&vhost).is_ok() {
            return Ok(vhost);
        }
        Err(Refusal::DefinitionsVhostMissing { vhost })
    }

    fn existing(&self, vhost: &VhostName) -> Option<&'a Vhost> {
        self.metadata.vhost(vhost).ok()
    }

    fn users(&mut self, users: &[UserDefinition]) {
        for definition in users {
            let user = UserName::new(&definition.name);
            let algorithm = definition.hashing_algorithm.as_deref();
            self.changes.push(MetadataChange::PutUser {
                user: user.clone(),
                password_hash: definition.password_hash.clone(),
                hashing_algorithm: algorithm.unwrap_or(HASHING_ALGORITHM_DEFAULT).into(),
                tags: definition.tags.as_ref().map(parse_tags).unwrap_or_default(),
            });
            if let Some(limits) = &definition.limits {
                self.changes.push(MetadataChange::SetUserLimits {
                    user,
                    limits: limits.clone(),
                });
            }
        }
    }

    fn vhosts(&mut self, vhosts: &[VhostDefinition]) -> Result<()> {
        for definition in vhosts {
            let vhost = VhostName::new(&definition.name);
            let mut record = vhost_record(definition)?;
            record.tracing = self
                .existing(&vhost)
                .is_some_and(|found| found.record().tracing);
            self.changes.push(MetadataChange::PutVhost {
                vhost: vhost.clone(),
                record,
            });
            if let Some(limits) = &definition.limits {
                let (vhost, limits) = (vhost.clone(), limits.clone());
                self.changes
                    .push(MetadataChange::SetVhostLimits { vhost, limits });
            }
            self.defined.push(vhost);
        }
        Ok(())
    }

    fn permissions(&mut self, definitions: &Definitions) -> Result<()> {
        for permission in definitions.permissions.iter().flatten() {
            let vhost = self.vhost_of(Some(&permission.vhost))?;
            self.changes.push(MetadataChange::SetPermission {
                user: permission.user.clone(),
                vhost,
                configure: permission.configure.clone(),
                write: permission.write.clone(),
                read: permission.read.clone(),
            });
        }
        for permission in definitions.topic_permissions.iter().flatten() {
            let vhost = self.vhost_of(Some(&permission.vhost))?;
            self.changes.push(MetadataChange::SetTopicPermission {
                user: permission.user.clone(),
                vhost,
                exchange: permission.exchange.clone(),
                write: permission.write.clone(),
                read: permission.read.clone(),
            });
        }
        for parameter in definitions.global_parameters.iter().flatten() {
            self.changes.push(MetadataChange::SetGlobalParameter {
                name: parameter.name.clone(),
                value: parameter.value.clone(),
            });
        }
        Ok(())
    }

    fn in_vhosts(&mut self, definitions: &Definitions) -> Result<()> {
        for parameter in definitions.parameters.iter().flatten() {
            self.parameter(parameter)?;
        }
        for policy in definitions.policies.iter().flatten() {
            let vhost = self.vhost_of(policy.vhost.as_ref())?;
            self.policy(vhost, PolicyScope::User, policy.form.clone());
        }
        self.exchanges(definitions)?;
        self.queues(definitions)?;
        for binding in definitions.bindings.iter().flatten() {
            self.binding(binding)?;
        }
        Ok(())
    }

    fn parameter(&mut self, parameter: &ParameterDefinition) -> Result<()> {
        let vhost = self.vhost_of(parameter.vhost.as_ref())?;
        let value = parameter.value.clone();
        match &*parameter.component {
            "vhost-limits" => {
                self.changes.push(MetadataChange::SetVhostLimits {
                    vhost,
                    limits: value,
                });
            }
            "operator_policy" => {
                let form = policy_form(&parameter.name, &value);
                self.policy(vhost, PolicyScope::Operator, form);
            }
            _ => self.changes.push(MetadataChange::SetParameter {
                component: parameter.component.clone(),
                vhost,
                name: parameter.name.clone(),
                value,
            }),
        }
        Ok(())
    }

    /// What a file holds stays the file's.
    fn policy(&mut self, vhost: VhostName, scope: PolicyScope, policy: PolicyForm) {
        let is_of_file = self
            .existing(&vhost)
            .and_then(|found| found.policies(scope).find(&policy.name))
            .is_some_and(|current| current.origin == PolicyOrigin::File);
        if !is_of_file {
            self.changes.push(MetadataChange::SetPolicy {
                vhost,
                scope,
                policy,
            });
        }
    }

    fn exchanges(&mut self, definitions: &Definitions) -> Result<()> {
        for exchange in definitions.exchanges.iter().flatten() {
            let vhost = self.vhost_of(exchange.vhost.as_ref())?;
            let exists = self
                .existing(&vhost)
                .is_some_and(|found| found.exchange(exchange.name.as_str()).is_some());
            if !exists {
                self.changes.push(MetadataChange::DeclareExchange {
                    vhost,
                    exchange: exchange.name.clone(),
                    exchange_type: exchange.kind.clone(),
                    durable: exchange.durable,
                    auto_delete: exchange.auto_delete,
                    internal: exchange.internal,
                    arguments: exchange.arguments.to_table(),
                });
            }
        }
        Ok(())
    }

    fn queues(&mut self, definitions: &Definitions) -> Result<()> {
        for queue in definitions.queues.iter().flatten() {
            let vhost = self.vhost_of(queue.vhost.as_ref())?;
            let exists = self
                .existing(&vhost)
                .is_some_and(|found| found.queue(queue.name.as_str()).is_some());
            if !exists {
                self.changes
                    .push(MetadataChange::DeclareQueue(QueueDeclaration {
                        vhost,
                        queue: queue.name.clone(),
                        // A name that a broker made once is taken as it is.
                        server_named: queue.name.as_str().starts_with("amq."),
                        durable: queue.durable,
                        exclusive: false,
                        auto_delete: queue.auto_delete,
                        arguments: queue_arguments(&queue.arguments, queue.kind.as_deref()),
                        connection: None,
                        user: None,
                        node: self.place.node,
                        groups: self.place.groups,
                    }));
            }
        }
        Ok(())
    }

    fn binding(&mut self, binding: &BindingDefinition) -> Result<()> {
        let vhost = self.vhost_of(binding.vhost.as_ref())?;
        let destination = match binding.destination_type {
            ResourceKind::Queue => Destination::Queue(QueueName::new(&binding.destination)),
            ResourceKind::Exchange => {
                Destination::Exchange(ExchangeName::new(&binding.destination))
            }
        };
        self.changes.push(MetadataChange::Bind {
            vhost,
            source: binding.source.clone(),
            destination,
            key: binding.routing_key.clone(),
            arguments: binding.arguments.to_table(),
            connection: None,
        });
        Ok(())
    }
}

/// Tags as a list of strings, or as one string with commas.
pub fn parse_tags(tags: &Term) -> Vec<Box<str>> {
    let words: Vec<&str> = match tags {
        Term::Text(text) => text.split(',').collect(),
        Term::List(tags) => tags.iter().filter_map(Term::as_text).collect(),
        _ => Vec::new(),
    };
    words
        .into_iter()
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(Into::into)
        .collect()
}

fn vhost_record(definition: &VhostDefinition) -> Result<VhostRecord> {
    let VhostMetadata {
        description,
        tags,
        default_queue_type,
        protected_from_deletion,
    } = &definition.metadata;
    let queue_type = default_queue_type
        .as_deref()
        .or(definition.default_queue_type.as_deref());
    Ok(VhostRecord {
        description: description
            .as_ref()
            .or(definition.description.as_ref())
            .cloned()
            .unwrap_or_default(),
        tags: tags
            .as_ref()
            .or(definition.tags.as_ref())
            .map(parse_tags)
            .unwrap_or_default(),
        default_queue_type: parse_default_queue_type(queue_type)?,
        protected_from_deletion: protected_from_deletion.unwrap_or_default(),
        tracing: false,
    })
}

/// The default queue type that an operator names; `undefined` names none.
///
/// # Errors
/// `InvalidQueueType`.
pub fn parse_default_queue_type(name: Option<&str>) -> Result<Option<QueueKind>> {
    match name {
        None | Some("" | "undefined") => Ok(None),
        Some("classic") => Ok(Some(QueueKind::Classic)),
        Some("quorum") => Ok(Some(QueueKind::Quorum)),
        Some(other) => Err(Refusal::InvalidQueueType {
            queue_type: other.into(),
        }),
    }
}

fn policy_form(name: &str, value: &Term) -> PolicyForm {
    PolicyForm {
        name: name.into(),
        pattern: value.get("pattern").cloned(),
        apply_to: value.get("apply-to").cloned(),
        definition: value.get("definition").cloned(),
        priority: value.get("priority").cloned(),
    }
}

fn queue_arguments(arguments: &Term, kind: Option<&str>) -> Table {
    let mut table = arguments.to_table();
    if let Some(kind) = kind
        && !table.contains_key(QUEUE_TYPE)
    {
        table.insert(QUEUE_TYPE, kind);
    }
    table
}
