//! What happened that an operator may want to look into: told in the log, counted, and the last
//! ones kept for listings. Must not know how they are shown.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use broker_core::queue::TimeoutAction;
use broker_core::{ConsumerTag, QueueName, VhostName};
use parking_lot::Mutex;

use crate::clock;
use crate::queue::Queue;

/// Incidents that are kept for listings: about 200 bytes each.
pub const INCIDENTS_KEPT_MAX: usize = 1_000;

/// Why the dead letters of an at-least-once queue stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeldBecause {
    /// The dead-letter exchange does not exist.
    ExchangeMissing,
    /// The dead-letter exchange leads to no queue.
    NoRoute,
    /// A target queue refused them.
    Refused,
    /// What is stored cannot be read.
    Unreadable,
}

impl fmt::Display for HeldBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeldBecause::ExchangeMissing => "the dead-letter exchange does not exist",
            HeldBecause::NoRoute => "the dead-letter exchange leads to no queue",
            HeldBecause::Refused => "a target queue is full and refuses them",
            HeldBecause::Unreadable => "a stored message cannot be read",
        })
    }
}

/// One kind of incident, with what is particular to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncidentKind {
    /// One consumer has given one message back too often within a minute.
    PoisonLoop {
        /// The consumer; none when the message was fetched.
        consumer: Option<ConsumerTag>,
        /// What the client calls its connection, else its addresses.
        client: String,
        /// The message's number in its queue.
        entry: u64,
        /// How often.
        returns: u32,
    },
    /// A delivery was not settled in time.
    DeliveryTimedOut {
        /// The consumer; none when the message was fetched.
        consumer: Option<ConsumerTag>,
        /// What the client calls its connection, else its addresses.
        client: String,
        /// The channel's number.
        channel: u16,
        /// The delivery's tag; none when the channel has settled it meanwhile.
        delivery_tag: Option<u64>,
        /// The timeout that applied.
        timeout_ms: u64,
        /// What followed.
        action: TimeoutAction,
    },
    /// Dead letters are held; they are tried again.
    DeadLettersHeld {
        /// Why.
        why: HeldBecause,
    },
    /// Dead letters that were held are on their way.
    DeadLettersReleased,
    /// The queue is above its capacity: its publishers are held.
    QueueOverfull {
        /// Logical bytes of its messages.
        bytes: u64,
        /// Its messages.
        messages: u64,
    },
    /// The queue is down to its resume capacity.
    QueueUnderfull {
        /// Logical bytes of its messages.
        bytes: u64,
        /// Its messages.
        messages: u64,
    },
    /// The queue is full and refuses publishes. Told once a minute at most.
    PublishesRefused {
        /// How many since it was told last.
        messages: u64,
    },
    /// Messages waited for the queue for longer than they may, and were refused.
    WaitedTooLong {
        /// How many.
        messages: u64,
    },
}

impl IncidentKind {
    /// All names, in the order of the counters.
    pub const NAMES: [&'static str; 8] = [
        "poison-loop",
        "delivery-timed-out",
        "dead-letters-held",
        "dead-letters-released",
        "queue-overfull",
        "queue-underfull",
        "waited-too-long",
        "publishes-refused",
    ];

    fn index(&self) -> usize {
        match self {
            IncidentKind::PoisonLoop { .. } => 0,
            IncidentKind::DeliveryTimedOut { .. } => 1,
            IncidentKind::DeadLettersHeld { .. } => 2,
            IncidentKind::DeadLettersReleased => 3,
            IncidentKind::QueueOverfull { .. } => 4,
            IncidentKind::QueueUnderfull { .. } => 5,
            IncidentKind::WaitedTooLong { .. } => 6,
            IncidentKind::PublishesRefused { .. } => 7,
        }
    }

    /// Its name in listings and metrics.
    pub fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// Something that happened in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// When, in milliseconds since the epoch.
    pub at_ms: u64,
    /// The queue's vhost.
    pub vhost: VhostName,
    /// The queue.
    pub queue: QueueName,
    /// What.
    pub kind: IncidentKind,
}

impl Incident {
    pub(crate) fn new(queue: &Queue, kind: IncidentKind) -> Self {
        Self {
            at_ms: clock::now().0,
            vhost: queue.vhost.clone(),
            queue: queue.name.clone(),
            kind,
        }
    }
}

/// The node's incidents.
#[derive(Debug, Default)]
pub(crate) struct Incidents {
    recent: Mutex<VecDeque<Incident>>,
    counts: [AtomicU64; IncidentKind::NAMES.len()],
}

impl Incidents {
    /// Tells, counts and keeps what happened in a queue.
    pub(crate) fn happened(&self, incident: Incident) {
        tell(&incident);
        self.counts[incident.kind.index()].fetch_add(1, Ordering::Relaxed);
        let mut recent = self.recent.lock();
        if recent.len() >= INCIDENTS_KEPT_MAX {
            recent.pop_front();
        }
        recent.push_back(incident);
    }

    /// The last incidents, oldest first.
    pub(super) fn recent(&self) -> Vec<Incident> {
        self.recent.lock().iter().cloned().collect()
    }

    /// How often each kind happened since the node started, by name.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        IncidentKind::NAMES.into_iter().zip(counts).collect()
    }
}

fn tell(incident: &Incident) {
    let Incident {
        vhost, queue, kind, ..
    } = incident;
    let shown = |consumer: &Option<ConsumerTag>| match consumer {
        Some(tag) => tag.to_string(),
        None => "none (basic.get)".to_owned(),
    };
    match kind {
        IncidentKind::PoisonLoop {
            consumer,
            client,
            entry,
            returns,
        } => tracing::warn!(
            %vhost, %queue, consumer = shown(consumer), client, entry, returns,
            "a consumer has given the same message back too often within a minute; look at what \
             it does with this message, or hold returns back with delayed-retry-type"
        ),
        IncidentKind::DeliveryTimedOut {
            consumer,
            client,
            channel,
            delivery_tag,
            timeout_ms,
            action,
        } => tracing::error!(
            %vhost, %queue, consumer = shown(consumer), client, channel, delivery_tag, timeout_ms,
            ?action, "a delivery was not acknowledged in time"
        ),
        IncidentKind::DeadLettersHeld { why } => tracing::warn!(
            %vhost, %queue, %why,
            "dead letters are held; they are tried again when the topology changes, and every \
             three minutes"
        ),
        IncidentKind::DeadLettersReleased => {
            tracing::info!(%vhost, %queue, "dead letters that were held are on their way");
        }
        // The queue's gate says these in Qpid's words.
        IncidentKind::QueueOverfull { .. } | IncidentKind::QueueUnderfull { .. } => {}
        IncidentKind::PublishesRefused { messages } => tracing::warn!(
            %vhost, %queue, messages,
            "the queue is full and refuses publishes, as its overflow mode says"
        ),
        IncidentKind::WaitedTooLong { messages } => tracing::warn!(
            %vhost, %queue, messages,
            "messages waited for room in the queue for longer than hold-timeout and are refused"
        ),
    }
}
