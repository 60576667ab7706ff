//! Messages enter and are handed out, where what consumers have in hand may be limited: then each
//! consumer's user and vhost are asked first. While nobody has such a limit, that costs one load.

use std::sync::Arc;

use broker_core::Timestamp;
use broker_core::queue::{ConsumerId, DispatchBudget, DispatchEnd, Entry, HolderId};
use rustc_hash::FxHashMap;

use super::{After, Queue, QueueState};
use crate::content::Content;
use crate::holder::Holder;
use crate::node::Node;
use crate::tenants::in_hand::{self, Counts};

impl Queue {
    /// A message enters.
    pub(super) fn take_in(
        self: &Arc<Self>,
        node: &Node,
        now: Timestamp,
        state: &mut QueueState,
        entry: Entry<Content>,
        after: &mut After,
    ) {
        let (machine, effects) = (&mut state.machine, &mut state.effects);
        if !node.in_hand.any() {
            return machine.enqueue(now, entry, effects);
        }
        let mut ask = self.ask(node, &state.holders, &mut after.full_hands);
        machine.enqueue_asking(now, entry, effects, &mut ask);
    }

    /// Messages are handed out.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        node: &Node,
        now: Timestamp,
        state: &mut QueueState,
        budget: &mut DispatchBudget,
        after: &mut After,
    ) -> DispatchEnd {
        let (machine, effects) = (&mut state.machine, &mut state.effects);
        if !node.in_hand.any() {
            return machine.dispatch(now, budget, effects);
        }
        let mut ask = self.ask(node, &state.holders, &mut after.full_hands);
        machine.dispatch_asking(now, budget, effects, &mut ask)
    }

    fn ask<'a>(
        self: &'a Arc<Self>,
        node: &'a Node,
        holders: &'a FxHashMap<HolderId, Arc<Holder>>,
        looked_at: &'a mut Counts,
    ) -> impl FnMut(ConsumerId, HolderId) -> bool + 'a {
        move |consumer, holder| {
            let Some(holder) = holders.get(&holder) else {
                return true;
            };
            in_hand::may_take(node, self, (holder, consumer), looked_at)
        }
    }
}
