//! What passed through queues, channels, exchanges and the node, counted by whoever did it.
//!
//! Counters that live under their owner's lock are plain numbers; the others are [`Tally`]s, which
//! have one writer at a time, so that counting on the way of a message needs no locked
//! instruction. Readers may see a count a moment old.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

use broker_core::VhostName;
use broker_core::dead_letter::DeathReason;
use broker_core::metadata::MetadataEvent;
use broker_core::settings::QueueKind;
use dashmap::DashMap;
use parking_lot::Mutex;

use crate::holder::Holder;

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

/// Upper bounds of the message sizes that are told apart, in bytes; the last class has none.
// rabbitmq: message_size_bytes
pub const SIZE_CLASSES: [u64; 8] =
    [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000];

/// Sizes of published messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeCounts {
    /// Messages of each class of [`SIZE_CLASSES`], and larger ones.
    pub messages: [u64; SIZE_CLASSES.len() + 1],
    /// Bytes of all.
    pub bytes: u64,
}

impl AddAssign for SizeCounts {
    fn add_assign(&mut self, other: Self) {
        for (sum, count) in self.messages.iter_mut().zip(other.messages) {
            *sum += count;
        }
        self.bytes += other.bytes;
    }
}

/// Sizes of the messages that one channel published.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    messages: [Tally; SIZE_CLASSES.len() + 1],
    bytes: Tally,
}

impl Sizes {
    pub(crate) fn published(&self, bytes: usize) {
        let bytes = bytes as u64;
        let class = SIZE_CLASSES.iter().position(|bound| bytes <= *bound);
        self.messages[class.unwrap_or(SIZE_CLASSES.len())].add(1);
        self.bytes.add(bytes);
    }

    pub(crate) fn counts(&self) -> SizeCounts {
        let mut counts = SizeCounts { bytes: self.bytes.get(), ..SizeCounts::default() };
        for (count, tally) in counts.messages.iter_mut().zip(&self.messages) {
            *count = tally.get();
        }
        counts
    }
}

/// How surely dead letters reach their targets; the index of a [`DeathCounts`] row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathStrategy {
    /// Once at most.
    AtMostOnce,
    /// Until a target confirms.
    AtLeastOnce,
    /// There is nowhere to go.
    Disabled,
}

/// Messages that died, by reason and strategy, in queues of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeathCounts {
    /// Rows by [`DeathReason`] in its order, columns by [`DeathStrategy`] in its order.
    pub dead: [[u64; 3]; 4],
    /// Dead letters that their targets confirmed.
    pub confirmed: u64,
}

#[derive(Debug, Default)]
struct Deaths {
    dead: [[AtomicU64; 3]; 4],
    confirmed: AtomicU64,
}

impl Deaths {
    fn counts(&self) -> DeathCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeathCounts {
            dead: self.dead.each_ref().map(|row| row.each_ref().map(load)),
            confirmed: load(&self.confirmed),
        }
    }
}

/// What a channel's owner has set on it, for listings.
#[derive(Debug, Default)]
pub(crate) struct ChannelFacts {
    pub(crate) confirm: AtomicBool,
    pub(crate) transactional: AtomicBool,
    pub(crate) prefetch: AtomicU16,
    pub(crate) uncommitted: AtomicU64,
}

/// What an exchange did.
#[derive(Debug, Default)]
pub(crate) struct ExchangeTraffic {
    published_in: AtomicU64,
    published_out: AtomicU64,
}

impl ExchangeTraffic {
    /// Many channels publish to one exchange: each adds what it gathered over a turn.
    fn add(&self, published_in: u64, published_out: u64) {
        self.published_in.fetch_add(published_in, Ordering::Relaxed);
        self.published_out
            .fetch_add(published_out, Ordering::Relaxed);
    }

    /// Messages that came in, and copies that left for queues.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.published_in.load(Ordering::Relaxed),
            self.published_out.load(Ordering::Relaxed),
        )
    }
}

/// What a channel published to one exchange in this turn.
#[derive(Default)]
pub(crate) struct ExchangeTally {
    exchange: Option<Arc<ExchangeTraffic>>,
    published_in: u64,
    published_out: u64,
}

impl ExchangeTally {
    pub(crate) fn published(&mut self, exchange: &Arc<ExchangeTraffic>, copies: u64) {
        if !self
            .exchange
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, exchange))
        {
            self.flush();
            self.exchange = Some(exchange.clone());
        }
        self.published_in += 1;
        self.published_out += copies;
    }

    pub(crate) fn flush(&mut self) {
        if self.published_in == 0 {
            return;
        }
        if let Some(exchange) = &self.exchange {
            exchange.add(self.published_in, self.published_out);
        }
        self.published_in = 0;
        self.published_out = 0;
    }
}

/// Exchange counters by vhost and name. Bounded by the exchanges that exist.
#[derive(Debug, Default)]
pub(crate) struct ExchangeTable {
    by_name: DashMap<(VhostName, Box<str>), Arc<ExchangeTraffic>>,
}

impl ExchangeTable {
    /// The counters of an exchange, made when they are first asked for.
    pub(crate) fn of(&self, vhost: &VhostName, exchange: &str) -> Arc<ExchangeTraffic> {
        self.by_name
            .entry((vhost.clone(), exchange.into()))
            .or_default()
            .clone()
    }

    pub(crate) fn find(&self, vhost: &VhostName, exchange: &str) -> Option<Arc<ExchangeTraffic>> {
        let key = (vhost.clone(), exchange.into());
        self.by_name
            .get(&key)
            .map(|traffic| traffic.value().clone())
    }
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

    pub(crate) fn connection_closed(&self) {
        count(&self.connections_closed);
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
        count(&self.deaths[of_kind(kind)].dead[reason as usize][strategy as usize]);
    }

    /// All targets of a dead letter have it.
    pub(crate) fn dead_letter_confirmed(&self, kind: QueueKind) {
        count(&self.deaths[of_kind(kind)].confirmed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_gets_what_a_turn_gathered_and_changes_of_exchange_end_it() {
        let (one, other) = (Arc::new(ExchangeTraffic::default()), Arc::default());
        let mut tally = ExchangeTally::default();
        tally.published(&one, 2);
        tally.published(&one, 0);
        assert_eq!(one.counts(), (0, 0));
        tally.published(&other, 1);
        assert_eq!(one.counts(), (2, 2));
        tally.flush();
        tally.flush();
        assert_eq!(other.counts(), (1, 1));
    }
}
