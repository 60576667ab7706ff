//! A run of consecutive places, in full or as its survivors.

use std::borrow::Cow;

use super::super::entry::EntryId;
use super::super::handle::Handle;
use super::super::message::Message;
use super::resting::Resting;

#[derive(Debug)]
pub(super) struct Cell<C> {
    pub(super) id: EntryId,
    pub(super) message: Option<Message<C>>,
}

#[derive(Debug)]
enum Cells<C: Handle> {
    /// The slot is the index. Ids stay when their messages go, so ids can be searched for.
    Dense(Vec<Cell<C>>),
    /// Survivors by slot.
    Packed(Vec<(u8, EntryId, Message<C>)>),
    /// All of them, put down until the first one is needed.
    Resting(Resting<C>),
}

#[derive(Debug)]
pub(super) struct Chunk<C: Handle> {
    /// All its places divided by the length of a chunk.
    pub(super) number: u64,
    pub(super) first_id: EntryId,
    pub(super) live: u16,
    cells: Cells<C>,
}

impl<C: Handle> Chunk<C> {
    pub(super) fn new(number: u64, first_id: EntryId, capacity: usize) -> Self {
        Self {
            number,
            first_id,
            live: 0,
            cells: Cells::Dense(Vec::with_capacity(capacity)),
        }
    }

    /// An emptied chunk begins anew, with the memory it has.
    pub(super) fn renew(&mut self, number: u64, first_id: EntryId) {
        (self.number, self.first_id, self.live) = (number, first_id, 0);
        match &mut self.cells {
            Cells::Dense(cells) => cells.clear(),
            Cells::Packed(_) | Cells::Resting(_) => self.cells = Cells::Dense(Vec::new()),
        }
    }

    /// Takes the next slot. Only a chunk that was never packed gets messages.
    #[inline]
    pub(super) fn push(&mut self, id: EntryId, message: Message<C>) {
        if let Cells::Dense(cells) = &mut self.cells {
            cells.push(Cell {
                id,
                message: Some(message),
            });
            self.live += 1;
        }
    }

    /// The index of a slot among the cells; in a dense chunk its message may be gone.
    #[inline]
    pub(super) fn cell_index(&self, slot: u8) -> Option<usize> {
        match &self.cells {
            Cells::Dense(cells) => {
                let index = usize::from(slot);
                (index < cells.len()).then_some(index)
            }
            Cells::Packed(cells) => cells.binary_search_by_key(&slot, |cell| cell.0).ok(),
            Cells::Resting(cells) => {
                let index = usize::from(slot);
                (index < cells.len()).then_some(index)
            }
        }
    }

    /// The index of this slot among the cells, if it has this id; whether its message is there.
    /// Packed chunks are not guessed at.
    #[inline]
    pub(super) fn guess(&self, slot: u8, id: EntryId) -> Option<(usize, bool)> {
        let index = usize::from(slot);
        match &self.cells {
            Cells::Dense(cells) => {
                let cell = cells.get(index).filter(|cell| cell.id == id)?;
                Some((index, cell.message.is_some()))
            }
            Cells::Packed(_) => None,
            Cells::Resting(cells) => (cells.id_at(index) == Some(id)).then_some((index, true)),
        }
    }

    /// The index and the slot of a live message.
    pub(super) fn find(&self, id: EntryId) -> Option<(usize, u8)> {
        match &self.cells {
            Cells::Dense(cells) => {
                let index = cells.binary_search_by_key(&id, |cell| cell.id).ok()?;
                cells[index].message.as_ref()?;
                Some((index, index as u8))
            }
            Cells::Packed(cells) => {
                let index = cells.binary_search_by_key(&id, |cell| cell.1).ok()?;
                Some((index, cells[index].0))
            }
            Cells::Resting(cells) => {
                let index = cells.slot_of(id)?;
                Some((index, index as u8))
            }
        }
    }

    #[inline]
    pub(super) fn at(&self, index: usize) -> Option<(EntryId, Cow<'_, Message<C>>)> {
        match &self.cells {
            Cells::Dense(cells) => {
                let cell = &cells[index];
                Some((cell.id, Cow::Borrowed(cell.message.as_ref()?)))
            }
            Cells::Packed(cells) => {
                let cell = &cells[index];
                Some((cell.1, Cow::Borrowed(&cell.2)))
            }
            Cells::Resting(cells) => cells.at(index),
        }
    }

    /// Gives a message another handle and answers the one that it had.
    pub(super) fn replace_content(&mut self, index: usize, content: C) -> Option<C> {
        if let Cells::Resting(cells) = &mut self.cells
            && let Some(rest) = content.at_rest()
        {
            return cells.replace(index, rest).map(C::taken_up);
        }
        let (_, message) = self.at_mut(index)?;
        Some(std::mem::replace(&mut message.content, content))
    }

    /// Messages that wait are put down, if all are there and alike.
    pub(super) fn rest(&mut self) {
        if let Cells::Dense(cells) = &self.cells
            && let Some(resting) = Resting::of(cells)
        {
            self.cells = Cells::Resting(resting);
        }
    }

    /// Messages that were put down are taken up: one of them is about to change or to leave.
    #[inline]
    fn wake(&mut self) {
        if matches!(self.cells, Cells::Resting(_)) {
            self.take_up();
        }
    }

    #[cold]
    fn take_up(&mut self) {
        match std::mem::replace(&mut self.cells, Cells::Dense(Vec::new())) {
            Cells::Resting(resting) => self.cells = Cells::Dense(resting.into_cells()),
            awake => self.cells = awake,
        }
    }

    #[inline]
    pub(super) fn at_mut(&mut self, index: usize) -> Option<(EntryId, &mut Message<C>)> {
        self.wake();
        match &mut self.cells {
            Cells::Dense(cells) => {
                let cell = &mut cells[index];
                Some((cell.id, cell.message.as_mut()?))
            }
            Cells::Packed(cells) => {
                let cell = &mut cells[index];
                Some((cell.1, &mut cell.2))
            }
            Cells::Resting(_) => None,
        }
    }

    #[inline]
    pub(super) fn take(&mut self, index: usize) -> Option<(EntryId, Message<C>)> {
        self.wake();
        let taken = match &mut self.cells {
            Cells::Dense(cells) => {
                let cell = &mut cells[index];
                (cell.id, cell.message.take()?)
            }
            Cells::Packed(cells) => {
                let (_, id, message) = cells.remove(index);
                if cells.len() * 2 <= cells.capacity() {
                    cells.shrink_to_fit();
                }
                (id, message)
            }
            Cells::Resting(_) => return None,
        };
        self.live -= 1;
        Some(taken)
    }

    /// Keeps the survivors only.
    pub(super) fn pack(&mut self) {
        let Cells::Dense(cells) = &mut self.cells else {
            return;
        };
        let mut packed = Vec::with_capacity(usize::from(self.live));
        for (slot, cell) in cells.drain(..).enumerate() {
            if let Some(message) = cell.message {
                packed.push((slot as u8, cell.id, message));
            }
        }
        self.cells = Cells::Packed(packed);
    }

    /// Whether it has room for so many messages at most.
    pub(super) fn is_small(&self, capacity: usize) -> bool {
        matches!(&self.cells, Cells::Dense(cells) if cells.capacity() <= capacity)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (EntryId, Cow<'_, Message<C>>)> {
        (0..self.cells_len()).filter_map(|index| self.at(index))
    }

    /// Live messages by slot.
    pub(super) fn iter_slots(&self) -> impl Iterator<Item = (u8, Cow<'_, Message<C>>)> {
        (0..self.cells_len()).filter_map(|index| {
            let (_, message) = self.at(index)?;
            let slot = match &self.cells {
                Cells::Packed(cells) => cells[index].0,
                Cells::Dense(_) | Cells::Resting(_) => index as u8,
            };
            Some((slot, message))
        })
    }

    fn cells_len(&self) -> usize {
        match &self.cells {
            Cells::Dense(cells) => cells.len(),
            Cells::Packed(cells) => cells.len(),
            Cells::Resting(cells) => cells.len(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match &self.cells {
            Cells::Dense(cells) => cells.capacity() * size_of::<Cell<C>>(),
            Cells::Packed(cells) => cells.capacity() * size_of::<(u8, EntryId, Message<C>)>(),
            Cells::Resting(cells) => cells.memory_bytes(),
        }
    }
}
