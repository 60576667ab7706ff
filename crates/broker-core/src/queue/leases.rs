//! Everybody who holds or may hold deliveries of a queue: its consumers, those that were cancelled with
//! deliveries outstanding, and channels that fetched. Each has a lease, found by number, consumer
//! or holder.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::consumer::{Consumer, Pause};
use super::entry::{ConsumerId, HolderId};
use super::held::HoldList;
use crate::names::ConsumerTag;

/// No limit, of credit or of time.
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// What a lease is for.
#[derive(Debug)]
pub(super) enum Role {
    /// A consumer that may be served.
    Consumer(Box<Consumer>),
    /// A consumer that is gone, with deliveries that its channel may still settle.
    Cancelled { by_timeout: bool },
    /// What a channel fetched.
    Fetch,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) holder: HolderId,
    pub(super) holds: HoldList,
    pub(super) role: Role,
    /// Most unsettled deliveries.
    pub(super) credit: u64,
    /// Size of unsettled deliveries from which on it gets no more.
    pub(super) byte_credit: u64,
    pub(super) timeout_ms: u64,
    /// Age among consumers; a single active one that steps down is young again.
    pub(super) joined: u64,
    pub(super) priority: i64,
    /// Reasons to give it nothing: those of callers and of the queue.
    pub(super) paused: Pause,
    pub(super) consumer: Option<ConsumerId>,
    /// Who the consumer is, or was; none for fetches.
    pub(super) who: Option<(ConsumerId, ConsumerTag)>,
    pub(super) no_ack: bool,
    /// Stands in the rotation.
    pub(super) queued: bool,
}

impl Lease {
    pub(super) fn consumer(&self) -> Option<&Consumer> {
        match &self.role {
            Role::Consumer(consumer) => Some(consumer),
            Role::Cancelled { .. } | Role::Fetch => None,
        }
    }

    /// Was late; gets nothing more.
    pub(super) fn is_late(&self) -> bool {
        self.paused.contains(Pause::LATE)
    }

    /// As the single active consumer it makes room for another, when it holds nothing more.
    pub(super) fn steps_down(&self) -> bool {
        self.is_late() || self.paused.contains(Pause::BENCHED)
    }

    /// Whether it holds less than it may.
    #[inline]
    pub(super) fn has_credit(&self) -> bool {
        u64::from(self.holds.len()) < self.credit && self.holds.bytes() < self.byte_credit
    }

    /// Whether it may be given a message.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.has_credit() && self.paused.is_none()
    }
}

#[derive(Debug, Default)]
pub(super) struct Leases {
    slots: Vec<Option<Lease>>,
    free: Vec<u32>,
    by_consumer: FxHashMap<ConsumerId, u32>,
    by_holder: FxHashMap<HolderId, SmallVec<[u32; 2]>>,
    joined: u64,
}

impl Leases {
    /// Leases of all roles.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn consumers(&self) -> usize {
        self.by_consumer.len()
    }

    /// The age of whoever joins next.
    pub(super) fn next_age(&mut self) -> u64 {
        self.joined += 1;
        self.joined
    }

    pub(super) fn add(&mut self, lease: Lease) -> u32 {
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        if let Some(id) = lease.consumer {
            self.by_consumer.insert(id, at);
        }
        self.by_holder.entry(lease.holder).or_default().push(at);
        match self.slots.get_mut(at as usize) {
            Some(slot) => *slot = Some(lease),
            None => self.slots.push(Some(lease)),
        }
        at
    }

    /// A live lease.
    pub(super) fn get(&self, at: u32) -> &Lease {
        self.slots[at as usize]
            .as_ref()
            .expect("numbers are those of live leases")
    }

    /// Whether a consumer has this lease.
    pub(super) fn is_consumer(&self, at: u32) -> bool {
        let lease = self.slots.get(at as usize).and_then(Option::as_ref);
        lease.is_some_and(|lease| lease.consumer.is_some())
    }

    /// A live lease.
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Lease {
        self.slots[at as usize]
            .as_mut()
            .expect("numbers are those of live leases")
    }

    pub(super) fn find(&self, consumer: ConsumerId) -> Option<u32> {
        self.by_consumer.get(&consumer).copied()
    }

    pub(super) fn of_holder(&self, holder: HolderId) -> SmallVec<[u32; 2]> {
        self.by_holder.get(&holder).cloned().unwrap_or_default()
    }

    /// What this channel fetches goes here.
    pub(super) fn fetches_of(&self, holder: HolderId) -> Option<u32> {
        let leases = self.by_holder.get(&holder)?;
        leases
            .iter()
            .copied()
            .find(|at| matches!(self.get(*at).role, Role::Fetch))
    }

    /// The consumer is no longer one; its deliveries stay.
    pub(super) fn cancel(&mut self, at: u32, by_timeout: bool) {
        let lease = self.get_mut(at);
        lease.role = Role::Cancelled { by_timeout };
        lease.paused |= Pause::ENDED;
        if let Some(consumer) = lease.consumer.take() {
            self.by_consumer.remove(&consumer);
        }
    }

    /// Ends a lease without a consumer or deliveries.
    pub(super) fn end_if_idle(&mut self, at: u32) {
        let lease = self.get(at);
        if lease.consumer.is_some() || lease.holds.len() > 0 {
            return;
        }
        let holder = lease.holder;
        self.slots[at as usize] = None;
        self.free.push(at);
        if let Some(leases) = self.by_holder.get_mut(&holder) {
            leases.retain(|lease| *lease != at);
            if leases.is_empty() {
                self.by_holder.remove(&holder);
            }
        }
        if self.free.len() == self.slots.len() {
            // Empty maps take no memory.
            *self = Self {
                joined: self.joined,
                ..Self::default()
            };
        }
    }

    /// All leases with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Lease)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, lease)| Some((at as u32, lease.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lease> {
        self.slots.iter_mut().flatten()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let maps = self.by_consumer.capacity() * size_of::<(ConsumerId, u32)>()
            + self.by_holder.capacity() * size_of::<(HolderId, SmallVec<[u32; 2]>)>();
        let consumers = self.by_consumer.len() * size_of::<Consumer>();
        self.slots.capacity() * size_of::<Option<Lease>>() + maps + consumers
    }
}
