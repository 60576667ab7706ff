//! Queues are declared, redeclared and deleted, by clients and by themselves.

use std::sync::Arc;

use super::bounds::QUEUES_MAX;
use super::change::{QueueDeclaration, QueueDeletion, QueueGone};
use super::event::MetadataEvent;
use super::exchange::RESERVED_PREFIX;
use super::queue_checks::{
    check_equivalence, check_lock, check_properties, condition, group_of, with_type,
};
use super::record::{ConnectionId, NodeId, QueueId, QueueRecord};
use super::vhost::Vhost;
use super::{Metadata, check_name_length, check_room, limits};
use crate::arguments::{check_queue_arguments, queue_kind};
use crate::names::{UserName, VhostName};
use crate::refusal::{Refusal, ResourceKind, Result};
use crate::settings::QueueKind;

/// Names of the reserved prefix are made by the broker only; even their owner may not declare
/// them, only ask for them.
// rabbitmq: queue.declare
fn check_reserved(wanted: &QueueDeclaration) -> Result<()> {
    let name = wanted.queue.as_str();
    if !name.starts_with(RESERVED_PREFIX) || wanted.server_named {
        return Ok(());
    }
    Err(Refusal::ReservedPrefix {
        kind: ResourceKind::Queue,
        name: name.into(),
    })
}

/// What a declaration that may be carried out will do.
pub(super) enum Verdict {
    Create(QueueKind),
    Exists(Arc<QueueRecord>),
}

impl Metadata {
    /// The number that the next queue will have: queues with lower ones were declared once.
    pub fn next_queue(&self) -> QueueId {
        QueueId(self.next_queue)
    }

    /// The checks in RabbitMQ's order. Permissions come before, at the channel.
    // rabbitmq: queue.declare
    pub(super) fn check_declare_queue(&self, wanted: &QueueDeclaration) -> Result<Verdict> {
        let vhost = self.vhost(&wanted.vhost)?;
        let default = self.default_kind(vhost, wanted);
        check_reserved(wanted)?;
        if let Some(current) = vhost.queue(wanted.queue.as_str()) {
            check_lock(current, wanted)?;
            check_equivalence(current, wanted, default)?;
            return Ok(Verdict::Exists(current.clone()));
        }
        self.check_new_queue(vhost, wanted, default)
            .map(Verdict::Create)
    }

    fn check_new_queue(
        &self,
        vhost: &Vhost,
        wanted: &QueueDeclaration,
        default: QueueKind,
    ) -> Result<QueueKind> {
        let (queue, name) = (&wanted.queue, wanted.queue.as_str());
        check_name_length("queue", name)?;
        self.check_queue_limits(vhost, wanted)?;
        let kind = queue_kind(&wanted.arguments, default, queue, &wanted.vhost)?;
        if kind == QueueKind::Quorum && wanted.server_named {
            return Err(Refusal::ServerNamedQueue { kind });
        }
        check_queue_arguments(kind, &wanted.arguments, queue, &wanted.vhost)?;
        check_properties(kind, wanted)?;
        Ok(kind)
    }

    fn check_queue_limits(&self, vhost: &Vhost, wanted: &QueueDeclaration) -> Result<()> {
        if let Some(limit) = limits::bound(&vhost.limits, limits::MAX_QUEUES)
            && vhost.queue_count() as u64 >= limit
        {
            return Err(Refusal::VhostQueueLimit {
                queue: wanted.queue.clone(),
                vhost: wanted.vhost.clone(),
                limit,
            });
        }
        if let Some(user) = &wanted.user
            && let Some(limit) = self.user_bound(user, limits::MAX_QUEUES)
            && self.queues_declared_by(user) >= limit
        {
            return Err(Refusal::UserQueueLimit {
                queue: wanted.queue.clone(),
                user: user.clone(),
                limit,
            });
        }
        match self.defaults.queue_limit {
            Some(limit) if self.queues.len() as u64 >= limit => Err(Refusal::ClusterQueueLimit {
                queue: wanted.queue.clone(),
                limit,
            }),
            _ => check_room("queue", self.queues.len(), QUEUES_MAX),
        }
    }

    /// The type of queues that do not name one: a default of quorum is passed over for queues that
    /// cannot be that.
    // rabbitmq docs: vhosts, default queue type
    fn default_kind(&self, vhost: &Vhost, wanted: &QueueDeclaration) -> QueueKind {
        let default = vhost
            .record
            .default_queue_type
            .unwrap_or(self.defaults.queue_kind);
        let can_be_quorum = wanted.durable && !wanted.exclusive && !wanted.auto_delete;
        if can_be_quorum {
            default
        } else {
            QueueKind::Classic
        }
    }

    pub(super) fn declare_queue(
        &mut self,
        wanted: &QueueDeclaration,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let kind = match self.check_declare_queue(wanted)? {
            Verdict::Exists(record) => {
                events.push(MetadataEvent::QueueDeclared {
                    record,
                    created: false,
                });
                return Ok(());
            }
            Verdict::Create(kind) => kind,
        };
        let id = QueueId(self.next_queue);
        let record = QueueRecord {
            id,
            vhost: wanted.vhost.clone(),
            name: wanted.queue.clone(),
            kind,
            durable: wanted.durable && !wanted.exclusive,
            exclusive_owner: wanted.connection.filter(|_| wanted.exclusive),
            declared_by: wanted.user.clone(),
            auto_delete: wanted.auto_delete,
            arguments: with_type(&wanted.arguments, kind),
            group: group_of(id, kind, wanted.groups),
            home: wanted.node,
            policy: None,
            operator_policy: None,
            settings: Arc::default(),
        };
        let record = Arc::new(self.configured(record));
        self.next_queue += 1;
        self.put_queue(record.clone());
        events.push(MetadataEvent::QueueDeclared {
            record,
            created: true,
        });
        Ok(())
    }

    /// Puts a queue into every index.
    pub(super) fn put_queue(&mut self, record: Arc<QueueRecord>) {
        if let Some(owner) = record.exclusive_owner {
            self.owned.entry(owner).or_default().push(record.id);
        }
        if let Some(user) = &record.declared_by {
            *self.declared.entry(user.clone()).or_default() += 1;
        }
        self.queues.insert(record.id, record.clone());
        if let Some(vhost) = self.vhosts.get_mut(&record.vhost) {
            vhost.put_queue(record);
        }
    }

    /// Takes a queue out of the indexes that are not its vhost's.
    pub(super) fn forget_queue(&mut self, record: &QueueRecord) {
        if self.queues.remove(&record.id).is_some()
            && let Some(user) = &record.declared_by
        {
            self.one_declared_less(user);
        }
        let Some(owner) = record.exclusive_owner else {
            return;
        };
        if let Some(owned) = self.owned.get_mut(&owner) {
            owned.retain(|queue| *queue != record.id);
            if owned.is_empty() {
                self.owned.remove(&owner);
            }
        }
    }

    fn one_declared_less(&mut self, user: &UserName) {
        let Some(declared) = self.declared.get_mut(user) else {
            return;
        };
        *declared -= 1;
        if *declared == 0 {
            self.declared.remove(user);
        }
    }

    /// Queues that a user has declared and that are still there, in all vhosts.
    pub fn queues_declared_by(&self, user: &UserName) -> u64 {
        self.declared.get(user).copied().unwrap_or_default()
    }

    /// Whether a queue may be deleted, and the queue, if it exists.
    pub(super) fn check_delete_queue(
        &self,
        wanted: &QueueDeletion,
    ) -> Result<Option<Arc<QueueRecord>>> {
        let vhost = self.vhost(&wanted.vhost)?;
        let Some(record) = vhost.queue(wanted.queue.as_str()) else {
            return Ok(None);
        };
        let (queue, vhost) = (&record.name, &record.vhost);
        if !record.is_open_to(wanted.connection) {
            return Err(Refusal::ResourceLocked {
                queue: queue.clone(),
                vhost: vhost.clone(),
            });
        }
        if record.kind == QueueKind::Quorum
            && let Some(condition) = condition(wanted)
        {
            return Err(Refusal::DeleteConditionNotSupported {
                queue: queue.clone(),
                vhost: vhost.clone(),
                condition,
            });
        }
        if wanted.if_unused && wanted.consumers > 0 {
            return Err(Refusal::QueueInUse {
                queue: queue.clone(),
                vhost: vhost.clone(),
            });
        }
        if wanted.if_empty && wanted.ready > 0 {
            return Err(Refusal::QueueNotEmpty {
                queue: queue.clone(),
                vhost: vhost.clone(),
            });
        }
        Ok(Some(record.clone()))
    }

    pub(super) fn delete_queue(
        &mut self,
        wanted: &QueueDeletion,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        if let Some(record) = self.check_delete_queue(wanted)? {
            self.take_queue(&record, QueueGone::Deleted, events);
        }
        Ok(())
    }

    pub(super) fn remove_queue(
        &mut self,
        queue: QueueId,
        why: QueueGone,
        events: &mut Vec<MetadataEvent>,
    ) {
        if let Some(record) = self.queues.get(&queue).cloned() {
            self.take_queue(&record, why, events);
        }
    }

    pub(super) fn end_connection(
        &mut self,
        connection: ConnectionId,
        events: &mut Vec<MetadataEvent>,
    ) {
        for queue in self.owned.get(&connection).cloned().unwrap_or_default() {
            self.remove_queue(queue, QueueGone::OwnerGone, events);
        }
    }

    fn take_queue(
        &mut self,
        record: &Arc<QueueRecord>,
        why: QueueGone,
        events: &mut Vec<MetadataEvent>,
    ) {
        self.forget_queue(record);
        let Some(vhost) = self.vhosts.get_mut(&record.vhost) else {
            return;
        };
        let gone = vhost.take_queue(record.name.as_str());
        self.after_unbinding(&record.vhost, gone, events);
        events.push(MetadataEvent::QueueDeleted {
            record: record.clone(),
            why,
        });
    }

    /// Deletes what does not outlive a restart, of one node or of all: its transient and exclusive
    /// queues; with all nodes the transient exchanges as well.
    pub(super) fn drop_transient(&mut self, node: Option<NodeId>, events: &mut Vec<MetadataEvent>) {
        let mut queues: Vec<QueueId> = self
            .queues
            .values()
            .filter(|record| !record.durable && node.is_none_or(|node| node == record.home))
            .map(|record| record.id)
            .collect();
        queues.sort_unstable();
        for queue in queues {
            self.remove_queue(queue, QueueGone::Restarted, events);
        }
        if node.is_none() {
            self.drop_transient_exchanges(events);
        }
    }

    fn drop_transient_exchanges(&mut self, events: &mut Vec<MetadataEvent>) {
        let mut exchanges: Vec<_> = self
            .vhosts
            .values()
            .flat_map(Vhost::exchanges)
            .map(|exchange| exchange.record())
            .filter(|record| !record.durable)
            .map(|record| (record.vhost.clone(), record.name.clone()))
            .collect();
        exchanges.sort_unstable();
        for (vhost, exchange) in exchanges {
            self.take_exchange(&vhost, &exchange, false, events);
        }
    }
}

/// What `queue.declare` passive, and every other use of an existing queue, checks.
impl Metadata {
    /// A queue that a client may use.
    ///
    /// # Errors
    /// `QueueNotFound`; `ResourceLocked` when it is another connection's.
    pub fn usable_queue(
        &self,
        vhost: &VhostName,
        queue: &str,
        connection: Option<ConnectionId>,
    ) -> Result<&Arc<QueueRecord>> {
        let found = self
            .vhost(vhost)?
            .queue(queue)
            .ok_or_else(|| Refusal::QueueNotFound {
                queue: queue.into(),
                vhost: vhost.clone(),
            })?;
        if !found.is_open_to(connection) {
            return Err(Refusal::ResourceLocked {
                queue: queue.into(),
                vhost: vhost.clone(),
            });
        }
        Ok(found)
    }
}
