//! Between those who append and the journal thread: records that wait, and the end of all appending.
//!
//! One short lock. Knows order and amounts; not files.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

use super::{Payload, record};
use crate::error::{AppendError, Poisoned};
use crate::owner::FlushSink;
use crate::place::StreamId;

/// A record or marker that is appended and not reported yet.
pub(super) struct Pending<T> {
    pub(super) tag: T,
    pub(super) stream: StreamId,
    pub(super) index: u64,
    /// `None` for a marker.
    pub(super) record: Option<PendingRecord>,
}

pub(super) struct PendingRecord {
    pub(super) payload: Payload,
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

impl<T> Pending<T> {
    /// Bytes it takes in a file; `None` for a marker, which takes no file at all.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.record
            .as_ref()
            .map(|record| record::record_bytes(record.bytes))
    }
}

/// Why the journal thread wakes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Records,
    SealRequest,
    Closed,
    Poisoned,
}

/// Bounded by its appenders: they hold publishers when `bytes` passes `Options::waiting_bytes_high`.
pub(super) struct Waiting<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
    /// Payload bytes that are appended and not durable.
    bytes: AtomicU64,
    records: AtomicU64,
    syncs: AtomicU64,
    poison: OnceLock<Poisoned>,
    sink: Arc<dyn FlushSink<T>>,
}

struct State<T> {
    records: VecDeque<Pending<T>>,
    phase: Phase,
    asleep: bool,
    seal_requested: bool,
    /// Highest index of each stream, markers too, those before the start included.
    last: HashMap<StreamId, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closed,
    Poisoned,
}

impl<T> Waiting<T> {
    pub(super) fn new(sink: Arc<dyn FlushSink<T>>, last: HashMap<StreamId, u64>) -> Self {
        let state = State {
            records: VecDeque::new(),
            phase: Phase::Open,
            asleep: false,
            seal_requested: false,
            last,
        };
        Self {
            state: Mutex::new(state),
            wake: Condvar::new(),
            bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            poison: OnceLock::new(),
            sink,
        }
    }

    pub(super) fn append(&self, pending: Pending<T>) -> Result<(), AppendError> {
        let bytes = pending.record.as_ref().map_or(0, |record| record.bytes);
        let mut state = self.state.lock();
        match state.phase {
            Phase::Open => {}
            Phase::Closed => return Err(AppendError::Closed),
            Phase::Poisoned => return Err(self.poison_error()),
        }
        let last = state.last.entry(pending.stream).or_default();
        *last = pending.index.max(*last);
        state.records.push_back(pending);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // A thread that is awake looks again before it sleeps, so it needs no call.
        let asleep = mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn poison_error(&self) -> AppendError {
        self.poison
            .get()
            .cloned()
            .map_or(AppendError::Closed, AppendError::Poisoned)
    }

    /// Moves all that waits behind what `queue` still holds; sleeps while there is nothing to do.
    pub(super) fn take(&self, queue: &mut VecDeque<Pending<T>>) -> Taken {
        let mut state = self.state.lock();
        loop {
            if state.phase == Phase::Poisoned {
                return Taken::Poisoned;
            }
            if queue.is_empty() {
                mem::swap(queue, &mut state.records);
            } else {
                queue.append(&mut state.records);
            }
            if !queue.is_empty() {
                return Taken::Records;
            }
            if mem::take(&mut state.seal_requested) {
                return Taken::SealRequest;
            }
            if state.phase == Phase::Closed {
                return Taken::Closed;
            }
            state.asleep = true;
            self.wake.wait(&mut state);
            state.asleep = false;
        }
    }

    /// One sync made these durable.
    pub(super) fn synced(&self, records: u64, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.records.fetch_add(records, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn request_seal(&self) {
        self.state.lock().seal_requested = true;
        self.wake.notify_one();
    }

    /// No append is taken from here on; what waits is still written.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closed;
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Ends everything; the first call tells the sink why.
    pub(super) fn poison(&self, why: Poisoned) {
        if self.poison.set(why.clone()).is_err() {
            return;
        }
        let mut state = self.state.lock();
        state.phase = Phase::Poisoned;
        let lost = mem::take(&mut state.records);
        drop(state);
        // Tags may own anything: they are dropped without the lock.
        drop(lost);
        self.wake.notify_one();
        tracing::error!(why = %why.why, "storage failed and takes no more work");
        self.sink.poisoned(&why);
    }

    pub(super) fn poisoned(&self) -> Option<&Poisoned> {
        self.poison.get()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub(super) fn last_index(&self, stream: StreamId) -> u64 {
        self.state.lock().last.get(&stream).copied().unwrap_or(0)
    }

    pub(super) fn last_indexes(&self) -> Vec<(StreamId, u64)> {
        self.state
            .lock()
            .last
            .iter()
            .map(|(stream, index)| (*stream, *index))
            .collect()
    }
}
