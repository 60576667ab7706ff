//! Skeleton.
use bytes::Bytes;
use crate::error::StorageError;
use crate::place::{Location, StoreId};

/// An item to be kept.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The owner's number for it, unique within its store.
    pub id: u64,
    /// Opaque; comes back from `recover`.
    pub attributes: u64,
    /// The bytes, in parts that are written one after the other.
    pub parts: &'a [&'a [u8]],
}
/// An item found in the segments of a store after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveredItem { /// id
 pub id: u64, /// a
 pub attributes: u64, /// l
 pub location: Location }
/// Iterator
#[derive(Debug)]
pub struct RecoveredItems;
impl Iterator for RecoveredItems { type Item = Result<RecoveredItem, StorageError>; fn next(&mut self) -> Option<Self::Item> { todo!() } }
/// usage
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreUsage { /// s
 pub segments: u64, /// i
 pub live_items: u64, /// l
 pub live_bytes: u64, /// d
 pub dead_bytes: u64 }
/// run
#[derive(Debug, Clone)]
pub struct Run;
impl Run {
  /// get
  pub fn get(&self, _location: &Location) -> Option<Bytes> { todo!() }
}
/// segments
#[derive(Debug)]
pub struct SegmentStore;
impl SegmentStore {
  /// append
  pub fn append(&self, _store: StoreId, _items: &[Item<'_>]) -> Result<Vec<Location>, StorageError> { todo!() }
  /// sync
  pub fn sync(&self, _stores: &[StoreId]) -> Result<(), StorageError> { todo!() }
  /// read
  pub fn read(&self, _store: StoreId, _location: &Location) -> Result<Bytes, StorageError> { todo!() }
  /// read run
  pub fn read_run(&self, _store: StoreId, _first: &Location, _bytes_max: usize) -> Result<Run, StorageError> { todo!() }
  /// release
  pub fn release(&self, _store: StoreId, _dead: &[Location]) { todo!() }
  /// drop
  pub fn drop_store(&self, _store: StoreId) { todo!() }
  /// recover
  pub fn recover(&self, _store: StoreId) -> Result<RecoveredItems, StorageError> { todo!() }
  /// stores
  pub fn stores(&self) -> Vec<StoreId> { todo!() }
  /// usage
  pub fn usage(&self, _store: StoreId) -> StoreUsage { todo!() }
}
