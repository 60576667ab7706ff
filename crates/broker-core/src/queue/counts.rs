//! How much of what is in a queue, kept as it changes.

use super::handle::Handle;
use super::machine::QueueMachine;
use super::message::State;
use crate::time::Timestamp;

/// What a queue holds. All of it is counted as it changes, none is computed on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Messages that wait for consumers, returned ones included.
    pub ready: u64,
    /// Their bytes, as the length limits count them.
    pub ready_bytes: u64,
    /// Messages that are handed out.
    pub unacked: u64,
    /// Their bytes.
    pub unacked_bytes: u64,
    /// Ready messages in the line of returns (quorum queues).
    pub returned: u64,
    /// Returned messages that are held back.
    pub delayed: u64,
    /// Their bytes.
    pub delayed_bytes: u64,
    /// Dead messages that wait for the confirms of their targets.
    pub dead_lettering: u64,
    /// Their bytes.
    pub dead_lettering_bytes: u64,
    /// Consumers, waiting ones included.
    pub consumers: u64,
    /// Whether there ever was one: what auto-delete asks.
    pub had_consumers: bool,
    /// Settlements of deliveries that nobody held: late ones, mostly.
    pub late_settles: u64,
}

impl QueueCounts {
    /// All messages.
    pub fn messages(&self) -> u64 {
        self.ready + self.unacked + self.delayed + self.dead_lettering
    }

    /// All bytes: what `capacity` is compared with.
    pub fn bytes(&self) -> u64 {
        self.ready_bytes + self.unacked_bytes + self.delayed_bytes + self.dead_lettering_bytes
    }
}

/// Messages and bytes in one state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Amount {
    pub(super) fn add(&mut self, bytes: u32) {
        self.messages += 1;
        self.bytes += u64::from(bytes);
    }

    pub(super) fn sub(&mut self, bytes: u32) {
        self.messages -= 1;
        self.bytes -= u64::from(bytes);
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amounts {
    pub(super) ready: Amount,
    pub(super) unacked: Amount,
    pub(super) delayed: Amount,
    pub(super) dead: Amount,
}

impl Amounts {
    pub(super) fn of(&mut self, state: State) -> &mut Amount {
        match state {
            State::Ready | State::Requeued | State::Returned => &mut self.ready,
            State::Held(_) => &mut self.unacked,
            State::Delayed => &mut self.delayed,
            State::Dead(_) => &mut self.dead,
        }
    }
}

impl<C: Handle> QueueMachine<C> {
    /// What the queue holds.
    pub fn counts(&self) -> QueueCounts {
        QueueCounts {
            ready: self.amounts.ready.messages,
            ready_bytes: self.amounts.ready.bytes,
            unacked: self.amounts.unacked.messages,
            unacked_bytes: self.amounts.unacked.bytes,
            returned: self.ready.returned(),
            delayed: self.amounts.delayed.messages,
            delayed_bytes: self.amounts.delayed.bytes,
            dead_lettering: self.amounts.dead.messages,
            dead_lettering_bytes: self.amounts.dead.bytes,
            consumers: self.leases.consumers() as u64,
            had_consumers: self.had_consumers,
            late_settles: self.late_settles,
        }
    }

    /// When the first and the last of the messages that are held back are ready again.
    pub fn delayed_until(&self) -> Option<(Timestamp, Timestamp)> {
        let delayed = self.delayed.as_ref()?;
        Some((delayed.next_due()?, delayed.last_due()?))
    }

    /// Ready messages of each priority that has any, from the highest; returned ones are apart.
    pub fn ready_by_priority(&self) -> impl Iterator<Item = (u8, u64)> {
        self.ready.by_priority()
    }

    /// Bytes of memory that the machine takes, contents not followed. Costs a pass over the
    /// chunks.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.table.memory_bytes()
            + self.ready.memory_bytes()
            + self.holds.memory_bytes()
            + self.leases.memory_bytes()
            + self.pasts.as_ref().map_or(0, |pasts| pasts.memory_bytes())
            + self.expiring.as_ref().map_or(0, |heap| heap.memory_bytes())
    }
}
