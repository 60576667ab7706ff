//! How deliveries end: acked, discarded or returned.

use super::dispatch::anyone;
use super::effect::{DiscardCause, Effect, Effects, Gone, ReturnCause, Settlement};
use super::entry::{EntryId, HolderId};
use super::handle::Handle;
use super::machine::{QueueMachine, forget_past};
use super::message::State;
use super::past::{Attempt, AttemptEnd};
use super::table::Place;
use crate::dead_letter::DeathReason;
use crate::time::{Millis, Timestamp};

impl<C: Handle> QueueMachine<C> {
    /// Clients have settled deliveries that were taken back before: counted, and nothing else.
    // rabbitmq: consumer timeout, late acks
    pub fn settled_late(&mut self, deliveries: u64) {
        self.late_settles += deliveries;
    }

    /// Ends deliveries that this channel holds, in the order given, and answers how many it
    /// held. Others are counted as late and otherwise ignored. The credit counts at once;
    /// nothing is handed out.
    // amqp 1.8.3.13, 1.8.3.14; rabbitmq: basic.nack
    pub fn settle(
        &mut self,
        now: Timestamp,
        holder: HolderId,
        ids: &[EntryId],
        how: Settlement,
        out: &mut Effects<C>,
    ) -> u32 {
        let mut settled = 0;
        for id in ids {
            let done = match how {
                Settlement::Ack => self.ack(holder, *id, out),
                Settlement::Discard(cause) => self.held_by(holder, *id).map(|(place, _)| {
                    self.discard(now, place, cause, out);
                }),
                Settlement::Requeue(cause) => self.held_by(holder, *id).map(|(place, _)| {
                    self.give_back(now, place, cause, out);
                }),
            };
            match done {
                Some(()) => settled += 1,
                None => self.late_settles += 1,
            }
        }
        self.after_settle(now, how, out);
        settled
    }

    /// The usual end of a delivery, without a second look-up.
    fn ack(&mut self, holder: HolderId, id: EntryId, out: &mut Effects<C>) -> Option<()> {
        let spot = self.table.spot(id)?;
        let State::Held(hold) = self.table.at(spot)?.1.state else {
            return None;
        };
        let at = self.holds.get(hold).lease;
        let place = self.holds.get(hold).place;
        let lease = self.leases.get_mut(at);
        if lease.holder != holder {
            return None;
        }
        self.holds.remove(&mut lease.holds, hold);
        if !lease.queued {
            self.after_release(at);
        }
        let (id, message) = self.table.take(spot)?;
        forget_past(&mut self.pasts, place);
        self.amounts.unacked.sub(message.bytes);
        out.push(Effect::Forget {
            id,
            content: message.content,
            why: Gone::Acked,
        });
        Some(())
    }

    pub(super) fn held_by(&mut self, holder: HolderId, id: EntryId) -> Option<(Place, u32)> {
        let place = self.table.find(id)?;
        let State::Held(hold) = self.table.get(place)?.state else {
            return None;
        };
        let lease = self.holds.get(hold).lease;
        (self.leases.get(lease).holder == holder).then_some((place, hold))
    }

    fn discard(&mut self, now: Timestamp, place: Place, cause: DiscardCause, out: &mut Effects<C>) {
        let lease = self.lease_of(place);
        self.note_attempt(now, place, AttemptEnd::Discarded(cause));
        let was_acquired = self.rules.acquires(cause);
        if let Some(message) = self.table.get_mut(place) {
            // It was handed out: where it goes it is redelivered.
            message.acquired_count = message.acquired_count.saturating_add(was_acquired.into());
            if cause == DiscardCause::Reject {
                message.delivery_count = message.delivery_count.saturating_add(1);
            }
        }
        self.die(place, DeathReason::Rejected, out);
        if let Some(at) = lease {
            self.after_release(at);
        }
    }

    pub(super) fn lease_of(&self, place: Place) -> Option<u32> {
        match self.table.get(place)?.state {
            State::Held(hold) => Some(self.holds.get(hold).lease),
            _ => None,
        }
    }

    /// A held message comes back: to its line, held back for a while, or dead when that was once
    /// too often.
    // rabbitmq: quorum, delivery counting; queues, requeued
    pub(super) fn give_back(
        &mut self,
        now: Timestamp,
        place: Place,
        cause: ReturnCause,
        out: &mut Effects<C>,
    ) {
        let lease = self.lease_of(place);
        self.note_attempt(now, place, AttemptEnd::Returned(cause));
        self.watch_for_poison(now, place, out);
        let counts = self.rules.counts(cause);
        let Some((id, message)) = self.table.cell_mut(place) else {
            return;
        };
        message.acquired_count = message.acquired_count.saturating_add(1);
        if counts {
            message.delivery_count = message.delivery_count.saturating_add(1);
        }
        let (delivery_count, acquired_count) = (message.delivery_count, message.acquired_count);
        if self.rules.over_delivery_limit(delivery_count) {
            self.die(place, DeathReason::DeliveryLimit, out);
        } else {
            let until = self.rules.retry_at(now, cause, delivery_count, id);
            self.take_out(place);
            match until {
                Some(due) => self.place_delayed(place, due),
                None => self.place_ready(place),
            }
            out.push(Effect::Returned {
                id,
                delivery_count,
                acquired_count,
                until,
            });
        }
        if let Some(at) = lease {
            self.after_release(at);
        }
    }

    /// A delivery ends otherwise than by an ack: its dead letter will tell.
    fn note_attempt(&mut self, now: Timestamp, place: Place, end: AttemptEnd) {
        let Some((since, lease)) = self.hold_of(place) else {
            return;
        };
        let consumer = self.leases.get(lease).who.as_ref();
        let consumer = consumer.map(|(_, tag)| tag.clone());
        let attempt = Attempt {
            since,
            until: now,
            end,
        };
        let pasts = self.pasts.get_or_insert_default();
        pasts.add(place, attempt, consumer);
    }

    fn watch_for_poison(&mut self, now: Timestamp, place: Place, out: &mut Effects<C>) {
        let (Some(limit), Some((_, at))) = (self.rules.poison_loop_returns, self.hold_of(place))
        else {
            return;
        };
        let lease = self.leases.get(at);
        let by = (lease.holder, lease.who.as_ref().map(|(id, _)| *id));
        let pasts = self.pasts.get_or_insert_default();
        if let Some(returns) = pasts.returned(place, now, by, limit)
            && let Some(id) = self.table.id_at(place)
        {
            out.push(Effect::PoisonLoop {
                id,
                holder: lease.holder,
                consumer: lease.who.as_ref().map(|(_, tag)| tag.clone()),
                returns,
            });
        }
    }

    fn hold_of(&self, place: Place) -> Option<(Timestamp, u32)> {
        let State::Held(hold) = self.table.get(place)?.state else {
            return None;
        };
        let hold = self.holds.get(hold);
        Some((hold.since, hold.lease))
    }

    /// What the application says of a delivery that it holds, for its dead letter. Answers whether
    /// the channel holds it and there is room to remember.
    pub fn note_reason(&mut self, holder: HolderId, id: EntryId, reason: &str) -> bool {
        let Some((place, _)) = self.held_by(holder, id) else {
            return false;
        };
        self.pasts.get_or_insert_default().say(place, reason)
    }

    /// A hold of this lease has ended: it may be served again, or be over.
    pub(super) fn after_release(&mut self, at: u32) {
        let lease = self.leases.get(at);
        if lease.consumer().is_none() {
            self.leases.end_if_idle(at);
        } else if !lease.queued {
            self.rotation.join(at, &mut self.leases);
        }
    }

    pub(super) fn after_settle(&mut self, now: Timestamp, how: Settlement, out: &mut Effects<C>) {
        self.elect_after_settle(out);
        if matches!(how, Settlement::Requeue(_)) {
            self.enforce_limits(now, out, &mut anyone);
            // The millisecond of grace that a time to live of 0 has is for the first delivery.
            self.expire(now + Millis(1), out);
        }
        self.repack_holds();
    }

    /// Gives memory back after a burst of deliveries. Amortised by the settles before it.
    pub(super) fn repack_holds(&mut self) {
        if !self.holds.is_sparse() {
            return;
        }
        let lists = self.leases.iter_mut().map(|lease| &mut lease.holds);
        self.holds.repack(lists, |place, hold| {
            if let Some(message) = self.table.get_mut(place) {
                message.state = State::Held(hold);
            }
        });
    }
}
