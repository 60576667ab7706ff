//! Replicates deterministic machines: a narrow trait for replica groups, and the group of one.
//!
//! Knows logs, indexes and commands as bytes, and `storage`. Must not know AMQP, queues or exchanges.

mod commit;
mod group;
mod machine;
mod solo;
mod staging;

pub use commit::{CommitShards, Tag};
pub use group::{
    AppliedObserver, Batch, GroupStatus, MemberChange, MemberError, NodeId, ProposeError,
    ReplicaGroup, Role,
};
pub use machine::{Abandoned, CommittedEntry, SnapshotMachine, StateMachine};
pub use solo::SoloGroup;
pub use staging::{
    BATCH_BYTES, BATCH_COMMANDS, IN_FLIGHT_EAGER, IN_FLIGHT_FULL_MAX, Staged, Staging,
};
