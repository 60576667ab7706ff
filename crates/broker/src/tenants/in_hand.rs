//! Deliveries that a user, or a vhost, has in hand: counted for those that have a limit, and
//! nowhere else.
//!
//! A channel takes a place for each delivery on its way to it, and tells the counts whenever its
//! unacked deliveries have changed. At the limit, consumers are passed over like those without
//! credit, and wait here until a place is free. Each node counts its own clients; a queue that
//! another node leads may go beyond the limit by what is under way from there. Must not know when
//! deliveries are settled, or how.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use broker_core::Refusal;
use broker_core::queue::{ConsumerId, HolderId, Pause};
use broker_core::refusal::{Tenant, TenantThing};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::bounds::WAITING_KEPT;
use crate::holder::{Deliveries, Holder};
use crate::node::Node;
use crate::queue::Queue;
use crate::session::SessionShared;

/// What one tenant has in hand, and who waits for it to become less.
pub(crate) struct InHand {
    holder: Tenant,
    limit: AtomicU64,
    count: AtomicU64,
    waiting: Mutex<Waiting>,
    any_waiting: AtomicBool,
    /// Somebody is about to let in those who wait.
    is_waking: AtomicBool,
}

/// Consumers that wait, in the order in which they came.
struct Waiting {
    line: VecDeque<Waiter>,
    /// The length at which those of deleted queues are looked for.
    look_at: usize,
}

struct Waiter {
    queue: Arc<Queue>,
    consumer: ConsumerId,
    holder: HolderId,
}

impl InHand {
    fn new(holder: Tenant, limit: u64) -> Self {
        Self {
            holder,
            limit: AtomicU64::new(limit),
            count: AtomicU64::new(0),
            waiting: Mutex::new(Waiting {
                line: VecDeque::new(),
                look_at: WAITING_KEPT,
            }),
            any_waiting: AtomicBool::new(false),
            is_waking: AtomicBool::new(false),
        }
    }

    fn has_room(&self) -> bool {
        self.count.load(Ordering::SeqCst) < self.limit.load(Ordering::SeqCst)
    }

    fn take(&self) -> bool {
        let limit = self.limit.load(Ordering::SeqCst);
        let one_more = |count| (count < limit).then_some(count + 1);
        let order = Ordering::SeqCst;
        self.count.fetch_update(order, order, one_more).is_ok()
    }

    fn refusal(&self) -> Refusal {
        Refusal::TenantLimit {
            what: TenantThing::Unacked,
            holder: self.holder.clone(),
            limit: self.limit.load(Ordering::SeqCst),
        }
    }

    fn wait(&self, node: &Node, waiter: Waiter) {
        let mut waiting = self.waiting.lock();
        if waiting.line.len() >= waiting.look_at {
            waiting
                .line
                .retain(|waiter| node.queues.contains_key(&waiter.queue.id));
            waiting.look_at = WAITING_KEPT.max(waiting.line.len() * 2);
        }
        waiting.line.push_back(waiter);
        self.tell_any(&waiting);
    }

    fn forget(&self, which: impl Fn(&Waiter) -> bool) {
        if !self.any_waiting.load(Ordering::SeqCst) {
            return;
        }
        let mut waiting = self.waiting.lock();
        waiting.line.retain(|waiter| !which(waiter));
        self.tell_any(&waiting);
    }

    fn next(&self) -> Option<Waiter> {
        if !self.has_room() {
            return None;
        }
        let mut waiting = self.waiting.lock();
        let next = waiting.line.pop_front();
        self.tell_any(&waiting);
        next
    }

    /// Tells those who look without the lock whether somebody waits.
    fn tell_any(&self, waiting: &Waiting) {
        self.any_waiting
            .store(!waiting.line.is_empty(), Ordering::SeqCst);
    }

    /// Lets consumers go on, one after the other, while there is room.
    fn wake(&self, node: &Node) {
        let is_due = || self.any_waiting.load(Ordering::SeqCst) && self.has_room();
        // Whoever wakes looks once more when it is done, so that one at a time is enough; a call
        // from within a consumer's dispatch ends here.
        while is_due() && !self.is_waking.swap(true, Ordering::SeqCst) {
            // Those who are there now: one who waits for somebody else's room comes back at the end
            // of the line.
            let mut left = self.waiting.lock().line.len();
            while left > 0
                && let Some(waiter) = self.next()
            {
                waiter.queue.resume(node, waiter.consumer, Pause::TENANT);
                left -= 1;
            }
            self.is_waking.store(false, Ordering::SeqCst);
        }
    }
}

/// The counts that a channel's deliveries are part of: none, of its user, of its vhost, or both.
pub(crate) type Counts = SmallVec<[Arc<InHand>; 2]>;

/// A channel's part in them.
#[derive(Default)]
pub(crate) struct Share {
    counts: Counts,
    /// What they were told.
    told: u64,
    /// Places of deliveries that are on their way to the channel.
    coming: u64,
}

impl Share {
    /// Takes a place for a delivery, or answers which count is full.
    fn take(&mut self) -> Result<(), Arc<InHand>> {
        for (at, count) in self.counts.iter().enumerate() {
            if !count.take() {
                for taken in &self.counts[..at] {
                    taken.count.fetch_sub(1, Ordering::SeqCst);
                }
                return Err(count.clone());
            }
        }
        let taken = u64::from(!self.counts.is_empty());
        self.told += taken;
        self.coming += taken;
        Ok(())
    }

    fn tell(&mut self, in_hand: usize) {
        if self.counts.is_empty() {
            return;
        }
        let now = in_hand as u64 + self.coming;
        for count in &self.counts {
            // Less than before wraps, and is taken off.
            count
                .count
                .fetch_add(now.wrapping_sub(self.told), Ordering::SeqCst);
        }
        self.told = now;
    }

    fn replace(&mut self, counts: Counts, in_hand: usize) -> Counts {
        for count in &self.counts {
            count.count.fetch_sub(self.told, Ordering::SeqCst);
        }
        self.told = 0;
        let before = std::mem::replace(&mut self.counts, counts);
        self.tell(in_hand);
        before
    }
}

impl Deliveries {
    /// Tells the counts that the unacked deliveries have changed.
    pub(crate) fn tell(&mut self) {
        self.share.tell(self.unacked.in_hand());
    }

    /// So many deliveries that had a place are among the unacked ones now.
    pub(crate) fn arrived(&mut self, deliveries: usize) {
        self.share.coming = self.share.coming.saturating_sub(deliveries as u64);
        self.tell();
    }

    /// The channel ends: what it has in hand is nobody's. Answers the counts that have room by it.
    pub(crate) fn end_share(&mut self) -> Counts {
        self.share.replace(Counts::new(), 0)
    }
}

/// Whether a consumer may be handed a message; takes the place that it needs. Runs under the
/// queue's lock; once that is free, those who wait at `looked_at` have to be woken.
pub(crate) fn may_take(
    node: &Node,
    queue: &Arc<Queue>,
    (holder, consumer): (&Arc<Holder>, ConsumerId),
    looked_at: &mut Counts,
) -> bool {
    let mut deliveries = holder.deliveries.lock();
    let Err(count) = deliveries.share.take() else {
        return true;
    };
    let waiter = Waiter {
        queue: queue.clone(),
        consumer,
        holder: holder.id,
    };
    count.wait(node, waiter);
    // All of them: the place that was given back may be the one that somebody else waits for.
    for count in &deliveries.share.counts {
        if !looked_at.iter().any(|known| Arc::ptr_eq(known, count)) {
            looked_at.push(count.clone());
        }
    }
    false
}

/// The place of a message that is being fetched.
pub(crate) struct Fetching {
    node: Arc<Node>,
    holder: Arc<Holder>,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.holder.deliveries.lock().arrived(1);
        self.node.room_in_hand(&self.holder);
    }
}

impl Holder {
    /// The limit that keeps its consumers waiting.
    pub(crate) fn full_hands(&self) -> Option<Refusal> {
        let deliveries = self.deliveries.lock();
        let mut counts = deliveries.share.counts.iter();
        counts
            .find(|count| !count.has_room())
            .map(|full| full.refusal())
    }
}

/// Limits of what is in hand.
#[derive(Default)]
pub(crate) struct InHandLimits {
    counts: Mutex<HashMap<Tenant, Arc<InHand>>>,
    /// How many there are.
    known: AtomicUsize,
}

impl InHandLimits {
    /// Whether anybody has such a limit.
    pub(crate) fn any(&self) -> bool {
        self.known.load(Ordering::Acquire) > 0
    }

    /// Sets or lifts the limit of a tenant that is counted.
    fn set_limit(&self, tenant: &Tenant, limit: Option<u64>, node: &Node) {
        let count = {
            let mut counts = self.counts.lock();
            let count = match limit {
                Some(_) => counts.get(tenant).cloned(),
                None => counts.remove(tenant),
            };
            self.known.store(counts.len(), Ordering::Release);
            count
        };
        if let Some(count) = count {
            let limit = limit.unwrap_or(u64::MAX);
            count.limit.store(limit, Ordering::SeqCst);
            count.wake(node);
        }
    }
}

impl Node {
    /// Takes a place for a message that a channel wants to fetch.
    ///
    /// # Errors
    /// The user, or the vhost, has as much in hand as its limit allows.
    pub(crate) fn fetching(
        self: &Arc<Self>,
        holder: &Arc<Holder>,
        no_ack: bool,
    ) -> Result<Option<Fetching>, Refusal> {
        if no_ack || !self.in_hand.any() {
            return Ok(None);
        }
        let taken = holder.deliveries.lock().share.take();
        if let Err(full) = taken {
            // The place that was given back may be the one that somebody else waits for.
            self.room_in_hand(holder);
            return Err(full.refusal());
        }
        let (node, holder) = (self.clone(), holder.clone());
        Ok(Some(Fetching { node, holder }))
    }

    fn counts_of(&self, holder: &Holder) -> Counts {
        match self.in_hand.any() {
            true => holder.deliveries.lock().share.counts.clone(),
            false => Counts::new(),
        }
    }

    /// A channel has less in hand: consumers that waited for it go on. Not to be called under a
    /// queue's lock.
    pub(crate) fn room_in_hand(&self, holder: &Holder) {
        self.wake_waiting(&self.counts_of(holder));
    }

    /// Those who wait at these counts go on, where there is room.
    pub(crate) fn wake_waiting(&self, counts: &[Arc<InHand>]) {
        for count in counts {
            count.wake(self);
        }
    }

    /// A delivery came for a consumer whose queue another node leads. At the limit the consumer is
    /// paused there.
    pub(crate) fn took_from_away(
        &self,
        queue: &Arc<Queue>,
        holder: &Arc<Holder>,
        consumer: ConsumerId,
    ) {
        let counts = self.counts_of(holder);
        let Some(full) = counts.iter().find(|count| !count.has_room()) else {
            return;
        };
        self.pause_away(queue, consumer, Pause::TENANT);
        let waiter = Waiter {
            queue: queue.clone(),
            consumer,
            holder: holder.id,
        };
        full.wait(self, waiter);
        full.wake(self);
    }

    /// A consumer that is gone waits no more.
    pub(crate) fn stop_waiting(&self, holder: &Holder, consumer: ConsumerId) {
        for count in &self.counts_of(holder) {
            count.forget(|waiter| waiter.consumer == consumer);
        }
    }

    /// A channel that is gone has nothing in hand.
    pub(crate) fn empty_hands(&self, holder: &Holder) {
        let counts = holder.deliveries.lock().end_share();
        for count in &counts {
            count.forget(|waiter| waiter.holder == holder.id);
        }
        self.wake_waiting(&counts);
    }

    /// A channel's deliveries are counted from here on, if somebody limits them.
    pub(crate) fn count_in_hand(&self, holder: &Holder) {
        let SessionShared { options, .. } = &*holder.session;
        let is_limited = || {
            let metadata = self.metadata.read();
            let mut limits = metadata.unacked_limits(&options.user, &options.vhost);
            limits.next().is_some()
        };
        // The node that a guest comes from counts for it.
        if !holder.session.is_guest() && is_limited() {
            self.share_out(holder);
        }
    }

    /// The limits of a user or a vhost have changed: its channels are counted anew, and consumers
    /// that may go on do.
    pub(crate) fn in_hand_limits_changed(&self, tenant: &Tenant) {
        let limit = self.metadata.read().unacked_limit(tenant);
        let count = self.in_hand.counts.lock().get(tenant).cloned();
        let before = count.map(|count| count.limit.load(Ordering::SeqCst));
        if before == limit {
            return;
        }
        for session in &self.sessions {
            let options = &session.options;
            let is_meant = match tenant {
                Tenant::User(user) => options.user == *user,
                Tenant::Vhost(vhost) => options.vhost == *vhost,
            };
            if !is_meant || session.is_guest() {
                continue;
            }
            let holders = session.channels.lock().clone();
            holders.iter().for_each(|holder| self.share_out(holder));
        }
        self.in_hand.set_limit(tenant, limit, self);
    }

    /// Puts a channel's deliveries into the counts that its user and vhost have now.
    fn share_out(&self, holder: &Holder) {
        // Under the table's lock, so that whoever comes later has read later.
        let mut table = self.in_hand.counts.lock();
        let SessionShared { options, .. } = &*holder.session;
        let limits: SmallVec<[_; 2]> = {
            let metadata = self.metadata.read();
            let limits = metadata.unacked_limits(&options.user, &options.vhost);
            limits.collect()
        };
        let counts = limits.into_iter().map(|(tenant, limit)| {
            let count = table
                .entry(tenant)
                .or_insert_with_key(|tenant| Arc::new(InHand::new(tenant.clone(), limit)));
            count.limit.store(limit, Ordering::SeqCst);
            count.clone()
        });
        let counts: Counts = counts.collect();
        self.in_hand.known.store(table.len(), Ordering::Release);
        let mut deliveries = holder.deliveries.lock();
        if deliveries.open {
            let in_hand = deliveries.unacked.in_hand();
            deliveries.share.replace(counts, in_hand);
        }
    }
}
