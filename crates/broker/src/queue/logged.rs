//! What the log learns of a durable queue's messages: that they may have been handed out, and that
//! they have left for good.

use std::sync::Arc;

use broker_core::queue::{Delivery, EntryId};

use super::{After, Lane, Queue};
use crate::apply::index_of;
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
        if !node.leads(self.lane) {
            return None;
        }
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
        let Lane::Group(group) = self.lane else {
            return;
        };
        if !node.leads(self.lane) {
            return;
        }
        let state = self.state.lock_cold();
        // A queue that nobody has asked for keeps the mark of its last life.
        if state.cold.is_none() && state.ledger.handed_out_index() > 0 {
            node.groups.handed_out(group, self.id, 0);
        }
    }

    /// Takes in a piece of what is on disk; answers whether there may be more. What cannot be read is left
    /// to `warm_up`, which says so and stops the node.
    pub(crate) fn take_in_some(&self) -> bool {
        self.state.lock_cold().take_in_some().unwrap_or(false)
    }

    /// Takes in what is on disk, and the deadlines of what was restored begin to count.
    pub(crate) fn warm_up(self: &Arc<Self>, node: &Node) {
        drop(self.state.lock());
        let mut after = After::default();
        self.act(node, &mut after, |_, _, _| {});
        node.carry_out(self, after);
    }

    /// This node begins to lead the queue: what may have been delivered before is redelivered, and the
    /// deadlines of what was restored begin to count.
    pub(crate) fn awake(self: &Arc<Self>, node: &Node) {
        if !node.leads(self.lane) {
            return;
        }
        let mut after = After::default();
        self.state.lock().return_handed_out();
        self.act(node, &mut after, |_, _, _| {});
        node.carry_out(self, after);
    }

    /// A message has left for good: the log learns of it and its place is given back.
    pub(super) fn ended(&self, node: &Node, ledger: &mut Ledger, id: EntryId, content: &Content) {
        if let Some((tier, location)) = content.place() {
            node.storage.tier(tier).release(self.store(), &[*location]);
        }
        let Lane::Group(group) = self.lane else {
            return;
        };
        if !content.is_logged() {
            return;
        }
        node.groups.forget(group, self.id, id);
        ledger.ended(id, matches!(content, Content::Stored(_)));
    }
}
