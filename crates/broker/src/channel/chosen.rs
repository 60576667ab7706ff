//! Messages that an operator chose are held by a channel, so that they can be moved: nobody else
//! gets them meanwhile, and what is not moved goes back when the channel ends.

use broker_core::metadata::QueueId;
use broker_core::queue::{EntryId, ReturnCause, Settlement};

use super::Channel;

impl Channel {
    /// Holds those of these messages that are ready. Answers which; the others are gone, or in
    /// somebody's hands.
    pub fn hold_chosen(&mut self, queue: QueueId, entries: &[u64]) -> Vec<u64> {
        let Some(queue) = self.node.queue(queue) else {
            return Vec::new();
        };
        self.holder.deliveries.lock().touch(queue.id);
        let entries: Vec<EntryId> = entries.iter().copied().map(EntryId).collect();
        let held = queue.hold_chosen(&self.holder, &entries);
        held.into_iter().map(|id| id.0).collect()
    }

    /// Ends the hold on messages: they have been moved, or go back to their places. Takes effect
    /// with the end of the turn.
    pub fn settle_chosen(&mut self, queue: QueueId, entries: &[u64], moved: bool) {
        let how = match moved {
            true => Settlement::Ack,
            // Not the message's fault, nor a consumer's.
            false => Settlement::Requeue(ReturnCause::NodeDown),
        };
        let entries = entries.iter().map(|id| (queue, EntryId(*id), how));
        self.settles.extend(entries);
    }
}
