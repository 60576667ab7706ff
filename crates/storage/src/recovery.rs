//! Skeleton.
use bytes::Bytes;
use crate::error::StorageError;
use crate::place::{Position, StreamId, StoreId};
use crate::checkpoint::Checkpoint;
/// rec
#[derive(Debug, Clone)]
pub struct ReplayedRecord { /// a
 pub at: Position, /// s
 pub stream: StreamId, /// i
 pub index: u64, /// p
 pub payload: Bytes }
/// What
#[derive(Debug)]
pub struct Recovery;
impl Recovery {
  /// Stores with a checkpoint or a segment.
  pub fn stores(&self) -> Vec<StoreId> { todo!() }
  /// cp
  pub fn checkpoint(&self, _store: StoreId) -> Result<Option<Checkpoint>, StorageError> { todo!() }
  /// replay
  pub fn replay<E: From<StorageError>>(self, _visit: impl FnMut(ReplayedRecord) -> Result<(), E>) -> Result<Replayed, E> { todo!() }
}
/// replayed
#[derive(Debug)]
pub struct Replayed;
impl Replayed {
  /// last
  pub fn last_index(&self, _stream: StreamId) -> u64 { todo!() }
}
