//! Replicates deterministic machines: a narrow trait for replica groups, the group of one, groups of
//! several members on openraft, and the links between their nodes.
//!
//! Knows logs, indexes and commands as bytes, and `storage`. Must not know AMQP, queues or exchanges.

mod commit;
mod disk;
mod group;
mod links;
mod machine;
mod raft;
mod solo;
mod staging;

pub use commit::{CommitShards, Tag};
pub use disk::JournalDisk;
pub use group::{
    AppliedObserver, Batch, GroupStatus, MemberChange, MemberError, NodeId, ProposeError,
    ReplicaGroup, Role,
};
pub use links::{
    CallNumbers, LinkError, Links, Secret, Service, TcpOptions, TcpTransport, Transport,
    Unreachable,
};
pub use machine::{Abandoned, CommittedEntry, SnapshotMachine, StateMachine};
pub use raft::{
    LogDisk, LogDone, LogFault, LogNotes, RaftGroup, RaftTimes, ReplayedLog, control_stream,
};
pub use solo::SoloGroup;
pub use staging::{
    BATCH_BYTES, BATCH_COMMANDS, IN_FLIGHT_EAGER, IN_FLIGHT_FULL_MAX, Staged, Staging,
};
