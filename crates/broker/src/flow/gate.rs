//! A queue's gate: who may come in, and who waits in front of it, channel by channel.
//!
//! A message that tips the queue comes in; those behind it wait with their channels, in the order
//! of each channel, and are let in round robin as room comes. While anybody waits, newcomers line
//! up as well. A gate with nothing to watch costs a publisher one relaxed load.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use broker_core::channel::Verdict;
use broker_core::flow::{
    Admit, CapacityLimits, Fullness, HIGH_WATER_DEFAULT_PERCENT, Overfull, QueueSubject, Turn,
    Underfull, allowance,
};
use broker_core::metadata::QueueId;
use broker_core::queue::{HolderId, QueueCounts};
use broker_core::settings::{Overflow, QueueSettings};
use broker_core::{Millis, QueueName, Timestamp};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::hold::Cause;
use super::memory::ENTRY_BYTES;
use super::parked::Parked;
use crate::clock;
use crate::holder::Holder;
use crate::node::Node;
use crate::observe::incidents::IncidentKind;
use crate::origin::{self, Origin};
use crate::queue::Queue;
use crate::record::Blob;
use crate::route::{InlineTurn, Route};

/// The queue has a capacity.
const LIMITED: u8 = 1;
/// Somebody waits or is held, or memory is short: look before you publish.
const BUSY: u8 = 2;

/// Most messages, and bytes, that are let in between two looks at the queue's size.
const BATCH_MESSAGES_MAX: usize = 256;
/// See [`BATCH_MESSAGES_MAX`].
const BATCH_BYTES_MAX: u64 = 1 << 20;

/// Messages under way that did not arrive for so long were abandoned, in milliseconds.
const UNDER_WAY_MAX_MS: u64 = 30_000;

/// See the module.
pub(crate) struct Gate {
    flags: AtomicU8,
    /// What the queue keeps in memory, also while there is nothing to watch.
    resident_bytes: AtomicU64,
    state: Mutex<GateState>,
}

/// One channel that waits.
struct Line {
    holder: Arc<Holder>,
    parked: VecDeque<Parked>,
}

/// A part of a queue's own limit of memory by which what it keeps must grow before it is asked to page
/// out once more.
const PAGE_OUT_AGAIN_PART: u64 = 16;

/// A queue's own limit of memory.
#[derive(Clone, Copy, Debug, Default)]
struct MemoryLimit {
    limit_bytes: Option<u64>,
    /// What is kept in memory when the queue is asked to page out.
    mark_bytes: u64,
    /// Publishers are held at the limit.
    holds: bool,
    resident_bytes: u64,
    is_full: bool,
    /// What it kept when it was asked to page out last; 0 when it is below its mark.
    asked_at_bytes: u64,
    /// What came in beyond the limit without being asked: dead letters, what other nodes publish,
    /// one message that is larger than the limit, and what was there before the limit.
    beyond_bytes: u64,
}

impl MemoryLimit {
    fn of(settings: &QueueSettings) -> Self {
        let mut memory = Self::default();
        memory.reconfigure(settings, 0);
        memory
    }

    fn reconfigure(&mut self, settings: &QueueSettings, under_way_bytes: u64) {
        self.holds = settings.overflow != Overflow::FlowToDisk;
        self.limit_bytes = settings.memory_limit_bytes.filter(|limit| *limit > 0);
        let percent = settings.memory_high_water_percent;
        let percent = percent.unwrap_or(HIGH_WATER_DEFAULT_PERCENT).min(100);
        self.mark_bytes = self.limit_bytes.map_or(u64::MAX, |limit| {
            (u128::from(limit) * u128::from(percent) / 100) as u64
        });
        self.asked_at_bytes = 0;
        self.beyond_bytes = self.resident_bytes + under_way_bytes;
        self.note(self.resident_bytes, under_way_bytes);
    }

    /// Whether a publisher's message comes in. One that is larger than the limit comes in alone.
    fn takes(&self, under_way_bytes: u64, bytes: u64) -> bool {
        let limit = self.limit_bytes.filter(|_| self.holds);
        let soon = self.resident_bytes.saturating_add(under_way_bytes);
        limit.is_none_or(|limit| soon == 0 || soon.saturating_add(bytes) <= limit)
    }

    /// The queue keeps so many bytes in memory, and so many come soon. What was full has room again a
    /// tenth below.
    fn note(&mut self, resident_bytes: u64, under_way_bytes: u64) {
        self.resident_bytes = resident_bytes;
        let soon = resident_bytes.saturating_add(under_way_bytes);
        self.is_full &= self
            .limit_bytes
            .is_some_and(|limit| self.holds && soon > limit - limit / 10);
        let Some(limit) = self.limit_bytes else {
            return;
        };
        if soon <= limit {
            self.beyond_bytes = 0;
        }
        debug_assert!(
            !self.holds || resident_bytes <= limit + self.beyond_bytes,
            "a queue keeps {resident_bytes} of {limit} bytes, with {} excused",
            self.beyond_bytes
        );
    }

    /// What the queue may keep, if it is to page out the rest now.
    fn page_out(&mut self) -> Option<u64> {
        if self.resident_bytes <= self.mark_bytes {
            self.asked_at_bytes = 0;
            return None;
        }
        let step = self.limit_bytes.unwrap_or(0) / PAGE_OUT_AGAIN_PART;
        // What came while it paged is asked for when it has paged.
        let asked = self.asked_at_bytes..self.asked_at_bytes + step.max(1);
        if asked.contains(&self.resident_bytes) {
            return None;
        }
        self.asked_at_bytes = self.resident_bytes;
        Some(self.mark_bytes)
    }

    /// What the queue may keep, if it was asked to page and is not down to its mark: more came while it
    /// paged.
    fn page_out_rest(&mut self) -> Option<u64> {
        (self.asked_at_bytes > 0 && self.resident_bytes > self.mark_bytes)
            .then_some(self.mark_bytes)
    }

    /// What the queue may keep so that a message that waits has room.
    fn page_out_for(&self, bytes: u64) -> Option<u64> {
        let limit = self.limit_bytes.filter(|limit| self.mark_bytes < *limit)?;
        Some(limit.saturating_sub(bytes).min(self.mark_bytes))
    }
}

/// Messages on their way to a queue, or that have just come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) messages: u64,
    /// What the queue's capacity counts.
    pub(crate) bytes: u64,
    /// What they take in memory.
    pub(crate) memory_bytes: u64,
}

impl Load {
    /// One message.
    pub(crate) fn of(bytes: u32, blob_bytes: u64) -> Self {
        Self {
            messages: 1,
            bytes: bytes.into(),
            memory_bytes: blob_bytes + ENTRY_BYTES,
        }
    }

    pub(crate) fn add(&mut self, more: Load) {
        self.messages += more.messages;
        self.bytes += more.bytes;
        self.memory_bytes += more.memory_bytes;
    }

    fn take_off(&mut self, less: Load) {
        self.messages = self.messages.saturating_sub(less.messages);
        self.bytes = self.bytes.saturating_sub(less.bytes);
        self.memory_bytes = self.memory_bytes.saturating_sub(less.memory_bytes);
    }
}

/// What the lock guards.
pub(crate) struct GateState {
    pub(crate) fullness: Fullness,
    /// The queue's size as it said last.
    bytes: u64,
    messages: u64,
    /// What was let in and has not arrived.
    under_way: Load,
    under_way_at: Timestamp,
    lines: VecDeque<Line>,
    /// Channels that the queue holds, those that wait and those that only tipped it.
    held: FxHashMap<HolderId, Arc<Holder>>,
    /// Memory is full and the queue has more than its share of it.
    guilty: bool,
    /// The last message that was looked at found no room in memory.
    is_out_of_memory: bool,
    /// The queue has its own limit of memory full. One that holds nobody for its capacity by its
    /// overflow mode holds nobody for this either.
    memory: MemoryLimit,
    hold_timeout_ms: Option<u64>,
    message_ttl_ms: Option<u64>,
    releasing: bool,
    closed: bool,
}

/// What a queue holds.
#[derive(Clone, Copy)]
pub(crate) struct QueueSize<'a> {
    pub(crate) counts: &'a QueueCounts,
    /// Bytes of its messages in memory.
    pub(crate) resident_bytes: u64,
}

/// Whether a message comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It does.
    In,
    /// It waits, or is refused if it cannot.
    Wait,
}

impl GateState {
    /// The channels that the queue holds, with what each has parked here.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&Arc<Holder>, u64, u64)> {
        let lines = self.lines.iter().map(|line| {
            let bytes = line.parked.iter().map(|parked| u64::from(parked.bytes));
            (line.holder.id, (line.parked.len() as u64, bytes.sum()))
        });
        let parked: FxHashMap<HolderId, (u64, u64)> = lines.collect();
        self.held.values().map(move |holder| {
            let (messages, bytes) = parked.get(&holder.id).copied().unwrap_or_default();
            (holder, messages, bytes)
        })
    }

    /// The queue's own limit of memory, and the mark from which on it pages.
    pub(crate) fn memory_limit(&self) -> Option<(u64, u64)> {
        let MemoryLimit {
            limit_bytes,
            mark_bytes,
            ..
        } = self.memory;
        Some((limit_bytes?, mark_bytes))
    }

    /// Whether the queue holds its publishers for the memory that it takes.
    pub(crate) fn lacks_memory(&self) -> bool {
        self.guilty || self.memory.is_full
    }

    /// For what the queue holds its publishers now; nothing when it holds them for the node's sake only.
    pub(crate) fn cause<'a>(&self, queue: &'a QueueName) -> Option<Cause<'a>> {
        if self.lacks_memory() || self.is_out_of_memory {
            return Some(Cause::Memory(queue));
        }
        let overfull = self.fullness.is_overfull();
        overfull.then_some(Cause::Capacity(queue))
    }

    fn size(&self) -> (u64, u64) {
        (
            self.bytes + self.under_way.bytes,
            self.messages + self.under_way.messages,
        )
    }

    fn is_closed_for_new(&self, node: &Node) -> bool {
        self.fullness.is_overfull()
            || !self.lines.is_empty()
            || self.lacks_memory()
            || node.flow.alarms.any()
    }

    fn depart(&mut self, now: Timestamp, load: Load) {
        if self.memory.resident_bytes + self.under_way.memory_bytes == 0 {
            // It may be one that is larger than the limit.
            self.memory.beyond_bytes += load.memory_bytes;
        }
        self.under_way.add(load);
        self.under_way_at = now;
    }

    /// Whether memory has room for a publisher's message; notes when the queue's own has not.
    fn has_memory(&mut self, node: &Node, queue: &Queue, load: Load) -> bool {
        let own = self
            .memory
            .takes(self.under_way.memory_bytes, load.memory_bytes);
        if !own {
            self.memory.is_full = true;
            if let Some(keep_bytes) = self.memory.page_out_for(load.memory_bytes) {
                node.page_out(queue, keep_bytes);
            }
        }
        let has = own
            && node.has_memory_for(
                queue,
                queue.gate.resident_bytes.load(Ordering::Relaxed),
                load.memory_bytes,
            );
        self.is_out_of_memory = !has;
        has
    }

    /// Whether a channel that has nothing parked is let go.
    fn holds_nobody(&self, node: &Node) -> bool {
        !self.fullness.is_overfull()
            && !self.fullness.is_told_overfull()
            && !self.lacks_memory()
            && !node.flow.alarms.any()
    }
}

impl Gate {
    pub(crate) fn new(settings: &QueueSettings) -> Self {
        let limits = CapacityLimits::of(settings);
        let memory = MemoryLimit::of(settings);
        Self {
            flags: AtomicU8::new(match limits.is_some() || memory.limit_bytes.is_some() {
                true => LIMITED,
                false => 0,
            }),
            resident_bytes: AtomicU64::new(0),
            state: Mutex::new(GateState {
                fullness: Fullness::new(limits),
                bytes: 0,
                messages: 0,
                under_way: Load::default(),
                under_way_at: Timestamp::default(),
                lines: VecDeque::new(),
                held: FxHashMap::default(),
                guilty: false,
                is_out_of_memory: false,
                memory,
                hold_timeout_ms: settings.hold_timeout_ms,
                message_ttl_ms: settings.message_ttl_ms,
                releasing: false,
                closed: false,
            }),
        }
    }

    /// Whether publishers may pass without a look.
    pub(crate) fn is_free(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == 0
    }

    /// The queue keeps so many bytes in memory.
    pub(crate) fn note_resident(&self, bytes: u64) {
        self.resident_bytes.store(bytes, Ordering::Relaxed);
    }

    fn set_flags(&self, state: &GateState) {
        let limited = state.fullness.limits().is_some() || state.memory.limit_bytes.is_some();
        let busy = state.lacks_memory()
            || !state.lines.is_empty()
            || !state.held.is_empty()
            || state.fullness.owes_a_turn();
        let flags = (u8::from(limited) * LIMITED) | (u8::from(busy) * BUSY);
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Reads the state, for listings.
    pub(crate) fn with_state<R>(&self, look: impl FnOnce(&GateState) -> R) -> R {
        look(&self.state.lock())
    }

    /// A channel's message wants in. The one that tips the queue does come in.
    pub(crate) fn admit(
        &self,
        node: &Node,
        queue: &Arc<Queue>,
        holder: &Arc<Holder>,
        load: Load,
    ) -> Admission {
        let now = clock::now();
        let mut state = self.state.lock();
        if state.closed {
            return Admission::In;
        }
        if state.is_closed_for_new(node) || !state.has_memory(node, queue, load) {
            self.hold(node, queue, &mut state, holder);
            return Admission::Wait;
        }
        state.depart(now, load);
        self.note(node, queue, now, &mut state);
        if state.fullness.is_overfull() {
            self.hold(node, queue, &mut state, holder);
        }
        Admission::In
    }

    /// A message of the broker's own (a dead letter) comes in whatever the queue holds; what goes
    /// beyond the capacity is counted.
    pub(crate) fn admit_internal(&self, node: &Node, queue: &Arc<Queue>, load: Load) {
        let now = clock::now();
        let mut state = self.state.lock();
        state.memory.beyond_bytes += load.memory_bytes;
        state.depart(now, load);
        self.note(node, queue, now, &mut state);
        if state.fullness.is_overfull() {
            let overshoot = &node.flow.tally.internal_overshoot_bytes;
            super::count(overshoot, load.bytes);
        }
    }

    fn hold(
        &self,
        node: &Node,
        queue: &Arc<Queue>,
        state: &mut GateState,
        holder: &Arc<Holder>,
    ) -> bool {
        let cause = match node.flow.alarms.reason() {
            Some(reason) if !state.fullness.is_overfull() => Cause::Alarm(reason),
            // Others wait for it, if there is nothing else.
            _ => state
                .cause(&queue.name)
                .unwrap_or(Cause::Capacity(&queue.name)),
        };
        let held = holder.hold(node, queue, cause);
        if held {
            state.held.insert(holder.id, holder.clone());
            node.flow.watch(queue.id);
            self.set_flags(state);
        }
        held
    }

    /// A message waits from here on. Answers it when the queue or the channel has gone meanwhile.
    pub(crate) fn park(
        &self,
        node: &Node,
        queue: &Arc<Queue>,
        holder: &Arc<Holder>,
        parked: Parked,
    ) -> Option<Parked> {
        let mut state = self.state.lock();
        // It may have been let go since it was told to wait.
        if state.closed || !self.hold(node, queue, &mut state, holder) {
            return Some(parked);
        }
        match state
            .lines
            .iter_mut()
            .find(|line| line.holder.id == holder.id)
        {
            Some(line) => line.parked.push_back(parked),
            None => state.lines.push_back(Line {
                holder: holder.clone(),
                parked: VecDeque::from([parked]),
            }),
        }
        self.set_flags(&state);
        None
    }

    /// The queue's size has changed; `arrived` came in meanwhile. Answers whether somebody may be
    /// let in. Called under the queue's lock.
    pub(crate) fn size_changed(
        &self,
        node: &Node,
        queue: &Queue,
        now: Timestamp,
        size: QueueSize<'_>,
        arrived: Load,
    ) -> bool {
        let QueueSize {
            counts,
            resident_bytes,
        } = size;
        let mut state = self.state.lock();
        let state = &mut *state;
        // More than this gate has let in: other nodes' messages, those that a start brings back.
        let let_in = arrived.memory_bytes.min(state.under_way.memory_bytes);
        state.memory.beyond_bytes +=
            resident_bytes.saturating_sub(state.memory.resident_bytes + let_in);
        state.under_way.take_off(arrived);
        state
            .memory
            .note(resident_bytes, state.under_way.memory_bytes);
        (state.bytes, state.messages) = (counts.bytes(), counts.messages());
        if let Some(keep_bytes) = state.memory.page_out() {
            node.page_out(queue, keep_bytes);
            node.flow.watch(queue.id);
        }
        self.note(node, queue, now, state);
        !state.held.is_empty() && !state.fullness.is_overfull() && !state.lacks_memory()
    }

    fn note(&self, node: &Node, queue: &Queue, now: Timestamp, state: &mut GateState) {
        let (bytes, messages) = state.size();
        let turn = state.fullness.note(now, bytes, messages);
        let subject = QueueSubject {
            vhost: &queue.vhost,
            queue: &queue.name,
        };
        match (turn, state.fullness.limits()) {
            (Some(Turn::Overfull), Some(limits)) => {
                let line = Overfull {
                    bytes,
                    messages,
                    limits,
                };
                tracing::info!("{subject} {line}");
                node.incident(queue, IncidentKind::QueueOverfull { bytes, messages });
            }
            (Some(Turn::Underfull), limits) => {
                let line = Underfull {
                    bytes,
                    messages,
                    limits,
                };
                tracing::info!("{subject} {line}");
                node.incident(queue, IncidentKind::QueueUnderfull { bytes, messages });
            }
            _ => {}
        }
        if state.fullness.owes_a_turn() {
            node.flow.watch(queue.id);
        }
        self.set_flags(state);
    }

    /// Arguments or policies say something else. The caller lets in what may come in.
    pub(crate) fn reconfigure(&self, node: &Node, queue: &Queue, settings: &QueueSettings) {
        let mut state = self.state.lock();
        state.fullness.set_limits(CapacityLimits::of(settings));
        let under_way_bytes = state.under_way.memory_bytes;
        // Not told while there was nothing to watch.
        state.memory.resident_bytes = self.resident_bytes.load(Ordering::Relaxed);
        state.memory.reconfigure(settings, under_way_bytes);
        if let Some(keep_bytes) = state.memory.page_out() {
            node.page_out(queue, keep_bytes);
        }
        state.hold_timeout_ms = settings.hold_timeout_ms;
        state.message_ttl_ms = settings.message_ttl_ms;
        self.note(node, queue, clock::now(), &mut state);
    }

    /// Memory is full and the queue has more than its share of it, or not any more.
    pub(crate) fn set_guilty(&self, node: &Node, queue: &Queue, guilty: bool) {
        let mut state = self.state.lock();
        // A queue without flow control takes everything, and pages.
        let guilty = guilty && state.memory.holds;
        if state.guilty != guilty {
            state.guilty = guilty;
            self.set_flags(&state);
            node.flow.watch(queue.id);
        }
    }

    /// The channel has ended: what it had parked here is forgotten.
    pub(crate) fn forget(&self, holder: &Holder) {
        let gone = {
            let mut state = self.state.lock();
            state.held.remove(&holder.id);
            let at = state
                .lines
                .iter()
                .position(|line| line.holder.id == holder.id);
            let gone = at.and_then(|at| state.lines.remove(at));
            self.set_flags(&state);
            gone
        };
        // Dropped without the lock: parked messages give their bytes back.
        drop(gone);
    }

    /// The queue is deleted: its messages are gone with it, and nobody is held by it.
    pub(crate) fn close(&self, node: &Node, queue: &Queue) {
        let (lines, held) = {
            let mut state = self.state.lock();
            state.closed = true;
            let held = std::mem::take(&mut state.held);
            let lines = std::mem::take(&mut state.lines);
            state.fullness.set_limits(None);
            self.set_flags(&state);
            for holder in held.values() {
                holder.let_go(node, queue.id);
            }
            (lines, held)
        };
        for line in lines {
            // As for messages that are routed to a queue that has just gone.
            tell_parked(node, line.parked.into(), Verdict::Stored);
        }
        drop(held);
    }

    /// What may come in now, in the order of coming in. While a batch is on its way nobody else
    /// takes one: the order of each channel is kept.
    fn next_batch(&self, node: &Node, queue: &Queue, now: Timestamp) -> Vec<Parked> {
        let mut state = self.state.lock();
        if state.releasing || state.closed {
            return Vec::new();
        }
        let mut batch = Vec::new();
        if !state.lacks_memory() && !node.flow.alarms.any() {
            state.take_round_robin(node, queue, now, &mut batch);
        }
        state.releasing = !batch.is_empty();
        if batch.is_empty() {
            self.let_go(node, queue, &mut state);
        }
        batch
    }

    fn end_batch(&self) {
        self.state.lock().releasing = false;
    }

    /// Channels with nothing parked are let go when nothing else holds them here.
    fn let_go(&self, node: &Node, queue: &Queue, state: &mut GateState) {
        state.lines.retain(|line| !line.parked.is_empty());
        if state.holds_nobody(node) {
            let GateState { lines, held, .. } = &mut *state;
            held.retain(|id, holder| {
                let waits = lines.iter().any(|line| line.holder.id == *id);
                if !waits {
                    holder.let_go(node, queue.id);
                }
                waits
            });
        }
        self.set_flags(state);
    }

    /// Looks after what only time decides: messages that waited too long are refused. Answers
    /// whether to look again.
    pub(crate) fn patrol(&self, node: &Node, queue: &Queue, now: Timestamp) -> bool {
        let (overdue, late, again) = {
            let mut state = self.state.lock();
            if now.since(state.under_way_at) > Millis(UNDER_WAY_MAX_MS) {
                state.under_way = Load::default();
                let resident_bytes = state.memory.resident_bytes;
                state.memory.note(resident_bytes, 0);
            }
            self.note(node, queue, now, &mut state);
            let rest = state.memory.page_out_rest();
            if let Some(keep_bytes) = rest {
                node.page_out(queue, keep_bytes);
            }
            let (overdue, late) = state.overdue(node, queue.id, now);
            for holder in &late {
                // An obedient client is woken before it is refused.
                holder.time_out(node, queue.id);
            }
            self.set_flags(&state);
            let again = !state.held.is_empty()
                || state.fullness.owes_a_turn()
                || state.guilty
                || rest.is_some();
            (overdue, late, again)
        };
        if !overdue.is_empty() {
            let messages = overdue.len() as u64;
            super::count(&node.flow.tally.timed_out, messages);
            node.incident(queue, IncidentKind::WaitedTooLong { messages });
            tell_parked(node, overdue, Verdict::Rejected);
        }
        for holder in late.iter().filter(|holder| holder.publishes_plainly()) {
            holder.close_for(node, queue);
        }
        again
    }
}

impl GateState {
    /// Each channel's head in turn, as long as there is room.
    fn take_round_robin(
        &mut self,
        node: &Node,
        queue: &Queue,
        now: Timestamp,
        batch: &mut Vec<Parked>,
    ) {
        let (mut empty, mut batch_bytes) = (0, 0);
        while empty < self.lines.len()
            && batch.len() < BATCH_MESSAGES_MAX
            && batch_bytes < BATCH_BYTES_MAX
        {
            let Some(load) = self.lines[0].parked.front().map(Parked::load) else {
                empty += 1;
                self.lines.rotate_left(1);
                continue;
            };
            let (bytes, messages) = self.size();
            let admit = Admit {
                bytes,
                messages,
                next_bytes: load.bytes,
            };
            if !allowance(self.fullness.limits(), &self.fullness, admit)
                || !self.has_memory(node, queue, load)
            {
                return;
            }
            batch.extend(self.lines[0].parked.pop_front());
            batch_bytes += load.bytes;
            self.depart(now, load);
            self.lines.rotate_left(1);
            empty = 0;
        }
    }

    /// Takes out what waited too long, and names the channels that did.
    fn overdue(
        &mut self,
        node: &Node,
        queue: QueueId,
        now: Timestamp,
    ) -> (Vec<Parked>, Vec<Arc<Holder>>) {
        let timeout_ms = self
            .hold_timeout_ms
            .unwrap_or(node.flow.options.hold_timeout_ms);
        let is_late = |since: Timestamp| now.since(since) >= Millis(timeout_ms);
        // An alarm is nobody's cycle: who only publishes waits for its end, as with RabbitMQ.
        let only_alarm =
            !self.fullness.is_overfull() && !self.lacks_memory() && node.flow.alarms.any();
        let mut overdue = Vec::new();
        for line in &mut self.lines {
            if only_alarm && !line.holder.session.flow.consumes() {
                continue;
            }
            while line.parked.front().is_some_and(|head| is_late(head.since)) {
                overdue.extend(line.parked.pop_front());
            }
        }
        let late = self.held.values().filter(|holder| {
            let exempt = only_alarm && !holder.session.flow.consumes();
            !exempt && holder.held_since(queue).is_some_and(is_late)
        });
        (overdue, late.cloned().collect())
    }
}

impl Queue {
    /// Lets in what has room now, and lets go of the channels that nothing holds here any more.
    pub(crate) fn let_in(self: &Arc<Self>, node: &Node) {
        loop {
            let batch = self.gate.next_batch(node, self, clock::now());
            if batch.is_empty() {
                return;
            }
            self.enter(node, batch);
            self.gate.end_batch();
        }
    }

    fn enter(self: &Arc<Self>, node: &Node, batch: Vec<Parked>) {
        let ttl_ms = self.gate.with_state(|state| state.message_ttl_ms);
        let route = Arc::new(Route::of(std::iter::once(self.clone())));
        let mut turn = InlineTurn::default();
        for parked in batch {
            let bytes = parked.message.blob();
            let Some(blob) = bytes.as_deref().and_then(Blob::parse) else {
                tell_parked(node, vec![parked], Verdict::Rejected);
                continue;
            };
            let message = blob.again();
            let mut meta = parked.message.meta;
            // The time that it waited counts towards the queue's own time to live.
            let by_queue = ttl_ms.map(|ttl_ms| meta.published_at + Millis(ttl_ms));
            meta.expires_at = meta.expires_at.into_iter().chain(by_queue).min();
            parked.origin.departs();
            let mut origin = Some(parked.origin);
            route.send(node, &meta, &message, &mut turn, || {
                origin.take().unwrap_or(Origin::Nobody)
            });
        }
        turn.end(node);
    }
}

/// Tells the publishers of messages that never left.
pub(crate) fn tell_parked(node: &Node, parked: Vec<Parked>, verdict: Verdict) {
    let origins: Vec<Origin> = parked.into_iter().map(|parked| parked.origin).collect();
    for origin in &origins {
        origin.departs();
    }
    origin::tell(node, &origins, |_| verdict);
}
