//! The machine itself: its parts, and the moves of one message between them.
//!
//! Every change of a message's state goes through `place_*` and `take_out` here, so that lines,
//! holds and amounts never disagree. The rules that decide on a move are in the sibling files.

use super::counts::Amounts;
use super::dead_letters::DeadLetters;
use super::delayed::Delayed;
use super::dispatch::anyone;
use super::effect::{Effect, Effects, Gone, Use};
use super::entry::EntryId;
use super::expiring::Expiring;
use super::handle::Handle;
use super::held::Holds;
use super::leases::Leases;
use super::message::{Message, State};
use super::past::{Past, Pasts};
use super::ready::Ready;
use super::rotation::Rotation;
use super::rules::{OnDeath, Rules};
use super::table::{Place, Table};
use crate::dead_letter::DeathReason;
use crate::settings::{QueueKind, QueueSettings};
use crate::time::{Millis, Timestamp};

/// A queue: messages, consumers and rules. See the module.
///
/// Calls cost O(1) a message, amortised, unless they say otherwise; memory follows what is live.
#[derive(Debug)]
pub struct QueueMachine<C: Handle> {
    pub(super) rules: Rules,
    pub(super) table: Table<C>,
    pub(super) ready: Ready,
    pub(super) holds: Holds,
    pub(super) leases: Leases,
    pub(super) rotation: Rotation,
    pub(super) delayed: Option<Box<Delayed>>,
    pub(super) dead: Option<Box<DeadLetters>>,
    /// What messages went through, while there is any that somebody held.
    pub(super) pasts: Option<Box<Pasts>>,
    /// What ends first, in a queue whose messages expire anywhere.
    pub(super) expiring: Option<Box<Expiring>>,
    pub(super) amounts: Amounts,
    /// The single active consumer.
    pub(super) active: Option<u32>,
    /// The earliest moment at which a delivery may be late; a delivery settled since may leave it too early.
    pub(super) late_from: Option<Timestamp>,
    pub(super) last_used: Timestamp,
    pub(super) late_settles: u64,
    /// See `set_byte_credit`.
    pub(super) byte_credit: u64,
    /// More is to be dropped than one call may.
    pub(super) trimming: bool,
    pub(super) expiry_told: bool,
    pub(super) had_consumers: bool,
}

impl<C: Handle> QueueMachine<C> {
    /// An empty queue.
    pub fn new(kind: QueueKind, settings: &QueueSettings, now: Timestamp) -> Self {
        Self {
            rules: Rules::new(kind, settings),
            table: Table::new(),
            ready: Ready::new(),
            holds: Holds::new(),
            leases: Leases::default(),
            rotation: Rotation::default(),
            delayed: None,
            dead: None,
            pasts: None,
            expiring: settings.expire_anywhere.then(Box::default),
            amounts: Amounts::default(),
            active: None,
            late_from: None,
            last_used: now,
            late_settles: 0,
            byte_credit: super::leases::NO_LIMIT,
            trimming: false,
            expiry_told: false,
            had_consumers: false,
        }
    }

    /// Its type.
    pub fn kind(&self) -> QueueKind {
        self.rules.kind
    }

    /// When a message that arrives at `now` with this `expiration` ends. Fixed at that moment:
    /// later changes of the queue's time to live do not touch it.
    // rabbitmq: queues, ttl and expiry
    pub fn expiry(&self, now: Timestamp, expiration: Option<Millis>) -> Option<Timestamp> {
        self.rules.expiry(now, expiration.map(|span| now + span))
    }

    /// Notes a use that may keep the queue from expiring.
    pub fn touch(&mut self, now: Timestamp, how: Use) {
        if how == Use::Declare && self.rules.kind == QueueKind::Quorum {
            return;
        }
        self.last_used = self.last_used.max(now);
    }

    /// The settings have changed. Limits, timeouts and the dead-letter strategy apply at once;
    /// the expiry of messages that are in the queue stays.
    pub fn reconfigure(&mut self, now: Timestamp, settings: &QueueSettings, out: &mut Effects<C>) {
        let single_active = self.rules.single_active;
        self.rules = Rules::new(self.rules.kind, settings);
        // An argument only, and consumers were admitted under it.
        self.rules.single_active = single_active;
        self.reset_timeouts();
        self.reset_expiring();
        if self.rules.on_death != OnDeath::KeepUntilConfirmed {
            self.drop_dead_letters(out);
        }
        self.enforce_limits(now, out, &mut anyone);
    }

    /// Removes at most `max` messages that are ready, held back or being dead-lettered, in this
    /// order, and answers how many. Fewer than `max`: none is left.
    // rabbitmq: queue.purge
    pub fn purge(&mut self, max: u32, out: &mut Effects<C>) -> u32 {
        let mut purged = 0;
        while purged < max {
            let Some(place) = self.next_to_purge() else {
                break;
            };
            self.forget_place(place, Gone::Purged, out);
            purged += 1;
        }
        if self.dead.is_some() {
            self.send_dead_letters(out);
        }
        purged
    }

    fn next_to_purge(&self) -> Option<Place> {
        if let Some(head) = self.ready.head() {
            return Some(head.place);
        }
        let delayed = self.delayed.as_ref().and_then(|delayed| delayed.first());
        delayed.or_else(|| self.dead.as_ref().and_then(|dead| dead.first()))
    }

    // --- The moves of one message. ---

    /// Takes a message out of whatever line its state names, and out of the amounts. It stays in
    /// the table.
    pub(super) fn take_out(&mut self, place: Place) {
        let Some(message) = self.table.get_mut(place) else {
            return;
        };
        let (state, level, bytes) = (message.state, message.level, message.bytes);
        self.amounts.of(state).sub(bytes);
        match state {
            State::Ready | State::Requeued | State::Returned => {
                self.take_ready(state, level, place);
            }
            State::Delayed => {
                if let Some(delayed) = &mut self.delayed {
                    delayed.remove(place);
                }
            }
            State::Dead(_) => {
                if let Some(dead) = &mut self.dead {
                    dead.remove(place);
                }
            }
            State::Held(hold) => {
                self.release(hold);
            }
        }
    }

    fn take_ready(&mut self, state: State, level: u8, place: Place) {
        match self.ready.head() {
            Some(head) if head.place == place => self.ready.take(head, &self.table),
            _ => {
                // The line tells stale places by the table, so the message must not look ready.
                if let Some(message) = self.table.get_mut(place) {
                    message.state = State::Delayed;
                }
                self.ready.leave(state, level, place, &self.table);
            }
        }
    }

    /// Ends a hold and answers whose it was: the lease may be idle afterwards.
    pub(super) fn release(&mut self, hold: u32) -> u32 {
        let at = self.holds.get(hold).lease;
        self.holds.remove(&mut self.leases.get_mut(at).holds, hold);
        at
    }

    /// A message that was taken out becomes ready again.
    pub(super) fn place_ready(&mut self, place: Place) {
        let state = match self.rules.kind {
            QueueKind::Classic => State::Requeued,
            QueueKind::Quorum => State::Returned,
        };
        let Some(message) = self.table.get_mut(place) else {
            return;
        };
        message.state = state;
        self.amounts.ready.add(message.bytes);
        let (level, expires_at) = (message.level, message.expires_at());
        self.watch_expiry(place, expires_at);
        match state {
            State::Requeued => self.ready.requeue(level, place),
            _ => self.ready.give_back(place),
        }
    }

    /// A message that was taken out is held back.
    pub(super) fn place_delayed(&mut self, place: Place, due: Timestamp) {
        let Some(message) = self.table.get_mut(place) else {
            return;
        };
        message.state = State::Delayed;
        self.amounts.delayed.add(message.bytes);
        self.delayed.get_or_insert_default().insert(place, due);
    }

    /// A message that was taken out waits for its dead letter.
    pub(super) fn place_dead(&mut self, place: Place, reason: DeathReason) {
        let Some(message) = self.table.get_mut(place) else {
            return;
        };
        message.state = State::Dead(reason);
        self.amounts.dead.add(message.bytes);
        self.dead.get_or_insert_default().push(place);
    }

    /// The message leaves the queue.
    pub(super) fn forget_place(&mut self, place: Place, why: Gone, out: &mut Effects<C>) {
        self.take_out(place);
        forget_past(&mut self.pasts, place);
        if let Some((id, message)) = self.table.remove(place) {
            out.push(Effect::Forget {
                id,
                content: message.content,
                why,
            });
        }
    }

    /// The message dies: it is dropped, published once, or kept for its dead letter.
    pub(super) fn die(&mut self, place: Place, reason: DeathReason, out: &mut Effects<C>) {
        match self.rules.on_death {
            OnDeath::Drop => self.forget_place(place, gone_by(reason), out),
            OnDeath::KeepUntilConfirmed if !self.too_many_dead(reason) => {
                self.take_out(place);
                self.place_dead(place, reason);
                if let Some((id, message)) = self.table.cell_mut(place) {
                    out.push(Effect::KeptDead {
                        id,
                        reason,
                        delivery_count: message.delivery_count,
                        acquired_count: message.acquired_count,
                    });
                }
                self.send_dead_letters(out);
            }
            OnDeath::PublishOnce | OnDeath::KeepUntilConfirmed => {
                self.take_out(place);
                let past = forget_past(&mut self.pasts, place);
                if let Some((id, message)) = self.table.remove(place) {
                    out.push(dead_letter(id, message, reason, past));
                }
            }
        }
    }

    /// What makes room is kept for its dead letter only up to the limit once more; beyond it the
    /// dead letter is published once, so that memory stays bounded while a target is away.
    fn too_many_dead(&self, reason: DeathReason) -> bool {
        reason == DeathReason::MaxLength
            && (self.amounts.dead.messages >= self.rules.max_length
                || self.amounts.dead.bytes >= self.rules.max_bytes)
    }
}

fn gone_by(reason: DeathReason) -> Gone {
    match reason {
        DeathReason::Rejected => Gone::Discarded,
        DeathReason::Expired => Gone::Expired,
        DeathReason::MaxLength => Gone::MaxLength,
        DeathReason::DeliveryLimit => Gone::DeliveryLimit,
    }
}

/// A dead letter of a message that has left its queue.
pub(super) fn dead_letter<C>(
    id: EntryId,
    message: Message<C>,
    reason: DeathReason,
    past: Option<Past>,
) -> Effect<C> {
    Effect::DeadLetter {
        id,
        content: message.content,
        reason,
        delivery_count: message.delivery_count,
        acquired_count: message.acquired_count,
        kept: false,
        past: past.map(Box::new),
    }
}

/// The message leaves the queue: what it went through goes along.
#[inline]
pub(super) fn forget_past(pasts: &mut Option<Box<Pasts>>, place: Place) -> Option<Past> {
    let known = pasts.as_mut()?;
    let past = known.take(place);
    if known.is_empty() {
        *pasts = None;
    }
    past
}
