//! What only time decides: waits that are too long, words that are owed, alarms.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use broker_core::flow::guilty;
use broker_core::metadata::QueueId;
use broker_core::{Millis, Timestamp, VhostName};
use rustc_hash::FxHashSet;

use super::memory::{Pool, QueueMemory};
use crate::clock;
use crate::node::Node;
use crate::queue::Queue;

/// Time between two rounds.
const ROUND: Duration = Duration::from_millis(250);

/// Time in which holding the guilty queues' publishers must have made room.
const HELP_WITHIN: Millis = Millis(1_000);

/// A queue within this much of its share is left alone: the queues that take most come first, and small
/// ones are not worth a file.
const PAGE_OUT_BYTES_MIN: u64 = 256 << 10;

/// Rounds between two looks at the machine.
// rabbitmq: memory is looked at every 2.5 s
const ROUNDS_PER_LOOK: u32 = 10;

/// Goes its rounds for as long as the node lives.
pub(crate) async fn run(node: Weak<Node>) {
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut round = 0;
    loop {
        rounds.tick().await;
        let Some(node) = node.upgrade() else { return };
        if round % ROUNDS_PER_LOOK == 0 {
            node.look_at_machine();
        }
        round = round.wrapping_add(1);
        node.patrol();
    }
}

impl Node {
    fn patrol(&self) {
        let now = clock::now();
        self.police_memory(now);
        let watched: Vec<_> = self.flow.watched.lock().iter().copied().collect();
        for id in watched {
            let Some(queue) = self.queue(id) else {
                self.flow.watched.lock().remove(&id);
                continue;
            };
            // Off the list first: whoever puts it on again meanwhile is not overlooked.
            self.flow.watched.lock().remove(&id);
            if queue.gate.patrol(self, &queue, now) {
                self.flow.watch(id);
            }
            queue.let_in(self);
        }
        for holder in self.flow.held_channels() {
            holder.tick(self);
        }
    }

    /// While a part of the memory is full, queues with more than their share of it hold their
    /// publishers; if that does not help within a second, all publishers wait.
    fn police_memory(&self, now: Timestamp) {
        let memory = &self.flow.memory;
        let mut guilty = FxHashSet::default();
        let (mut is_tight, exhausted) = self.police(now, memory.pool(), None, &mut guilty);
        self.flow.alarms.set_pool_full(exhausted);
        is_tight |= memory.whole().is_almost_full();
        for (name, vhost) in memory.vhosts() {
            let limit = self.metadata.read().memory_limit(&name);
            vhost.pool.meter.set_limit(limit.unwrap_or(0));
            is_tight |= self.police(now, &vhost.pool, Some(&name), &mut guilty).0;
        }
        memory.set_tight(is_tight);
        self.hold_guilty(guilty);
        self.spare_consumers();
        #[cfg(debug_assertions)]
        memory.check(crate::bounds::UNSEEN_BYTES_MAX);
    }

    /// One part of the memory, of the node or of a vhost. Answers whether it is almost full, and whether
    /// holding the guilty queues' publishers does not help.
    fn police(
        &self,
        now: Timestamp,
        pool: &Pool,
        vhost: Option<&VhostName>,
        guilty: &mut FxHashSet<QueueId>,
    ) -> (bool, bool) {
        let Some(limit) = pool.meter.limit() else {
            self.note_room(pool, vhost);
            return (false, false);
        };
        let used = pool.meter.used();
        let mark = pool.meter.high_water().unwrap_or(limit);
        if used >= mark && mark < limit {
            self.page_out_beyond_shares(mark, vhost);
        }
        if !pool.is_almost_full() {
            self.note_room(pool, vhost);
            return (false, false);
        }
        let (queues, share) = self.shares_of(limit, vhost, QueueMemory::resident_bytes);
        pool.set_share(share);
        let full = pool.note_full(now, HELP_WITHIN.0);
        let (holds, exhausted) = (full.is_full, full.is_exhausted);
        if let Some(vhost) = vhost.filter(|_| full.is_news) {
            tracing::warn!(%vhost, used, limit,
                "memory of the vhost is full: publishers of the queues that take most of it wait");
        }
        if holds {
            let all = exhausted && vhost.is_some();
            let held = queues.iter().filter(|(_, bytes)| all || *bytes > share);
            guilty.extend(held.map(|(queue, _)| queue.id));
        }
        (true, exhausted)
    }

    fn note_room(&self, pool: &Pool, vhost: Option<&VhostName>) {
        let was_full = pool.note_room();
        if let Some(vhost) = vhost.filter(|_| was_full) {
            tracing::info!(%vhost, "memory of the vhost has room again");
        }
    }

    /// These queues hold their publishers for memory, and no others.
    fn hold_guilty(&self, guilty: FxHashSet<QueueId>) {
        let before = std::mem::replace(&mut *self.flow.guilty.lock(), guilty.clone());
        for id in before.symmetric_difference(&guilty) {
            if let Some(queue) = self.queue(*id) {
                queue.gate.set_guilty(self, &queue, guilty.contains(id));
            }
        }
        if !self.flow.alarms.any() {
            self.tell_alarms_over();
        }
    }

    /// From the mark of the consumers' part on, bodies that are handed out leave memory: they were
    /// written to their consumers, and come back from disk if they return. A queue's messages leave
    /// with those that it has handed out, the first ones of all. A consumer with more than its share
    /// gets nothing more meanwhile.
    fn spare_consumers(&self) {
        let part = &self.flow.memory.consumers;
        let Some(mark) = part.high_water().filter(|mark| part.used() >= *mark) else {
            return self.end_rations();
        };
        let (queues, share) = self.shares_of(mark, None, QueueMemory::handed_out_bytes);
        let holding = queues.into_iter().filter(|(_, bytes)| *bytes > 0);
        let holding: Vec<_> = holding.collect();
        self.ration(&holding, mark);
        for (queue, handed_out) in holding {
            if handed_out > share / 2 {
                self.page_out(&queue, 0);
            }
        }
    }

    /// Each consumer of these queues gets its share of so many bytes.
    fn ration(&self, queues: &[(Arc<Queue>, u64)], bytes: u64) {
        let consumers = queues.iter().map(|(queue, _)| {
            queue.while_cold(|state| {
                let consumers = state.machine.consumers();
                consumers.filter(|view| view.unacked > 0).count() as u64
            })
        });
        let share = guilty(bytes, consumers.sum());
        let mut rationed = self.flow.rationed.lock();
        rationed.extend(queues.iter().map(|(queue, _)| queue.id));
        drop(rationed);
        for (queue, _) in queues {
            queue.set_byte_credit(self, Some(share));
        }
    }

    fn end_rations(&self) {
        let rationed = std::mem::take(&mut *self.flow.rationed.lock());
        for queue in rationed.into_iter().filter_map(|id| self.queue(id)) {
            queue.set_byte_credit(self, None);
        }
    }

    /// The queues of the node, or of a vhost, with what each takes of it, and what each may of so many
    /// bytes.
    fn shares_of(
        &self,
        bytes: u64,
        vhost: Option<&VhostName>,
        taken: impl Fn(&QueueMemory) -> u64,
    ) -> (Vec<(Arc<Queue>, u64)>, u64) {
        let queues = self.all_queues().into_iter();
        let queues = queues.filter(|queue| vhost.is_none_or(|vhost| queue.vhost == *vhost));
        let queues: Vec<_> = queues
            .map(|queue| {
                let bytes = queue.while_cold(|state| taken(&state.memory));
                (queue, bytes)
            })
            .collect();
        let holding = queues.iter().filter(|(_, bytes)| *bytes > 0).count();
        (queues, guilty(bytes, holding as u64))
    }

    /// What queues keep in memory beyond half of their share goes to disk, in the background.
    fn page_out_beyond_shares(&self, bytes: u64, vhost: Option<&VhostName>) {
        let (queues, share) = self.shares_of(bytes, vhost, QueueMemory::resident_bytes);
        let small = PAGE_OUT_BYTES_MIN.min(share / 2);
        for (queue, resident) in queues {
            if resident > share / 2 + small {
                self.page_out(&queue, share / 2);
            }
        }
    }

    /// Raises and ends alarms.
    pub(crate) fn look_at_machine(&self) {
        self.flow.alarms.look_at_memory();
        self.disk_space.look(self, clock::now());
        self.tell_alarms_over();
    }

    // What waits for the alarm's end is let in by the round that follows.
    pub(crate) fn tell_alarms_over(&self) {
        if !self.flow.alarms.any() && self.flow.sessions_alarmed.swap(false, Ordering::AcqRel) {
            for session in &self.sessions {
                session.flow.alarm_over(&session.signals);
            }
        }
    }
}
