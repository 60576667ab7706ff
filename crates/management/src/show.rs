//! From what the broker keeps to the shapes of the API.

mod client;
mod disk;
mod flow;
pub(crate) mod stats;
mod topology;
mod trouble;

pub(crate) use client::{channel, channel_details, connection, consumer, user_connection};
pub(crate) use disk::{disk, queue_disk};
pub(crate) use flow::{channel_hold, queue_flow};
pub(crate) use topology::{
    QueueDetail, binding, exchange, implicit_binding, properties_key, queue, vhost,
};
pub(crate) use trouble::{REASONS, incident};

use std::collections::BTreeMap;

use broker_core::metadata::{Limits, PermissionRecord, TopicPermissionRecord, UserRecord};
use broker_core::policy::{Policy, PolicyOrigin};
use broker_core::term::Term;
use broker_core::{ExchangeName, UserName, VhostName};
use serde::Serialize;
use serde_json::Value;

/// A shape as JSON.
pub(crate) fn json(shape: &impl Serialize) -> Value {
    // Shapes have string keys and no failing parts, so they can always be written.
    serde_json::to_value(shape).unwrap_or_default()
}

/// A value of the rules as JSON.
pub(crate) fn term(term: &Term) -> Value {
    json(term)
}

/// A table of arguments as JSON.
pub(crate) fn table(table: &amqp::Table) -> Value {
    json(&Term::from(table))
}

pub(crate) fn strings(words: &[Box<str>]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

pub(crate) fn limits(limits: &Limits) -> BTreeMap<String, i64> {
    limits
        .iter()
        .map(|(name, limit)| (name.to_string(), *limit))
        .collect()
}

pub(crate) fn user(
    name: &UserName,
    record: &UserRecord,
    of_user: Option<&Limits>,
) -> management_api::User {
    management_api::User {
        name: name.to_string(),
        password_hash: record.password_hash.to_string(),
        hashing_algorithm: record.hashing_algorithm.to_string(),
        tags: strings(&record.tags),
        limits: of_user.map(limits).unwrap_or_default(),
    }
}

pub(crate) fn permission(
    user: &UserName,
    vhost: &VhostName,
    record: &PermissionRecord,
) -> management_api::Permission {
    management_api::Permission {
        user: user.to_string(),
        vhost: vhost.to_string(),
        configure: record.configure.as_str().to_owned(),
        write: record.write.as_str().to_owned(),
        read: record.read.as_str().to_owned(),
    }
}

pub(crate) fn topic_permission(
    user: &UserName,
    vhost: &VhostName,
    exchange: &ExchangeName,
    record: &TopicPermissionRecord,
) -> management_api::TopicPermission {
    management_api::TopicPermission {
        user: user.to_string(),
        vhost: vhost.to_string(),
        exchange: exchange.to_string(),
        write: record.write.as_str().to_owned(),
        read: record.read.as_str().to_owned(),
    }
}

pub(crate) fn policy(vhost: &VhostName, policy: &Policy) -> management_api::Policy {
    management_api::Policy {
        vhost: vhost.to_string(),
        name: policy.name.to_string(),
        pattern: policy.pattern.as_str().to_owned(),
        apply_to: policy.apply_to.name().to_owned(),
        definition: term(&policy.definition_term()),
        priority: term(&policy.priority.term()),
        origin: (policy.origin == PolicyOrigin::File).then(|| "file".to_owned()),
    }
}
