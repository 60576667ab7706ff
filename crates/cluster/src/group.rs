//! The door to a replica group, the same whether it has one member or five.
//!
//! Knows batches and indexes. What runs the consensus stays behind it: the group of one here, openraft
//! for more (its log store appends to our journal and completes its callback from the journal's
//! flush; its state machine calls `StateMachine::apply`).

use std::sync::{Arc, Weak};

use bytes::Bytes;
use thiserror::Error;

/// A node of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// One entry to be: the commands of a batch and what their proposer wants back.
#[derive(Debug)]
pub struct Batch<C> {
    /// The commands.
    pub payload: Bytes,
    /// One per command that has something to be told, in order.
    pub contexts: Vec<C>,
    /// Whether any command must survive a restart. If not, the batch keeps its place in the order of
    /// entries and touches no disk.
    pub logged: bool,
}

/// Why a batch is not proposed. It comes back whole.
#[derive(Debug, Error)]
pub enum ProposeError<C> {
    /// Somebody else leads, or nobody at the moment.
    #[error("this node does not lead the group (leader: {leader:?})")]
    NotLeader {
        /// The node to ask, when known.
        leader: Option<NodeId>,
        /// The batch.
        batch: Batch<C>,
    },
    /// Larger than a journal record may be.
    #[error("a batch of {bytes} bytes is over the maximum of {bytes_max}")]
    TooLarge {
        /// Bytes of the payload.
        bytes: u64,
        /// `storage::Options::record_bytes_max`.
        bytes_max: u64,
        /// The batch.
        batch: Batch<C>,
    },
    /// The journal failed or is shut down.
    #[error("the group takes no more entries: {why}")]
    Stopped {
        /// The reason.
        why: Arc<str>,
        /// The batch.
        batch: Batch<C>,
    },
}

impl<C> ProposeError<C> {
    /// The batch that was refused.
    pub fn into_batch(self) -> Batch<C> {
        match self {
            Self::NotLeader { batch, .. }
            | Self::TooLarge { batch, .. }
            | Self::Stopped { batch, .. } => batch,
        }
    }
}

/// What this node is in the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Proposes and applies.
    Leader,
    /// Applies what the leader committed.
    Follower,
    /// Nobody leads that this node knows of.
    Leaderless,
}

/// A look at the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// This node's part.
    pub role: Role,
    /// Who leads, when known.
    pub leader: Option<NodeId>,
    /// The term in which that is so; 0 where nobody ever has to be elected.
    pub term: u64,
    /// Whether this node takes part in elections; one that lost its disk does not before it has
    /// caught up.
    pub votes: bool,
    /// All members.
    pub members: Vec<NodeId>,
    /// Index of the last entry of the log.
    pub last_index: u64,
    /// Index of the last entry applied here.
    pub applied_index: u64,
}

/// A change of the members, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange {
    /// Adds a member; it counts for the majority once it has caught up.
    Add(NodeId),
    /// Removes a member.
    Remove(NodeId),
}

/// Why the members or the leader stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MemberError {
    /// Already in.
    #[error("node {0:?} is a member already")]
    AlreadyMember(NodeId),
    /// Not in, so it can neither leave nor lead.
    #[error("node {0:?} is not a member")]
    NotAMember(NodeId),
    /// A group without members would lose its state.
    #[error("node {0:?} is the last member")]
    LastMember(NodeId),
    /// This group runs without links to other nodes.
    #[error("the group is not replicated: node {0:?} cannot be added")]
    NotReplicated(NodeId),
}

/// Told after each applied entry, on the commit thread, without any lock held.
pub trait AppliedObserver: Send + Sync {
    /// The entry at `index` is applied (or abandoned): it is in flight no longer.
    fn applied(&self, index: u64);
}

/// A replica group as its proposers see it. Calls return at once; outcomes arrive at the machine, and
/// changes of members and leader show in `status`.
pub trait ReplicaGroup<C>: Send + Sync {
    /// Puts the batch at the next index of the log. Batches are applied in the order of these calls.
    fn propose(&self, batch: Batch<C>) -> Result<u64, ProposeError<C>>;
    /// Entries proposed here and not applied yet.
    fn in_flight(&self) -> usize;
    /// Whether the node's journal keeps up; when not, publishers should be held.
    fn has_room(&self) -> bool;
    /// A look at the group.
    fn status(&self) -> GroupStatus;
    /// Starts a change of the members.
    fn change_members(&self, change: MemberChange) -> Result<(), MemberError>;
    /// Asks another member to lead; success at once if it does already.
    fn transfer_leader(&self, to: NodeId) -> Result<(), MemberError>;
    /// Registers who is told after each applied entry; one observer, the last one wins.
    fn observe(&self, observer: Weak<dyn AppliedObserver>);
}
