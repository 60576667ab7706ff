//! A machine as openraft sees it: entries applied in order, snapshots, and who leads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, RaftSnapshotBuilder, Snapshot, StorageIOError};
use tokio::time::Instant;

use super::group::Shared;
use super::pending::{Outcome, Pending, Source};
use super::types::{
    Chunks, Command, Entry, LogId, SnapshotMeta, SnapshotSource, StorageError, StoredMembership,
    TypeConfig,
};
use crate::group::NodeId;
use crate::machine::{CommittedEntry, SnapshotMachine};

/// How long an entry that is committed waits for this node's disk. A disk that fails stops the node.
const OWN_DISK_TIME_MAX: Duration = Duration::from_secs(30);
const OWN_DISK_LOOK: Duration = Duration::from_millis(1);

/// What was applied, for openraft.
pub(super) struct Adapter<M: SnapshotMachine> {
    shared: Arc<Shared<M>>,
    applied: Option<LogId>,
    membership: StoredMembership,
}

impl<M: SnapshotMachine> Clone for Adapter<M> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            applied: self.applied,
            membership: self.membership.clone(),
        }
    }
}

/// What this node is, as the machine was told last.
#[derive(Debug, Default)]
pub(super) struct Standing {
    pub(super) leading: bool,
    /// The last term of this node's own whose first entry was applied.
    pub(super) own_term: u64,
}

impl<M: SnapshotMachine> Shared<M> {
    /// Compares what the machine believes with what the consensus says. The machine leads once an entry
    /// of the term that this node leads is applied: then everything before it is. A leader that
    /// lost its majority decides nothing, for another one may.
    pub(super) fn settle_standing(&self, standing: &mut Standing) {
        let leads = self.leading_term() == Some(standing.own_term) && self.has_lease();
        if leads == standing.leading {
            return;
        }
        standing.leading = leads;
        self.leading.store(leads, Ordering::Release);
        match leads {
            true => self.machine.lead(),
            false => self.machine.follow(),
        }
    }
}

impl<M: SnapshotMachine> Adapter<M> {
    pub(super) fn new(
        shared: Arc<Shared<M>>,
        covered: Option<LogId>,
        membership: StoredMembership,
    ) -> Self {
        Self {
            shared,
            applied: covered,
            membership,
        }
    }

    fn apply_entry(&mut self, entry: Entry) {
        let log_id = entry.log_id;
        let shared = Arc::clone(&self.shared);
        let mut standing = shared.standing.lock();
        if NodeId(log_id.leader_id.node_id) == shared.links.node() {
            standing.own_term = log_id.leader_id.term;
        }
        shared.settle_standing(&mut standing);
        let mut source = None;
        match entry.payload {
            EntryPayload::Normal(command) => {
                source = take_source::<M>(&command);
                self.apply_batch(log_id, command, &standing, &mut source);
            }
            EntryPayload::Blank => {}
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(log_id), membership);
            }
        }
        drop(standing);
        self.applied = Some(log_id);
        shared
            .applied_index
            .store(log_id.index + 1, Ordering::Release);
        shared.log.applied(log_id.index + 1);
        if let Some(Source::Here { .. }) = source {
            shared.in_flight.fetch_sub(1, Ordering::AcqRel);
            shared.tell_observer();
        }
    }

    /// A majority may have an entry before this node's own disk has it. The machine must know where
    /// it lies: what is not on disk needs no end in the log either.
    async fn on_own_disk(&self, index: u64) {
        let end = Instant::now() + OWN_DISK_TIME_MAX;
        while self.shared.log.position(index).is_none() && Instant::now() < end {
            tokio::time::sleep(OWN_DISK_LOOK).await;
        }
    }

    fn apply_batch(
        &self,
        log_id: LogId,
        command: Command,
        standing: &Standing,
        source: &mut Option<Source<M::Context>>,
    ) {
        let contexts = match source {
            Some(Source::Here { contexts, .. }) => std::mem::take(contexts),
            _ => Vec::new(),
        };
        let entry = CommittedEntry {
            index: log_id.index + 1,
            payload: command.payload,
            at: self.shared.log.position(log_id.index),
            leading: standing.leading && log_id.leader_id.term == standing.own_term,
        };
        let answer = self.shared.machine.apply(entry, contexts);
        if let Some(Source::Node { node, number }) = source {
            let outcome = Outcome::Committed(answer);
            self.shared.tell(*node, *number, &outcome);
        }
    }

    fn meta(&self, last_log_id: Option<LogId>, last_membership: StoredMembership) -> SnapshotMeta {
        let snapshot_id = last_log_id.map_or_else(String::new, |last| last.to_string());
        SnapshotMeta {
            last_log_id,
            last_membership,
            snapshot_id,
        }
    }
}

fn take_source<M: SnapshotMachine>(command: &Command) -> Option<Source<M::Context>> {
    let proposal = command.proposal.as_deref()?;
    proposal.downcast_ref::<Pending<M>>()?.take()
}

impl<M: SnapshotMachine> SnapshotSource for Shared<M> {
    fn read(&self, chunk: &mut dyn FnMut(Bytes) -> bool) -> Result<u64, String> {
        self.machine
            .snapshot(chunk)
            .map_err(|error| error.to_string())
    }
}

impl<M: SnapshotMachine> RaftSnapshotBuilder<TypeConfig> for Adapter<M> {
    /// Copies nothing: what the machine's own checkpoints cover needs no log any more. A member that
    /// lags gets the state as it is then.
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, StorageError> {
        let covered = self.shared.covered.load(Ordering::Acquire);
        let (last_log_id, membership) = self.shared.log.covered(covered);
        Ok(Snapshot {
            meta: self.meta(last_log_id, membership),
            snapshot: Box::new(Chunks::Live(self.shared.clone())),
        })
    }
}

impl<M: SnapshotMachine> RaftStateMachine<TypeConfig> for Adapter<M> {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let mut answers = Vec::new();
        for entry in entries {
            let is_batch = matches!(entry.payload, EntryPayload::Normal(_));
            if is_batch {
                self.on_own_disk(entry.log_id.index).await;
            }
            self.apply_entry(entry);
            answers.push(());
        }
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Chunks>, StorageError> {
        Ok(Box::new(Chunks::Received(Vec::new())))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Chunks>,
    ) -> Result<(), StorageError> {
        let fault = |why: String| {
            let error = std::io::Error::other(why);
            StorageError::from(StorageIOError::write_snapshot(None, &error))
        };
        let (Some(log_id), Chunks::Received(chunks)) = (meta.last_log_id, *snapshot) else {
            return Err(fault("a snapshot arrived without its state".to_owned()));
        };
        let shared = Arc::clone(&self.shared);
        let index = log_id.index + 1;
        let installing = tokio::task::spawn_blocking(move || {
            shared.machine.install(index, &mut chunks.into_iter())
        });
        let installed = installing.await.map_err(|error| fault(error.to_string()))?;
        installed.map_err(|error| fault(error.to_string()))?;
        let membership = meta.last_membership.clone();
        self.shared
            .log
            .installed(log_id, membership.clone())
            .await?;
        self.applied = Some(log_id);
        self.membership = membership;
        self.shared.applied_index.store(index, Ordering::Release);
        self.shared.log.applied(index);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, StorageError> {
        if self.applied.is_none() {
            return Ok(None);
        }
        Ok(Some(Snapshot {
            meta: self.meta(self.applied, self.membership.clone()),
            snapshot: Box::new(Chunks::Live(self.shared.clone())),
        }))
    }
}
