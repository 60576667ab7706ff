//! Skeleton.
use std::path::Path;
use std::sync::Arc;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::journal::Journal;
use crate::options::Options;
use crate::owner::{FlushSink, Owner};
use crate::place::StoreId;
use crate::recovery::{Recovery, Replayed};
use crate::segment::SegmentStore;
/// st
#[derive(Debug)]
pub struct Storage;
impl Storage {
  /// o
  pub fn open(_dir: &Path, _options: Options) -> Result<(Self, Recovery), StorageError> { todo!() }
  /// o
  pub fn open_on(_disk: Arc<dyn Disk>, _dir: &Path, _options: Options) -> Result<(Self, Recovery), StorageError> { todo!() }
  /// s
  pub fn start<T: Send + 'static>(&self, _replayed: Replayed, _sink: Arc<dyn FlushSink<T>>) -> Result<Journal<T>, StorageError> { todo!() }
  /// a
  pub fn attach(&self, _owner: Arc<dyn Owner>) -> Result<(), StorageError> { todo!() }
  /// seg
  pub fn segments(&self) -> &Arc<SegmentStore> { todo!() }
  /// d
  pub fn drop_store(&self, _store: StoreId) { todo!() }
  /// s
  pub fn shutdown(&self) -> Result<(), StorageError> { todo!() }
}
