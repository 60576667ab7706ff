//! What time does to a queue: messages expire, returns come due, deliveries are late, dead
//! letters are tried again, and an unused queue ends.

use super::dispatch::anyone;
use super::effect::{
    CancelCause, Effect, Effects, Gone, ReturnCause, Settlement, TimedOut, TimeoutAction,
};
use super::entry::{EntryId, HolderId};
use super::handle::Handle;
use super::leases::{Lease, NO_LIMIT, Role};
use super::machine::QueueMachine;
use super::message::State;
use super::ready::Head;
use super::table::{Place, Table};
use super::{Pause, WORK_PER_CALL_MAX};
use crate::dead_letter::DeathReason;
use crate::settings::ConsumerTimeoutAction;
use crate::time::{Millis, Timestamp};

impl<C: Handle> QueueMachine<C> {
    /// When `on_deadline` wants to be called next; a moment that has passed when work is left.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.trimming {
            return Some(Timestamp(0));
        }
        let delayed = self.delayed.as_ref().and_then(|delayed| delayed.next_due());
        let dead = self.dead.as_ref().and_then(|dead| dead.next_due());
        let moments = [
            self.next_expiry(),
            delayed,
            dead,
            self.late_from,
            self.unused_until(),
        ];
        moments.into_iter().flatten().min()
    }

    /// Does what is due. At most `WORK_PER_CALL_MAX` messages of each kind are moved; nothing is
    /// handed out.
    pub fn on_deadline(&mut self, now: Timestamp, out: &mut Effects<C>) {
        self.end_delays(now);
        self.take_back_late(now, out);
        self.enforce_limits(now, out, &mut anyone);
        self.expire(now, out);
        if let Some(dead) = &mut self.dead {
            dead.wake(now);
        }
        self.send_dead_letters(out);
        if !self.expiry_told && self.unused_until().is_some_and(|end| end <= now) {
            self.expiry_told = true;
            out.push(Effect::QueueExpired);
        }
    }

    /// When the queue ends for lack of use.
    // rabbitmq: x-expires
    fn unused_until(&self) -> Option<Timestamp> {
        if self.leases.consumers() > 0 || self.expiry_told {
            return None;
        }
        let span_ms = self.rules.expires_ms?;
        Some(self.last_used + Millis(span_ms))
    }

    fn next_expiry(&self) -> Option<Timestamp> {
        if let Some(expiring) = &self.expiring {
            return expiring.next();
        }
        let heads = self.ready.heads();
        heads
            .filter_map(|head| self.table.get(head.place)?.expires_at())
            .min()
    }

    /// Expired messages leave from the heads of the lines only, unless the queue's settings let
    /// them leave from anywhere.
    // rabbitmq: queues, ttl and expiry
    pub(super) fn expire(&mut self, now: Timestamp, out: &mut Effects<C>) {
        for _ in 0..WORK_PER_CALL_MAX {
            let Some(place) = self.next_expired(now) else {
                return;
            };
            self.die(place, DeathReason::Expired, out);
        }
    }

    fn next_expired(&mut self, now: Timestamp) -> Option<Place> {
        let table = &self.table;
        match &mut self.expiring {
            None => self.expired_head(now).map(|head| head.place),
            Some(expiring) => expiring.take_due(now, |place, at| ends_at(table, place, at)),
        }
    }

    /// A message is ready that ends at this moment.
    pub(super) fn watch_expiry(&mut self, place: Place, expires_at: Option<Timestamp>) {
        let (Some(expiring), Some(at)) = (&mut self.expiring, expires_at) else {
            return;
        };
        let table = &self.table;
        if expiring.is_stale(self.amounts.ready.messages) {
            expiring.clean_up(|place, at| ends_at(table, place, at));
        }
        expiring.add(at, place);
    }

    /// The settings may say something else about where messages expire. Costs a pass over the
    /// messages when they do.
    pub(super) fn reset_expiring(&mut self) {
        if self.rules.expire_anywhere == self.expiring.is_some() {
            return;
        }
        self.expiring = self.rules.expire_anywhere.then(Box::default);
        let Some(expiring) = &mut self.expiring else {
            return;
        };
        for (place, message) in self.table.places() {
            if let (true, Some(at)) = (message.state.is_ready(), message.expires_at()) {
                expiring.add(at, place);
            }
        }
    }

    fn expired_head(&self, now: Timestamp) -> Option<Head> {
        let mut heads = self.ready.heads();
        heads.find(|head| {
            self.table
                .get(head.place)
                .is_some_and(|message| message.expired(now))
        })
    }

    /// Returns that were held back go to the line of returns.
    // rabbitmq: quorum, delayed retry
    fn end_delays(&mut self, now: Timestamp) {
        for _ in 0..WORK_PER_CALL_MAX {
            let due = self
                .delayed
                .as_ref()
                .and_then(|delayed| delayed.first_due(now));
            let Some(place) = due else { break };
            self.take_out(place);
            self.place_ready(place);
        }
        if self
            .delayed
            .as_ref()
            .is_some_and(|delayed| delayed.len() == 0)
        {
            self.delayed = None;
        }
    }

    // --- Deliveries that are late. ---

    /// A fresh timeout for the delivery: its clock starts again. Answers whether the channel
    /// holds it.
    pub fn extend(&mut self, now: Timestamp, holder: HolderId, id: EntryId) -> bool {
        let Some((place, hold)) = self.held_by(holder, id) else {
            return false;
        };
        let at = self.holds.get(hold).lease;
        let lease = self.leases.get_mut(at);
        let bytes = self.holds.get(hold).bytes();
        self.holds.remove(&mut lease.holds, hold);
        let held = (place, bytes);
        let hold = self.holds.push(&mut lease.holds, at, held, now);
        if let Some(message) = self.table.get_mut(place) {
            message.state = State::Held(hold);
        }
        true
    }

    /// Timeouts have changed: leases without their own follow, and the next late moment is
    /// looked for again.
    pub(super) fn reset_timeouts(&mut self) {
        for lease in self.leases.iter_mut() {
            let own = lease.consumer().and_then(|consumer| consumer.timeout_ms);
            lease.timeout_ms = self.rules.timeout_of(own);
        }
        self.late_from = self.earliest_late();
    }

    fn earliest_late(&self) -> Option<Timestamp> {
        self.leases
            .iter()
            .filter_map(|(_, lease)| self.late_at(lease))
            .min()
    }

    /// When the oldest delivery of a lease is late.
    fn late_at(&self, lease: &Lease) -> Option<Timestamp> {
        if lease.timeout_ms == NO_LIMIT {
            return None;
        }
        let oldest = self.holds.get(lease.holds.first()?);
        Some(oldest.since + Millis(lease.timeout_ms))
    }

    // rabbitmq: quorum, consumer timeout
    fn take_back_late(&mut self, now: Timestamp, out: &mut Effects<C>) {
        if self.late_from.is_none_or(|at| at > now) {
            return;
        }
        let late: Vec<u32> = self
            .leases
            .iter()
            .filter(|(_, lease)| self.late_at(lease).is_some_and(|at| at <= now))
            .map(|(at, _)| at)
            .collect();
        let mut work = WORK_PER_CALL_MAX;
        for at in late {
            if work == 0 {
                break;
            }
            self.lease_is_late(now, at, &mut work, out);
        }
        self.late_from = self.earliest_late();
        self.after_settle(now, Settlement::Requeue(ReturnCause::Timeout), out);
    }

    fn lease_is_late(&mut self, now: Timestamp, at: u32, work: &mut u32, out: &mut Effects<C>) {
        let lease = self.leases.get(at);
        let action = self.timeout_action(lease);
        let Some(first) = lease.holds.first() else {
            return;
        };
        let told_before = lease.is_late();
        let oldest = *self.holds.get(first);
        let Some(entry) = self.table.id_at(oldest.place) else {
            return;
        };
        let mut report = TimedOut {
            holder: lease.holder,
            consumer: lease.consumer,
            tag: lease.who.as_ref().map(|(_, tag)| tag.clone()),
            entry,
            entries: Vec::new(),
            overdue: 0,
            since: oldest.since,
            timeout_ms: lease.timeout_ms,
            action,
        };
        // First nobody of the channel is served, then messages come back.
        self.act_on_late(at, action, out);
        let late = self.late_places(at, now, *work);
        *work -= late.len() as u32;
        report.overdue = late.len() as u32;
        let ids = late.iter().filter_map(|place| self.table.id_at(*place));
        report.entries = ids.collect();
        for place in late {
            self.give_back(now, place, ReturnCause::Timeout, out);
        }
        if action != TimeoutAction::CloseChannel || !told_before {
            out.push(Effect::TimedOut(report));
        }
    }

    /// What RabbitMQ does to a consumer that it can cancel, it does to a channel otherwise.
    fn timeout_action(&self, lease: &Lease) -> TimeoutAction {
        match (self.rules.timeout_action, &lease.role) {
            (ConsumerTimeoutAction::Return, _) => TimeoutAction::ReturnOnly,
            // The consumer has paid already.
            (ConsumerTimeoutAction::Cancel, Role::Cancelled { by_timeout: true }) => {
                TimeoutAction::ReturnOnly
            }
            (ConsumerTimeoutAction::Cancel, Role::Consumer(consumer)) if consumer.cancel_notify => {
                TimeoutAction::CancelConsumer
            }
            _ => TimeoutAction::CloseChannel,
        }
    }

    fn act_on_late(&mut self, at: u32, action: TimeoutAction, out: &mut Effects<C>) {
        let lease = self.leases.get(at);
        let holder = lease.holder;
        match action {
            TimeoutAction::ReturnOnly => {}
            TimeoutAction::CancelConsumer => {
                let Some(consumer) = lease.consumer else {
                    return;
                };
                self.end_consumer(at, true);
                out.push(Effect::ConsumerCancelled {
                    consumer,
                    holder,
                    why: CancelCause::Timeout,
                });
            }
            TimeoutAction::CloseChannel => {
                for of_channel in self.leases.of_holder(holder) {
                    self.leases.get_mut(of_channel).paused |= Pause::LATE;
                }
            }
        }
    }

    fn late_places(&self, at: u32, now: Timestamp, most: u32) -> Vec<Place> {
        let lease = self.leases.get(at);
        let mut places = Vec::new();
        let mut hold = lease.holds.first();
        while let Some(current) = hold {
            let Some(late_at) = self.late_if_oldest(lease, current) else {
                break;
            };
            if late_at > now || places.len() >= most as usize {
                break;
            }
            places.push(self.holds.get(current).place);
            hold = self.holds.next(current);
        }
        places
    }

    fn late_if_oldest(&self, lease: &Lease, hold: u32) -> Option<Timestamp> {
        (lease.timeout_ms != NO_LIMIT)
            .then(|| self.holds.get(hold).since + Millis(lease.timeout_ms))
    }

    // --- Dead letters that wait for their targets. ---

    /// All targets have confirmed these dead letters: they leave the queue.
    // rabbitmq: quorum, at-least-once
    pub fn dead_lettered(&mut self, ids: &[EntryId], out: &mut Effects<C>) {
        for id in ids {
            if let Some(place) = self.dead_place(*id) {
                self.forget_place(place, Gone::DeadLettered, out);
            }
        }
        self.send_dead_letters(out);
    }

    /// Not every target took these dead letters: they rest for `DEAD_LETTER_RETRY_MS`.
    // rabbitmq: dead_letter_worker_publisher_confirm_timeout
    pub fn dead_letter_failed(&mut self, now: Timestamp, ids: &[EntryId], out: &mut Effects<C>) {
        for id in ids {
            if let Some(place) = self.dead_place(*id)
                && let Some(dead) = &mut self.dead
            {
                dead.rest(place, now);
            }
        }
        self.send_dead_letters(out);
    }

    fn dead_place(&mut self, id: EntryId) -> Option<Place> {
        let place = self.table.find(id)?;
        matches!(self.table.get(place)?.state, State::Dead(_)).then_some(place)
    }

    pub(super) fn send_dead_letters(&mut self, out: &mut Effects<C>) {
        let Some(dead) = &mut self.dead else { return };
        while let Some(place) = dead.send() {
            let Some((id, message)) = self.table.cell_mut(place) else {
                continue;
            };
            let State::Dead(reason) = message.state else {
                continue;
            };
            let past = self
                .pasts
                .as_ref()
                .and_then(|pasts| pasts.get(place))
                .cloned();
            out.push(Effect::DeadLetter {
                id,
                content: message.content.clone(),
                reason,
                delivery_count: message.delivery_count,
                acquired_count: message.acquired_count,
                kept: true,
                past: past.map(Box::new),
            });
        }
        if dead.len() == 0 {
            self.dead = None;
        }
    }

    /// The targets may take now what they did not take before: what rests is tried again.
    pub fn retry_dead_letters(&mut self, out: &mut Effects<C>) {
        if let Some(dead) = &mut self.dead {
            dead.wake(Timestamp(u64::MAX));
        }
        self.send_dead_letters(out);
    }

    /// The settings no longer ask for them.
    // rabbitmq: quorum, policy change to at-most-once
    pub(super) fn drop_dead_letters(&mut self, out: &mut Effects<C>) {
        while let Some(place) = self.dead.as_ref().and_then(|dead| dead.first()) {
            self.forget_place(place, Gone::DeadLetterDropped, out);
        }
        self.dead = None;
    }
}

/// Whether a message is still ready that ends at this moment.
fn ends_at<C: Handle>(table: &Table<C>, place: Place, at: Timestamp) -> bool {
    table
        .get(place)
        .is_some_and(|message| message.state.is_ready() && message.expires_at() == Some(at))
}
