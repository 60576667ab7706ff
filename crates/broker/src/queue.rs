//! A queue of the running node: the machine that decides, behind a lock, and what follows from
//! its decisions.
//!
//! Whoever has work for a queue runs it inline; there is no task per queue. One queue lock at a
//! time, never across an await; lock order queue, then staging, then holder, then outbox. What
//! needs another queue (dead letters) or the metadata (deletion) is handed back in [`After`].

mod asking;
mod cold;
mod logged;
mod refusals;
mod succession;
mod told;

use std::sync::Arc;

use amqp::Table;
use broker_core::dead_letter::DeathReason;
use broker_core::metadata::{QueueGone, QueueId, QueueRecord};
use broker_core::queue::{
    Consumer, ConsumerId, DispatchBudget, DispatchEnd, Effect, Effects, Entry, EntryId, EntryState,
    Gone, Got, HolderId, Past, Pause, QueueCounts, QueueFault, QueueMachine, RefusedBecause,
    ReturnCause, Settlement, TimedOut, Use,
};
use broker_core::settings::{QueueKind, QueueSettings};
use broker_core::{ConsumerTag, ExchangeName, QueueName, Timestamp, VhostName};
use rustc_hash::FxHashMap;
use storage::{Location, Run, StoreId, Tier};

use self::cold::{Cold, StateLock};
use self::refusals::Refusals;
use crate::bounds::{DISPATCH_SLICE, DISPATCH_SLICE_BYTES};
use crate::clock;
use crate::content::{Batch, Content, LoadedBlob};
use crate::deliver;
use crate::firehose::TraceCopy;
use crate::flow::gate::{Gate, Load, QueueSize};
use crate::flow::memory::QueueMemory;
use crate::holder::Holder;
use crate::ledger::Ledger;
use crate::node::Node;
use crate::observe::deaths::{DeathStrategy, QueueDeaths};
use crate::observe::incidents::{HeldBecause, IncidentKind};
use crate::observe::traffic::QueueTraffic;
use crate::record::EntryMeta;
use crate::standing::Standing;
use crate::tenants::in_hand::Counts;

use told::Letter;

/// Which driver a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Transient: effects at once, nothing is logged.
    Inline,
    /// Local durable or replicated: commands go through this group first.
    Group(u32),
    /// It lives on another node, which this lane leads to.
    Away(u32),
}

/// A queue and its standing in the node.
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    pub(crate) vhost: VhostName,
    pub(crate) name: QueueName,
    pub(crate) kind: QueueKind,
    pub(crate) lane: Lane,
    /// The node of a classic queue.
    pub(crate) home: broker_core::metadata::NodeId,
    pub(crate) auto_delete: bool,
    /// Who may come in.
    pub(crate) gate: Gate,
    /// The delayed exchange whose messages wait here; then it is no queue that clients see.
    pub(crate) holds_for: Option<ExchangeName>,
    state: StateLock,
}

/// What the lock guards.
pub(crate) struct QueueState {
    pub(crate) machine: QueueMachine<Content>,
    pub(crate) holders: FxHashMap<HolderId, Arc<Holder>>,
    pub(crate) tags: FxHashMap<ConsumerId, ConsumerTag>,
    /// What the log must know of entries that are in segments or were returned.
    pub(crate) ledger: Ledger,
    /// Neighbours of the last messages that were read from segments.
    pub(crate) read_ahead: ReadAhead,
    /// Counted where it happens, under this lock.
    pub(crate) traffic: QueueTraffic,
    pub(crate) deaths: QueueDeaths,
    pub(crate) refusals: Refusals,
    /// Why dead letters are held, and since when (milliseconds since the epoch).
    pub(crate) dead_letters_held: Option<(HeldBecause, u64)>,
    /// Arguments of those consumers that have any, for listings.
    pub(crate) consumer_arguments: FxHashMap<ConsumerId, Table>,
    effects: Effects<Content>,
    next_inline_id: u64,
    deadline: Option<Timestamp>,
    /// What came in since the gate was told.
    arrived: Load,
    /// What it keeps in memory.
    pub(crate) memory: QueueMemory,
    deleted: bool,
    /// What is on disk and not taken in yet.
    cold: Option<Box<Cold>>,
}

/// What was read from the segments of each tier and may be wanted next.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    stored: Option<Run>,
    paged: Option<Run>,
}

impl ReadAhead {
    pub(crate) fn of(&mut self, tier: Tier) -> &mut Option<Run> {
        match tier {
            Tier::Durable => &mut self.stored,
            Tier::Paged => &mut self.paged,
        }
    }
}

/// A message that leaves a queue for its dead-letter exchange.
#[derive(Debug)]
pub(crate) struct DeadLetterJob {
    pub(crate) queue: QueueId,
    pub(crate) entry: EntryId,
    /// The message; `None` if what is stored is damaged.
    pub(crate) loaded: Option<LoadedBlob>,
    pub(crate) reason: DeathReason,
    pub(crate) delivery_count: u32,
    pub(crate) acquired_count: u32,
    /// The queue keeps the message until every target has confirmed.
    pub(crate) kept: bool,
    /// What it went through, if anything is known.
    pub(crate) past: Option<Box<Past>>,
}

/// What must happen once the queue's lock is free again.
#[derive(Default)]
pub(crate) struct After {
    pub(crate) dead_letters: Vec<DeadLetterJob>,
    /// What the firehose tells of deliveries.
    pub(crate) trace_copies: Vec<TraceCopy>,
    /// Entries that the queue refused, for the nacks.
    pub(crate) refused: Vec<EntryId>,
    pub(crate) timed_out: Vec<(Arc<Holder>, TimedOut, IncidentKind)>,
    /// Messages that wait may come in, or channels may be let go.
    pub(crate) room: bool,
    /// What consumers were asked for that may have room again.
    pub(crate) full_hands: Counts,
    /// The queue must go: unused for too long, or its last consumer has left.
    pub(crate) gone: Option<QueueGone>,
}

/// A message taken by `basic.get`.
pub(crate) struct Fetched {
    pub(crate) got: Got<Content>,
    /// The message; `None` if what is stored is damaged.
    pub(crate) loaded: Option<LoadedBlob>,
}

/// An entry about to enter.
pub(crate) struct Arrival {
    pub(crate) id: Option<EntryId>,
    pub(crate) meta: EntryMeta,
    pub(crate) content: Content,
    pub(crate) bytes: u32,
}

impl Queue {
    pub(crate) fn new(record: &QueueRecord, lane: Lane, memory: QueueMemory) -> Self {
        let state = QueueState {
            machine: QueueMachine::new(record.kind, &record.settings, clock::now()),
            holders: FxHashMap::default(),
            tags: FxHashMap::default(),
            ledger: Ledger::default(),
            read_ahead: ReadAhead::default(),
            traffic: QueueTraffic::default(),
            refusals: Refusals::default(),
            deaths: QueueDeaths::default(),
            dead_letters_held: None,
            consumer_arguments: FxHashMap::default(),
            effects: Vec::new(),
            next_inline_id: 1,
            deadline: None,
            arrived: Load::default(),
            memory,
            deleted: false,
            cold: None,
        };
        Self {
            id: record.id,
            vhost: record.vhost.clone(),
            name: record.name.clone(),
            kind: record.kind,
            lane,
            home: record.home,
            auto_delete: record.auto_delete,
            gate: Gate::new(&record.settings),
            holds_for: None,
            state: StateLock::new(state),
        }
    }

    /// Where its items live on disk.
    pub(crate) fn store(&self) -> StoreId {
        StoreId(self.id.0)
    }

    pub(crate) fn counts(&self) -> QueueCounts {
        self.state.lock().machine.counts()
    }

    /// Reads or repairs the state without rules: recovery, checkpoints, relocation, listings.
    pub(crate) fn with_state<R>(&self, f: impl FnOnce(&mut QueueState) -> R) -> R {
        f(&mut self.state.lock())
    }

    /// Repairs the state while the node recovers, without taking in what nobody has asked for.
    pub(crate) fn while_cold<R>(&self, f: impl FnOnce(&mut QueueState) -> R) -> R {
        f(&mut self.state.lock_cold())
    }

    /// Bytes that the length limits of this kind of queue count.
    // rabbitmq: classic queues count bodies, quorum queues properties and bodies.
    pub(crate) fn logical_bytes(&self, properties: usize, body: usize) -> u32 {
        let bytes = match self.kind {
            QueueKind::Classic => body,
            QueueKind::Quorum => properties + body,
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Messages enter, in order, and are dispatched. Answers the id of the first one that came
    /// without its own.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        node: &Node,
        now: Timestamp,
        arrivals: impl Iterator<Item = Arrival>,
        after: &mut After,
    ) -> u64 {
        let mut state = self.state.lock();
        let first_inline_id = state.next_inline_id;
        if state.deleted {
            return first_inline_id;
        }
        for arrival in arrivals {
            let id = arrival.id.unwrap_or_else(|| {
                let id = EntryId(state.next_inline_id);
                state.next_inline_id += 1;
                id
            });
            let entry = Entry {
                id,
                content: arrival.content,
                bytes: arrival.bytes,
                priority: arrival.meta.priority,
                persistent: arrival.meta.persistent,
                expires_at: arrival.meta.expires_at,
                delivery_count: arrival.meta.delivery_count,
                acquired_count: arrival.meta.acquired_count,
            };
            state.memory.enters(&entry.content);
            let load = Load::of(entry.bytes, entry.content.resident_len());
            self.take_in(node, now, &mut state, entry, after);
            state.traffic.publish += 1;
            state.arrived.add(load);
        }
        self.run(node, now, &mut state, after);
        first_inline_id
    }

    /// Deliveries of this holder end one way or the other.
    pub(crate) fn settle(
        self: &Arc<Self>,
        node: &Node,
        holder: HolderId,
        entries: &[EntryId],
        how: Settlement,
        after: &mut After,
    ) {
        if node.is_away(self) {
            return node.settle_away(self, holder, entries, how);
        }
        self.act(node, after, |machine, now, effects| {
            machine.settle(now, holder, entries, how, effects);
        });
    }

    /// Runs one call of the machine, its effects, and a dispatch.
    fn act(
        self: &Arc<Self>,
        node: &Node,
        after: &mut After,
        call: impl FnOnce(&mut QueueMachine<Content>, Timestamp, &mut Effects<Content>),
    ) {
        // What a follower decided would be one rule too many: the leader's log says what happens.
        if !node.leads(self.lane) {
            return;
        }
        let now = clock::now();
        let mut state = self.state.lock();
        if state.deleted {
            return;
        }
        let QueueState {
            machine, effects, ..
        } = &mut *state;
        call(machine, now, effects);
        self.run(node, now, &mut state, after);
    }

    /// Adds a consumer that is silent until it is resumed from [`Pause::WINDOW`].
    pub(crate) fn add_consumer(
        self: &Arc<Self>,
        node: &Node,
        holder: &Arc<Holder>,
        consumer: Consumer,
        after: &mut After,
    ) -> Result<(), QueueFault> {
        let now = clock::now();
        let mut state = self.state.lock();
        let (id, tag) = (consumer.id, consumer.tag.clone());
        let QueueState {
            machine, effects, ..
        } = &mut *state;
        machine.add_consumer(now, consumer, effects)?;
        state.tags.insert(id, tag);
        state.holders.insert(holder.id, holder.clone());
        self.run(node, now, &mut state, after);
        Ok(())
    }

    /// Keeps a consumer's arguments for listings.
    pub(crate) fn note_arguments(&self, consumer: ConsumerId, arguments: Table) {
        let mut state = self.state.lock();
        if state.tags.contains_key(&consumer) {
            state.consumer_arguments.insert(consumer, arguments);
        }
    }

    /// Whether the consumer is still one of the queue's.
    pub(crate) fn has_consumer(&self, consumer: ConsumerId) -> bool {
        self.state.lock().tags.contains_key(&consumer)
    }

    /// Lifts one reason for a consumer's silence and dispatches.
    pub(crate) fn resume(self: &Arc<Self>, node: &Node, consumer: ConsumerId, pause: Pause) {
        node.note_pause(consumer, pause, false);
        if node.is_away(self) {
            return node.resume_away(self, consumer, pause);
        }
        let mut after = After::default();
        self.act(node, &mut after, |machine, _, _| {
            machine.resume(consumer, pause);
        });
        node.carry_out(self, after);
    }

    /// Silences a consumer.
    pub(crate) fn pause(&self, consumer: ConsumerId, pause: Pause) {
        self.state.lock().machine.pause(consumer, pause);
    }

    /// No consumer gets more while what it holds has so many bytes; `None` ends that.
    pub(crate) fn set_byte_credit(self: &Arc<Self>, node: &Node, bytes: Option<u64>) {
        let now = clock::now();
        let mut after = After::default();
        let mut state = self.state.lock();
        if state.machine.set_byte_credit(bytes) {
            self.run(node, now, &mut state, &mut after);
        }
        drop(state);
        node.carry_out(self, after);
    }

    /// `basic.cancel`: what the consumer holds stays with its channel.
    pub(crate) fn remove_consumer(
        self: &Arc<Self>,
        node: &Node,
        consumer: ConsumerId,
        after: &mut After,
    ) {
        node.remove_attachment(self, consumer);
        if node.is_away(self) {
            return;
        }
        let now = clock::now();
        let mut state = self.state.lock();
        let QueueState {
            machine, effects, ..
        } = &mut *state;
        let removed = machine.remove_consumer(now, consumer, effects);
        state.tags.remove(&consumer);
        state.consumer_arguments.remove(&consumer);
        self.run(node, now, &mut state, after);
        if removed && self.is_abandoned(&state) {
            after.gone = Some(QueueGone::AutoDeleted);
        }
    }

    /// The channel is gone: its consumers leave and what it holds goes back.
    pub(crate) fn detach(
        self: &Arc<Self>,
        node: &Node,
        holder: HolderId,
        cause: ReturnCause,
        after: &mut After,
    ) {
        if node.is_away(self) {
            return node.detach_away(self, holder, cause);
        }
        node.forget_attachments(self.id, holder);
        let now = clock::now();
        let mut state = self.state.lock();
        if state.deleted {
            return;
        }
        let before = state.machine.counts().consumers;
        let QueueState {
            machine, effects, ..
        } = &mut *state;
        machine.detach(now, holder, cause, effects);
        state.holders.remove(&holder);
        self.run(node, now, &mut state, after);
        let QueueState {
            machine,
            tags,
            consumer_arguments,
            ..
        } = &mut *state;
        if machine.counts().consumers < before {
            let left: Vec<ConsumerId> = machine.consumers().map(|view| view.consumer.id).collect();
            tags.retain(|id, _| left.contains(id));
            consumer_arguments.retain(|id, _| left.contains(id));
            if self.is_abandoned(&state) {
                after.gone = Some(QueueGone::AutoDeleted);
            }
        }
    }

    fn is_abandoned(&self, state: &QueueState) -> bool {
        self.auto_delete && !state.deleted && state.machine.counts().consumers == 0
    }

    /// Takes one message for `basic.get`.
    pub(crate) fn get(
        self: &Arc<Self>,
        node: &Node,
        holder: &Arc<Holder>,
        no_ack: bool,
        after: &mut After,
    ) -> Result<Option<Fetched>, QueueFault> {
        let now = clock::now();
        let mut state = self.state.lock();
        if state.deleted {
            return Ok(None);
        }
        let QueueState {
            machine, effects, ..
        } = &mut *state;
        let got = machine.get(now, holder.id, no_ack, effects)?;
        let got = got.map(|got| {
            // Read before its place is given back.
            let loaded = node.load(self.store(), &got.delivery.content);
            Fetched { got, loaded }
        });
        if let Some(Fetched { got, .. }) = &got {
            if no_ack {
                state.memory.leaves(&got.delivery.content);
            }
            state.holders.insert(holder.id, holder.clone());
            state.traffic.got(no_ack, got.delivery.redelivered);
            self.hand_out(node, &mut state.ledger, &got.delivery);
            if no_ack {
                self.ended(
                    node,
                    &mut state.ledger,
                    got.delivery.entry,
                    &got.delivery.content,
                );
            }
        } else {
            state.traffic.get_empty += 1;
        }
        self.run(node, now, &mut state, after);
        Ok(got)
    }

    /// Holds those of these messages that are ready, for this channel; answers which.
    pub(crate) fn hold_chosen(&self, holder: &Arc<Holder>, entries: &[EntryId]) -> Vec<EntryId> {
        let mut state = self.state.lock();
        if state.deleted {
            return Vec::new();
        }
        state.holders.insert(holder.id, holder.clone());
        let machine = &mut state.machine;
        machine.hold_again(clock::now(), holder.id, None, entries);
        let is_held = |id: &&EntryId| {
            let entry = machine.entry(**id);
            entry.is_some_and(|entry| {
                matches!(entry.state, EntryState::Unacked { holder: by, .. } if by == holder.id)
            })
        };
        entries.iter().filter(is_held).copied().collect()
    }

    /// Removes what is ready; answers how many messages.
    pub(crate) fn purge(self: &Arc<Self>, node: &Node, after: &mut After) -> u64 {
        let mut purged = 0;
        loop {
            let mut slice = 0;
            self.act(node, after, |machine, _, effects| {
                slice = machine.purge(DISPATCH_SLICE as u32, effects);
            });
            purged += u64::from(slice);
            if slice < DISPATCH_SLICE as u32 {
                return purged;
            }
        }
    }

    /// The queue was declared again or asked for a message: it is in use.
    pub(crate) fn touch(&self, how: Use) {
        self.state.lock().machine.touch(clock::now(), how);
    }

    /// Arguments or policies say something else.
    pub(crate) fn reconfigure(self: &Arc<Self>, node: &Node, settings: &QueueSettings) {
        let mut after = After::default();
        self.gate.reconfigure(node, self, settings);
        self.act(node, &mut after, |machine, now, effects| {
            machine.reconfigure(now, settings, effects);
        });
        node.carry_out(self, after);
        self.let_in(node);
    }

    /// A deadline of the queue has come.
    pub(crate) fn on_deadline(self: &Arc<Self>, node: &Node) {
        let mut after = After::default();
        self.state.lock().deadline = None;
        self.act(node, &mut after, |machine, now, effects| {
            // Bounded work a call: once more while something is due.
            while machine.next_deadline().is_some_and(|at| at <= now) {
                machine.on_deadline(now, effects);
                if effects.len() >= DISPATCH_SLICE {
                    break;
                }
            }
        });
        node.carry_out(self, after);
    }

    /// Ends the queue. Its consumers are told; answers the ready messages that die with it.
    pub(crate) fn close(&self) -> u64 {
        let mut state = self.state.lock();
        state.deleted = true;
        let ready = state.machine.counts().ready;
        let consumers: Vec<(HolderId, ConsumerTag)> = state
            .machine
            .consumers()
            .map(|view| (view.consumer.holder, view.consumer.tag.clone()))
            .collect();
        let holders = std::mem::take(&mut state.holders);
        state.tags.clear();
        state.consumer_arguments.clear();
        let QueueState {
            machine, memory, ..
        } = &mut *state;
        memory.end(machine.live_from(EntryId(0)).map(|entry| entry.content));
        state.machine =
            QueueMachine::new(self.kind, &QueueSettings::default(), Timestamp::default());
        drop(state);
        for (holder, tag) in consumers {
            if let Some(holder) = holders.get(&holder) {
                holder.consumer_cancelled(&tag);
            }
        }
        ready
    }

    /// Dispatches while there is credit, and carries out what the machine wants.
    fn run(
        self: &Arc<Self>,
        node: &Node,
        now: Timestamp,
        state: &mut QueueState,
        after: &mut After,
    ) {
        loop {
            let mut budget = DispatchBudget {
                messages: DISPATCH_SLICE as u32,
                bytes: DISPATCH_SLICE_BYTES as u64,
            };
            let end = self.dispatch(node, now, state, &mut budget, after);
            self.perform(node, state, after);
            if end != DispatchEnd::Budget {
                break;
            }
        }
        self.schedule(node, state);
        after.room |= self.tell_size(node, now, state);
    }

    /// Tells the memory tree and the gate what the queue holds now. Answers whether somebody who waits
    /// may be let in.
    pub(crate) fn tell_size(&self, node: &Node, now: Timestamp, state: &mut QueueState) -> bool {
        let arrived = std::mem::take(&mut state.arrived);
        let counts = state.machine.counts();
        state.memory.tell(&counts);
        self.gate.note_resident(state.memory.resident_bytes());
        if self.gate.is_free() {
            return false;
        }
        let size = QueueSize {
            counts: &counts,
            resident_bytes: state.memory.resident_bytes(),
        };
        self.gate.size_changed(node, self, now, size, arrived)
    }

    fn schedule(self: &Arc<Self>, node: &Node, state: &mut QueueState) {
        let Some(next) = state.machine.next_deadline() else {
            return;
        };
        if state.deadline.is_none_or(|at| next < at) {
            state.deadline = Some(next);
            node.timers.schedule(next, self.id);
        }
    }

    /// Carries the effects out, in their order; deliveries of one holder go together.
    fn perform(self: &Arc<Self>, node: &Node, state: &mut QueueState, after: &mut After) {
        if state.effects.is_empty() {
            return;
        }
        let mut effects = std::mem::take(&mut state.effects);
        let events = self.about_late(state, &effects);
        self.withdraw_late(state, &effects);
        deliver::deliver(self, node, state, &effects, &mut after.trace_copies);
        after.timed_out.extend(events);
        for effect in effects.drain(..) {
            self.perform_one(node, state, effect, after);
        }
        // Keeps the capacity.
        state.effects = effects;
        if state.ledger.wants_joining() {
            state.join_ledger();
        }
    }

    fn perform_one(
        &self,
        node: &Node,
        state: &mut QueueState,
        effect: Effect<Content>,
        after: &mut After,
    ) {
        match effect {
            Effect::Deliver(delivery) => {
                state
                    .traffic
                    .delivered(delivery.no_ack, delivery.redelivered);
                self.hand_out(node, &mut state.ledger, &delivery);
                if delivery.no_ack {
                    state.memory.leaves(&delivery.content);
                    self.ended(node, &mut state.ledger, delivery.entry, &delivery.content);
                }
            }
            Effect::Refused { id, content, why } => {
                state.memory.refused(id, &content);
                if why == RefusedBecause::Overflow {
                    self.ended(node, &mut state.ledger, id, &content);
                    if let Some(messages) = state.refusals.add(clock::now()) {
                        node.incident(self, IncidentKind::PublishesRefused { messages });
                    }
                }
                after.refused.push(id);
            }
            Effect::Forget { id, content, why } => {
                state.memory.leaves(&content);
                node.counters.forgotten(why);
                state.traffic.ack += u64::from(why == Gone::Acked);
                if let Some(reason) = death_of(why) {
                    self.died(node, state, reason, DeathStrategy::Disabled);
                }
                if why == Gone::DeadLettered && self.holds_for.is_none() {
                    node.traffic.dead_letter_confirmed(self.kind);
                }
                self.ended(node, &mut state.ledger, id, &content);
            }
            Effect::DeadLetter {
                id,
                content,
                reason,
                delivery_count,
                acquired_count,
                kept,
                past,
            } => {
                let letter = Letter {
                    id,
                    content,
                    reason,
                    delivery_count,
                    acquired_count,
                    kept,
                    past,
                };
                self.send_letter(node, state, letter, after);
            }
            Effect::KeptDead {
                id,
                reason,
                delivery_count,
                acquired_count,
            } => {
                self.died(node, state, reason, DeathStrategy::AtLeastOnce);
                let counts = (delivery_count, acquired_count);
                self.stands(node, state, id, counts, Standing::Dead(reason));
            }
            Effect::PoisonLoop {
                id,
                holder,
                consumer,
                returns,
            } => self.poison_loop(node, state, id, (holder, consumer), returns),
            Effect::Returned {
                id,
                delivery_count,
                acquired_count,
                until,
            } => {
                let standing = until.map_or(Standing::InLine, Standing::HeldBack);
                let counts = (delivery_count, acquired_count);
                self.stands(node, state, id, counts, standing);
            }
            Effect::ConsumerCancelled {
                consumer, holder, ..
            } => {
                let tag = state.tags.remove(&consumer);
                if let (Some(tag), Some(holder)) = (tag, state.holders.get(&holder)) {
                    holder.consumer_cancelled(&tag);
                }
            }
            Effect::TimedOut(_) => {}
            Effect::ActiveConsumer { .. } => {}
            Effect::QueueExpired => after.gone = Some(QueueGone::Expired),
        }
    }
}

impl QueueState {
    /// Whether the queue was deleted while somebody still had it in hand.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Whether what is in segments is not taken in yet.
    pub(crate) fn is_cold(&self) -> bool {
        self.cold.is_some()
    }

    /// Makes what is remembered of dead entries as short as what lives allows.
    pub(crate) fn join_ledger(&mut self) {
        let Self {
            machine, ledger, ..
        } = self;
        ledger.join(|id| {
            machine
                .live_from(EntryId(id))
                .next()
                .map(|entry| entry.id.0)
        });
    }

    /// An item lies in a segment from here on. Answers false when nobody wants it any more.
    pub(crate) fn relocate(&mut self, tier: Tier, id: EntryId, location: Location) -> bool {
        // A store that was empty in between numbers its segments from the start again: what was
        // read ahead may be of another segment with the same number.
        *self.read_ahead.of(tier) = None;
        if self.deleted {
            return false;
        }
        let content = match tier {
            Tier::Durable => Content::Stored(location),
            Tier::Paged => Content::Paged(location),
        };
        match self.machine.moved(id, content) {
            Some(before) => {
                self.memory.leaves(&before);
                true
            }
            None => false,
        }
    }
}

/// Of what a message died that had nowhere to go.
fn death_of(why: Gone) -> Option<DeathReason> {
    match why {
        Gone::Discarded => Some(DeathReason::Rejected),
        Gone::Expired => Some(DeathReason::Expired),
        Gone::MaxLength => Some(DeathReason::MaxLength),
        Gone::DeliveryLimit => Some(DeathReason::DeliveryLimit),
        Gone::Acked | Gone::Purged | Gone::DeadLettered | Gone::DeadLetterDropped => None,
    }
}

/// A resident content in a batch.
pub(crate) fn resident(batch: &Arc<Batch>, at: u32, len: u32) -> Content {
    Content::Resident {
        batch: batch.clone(),
        at,
        len,
    }
}
