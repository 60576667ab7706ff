//! What a queue tells of its messages' ends and troubles: deaths, dead letters that are held, late
//! deliveries, poison loops.

use std::sync::Arc;

use broker_core::ConsumerTag;
use broker_core::dead_letter::DeathReason;
use broker_core::queue::{Effect, Effects, EntryId, HolderId, Past, TimedOut, TimeoutAction};

use super::{After, DeadLetterJob, Lane, Queue, QueueState};
use crate::clock;
use crate::content::Content;
use crate::holder::Holder;
use crate::node::Node;
use crate::observe::deaths::DeathStrategy;
use crate::observe::incidents::{HeldBecause, IncidentKind};
use crate::standing::{Counted, Standing};

/// A dead letter that the machine wants published.
pub(super) struct Letter {
    pub(super) id: EntryId,
    pub(super) content: Content,
    pub(super) reason: DeathReason,
    pub(super) delivery_count: u32,
    pub(super) acquired_count: u32,
    pub(super) kept: bool,
    pub(super) past: Option<Box<Past>>,
}

impl Queue {
    /// A message died. Messages of a delayed exchange do not: their time has come.
    pub(super) fn died(
        &self,
        node: &Node,
        state: &mut QueueState,
        reason: DeathReason,
        strategy: DeathStrategy,
    ) {
        if self.holds_for.is_some() {
            return;
        }
        state.deaths.died(reason, strategy);
        node.traffic.died(self.kind, reason, strategy);
        node.death_log.died(self, reason, strategy);
    }

    pub(super) fn send_letter(
        &self,
        node: &Node,
        state: &mut QueueState,
        letter: Letter,
        after: &mut After,
    ) {
        // What is kept was counted when it died.
        if !letter.kept {
            self.died(node, state, letter.reason, DeathStrategy::AtMostOnce);
        }
        // Read before its place is given back.
        let loaded = node.load(self.store(), &letter.content);
        if !letter.kept {
            state.memory.dead_letter_leaves(letter.id, &letter.content);
            self.ended(node, &mut state.ledger, letter.id, &letter.content);
        }
        after.dead_letters.push(DeadLetterJob {
            queue: self.id,
            entry: letter.id,
            loaded,
            reason: letter.reason,
            delivery_count: letter.delivery_count,
            acquired_count: letter.acquired_count,
            kept: letter.kept,
            past: letter.past,
        });
    }

    /// A message stays in the queue, counted and standing so: the log learns of it.
    pub(super) fn stands(
        &self,
        node: &Node,
        state: &mut QueueState,
        id: EntryId,
        counts: (u32, u32),
        standing: Standing,
    ) {
        let entry = state.machine.entry(id);
        let logged = entry.is_some_and(|entry| entry.content.is_logged());
        if let (Lane::Group(group), true) = (self.lane, logged) {
            let counted = Counted {
                delivery_count: counts.0,
                acquired_count: counts.1,
                standing,
            };
            state.ledger.returned(id, counted);
            node.groups.returned(group, self.id, id, counted);
        }
    }

    /// Late deliveries have been taken back: their tags mean nothing any more, before the same
    /// messages go out again under others.
    pub(super) fn withdraw_late(&self, state: &QueueState, effects: &Effects<Content>) {
        for effect in effects {
            let Effect::TimedOut(late) = effect else {
                continue;
            };
            if late.action == TimeoutAction::CloseChannel {
                continue;
            }
            if let Some(holder) = state.holders.get(&late.holder) {
                let mut deliveries = holder.deliveries.lock();
                deliveries.unacked.withdraw(self.id, &late.entries);
                deliveries.tell();
            }
        }
    }

    /// What is told of late deliveries. Before their tags are withdrawn: it names one.
    pub(super) fn about_late(
        &self,
        state: &QueueState,
        effects: &Effects<Content>,
    ) -> Vec<(Arc<Holder>, TimedOut, IncidentKind)> {
        let late = effects.iter().filter_map(|effect| match effect {
            Effect::TimedOut(late) => Some(late),
            _ => None,
        });
        let told = late.filter_map(|late| {
            let holder = state.holders.get(&late.holder)?;
            let tag = holder.deliveries.lock().unacked.tag_of(self.id, late.entry);
            let kind = IncidentKind::DeliveryTimedOut {
                consumer: late.tag.clone(),
                client: holder.session.client_name(),
                channel: holder.number,
                delivery_tag: tag.map(|tag| tag.0),
                timeout_ms: late.timeout_ms,
                action: late.action,
            };
            Some((holder.clone(), late.clone(), kind))
        });
        told.collect()
    }

    pub(super) fn poison_loop(
        &self,
        node: &Node,
        state: &QueueState,
        id: EntryId,
        giver: (HolderId, Option<ConsumerTag>),
        returns: u32,
    ) {
        let holder = state.holders.get(&giver.0);
        let client = holder.map_or_else(String::new, |holder| holder.session.client_name());
        let kind = IncidentKind::PoisonLoop {
            consumer: giver.1,
            client,
            entry: id.0,
            returns,
        };
        node.incident(self, kind);
    }

    /// At-least-once dead letters: all targets have the message, or why not.
    pub(crate) fn dead_lettered(
        self: &Arc<Self>,
        node: &Node,
        entry: EntryId,
        outcome: Result<(), HeldBecause>,
    ) {
        self.note_held(node, outcome.err());
        let mut after = After::default();
        self.act(node, &mut after, |machine, now, effects| match outcome {
            Ok(()) => machine.dead_lettered(&[entry], effects),
            Err(_) => machine.dead_letter_failed(now, &[entry], effects),
        });
        node.carry_out(self, after);
    }

    /// The topology has changed: dead letters that are held may go now.
    pub(crate) fn retry_dead_letters(self: &Arc<Self>, node: &Node) {
        let mut after = After::default();
        self.act(node, &mut after, |machine, _, effects| {
            machine.retry_dead_letters(effects);
        });
        node.carry_out(self, after);
    }

    /// Tells once when dead letters begin to be held, or are held for another reason, and once
    /// when they go again.
    fn note_held(&self, node: &Node, why: Option<HeldBecause>) {
        let before = self.with_state(|state| {
            let before = state.dead_letters_held.map(|(why, _)| why);
            if before != why {
                state.dead_letters_held = why.map(|why| (why, clock::now().0));
            }
            before
        });
        if before == why {
            return;
        }
        node.dead_letters_held(self.id, why.is_some());
        let kind = match why {
            Some(why) => IncidentKind::DeadLettersHeld { why },
            None => IncidentKind::DeadLettersReleased,
        };
        node.incident(self, kind);
    }

    // --- A client's word on a delivery. ---

    /// Pushes the deadline of a delivery back. Answers whether the channel holds it.
    pub(crate) fn extend(self: &Arc<Self>, node: &Node, holder: HolderId, entry: EntryId) -> bool {
        let mut extended = false;
        let mut after = After::default();
        self.act(node, &mut after, |machine, now, _| {
            extended = machine.extend(now, holder, entry);
        });
        node.carry_out(self, after);
        extended
    }

    /// Keeps an application's reason for a delivery. Answers whether the channel holds it.
    pub(crate) fn note_reason(&self, holder: HolderId, entry: EntryId, reason: &str) -> bool {
        self.with_state(|state| state.machine.note_reason(holder, entry, reason))
    }
}
