//! What passed through queues, channels, exchanges and the node, counted by whoever did it.
//!
//! Counters that live under their owner's lock are plain numbers; the others are [`Tally`]s, which
//! have one writer at a time, so that counting on the way of a message needs no locked
//! instruction. Readers may see a count a moment old.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

use broker_core::VhostName;
use broker_core::dead_letter::DeathReason;
use broker_core::metadata::MetadataEvent;
use broker_core::settings::QueueKind;
use dashmap::DashMap;
use parking_lot::Mutex;

use super::deaths::{DeathCounts, DeathStrategy, Deaths};
use super::exchange::ExchangeTable;
use super::sizes::{SizeCounts, Sizes};
use crate::holder::Holder;
use crate::session::SessionShared;

/// A counter with one writer at a time: its owner's task, or whoever holds its owner's lock.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    pub(crate) fn add(&self, count: u64) {
        // Not a fetch_add: nobody else writes.
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a channel did, or all channels of a vhost, or of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounts {
    /// Messages published.
    pub publish: u64,
    /// Messages confirmed or refused to publishers that asked for it.
    pub confirm: u64,
    /// Unroutable messages returned to their publishers.
    pub return_unroutable: u64,
    /// Unroutable messages dropped.
    pub drop_unroutable: u64,
    /// Messages delivered to consumers that acknowledge.
    pub deliver: u64,
    /// Messages delivered to consumers that do not.
    pub deliver_no_ack: u64,
    /// Messages got with acknowledgement.
    pub get: u64,
    /// Messages got without.
    pub get_no_ack: u64,
    /// Times that there was nothing to get.
    pub get_empty: u64,
    /// Acknowledgements.
    pub ack: u64,
    /// Messages among those delivered and got that were handed out before.
    pub redeliver: u64,
}

impl AddAssign for TrafficCounts {
    fn add_assign(&mut self, other: Self) {
        self.publish += other.publish;
        self.confirm += other.confirm;
        self.return_unroutable += other.return_unroutable;
        self.drop_unroutable += other.drop_unroutable;
        self.deliver += other.deliver;
        self.deliver_no_ack += other.deliver_no_ack;
        self.get += other.get;
        self.get_no_ack += other.get_no_ack;
        self.get_empty += other.get_empty;
        self.ack += other.ack;
        self.redeliver += other.redeliver;
    }
}

/// What a queue did. Under the queue's lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTraffic {
    /// Messages that came in.
    pub publish: u64,
    /// Messages delivered to consumers that acknowledge.
    pub deliver: u64,
    /// Messages delivered to consumers that do not.
    pub deliver_no_ack: u64,
    /// Messages got with acknowledgement.
    pub get: u64,
    /// Messages got without.
    pub get_no_ack: u64,
    /// Times that there was nothing to get.
    pub get_empty: u64,
    /// Messages acknowledged.
    pub ack: u64,
    /// Messages among those delivered and got that were handed out before.
    pub redeliver: u64,
}

impl AddAssign for QueueTraffic {
    fn add_assign(&mut self, other: Self) {
        self.publish += other.publish;
        self.deliver += other.deliver;
        self.deliver_no_ack += other.deliver_no_ack;
        self.get += other.get;
        self.get_no_ack += other.get_no_ack;
        self.get_empty += other.get_empty;
        self.ack += other.ack;
        self.redeliver += other.redeliver;
    }
}

impl QueueTraffic {
    pub(crate) fn delivered(&mut self, no_ack: bool, redelivered: bool) {
        match no_ack {
            true => self.deliver_no_ack += 1,
            false => self.deliver += 1,
        }
        self.redeliver += u64::from(redelivered);
    }

    pub(crate) fn got(&mut self, no_ack: bool, redelivered: bool) {
        match no_ack {
            true => self.get_no_ack += 1,
            false => self.get += 1,
        }
        self.redeliver += u64::from(redelivered);
    }
}

/// The part of a channel's counts that its own task keeps.
#[derive(Debug, Default)]
pub(crate) struct ChannelTraffic {
    pub(crate) publish: Tally,
    pub(crate) return_unroutable: Tally,
    pub(crate) drop_unroutable: Tally,
    pub(crate) get_empty: Tally,
    pub(crate) ack: Tally,
    pub(crate) sizes: Sizes,
}

/// What a channel's owner has set on it, for listings.
#[derive(Debug, Default)]
pub(crate) struct ChannelFacts {
    pub(crate) confirm: AtomicBool,
    pub(crate) transactional: AtomicBool,
    pub(crate) prefetch: AtomicU16,
    pub(crate) uncommitted: AtomicU64,
}

/// What came and went since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChurnCounts {
    /// Connections opened.
    pub connections_opened: u64,
    /// Connections closed.
    pub connections_closed: u64,
    /// Channels opened.
    pub channels_opened: u64,
    /// Channels closed.
    pub channels_closed: u64,
    /// Queue declarations, of existing queues too.
    pub queues_declared: u64,
    /// Queues created.
    pub queues_created: u64,
    /// Queues deleted.
    pub queues_deleted: u64,
}

/// The node's own counters, and what its closed channels did.
#[derive(Debug, Default)]
pub(crate) struct NodeTraffic {
    connections_opened: AtomicU64,
    connections_closed: AtomicU64,
    channels_opened: AtomicU64,
    channels_closed: AtomicU64,
    queues_declared: AtomicU64,
    queues_created: AtomicU64,
    queues_deleted: AtomicU64,
    pub(crate) exchanges: ExchangeTable,
    /// Of channels that are closed, by vhost. Bounded by the vhosts that exist.
    closed: DashMap<VhostName, TrafficCounts>,
    /// Of channels whose vhost is gone.
    of_deleted_vhosts: Mutex<TrafficCounts>,
    /// Of channels that are closed.
    sizes: Mutex<SizeCounts>,
    /// Of queues that are deleted: classic, quorum.
    deleted_queues: [Mutex<QueueTraffic>; 2],
    deaths: [Deaths; 2],
    /// Of connections that are closed.
    octets: OctetCounts,
    /// Logins of clients, let in and refused.
    logins: (AtomicU64, AtomicU64),
}

/// Octets and reads or writes, both ways.
#[derive(Debug, Default)]
struct OctetCounts {
    received: AtomicU64,
    reads: AtomicU64,
    sent: AtomicU64,
    writes: AtomicU64,
}

/// What went over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Octets {
    /// Octets read.
    pub received: u64,
    /// Reads.
    pub reads: u64,
    /// Octets written.
    pub sent: u64,
    /// Writes.
    pub writes: u64,
}

fn of_kind(kind: QueueKind) -> usize {
    match kind {
        QueueKind::Classic => 0,
        QueueKind::Quorum => 1,
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl NodeTraffic {
    pub(crate) fn connection_opened(&self) {
        count(&self.connections_opened);
    }

    /// A connection has ended: its octets stay in the sums.
    pub(crate) fn connection_closed(&self, session: &SessionShared) {
        count(&self.connections_closed);
        let (received, reads) = session.received();
        let sent = session.options.outbox.sent();
        let add = |counter: &AtomicU64, count| counter.fetch_add(count, Ordering::Relaxed);
        add(&self.octets.received, received);
        add(&self.octets.reads, reads);
        add(&self.octets.sent, sent.octets);
        add(&self.octets.writes, sent.writes);
    }

    /// What went over connections that are closed.
    pub(crate) fn octets(&self) -> Octets {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Octets {
            received: load(&self.octets.received),
            reads: load(&self.octets.reads),
            sent: load(&self.octets.sent),
            writes: load(&self.octets.writes),
        }
    }

    pub(crate) fn login(&self, let_in: bool) {
        let (succeeded, failed) = &self.logins;
        count(if let_in { succeeded } else { failed });
    }

    /// Logins that were let in, and those that were refused.
    pub(crate) fn logins(&self) -> (u64, u64) {
        let (succeeded, failed) = &self.logins;
        (
            succeeded.load(Ordering::Relaxed),
            failed.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn channel_opened(&self) {
        count(&self.channels_opened);
    }

    /// A channel has ended: what it did stays in the sums.
    pub(crate) fn channel_closed(&self, holder: &Holder) {
        if !holder.session.is_internal() {
            count(&self.channels_closed);
        }
        let vhost = holder.session.options.vhost.clone();
        *self.closed.entry(vhost).or_default() += holder.traffic_counts();
        *self.sizes.lock() += holder.traffic.sizes.counts();
    }

    /// A queue has ended: what it did stays in the sums.
    pub(crate) fn queue_deleted(&self, kind: QueueKind, traffic: QueueTraffic) {
        *self.deleted_queues[of_kind(kind)].lock() += traffic;
    }

    /// What deleted queues of a type did.
    pub(crate) fn of_deleted_queues(&self, kind: QueueKind) -> QueueTraffic {
        *self.deleted_queues[of_kind(kind)].lock()
    }

    /// A message died.
    pub(crate) fn died(&self, kind: QueueKind, reason: DeathReason, strategy: DeathStrategy) {
        self.deaths[of_kind(kind)].died(reason, strategy);
    }

    /// All targets of a dead letter have it.
    pub(crate) fn dead_letter_confirmed(&self, kind: QueueKind) {
        self.deaths[of_kind(kind)].confirmed();
    }

    pub(crate) fn deaths(&self, kind: QueueKind) -> DeathCounts {
        self.deaths[of_kind(kind)].counts()
    }

    /// Sizes of what channels that are closed published.
    pub(crate) fn sizes(&self) -> SizeCounts {
        *self.sizes.lock()
    }

    /// Notes what the metadata says came or went.
    pub(crate) fn on_event(&self, event: &MetadataEvent) {
        match event {
            MetadataEvent::QueueDeclared { created, .. } => {
                count(&self.queues_declared);
                if *created {
                    count(&self.queues_created);
                }
            }
            MetadataEvent::QueueDeleted { .. } => count(&self.queues_deleted),
            MetadataEvent::ExchangeDeleted { record, .. } => {
                let key = (record.vhost.clone(), record.name.as_str().into());
                self.exchanges.by_name.remove(&key);
            }
            MetadataEvent::VhostDeleted { vhost } => {
                if let Some((_, counts)) = self.closed.remove(vhost) {
                    *self.of_deleted_vhosts.lock() += counts;
                }
                self.exchanges.by_name.retain(|(of, _), _| of != vhost);
            }
            _ => {}
        }
    }

    pub(crate) fn churn(&self) -> ChurnCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ChurnCounts {
            connections_opened: load(&self.connections_opened),
            connections_closed: load(&self.connections_closed),
            channels_opened: load(&self.channels_opened),
            channels_closed: load(&self.channels_closed),
            queues_declared: load(&self.queues_declared),
            queues_created: load(&self.queues_created),
            queues_deleted: load(&self.queues_deleted),
        }
    }

    /// What channels that are closed did, by vhost that exists, and in vhosts that do not.
    pub(crate) fn closed(&self) -> (Vec<(VhostName, TrafficCounts)>, TrafficCounts) {
        let by_vhost = self
            .closed
            .iter()
            .map(|entry| (entry.key().clone(), *entry.value()));
        (by_vhost.collect(), *self.of_deleted_vhosts.lock())
    }
}
