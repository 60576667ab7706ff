//! A queue of a replica group changes hands: its leader steps down here, another begins there.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_core::queue::{
    Consumer, Entry, EntryId, Pause, QueueFault, QueueMachine, ReturnCause, Settlement,
};
use broker_core::settings::{QueueKind, QueueSettings};

use super::{After, Queue, QueueState, ReadAhead};
use crate::clock;
use crate::content::Content;
use crate::holder::Holder;
use crate::node::Node;

impl Queue {
    /// Another node leads: consumers and deliveries are its business. Messages stay as the log has
    /// them.
    pub(crate) fn step_down(&self, node: &Node) {
        let settings = node.settings_of(self);
        self.with_state(|state| {
            let entries: Vec<Entry<Content>> = state
                .machine
                .live_from(EntryId(0))
                .map(|entry| Entry {
                    id: entry.id,
                    content: entry.content.into_owned(),
                    bytes: entry.bytes,
                    priority: Some(entry.priority),
                    persistent: entry.persistent,
                    expires_at: entry.expires_at,
                    delivery_count: entry.delivery_count,
                    acquired_count: entry.acquired_count,
                })
                .collect();
            let counted: Vec<_> = state.ledger.counted().collect();
            state.replace(self.kind, settings.as_deref(), entries.into_iter());
            for (id, counted) in counted {
                counted.restore(&mut state.machine, id);
            }
        });
    }

    /// Tells the meters what the queue keeps in memory.
    pub(crate) fn tell_memory(&self) {
        self.with_state(|state| {
            let counts = state.machine.counts();
            state.memory.tell(&counts);
        });
    }

    /// Adds a consumer with what it has in hand from an earlier leader. One that is there already
    /// stays; what it was given and has not in hand was lost on its way, or its ack was, and goes back.
    pub(crate) fn take_back(
        self: &Arc<Self>,
        node: &Node,
        holder: &Arc<Holder>,
        consumer: Consumer,
        held: &[EntryId],
        after: &mut After,
    ) -> Result<(), QueueFault> {
        let now = clock::now();
        let id = consumer.id;
        let mut state = self.state.lock();
        let QueueState {
            machine, effects, ..
        } = &mut *state;
        let tag = consumer.tag.clone();
        match machine.held_of(id) {
            Some(given) => {
                let kept: BTreeSet<EntryId> = held.iter().copied().collect();
                let given = given.into_iter();
                let astray: Vec<EntryId> = given.filter(|entry| !kept.contains(entry)).collect();
                let back = Settlement::Requeue(ReturnCause::NodeDown);
                machine.settle(now, holder.id, &astray, back, effects);
                machine.resume(id, Pause::from_bits(u8::MAX));
                machine.pause(id, consumer.paused);
            }
            None => machine.add_consumer(now, consumer, effects)?,
        }
        machine.hold_again(now, holder.id, Some(id), held);
        state.tags.insert(id, tag);
        state.holders.insert(holder.id, holder.clone());
        self.run(node, now, &mut state, after);
        Ok(())
    }
}

impl QueueState {
    /// A machine with these messages and nobody who holds any.
    pub(crate) fn replace(
        &mut self,
        kind: QueueKind,
        settings: Option<&QueueSettings>,
        entries: impl Iterator<Item = Entry<Content>>,
    ) {
        let none = QueueSettings::default();
        self.machine = QueueMachine::new(kind, settings.unwrap_or(&none), clock::now());
        for entry in entries {
            self.machine.restore(entry);
        }
        self.effects.clear();
        self.holders.clear();
        self.tags.clear();
        self.consumer_arguments.clear();
        self.deadline = None;
        self.read_ahead = ReadAhead::default();
    }
}
