//! The machine that is replicated here: it keeps every entry.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cluster::{Abandoned, CommittedEntry, SnapshotMachine, StateMachine};
use parking_lot::Mutex;

use crate::disk::Life;
use crate::oracle::{Oracle, ticket_of};

/// A proposal's number.
pub(crate) type Ticket = u64;

pub(crate) struct ListMachine {
    entries: Mutex<Vec<(u64, Bytes)>>,
    /// Proposals that were on the disk when this life of the node began.
    before: BTreeSet<Ticket>,
    life: Life,
    oracle: Arc<Oracle>,
}

impl ListMachine {
    /// The machine as its node's disk has it.
    pub(crate) fn new(life: Life, oracle: Arc<Oracle>) -> Self {
        let entries = life
            .platter()
            .map_or_else(Vec::new, |platter| platter.checkpoint.clone());
        let before = life.platter().map_or_else(BTreeSet::new, |platter| {
            let records = platter.records.iter();
            records
                .filter(|record| record.stream.0 >> 30 == 0)
                .filter_map(|record| ticket_of(&record.payload))
                .collect()
        });
        Self {
            entries: Mutex::new(entries),
            before,
            life,
            oracle,
        }
    }

    pub(crate) fn entries(&self) -> Vec<(u64, Bytes)> {
        self.entries.lock().clone()
    }
}

impl StateMachine for ListMachine {
    type Context = Ticket;

    fn apply(&self, entry: CommittedEntry, tickets: Vec<Ticket>) -> Bytes {
        self.oracle.applied(entry.index, &entry.payload);
        let is_old = ticket_of(&entry.payload).is_some_and(|own| self.before.contains(&own));
        if entry.leading && is_old {
            self.oracle.led_before(entry.index);
        }
        let mut entries = self.entries.lock();
        // A snapshot may be ahead of the entry at which it is said to be.
        if entries.last().is_none_or(|(last, _)| *last < entry.index) {
            entries.push((entry.index, entry.payload));
        }
        drop(entries);
        for ticket in tickets {
            self.oracle.confirmed(ticket);
        }
        Bytes::new()
    }

    fn abandon(&self, _payload: Bytes, _tickets: Vec<Ticket>, _why: Abandoned) {}

    fn answered(&self, _payload: Bytes, tickets: Vec<Ticket>, _answer: Bytes) {
        for ticket in tickets {
            self.oracle.confirmed(ticket);
        }
    }
}

impl SnapshotMachine for ListMachine {
    type Error = Infallible;

    fn snapshot(&self, chunk: &mut dyn FnMut(Bytes) -> bool) -> Result<u64, Infallible> {
        let entries = self.entries.lock().clone();
        for some in entries.chunks(3) {
            let mut bytes = BytesMut::new();
            for (index, payload) in some {
                bytes.put_u64(*index);
                bytes.put_u32(payload.len() as u32);
                bytes.put_slice(payload);
            }
            if !chunk(bytes.freeze()) {
                break;
            }
        }
        Ok(entries.last().map_or(0, |(index, _)| *index))
    }

    fn install(
        &self,
        _index: u64,
        chunks: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), Infallible> {
        let mut installed = Vec::new();
        for mut chunk in chunks {
            while chunk.has_remaining() {
                let (index, len) = (chunk.get_u64(), chunk.get_u32());
                installed.push((index, chunk.split_to(len as usize)));
            }
        }
        // What is installed is durable before the log says so.
        if let Some(mut platter) = self.life.platter() {
            platter.install_machine(installed.clone());
        }
        *self.entries.lock() = installed;
        Ok(())
    }
}
