//! Skeleton.
use std::fmt::Debug;
use std::marker::PhantomData;
use bytes::Bytes;
use crate::error::{AppendError, Poisoned};
use crate::place::StreamId;

/// The bytes of one record, in one part or in several that are written one after the other.
#[derive(Debug, Clone)]
pub enum Payload {
    /// One part.
    One(Bytes),
    /// Several parts.
    Many(Vec<Bytes>),
}

impl From<Bytes> for Payload { fn from(b: Bytes) -> Self { Self::One(b) } }
impl From<Vec<Bytes>> for Payload { fn from(b: Vec<Bytes>) -> Self { Self::Many(b) } }

/// What the journal is doing, for reports and pressure.
#[derive(Debug, Clone)]
pub struct JournalStatus {
    /// Payload bytes appended and not yet durable.
    pub waiting_bytes: u64,
    /// Bytes of the files that hold records.
    pub used_bytes: u64,
    /// Full files whose live items are not in segments yet.
    pub sealed_waiting: usize,
    /// Whether the journal waits for such a file to be released before it can write on.
    pub starved: bool,
    /// Syncs since the start.
    pub syncs: u64,
    /// Records made durable since the start.
    pub records: u64,
}

/// A cheap handle.
#[derive(Debug)]
pub struct Journal<T> { _t: PhantomData<fn(T)> }
impl<T> Clone for Journal<T> { fn clone(&self) -> Self { Self { _t: PhantomData } } }

impl<T: Send + 'static> Journal<T> {
    /// Appends a record; returns at once. The tag comes back through the sink when it is durable.
    pub fn append(&self, _stream: StreamId, _index: u64, _payload: impl Into<Payload>, _tag: T) -> Result<(), AppendError> { todo!() }
    /// A record that is not written.
    pub fn append_marker(&self, _stream: StreamId, _index: u64, _tag: T) -> Result<(), AppendError> { todo!() }
    /// room
    pub fn has_room(&self) -> bool { todo!() }
    /// waiting
    pub fn waiting_bytes(&self) -> u64 { todo!() }
    /// status
    pub fn status(&self) -> JournalStatus { todo!() }
    /// poison
    pub fn poisoned(&self) -> Option<Poisoned> { todo!() }
    /// last
    pub fn last_index(&self, _stream: StreamId) -> u64 { todo!() }
    /// seal
    pub fn seal(&self) { todo!() }
}
