//! What a declaration of a queue is compared with, and what its type allows. Pure checks of one
//! queue; tables and limits are not known here.

use amqp::{Table, Value};

use super::change::{QueueDeclaration, QueueDeletion};
use super::record::{QueueId, QueueRecord};
use crate::arguments::{
    QUEUE_TYPE, compare_flag, compare_value, compared_arguments, is_same_argument,
};
use crate::refusal::{DeleteCondition, Refusal, Resource, Result};
use crate::settings::QueueKind;

/// The chosen type is part of the stored arguments.
// rabbitmq: x-queue-type is injected
pub(super) fn with_type(arguments: &Table, kind: QueueKind) -> Table {
    let mut arguments = arguments.clone();
    let named = arguments.get(QUEUE_TYPE).and_then(Value::as_str);
    if named != Some(kind.name()) {
        arguments.insert(QUEUE_TYPE, kind.name());
    }
    arguments
}

pub(super) fn group_of(id: QueueId, kind: QueueKind, groups: u32) -> u32 {
    match kind {
        QueueKind::Classic => 0,
        QueueKind::Quorum => {
            u32::try_from(id.0 % u64::from(groups.max(1))).expect("a remainder of a u32 fits")
        }
    }
}

/// An exclusive queue is its connection's, and the flag of a redeclaration must agree.
pub(super) fn check_lock(current: &QueueRecord, wanted: &QueueDeclaration) -> Result<()> {
    let flag_agrees = current.exclusive_owner.is_some() == wanted.exclusive;
    if current.is_open_to(wanted.connection) && flag_agrees {
        return Ok(());
    }
    Err(Refusal::ResourceLocked {
        queue: current.name.clone(),
        vhost: current.vhost.clone(),
    })
}

/// Durability and auto-delete first, then the arguments that the existing queue's type has.
// rabbitmq: rabbit_amqqueue, assert_equivalence
pub(super) fn check_equivalence(
    current: &QueueRecord,
    wanted: &QueueDeclaration,
    default: QueueKind,
) -> Result<()> {
    let resource = || Resource::queue(&current.name, &current.vhost);
    if !wanted.exclusive {
        compare_flag("durable", wanted.durable, current.durable, resource)?;
    }
    compare_flag(
        "auto_delete",
        wanted.auto_delete,
        current.auto_delete,
        resource,
    )?;
    let received = with_default_type(&wanted.arguments, default);
    for key in compared_arguments(current.kind) {
        let (received, current) = (received.get(key), current.arguments.get(key));
        if key == QUEUE_TYPE && is_same(received, current) {
            continue;
        }
        compare_value(key, received, current, resource)?;
    }
    Ok(())
}

fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if is_same_argument(one, other))
}

/// A request that leaves the type open asks for the default one.
fn with_default_type(arguments: &Table, default: QueueKind) -> Table {
    match arguments.get(QUEUE_TYPE) {
        None => with_type(arguments, default),
        Some(value) if matches!(value.as_str(), Some("" | "undefined")) => {
            with_type(arguments, default)
        }
        Some(_) => arguments.clone(),
    }
}

/// Quorum queues are durable and everybody's.
pub(super) fn check_properties(kind: QueueKind, wanted: &QueueDeclaration) -> Result<()> {
    if kind == QueueKind::Classic {
        return Ok(());
    }
    let property = match wanted {
        QueueDeclaration {
            exclusive: true, ..
        } => "exclusive-owner",
        QueueDeclaration {
            auto_delete: true, ..
        } => "auto-delete",
        QueueDeclaration { durable: false, .. } => "non-durable",
        _ => return Ok(()),
    };
    Err(Refusal::InvalidProperty {
        property: property.into(),
        queue: wanted.queue.clone(),
        vhost: wanted.vhost.clone(),
    })
}

pub(super) fn condition(wanted: &QueueDeletion) -> Option<DeleteCondition> {
    if wanted.if_unused {
        return Some(DeleteCondition::IfUnused);
    }
    wanted.if_empty.then_some(DeleteCondition::IfEmpty)
}
