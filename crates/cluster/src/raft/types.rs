//! What openraft is told about our entries: their bytes, and who waits for them on this node.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

openraft::declare_raft_types!(
    /// Our choices among openraft's types.
    pub(crate) TypeConfig:
        D = Command,
        R = (),
        NodeId = u64,
        Node = openraft::EmptyNode,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = Chunks,
        Responder = openraft::impls::OneshotResponder<TypeConfig>,
        AsyncRuntime = openraft::TokioRuntime,
);

pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type LeaderId = openraft::CommittedLeaderId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type Entry = openraft::Entry<TypeConfig>;
pub(crate) type StoredMembership = openraft::StoredMembership<u64, openraft::EmptyNode>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, openraft::EmptyNode>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type Raft = openraft::Raft<TypeConfig>;

/// One batch of commands.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Command {
    pub(crate) payload: Bytes,
    /// Who proposed it (a `Pending`); known on the leader that took the proposal only. When the last
    /// copy is gone without having been applied, the proposal is refused.
    #[serde(skip)]
    pub(crate) proposal: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// The state of a machine on its way to a member whose log is too far behind.
pub(crate) enum Chunks {
    /// Read from the machine when it is sent.
    Live(Arc<dyn SnapshotSource>),
    /// Arrived whole.
    Received(Vec<Bytes>),
}

/// A machine that can be read.
pub(crate) trait SnapshotSource: Send + Sync {
    /// Hands out the state in chunks, as long as `chunk` says true.
    fn read(&self, chunk: &mut dyn FnMut(Bytes) -> bool) -> Result<u64, String>;
}
