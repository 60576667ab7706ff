//! Delivery tags: which message of which queue each stands for, until it is settled.

use std::collections::VecDeque;

use super::UNACKED_PER_CHANNEL_MAX;
use crate::queue::{ConsumerId, EntryId};
use crate::refusal::Refusal;

/// A delivery within its channel. Counted from 1; deliveries and fetched messages share the
/// count.
// amqp 1.8.3.13
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryTag(pub u64);

/// A delivery that was out, to be settled with its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsettled<K> {
    /// Its number in the channel.
    pub tag: DeliveryTag,
    /// Its queue.
    pub queue: K,
    /// Its number in the queue.
    pub entry: EntryId,
    /// Who got it; none for a fetched message.
    pub consumer: Option<ConsumerId>,
}

/// Slots that an emptied table keeps.
const KEPT_SLOTS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Out,
    /// The queue has taken the message back; settling the tag is allowed and changes nothing.
    Withdrawn,
    Settled,
}

/// The tags of a channel that are not settled. `K` names a queue.
///
/// Settling in the order of delivery, or near it, costs O(1) amortised; any other single tag
/// O(log n). Memory follows what is out, even when the oldest stays out for ever.
#[derive(Debug)]
pub struct Unacked<K> {
    /// By tag, with settled ones in between; the first is never a settled one.
    slots: VecDeque<(Unsettled<K>, Slot)>,
    settled: usize,
    withdrawn: usize,
    last_tag: u64,
}

impl<K> Default for Unacked<K> {
    fn default() -> Self {
        Self {
            slots: VecDeque::new(),
            settled: 0,
            withdrawn: 0,
            last_tag: 0,
        }
    }
}

impl<K: Copy + Ord> Unacked<K> {
    /// Nothing is out.
    pub fn new() -> Self {
        Self::default()
    }

    /// Deliveries that are out, withdrawn ones included.
    pub fn len(&self) -> usize {
        self.slots.len() - self.settled
    }

    /// Deliveries that the client has in hand: those that are out and were not withdrawn.
    pub fn in_hand(&self) -> usize {
        self.len() - self.withdrawn
    }

    /// Whether nothing is out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `UNACKED_PER_CHANNEL_MAX` is reached: pause the channel's consumers.
    pub fn is_full(&self) -> bool {
        self.len() >= UNACKED_PER_CHANNEL_MAX
    }

    /// A delivery goes out that must be settled.
    pub fn push(&mut self, queue: K, entry: EntryId, consumer: Option<ConsumerId>) -> DeliveryTag {
        let tag = self.pass();
        self.slots.push_back((
            Unsettled {
                tag,
                queue,
                entry,
                consumer,
            },
            Slot::Out,
        ));
        tag
    }

    /// A delivery goes out that needs no ack: it takes a tag, and the tag is unknown afterwards.
    pub fn pass(&mut self) -> DeliveryTag {
        self.last_tag += 1;
        DeliveryTag(self.last_tag)
    }

    /// Settles one tag, or with `multiple` all up to and including it, where 0 means all. What
    /// has to be told to the queues is added to `resolved`.
    ///
    /// # Errors
    /// `UnknownDeliveryTag` when the tag is not out: never given, settled before, or 0 without
    /// `multiple`. Nothing has changed then.
    // amqp 1.8.3.13; rabbitmq: ack, nack, reject
    pub fn settle(
        &mut self,
        tag: u64,
        multiple: bool,
        resolved: &mut Resolved<K>,
    ) -> Result<(), Refusal> {
        if multiple && tag == 0 {
            self.settle_front(self.slots.len(), resolved);
            return Ok(());
        }
        let Some(at) = self.position(tag) else {
            return Err(Refusal::UnknownDeliveryTag { tag });
        };
        if multiple {
            self.settle_front(at + 1, resolved);
        } else {
            self.settle_at(at, resolved);
        }
        Ok(())
    }

    /// Everything that is out, in order: the channel recovers or ends.
    pub fn take_all(&mut self, resolved: &mut Resolved<K>) {
        self.settle_front(self.slots.len(), resolved);
    }

    fn position(&self, tag: u64) -> Option<usize> {
        let first = self.slots.front()?.0.tag.0;
        let latest = usize::try_from(tag.checked_sub(first)?).ok()?;
        // Tags are dense until settled ones are squeezed out or passed.
        let at = match self.slots.get(latest) {
            Some((slot, _)) if slot.tag.0 == tag => latest,
            _ => self
                .slots
                .binary_search_by_key(&tag, |(slot, _)| slot.tag.0)
                .ok()?,
        };
        (self.slots[at].1 != Slot::Settled).then_some(at)
    }

    fn settle_front(&mut self, count: usize, resolved: &mut Resolved<K>) {
        for (unsettled, slot) in self.slots.drain(..count) {
            match slot {
                Slot::Out => resolved.items.push(unsettled),
                Slot::Withdrawn => {
                    resolved.late.push(unsettled.queue);
                    self.withdrawn -= 1;
                }
                Slot::Settled => self.settled -= 1,
            }
        }
        self.tidy();
    }

    fn settle_at(&mut self, at: usize, resolved: &mut Resolved<K>) {
        let (unsettled, slot) = &mut self.slots[at];
        match slot {
            Slot::Out => resolved.items.push(*unsettled),
            Slot::Withdrawn => {
                resolved.late.push(unsettled.queue);
                self.withdrawn -= 1;
            }
            Slot::Settled => {}
        }
        *slot = Slot::Settled;
        self.settled += 1;
        self.tidy();
    }

    /// Drops settled slots at the front, and all of them when they outnumber the others.
    fn tidy(&mut self) {
        while let Some((_, Slot::Settled)) = self.slots.front() {
            self.slots.pop_front();
            self.settled -= 1;
        }
        if self.settled > KEPT_SLOTS && self.settled * 2 > self.slots.len() {
            self.slots.retain(|(_, slot)| *slot != Slot::Settled);
            self.settled = 0;
        }
        let capacity = self.slots.capacity();
        if capacity > KEPT_SLOTS && self.slots.len() * 4 < capacity {
            self.slots.shrink_to(KEPT_SLOTS.max(self.slots.len() * 2));
        }
    }

    /// The queue has taken these messages back. Their tags may still be settled, which then
    /// changes nothing; they count as out until then. Costs a pass over what is out, up to the last
    /// of them.
    // rabbitmq: consumer timeout, late acks
    pub fn withdraw(&mut self, queue: K, entries: &[EntryId]) -> usize {
        let mut wanted = entries.to_vec();
        wanted.sort_unstable();
        let mut withdrawn = 0;
        for (unsettled, slot) in &mut self.slots {
            if withdrawn == wanted.len() {
                break;
            }
            let is_out = *slot == Slot::Out && unsettled.queue == queue;
            if is_out && wanted.binary_search(&unsettled.entry).is_ok() {
                *slot = Slot::Withdrawn;
                withdrawn += 1;
            }
        }
        self.withdrawn += withdrawn;
        withdrawn
    }

    /// What a tag stands for, if it is out.
    pub fn peek(&self, tag: u64) -> Option<&Unsettled<K>> {
        let (unsettled, slot) = &self.slots[self.position(tag)?];
        (*slot == Slot::Out).then_some(unsettled)
    }

    /// The tag that a message of a queue went out with. Costs a pass over what is out before it.
    pub fn tag_of(&self, queue: K, entry: EntryId) -> Option<DeliveryTag> {
        let mut out = self.iter();
        let found = out.find(|unsettled| unsettled.queue == queue && unsettled.entry == entry)?;
        Some(found.tag)
    }

    /// A rolled back transaction gives settled deliveries back: they are out again.
    // amqp tx.rollback
    pub fn restore(&mut self, unsettled: impl IntoIterator<Item = Unsettled<K>>) {
        let mut slots: Vec<_> = std::mem::take(&mut self.slots).into();
        slots.retain(|(_, slot)| *slot != Slot::Settled);
        self.settled = 0;
        slots.extend(
            unsettled
                .into_iter()
                .map(|unsettled| (unsettled, Slot::Out)),
        );
        slots.sort_by_key(|(unsettled, _)| unsettled.tag);
        self.slots = slots.into();
    }

    /// The deliveries that are out, by tag.
    pub fn iter(&self) -> impl Iterator<Item = &Unsettled<K>> {
        self.slots
            .iter()
            .filter(|(_, slot)| *slot == Slot::Out)
            .map(|(unsettled, _)| unsettled)
    }

    /// Slots that are allocated.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }
}

/// What a settlement means to the queues. To be used again and again.
#[derive(Clone, Debug)]
pub struct Resolved<K> {
    items: Vec<Unsettled<K>>,
    late: Vec<K>,
    ids: Vec<EntryId>,
}

impl<K> Default for Resolved<K> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            late: Vec::new(),
            ids: Vec::new(),
        }
    }
}

impl<K: Copy + Ord> Resolved<K> {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was settled, by tag until `by_queue` has grouped it.
    pub fn items(&self) -> &[Unsettled<K>] {
        &self.items
    }

    /// The queues of those settled tags that were withdrawn before, once for each tag.
    pub fn late(&self) -> &[K] {
        &self.late
    }

    /// Takes the items out.
    pub fn take(&mut self) -> Vec<Unsettled<K>> {
        self.late.clear();
        std::mem::take(&mut self.items)
    }

    /// Forgets all of it and keeps the memory of a usual settlement.
    pub fn clear(&mut self) {
        self.items.clear();
        self.ids.clear();
        self.items.shrink_to(1024);
        self.ids.shrink_to(1024);
        self.late.clear();
        self.late.shrink_to(1024);
    }

    /// Each queue once, with its messages by tag: what `QueueMachine::settle` takes.
    pub fn by_queue(&mut self) -> impl Iterator<Item = (K, &[EntryId])> {
        if !self.items.is_sorted_by_key(|item| item.queue) {
            // Stable, so that the messages of a queue stay in order of their tags.
            self.items.sort_by_key(|item| item.queue);
        }
        self.ids.clear();
        self.ids.extend(self.items.iter().map(|item| item.entry));
        let (items, mut rest) = (&self.items, &self.ids[..]);
        items.chunk_by(|a, b| a.queue == b.queue).map(move |group| {
            let ids = &rest[..group.len()];
            rest = &rest[group.len()..];
            (group[0].queue, ids)
        })
    }
}
