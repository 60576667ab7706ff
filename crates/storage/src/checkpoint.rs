//! Skeleton.
use bytes::Bytes;
use crate::error::StorageError;
use crate::place::StoreId;
/// cp
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint { /// c
 pub covered: u64, /// b
 pub blob: Bytes }
/// cps
#[derive(Debug)]
pub struct Checkpoints;
impl Checkpoints {
  /// put
  pub fn put(&self, _set: &[(StoreId, u64, &[u8])]) -> Result<(), StorageError> { todo!() }
  /// get
  pub fn get(&self, _store: StoreId) -> Result<Option<Checkpoint>, StorageError> { todo!() }
  /// stores
  pub fn stores(&self) -> Vec<StoreId> { todo!() }
  /// remove
  pub fn remove(&self, _store: StoreId) { todo!() }
}
