//! Skeleton.
use std::sync::Arc;
use crate::group::{Batch, ReplicaGroup};
/// Bytes at which a batch is proposed even while others are in flight.
pub const BATCH_BYTES: usize = 256 * 1024;
/// Commands at which a batch is proposed even while others are in flight.
pub const BATCH_COMMANDS: usize = 1024;
/// e
pub const IN_FLIGHT_EAGER: usize = 4;
/// b
pub const IN_FLIGHT_BIG_MAX: usize = 64;
/// st
pub struct Staging<C: Send + 'static> { _g: Arc<dyn ReplicaGroup<C>> }
/// sd
pub struct Staged<'a, C: Send + 'static> { _s: &'a Staging<C> }
impl<C: Send + 'static> Staging<C> {
  /// n
  pub fn new(_group: Arc<dyn ReplicaGroup<C>>, _refused: impl Fn(Batch<C>, &str) + Send + Sync + 'static) -> Arc<Self> { todo!() }
  /// s
  pub fn stage(&self, _logged: bool, _context: Option<C>, _build: impl FnOnce(&mut Vec<u8>)) { todo!() }
  /// b
  pub fn begin(&self) -> Staged<'_, C> { todo!() }
  /// r
  pub fn has_room(&self) -> bool { todo!() }
}
impl<C: Send + 'static> Staged<'_, C> {
  /// c
  pub fn command(&mut self, _logged: bool, _context: Option<C>, _build: impl FnOnce(&mut Vec<u8>)) { todo!() }
}
