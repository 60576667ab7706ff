//! The metadata of the node: one value, changed by committed entries of the metadata group only.
//!
//! A change is proposed as bytes, applied when it is durable, and its outcome goes back to whoever
//! asked. Readers take a short lock and never hold it across an await.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use broker_core::Refusal;
use broker_core::metadata::{Metadata, MetadataChange, Outcome};
use cluster::{Abandoned, CommittedEntry, Staging, StateMachine};
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::durability::METADATA_STREAM;
use crate::error::OpenError;
use crate::files::METADATA_STORE;
use crate::node::Node;

/// Who waits for a change.
pub(crate) type Waiting = oneshot::Sender<Result<Outcome, Refusal>>;

pub(crate) struct MetadataStore {
    state: RwLock<State>,
    /// Copy of `Metadata::version`, so that caches can be checked without the lock.
    version: AtomicU64,
    staging: OnceLock<Arc<Staging<Waiting>>>,
}

struct State {
    metadata: Metadata,
    /// Index of the last entry that is in `metadata`.
    applied: u64,
}

/// The stored form of the whole. Grows by fields with defaults.
#[derive(Serialize)]
struct SnapshotRef<'a> {
    format: u32,
    applied: u64,
    metadata: &'a Metadata,
}

#[derive(Deserialize)]
struct Snapshot {
    format: u32,
    applied: u64,
    metadata: Metadata,
}

const SNAPSHOT_FORMAT: u32 = 1;

impl MetadataStore {
    pub(crate) fn new(metadata: Metadata) -> Self {
        let version = AtomicU64::new(metadata.version());
        Self {
            state: RwLock::new(State {
                metadata,
                applied: 0,
            }),
            version,
            staging: OnceLock::new(),
        }
    }

    /// Goes on from a checkpoint.
    pub(crate) fn restore(&self, blob: &[u8]) -> Result<(), OpenError> {
        let snapshot: Snapshot = serde_json::from_slice(blob).map_err(OpenError::metadata)?;
        if snapshot.format != SNAPSHOT_FORMAT {
            return Err(OpenError::MetadataFormat {
                found: snapshot.format,
            });
        }
        let mut state = self.state.write();
        state.metadata = snapshot.metadata;
        state.applied = snapshot.applied;
        self.version
            .store(state.metadata.version(), Ordering::Release);
        Ok(())
    }

    pub(crate) fn open(&self, staging: Arc<Staging<Waiting>>) {
        let opened = self.staging.set(staging);
        debug_assert!(opened.is_ok(), "the metadata group is opened once");
    }

    pub(crate) fn read(&self) -> MappedRwLockReadGuard<'_, Metadata> {
        RwLockReadGuard::map(self.state.read(), |state| &state.metadata)
    }

    /// Changes whenever the metadata does.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Proposes a change; the answer comes when it is durable and applied.
    pub(crate) fn propose(
        &self,
        change: &MetadataChange,
    ) -> oneshot::Receiver<Result<Outcome, Refusal>> {
        let (answer, receiver) = oneshot::channel();
        let Some(staging) = self.staging.get() else {
            return receiver;
        };
        match serde_json::to_vec(change) {
            Ok(bytes) => staging.stage(true, Some(answer), |batch| {
                batch.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                batch.extend_from_slice(&bytes);
            }),
            Err(error) => tracing::error!(%error, "a change of the metadata cannot be written"),
        }
        receiver
    }

    /// Applies one entry: each change of the batch, with its outcome.
    pub(crate) fn apply_entry(
        &self,
        index: u64,
        payload: &[u8],
        mut each: impl FnMut(&MetadataChange, Result<Outcome, Refusal>),
    ) {
        let mut rest = payload;
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let Some((bytes, after)) = after.split_at_checked(u32::from_le_bytes(*len) as usize)
            else {
                tracing::error!(index, "a change of the metadata is cut short");
                return;
            };
            rest = after;
            match serde_json::from_slice::<MetadataChange>(bytes) {
                Ok(change) => {
                    let outcome = self.apply_change(index, &change);
                    each(&change, outcome);
                }
                Err(error) => {
                    tracing::error!(index, %error, "a change of the metadata cannot be read");
                    each(
                        &MetadataChange::DropTransient { node: None },
                        Ok(Outcome::default()),
                    );
                }
            }
        }
    }

    fn apply_change(&self, index: u64, change: &MetadataChange) -> Result<Outcome, Refusal> {
        let mut state = self.state.write();
        let outcome = state.metadata.apply(change);
        state.applied = state.applied.max(index);
        self.version
            .store(state.metadata.version(), Ordering::Release);
        outcome
    }

    /// Whether the entry is in the checkpoint already.
    pub(crate) fn covers(&self, index: u64) -> bool {
        index <= self.state.read().applied
    }

    pub(crate) fn checkpoint(&self, out: &mut Vec<u8>) -> Option<u64> {
        let state = self.state.read();
        let snapshot = SnapshotRef {
            format: SNAPSHOT_FORMAT,
            applied: state.applied,
            metadata: &state.metadata,
        };
        match serde_json::to_writer(out, &snapshot) {
            Ok(()) => Some(state.applied),
            Err(error) => {
                tracing::error!(%error, "the metadata cannot be written");
                None
            }
        }
    }
}

/// The machine of the metadata group.
pub(crate) struct MetadataMachine {
    node: Weak<Node>,
}

impl MetadataMachine {
    pub(crate) fn new(node: Weak<Node>) -> Self {
        Self { node }
    }
}

impl StateMachine for MetadataMachine {
    type Context = Waiting;

    fn apply(&self, entry: CommittedEntry, waiting: Vec<Waiting>) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        node.files
            .note_store(entry.at, METADATA_STREAM, entry.index, METADATA_STORE);
        let mut waiting = waiting.into_iter();
        node.metadata
            .apply_entry(entry.index, &entry.payload, |_, outcome| {
                if let Ok(outcome) = &outcome {
                    node.on_events(&outcome.events);
                }
                if let Some(answer) = waiting.next() {
                    // Whoever asked may have hung up.
                    let _ = answer.send(outcome);
                }
            });
    }

    fn abandon(&self, waiting: Vec<Waiting>, why: Abandoned) {
        tracing::warn!(
            changes = waiting.len(),
            ?why,
            "changes of the metadata are abandoned"
        );
    }
}
