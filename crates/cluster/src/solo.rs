//! The group of one: an entry is committed when this node's journal has it.
//!
//! Knows one stream of the journal and one machine. Everything a replicated group does is done here too,
//! but for talking to others: the same order, the same batches, the same refusals.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::{fmt, mem};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use storage::{AppendError, Journal, Position, StreamId};

use crate::commit::{CommitShards, Door, Tag};
use crate::group::{
    AppliedObserver, Batch, GroupStatus, MemberChange, MemberError, NodeId, ProposeError,
    ReplicaGroup, Role,
};
use crate::machine::{Abandoned, CommittedEntry, StateMachine};

/// A replica group whose only member is this node.
pub struct SoloGroup<M: StateMachine> {
    node: NodeId,
    stream: StreamId,
    machine: Arc<M>,
    journal: Journal<Tag>,
    shard: usize,
    log: Mutex<Log<M::Context>>,
    in_flight: AtomicUsize,
    applied_index: AtomicU64,
    observer: RwLock<Option<Weak<dyn AppliedObserver>>>,
    this: Weak<Self>,
}

/// The end of the log: entries that are not applied yet. Bounded by the proposer (see `Staging`).
struct Log<C> {
    last_index: u64,
    entries: VecDeque<Entry<C>>,
    stopped: Option<Arc<str>>,
}

struct Entry<C> {
    index: u64,
    payload: Bytes,
    contexts: Vec<C>,
}

impl<M: StateMachine> fmt::Debug for SoloGroup<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoloGroup")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl<M: StateMachine> SoloGroup<M> {
    /// Continues the stream after its last index. The machine must have been brought there from
    /// checkpoints and replay. To be done before the owner is attached to storage.
    pub fn open(
        node: NodeId,
        stream: StreamId,
        machine: Arc<M>,
        journal: Journal<Tag>,
        commits: &CommitShards,
    ) -> Arc<Self> {
        let last_index = journal.last_index(stream);
        let log = Log {
            last_index,
            entries: VecDeque::new(),
            stopped: None,
        };
        let group = Arc::new_cyclic(|this: &Weak<Self>| Self {
            node,
            stream,
            machine,
            journal,
            shard: commits.shard_of(stream),
            log: Mutex::new(log),
            in_flight: AtomicUsize::new(0),
            applied_index: AtomicU64::new(last_index),
            observer: RwLock::new(None),
            this: Weak::clone(this),
        });
        let door: Weak<Self> = Arc::downgrade(&group);
        commits.register(stream, door);
        group
    }

    /// The machine of the group.
    pub fn machine(&self) -> &Arc<M> {
        &self.machine
    }

    fn tag(&self) -> Option<Tag> {
        let door = self.this.upgrade()?;
        Some(Tag {
            door,
            shard: self.shard,
        })
    }

    fn append(&self, index: u64, batch: &Batch<M::Context>) -> Result<(), AppendError> {
        let tag = self.tag().ok_or(AppendError::Closed)?;
        if batch.logged {
            return self
                .journal
                .append(self.stream, index, batch.payload.clone(), tag);
        }
        self.journal.append_marker(self.stream, index, tag)
    }

    fn tell_observer(&self, index: u64) {
        let observer = self.observer.read().as_ref().and_then(Weak::upgrade);
        if let Some(observer) = observer {
            observer.applied(index);
        }
    }
}

impl<M: StateMachine> ReplicaGroup<M::Context> for SoloGroup<M> {
    fn propose(&self, batch: Batch<M::Context>) -> Result<u64, ProposeError<M::Context>> {
        let mut log = self.log.lock();
        if let Some(why) = log.stopped.clone() {
            return Err(ProposeError::Stopped { why, batch });
        }
        let index = log.last_index + 1;
        // Under the lock, so that the journal sees the entries in the order of their indexes.
        if let Err(error) = self.append(index, &batch) {
            return Err(refusal(error, batch));
        }
        log.last_index = index;
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        let Batch {
            payload, contexts, ..
        } = batch;
        log.entries.push_back(Entry {
            index,
            payload,
            contexts,
        });
        Ok(index)
    }

    fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    fn has_room(&self) -> bool {
        self.journal.has_room()
    }

    fn status(&self) -> GroupStatus {
        GroupStatus {
            role: Role::Leader,
            leader: Some(self.node),
            term: 0,
            votes: true,
            members: vec![self.node],
            last_index: self.log.lock().last_index,
            applied_index: self.applied_index(),
        }
    }

    fn change_members(&self, change: MemberChange) -> Result<(), MemberError> {
        Err(match change {
            MemberChange::Add(node) if node == self.node => MemberError::AlreadyMember(node),
            MemberChange::Add(node) => MemberError::NotReplicated(node),
            MemberChange::Remove(node) if node == self.node => MemberError::LastMember(node),
            MemberChange::Remove(node) => MemberError::NotAMember(node),
        })
    }

    fn transfer_leader(&self, to: NodeId) -> Result<(), MemberError> {
        if to == self.node {
            return Ok(());
        }
        Err(MemberError::NotAMember(to))
    }

    fn observe(&self, observer: Weak<dyn AppliedObserver>) {
        *self.observer.write() = Some(observer);
    }
}

impl<M: StateMachine> Door for SoloGroup<M> {
    fn committed(&self, index: u64, at: Option<Position>) {
        let Some(entry) = self.log.lock().entries.pop_front() else {
            tracing::error!(stream = %self.stream, index, "an entry came back that is not in flight");
            return;
        };
        // The journal reports in the order of appending, and appends follow the indexes.
        assert_eq!(
            entry.index, index,
            "entries of stream {} out of order",
            self.stream
        );
        // Nobody else proposes to a group of one.
        let _ = self.machine.apply(
            CommittedEntry {
                index,
                payload: entry.payload,
                at,
                leading: true,
            },
            entry.contexts,
        );
        self.applied_index.store(index, Ordering::Release);
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.tell_observer(index);
    }

    fn stop(&self, why: &Arc<str>) {
        self.log
            .lock()
            .stopped
            .get_or_insert_with(|| Arc::clone(why));
    }

    fn abandon(&self, why: Abandoned) {
        let mut log = self.log.lock();
        log.stopped
            .get_or_insert_with(|| "the journal failed".into());
        let entries = mem::take(&mut log.entries);
        let last_index = log.last_index;
        drop(log);
        self.in_flight.fetch_sub(entries.len(), Ordering::AcqRel);
        for entry in entries {
            self.machine
                .abandon(entry.payload, entry.contexts, why.clone());
        }
        self.tell_observer(last_index);
    }

    fn applied_index(&self) -> u64 {
        self.applied_index.load(Ordering::Acquire)
    }
}

fn refusal<C>(error: AppendError, batch: Batch<C>) -> ProposeError<C> {
    match error {
        AppendError::TooLarge { bytes, bytes_max } => ProposeError::TooLarge {
            bytes,
            bytes_max,
            batch,
        },
        stopped => ProposeError::Stopped {
            why: stopped.to_string().into(),
            batch,
        },
    }
}
