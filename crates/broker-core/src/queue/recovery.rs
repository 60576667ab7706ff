//! State without rules: what recovery, followers and storage do to a queue. And looking at it.
//!
//! A follower restores, forgets and returns as the log says; when it becomes the leader it has
//! the messages in the right order and nobody holds any.

use std::borrow::Cow;

use super::entry::{ConsumerId, Entry, EntryId, EntryState, EntryView, HolderId};
use super::handle::Handle;
use super::machine::{QueueMachine, forget_past};
use super::message::{Message, State};
use super::table::Place;
use crate::dead_letter::DeathReason;
use crate::time::Timestamp;

impl<C: Handle> QueueMachine<C> {
    /// Puts a message in as it is: no limit, no time to live, no refusal. Answers whether its id
    /// was new; ids must increase.
    pub fn restore(&mut self, entry: Entry<C>) -> bool {
        if !self.table.takes(entry.id) {
            return false;
        }
        let level = self.rules.level(entry.priority);
        let expires_at = entry.expires_at;
        self.insert(entry, level, expires_at);
        true
    }

    /// The greatest id that the queue has seen.
    pub fn last_id(&self) -> Option<EntryId> {
        self.table.last_id()
    }

    /// Takes messages out, wherever they are. Ids that are not there are skipped.
    pub fn forget(&mut self, ids: &[EntryId], gone: &mut Vec<C>) {
        for id in ids {
            let Some(place) = self.table.find(*id) else {
                continue;
            };
            let lease = self.lease_of(place);
            self.take_out(place);
            forget_past(&mut self.pasts, place);
            if let Some((_, message)) = self.table.remove(place) {
                gone.push(message.content);
            }
            if let Some(at) = lease {
                self.after_release(at);
            }
        }
        self.repack_holds();
    }

    /// A message came back with these counts, held back until `until`. Answers whether it is
    /// there.
    pub fn returned(
        &mut self,
        id: EntryId,
        delivery_count: u32,
        acquired_count: u32,
        until: Option<Timestamp>,
    ) -> bool {
        let Some(place) = self.table.find(id) else {
            return false;
        };
        // A log may tell of several returns: hand-outs in between are not in it. The message keeps
        // its place among the returned ones, for a line must not hold a place twice.
        if until.is_none()
            && let Some(message) = self.table.get_mut(place)
            && message.state == State::Returned
        {
            message.delivery_count = delivery_count;
            message.acquired_count = acquired_count;
            return true;
        }
        self.move_out(place, |message| {
            message.delivery_count = delivery_count;
            message.acquired_count = acquired_count;
        });
        match until {
            Some(due) => self.place_delayed(place, due),
            None => self.place_ready(place),
        }
        true
    }

    /// A message may have been handed out before, and nobody knows: it counts as acquired once and
    /// keeps its place, so that a restart does not change the order of what was never out.
    pub fn maybe_acquired(&mut self, id: EntryId) {
        let place = self.table.find(id);
        if let Some(message) = place.and_then(|place| self.table.get_mut(place)) {
            message.acquired_count = message.acquired_count.max(1);
        }
    }

    /// A message waits for the confirms of its dead letter. It is published again by the next
    /// dispatch. Answers whether it is there.
    pub fn restore_dead_letter(
        &mut self,
        id: EntryId,
        reason: DeathReason,
        delivery_count: u32,
        acquired_count: u32,
    ) -> bool {
        let Some(place) = self.table.find(id) else {
            return false;
        };
        self.move_out(place, |message| {
            message.delivery_count = delivery_count;
            message.acquired_count = acquired_count;
        });
        self.place_dead(place, reason);
        true
    }

    /// What a consumer holds, in order of hand-out; `None` when there is no such consumer.
    pub fn held_of(&self, consumer: ConsumerId) -> Option<Vec<EntryId>> {
        let lease = self.leases.find(consumer)?;
        let places = self.held_places(lease).into_iter();
        Some(places.filter_map(|place| self.table.id_at(place)).collect())
    }

    /// Ready messages are held again by a channel that held them before this member led.
    /// Answers how many were ready.
    pub fn hold_again(
        &mut self,
        now: Timestamp,
        holder: HolderId,
        consumer: Option<ConsumerId>,
        ids: &[EntryId],
    ) -> u32 {
        let lease = match consumer.and_then(|consumer| self.leases.find(consumer)) {
            Some(at) => at,
            None => match self.fetch_lease(holder) {
                Ok(at) => at,
                Err(_) => return 0,
            },
        };
        let mut held = 0;
        for id in ids {
            let Some(place) = self.table.find(*id) else {
                continue;
            };
            if self.is_ready(place) {
                self.move_out(place, |_| {});
                self.place_held(place, lease, now);
                held += 1;
            }
        }
        self.leases.end_if_idle(lease);
        held
    }

    fn is_ready(&self, place: Place) -> bool {
        let state = self.table.get(place).map(|message| message.state);
        matches!(
            state,
            Some(State::Ready | State::Requeued | State::Returned)
        )
    }

    fn move_out(&mut self, place: Place, change: impl FnOnce(&mut Message<C>)) {
        let lease = self.lease_of(place);
        self.take_out(place);
        if let Some(message) = self.table.get_mut(place) {
            change(message);
        }
        if let Some(at) = lease {
            self.after_release(at);
        }
    }

    /// A live message.
    pub fn entry(&self, id: EntryId) -> Option<EntryView<'_, C>> {
        let place = self.table.look_up(id)?;
        Some(self.view(id, self.table.get(place)?))
    }

    /// Storage has moved a live message: replaces its handle and answers the one that it had; nothing
    /// when the message is gone.
    pub fn moved(&mut self, id: EntryId, content: C) -> Option<C> {
        let spot = self.table.spot(id)?;
        self.table.replace_content(spot, content)
    }

    /// Live messages with this id or a later one, in order: a checkpoint takes them in slices.
    pub fn live_from(&self, id: EntryId) -> impl Iterator<Item = EntryView<'_, C>> {
        self.table
            .iter_from(id)
            .map(|(id, message)| self.view(id, message))
    }

    fn due_of(&self, id: EntryId) -> Option<Timestamp> {
        self.delayed.as_ref()?.due_of(self.table.look_up(id)?)
    }

    fn view<'a>(&self, id: EntryId, message: Cow<'a, Message<C>>) -> EntryView<'a, C> {
        let state = match message.state {
            State::Ready | State::Requeued | State::Returned => EntryState::Ready,
            State::Delayed => EntryState::Delayed {
                until: self.due_of(id).unwrap_or_default(),
            },
            State::Dead(reason) => EntryState::DeadLettering { reason },
            State::Held(hold) => {
                let hold = self.holds.get(hold);
                let lease = self.leases.get(hold.lease);
                EntryState::Unacked {
                    holder: lease.holder,
                    consumer: lease.consumer,
                    since: hold.since,
                }
            }
        };
        EntryView {
            id,
            bytes: message.bytes,
            priority: message.level,
            persistent: message.persistent,
            expires_at: message.expires_at(),
            delivery_count: message.delivery_count,
            acquired_count: message.acquired_count,
            state,
            content: match message {
                Cow::Borrowed(message) => Cow::Borrowed(&message.content),
                Cow::Owned(message) => Cow::Owned(message.content),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ConsumerTag;
    use crate::queue::{Consumer, DispatchBudget, Effect};
    use crate::settings::{QueueKind, QueueSettings};

    /// A log tells of every return, but not of the hand-outs in between.
    #[test]
    fn messages_that_the_log_returned_several_times_are_delivered_once_and_in_order() {
        let now = Timestamp(1);
        let mut machine = QueueMachine::new(QueueKind::Quorum, &QueueSettings::default(), now);
        for id in 1..=60 {
            assert!(machine.restore(Entry::new(EntryId(id), id, 1)));
        }
        for count in 1..=4 {
            for id in 2..=60 {
                assert!(machine.returned(EntryId(id), count, count, None));
            }
        }
        let mut gone = Vec::new();
        let forgotten: Vec<EntryId> = (2..=30).map(EntryId).collect();
        machine.forget(&forgotten, &mut gone);
        assert_eq!(gone.len(), 29);
        let consumer = Consumer::new(ConsumerId(1), HolderId(1), ConsumerTag::new("c"));
        let mut effects = Vec::new();
        machine
            .add_consumer(now, consumer, &mut effects)
            .expect("room for a consumer");
        let mut budget = DispatchBudget {
            messages: 1_000,
            bytes: 1_000_000,
        };
        machine.dispatch(now, &mut budget, &mut effects);
        let delivered: Vec<u64> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Deliver(delivery) => Some(delivery.entry.0),
                _ => None,
            })
            .collect();
        let expected: Vec<u64> = (31..=60).chain([1]).collect();
        assert_eq!(delivered, expected);
    }
}
