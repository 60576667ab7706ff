//! The machine that is replicated: entries in, state out, the same on every member.
//!
//! Only the contract; the commands inside an entry are the machine's own language.

use bytes::Bytes;
use storage::Position;

/// An entry that will stay in the log for ever: the same bytes at the same index on every member.
#[derive(Debug, Clone)]
pub struct CommittedEntry {
    /// Its index; strictly increasing, with gaps after a restart.
    pub index: u64,
    /// One batch of commands, as it was proposed.
    pub payload: Bytes,
    /// Where the payload lies in this node's journal; `None` when no command of the batch was logged.
    pub at: Option<Position>,
    /// Whether this node leads the group and proposed the entry, or took it from another node. A
    /// machine that follows only keeps what the leader's machine decided.
    pub leading: bool,
}

/// Why contexts come back without their entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Abandoned {
    /// The journal failed; the node stops. Whether the entry survives is known after a restart.
    Poisoned,
    /// Another member leads and its log won; whether the entry survives is not known here.
    LeadershipLost,
    /// The group is being closed on this node.
    Closed,
}

/// A deterministic machine: same entries in the same order, same state.
///
/// `apply` may read no clock and no randomness: what depends on them travels in the entry. Everything
/// that only the proposing node does (confirms, say) hangs on the contexts.
pub trait StateMachine: Send + Sync + 'static {
    /// What the proposer wants back with each command; never leaves its node.
    type Context: Send + 'static;

    /// In log order, once per committed entry, on every member, never two at a time for one machine.
    /// `contexts` are those given with the commands of this batch, in order, on the node that
    /// proposed it, and empty elsewhere. Called on a commit thread without any lock held; it may
    /// stage and propose, but not wait for its own group.
    ///
    /// The answer goes to the node that the leader took the batch from, if it was another one
    /// (`answered`); otherwise it is dropped.
    fn apply(&self, entry: CommittedEntry, contexts: Vec<Self::Context>) -> Bytes;

    /// A batch that was proposed here and will not be applied with its contexts.
    fn abandon(&self, payload: Bytes, contexts: Vec<Self::Context>, why: Abandoned);

    /// A batch that was proposed here and committed by another leader: what that leader's machine
    /// answered. It may come before or after the entry is applied here.
    fn answered(&self, payload: Bytes, contexts: Vec<Self::Context>, answer: Bytes) {
        let _ = (payload, contexts, answer);
    }

    /// This node leads from here on, and everything before its time is applied. A group of one is
    /// never told: it always leads.
    fn lead(&self) {}

    /// This node leads no more; what it did beyond the log is void.
    fn follow(&self) {}
}

/// A machine that can be copied to a member whose log is too far behind. Replicated groups ask for it;
/// a group of one restores itself from the checkpoints and segments of `storage`.
pub trait SnapshotMachine: StateMachine {
    /// What went wrong with a chunk.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The state after the last applied entry, in chunks of about a mebibyte, and that entry's index.
    /// `chunk` answers false when the receiver is gone. Runs beside `apply`: the machine takes
    /// its locks in slices and writes what holds at the index that it answers.
    fn snapshot(&self, chunk: &mut dyn FnMut(Bytes) -> bool) -> Result<u64, Self::Error>;

    /// Replaces the state by that of a snapshot as of `index`; all or nothing.
    fn install(
        &self,
        index: u64,
        chunks: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), Self::Error>;
}
