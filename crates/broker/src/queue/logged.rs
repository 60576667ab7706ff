//! What the log learns of a durable queue's messages: that they may have been handed out, and that
//! they have left for good. And the other direction: what recovery makes of those marks.

use std::sync::Arc;

use broker_core::queue::{Delivery, EntryId};

use super::{After, Lane, Queue, QueueState};
use crate::apply::{first_id_after, index_of};
use crate::content::Content;
use crate::ledger::Ledger;
use crate::node::Node;

impl Queue {
    /// A logged message is handed out: after a crash it must come back as redelivered.
    pub(super) fn hand_out(&self, node: &Node, ledger: &mut Ledger, delivery: &Delivery<Content>) {
        let Lane::Group(group) = self.lane else {
            return;
        };
        if !delivery.content.is_logged() {
            return;
        }
        if let Some(up_to_index) = ledger.hand_out(index_of(delivery.entry)) {
            node.groups.handed_out(group, self.id, up_to_index);
        }
    }

    /// Whether deliveries of the queue need a mark in the log that is not there yet. The caller
    /// waits for the group before the first one.
    pub(crate) fn wants_first_mark(&self, node: &Node) -> Option<u32> {
        let Lane::Group(group) = self.lane else {
            return None;
        };
        let mut state = self.state.lock();
        if state.ledger.is_marked() {
            return None;
        }
        let newest = state.machine.last_id().map_or(0, index_of);
        if let Some(up_to_index) = state.ledger.hand_out(newest) {
            node.groups.handed_out(group, self.id, up_to_index);
        }
        Some(group)
    }

    /// The node stops in order: what was handed out has come back and is counted exactly.
    pub(crate) fn take_mark_back(&self, node: &Node) {
        if let Lane::Group(group) = self.lane
            && self.state.lock().ledger.handed_out_index() > 0
        {
            node.groups.handed_out(group, self.id, 0);
        }
    }

    /// Recovery is done: what may have been delivered before is redelivered, and the deadlines of
    /// what was restored begin to count.
    pub(crate) fn awake(self: &Arc<Self>, node: &Node) {
        let mut after = After::default();
        {
            let mut state = self.state.lock();
            let QueueState {
                machine, ledger, ..
            } = &mut *state;
            let end = EntryId(first_id_after(ledger.handed_out_index()));
            let handed_out: Vec<(EntryId, u32)> = machine
                .live_from(EntryId(0))
                .take_while(|entry| entry.id < end && ledger.handed_out_index() > 0)
                .filter(|entry| entry.acquired_count == 0)
                .map(|entry| (entry.id, entry.delivery_count))
                .collect();
            for (id, delivery_count) in handed_out {
                machine.returned(id, delivery_count, 1, None);
            }
        }
        self.act(node, &mut after, |_, _, _| {});
        node.carry_out(self, after);
    }

    /// A message has left for good: the log learns of it and its place is given back.
    pub(super) fn ended(&self, node: &Node, ledger: &mut Ledger, id: EntryId, content: &Content) {
        let Lane::Group(group) = self.lane else {
            return;
        };
        if !content.is_logged() {
            return;
        }
        node.groups.forget(group, self.id, id);
        ledger.ended(id, matches!(content, Content::Stored(_)));
        if let Content::Stored(location) = content {
            node.release(self.store(), &[*location]);
        }
    }
}
