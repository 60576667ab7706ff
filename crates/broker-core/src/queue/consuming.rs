//! Who is served: consumers come, pause, go, and one of them may be the only active one.

use super::consumer::{Consumer, ConsumerState, ConsumerView, Pause};
use super::effect::{Effect, Effects, QueueFault, ReturnCause, Settlement};
use super::entry::{ConsumerId, HolderId};
use super::handle::Handle;
use super::held::HoldList;
use super::leases::{Lease, NO_LIMIT, Role};
use super::machine::QueueMachine;
use super::table::Place;
use super::{CONSUMERS_PER_QUEUE_MAX, QUORUM_UNLIMITED_PREFETCH};
use crate::settings::QueueKind;
use crate::time::Timestamp;

impl<C: Handle> QueueMachine<C> {
    /// Adds a consumer. Nothing is handed out.
    // rabbitmq: basic.consume
    pub fn add_consumer(
        &mut self,
        now: Timestamp,
        consumer: Consumer,
        out: &mut Effects<C>,
    ) -> Result<(), QueueFault> {
        self.check_consumer(&consumer)?;
        let lease = self.lease_for(consumer);
        let at = self.leases.add(lease);
        self.had_consumers = true;
        self.last_used = self.last_used.max(now);
        if self.rules.single_active {
            self.elect(out);
        } else {
            self.rotation.join(at, &mut self.leases);
        }
        Ok(())
    }

    fn check_consumer(&self, consumer: &Consumer) -> Result<(), QueueFault> {
        if self.leases.len() >= CONSUMERS_PER_QUEUE_MAX {
            return Err(QueueFault::TooManyConsumers);
        }
        if self.leases.find(consumer.id).is_some() {
            return Err(QueueFault::ConsumerExists);
        }
        if self.rules.kind == QueueKind::Quorum {
            return Ok(());
        }
        let alone = self.leases.consumers() == 0;
        let wants_alone = consumer.exclusive && (!alone || self.rules.single_active);
        if wants_alone || self.exclusive_consumer() {
            return Err(QueueFault::ExclusiveUse);
        }
        Ok(())
    }

    fn exclusive_consumer(&self) -> bool {
        // An exclusive consumer is the only one.
        self.leases.consumers() == 1
            && self
                .leases
                .iter()
                .any(|(_, lease)| lease.consumer().is_some_and(|c| c.exclusive))
    }

    fn lease_for(&mut self, consumer: Consumer) -> Lease {
        let unlimited = match self.rules.kind {
            QueueKind::Classic => NO_LIMIT,
            QueueKind::Quorum => u64::from(QUORUM_UNLIMITED_PREFETCH),
        };
        let credit = match consumer.prefetch {
            _ if consumer.no_ack => NO_LIMIT,
            0 => unlimited,
            prefetch => u64::from(prefetch),
        };
        let benched = if self.rules.single_active {
            Pause::BENCHED
        } else {
            Pause::NONE
        };
        Lease {
            holder: consumer.holder,
            holds: HoldList::EMPTY,
            credit,
            byte_credit: self.byte_credit,
            timeout_ms: self.rules.timeout_of(consumer.timeout_ms),
            joined: self.leases.next_age(),
            priority: consumer.priority,
            paused: consumer.paused.given() | benched,
            consumer: Some(consumer.id),
            who: Some((consumer.id, consumer.tag.clone())),
            no_ack: consumer.no_ack,
            queued: false,
            role: Role::Consumer(Box::new(consumer)),
        }
    }

    /// Gives the consumer nothing for these reasons, until they are taken back.
    pub fn pause(&mut self, consumer: ConsumerId, why: Pause) {
        if let Some(at) = self.leases.find(consumer) {
            self.leases.get_mut(at).paused |= why.given();
        }
    }

    /// Takes reasons back. Answers whether the consumer may be served, so that a dispatch pays.
    pub fn resume(&mut self, consumer: ConsumerId, why: Pause) -> bool {
        let Some(at) = self.leases.find(consumer) else {
            return false;
        };
        let lease = self.leases.get_mut(at);
        lease.paused = lease.paused.without(why.given());
        self.rotation.join(at, &mut self.leases);
        self.leases.get(at).queued
    }

    /// Gives no consumer more while its unsettled deliveries have so many bytes; `None` ends that.
    /// The delivery that reaches the limit may go over. Answers whether a dispatch pays.
    pub fn set_byte_credit(&mut self, bytes: Option<u64>) -> bool {
        let bytes = bytes.unwrap_or(NO_LIMIT);
        let grows = bytes > self.byte_credit;
        self.byte_credit = bytes;
        for lease in self
            .leases
            .iter_mut()
            .filter(|lease| lease.consumer.is_some())
        {
            lease.byte_credit = bytes;
        }
        if grows {
            let all: Vec<u32> = self.leases.iter().map(|(at, _)| at).collect();
            for at in all {
                self.rotation.join(at, &mut self.leases);
            }
        }
        grows
    }

    /// Ends a consumer (`basic.cancel`). What it holds stays with its channel. Answers whether
    /// there was one.
    // amqp 1.8.3.5
    pub fn remove_consumer(
        &mut self,
        now: Timestamp,
        consumer: ConsumerId,
        out: &mut Effects<C>,
    ) -> bool {
        let Some(at) = self.leases.find(consumer) else {
            return false;
        };
        self.end_consumer(at, false);
        self.leases.end_if_idle(at);
        self.last_used = self.last_used.max(now);
        if self.rules.single_active {
            self.elect(out);
        }
        true
    }

    /// The consumer is none any more. Its lease lives on while it holds something.
    pub(super) fn end_consumer(&mut self, at: u32, by_timeout: bool) {
        self.rotation.leave(at, &mut self.leases);
        self.leases.cancel(at, by_timeout);
    }

    /// A channel is gone: its consumers end, and what it holds comes back, consumer by consumer
    /// in order of hand-out.
    // rabbitmq: quorum, channel closed
    pub fn detach(
        &mut self,
        now: Timestamp,
        holder: HolderId,
        cause: ReturnCause,
        out: &mut Effects<C>,
    ) {
        let leases = self.leases.of_holder(holder);
        if leases.is_empty() {
            return;
        }
        for at in &leases {
            if self.leases.get(*at).consumer().is_some() {
                self.last_used = self.last_used.max(now);
            }
            self.end_consumer(*at, false);
        }
        for at in leases {
            for place in self.held_places(at) {
                self.give_back(now, place, cause, out);
            }
        }
        for at in self.leases.of_holder(holder) {
            self.leases.end_if_idle(at);
        }
        self.after_settle(now, Settlement::Requeue(cause), out);
    }

    pub(super) fn held_places(&self, at: u32) -> Vec<Place> {
        let mut hold = self.leases.get(at).holds.first();
        let mut places = Vec::with_capacity(self.leases.get(at).holds.len() as usize);
        while let Some(current) = hold {
            places.push(self.holds.get(current).place);
            hold = self.holds.next(current);
        }
        places
    }

    /// Consumers in no particular order of age, for listings.
    pub fn consumers(&self) -> impl Iterator<Item = ConsumerView<'_>> {
        self.leases.iter().filter_map(|(at, lease)| {
            let state = match (self.rules.single_active, self.active == Some(at)) {
                _ if lease.is_late() => ConsumerState::TimedOut,
                (false, _) => ConsumerState::Up,
                (true, true) => ConsumerState::SingleActive,
                (true, false) => ConsumerState::Waiting,
            };
            Some(ConsumerView {
                consumer: lease.consumer()?,
                state,
                paused: lease.paused.given(),
                unacked: lease.holds.len(),
            })
        })
    }

    // --- Single active consumer. ---

    /// A delivery has ended: the single active consumer may step down now.
    pub(super) fn elect_after_settle(&mut self, out: &mut Effects<C>) {
        if !self.rules.single_active {
            return;
        }
        let stays = self
            .active
            .is_some_and(|at| self.leases.is_consumer(at) && !self.leases.get(at).steps_down());
        if !stays {
            self.elect(out);
        }
    }

    /// Chooses the single active consumer. Costs a pass over the consumers.
    // rabbitmq: queues, single active consumer
    pub(super) fn elect(&mut self, out: &mut Effects<C>) {
        let current = self.active.filter(|at| self.leases.is_consumer(*at));
        let Some(at) = current else {
            let best = self.best_candidate(None);
            self.activate(best, out);
            return;
        };
        let lease = self.leases.get(at);
        let (late, idle) = (lease.is_late(), lease.holds.len() == 0);
        let rival = self.best_candidate(Some(at));
        let outranked = self.rules.kind == QueueKind::Quorum
            && rival.is_some_and(|rival| self.leases.get(rival).priority > lease.priority);
        if !late && !outranked {
            self.bench(at, false);
            return;
        }
        // The one that steps down finishes what it holds first.
        self.bench(at, true);
        if idle && rival.is_some() {
            let age = self.leases.next_age();
            self.leases.get_mut(at).joined = age;
            self.activate(rival, out);
        }
    }

    fn best_candidate(&self, except: Option<u32>) -> Option<u32> {
        let candidates = self.leases.iter().filter(|(at, lease)| {
            Some(*at) != except && lease.consumer.is_some() && !lease.is_late()
        });
        let best =
            candidates.max_by_key(|(_, lease)| (lease.priority, std::cmp::Reverse(lease.joined)));
        best.map(|(at, _)| at)
    }

    fn activate(&mut self, at: Option<u32>, out: &mut Effects<C>) {
        let before = self.active;
        self.active = at;
        if let Some(at) = at {
            self.bench(at, false);
        }
        if before != at {
            let consumer = at.and_then(|at| self.leases.get(at).consumer);
            out.push(Effect::ActiveConsumer { consumer });
        }
    }

    fn bench(&mut self, at: u32, benched: bool) {
        let lease = self.leases.get_mut(at);
        if benched {
            lease.paused |= Pause::BENCHED;
        } else {
            lease.paused = lease.paused.without(Pause::BENCHED);
            self.rotation.join(at, &mut self.leases);
        }
    }
}
