//! Skeleton.
use std::sync::{Arc, Weak};
use storage::{Journal, StreamId};
use crate::commit::{CommitShards, Tag};
use crate::machine::StateMachine;
use crate::group::*;
/// g
pub struct SoloGroup<M: StateMachine> { _m: Arc<M> }
impl<M: StateMachine> SoloGroup<M> {
  /// o
  pub fn open(_node: NodeId, _stream: StreamId, _machine: Arc<M>, _journal: Journal<Tag>, _shards: &Arc<CommitShards>) -> Arc<Self> { todo!() }
}
impl<M: StateMachine> ReplicaGroup<M::Context> for SoloGroup<M> {
    fn propose(&self, _batch: Batch<M::Context>) -> Result<u64, ProposeError<M::Context>> { todo!() }
    fn in_flight(&self) -> usize { todo!() }
    fn has_room(&self) -> bool { todo!() }
    fn status(&self) -> GroupStatus { todo!() }
    fn change_members(&self, _change: MemberChange) -> Result<(), MemberError> { todo!() }
    fn transfer_leader(&self, _to: NodeId) -> Result<(), MemberError> { todo!() }
    fn observe(&self, _observer: Weak<dyn AppliedObserver>) { todo!() }
}
