//! The topology and everything an operator says, as one pure value with one door.
//!
//! `apply` is deterministic: the same changes in the same order give the same value on every node,
//! and a refused change leaves it as it was. What followed comes back as events. Knows no clock,
//! no log and no queue contents; the broker acts on the events.

mod apply;
mod binding;
mod bounds;
mod change;
mod event;
mod exchange;
mod exchange_bindings;
mod file_policies;
mod limits;
mod parameter;
mod permission;
mod policy;
mod queue;
mod queue_checks;
mod record;
mod snapshot;
mod user;
mod vhost;
mod vhosts;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

pub use bounds::*;
pub use change::{
    FileDefaults, FilePolicy, MetadataChange, QueueDeclaration, QueueDeletion, QueueGone,
};
pub use event::{MetadataEvent, Outcome};
pub use exchange::BUILT_IN_DOORS;
pub use exchange_bindings::Exchange;
pub use file_policies::{ObjectPlan, PolicyDifference, PolicyPlan, ValuePlan};
pub use limits::TenantCounts;
pub use record::{
    Binding, ConnectionId, Destination, ExchangeRecord, Limits, NodeId, Parameter,
    PermissionRecord, QueueId, QueueRecord, TopicPermissionRecord, UserRecord, VhostRecord,
};
pub use snapshot::MetadataSnapshot;
pub use vhost::Vhost;

use crate::names::{ExchangeName, NAME_BYTES_MAX, UserName, VhostName};
use crate::refusal::{Refusal, Result};
use crate::settings::{QueueKind, QueueSettings, QuorumDefaults};
use crate::term::Term;

/// What holds for the whole cluster when nothing narrower says otherwise. The shell reads it from
/// the operator's settings and proposes it as a change, so that all nodes go by the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Defaults {
    /// For quorum queues.
    pub quorum: QuorumDefaults,
    /// The type of queues that do not name one.
    pub queue_kind: QueueKind,
    /// Most queues of the cluster.
    pub queue_limit: Option<u64>,
    /// Most exchanges of the cluster.
    pub exchange_limit: Option<u64>,
    /// Most vhosts.
    pub vhost_limit: Option<u64>,
}

/// The whole topology.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "MetadataSnapshot")]
pub struct Metadata {
    defaults: Defaults,
    vhosts: BTreeMap<VhostName, Vhost>,
    users: BTreeMap<UserName, User>,
    /// By user, then vhost.
    permissions: BTreeMap<UserName, BTreeMap<VhostName, UserPermissions>>,
    global_parameters: BTreeMap<Box<str>, Term>,
    /// Where each queue is.
    queues: FxHashMap<QueueId, Arc<QueueRecord>>,
    /// The exclusive queues of each connection.
    owned: FxHashMap<ConnectionId, Vec<QueueId>>,
    /// How many queues each user has declared that are still there; none is 0.
    declared: FxHashMap<UserName, u64>,
    /// Exchanges of all vhosts.
    exchange_count: usize,
    /// Bindings of all vhosts.
    binding_count: usize,
    /// Given to the next queue.
    next_queue: u64,
    /// Given to the next binding.
    next_binding: u64,
    version: u64,
    permission_version: u64,
    /// Settings of queues without arguments and policies, by type.
    plain_settings: PlainSettings,
}

/// A user with the limits.
#[derive(Clone, Debug, Default)]
struct User {
    record: UserRecord,
    limits: Limits,
}

/// What a user may do in one vhost.
#[derive(Clone, Debug, Default)]
struct UserPermissions {
    /// `None` is no access to the vhost.
    record: Option<PermissionRecord>,
    topics: BTreeMap<ExchangeName, TopicPermissionRecord>,
}

/// One value for the many queues that nobody configured.
#[derive(Clone, Debug, Default)]
struct PlainSettings {
    classic: Arc<QueueSettings>,
    quorum: Arc<QueueSettings>,
}

impl PlainSettings {
    fn of(defaults: &Defaults) -> Self {
        let of_kind = |kind| Arc::new(QueueSettings::of_kind(kind, &defaults.quorum));
        Self {
            classic: of_kind(QueueKind::Classic),
            quorum: of_kind(QueueKind::Quorum),
        }
    }
}

impl Metadata {
    /// A topology without a vhost and without a user.
    pub fn new(defaults: Defaults) -> Self {
        Self {
            defaults,
            plain_settings: PlainSettings::of(&defaults),
            ..Self::default()
        }
    }

    /// Grows with every change that changed anything.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Grows when a user, a permission or a vhost changes: verdicts of `check_access` may be kept
    /// until then.
    pub fn permission_version(&self) -> u64 {
        self.permission_version
    }

    /// What holds for the whole cluster.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// The vhosts, by name.
    pub fn vhosts(&self) -> impl Iterator<Item = &Vhost> {
        self.vhosts.values()
    }

    /// A vhost.
    ///
    /// # Errors
    /// `VhostNotFound`.
    pub fn vhost(&self, vhost: &VhostName) -> Result<&Vhost> {
        self.vhosts
            .get(vhost)
            .ok_or_else(|| Refusal::VhostNotFound {
                vhost: vhost.clone(),
            })
    }

    fn vhost_mut(&mut self, vhost: &VhostName) -> Result<&mut Vhost> {
        self.vhosts
            .get_mut(vhost)
            .ok_or_else(|| Refusal::VhostNotFound {
                vhost: vhost.clone(),
            })
    }

    /// A queue by its id.
    pub fn queue_by_id(&self, queue: QueueId) -> Option<&Arc<QueueRecord>> {
        self.queues.get(&queue)
    }

    /// All queues, in no particular order.
    pub fn queues(&self) -> impl Iterator<Item = &Arc<QueueRecord>> {
        self.queues.values()
    }

    /// How many queues there are.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// How many exchanges there are, the standard ones included.
    pub fn exchange_count(&self) -> usize {
        self.exchange_count
    }

    /// How many bindings there are, the default exchange's implicit ones excluded.
    pub fn binding_count(&self) -> usize {
        self.binding_count
    }
}

fn check_name_length(what: &str, name: &str) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Refusal::NameTooLong { what: what.into() });
    }
    Ok(())
}

/// Refuses to make one more of what the table holds already.
fn check_room(what: &str, count: usize, max: usize) -> Result<()> {
    if count >= max {
        return Err(Refusal::TableFull {
            what: what.into(),
            limit: max as u64,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
