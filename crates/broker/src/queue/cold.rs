//! What a queue has in its segments and its machine does not know yet: taken in when somebody needs the
//! queue, so that a start looks only at the queues that the journal has something of.
//!
//! Knows the order: what was flushed earlier has lower ids, except where it was paged out ahead of
//! its journal file. So items enter by id, before whatever the journal brings next.

use std::ops::DerefMut;
use std::sync::{Arc, Weak};

use broker_core::queue::{Entry, EntryId};
use broker_core::settings::QueueKind;
use parking_lot::{Mutex, MutexGuard};
use storage::{RecoveredItem, SegmentSpan, SegmentStore, StorageError, StoreId};

use super::{Lane, Queue, QueueState};
use crate::apply::first_id_after;
use crate::content::Content;
use crate::durability::Attributes;
use crate::ledger::{Checkpoint, Ledger};
use crate::node::Node;

/// The state of a queue behind its lock. Whoever takes it finds everything in it.
pub(crate) struct StateLock(Mutex<QueueState>);

impl StateLock {
    pub(super) fn new(state: QueueState) -> Self {
        Self(Mutex::new(state))
    }

    /// Takes the lock; the first one after the start waits until the queue's segments are read.
    pub(crate) fn lock(&self) -> MutexGuard<'_, QueueState> {
        let mut state = self.0.lock();
        if state.cold.is_some() {
            warm(&mut state);
        }
        state
    }

    /// Takes the lock of a queue that is being recovered, and perhaps not needed.
    pub(crate) fn lock_cold(&self) -> impl DerefMut<Target = QueueState> + '_ {
        self.0.lock()
    }
}

/// Takes in everything. What cannot be read stops the node: nothing is thrown away silently.
#[cold]
fn warm(state: &mut QueueState) {
    let failing = state.cold.as_ref().and_then(|cold| cold.node.upgrade());
    if let Err(error) = state.take_in(u64::MAX) {
        tracing::error!(%error, "the segments of a queue cannot be read");
        if let Some(node) = &failing {
            node.fail(&error.to_string());
        }
    }
    let lane = state.cold.take().map(|cold| cold.lane);
    // What a follower decided would be one rule too many; it does this when it begins to lead.
    let leads = failing
        .zip(lane)
        .is_some_and(|(node, lane)| node.leads(lane));
    if leads {
        state.return_handed_out();
    }
}

pub(crate) struct Cold {
    node: Weak<Node>,
    store: StoreId,
    lane: Lane,
    body_counts_alone: bool,
    segments: Arc<SegmentStore>,
    /// Everything below is dead.
    floor: u64,
    /// What was read and not taken in, the newest first.
    items: Vec<RecoveredItem>,
    /// Segments that are not read yet, in groups whose ids do not overlap, the newest first; none before
    /// they were looked at.
    groups: Option<Vec<Vec<SegmentSpan>>>,
}

impl QueueState {
    /// Makes the queue cold: its segments and checkpoint are taken in later.
    pub(crate) fn cool(&mut self, node: &Node, queue: &Queue, checkpoint: Checkpoint) {
        self.cold = Some(Box::new(Cold {
            node: node.me.clone(),
            store: queue.store(),
            lane: queue.lane,
            body_counts_alone: queue.kind == QueueKind::Classic,
            segments: Arc::clone(node.storage.segments()),
            floor: checkpoint.floor,
            items: Vec::new(),
            groups: None,
        }));
        self.ledger = Ledger::resume(checkpoint);
    }

    /// Takes in what lies in segments with ids below this one.
    pub(crate) fn take_in(&mut self, below: u64) -> Result<(), StorageError> {
        let Some(mut cold) = self.cold.take() else {
            return Ok(());
        };
        let taken = self.take_in_from(&mut cold, below, usize::MAX);
        self.cold = Some(cold);
        taken.map(|_| ())
    }

    /// Takes in about a segment; answers whether there may be more.
    pub(crate) fn take_in_some(&mut self) -> Result<bool, StorageError> {
        let Some(mut cold) = self.cold.take() else {
            return Ok(false);
        };
        let taken = self.take_in_from(&mut cold, u64::MAX, 1);
        self.cold = Some(cold);
        taken
    }

    /// Takes in what lies below an id, from so many groups at most; answers whether there is more.
    fn take_in_from(
        &mut self,
        cold: &mut Cold,
        below: u64,
        groups_max: usize,
    ) -> Result<bool, StorageError> {
        let mut groups_taken = 0;
        loop {
            while let Some(item) = cold.items.pop_if(|item| item.id < below) {
                self.restore_stored(cold, &item);
            }
            if !cold.items.is_empty() || groups_taken >= groups_max {
                return Ok(true);
            }
            if !cold.read_next_group(below, &self.ledger)? {
                return Ok(false);
            }
            groups_taken += 1;
        }
    }

    fn restore_stored(&mut self, cold: &Cold, item: &RecoveredItem) {
        let attributes = Attributes::unpack(item.attributes);
        let head = attributes.head_bytes.map_or(0, u32::from);
        let body = item.location.len.saturating_sub(head);
        let bytes = match cold.body_counts_alone {
            true => body,
            false => head + body,
        };
        let entry = Entry {
            id: EntryId(item.id),
            content: Content::Stored(item.location),
            bytes,
            priority: attributes.priority,
            persistent: true,
            expires_at: attributes.expires_at,
            delivery_count: 0,
            acquired_count: 0,
        };
        if !self.machine.restore(entry) {
            tracing::error!(store = %cold.store, entry = item.id, "an item is out of order");
            return;
        }
        if let Some(counted) = self.ledger.counted_of(item.id) {
            counted.restore(&mut self.machine, EntryId(item.id));
        }
    }

    /// What may have been delivered before the restart is redelivered.
    pub(super) fn return_handed_out(&mut self) {
        let handed_out_index = self.ledger.handed_out_index();
        if handed_out_index == 0 {
            return;
        }
        let end = EntryId(first_id_after(handed_out_index));
        let handed_out: Vec<EntryId> = self
            .machine
            .live_from(EntryId(0))
            .take_while(|entry| entry.id < end)
            .filter(|entry| entry.acquired_count == 0)
            .map(|entry| entry.id)
            .collect();
        for id in handed_out {
            self.machine.maybe_acquired(id);
        }
    }
}

impl Cold {
    /// Reads the next segments, if any item in them may lie below an id; answers whether it did.
    fn read_next_group(&mut self, below: u64, ledger: &Ledger) -> Result<bool, StorageError> {
        let mut groups = match self.groups.take() {
            Some(groups) => groups,
            None => groups_of(self.segments.spans(self.store)?),
        };
        let begins_below = |group: &Vec<SegmentSpan>| {
            let first = group.first();
            first.is_some_and(|span| span.first_id < below)
        };
        let next = groups.pop_if(|group| begins_below(group));
        let read = next.as_ref().map(|group| self.items_alive(group, ledger));
        // What cannot be read stays in line, so that nothing behind it is taken for all there is.
        if matches!(read, Some(Err(_))) {
            groups.extend(next.clone());
        }
        self.groups = Some(groups);
        let (Some(group), Some(items)) = (next, read.transpose()?) else {
            return Ok(false);
        };
        self.items = items;
        if let Some(node) = self.node.upgrade() {
            node.warming.segments_taken_in(group.len() as u64);
        }
        Ok(true)
    }

    /// The items that live by the checkpoint, the newest first.
    fn items_alive(
        &self,
        group: &[SegmentSpan],
        ledger: &Ledger,
    ) -> Result<Vec<RecoveredItem>, StorageError> {
        let found = self.segments.items_of_spans(self.store, group);
        let mut items = found.collect::<Result<Vec<_>, _>>()?;
        items.sort_unstable_by_key(|item| std::cmp::Reverse(item.id));
        let mut dead = Vec::new();
        let mut last = None;
        items.retain(|item| {
            // A copy that a crash left behind a finished one is dead as well.
            let alive = item.id >= self.floor && !ledger.is_dead(item.id) && last != Some(item.id);
            last = Some(item.id);
            if !alive {
                dead.push(item.location);
            }
            alive
        });
        self.segments.release(self.store, &dead);
        Ok(items)
    }
}

/// Segments by their ids, those together that overlap: of compacted ones, and of copies that a crash left
/// behind. The newest group and, within a group, the lowest id first.
fn groups_of(mut spans: Vec<SegmentSpan>) -> Vec<Vec<SegmentSpan>> {
    spans.sort_unstable_by_key(|span| span.first_id);
    let mut groups: Vec<Vec<SegmentSpan>> = Vec::new();
    let mut last_id = 0;
    for span in spans {
        match groups.last_mut().filter(|_| span.first_id <= last_id) {
            Some(group) => group.push(span),
            None => groups.push(vec![span]),
        }
        last_id = last_id.max(span.last_id);
    }
    groups.reverse();
    groups
}
