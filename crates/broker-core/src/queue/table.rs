//! Where a queue keeps its live messages: in order of arrival, in chunks.
//!
//! A place is dense and never used again, so a place is found by arithmetic, and an id by its
//! neighbour's place or by bisection. A chunk that is empty goes; one with few survivors is packed, so
//! a stuck message keeps little more than itself. Knows nothing of the order of delivery.

use std::collections::VecDeque;

use super::entry::EntryId;
use crate::dead_letter::DeathReason;
use crate::time::Timestamp;

/// Messages per chunk. Small enough that a nearly empty queue costs little, large enough that the
/// directory is short.
const CHUNK_LEN: u64 = 128;

/// With fewer survivors than this a full chunk is packed.
const PACK_BELOW: u16 = 16;

/// Capacity, in messages, that an empty queue keeps for its next burst.
const KEPT_WHEN_EMPTY: usize = 8;

/// Where a message is in its table: the how-manyth it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place(u64);

impl Place {
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

/// What a live message is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not handed out yet, or restored: in its level's line.
    Ready,
    /// Back at its old place (classic queues).
    Requeued,
    /// Back in front of all levels (quorum queues).
    Returned,
    /// Held back.
    Delayed,
    /// With the holder of this hold.
    Held(u32),
    /// Waits for the confirms of its dead letter.
    Dead(DeathReason),
}

/// A live message without its id.
#[derive(Debug)]
pub(super) struct Message<C> {
    pub(super) content: C,
    /// `NEVER` when it does not expire.
    expires_at: Timestamp,
    pub(super) state: State,
    pub(super) bytes: u32,
    pub(super) delivery_count: u32,
    pub(super) acquired_count: u32,
    pub(super) level: u8,
    pub(super) persistent: bool,
}

const NEVER: Timestamp = Timestamp(u64::MAX);

impl<C> Message<C> {
    pub(super) fn new(content: C, bytes: u32, level: u8, expires_at: Option<Timestamp>) -> Self {
        Self {
            content,
            expires_at: expires_at.unwrap_or(NEVER),
            state: State::Ready,
            bytes,
            delivery_count: 0,
            acquired_count: 0,
            level,
            persistent: true,
        }
    }

    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        (self.expires_at != NEVER).then_some(self.expires_at)
    }

    pub(super) fn expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}

#[derive(Debug)]
struct Cell<C> {
    id: EntryId,
    message: Option<Message<C>>,
}

#[derive(Debug)]
enum Cells<C> {
    /// The slot is the index.
    Dense(Vec<Cell<C>>),
    /// Survivors by slot.
    Packed(Vec<(u8, EntryId, Message<C>)>),
}

#[derive(Debug)]
struct Chunk<C> {
    number: u64,
    first_id: EntryId,
    live: u16,
    cells: Cells<C>,
}

#[derive(Debug)]
pub(super) struct Table<C> {
    chunks: VecDeque<Chunk<C>>,
    next: Place,
    /// The last place found by id: settles come in order of delivery, so the next is often beside it.
    found: Place,
    live: usize,
    last_id: EntryId,
    any_id: bool,
    /// Messages in the last chunk when the table was last emptied: the next burst may be as long.
    burst: u8,
    /// The number of the first chunk, or a guess that is only slower.
    first_number: u64,
}

impl<C> Table<C> {
    pub(super) fn new() -> Self {
        Self {
            chunks: VecDeque::new(),
            next: Place(0),
            found: Place(0),
            live: 0,
            last_id: EntryId(0),
            any_id: false,
            burst: 0,
            first_number: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// The greatest id that was ever put in.
    pub(super) fn last_id(&self) -> Option<EntryId> {
        self.any_id.then_some(self.last_id)
    }

    /// Whether this id may be appended.
    pub(super) fn takes(&self, id: EntryId) -> bool {
        !self.any_id || id > self.last_id
    }

    /// Appends a message. Its id must be one that the table `takes`.
    #[inline]
    pub(super) fn push(&mut self, id: EntryId, message: Message<C>) -> Place {
        debug_assert!(self.takes(id));
        let place = self.next;
        self.next = Place(place.0 + 1);
        self.last_id = id;
        self.any_id = true;
        self.live += 1;
        if place.slot() == 0 {
            self.open_chunk(place.chunk(), id);
        }
        let chunk = self
            .chunks
            .back_mut()
            .expect("the chunk of a slot above 0 stays until full");
        chunk.live += 1;
        if let Cells::Dense(cells) = &mut chunk.cells {
            cells.push(Cell {
                id,
                message: Some(message),
            });
        }
        if u64::from(place.slot()) + 1 == CHUNK_LEN {
            let last = self.chunks.len() - 1;
            self.tidy(last);
        }
        place
    }

    #[inline(never)]
    fn open_chunk(&mut self, number: u64, first_id: EntryId) {
        // `live` counts the message that opens the chunk.
        let capacity = if self.live > 1 {
            CHUNK_LEN as usize
        } else {
            usize::from(self.burst)
        };
        let cells = match self.chunks.back_mut() {
            // An empty queue keeps a small chunk, which is renumbered instead of replaced.
            Some(last) if last.live == 0 && last.number + 1 == number => {
                let last = self.chunks.pop_back().expect("it has just been seen");
                match last.cells {
                    Cells::Dense(mut cells) => {
                        cells.clear();
                        cells
                    }
                    Cells::Packed(_) => Vec::with_capacity(capacity),
                }
            }
            _ => Vec::with_capacity(capacity),
        };
        self.chunks.push_back(Chunk {
            number,
            first_id,
            live: 0,
            cells: Cells::Dense(cells),
        });
        self.front_changed();
    }

    fn is_complete(&self, chunk: &Chunk<C>) -> bool {
        chunk.number != self.next.chunk()
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
        let chunk = &self.chunks[at];
        if !self.is_complete(chunk) {
            return;
        }
        if chunk.live == 0 {
            self.chunks.remove(at);
            self.front_changed();
            self.shrink_directory();
            return;
        }
        if chunk.live >= PACK_BELOW {
            return;
        }
        let chunk = &mut self.chunks[at];
        if let Cells::Dense(cells) = &mut chunk.cells {
            let mut packed = Vec::with_capacity(usize::from(chunk.live));
            for (slot, cell) in cells.drain(..).enumerate() {
                if let Some(message) = cell.message {
                    packed.push((slot as u8, cell.id, message));
                }
            }
            chunk.cells = Cells::Packed(packed);
        }
    }

    fn shrink_directory(&mut self) {
        if self.chunks.capacity() > 16 && self.chunks.len() * 4 < self.chunks.capacity() {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
    }

    #[inline]
    fn chunk_index(&self, number: u64) -> Option<usize> {
        // Without gaps this is it; each gap only moves it towards the front.
        let latest = number.wrapping_sub(self.first_number) as usize;
        if self
            .chunks
            .get(latest)
            .is_some_and(|chunk| chunk.number == number)
        {
            return Some(latest);
        }
        self.chunk_index_past_gaps(number)
    }

    #[cold]
    fn chunk_index_past_gaps(&self, number: u64) -> Option<usize> {
        self.chunks
            .binary_search_by_key(&number, |chunk| chunk.number)
            .ok()
    }

    pub(super) fn get(&self, place: Place) -> Option<&Message<C>> {
        self.at(self.locate(place)?)
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Message<C>> {
        self.cell_mut(place).map(|(_, message)| message)
    }

    pub(super) fn cell_mut(&mut self, place: Place) -> Option<(EntryId, &mut Message<C>)> {
        self.at_mut(self.locate(place)?)
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<(EntryId, Message<C>)> {
        self.take(self.locate(place)?)
    }

    /// The table is empty: keeps next to nothing.
    fn reset(&mut self) {
        self.burst = CHUNK_LEN as u8;
        if self.next.slot() != 0 {
            self.burst = self.next.slot();
            self.next = Place((self.next.chunk() + 1) * CHUNK_LEN);
        }
        while self.chunks.len() > 1 {
            self.chunks.pop_front();
        }
        let small = self.chunks.front().is_some_and(|chunk| {
            chunk.number + 1 == self.next.chunk()
                && matches!(&chunk.cells, Cells::Dense(cells) if cells.capacity() <= KEPT_WHEN_EMPTY)
        });
        if !small {
            self.chunks.clear();
        }
        self.front_changed();
        self.shrink_directory();
    }

    fn front_changed(&mut self) {
        if let Some(front) = self.chunks.front() {
            self.first_number = front.number;
        }
    }

    /// The place of a live message.
    pub(super) fn find(&mut self, id: EntryId) -> Option<Place> {
        self.spot(id).map(|_| self.found)
    }

    /// Where a live message is, for the calls that directly follow.
    #[inline]
    pub(super) fn spot(&mut self, id: EntryId) -> Option<Spot> {
        let beside = Place(self.found.0 + 1);
        if let Some(chunk) = self.chunk_index(beside.chunk())
            && let Cells::Dense(cells) = &self.chunks[chunk].cells
            && let Some(cell) = cells.get(usize::from(beside.slot()))
            && cell.id == id
        {
            self.found = beside;
            return cell.message.is_some().then_some(Spot {
                chunk,
                cell: beside.slot().into(),
            });
        }
        let (place, spot) = self.bisect(id)?;
        self.found = place;
        Some(spot)
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
    pub(super) fn at_mut(&mut self, spot: Spot) -> Option<(EntryId, &mut Message<C>)> {
        match &mut self.chunks[spot.chunk].cells {
            Cells::Dense(cells) => {
                let cell = &mut cells[spot.cell];
                Some((cell.id, cell.message.as_mut()?))
            }
            Cells::Packed(cells) => {
                let cell = &mut cells[spot.cell];
                Some((cell.1, &mut cell.2))
            }
        }
    }

    /// The message of a spot.
    #[inline]
    pub(super) fn at(&self, spot: Spot) -> Option<&Message<C>> {
        match &self.chunks[spot.chunk].cells {
            Cells::Dense(cells) => cells[spot.cell].message.as_ref(),
            Cells::Packed(cells) => Some(&cells[spot.cell].2),
        }
    }

    /// Removes the message of a spot.
    #[inline]
    pub(super) fn take(&mut self, spot: Spot) -> Option<(EntryId, Message<C>)> {
        let chunk = &mut self.chunks[spot.chunk];
        let removed = match &mut chunk.cells {
            Cells::Dense(cells) => {
                let cell = &mut cells[spot.cell];
                (cell.id, cell.message.take()?)
            }
            Cells::Packed(cells) => {
                let (_, id, message) = cells.remove(spot.cell);
                if cells.len() * 2 <= cells.capacity() {
                    cells.shrink_to_fit();
                }
                (id, message)
            }
        };
        chunk.live -= 1;
        self.live -= 1;
        if chunk.live < PACK_BELOW {
            self.thin_out(spot.chunk);
        }
        Some(removed)
    }

    /// The id of a live message.
    pub(super) fn id_at(&self, place: Place) -> Option<EntryId> {
        let chunk = &self.chunks[self.chunk_index(place.chunk())?];
        let cell = chunk.cell_index(place.slot())?;
        Some(match &chunk.cells {
            Cells::Dense(cells) => cells[cell].id,
            Cells::Packed(cells) => cells[cell].1,
        })
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
        let (cell, slot) = match &chunk.cells {
            Cells::Dense(cells) => {
                let cell = cells.binary_search_by_key(&id, |cell| cell.id).ok()?;
                cells[cell].message.as_ref()?;
                (cell, cell as u64)
            }
            Cells::Packed(cells) => {
                let cell = cells.binary_search_by_key(&id, |cell| cell.1).ok()?;
                (cell, u64::from(cells[cell].0))
            }
        };
        Some((
            Place(chunk.number * CHUNK_LEN + slot),
            Spot { chunk: at, cell },
        ))
    }

    /// Live messages with this id or a later one, in order.
    pub(super) fn iter_from(&self, id: EntryId) -> impl Iterator<Item = (EntryId, &Message<C>)> {
        let first = self
            .chunks
            .partition_point(|chunk| chunk.first_id <= id)
            .saturating_sub(1);
        self.chunks
            .range(first..)
            .flat_map(|chunk| chunk.iter())
            .skip_while(move |(entry, _)| *entry < id)
    }

    /// Bytes that the table takes, contents not counted beyond their own size.
    pub(super) fn memory_bytes(&self) -> usize {
        let cells: usize = self.chunks.iter().map(Chunk::memory_bytes).sum();
        cells + self.chunks.capacity() * size_of::<Chunk<C>>()
    }
}

impl<C> Chunk<C> {
    /// The index of a slot among the cells; in a dense chunk its message may be gone.
    #[inline]
    fn cell_index(&self, slot: u8) -> Option<usize> {
        match &self.cells {
            Cells::Dense(cells) => {
                let index = usize::from(slot);
                (index < cells.len()).then_some(index)
            }
            Cells::Packed(cells) => cells.binary_search_by_key(&slot, |cell| cell.0).ok(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (EntryId, &Message<C>)> {
        let (dense, packed) = match &self.cells {
            Cells::Dense(cells) => (&cells[..], &[][..]),
            Cells::Packed(cells) => (&[][..], &cells[..]),
        };
        let dense = dense
            .iter()
            .filter_map(|cell| Some((cell.id, cell.message.as_ref()?)));
        dense.chain(packed.iter().map(|cell| (cell.1, &cell.2)))
    }

    fn memory_bytes(&self) -> usize {
        match &self.cells {
            Cells::Dense(cells) => cells.capacity() * size_of::<Cell<C>>(),
            Cells::Packed(cells) => cells.capacity() * size_of::<(u8, EntryId, Message<C>)>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(content: u64) -> Message<u64> {
        Message::new(content, 1, 0, None)
    }

    fn filled(n: u64) -> (Table<u64>, Vec<Place>) {
        let mut table = Table::new();
        // Ids with gaps, as the log gives them.
        let places = (0..n)
            .map(|i| table.push(EntryId(i * 3 + 1), message(i)))
            .collect();
        (table, places)
    }

    #[test]
    fn finds_each_message_by_place_and_by_id() {
        let (mut table, places) = filled(1000);
        for i in [999, 0, 500, 127, 128, 129, 1] {
            let place = table.find(EntryId(i * 3 + 1));
            assert_eq!(place, Some(places[i as usize]));
            assert_eq!(table.get(places[i as usize]).map(|m| m.content), Some(i));
            assert_eq!(table.find(EntryId(i * 3)), None);
        }
    }

    #[test]
    fn a_stuck_message_keeps_little_more_than_itself() {
        let (mut table, places) = filled(1);
        let stuck = places[0];
        let mut last = stuck;
        for i in 1..100_000 {
            let place = table.push(EntryId(i * 3 + 1), message(i));
            if last != stuck {
                table.remove(last);
            }
            last = place;
        }
        assert_eq!(table.len(), 2);
        assert_eq!(table.get(stuck).map(|m| m.content), Some(0));
        assert_eq!(table.find(EntryId(1)), Some(stuck));
        assert!(
            table.memory_bytes() < 12_000,
            "{} bytes",
            table.memory_bytes()
        );
    }

    #[test]
    fn one_survivor_in_each_hundred_costs_a_bounded_number_of_bytes() {
        let (mut table, places) = filled(100_000);
        for (i, place) in places.iter().enumerate() {
            if i % 100 != 0 {
                table.remove(*place);
            }
        }
        assert_eq!(table.len(), 1000);
        assert!(
            table.memory_bytes() < 1000 * 300,
            "{} bytes",
            table.memory_bytes()
        );
        let ids: Vec<u64> = table.iter_from(EntryId(0)).map(|(id, _)| id.0).collect();
        let expected: Vec<u64> = (0..1000).map(|i| i * 300 + 1).collect();
        assert_eq!(ids, expected);
        let late: Vec<u64> = table
            .iter_from(EntryId(299_000))
            .map(|(id, _)| id.0)
            .collect();
        assert_eq!(late, [299_101, 299_401, 299_701]);
    }

    #[test]
    fn an_emptied_table_gives_its_memory_back_and_goes_on() {
        let (mut table, places) = filled(10_000);
        for place in places.iter().rev() {
            assert!(table.remove(*place).is_some());
            assert!(table.remove(*place).is_none());
        }
        assert_eq!(table.len(), 0);
        assert!(
            table.memory_bytes() < 2_000,
            "{} bytes",
            table.memory_bytes()
        );
        for i in 0..300 {
            let place = table.push(EntryId(100_000 + i), message(i));
            assert_eq!(table.find(EntryId(100_000 + i)), Some(place));
            assert_eq!(
                table.remove(place).map(|(id, m)| (id.0, m.content)),
                Some((100_000 + i, i))
            );
        }
        assert!(!table.takes(EntryId(100_299)));
    }
}
