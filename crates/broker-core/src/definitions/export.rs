//! From the metadata to definitions.
//!
//! Left out are things that come by themselves (standard exchanges, implicit bindings) and things
//! that belong to one connection (exclusive queues and their bindings).

use super::{
    BindingDefinition, Definitions, ExchangeDefinition, Exporter, GlobalParameterDefinition,
    ParameterDefinition, PermissionDefinition, PolicyDefinition, QueueDefinition,
    TopicPermissionDefinition, UserDefinition, VhostDefinition, VhostMetadata,
};
use crate::metadata::{Binding, Destination, Limits, Metadata, Vhost};
use crate::names::VhostName;
use crate::policy::PolicyScope;
use crate::refusal::Result;
use crate::term::Term;

const STANDARD_PREFIX: &str = "amq.";

impl Definitions {
    /// The definitions of the whole cluster.
    pub fn of_cluster(metadata: &Metadata, exporter: &Exporter) -> Self {
        let vhosts = || metadata.vhosts();
        let of_all = |vhost: &Vhost| Some(vhost.name().clone());
        Self {
            rabbitmq_definition_format: Some("cluster".into()),
            original_cluster_name: Some(exporter.cluster_name.clone()),
            explanation: Some(format!(
                "Definitions of cluster '{}'",
                exporter.cluster_name
            )),
            permissions: Some(permissions(metadata)),
            topic_permissions: Some(topic_permissions(metadata)),
            vhosts: Some(vhosts().map(vhost_definition).collect()),
            users: Some(users(metadata)),
            global_parameters: Some(
                metadata
                    .global_parameters()
                    .map(|(name, value)| GlobalParameterDefinition {
                        name: name.into(),
                        value: value.clone(),
                    })
                    .collect(),
            ),
            exchanges: Some(vhosts().flat_map(|v| exchanges(v, &of_all(v))).collect()),
            parameters: Some(vhosts().flat_map(|v| parameters(v, &of_all(v))).collect()),
            policies: Some(vhosts().flat_map(|v| policies(v, &of_all(v))).collect()),
            queues: Some(vhosts().flat_map(|v| queues(v, &of_all(v))).collect()),
            bindings: Some(vhosts().flat_map(|v| bindings(v, &of_all(v))).collect()),
            ..Self::signed(exporter)
        }
    }

    /// The definitions of one vhost: no vhost is named in them, and no user.
    ///
    /// # Errors
    /// `VhostNotFound`.
    pub fn of_vhost(metadata: &Metadata, vhost: &VhostName, exporter: &Exporter) -> Result<Self> {
        let found = metadata.vhost(vhost)?;
        let definition = vhost_definition(found);
        Ok(Self {
            rabbitmq_definition_format: Some("single_virtual_host".into()),
            original_vhost_name: Some(vhost.clone()),
            explanation: Some(format!("Definitions of virtual host '{vhost}'")),
            description: Some(found.record().description.clone()),
            metadata: Some(definition.metadata),
            limits: definition.limits,
            exchanges: Some(exchanges(found, &None)),
            parameters: Some(parameters(found, &None)),
            policies: Some(policies(found, &None)),
            queues: Some(queues(found, &None)),
            bindings: Some(bindings(found, &None)),
            ..Self::signed(exporter)
        })
    }

    fn signed(exporter: &Exporter) -> Self {
        Self {
            rabbit_version: Some(exporter.rabbitmq_version.clone()),
            rabbitmq_version: Some(exporter.rabbitmq_version.clone()),
            product_name: Some(exporter.product_name.clone()),
            product_version: Some(exporter.product_version.clone()),
            ..Self::default()
        }
    }
}

fn users(metadata: &Metadata) -> Vec<UserDefinition> {
    metadata
        .users()
        .map(|(name, record)| UserDefinition {
            name: name.as_str().into(),
            password_hash: record.password_hash.clone(),
            hashing_algorithm: Some(record.hashing_algorithm.clone()),
            tags: Some(tags(&record.tags)),
            limits: Some(limits(metadata.user_limits(name).unwrap_or(&Limits::new()))),
        })
        .collect()
}

fn permissions(metadata: &Metadata) -> Vec<PermissionDefinition> {
    metadata
        .permissions()
        .map(|(user, vhost, record)| PermissionDefinition {
            user: user.clone(),
            vhost: vhost.clone(),
            configure: record.configure.as_str().into(),
            write: record.write.as_str().into(),
            read: record.read.as_str().into(),
        })
        .collect()
}

fn topic_permissions(metadata: &Metadata) -> Vec<TopicPermissionDefinition> {
    metadata
        .topic_permissions()
        .map(
            |(user, vhost, exchange, record)| TopicPermissionDefinition {
                user: user.clone(),
                vhost: vhost.clone(),
                exchange: exchange.clone(),
                write: record.write.as_str().into(),
                read: record.read.as_str().into(),
            },
        )
        .collect()
}

fn vhost_definition(vhost: &Vhost) -> VhostDefinition {
    let record = vhost.record();
    VhostDefinition {
        name: vhost.name().as_str().into(),
        limits: Some(limits(vhost.limits())),
        metadata: VhostMetadata {
            description: Some(record.description.clone()),
            tags: Some(tags(&record.tags)),
            default_queue_type: record.default_queue_type.map(|kind| kind.name().into()),
            protected_from_deletion: record.protected_from_deletion.then_some(true),
        },
        ..VhostDefinition::default()
    }
}

fn tags(tags: &[Box<str>]) -> Term {
    Term::List(tags.iter().map(Term::text).collect())
}

fn limits(limits: &Limits) -> Term {
    Term::Map(
        limits
            .iter()
            .map(|(name, limit)| (name.clone(), Term::Integer(*limit)))
            .collect(),
    )
}

/// Limits and operator policies are parameters, as RabbitMQ keeps them.
fn parameters(vhost: &Vhost, shown: &Option<VhostName>) -> Vec<ParameterDefinition> {
    let parameter = |component: &str, name: &str, value| ParameterDefinition {
        value,
        vhost: shown.clone(),
        component: component.into(),
        name: name.into(),
    };
    let own = vhost
        .parameters()
        .map(|p| parameter(&p.component, &p.name, p.value.clone()));
    let bounds = (!vhost.limits().is_empty())
        .then(|| parameter("vhost-limits", "limits", limits(vhost.limits())));
    let operator_policies = vhost.policies(PolicyScope::Operator).iter().map(|policy| {
        let value = Term::Map(vec![
            ("pattern".into(), Term::text(policy.pattern.as_str())),
            ("definition".into(), policy.definition_term()),
            ("priority".into(), policy.priority.term()),
            ("apply-to".into(), Term::text(policy.apply_to.name())),
        ]);
        parameter("operator_policy", &policy.name, value)
    });
    own.chain(bounds).chain(operator_policies).collect()
}

fn policies(vhost: &Vhost, shown: &Option<VhostName>) -> Vec<PolicyDefinition> {
    vhost
        .policies(PolicyScope::User)
        .iter()
        .map(|policy| PolicyDefinition {
            vhost: shown.clone(),
            form: policy.form(),
        })
        .collect()
}

fn queues(vhost: &Vhost, shown: &Option<VhostName>) -> Vec<QueueDefinition> {
    let mut queues: Vec<_> = vhost
        .queues()
        .filter(|record| record.exclusive_owner.is_none())
        .map(|record| QueueDefinition {
            name: record.name.clone(),
            vhost: shown.clone(),
            durable: record.durable,
            kind: Some(record.kind.name().into()),
            auto_delete: record.auto_delete,
            arguments: Term::from(&record.arguments),
        })
        .collect();
    queues.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    queues
}

fn exchanges(vhost: &Vhost, shown: &Option<VhostName>) -> Vec<ExchangeDefinition> {
    let is_standard = |name: &str| name.is_empty() || name.starts_with(STANDARD_PREFIX);
    let mut exchanges: Vec<_> = vhost
        .exchanges()
        .map(|exchange| exchange.record())
        .filter(|record| !is_standard(record.name.as_str()))
        .map(|record| ExchangeDefinition {
            name: record.name.clone(),
            vhost: shown.clone(),
            kind: record.kind.name().into(),
            durable: record.durable,
            auto_delete: record.auto_delete,
            internal: record.internal,
            arguments: Term::from(&record.arguments),
        })
        .collect();
    exchanges.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    exchanges
}

fn bindings(vhost: &Vhost, shown: &Option<VhostName>) -> Vec<BindingDefinition> {
    let belongs_to_connection = |binding: &Binding| match &binding.destination {
        Destination::Queue(queue) => vhost
            .queue(queue.as_str())
            .is_some_and(|record| record.exclusive_owner.is_some()),
        Destination::Exchange(_) => false,
    };
    let mut bindings: Vec<_> = vhost
        .bindings()
        .filter(|binding| !belongs_to_connection(binding))
        .collect();
    // Stable, so that bindings of one exchange stay in the order in which they were made.
    bindings.sort_by(|one, other| one.source.cmp(&other.source));
    bindings
        .iter()
        .map(|binding| BindingDefinition {
            source: binding.source.clone(),
            vhost: shown.clone(),
            destination: binding.destination.name().into(),
            destination_type: binding.destination.kind(),
            routing_key: binding.key.as_ref().into(),
            arguments: Term::from(&binding.arguments),
        })
        .collect()
}
