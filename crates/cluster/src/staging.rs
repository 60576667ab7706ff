//! Commands on their way into entries: at once while the group is idle, in ever larger batches while it
//! is busy.
//!
//! Knows when to propose; not what the commands say nor how the group commits them. The bytes of a command
//! are copied once, into the buffer that becomes the entry.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::{fmt, mem};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use crate::group::{AppliedObserver, Batch, ReplicaGroup};

/// A batch of this many bytes is proposed even while others are in flight.
pub const BATCH_BYTES: usize = 256 * 1024;
/// A batch of this many commands is proposed even while others are in flight.
pub const BATCH_COMMANDS: usize = 1024;
/// Below this many entries in flight a batch is proposed however small it is. One would leave the
/// journal idle between a sync and the next proposal.
pub const IN_FLIGHT_EAGER: usize = 4;
/// Full batches are proposed up to this many entries in flight; more wait here and say so by `has_room`.
pub const IN_FLIGHT_FULL_MAX: usize = 64;

/// Room for a batch after a small one, so that its first commands cause no growth.
const BUFFER_BYTES_MIN: usize = 512;

type Refused<C> = Box<dyn Fn(Batch<C>, &str) + Send + Sync>;

/// The place where the commands of one group gather.
///
/// What waits here is bounded by the callers, who look at `has_room` before they take more work on:
/// then it is one batch and what was under way in each of them.
pub struct Staging<C: Send + 'static> {
    group: Arc<dyn ReplicaGroup<C>>,
    refused: Refused<C>,
    state: Mutex<State<C>>,
}

struct State<C> {
    /// The batch that grows.
    buffer: Vec<u8>,
    contexts: Vec<C>,
    commands: usize,
    logged: bool,
    /// Full batches that the group could not take yet.
    full: VecDeque<Batch<C>>,
    /// Batches that the group refused, for the callback.
    refused: Vec<(Batch<C>, String)>,
}

/// Staging while it is held for several commands. When it is dropped they are proposed, if that may be.
pub struct Staged<'a, C: Send + 'static> {
    staging: &'a Staging<C>,
    /// Taken when dropped.
    state: Option<MutexGuard<'a, State<C>>>,
}

impl<C: Send + 'static> fmt::Debug for Staging<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staging")
            .field("in_flight", &self.group.in_flight())
            .finish_non_exhaustive()
    }
}

impl<C: Send + 'static> fmt::Debug for Staged<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").finish_non_exhaustive()
    }
}

impl<C: Send + 'static> Staging<C> {
    /// Staging for a group, whose observer it becomes. `refused` gets the batches that the group does
    /// not take, with the reason; it is called without any lock held.
    pub fn new(
        group: Arc<dyn ReplicaGroup<C>>,
        refused: impl Fn(Batch<C>, &str) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let state = State {
            buffer: Vec::new(),
            contexts: Vec::new(),
            commands: 0,
            logged: false,
            full: VecDeque::new(),
            refused: Vec::new(),
        };
        let staging = Arc::new(Self {
            group,
            refused: Box::new(refused),
            state: Mutex::new(state),
        });
        let observer: Weak<Self> = Arc::downgrade(&staging);
        staging.group.observe(observer);
        staging
    }

    /// Stages one command: `build` appends it to the batch. `logged` says whether it must survive a
    /// restart; a batch without any such command touches no disk, one with any is written whole.
    pub fn stage(&self, logged: bool, context: Option<C>, build: impl FnOnce(&mut Vec<u8>)) {
        self.begin().command(logged, context, build);
    }

    /// Holds staging for several commands under one lock. Not across an await, and briefly.
    pub fn begin(&self) -> Staged<'_, C> {
        Staged {
            staging: self,
            state: Some(self.state.lock()),
        }
    }

    /// Whether the group and its journal keep up; when not, publishers should be held. Commands that
    /// make room (settles) may be staged all the same.
    pub fn has_room(&self) -> bool {
        self.group.has_room() && self.state.lock().full.is_empty()
    }

    /// The group that the commands go to.
    pub fn group(&self) -> &Arc<dyn ReplicaGroup<C>> {
        &self.group
    }

    /// Proposes what may be proposed, then lets go.
    fn finish(&self, mut state: MutexGuard<'_, State<C>>) {
        state.propose(&*self.group);
        let refused = mem::take(&mut state.refused);
        drop(state);
        for (batch, why) in refused {
            (self.refused)(batch, &why);
        }
    }
}

impl<C: Send + 'static> AppliedObserver for Staging<C> {
    fn applied(&self, _index: u64) {
        self.finish(self.state.lock());
    }
}

impl<C: Send + 'static> Staged<'_, C> {
    /// See `Staging::stage`. The length of the buffer on entry is the command's offset in the entry.
    pub fn command(&mut self, logged: bool, context: Option<C>, build: impl FnOnce(&mut Vec<u8>)) {
        if let Some(state) = self.state.as_mut() {
            state.command(logged, context, build);
        }
    }
}

impl<C: Send + 'static> Drop for Staged<'_, C> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            self.staging.finish(state);
        }
    }
}

/// Takes the bytes of a command back when its builder panics: half a command must not be logged.
struct Unfinished<'a> {
    buffer: &'a mut Vec<u8>,
    len: usize,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.buffer.truncate(self.len);
    }
}

impl<C> State<C> {
    fn command(&mut self, logged: bool, context: Option<C>, build: impl FnOnce(&mut Vec<u8>)) {
        let mut unfinished = Unfinished {
            len: self.buffer.len(),
            buffer: &mut self.buffer,
        };
        build(unfinished.buffer);
        unfinished.len = unfinished.buffer.len();
        drop(unfinished);
        self.contexts.extend(context);
        self.commands += 1;
        self.logged |= logged;
        if self.buffer.len() >= BATCH_BYTES || self.commands >= BATCH_COMMANDS {
            let batch = self.cut();
            self.full.push_back(batch);
        }
    }

    /// Ends the batch that grows, and begins the next one with about as much room.
    fn cut(&mut self) -> Batch<C> {
        let room = self.buffer.len().clamp(BUFFER_BYTES_MIN, BATCH_BYTES);
        let mut buffer = mem::replace(&mut self.buffer, Vec::with_capacity(room));
        // The payload may be kept as long as any item of it is; it must not keep much more than it holds.
        if buffer.capacity() - buffer.len() > buffer.len() / 4 {
            buffer.shrink_to_fit();
        }
        self.commands = 0;
        Batch {
            payload: Bytes::from(buffer),
            contexts: mem::take(&mut self.contexts),
            logged: mem::take(&mut self.logged),
        }
    }

    fn propose(&mut self, group: &dyn ReplicaGroup<C>) {
        while group.in_flight() < IN_FLIGHT_FULL_MAX
            && let Some(batch) = self.full.pop_front()
        {
            self.propose_batch(group, batch);
        }
        if self.commands > 0 && self.full.is_empty() && group.in_flight() < IN_FLIGHT_EAGER {
            let batch = self.cut();
            self.propose_batch(group, batch);
        }
    }

    fn propose_batch(&mut self, group: &dyn ReplicaGroup<C>, batch: Batch<C>) {
        if let Err(error) = group.propose(batch) {
            let why = error.to_string();
            self.refused.push((error.into_batch(), why));
        }
    }
}
