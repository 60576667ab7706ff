//! What followed from a change, as data. The broker acts on these: starts and stops queues, closes
//! connections, reconfigures, tells the HTTP API whether a thing was created.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::QueueGone;
use super::record::{Binding, ExchangeRecord, QueueRecord};
use crate::names::{ExchangeName, UserName, VhostName};
use crate::policy::PolicyScope;

/// What followed from one change, in the order in which it happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Empty when the change found everything as it wanted it.
    pub events: Vec<MetadataEvent>,
}

impl Outcome {
    /// The queue that a `DeclareQueue` created or found.
    pub fn declared_queue(&self) -> Option<&Arc<QueueRecord>> {
        self.events.iter().find_map(|event| match event {
            MetadataEvent::QueueDeclared { record, .. } => Some(record),
            _ => None,
        })
    }

    /// Whether the change made a thing that did not exist: HTTP says 201 then, else 204.
    pub fn created(&self) -> bool {
        self.events.iter().any(|event| {
            matches!(
                event,
                MetadataEvent::VhostPut { created: true, .. }
                    | MetadataEvent::ExchangeDeclared { created: true, .. }
                    | MetadataEvent::QueueDeclared { created: true, .. }
                    | MetadataEvent::UserPut { created: true, .. }
                    | MetadataEvent::PermissionSet { created: true, .. }
                    | MetadataEvent::TopicPermissionSet { created: true, .. }
                    | MetadataEvent::PolicySet { created: true, .. }
                    | MetadataEvent::ParameterSet { created: true, .. }
                    | MetadataEvent::GlobalParameterSet { created: true, .. }
                    | MetadataEvent::Bound { created: true, .. }
            )
        })
    }

    /// Whether a `Delete…` or a `Clear…` found what it wanted to remove: HTTP says 404 if not.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

/// One thing that followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum MetadataEvent {
    /// A vhost was created, or what is said of it replaced.
    VhostPut { vhost: VhostName, created: bool },
    /// A vhost is gone; its queues and exchanges were reported before. Its connections close.
    VhostDeleted { vhost: VhostName },
    /// The firehose of a vhost was started or stopped.
    VhostTracing { vhost: VhostName, tracing: bool },
    /// Limits of a vhost changed.
    VhostLimitsChanged { vhost: VhostName },

    /// A user was created, or password or tags replaced.
    UserPut { user: UserName, created: bool },
    /// A user is gone. Its connections close.
    UserDeleted { user: UserName },
    /// Limits of a user changed.
    UserLimitsChanged { user: UserName },
    /// A user's patterns in a vhost were set.
    PermissionSet {
        user: UserName,
        vhost: VhostName,
        created: bool,
    },
    /// A user lost a vhost.
    PermissionCleared { user: UserName, vhost: VhostName },
    /// A user's patterns for the keys of an exchange were set.
    TopicPermissionSet {
        user: UserName,
        vhost: VhostName,
        exchange: ExchangeName,
        created: bool,
    },
    /// They were taken away.
    TopicPermissionCleared {
        user: UserName,
        vhost: VhostName,
        exchange: ExchangeName,
    },

    /// A policy was set.
    PolicySet {
        vhost: VhostName,
        scope: PolicyScope,
        policy: Arc<str>,
        created: bool,
    },
    /// A policy is gone.
    PolicyDeleted {
        vhost: VhostName,
        scope: PolicyScope,
        policy: Arc<str>,
    },
    /// A queue goes by another policy or by other settings: reconfigure it.
    QueueReconfigured { record: Arc<QueueRecord> },
    /// An exchange goes by another policy.
    ExchangeReconfigured { record: Arc<ExchangeRecord> },

    /// A parameter was set.
    ParameterSet {
        component: Box<str>,
        vhost: VhostName,
        name: Box<str>,
        created: bool,
    },
    /// A parameter is gone.
    ParameterCleared {
        component: Box<str>,
        vhost: VhostName,
        name: Box<str>,
    },
    /// A parameter of the whole cluster was set.
    GlobalParameterSet { name: Box<str>, created: bool },
    /// A parameter of the whole cluster is gone.
    GlobalParameterCleared { name: Box<str> },

    /// An exchange was created, or an equal one found.
    ExchangeDeclared {
        record: Arc<ExchangeRecord>,
        created: bool,
    },
    /// An exchange is gone; `auto` when it was auto-delete and lost its last binding.
    ExchangeDeleted {
        record: Arc<ExchangeRecord>,
        auto: bool,
    },
    /// A queue was created, or an equal one found.
    QueueDeclared {
        record: Arc<QueueRecord>,
        created: bool,
    },
    /// A queue is gone.
    QueueDeleted {
        record: Arc<QueueRecord>,
        why: QueueGone,
    },
    /// A binding was made, or found.
    Bound {
        vhost: VhostName,
        binding: Arc<Binding>,
        created: bool,
    },
    /// A binding is gone.
    Unbound {
        vhost: VhostName,
        binding: Arc<Binding>,
    },

    /// The cluster's defaults changed.
    DefaultsChanged,
}
