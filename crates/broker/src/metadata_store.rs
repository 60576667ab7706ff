//! The metadata of the node: one value, changed by committed entries of the metadata group only.
//!
//! A change is proposed as bytes, applied when it is durable, and its outcome goes back to whoever
//! asked. Readers take a short lock and never hold it across an await.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use broker_core::Refusal;
use broker_core::metadata::{Metadata, MetadataChange, Outcome};
use bytes::Bytes;
use cluster::{Abandoned, CommittedEntry, Staging, StateMachine};
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::bounds::METADATA_MS_MAX;
use crate::durability::METADATA_STREAM;
use crate::error::OpenError;
use crate::files::METADATA_STORE;
use crate::node::Node;

/// Whoever asked for a change and waits for its outcome.
type Answer = oneshot::Sender<Result<Outcome, Refusal>>;

/// Who waits for a change.
pub(crate) enum Waiting {
    /// Told when the entry is applied as this node's own.
    Here(Answer),
    /// Told when this node applies the change with this number, whoever proposed it.
    Ticket(u64),
}

/// A change that this node asked the cluster for.
struct Asked {
    answer: Answer,
    /// The leader did not take it; it may be asked again.
    refused: Arc<Notify>,
}

/// Set in the length of a change that says which node asked for it.
///
/// ```text
/// entry  = change*
/// change = length u32 · JSON
///        | length u32 with the highest bit · node u64 · ticket u64 · JSON
/// ```
const ASKED: u32 = 1 << 31;

/// How soon a change that nobody took is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

pub(crate) struct MetadataStore {
    state: RwLock<State>,
    /// Copy of `Metadata::version`, so that caches can be checked without the lock.
    version: AtomicU64,
    staging: OnceLock<Arc<Staging<Waiting>>>,
    /// This node's number, if there are others.
    asker: Option<u64>,
    asked: Mutex<HashMap<u64, Asked>>,
    node: Weak<Node>,
    runtime: Option<Handle>,
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
    pub(crate) fn new(metadata: Metadata, node: Weak<Node>, asker: Option<u64>) -> Self {
        let version = AtomicU64::new(metadata.version());
        Self {
            state: RwLock::new(State {
                metadata,
                applied: 0,
            }),
            version,
            staging: OnceLock::new(),
            asker,
            asked: Mutex::default(),
            node,
            runtime: Handle::try_current().ok(),
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
            Ok(bytes) if self.asker.is_some() => self.ask(staging, bytes, answer),
            Ok(bytes) => staging.stage(true, Some(Waiting::Here(answer)), |batch| {
                batch.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                batch.extend_from_slice(&bytes);
            }),
            Err(error) => tracing::error!(%error, "a change of the metadata cannot be written"),
        }
        receiver
    }

    /// Asks the cluster for a change, again and again until this node applies it.
    fn ask(&self, staging: &Arc<Staging<Waiting>>, change: Vec<u8>, answer: Answer) {
        let ticket = rand::random();
        let refused = Arc::new(Notify::new());
        let asked = Asked {
            answer,
            refused: refused.clone(),
        };
        self.asked.lock().insert(ticket, asked);
        let staging = staging.clone();
        let asker = self.asker.unwrap_or_default();
        let Some(runtime) = &self.runtime else {
            return;
        };
        let me = self.node.clone();
        runtime.spawn(async move {
            let end = Instant::now() + Duration::from_millis(METADATA_MS_MAX);
            loop {
                stage_asked(&staging, asker, ticket, &change);
                let waited = tokio::time::timeout_at(end, refused.notified()).await;
                let Some(node) = me.upgrade() else { return };
                let open = node.metadata.asked.lock().contains_key(&ticket);
                if !open {
                    return;
                }
                if waited.is_err() {
                    node.metadata.give_up(ticket);
                    return;
                }
                drop(node);
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
        });
    }

    fn give_up(&self, ticket: u64) {
        if let Some(asked) = self.asked.lock().remove(&ticket) {
            let what = "a majority of the cluster's nodes cannot be reached: nothing is changed";
            // Whoever asked may have hung up.
            let _ = asked
                .answer
                .send(Err(Refusal::Broken { what: what.into() }));
        }
    }

    /// The leader did not take these changes.
    fn refused(&self, tickets: impl Iterator<Item = u64>) {
        let asked = self.asked.lock();
        for ticket in tickets {
            if let Some(asked) = asked.get(&ticket) {
                asked.refused.notify_one();
            }
        }
    }

    /// Takes whoever waits for a change that this node asked for.
    fn take_asked(&self, node: u64, ticket: u64) -> Option<Answer> {
        if self.asker != Some(node) {
            return None;
        }
        let asked = self.asked.lock().remove(&ticket)?;
        asked.refused.notify_one();
        Some(asked.answer)
    }

    /// Applies one entry: each change of the batch, with its outcome.
    pub(crate) fn apply_entry(
        &self,
        index: u64,
        payload: &[u8],
        mut each: impl FnMut(&MetadataChange, Result<Outcome, Refusal>, Option<Answer>),
    ) {
        let mut rest = payload;
        while let Some((written, bytes, after)) = next_change(rest) {
            rest = after;
            let asked = written.and_then(|(node, ticket)| self.take_asked(node, ticket));
            match serde_json::from_slice::<MetadataChange>(bytes) {
                Ok(change) => {
                    let outcome = self.apply_change(index, &change);
                    each(&change, outcome, asked);
                }
                Err(error) => {
                    tracing::error!(index, %error, "a change of the metadata cannot be read");
                    each(
                        &MetadataChange::DropTransient { node: None },
                        Ok(Outcome::default()),
                        asked,
                    );
                }
            }
        }
        if !rest.is_empty() {
            tracing::error!(index, "a change of the metadata is cut short");
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

/// Who asked for a change, and its ticket.
type Asker = (u64, u64);

/// The next change of an entry, and what follows it.
fn next_change(entry: &[u8]) -> Option<(Option<Asker>, &[u8], &[u8])> {
    let (len, mut rest) = entry.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len);
    let mut asker = None;
    if len & ASKED != 0 {
        let (node, after) = rest.split_first_chunk::<8>()?;
        let (ticket, after) = after.split_first_chunk::<8>()?;
        asker = Some((u64::from_le_bytes(*node), u64::from_le_bytes(*ticket)));
        rest = after;
    }
    let (bytes, rest) = rest.split_at_checked((len & !ASKED) as usize)?;
    Some((asker, bytes, rest))
}

fn stage_asked(staging: &Staging<Waiting>, node: u64, ticket: u64, change: &[u8]) {
    staging.stage(true, Some(Waiting::Ticket(ticket)), |batch| {
        batch.extend_from_slice(&(change.len() as u32 | ASKED).to_le_bytes());
        batch.extend_from_slice(&node.to_le_bytes());
        batch.extend_from_slice(&ticket.to_le_bytes());
        batch.extend_from_slice(change);
    });
}

/// The machine of the metadata group.
pub(crate) struct MetadataMachine {
    node: Weak<Node>,
}

impl MetadataMachine {
    pub(crate) fn new(node: Weak<Node>) -> Self {
        Self { node }
    }

    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        self.node.upgrade()
    }
}

impl StateMachine for MetadataMachine {
    type Context = Waiting;

    fn apply(&self, entry: CommittedEntry, waiting: Vec<Waiting>) -> Bytes {
        let Some(node) = self.node.upgrade() else {
            return Bytes::new();
        };
        node.files
            .note_store(entry.at, METADATA_STREAM, entry.index, METADATA_STORE);
        // The checkpoint may be ahead of the log that is applied again.
        if node.replication.is_some() && node.metadata.covers(entry.index) {
            return Bytes::new();
        }
        let mut waiting = waiting.into_iter();
        node.metadata
            .apply_entry(entry.index, &entry.payload, |_, outcome, asked| {
                if let Ok(outcome) = &outcome {
                    node.on_events(&outcome.events);
                }
                let here = match waiting.next() {
                    Some(Waiting::Here(answer)) => Some(answer),
                    _ => None,
                };
                if let Some(answer) = asked.or(here) {
                    // Whoever asked may have hung up.
                    let _ = answer.send(outcome);
                }
            });
        Bytes::new()
    }

    fn abandon(&self, _payload: Bytes, waiting: Vec<Waiting>, why: Abandoned) {
        tracing::warn!(
            changes = waiting.len(),
            ?why,
            "changes of the metadata are abandoned"
        );
        if let Some(node) = self.node.upgrade() {
            let tickets = waiting.iter().filter_map(|waiting| match waiting {
                Waiting::Ticket(ticket) => Some(*ticket),
                Waiting::Here(_) => None,
            });
            node.metadata.refused(tickets);
        }
    }
}
