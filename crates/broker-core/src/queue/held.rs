//! Who holds which delivery, in order of hand-out.
//!
//! Each lease (a consumer, a cancelled consumer, or the fetches of a channel) has a list of
//! holds, linked through one slab: settling in any order touches neighbours only, and the head
//! is the oldest and so the first to time out. Knows nothing of messages but their place.

use super::table::Place;
use crate::time::Timestamp;

const NONE: u32 = u32::MAX;

/// Slots that an emptied slab keeps.
const KEPT_SLOTS: usize = 16;

/// One delivery that is neither acked nor returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) place: Place,
    pub(super) since: Timestamp,
    pub(super) lease: u32,
    /// Size of the message.
    bytes: u32,
    previous: u32,
    next: u32,
}

impl Hold {
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }
}

/// The ends of a lease's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldList {
    first: u32,
    last: u32,
    len: u32,
    bytes: u64,
}

impl HoldList {
    pub(super) const EMPTY: HoldList = HoldList {
        first: NONE,
        last: NONE,
        len: 0,
        bytes: 0,
    };

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Size of the messages that are held.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

#[derive(Debug)]
pub(super) struct Holds {
    slots: Vec<Hold>,
    free: u32,
    live: usize,
}

impl Holds {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            live: 0,
        }
    }

    /// A live hold.
    pub(super) fn get(&self, at: u32) -> &Hold {
        &self.slots[at as usize]
    }

    /// Appends to the lease's list and answers the hold's number. Times within a list never
    /// decrease, even when the clock does.
    pub(super) fn push(
        &mut self,
        list: &mut HoldList,
        lease: u32,
        (place, bytes): (Place, u32),
        now: Timestamp,
    ) -> u32 {
        let since = match list.last {
            NONE => now,
            last => now.max(self.slots[last as usize].since),
        };
        let hold = Hold {
            place,
            since,
            lease,
            bytes,
            previous: list.last,
            next: NONE,
        };
        let at = self.store(hold);
        match list.last {
            NONE => list.first = at,
            last => self.slots[last as usize].next = at,
        }
        list.last = at;
        list.len += 1;
        list.bytes += u64::from(bytes);
        at
    }

    fn store(&mut self, hold: Hold) -> u32 {
        self.live += 1;
        if self.free == NONE {
            self.slots.push(hold);
            return (self.slots.len() - 1) as u32;
        }
        let at = self.free;
        self.free = self.slots[at as usize].next;
        self.slots[at as usize] = hold;
        at
    }

    /// Takes a hold out of its lease's list.
    pub(super) fn remove(&mut self, list: &mut HoldList, at: u32) {
        let hold = self.slots[at as usize];
        match hold.previous {
            NONE => list.first = hold.next,
            previous => self.slots[previous as usize].next = hold.next,
        }
        match hold.next {
            NONE => list.last = hold.previous,
            next => self.slots[next as usize].previous = hold.previous,
        }
        list.len -= 1;
        list.bytes -= u64::from(hold.bytes);
        self.live -= 1;
        if self.live == 0 {
            self.slots.clear();
            self.slots.shrink_to(KEPT_SLOTS);
            self.free = NONE;
            return;
        }
        self.slots[at as usize].next = self.free;
        self.free = at;
    }

    /// The hold behind this one in its list.
    pub(super) fn next(&self, at: u32) -> Option<u32> {
        let next = self.slots[at as usize].next;
        (next != NONE).then_some(next)
    }

    /// Whether most of the slab is free, so that `repack` pays.
    pub(super) fn is_sparse(&self) -> bool {
        self.slots.len() > KEPT_SLOTS && self.live * 4 < self.slots.len()
    }

    /// Moves the lists together and gives memory back. `moved` learns each hold's new number.
    pub(super) fn repack<'a>(
        &mut self,
        lists: impl Iterator<Item = &'a mut HoldList>,
        mut moved: impl FnMut(Place, u32),
    ) {
        let mut packed = Holds {
            slots: Vec::with_capacity(self.live * 2),
            free: NONE,
            live: 0,
        };
        for list in lists {
            let mut at = list.first();
            *list = HoldList::EMPTY;
            while let Some(old) = at {
                let hold = self.slots[old as usize];
                let new = packed.push(list, hold.lease, (hold.place, hold.bytes), hold.since);
                moved(hold.place, new);
                at = self.next(old);
            }
        }
        *self = packed;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Hold>()
    }
}
