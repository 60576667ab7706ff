//! Handing messages out: to consumers in turn, or to a channel that asks.

use super::effect::{Delivery, Effect, Effects, Got, QueueFault, Use};
use super::entry::{ConsumerId, Entry, EntryId, HolderId};
use super::handle::Handle;
use super::held::HoldList;
use super::leases::{Lease, NO_LIMIT, Role};
use super::limits::Admission;
use super::machine::{QueueMachine, dead_letter, forget_past};
use super::message::{Message, State};
use super::ready::Head;
use super::table::Place;
use super::{CONSUMERS_PER_QUEUE_MAX, Pause, RefusedBecause};
use crate::dead_letter::DeathReason;
use crate::settings::QueueKind;
use crate::time::{Millis, Timestamp};

/// How much one call may hand out. What is handed out is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchBudget {
    /// Messages; expired ones count.
    pub messages: u32,
    /// Bytes; the last message may go over.
    pub bytes: u64,
}

/// Why a dispatch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchEnd {
    /// Nothing is ready.
    Empty,
    /// No consumer can be given anything.
    NoCredit,
    /// The budget is used up: call again.
    Budget,
}

/// What happened to the message that is next.
pub(super) enum Step {
    Delivered { bytes: u32 },
    Expired,
    NoCredit,
    Empty,
}

impl<C: Handle> QueueMachine<C> {
    /// Takes a message in, or refuses it. Nothing is handed out, except when a limit would
    /// otherwise cost a message that a consumer could take at once.
    // rabbitmq: queues, length limits and overflow
    pub fn enqueue(&mut self, now: Timestamp, entry: Entry<C>, out: &mut Effects<C>) {
        self.enqueue_asking(now, entry, out, &mut anyone);
    }

    /// The same, where each consumer is asked for as [`QueueMachine::dispatch_asking`] does.
    pub fn enqueue_asking(
        &mut self,
        now: Timestamp,
        entry: Entry<C>,
        out: &mut Effects<C>,
        may_take: &mut impl FnMut(ConsumerId, HolderId) -> bool,
    ) {
        if !self.table.takes(entry.id) {
            let why = RefusedBecause::IdNotIncreasing;
            out.push(Effect::Refused {
                id: entry.id,
                content: entry.content,
                why,
            });
            return;
        }
        match self.admit(now, entry.bytes, out, may_take) {
            Admission::Taken => {
                self.append(now, entry);
                self.after_enqueue(now, out, may_take);
            }
            Admission::Refused { dead_letter } => self.refuse(now, entry, dead_letter, out),
        }
    }

    fn append(&mut self, now: Timestamp, entry: Entry<C>) {
        let expires_at = self.rules.expiry(now, entry.expires_at);
        let level = self.rules.level(entry.priority);
        self.insert(entry, level, expires_at);
    }

    pub(super) fn insert(&mut self, entry: Entry<C>, level: u8, expires_at: Option<Timestamp>) {
        let Entry {
            id,
            content,
            bytes,
            persistent,
            delivery_count,
            acquired_count,
            ..
        } = entry;
        let mut message = Message::new(content, bytes, level, expires_at);
        message.persistent = persistent;
        message.delivery_count = delivery_count;
        message.acquired_count = acquired_count;
        let place = self.table.push(id, message);
        self.watch_expiry(place, expires_at);
        self.ready.push(level, place);
        self.amounts.ready.add(bytes);
    }

    fn refuse(&mut self, now: Timestamp, entry: Entry<C>, dead: bool, out: &mut Effects<C>) {
        let (id, content) = (entry.id, entry.content.clone());
        if dead && self.has_dead_letter_exchange() {
            let expires_at = self.rules.expiry(now, entry.expires_at);
            let mut message = Message::new(entry.content, entry.bytes, 0, expires_at);
            message.delivery_count = entry.delivery_count;
            message.acquired_count = entry.acquired_count;
            out.push(dead_letter(id, message, DeathReason::MaxLength, None));
        }
        out.push(Effect::Refused {
            id,
            content,
            why: RefusedBecause::Overflow,
        });
    }

    /// Hands ready messages to consumers that can be given some, within the budget.
    // rabbitmq: queues, consumers
    pub fn dispatch(
        &mut self,
        now: Timestamp,
        budget: &mut DispatchBudget,
        out: &mut Effects<C>,
    ) -> DispatchEnd {
        self.dispatch_asking(now, budget, out, &mut anyone)
    }

    /// The same, but before a consumer is given a message that it will have to settle, the caller
    /// is asked whether it may take one. One that may not is paused for [`Pause::TENANT`].
    pub fn dispatch_asking(
        &mut self,
        now: Timestamp,
        budget: &mut DispatchBudget,
        out: &mut Effects<C>,
        may_take: &mut impl FnMut(ConsumerId, HolderId) -> bool,
    ) -> DispatchEnd {
        self.send_dead_letters(out);
        while budget.messages > 0 && budget.bytes > 0 {
            let bytes = match self.step(now, out, may_take) {
                Step::Delivered { bytes } => bytes,
                Step::Expired => 0,
                Step::NoCredit => return DispatchEnd::NoCredit,
                Step::Empty => return DispatchEnd::Empty,
            };
            budget.messages -= 1;
            budget.bytes = budget.bytes.saturating_sub(u64::from(bytes));
        }
        DispatchEnd::Budget
    }

    /// Deals with the message that is next.
    pub(super) fn step(
        &mut self,
        now: Timestamp,
        out: &mut Effects<C>,
        may_take: &mut impl FnMut(ConsumerId, HolderId) -> bool,
    ) -> Step {
        let Some(head) = self.ready.head() else {
            return Step::Empty;
        };
        let Some(spot) = self.table.locate(head.place) else {
            return Step::Empty;
        };
        let Some((entry, message)) = self.table.at_mut(spot) else {
            return Step::Empty;
        };
        if message.expired(now) {
            self.die(head.place, DeathReason::Expired, out);
            return Step::Expired;
        }
        let at = loop {
            let Some(at) = self.rotation.first(&mut self.leases) else {
                return Step::NoCredit;
            };
            let lease = self.leases.get_mut(at);
            let asked = lease.consumer.filter(|_| !lease.no_ack);
            if asked.is_none_or(|consumer| may_take(consumer, lease.holder)) {
                break at;
            }
            lease.paused |= Pause::TENANT;
        };
        let lease = self.leases.get_mut(at);
        let (bytes, no_ack) = (message.bytes, lease.no_ack);
        let to = (lease.consumer, lease.holder);
        if no_ack {
            if let Some((entry, message)) = self.table.take(spot) {
                forget_past(&mut self.pasts, head.place);
                out.push(Effect::Deliver(last_delivery(entry, message, to)));
            }
        } else {
            out.push(Effect::Deliver(delivery(entry, message, to)));
            let hold = self
                .holds
                .push(&mut lease.holds, at, (head.place, bytes), now);
            message.state = State::Held(hold);
            note_late(&mut self.late_from, lease.timeout_ms, now);
            self.amounts.unacked.add(bytes);
        }
        self.amounts.ready.sub(bytes);
        let has_credit = lease.has_credit();
        self.rotation.turn(has_credit, &mut self.leases);
        self.ready.take(head, &self.table);
        Step::Delivered { bytes }
    }

    /// A message that was taken out is held by this lease.
    pub(super) fn place_held(&mut self, place: Place, at: u32, now: Timestamp) {
        let Some(message) = self.table.get_mut(place) else {
            return;
        };
        let lease = self.leases.get_mut(at);
        let held = (place, message.bytes);
        message.state = State::Held(self.holds.push(&mut lease.holds, at, held, now));
        self.amounts.unacked.add(message.bytes);
        note_late(&mut self.late_from, lease.timeout_ms, now);
    }

    /// `basic.get`: the next message, for this channel. Messages that have expired before it go.
    // rabbitmq: basic.get
    pub fn get(
        &mut self,
        now: Timestamp,
        holder: HolderId,
        no_ack: bool,
        out: &mut Effects<C>,
    ) -> Result<Option<Got<C>>, QueueFault> {
        if self.rules.single_active && self.rules.kind == QueueKind::Quorum {
            return Err(QueueFault::SingleActiveConsumerGet);
        }
        self.touch(now, Use::Get);
        // The millisecond of grace that a time to live of 0 has is for waiting consumers.
        let Some(head) = self.unexpired_head(now + Millis(1), out) else {
            return Ok(None);
        };
        let lease = match no_ack {
            true => None,
            false => Some(self.fetch_lease(holder)?),
        };
        self.take_out(head.place);
        let to = (None, holder);
        let delivery = match lease {
            None => {
                forget_past(&mut self.pasts, head.place);
                let taken = self.table.remove(head.place);
                taken.map(|(entry, message)| last_delivery(entry, message, to))
            }
            Some(at) => {
                self.place_held(head.place, at, now);
                let held = self.table.cell_mut(head.place);
                held.map(|(entry, message)| delivery(entry, message, to))
            }
        };
        let ready_left = self.amounts.ready.messages;
        Ok(delivery.map(|delivery| Got {
            delivery,
            ready_left,
        }))
    }

    fn unexpired_head(&mut self, now: Timestamp, out: &mut Effects<C>) -> Option<Head> {
        loop {
            let head = self.ready.head()?;
            if !self.table.get(head.place)?.expired(now) {
                return Some(head);
            }
            self.die(head.place, DeathReason::Expired, out);
        }
    }

    /// The lease of what this channel fetches.
    pub(super) fn fetch_lease(&mut self, holder: HolderId) -> Result<u32, QueueFault> {
        if let Some(at) = self.leases.fetches_of(holder) {
            return Ok(at);
        }
        if self.leases.len() >= CONSUMERS_PER_QUEUE_MAX {
            return Err(QueueFault::TooManyConsumers);
        }
        Ok(self.leases.add(Lease {
            holder,
            holds: HoldList::EMPTY,
            role: Role::Fetch,
            credit: NO_LIMIT,
            byte_credit: NO_LIMIT,
            timeout_ms: self.rules.timeout_of(None),
            joined: 0,
            priority: 0,
            paused: Pause::ENDED,
            consumer: None,
            who: None,
            no_ack: false,
            queued: false,
        }))
    }
}

/// Nobody limits what consumers have in hand.
#[inline]
pub(super) fn anyone(_: ConsumerId, _: HolderId) -> bool {
    true
}

/// Who gets a delivery.
type Receiver = (Option<ConsumerId>, HolderId);

/// A delivery that its receiver has to settle.
#[inline]
fn delivery<C: Clone>(entry: EntryId, message: &Message<C>, to: Receiver) -> Delivery<C> {
    Delivery {
        consumer: to.0,
        holder: to.1,
        entry,
        content: message.content.clone(),
        bytes: message.bytes,
        delivery_count: message.delivery_count,
        acquired_count: message.acquired_count,
        redelivered: message.acquired_count > 0,
        no_ack: false,
    }
}

/// A delivery with which the message has left the queue.
fn last_delivery<C>(entry: EntryId, message: Message<C>, to: Receiver) -> Delivery<C> {
    Delivery {
        consumer: to.0,
        holder: to.1,
        entry,
        content: message.content,
        bytes: message.bytes,
        delivery_count: message.delivery_count,
        acquired_count: message.acquired_count,
        redelivered: message.acquired_count > 0,
        no_ack: true,
    }
}

/// A delivery begins: the next late moment is not after its own.
fn note_late(late_from: &mut Option<Timestamp>, timeout_ms: u64, now: Timestamp) {
    if timeout_ms != NO_LIMIT {
        let late_at = Timestamp(now.0.saturating_add(timeout_ms));
        *late_from = Some(late_from.map_or(late_at, |at| at.min(late_at)));
    }
}
