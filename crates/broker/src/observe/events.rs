//! What happens on the node, told to whoever listens at that moment.
//!
//! Nothing is kept: a listener that is too slow loses the oldest events and learns how many. When
//! nobody listens, telling costs one look at a counter.

use broker_core::VhostName;
use broker_core::metadata::MetadataEvent;
use tokio::sync::broadcast;

use super::incidents::Incident;
use crate::broker::Broker;
use crate::clock;
use crate::session::SessionShared;

/// Events that wait for the slowest listener.
const EVENTS_WAITING_MAX: usize = 4_096;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `queue.created`, `connection.closed`, `policy.set`, …
    pub name: &'static str,
    /// When, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Where; `None` for what belongs to no vhost.
    pub vhost: Option<VhostName>,
    /// The thing it happened to.
    pub about: String,
}

/// What became of files that the operator keeps, when they were read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesEvent {
    /// The configuration was taken over.
    ConfigurationReloaded,
    /// It has faults, and nothing of it counts.
    ConfigurationRefused,
    /// The policy files were put into force.
    PoliciesReloaded,
    /// They have faults, and nothing of them counts.
    PoliciesRefused,
    /// Certificates were replaced.
    CertificatesReloaded,
    /// New ones cannot be used; the old ones stay.
    CertificatesRefused,
}

impl FilesEvent {
    fn name(self) -> &'static str {
        match self {
            Self::ConfigurationReloaded => "configuration.reloaded",
            Self::ConfigurationRefused => "configuration.refused",
            Self::PoliciesReloaded => "policies.reloaded",
            Self::PoliciesRefused => "policies.refused",
            Self::CertificatesReloaded => "certificates.reloaded",
            Self::CertificatesRefused => "certificates.refused",
        }
    }
}

/// The node's side: where events are told.
pub(crate) struct Events {
    listeners: broadcast::Sender<Event>,
}

impl Default for Events {
    fn default() -> Self {
        let (listeners, _) = broadcast::channel(EVENTS_WAITING_MAX);
        Self { listeners }
    }
}

impl Events {
    fn tell(&self, name: &'static str, vhost: Option<&VhostName>, about: impl FnOnce() -> String) {
        if self.listeners.receiver_count() == 0 {
            return;
        }
        let event = Event {
            name,
            at_ms: clock::now().0,
            vhost: vhost.cloned(),
            about: about(),
        };
        // The last listener may have left just now.
        let _ = self.listeners.send(event);
    }

    pub(crate) fn incident(&self, incident: &Incident) {
        self.tell(incident.kind.name(), Some(&incident.vhost), || {
            incident.queue.to_string()
        });
    }

    pub(crate) fn connection(&self, session: &SessionShared, opened: bool) {
        if session.is_internal() {
            return;
        }
        let name = if opened {
            "connection.created"
        } else {
            "connection.closed"
        };
        let options = &session.options;
        self.tell(name, Some(&options.vhost), || {
            format!(
                "{} -> {} user={}",
                options.peer, options.local, options.user
            )
        });
    }

    // rabbitmq: names of the event exchange, where it has one
    pub(crate) fn metadata(&self, event: &MetadataEvent) {
        use MetadataEvent as E;
        let put =
            |created: bool, new: &'static str, old: &'static str| if created { new } else { old };
        match event {
            E::VhostPut { vhost, created } => self.tell(
                put(*created, "vhost.created", "vhost.updated"),
                Some(vhost),
                || vhost.to_string(),
            ),
            E::VhostDeleted { vhost } => {
                self.tell("vhost.deleted", Some(vhost), || vhost.to_string());
            }
            E::VhostTracing { vhost, tracing } => self.tell(
                put(*tracing, "vhost.tracing.started", "vhost.tracing.stopped"),
                Some(vhost),
                || vhost.to_string(),
            ),
            E::VhostLimitsChanged { vhost } => {
                self.tell("vhost.limits.set", Some(vhost), || vhost.to_string());
            }
            E::UserPut { user, created } => {
                self.tell(put(*created, "user.created", "user.updated"), None, || {
                    user.to_string()
                });
            }
            E::UserDeleted { user } => self.tell("user.deleted", None, || user.to_string()),
            E::UserLimitsChanged { user } => {
                self.tell("user.limits.set", None, || user.to_string());
            }
            E::PermissionSet { user, vhost, .. } => {
                self.tell("permission.created", Some(vhost), || user.to_string());
            }
            E::PermissionCleared { user, vhost } => {
                self.tell("permission.deleted", Some(vhost), || user.to_string());
            }
            E::TopicPermissionSet {
                user,
                vhost,
                exchange,
                ..
            } => {
                self.tell("topic.permission.created", Some(vhost), || {
                    format!("{user} {exchange}")
                });
            }
            E::TopicPermissionCleared {
                user,
                vhost,
                exchange,
            } => {
                self.tell("topic.permission.deleted", Some(vhost), || {
                    format!("{user} {exchange}")
                });
            }
            E::PolicySet { vhost, policy, .. } => {
                self.tell("policy.set", Some(vhost), || policy.to_string());
            }
            E::PolicyDeleted { vhost, policy, .. } => {
                self.tell("policy.cleared", Some(vhost), || policy.to_string());
            }
            E::ParameterSet {
                component,
                vhost,
                name,
                ..
            } => {
                self.tell("parameter.set", Some(vhost), || {
                    format!("{component} {name}")
                });
            }
            E::ParameterCleared {
                component,
                vhost,
                name,
            } => {
                self.tell("parameter.cleared", Some(vhost), || {
                    format!("{component} {name}")
                });
            }
            E::GlobalParameterSet { name, .. } => {
                self.tell("parameter.set", None, || name.to_string());
            }
            E::GlobalParameterCleared { name } => {
                self.tell("parameter.cleared", None, || name.to_string());
            }
            E::ExchangeDeclared {
                record,
                created: true,
            } => {
                self.tell("exchange.created", Some(&record.vhost), || {
                    record.name.to_string()
                });
            }
            E::ExchangeDeleted { record, .. } => {
                self.tell("exchange.deleted", Some(&record.vhost), || {
                    record.name.to_string()
                });
            }
            E::QueueDeclared {
                record,
                created: true,
            } => {
                self.tell("queue.created", Some(&record.vhost), || {
                    record.name.to_string()
                });
            }
            E::QueueDeleted { record, why } => {
                self.tell("queue.deleted", Some(&record.vhost), || {
                    format!("{} ({why:?})", record.name)
                });
            }
            E::Bound {
                vhost,
                binding,
                created: true,
            } => {
                self.tell("binding.created", Some(vhost), || shown(binding));
            }
            E::Unbound { vhost, binding } => {
                self.tell("binding.deleted", Some(vhost), || shown(binding));
            }
            // A thing that was found as it is, or that another event tells.
            _ => {}
        }
    }
}

fn shown(binding: &broker_core::metadata::Binding) -> String {
    format!(
        "{} -> {} {}",
        binding.source,
        binding.destination.name(),
        binding.key
    )
}

/// Someone who listens.
pub struct EventListener(broadcast::Receiver<Event>);

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An event.
    Event(Event),
    /// So many were lost, since the listener was too slow.
    Lost(u64),
}

impl EventListener {
    /// The next thing; `None` when the node is gone.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.0.recv().await {
            Ok(event) => Some(Heard::Event(event)),
            Err(broadcast::error::RecvError::Lagged(lost)) => Some(Heard::Lost(lost)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Broker {
    /// Tells listeners what became of the operator's files.
    pub fn tell_files(&self, what: FilesEvent, about: &str) {
        let events = &self.node().events;
        events.tell(what.name(), None, || about.to_owned());
    }

    /// Listens to what happens from here on.
    pub fn listen(&self) -> EventListener {
        EventListener(self.node().events.listeners.subscribe())
    }
}
