//! Skeleton.
use std::sync::Arc;
use storage::{Flushed, FlushSink, Poisoned, StreamId};
/// t
#[derive(Clone)]
pub struct Tag;
/// c
pub struct CommitShards;
impl CommitShards {
  /// s
  pub fn start(_shards: usize, _on_stop: impl Fn(&str) + Send + Sync + 'static) -> std::io::Result<Arc<Self>> { todo!() }
  /// a
  pub fn applied(&self, _last: &[(StreamId, u64)]) -> bool { todo!() }
  /// s
  pub fn shutdown(&self) { todo!() }
}
impl FlushSink<Tag> for CommitShards {
  fn flushed(&self, _done: &mut Vec<Flushed<Tag>>) { todo!() }
  fn poisoned(&self, _why: &Poisoned) { todo!() }
}
