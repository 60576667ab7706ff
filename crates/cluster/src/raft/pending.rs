//! A batch on its way: who proposed it, until the entry is applied or refused.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;

use super::group::Shared;
use crate::group::NodeId;
use crate::links::Kind;
use crate::machine::{Abandoned, SnapshotMachine};

/// Who wants to know.
pub(super) enum Source<C> {
    /// Somebody on this node.
    Here { payload: Bytes, contexts: Vec<C> },
    /// Another node, which calls the batch by this number.
    Node { node: NodeId, number: u64 },
}

/// Ends exactly once: applied, refused, or dropped with the group.
pub(super) struct Pending<M: SnapshotMachine> {
    group: Weak<Shared<M>>,
    source: Mutex<Option<Source<M::Context>>>,
}

impl<M: SnapshotMachine> Pending<M> {
    pub(super) fn new(group: Weak<Shared<M>>, source: Source<M::Context>) -> Self {
        Self {
            group,
            source: Mutex::new(Some(source)),
        }
    }

    /// Takes the source: whoever has it brings the proposal to its end.
    pub(super) fn take(&self) -> Option<Source<M::Context>> {
        self.source.lock().take()
    }
}

impl<M: SnapshotMachine> Drop for Pending<M> {
    /// The entry left the log, or never came into it.
    fn drop(&mut self) {
        if let (Some(group), Some(source)) = (self.group.upgrade(), self.take()) {
            group.refuse(source, Abandoned::LeadershipLost);
        }
    }
}

/// What a node is told about a batch that it asked the leader to propose.
///
/// ```text
/// outcome = 0                  refused
///         | 1 · answer         committed
///         | 2                  not taken: another member is about to lead
/// ```
pub(super) enum Outcome {
    Refused,
    Committed(Bytes),
    NotTaken,
}

impl Outcome {
    fn write(&self) -> Vec<u8> {
        match self {
            Self::Refused => vec![0],
            Self::Committed(answer) => {
                let mut out = Vec::with_capacity(1 + answer.len());
                out.push(1);
                out.extend_from_slice(answer);
                out
            }
            Self::NotTaken => vec![2],
        }
    }

    pub(super) fn read(body: &Bytes) -> Self {
        match body.first() {
            Some(1) => Self::Committed(body.slice(1..)),
            Some(2) => Self::NotTaken,
            _ => Self::Refused,
        }
    }
}

impl<M: SnapshotMachine> Shared<M> {
    /// A proposal came to nothing.
    pub(super) fn refuse(&self, source: Source<M::Context>, why: Abandoned) {
        match source {
            Source::Here { payload, contexts } => {
                self.in_flight.fetch_sub(1, Ordering::AcqRel);
                self.machine.abandon(payload, contexts, why);
                self.tell_observer();
            }
            Source::Node { node, number } => self.tell(node, number, &Outcome::Refused),
        }
    }

    /// Tells another node what became of its batch.
    pub(super) fn tell(&self, node: NodeId, number: u64, outcome: &Outcome) {
        let body = outcome.write();
        self.links
            .send(node, Kind::Outcome, self.stream, number, &body);
    }
}
