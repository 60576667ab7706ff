//! Definitions: the topology as RabbitMQ's tools write it to files and read it back.
//!
//! The shapes are RabbitMQ's, field names and order included. Export reads the metadata, import
//! gives changes to apply; neither touches anything. Knows no format: the shells bring theirs.

mod export;
mod import;

use serde::{Deserialize, Serialize};

pub use import::{parse_default_queue_type, parse_tags};

use crate::names::{ExchangeName, QueueName, UserName, VhostName};
use crate::policy::PolicyForm;
use crate::refusal::ResourceKind;
use crate::term::Term;

/// The definitions of a cluster, or of one vhost. Sections that are `None` are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Definitions {
    /// The level of RabbitMQ that wrote them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rabbit_version: Option<String>,
    /// The same again, as newer files have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rabbitmq_version: Option<String>,
    /// The program that wrote them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_name: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_version: Option<String>,
    /// `cluster` or `single_virtual_host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rabbitmq_definition_format: Option<String>,
    /// The cluster that they come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_cluster_name: Option<String>,
    /// The vhost that they come from, when they are of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_vhost_name: Option<VhostName>,
    /// For people who open the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// Of the one vhost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
    /// Of the one vhost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<VhostMetadata>,
    /// Of the one vhost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Term>,
    /// What users may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<PermissionDefinition>>,
    /// All but the standard ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<Vec<ExchangeDefinition>>,
    /// Vhosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vhosts: Option<Vec<VhostDefinition>>,
    /// Users, with hashes of their passwords.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<UserDefinition>>,
    /// Parameters of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_parameters: Option<Vec<GlobalParameterDefinition>>,
    /// Parameters, limits of vhosts and operator policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<ParameterDefinition>>,
    /// Policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<PolicyDefinition>>,
    /// What users may do with keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_permissions: Option<Vec<TopicPermissionDefinition>>,
    /// All but exclusive ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<QueueDefinition>>,
    /// All but the implicit ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bindings: Option<Vec<BindingDefinition>>,
}

/// Who writes definitions, for their head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exporter {
    /// The level of RabbitMQ that is spoken.
    pub rabbitmq_version: String,
    /// The program.
    pub product_name: String,
    /// Its version.
    pub product_version: String,
    /// The cluster.
    pub cluster_name: String,
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserDefinition {
    /// Name.
    pub name: Box<str>,
    /// Base64 of salt and hash; empty for no password.
    pub password_hash: Box<str>,
    /// `rabbit_password_hashing_sha256` when missing.
    pub hashing_algorithm: Option<Box<str>>,
    /// A list, or in older files a string with commas.
    pub tags: Option<Term>,
    /// Limits.
    pub limits: Option<Term>,
}

/// A vhost. Older files have the fields of `metadata` beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VhostDefinition {
    /// Name.
    pub name: Box<str>,
    /// Limits: a map, or in older files an empty list.
    pub limits: Option<Term>,
    /// What an operator says of it.
    pub metadata: VhostMetadata,
    /// As in older files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
    /// As in older files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Term>,
    /// As in older files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_queue_type: Option<Box<str>>,
}

/// What an operator says of a vhost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VhostMetadata {
    /// For people.
    pub description: Option<Box<str>>,
    /// For people.
    pub tags: Option<Term>,
    /// The type of queues that do not name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_queue_type: Option<Box<str>>,
    /// Not deleted while this is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected_from_deletion: Option<bool>,
}

/// A permission record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionDefinition {
    /// Whose.
    pub user: UserName,
    /// Where.
    pub vhost: VhostName,
    /// Pattern.
    pub configure: Box<str>,
    /// Pattern.
    pub write: Box<str>,
    /// Pattern.
    pub read: Box<str>,
}

/// A topic permission record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicPermissionDefinition {
    /// Whose.
    pub user: UserName,
    /// Where.
    pub vhost: VhostName,
    /// Of which exchange.
    pub exchange: ExchangeName,
    /// Pattern.
    pub write: Box<str>,
    /// Pattern.
    pub read: Box<str>,
}

/// A runtime parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterDefinition {
    /// The value.
    pub value: Term,
    /// Its vhost; left out in definitions of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost: Option<VhostName>,
    /// Whose it is.
    pub component: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

/// A parameter of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GlobalParameterDefinition {
    /// Its name.
    pub name: Box<str>,
    /// The value.
    pub value: Term,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyDefinition {
    /// Its vhost; left out in definitions of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost: Option<VhostName>,
    /// What it says.
    #[serde(flatten)]
    pub form: PolicyForm,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueDefinition {
    /// Name.
    pub name: QueueName,
    /// Its vhost; left out in definitions of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost: Option<VhostName>,
    /// Outlives a restart.
    pub durable: bool,
    /// Its type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<str>>,
    /// Deleted with its last consumer.
    #[serde(default)]
    pub auto_delete: bool,
    /// A map.
    #[serde(default = "empty_map")]
    pub arguments: Term,
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExchangeDefinition {
    /// Name.
    pub name: ExchangeName,
    /// Its vhost; left out in definitions of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost: Option<VhostName>,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// Outlives a restart.
    pub durable: bool,
    /// Deleted with its last binding.
    #[serde(default)]
    pub auto_delete: bool,
    /// Not for publishers.
    #[serde(default)]
    pub internal: bool,
    /// A map.
    #[serde(default = "empty_map")]
    pub arguments: Term,
}

/// A binding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BindingDefinition {
    /// The exchange that messages come from.
    pub source: ExchangeName,
    /// Its vhost; left out in definitions of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost: Option<VhostName>,
    /// Where they go.
    pub destination: Box<str>,
    /// What that is.
    pub destination_type: ResourceKind,
    /// The binding key.
    #[serde(default)]
    pub routing_key: Box<str>,
    /// A map.
    #[serde(default = "empty_map")]
    pub arguments: Term,
}

fn empty_map() -> Term {
    Term::Map(Vec::new())
}

#[cfg(test)]
mod tests;
