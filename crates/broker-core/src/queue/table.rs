//! Where a queue keeps its live messages: in order of arrival, in chunks.
//!
//! A place is dense and never used again, so a place is found by arithmetic, and an id beside
//! the last one found or by bisection. A chunk that is empty goes; one with few survivors is
//! packed, so a stuck message keeps little more than itself. Knows nothing of the order of
//! delivery.

mod chunk;
mod resting;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;

use super::entry::EntryId;
use super::handle::Handle;
use super::message::Message;
use chunk::Chunk;

/// Messages per chunk. Small enough that a nearly empty queue costs little, large enough that the
/// directory is short.
const CHUNK_LEN: u64 = 128;

/// With fewer survivors than this a full chunk is packed.
const PACK_BELOW: u16 = 16;

/// Capacity, in messages, that an empty queue keeps for its next burst.
const KEPT_WHEN_EMPTY: usize = 8;

/// Capacity, in chunks, below which the directory stays as it is.
const KEPT_CHUNKS: usize = 4;

/// Where a message is in its table: the how-manyth it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place(u64);

impl Place {
    /// The first places that a table gives.
    #[cfg(test)]
    pub(super) fn first(count: u64) -> impl Iterator<Item = Place> {
        (0..count).map(Place)
    }

    /// The place that is given `count` places later.
    pub(super) fn plus(self, count: u64) -> Place {
        Place(self.0 + count)
    }

    fn chunk(self) -> u64 {
        self.0 / CHUNK_LEN
    }

    fn slot(self) -> u8 {
        (self.0 % CHUNK_LEN) as u8
    }
}

/// Where a message is at this moment: valid until the table changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    chunk: usize,
    cell: usize,
}

#[derive(Debug)]
pub(super) struct Table<C: Handle> {
    chunks: VecDeque<Chunk<C>>,
    next: Place,
    /// The last place found by id: settles come in order of delivery, so the next is often
    /// beside it.
    found: Place,
    live: usize,
    last_id: Option<EntryId>,
    /// The number of the first chunk; a wrong one would only be slower.
    first_number: u64,
    /// Messages in the last chunk when the table was last emptied: the next burst may be as long.
    burst: u8,
}

impl<C: Handle> Table<C> {
    pub(super) fn new() -> Self {
        Self {
            chunks: VecDeque::new(),
            next: Place(0),
            found: Place(0),
            live: 0,
            last_id: None,
            first_number: 0,
            burst: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// The greatest id that was ever appended.
    pub(super) fn last_id(&self) -> Option<EntryId> {
        self.last_id
    }

    /// Whether this id may be appended: greater than all before.
    pub(super) fn takes(&self, id: EntryId) -> bool {
        self.last_id.is_none_or(|last| id > last)
    }

    /// Appends a message. Its id must be one that the table `takes`.
    #[inline]
    pub(super) fn push(&mut self, id: EntryId, message: Message<C>) -> Place {
        debug_assert!(self.takes(id));
        let place = self.next;
        self.next = Place(place.0 + 1);
        self.last_id = Some(id);
        self.live += 1;
        if place.slot() == 0 {
            self.open_chunk(place.chunk(), id);
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.push(id, message);
        }
        if u64::from(place.slot()) + 1 == CHUNK_LEN {
            self.chunk_is_full();
        }
        place
    }

    #[inline(never)]
    fn chunk_is_full(&mut self) {
        let last = self.chunks.len() - 1;
        self.tidy(last);
        // Tidying may have removed it.
        if let Some(chunk) = self.chunks.get_mut(last) {
            chunk.rest();
        }
    }

    /// Gives a message another handle and answers the one that it had. With the last message of a chunk
    /// the whole chunk may be put down: handles change in the order of the messages, mostly.
    pub(super) fn replace_content(&mut self, spot: Spot, content: C) -> Option<C> {
        let chunk = self.chunks.get_mut(spot.chunk)?;
        let before = chunk.replace_content(spot.cell, content)?;
        if spot.cell as u64 + 1 == CHUNK_LEN {
            chunk.rest();
        }
        Some(before)
    }

    #[inline(never)]
    fn open_chunk(&mut self, number: u64, first_id: EntryId) {
        // `live` counts the message that opens the chunk already.
        if self.live > 1 {
            self.chunks
                .push_back(Chunk::new(number, first_id, CHUNK_LEN as usize));
            return;
        }
        match self.chunks.back_mut() {
            Some(kept) => kept.renew(number, first_id),
            None => self
                .chunks
                .push_back(Chunk::new(number, first_id, self.burst.into())),
        }
        self.front_changed();
    }

    fn front_changed(&mut self) {
        if let Some(front) = self.chunks.front() {
            self.first_number = front.number;
        }
    }

    /// A chunk has few messages left, or the table none.
    #[inline(never)]
    fn thin_out(&mut self, at: usize) {
        match self.live {
            0 => self.reset(),
            _ => self.tidy(at),
        }
    }

    /// Drops or packs a chunk that has become sparse, once it can get no more messages.
    fn tidy(&mut self, at: usize) {
        let chunk = &mut self.chunks[at];
        if chunk.number == self.next.chunk() {
            return;
        }
        if chunk.live == 0 {
            self.chunks.remove(at);
            self.front_changed();
            self.shrink_directory();
        } else if chunk.live < PACK_BELOW {
            chunk.pack();
        }
    }

    /// The table is empty: keeps next to nothing, and begins a chunk with the next message.
    fn reset(&mut self) {
        self.burst = CHUNK_LEN as u8;
        if self.next.slot() != 0 {
            self.burst = self.next.slot();
            self.next = Place((self.next.chunk() + 1) * CHUNK_LEN);
        }
        self.chunks.retain(|chunk| chunk.is_small(KEPT_WHEN_EMPTY));
        self.chunks.truncate(1);
        self.shrink_directory();
    }

    fn shrink_directory(&mut self) {
        if self.chunks.capacity() > KEPT_CHUNKS && self.chunks.len() * 4 < self.chunks.capacity() {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
    }

    // --- By place. ---

    #[inline]
    fn chunk_index(&self, number: u64) -> Option<usize> {
        // Without gaps this is it; each gap only moves it towards the front.
        let latest = number.wrapping_sub(self.first_number) as usize;
        match self.chunks.get(latest) {
            Some(chunk) if chunk.number == number => Some(latest),
            _ => self.chunk_index_past_gaps(number),
        }
    }

    #[cold]
    fn chunk_index_past_gaps(&self, number: u64) -> Option<usize> {
        self.chunks
            .binary_search_by_key(&number, |chunk| chunk.number)
            .ok()
    }

    /// Where the message of a place is, for the calls that directly follow.
    #[inline]
    pub(super) fn locate(&self, place: Place) -> Option<Spot> {
        let chunk = self.chunk_index(place.chunk())?;
        let cell = self.chunks[chunk].cell_index(place.slot())?;
        Some(Spot { chunk, cell })
    }

    /// The message of a spot, with its id.
    #[inline]
    pub(super) fn at(&self, spot: Spot) -> Option<(EntryId, Cow<'_, Message<C>>)> {
        self.chunks[spot.chunk].at(spot.cell)
    }

    /// The message of a spot, with its id.
    #[inline]
    pub(super) fn at_mut(&mut self, spot: Spot) -> Option<(EntryId, &mut Message<C>)> {
        self.chunks[spot.chunk].at_mut(spot.cell)
    }

    /// Removes the message of a spot.
    #[inline]
    pub(super) fn take(&mut self, spot: Spot) -> Option<(EntryId, Message<C>)> {
        let chunk = &mut self.chunks[spot.chunk];
        let taken = chunk.take(spot.cell)?;
        self.live -= 1;
        if chunk.live < PACK_BELOW {
            self.thin_out(spot.chunk);
        }
        Some(taken)
    }

    pub(super) fn get(&self, place: Place) -> Option<Cow<'_, Message<C>>> {
        self.at(self.locate(place)?).map(|(_, message)| message)
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Message<C>> {
        self.cell_mut(place).map(|(_, message)| message)
    }

    /// The message of a place, with its id.
    pub(super) fn cell_mut(&mut self, place: Place) -> Option<(EntryId, &mut Message<C>)> {
        self.at_mut(self.locate(place)?)
    }

    /// The id of a live message.
    pub(super) fn id_at(&self, place: Place) -> Option<EntryId> {
        self.at(self.locate(place)?).map(|(id, _)| id)
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<(EntryId, Message<C>)> {
        self.take(self.locate(place)?)
    }

    // --- By id. ---

    /// Where a live message is, for the calls that directly follow.
    #[inline]
    pub(super) fn spot(&mut self, id: EntryId) -> Option<Spot> {
        let beside = Place(self.found.0 + 1);
        if let Some(chunk) = self.chunk_index(beside.chunk())
            && let Some((cell, is_live)) = self.chunks[chunk].guess(beside.slot(), id)
        {
            self.found = beside;
            return is_live.then_some(Spot { chunk, cell });
        }
        let (place, spot) = self.bisect(id)?;
        self.found = place;
        Some(spot)
    }

    /// The place of a live message.
    pub(super) fn find(&mut self, id: EntryId) -> Option<Place> {
        self.spot(id).map(|_| self.found)
    }

    /// As `find`, without remembering.
    pub(super) fn look_up(&self, id: EntryId) -> Option<Place> {
        self.bisect(id).map(|(place, _)| place)
    }

    #[inline(never)]
    fn bisect(&self, id: EntryId) -> Option<(Place, Spot)> {
        let after = self.chunks.partition_point(|chunk| chunk.first_id <= id);
        let at = after.checked_sub(1)?;
        let chunk = &self.chunks[at];
        let (cell, slot) = chunk.find(id)?;
        let place = Place(chunk.number * CHUNK_LEN + u64::from(slot));
        Some((place, Spot { chunk: at, cell }))
    }

    /// Live messages with this id or a later one, in order.
    pub(super) fn iter_from(
        &self,
        id: EntryId,
    ) -> impl Iterator<Item = (EntryId, Cow<'_, Message<C>>)> {
        let after = self.chunks.partition_point(|chunk| chunk.first_id <= id);
        let chunks = self.chunks.range(after.saturating_sub(1)..);
        chunks
            .flat_map(Chunk::iter)
            .skip_while(move |(entry, _)| *entry < id)
    }

    /// Live messages with their places, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = (Place, Cow<'_, Message<C>>)> {
        self.chunks.iter().flat_map(|chunk| {
            let first = chunk.number * CHUNK_LEN;
            let slots = chunk.iter_slots();
            slots.map(move |(slot, message)| (Place(first + u64::from(slot)), message))
        })
    }

    /// Bytes that the table takes, contents not counted beyond their own size.
    pub(super) fn memory_bytes(&self) -> usize {
        let cells: usize = self.chunks.iter().map(Chunk::memory_bytes).sum();
        cells + self.chunks.capacity() * size_of::<Chunk<C>>()
    }
}
