//! The memory tree of the node: what publishers and consumers take, by vhost and by queue.
//!
//! A queue counts what it keeps in memory under its own lock and tells the tree once a turn. A body
//! that several queues share is told once, and counted in full by each of them. What is handed out
//! is the consumers'; the rest, what waits with its publishers and what is being received are the
//! producers'.
// ActiveMQ: system usage, with a part for each side

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use broker_core::flow::{Meter, handed_out_part};
use broker_core::queue::{EntryId, QueueCounts};
use broker_core::{Timestamp, VhostName};
use dashmap::DashMap;
use parking_lot::Mutex;

use crate::content::Content;

/// What an entry takes beside its message: its place in the queue's table.
pub(crate) const ENTRY_BYTES: u64 = 64;

/// The part of the limit from which on a message is large.
const LARGE_PART: u64 = 64;

/// A part of the memory that publishers are held at, and how it stands.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) meter: Arc<Meter>,
    /// What a queue may keep of it while it is full or almost full.
    share_bytes: AtomicU64,
    /// A publisher was told to wait for it since it was looked at.
    refused: AtomicBool,
    /// Since when it is full, and whether holding the guilty queues' publishers did not help.
    standing: Mutex<(Option<Timestamp>, bool)>,
}

impl Pool {
    fn new(meter: Arc<Meter>) -> Self {
        Self {
            meter,
            share_bytes: AtomicU64::new(u64::MAX),
            refused: AtomicBool::new(false),
            standing: Mutex::default(),
        }
    }

    /// Whether nine tenths of the limit are used.
    pub(crate) fn is_almost_full(&self) -> bool {
        let limit = self.meter.limit();
        limit.is_some_and(|limit| self.meter.used() >= limit / 10 * 9)
    }

    /// Whether a queue that keeps so many bytes is guilty of its being full. Until the queues were
    /// looked at, one with half of it is.
    fn is_too_much(&self, bytes: u64) -> bool {
        match self.share_bytes.load(Ordering::Relaxed) {
            u64::MAX => self.meter.limit().is_some_and(|limit| bytes > limit / 2),
            share => bytes > share,
        }
    }

    /// Whether so many bytes more would go beyond the limit.
    fn lacks(&self, bytes: u64) -> bool {
        let limit = self.meter.limit();
        limit.is_some_and(|limit| self.meter.used().saturating_add(bytes) > limit)
    }

    /// It is full or almost full: a queue that keeps more than this is guilty of it.
    pub(crate) fn set_share(&self, bytes: u64) {
        self.share_bytes.store(bytes, Ordering::Relaxed);
    }

    /// It is looked at while it is almost full.
    pub(crate) fn note_full(&self, now: Timestamp, help_within_ms: u64) -> Fullness {
        let limit = self.meter.limit();
        let is_used_up = limit.is_some_and(|limit| self.meter.used() >= limit);
        let is_full = self.refused.swap(false, Ordering::Relaxed) || is_used_up;
        let mut standing = self.standing.lock();
        let (since, is_exhausted) = &mut *standing;
        let is_news = is_full && since.is_none();
        match *since {
            None if is_full => *since = Some(now),
            Some(at) if is_used_up && now.since(at).0 >= help_within_ms => *is_exhausted = true,
            _ => {}
        }
        Fullness {
            is_full: since.is_some(),
            is_news,
            is_exhausted: *is_exhausted,
        }
    }

    /// There is room. Answers whether there was none.
    pub(crate) fn note_room(&self) -> bool {
        self.set_share(u64::MAX);
        std::mem::take(&mut *self.standing.lock()).0.is_some()
    }
}

/// How a part of the memory stands that is full or almost full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fullness {
    /// It is full, or was and has not much room since.
    pub(crate) is_full: bool,
    /// It was not before.
    pub(crate) is_news: bool,
    /// Holding the guilty queues' publishers did not help in time.
    pub(crate) is_exhausted: bool,
}

/// What the queues of one vhost keep.
#[derive(Debug)]
pub(crate) struct VhostMemory {
    pub(crate) pool: Pool,
    /// Bodies that one queue has.
    own: Arc<Meter>,
    /// Bodies that several queues share.
    shared: Arc<Meter>,
    tight: Arc<AtomicBool>,
}

impl VhostMemory {
    /// More is used. Who looks after memory comes four times a second; publishers may be faster.
    fn note_growth(&self, tree: &[Pool; 2]) {
        let almost_full = |pool: &Pool| pool.is_almost_full();
        if almost_full(&self.pool) || tree.iter().any(almost_full) {
            self.tight.store(true, Ordering::Relaxed);
        }
    }
}

/// The meters above the queues.
#[derive(Debug)]
pub(crate) struct MemoryTree {
    pub(crate) main: Arc<Meter>,
    pub(crate) producers: Arc<Meter>,
    pub(crate) consumers: Arc<Meter>,
    /// What waits with its publishers.
    pub(crate) parked: Arc<Meter>,
    /// Bodies that were announced and are being received.
    pub(crate) ingest: Arc<Meter>,
    /// Bounded by the vhosts.
    vhosts: DashMap<VhostName, Arc<VhostMemory>>,
    /// The producers' share of the limit; 0 makes it one pool.
    producer_percent: u64,
    /// The publishers' part, and the whole.
    pools: Arc<[Pool; 2]>,
    high_water_percent: u64,
    /// Some part is almost full: whoever publishes looks before.
    tight: Arc<AtomicBool>,
    /// Messages from this size on look even when no part is almost full.
    large_bytes: AtomicU64,
    /// What the broker itself brought in beyond the limit, or was there before the limit.
    beyond_bytes: AtomicU64,
    #[cfg(debug_assertions)]
    was_checked: AtomicBool,
}

impl MemoryTree {
    pub(crate) fn new(limit_bytes: Option<u64>, producer_percent: u64, high_water: u64) -> Self {
        let main = Meter::root(0);
        let producers = main.child(0);
        let consumers = main.child(0);
        for meter in [&main, &producers, &consumers] {
            meter.set_high_water_percent(high_water);
        }
        let tree = Self {
            parked: producers.child(0),
            ingest: producers.child(0),
            vhosts: DashMap::new(),
            producer_percent: producer_percent.min(100),
            pools: Arc::new([Pool::new(producers.clone()), Pool::new(main.clone())]),
            high_water_percent: high_water,
            tight: Arc::default(),
            large_bytes: AtomicU64::new(u64::MAX),
            beyond_bytes: AtomicU64::new(0),
            #[cfg(debug_assertions)]
            was_checked: AtomicBool::new(false),
            consumers,
            main,
            producers,
        };
        tree.set_limit(limit_bytes);
        tree
    }

    /// Another limit applies; `None` is none.
    pub(crate) fn set_limit(&self, limit_bytes: Option<u64>) {
        let limit = limit_bytes.unwrap_or(0);
        self.main.set_limit(limit);
        let share = |percent: u64| match self.producer_percent {
            0 | 100 => 0,
            _ => (u128::from(limit) * u128::from(percent) / 100) as u64,
        };
        self.producers.set_limit(share(self.producer_percent));
        self.consumers.set_limit(share(100 - self.producer_percent));
        self.large_bytes.store(
            limit_bytes.map_or(u64::MAX, |limit| limit / LARGE_PART),
            Ordering::Relaxed,
        );
        self.tight.store(limit > 0, Ordering::Relaxed);
        self.excuse(self.main.used().saturating_sub(limit));
    }

    /// The limit that publishers are held at, and what counts towards it.
    pub(crate) fn pool(&self) -> &Pool {
        match self.producers.limit() {
            Some(_) => &self.pools[0],
            None => self.whole(),
        }
    }

    pub(crate) fn whole(&self) -> &Pool {
        &self.pools[1]
    }

    pub(crate) fn vhost(&self, vhost: &VhostName) -> Arc<VhostMemory> {
        let meters = self.vhosts.entry(vhost.clone());
        let make = || {
            let all = self.producers.child(0);
            all.set_high_water_percent(self.high_water_percent);
            Arc::new(VhostMemory {
                own: all.child(0),
                shared: all.child(0),
                tight: self.tight.clone(),
                pool: Pool::new(all),
            })
        };
        meters.or_insert_with(make).clone()
    }

    /// A connection's own part of what is received and of what waits with its publishers.
    pub(crate) fn connection(&self) -> ConnectionMemory {
        ConnectionMemory {
            ingest: self.ingest.child(0),
            parked: self.parked.child(0),
        }
    }

    pub(crate) fn forget_vhost(&self, vhost: &VhostName) {
        self.vhosts.remove(vhost);
    }

    /// The vhosts with what their queues take.
    pub(crate) fn vhosts(&self) -> Vec<(VhostName, Arc<VhostMemory>)> {
        let vhosts = self.vhosts.iter();
        vhosts
            .map(|entry| (entry.key().clone(), entry.value().clone()))
            .collect()
    }

    /// Whether a publisher of so many bytes must look before it publishes: some part is almost full, or
    /// the message is large beside what is left when it is.
    pub(crate) fn must_look(&self, bytes: u64) -> bool {
        self.tight.load(Ordering::Relaxed) || bytes >= self.large_bytes.load(Ordering::Relaxed)
    }

    /// Some part is almost full, or none.
    pub(crate) fn set_tight(&self, tight: bool) {
        self.tight.store(tight, Ordering::Relaxed);
    }

    /// Whether a publisher's message comes into a queue that keeps `resident_bytes`; `coming_bytes`
    /// is what it takes, with what is on its way and in no meter yet. Beyond the whole limit nothing
    /// comes in; beyond the publishers' part or the vhost's, what is for queues within their share.
    pub(crate) fn takes(&self, vhost: &VhostName, resident_bytes: u64, coming_bytes: u64) -> bool {
        let is_guilty = |pool: &Pool| {
            let is_guilty =
                pool.lacks(coming_bytes) && pool.is_too_much(resident_bytes + coming_bytes);
            if is_guilty {
                pool.refused.store(true, Ordering::Relaxed);
            }
            is_guilty
        };
        let vhost = || {
            self.vhosts
                .get(vhost)
                .is_some_and(|vhost| is_guilty(&vhost.pool))
        };
        !(self.whole().lacks(coming_bytes) || is_guilty(self.pool()) || vhost())
    }

    /// The whole limit in bytes when all of it is used, and consumers hold their part of it. While they
    /// do not, somebody who wants to consume must get in, for that is what makes room.
    pub(crate) fn exhausted(&self) -> Option<u64> {
        let limit = self
            .main
            .limit()
            .filter(|limit| self.main.used() >= *limit)?;
        let consumers = self.consumers.limit()?;
        (self.consumers.used() >= consumers).then_some(limit)
    }

    /// Whether a message may wait in memory; `coming_bytes` as for [`MemoryTree::takes`].
    pub(crate) fn lets_wait(&self, coming_bytes: u64) -> bool {
        !self.whole().lacks(coming_bytes) && !self.pool().lacks(coming_bytes)
    }

    /// So many bytes came, or were there, beyond the limit by nobody's publish.
    pub(crate) fn excuse(&self, bytes: u64) {
        self.beyond_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Every part shows the sum of its parts, and no publisher has brought more in than the limit
    /// lets; `slack_bytes` may have been on their way when memory became tight.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self, slack_bytes: u64) {
        let count = self.main.count();
        assert!(count.is_ok(), "the memory tree does not add up: {count:?}");
        if !self.was_checked.swap(true, Ordering::Relaxed) {
            // A start brings back what it finds.
            self.excuse(self.main.used());
        }
        // Who consumes is always read: what it has announced may go beyond.
        let used = self.main.used().saturating_sub(self.ingest.used());
        let Some(limit) = self.main.limit() else {
            return;
        };
        if used <= limit {
            self.beyond_bytes.store(0, Ordering::Relaxed);
        }
        let beyond = self.beyond_bytes.load(Ordering::Relaxed);
        assert!(
            used <= limit + beyond + slack_bytes,
            "{used} bytes of {limit} are used, with {beyond} and {slack_bytes} excused"
        );
    }
}

/// What one connection takes of the publishers' part beside its messages in queues.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    /// Bodies that were announced and are being received.
    pub(crate) ingest: Arc<Meter>,
    /// What waits with its channels.
    pub(crate) parked: Arc<Meter>,
}

impl Drop for ConnectionMemory {
    fn drop(&mut self) {
        // Bodies that never arrived. What waits holds its connection.
        self.ingest.sub(self.ingest.used());
    }
}

/// What one queue keeps in memory. Under the queue's lock.
#[derive(Debug)]
pub(crate) struct QueueMemory {
    vhost: Arc<VhostMemory>,
    pools: Arc<[Pool; 2]>,
    consumers: Arc<Meter>,
    resident_bytes: u64,
    resident_messages: u64,
    /// Of these, bodies that no other queue shares.
    own_bytes: u64,
    /// Shared bodies that came here first, less those that went here last, since the tree was told.
    /// A body that comes here and goes elsewhere leaves one queue above zero and another below:
    /// only the sum of all queues means something, so all of it is told to one meter.
    shared_bytes: i64,
    /// What the tree was told of its own bodies: those that wait, and those that are handed out.
    told_waiting: u64,
    told_handed_out: u64,
    /// The last message that became a dead letter: one that was refused is named twice.
    last_dead: Option<EntryId>,
}

impl QueueMemory {
    pub(crate) fn new(tree: &MemoryTree, vhost: &VhostName) -> Self {
        Self {
            vhost: tree.vhost(vhost),
            pools: tree.pools.clone(),
            consumers: tree.consumers.clone(),
            resident_bytes: 0,
            resident_messages: 0,
            own_bytes: 0,
            shared_bytes: 0,
            told_waiting: 0,
            told_handed_out: 0,
            last_dead: None,
        }
    }

    /// Bytes of its messages that are handed out, as the tree was told.
    pub(crate) fn handed_out_bytes(&self) -> u64 {
        self.told_handed_out
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }

    pub(crate) fn resident_messages(&self) -> u64 {
        self.resident_messages
    }

    /// A message's bytes are in memory from here on.
    pub(crate) fn enters(&mut self, content: &Content) {
        let Content::Resident { batch, at, len } = content else {
            return;
        };
        let bytes = u64::from(*len) + ENTRY_BYTES;
        self.resident_bytes += bytes;
        self.resident_messages += 1;
        match batch.shared(*at) {
            None => self.own_bytes += bytes,
            Some(queues) if queues.fetch_add(1, Ordering::AcqRel) == 0 => {
                self.shared_bytes += bytes as i64;
            }
            Some(_) => {}
        }
    }

    /// They are not any more.
    pub(crate) fn leaves(&mut self, content: &Content) {
        let Content::Resident { batch, at, len } = content else {
            return;
        };
        let bytes = u64::from(*len) + ENTRY_BYTES;
        debug_assert!(self.resident_bytes >= bytes, "more leaves than is there");
        self.resident_bytes = self.resident_bytes.saturating_sub(bytes);
        self.resident_messages = self.resident_messages.saturating_sub(1);
        match batch.shared(*at) {
            None => self.own_bytes = self.own_bytes.saturating_sub(bytes),
            Some(queues) if queues.fetch_sub(1, Ordering::AcqRel) == 1 => {
                self.shared_bytes -= bytes as i64;
            }
            Some(_) => {}
        }
    }

    /// A message has become a dead letter and has left the queue.
    pub(crate) fn dead_letter_leaves(&mut self, id: EntryId, content: &Content) {
        self.last_dead = Some(id);
        self.leaves(content);
    }

    /// A message was not taken in.
    pub(crate) fn refused(&mut self, id: EntryId, content: &Content) {
        if self.last_dead != Some(id) {
            self.leaves(content);
        }
    }

    /// Tells the tree. Called at the end of each turn with the queue.
    pub(crate) fn tell(&mut self, counts: &QueueCounts) {
        let handed_out = handed_out_part(
            self.resident_bytes,
            self.resident_messages,
            counts.messages(),
            counts.unacked,
        );
        let handed_out = handed_out.min(self.own_bytes);
        let waiting = self.own_bytes - handed_out;
        let VhostMemory { own, shared, .. } = &*self.vhost;
        // What changes sides is moved, so that the sum above never shows it twice or not at all.
        let given = self.told_waiting.saturating_sub(waiting);
        let moved = given.min(handed_out.saturating_sub(self.told_handed_out));
        own.move_to(&self.consumers, moved);
        let given_back = self.told_handed_out.saturating_sub(handed_out);
        let back = given_back.min(waiting.saturating_sub(self.told_waiting));
        self.consumers.move_to(own, back);
        charge(own, self.told_waiting - moved + back, waiting);
        charge(
            &self.consumers,
            self.told_handed_out + moved - back,
            handed_out,
        );
        let grows = waiting + handed_out > self.told_waiting + self.told_handed_out;
        (self.told_waiting, self.told_handed_out) = (waiting, handed_out);
        if grows || self.shared_bytes > 0 {
            self.vhost.note_growth(&self.pools);
        }
        match std::mem::take(&mut self.shared_bytes) {
            more if more > 0 => shared.add(more.unsigned_abs()),
            less => shared.sub(less.unsigned_abs()),
        }
    }

    /// The queue is gone with all its messages; `contents` are those that it had.
    pub(crate) fn end<'a>(&mut self, contents: impl Iterator<Item = Cow<'a, Content>>) {
        for content in contents {
            self.leaves(&content);
        }
        self.tell(&QueueCounts::default());
    }
}

fn charge(meter: &Meter, before: u64, after: u64) {
    meter.add(after.saturating_sub(before));
    meter.sub(before.saturating_sub(after));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_exhausted_only_while_consumers_hold_their_part_of_it() {
        let tree = MemoryTree::new(Some(1_000), 60, 70);
        tree.parked.add(1_000);
        assert_eq!(tree.exhausted(), None, "a consumer would make room");
        tree.consumers.add(400);
        assert_eq!(tree.exhausted(), Some(1_000));
        tree.parked.sub(900);
        assert_eq!(tree.exhausted(), None);
    }

    #[test]
    fn without_parts_or_without_a_limit_memory_is_never_exhausted() {
        for (limit, percent) in [(Some(1_000), 0), (None, 60)] {
            let tree = MemoryTree::new(limit, percent, 70);
            tree.consumers.add(2_000);
            assert_eq!(tree.exhausted(), None);
        }
    }

    #[test]
    fn what_a_connection_announced_goes_with_it() {
        let tree = MemoryTree::new(None, 60, 70);
        let connection = tree.connection();
        connection.ingest.add(70);
        assert_eq!(tree.ingest.used(), 70);
        drop(connection);
        assert_eq!((tree.ingest.used(), tree.main.used()), (0, 0));
    }
}
