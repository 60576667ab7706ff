//! A full chunk of messages that wait and that nothing has happened to: what they share is kept once,
//! and each keeps only its id, its size and its handle put down.

use std::borrow::Cow;

use super::super::entry::EntryId;
use super::super::handle::Handle;
use super::super::message::{Message, State};
use super::chunk::Cell;
use crate::time::Timestamp;

#[derive(Debug)]
struct Rest<R> {
    id: EntryId,
    handle: R,
    bytes: u32,
}

/// The messages of a full chunk, by slot.
#[derive(Debug)]
pub(super) struct Resting<C: Handle> {
    cells: Box<[Rest<C::AtRest>]>,
    level: u8,
    persistent: bool,
    /// When each of them expires, if any does.
    expire_at: Option<Box<[Option<Timestamp>]>>,
}

impl<C: Handle> Resting<C> {
    /// Puts a chunk's messages down; none when one of them is gone, or not like the first.
    pub(super) fn of(cells: &[Cell<C>]) -> Option<Self> {
        let first = cells.first()?.message.as_ref()?;
        let mut resting = Vec::with_capacity(cells.len());
        let mut expires = false;
        for cell in cells {
            let message = cell.message.as_ref()?;
            let is_plain = message.state == State::Ready
                && message.delivery_count == 0
                && message.acquired_count == 0
                && message.level == first.level
                && message.persistent == first.persistent;
            if !is_plain {
                return None;
            }
            expires |= message.expires_at().is_some();
            resting.push(Rest {
                id: cell.id,
                handle: message.content.at_rest()?,
                bytes: message.bytes,
            });
        }
        let expiries = || cells.iter().map(|cell| cell.message.as_ref()?.expires_at());
        Some(Self {
            cells: resting.into_boxed_slice(),
            level: first.level,
            persistent: first.persistent,
            expire_at: expires.then(|| expiries().collect()),
        })
    }

    /// Takes all messages up again.
    pub(super) fn into_cells(self) -> Vec<Cell<C>> {
        let cells = (0..self.cells.len()).filter_map(|slot| {
            let (id, message) = self.at(slot)?;
            let message = Some(message.into_owned());
            Some(Cell { id, message })
        });
        cells.collect()
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn id_at(&self, slot: usize) -> Option<EntryId> {
        self.cells.get(slot).map(|rest| rest.id)
    }

    pub(super) fn slot_of(&self, id: EntryId) -> Option<usize> {
        self.cells.binary_search_by_key(&id, |rest| rest.id).ok()
    }

    pub(super) fn at(&self, slot: usize) -> Option<(EntryId, Cow<'_, Message<C>>)> {
        let rest = self.cells.get(slot)?;
        let expires_at = self.expire_at.as_ref().and_then(|all| all[slot]);
        let content = C::taken_up(rest.handle);
        let mut message = Message::new(content, rest.bytes, self.level, expires_at);
        message.persistent = self.persistent;
        Some((rest.id, Cow::Owned(message)))
    }

    /// Replaces what a handle was put down to, and answers that.
    pub(super) fn replace(&mut self, slot: usize, handle: C::AtRest) -> Option<C::AtRest> {
        let rest = self.cells.get_mut(slot)?;
        Some(std::mem::replace(&mut rest.handle, handle))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let expiries = self.expire_at.as_ref().map_or(0, |all| all.len());
        size_of_val(&self.cells[..]) + expiries * size_of::<Option<Timestamp>>()
    }
}
