//! Acknowledging: ack, nack, reject, recover.

use broker_core::Refusal;
use broker_core::channel::ChannelMode;
use broker_core::queue::{DiscardCause, ReturnCause, Settlement};
use smallvec::SmallVec;

use super::Channel;
use crate::queue::After;

impl Channel {
    /// `basic.ack`.
    ///
    /// # Errors
    /// The tag is unknown or settled.
    pub fn ack(&mut self, tag: u64, multiple: bool) -> Result<(), Refusal> {
        self.settle(tag, multiple, Settlement::Ack)
    }

    /// `basic.nack`.
    ///
    /// # Errors
    /// The tag is unknown or settled.
    pub fn nack(&mut self, tag: u64, multiple: bool, requeue: bool) -> Result<(), Refusal> {
        let how = match requeue {
            true => Settlement::Requeue(ReturnCause::Nack),
            false => Settlement::Discard(DiscardCause::Nack),
        };
        self.settle(tag, multiple, how)
    }

    /// `basic.reject`.
    ///
    /// # Errors
    /// The tag is unknown or settled.
    pub fn reject(&mut self, tag: u64, requeue: bool) -> Result<(), Refusal> {
        let how = match requeue {
            true => Settlement::Requeue(ReturnCause::Reject),
            false => Settlement::Discard(DiscardCause::Reject),
        };
        self.settle(tag, false, how)
    }

    /// `basic.recover`: everything unacknowledged goes back to its queues when the turn ends, so
    /// that recover-ok comes before what is delivered again.
    ///
    /// # Errors
    /// Without requeue it is not implemented.
    pub fn recover(&mut self, requeue: bool) -> Result<(), Refusal> {
        if !requeue {
            return Err(Refusal::RecoverWithoutRequeue);
        }
        self.resolved.clear();
        let mut deliveries = self.holder.deliveries.lock();
        deliveries.unacked.take_all(&mut self.resolved);
        deliveries.tell();
        drop(deliveries);
        self.gather(Settlement::Requeue(ReturnCause::Recover));
        Ok(())
    }

    fn settle(&mut self, tag: u64, multiple: bool, how: Settlement) -> Result<(), Refusal> {
        self.resolved.clear();
        self.holder.take(tag, multiple, &mut self.resolved)?;
        self.count_late();
        if self.mode == ChannelMode::Tx {
            return self.transaction.settle(how, &mut self.resolved);
        }
        self.gather(how);
        Ok(())
    }

    /// Late settlements are rare: each costs its queue's lock.
    fn count_late(&self) {
        let late = self.resolved.late();
        self.node.counters.settled_late(late.len() as u64);
        for of_queue in late.chunk_by(|one, other| one == other) {
            if let Some(queue) = self.node.queue(of_queue[0]) {
                let count = of_queue.len() as u64;
                queue.with_state(|state| state.machine.settled_late(count));
            }
        }
    }

    fn gather(&mut self, how: Settlement) {
        let items = self.resolved.items().iter();
        self.settles
            .extend(items.map(|unsettled| (unsettled.queue, unsettled.entry, how)));
    }

    /// Tells the queues, in order; a run for one queue and of one kind goes under one lock.
    pub(super) fn flush_settles(&mut self) {
        if self.settles.is_empty() {
            return;
        }
        let settles = std::mem::take(&mut self.settles);
        for run in settles.chunk_by(|a, b| a.0 == b.0 && a.2 == b.2) {
            // A queue that was deleted meanwhile: nothing to settle, and no error.
            let Some(queue) = self.node.queue(run[0].0) else {
                continue;
            };
            if run[0].2 == Settlement::Ack {
                self.holder.traffic.ack.add(run.len() as u64);
            }
            let entries: SmallVec<[_; 64]> = run.iter().map(|(_, entry, _)| *entry).collect();
            let mut after = After::default();
            queue.settle(&self.node, self.holder.id, &entries, run[0].2, &mut after);
            self.node.carry_out(&queue, after);
        }
        self.settles = settles;
        self.settles.clear();
        self.node.room_in_hand(&self.holder);
    }
}
