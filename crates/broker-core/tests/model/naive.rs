//! A queue as a plain list, and the judgement of effects.

use std::collections::{BTreeMap, BTreeSet};

use broker_core::dead_letter::DeathReason;
use broker_core::queue::{
    ConsumerId, DEAD_LETTERS_IN_FLIGHT_MAX, Delivery, Effect, EntryId, Gone, HolderId,
    QUORUM_UNLIMITED_PREFETCH, RefusedBecause, ReturnCause, TimeoutAction,
};
use broker_core::settings::{
    ConsumerTimeoutAction, DeadLetterStrategy, DelayedRetryKind, DeliveryLimitCounts, Overflow,
    QueueKind, QueueSettings,
};
use broker_core::time::{Millis, Timestamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Ready,
    /// The how-manyth return of the queue it was.
    Returned(u64),
    Held {
        holder: HolderId,
        consumer: Option<ConsumerId>,
        since: Timestamp,
    },
    Delayed(Timestamp),
    Dead,
}

/// A channel and the consumer on it, if it was one.
pub(crate) type Giver = (HolderId, Option<ConsumerId>);

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) level: u8,
    pub(crate) bytes: u32,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) delivery_count: u32,
    pub(crate) acquired_count: u32,
    /// Whose returns they were, one after the other.
    pub(crate) givers: Vec<Giver>,
    /// Who had it last.
    pub(crate) giver: Option<Giver>,
    /// The how-manyth return of the queue its last one was.
    pub(crate) turn: u64,
    pub(crate) place: Where,
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) holder: HolderId,
    pub(crate) prefetch: u16,
    pub(crate) priority: i64,
    pub(crate) no_ack: bool,
    pub(crate) cancel_notify: bool,
    pub(crate) window: bool,
    pub(crate) flow: bool,
    pub(crate) late: bool,
}

/// What the machine was just asked for: which effects may follow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Enqueue(EntryId),
    Dispatch,
    Get,
    Ack(Vec<EntryId>),
    Discard(Vec<EntryId>, bool),
    Requeue(Vec<EntryId>, ReturnCause),
    Detach(HolderId, ReturnCause),
    Deadline,
    Purge,
    Reconfigure,
    DeadLetterDone(EntryId),
    Other,
}

pub(crate) struct Naive {
    pub(crate) kind: QueueKind,
    pub(crate) settings: QueueSettings,
    pub(crate) now: Timestamp,
    pub(crate) items: BTreeMap<EntryId, Item>,
    pub(crate) clients: BTreeMap<ConsumerId, Client>,
    pub(crate) active: Option<ConsumerId>,
    /// Channels that are to be closed for a late delivery.
    pub(crate) closing: BTreeSet<HolderId>,
    returns: u64,
    /// Dead letters that were published and not answered.
    pub(crate) sent: Vec<EntryId>,
    /// Those that wait for their next try.
    pub(crate) resting: BTreeMap<EntryId, Timestamp>,
    /// The message of the last report of a poison loop, until its return is judged.
    poison: Option<EntryId>,
}

impl Naive {
    pub(crate) fn new(kind: QueueKind, settings: QueueSettings, now: Timestamp) -> Self {
        Self {
            kind,
            settings,
            now,
            items: BTreeMap::new(),
            clients: BTreeMap::new(),
            active: None,
            closing: BTreeSet::new(),
            returns: 0,
            sent: Vec::new(),
            resting: BTreeMap::new(),
            poison: None,
        }
    }

    pub(crate) fn level(&self, priority: Option<u8>) -> u8 {
        match self.kind {
            QueueKind::Classic => priority
                .unwrap_or(0)
                .min(self.settings.max_priority.unwrap_or(0)),
            QueueKind::Quorum => priority.unwrap_or(4).min(31),
        }
    }

    pub(crate) fn expiry(&self, own: Option<Timestamp>) -> Option<Timestamp> {
        let by_queue = self
            .settings
            .message_ttl_ms
            .map(|ttl| self.now + Millis(ttl));
        let first = own.into_iter().chain(by_queue).min()?;
        Some(first.max(self.now + Millis(1)))
    }

    /// What would be handed out, in order.
    pub(crate) fn order(&self) -> Vec<EntryId> {
        let mut ready: Vec<(u64, u8, EntryId)> = self
            .items
            .iter()
            .filter_map(|(id, item)| match item.place {
                Where::Returned(turn) if self.kind == QueueKind::Quorum => Some((turn, 0, *id)),
                Where::Ready | Where::Returned(_) => Some((u64::MAX, 255 - item.level, *id)),
                _ => None,
            })
            .collect();
        ready.sort_unstable();
        ready.into_iter().map(|(_, _, id)| id).collect()
    }

    /// The first of returns and of each level: what may expire.
    fn heads(&self) -> Vec<EntryId> {
        let mut seen = Vec::new();
        let mut heads = Vec::new();
        for id in self.order() {
            let item = &self.items[&id];
            let line = match item.place {
                Where::Returned(_) if self.kind == QueueKind::Quorum => None,
                _ => Some(item.level),
            };
            if !seen.contains(&line) {
                seen.push(line);
                heads.push(id);
            }
        }
        heads
    }

    fn amount(&self, wanted: impl Fn(Where) -> bool) -> (u64, u64) {
        let chosen = self.items.values().filter(|item| wanted(item.place));
        chosen.fold((0, 0), |(n, bytes), item| {
            (n + 1, bytes + u64::from(item.bytes))
        })
    }

    pub(crate) fn ready(&self) -> (u64, u64) {
        self.amount(|place| matches!(place, Where::Ready | Where::Returned(_)))
    }

    pub(crate) fn held(&self) -> (u64, u64) {
        self.amount(|place| matches!(place, Where::Held { .. }))
    }

    pub(crate) fn delayed(&self) -> (u64, u64) {
        self.amount(|place| matches!(place, Where::Delayed(_)))
    }

    pub(crate) fn dead(&self) -> (u64, u64) {
        self.amount(|place| place == Where::Dead)
    }

    fn drops_heads(&self) -> bool {
        match self.settings.overflow {
            Overflow::DropHead => true,
            Overflow::RejectPublishDlx => self.kind == QueueKind::Quorum,
            _ => false,
        }
    }

    pub(crate) fn over_limit(&self, more: u64, more_bytes: u64) -> bool {
        let (mut n, mut bytes) = self.ready();
        if self.kind == QueueKind::Quorum {
            n += self.delayed().0;
            bytes += self.delayed().1;
            if !self.drops_heads() {
                n += self.dead().0;
                bytes += self.dead().1;
            }
        }
        let max_bytes = self.settings.max_length_bytes.unwrap_or(u64::MAX);
        n + more > self.settings.max_length.unwrap_or(u64::MAX) || bytes + more_bytes > max_bytes
    }

    /// How many unsettled deliveries a consumer may have.
    pub(crate) fn credit(&self, client: &Client) -> u64 {
        match (client.prefetch, self.kind) {
            _ if client.no_ack => u64::MAX,
            (0, QueueKind::Classic) => u64::MAX,
            (0, QueueKind::Quorum) => QUORUM_UNLIMITED_PREFETCH.into(),
            (prefetch, _) => prefetch.into(),
        }
    }

    pub(crate) fn unacked_of(&self, consumer: ConsumerId) -> u64 {
        let of = |place| matches!(place, Where::Held { consumer: Some(c), .. } if c == consumer);
        self.amount(of).0
    }

    /// Consumers that could be given a message. Whether a single active one is about to step
    /// down is not known here.
    fn open(&self) -> Vec<ConsumerId> {
        let single_active = self.settings.single_active_consumer;
        let clients = self.clients.iter().filter(|(id, client)| {
            let turn = !single_active || self.active == Some(**id);
            let free = !client.window && !client.flow && !client.late;
            turn && free && self.unacked_of(**id) < self.credit(client)
        });
        clients.map(|(id, _)| *id).collect()
    }

    /// Nothing more can be handed out for want of messages or consumers.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.order().is_empty() || self.open().is_empty() || self.may_step_down()
    }

    fn may_step_down(&self) -> bool {
        let Some(active) = self.active.and_then(|id| self.clients.get(&id)) else {
            return false;
        };
        let outranked = self
            .clients
            .values()
            .any(|client| client.priority > active.priority);
        self.kind == QueueKind::Quorum && self.settings.single_active_consumer && outranked
    }

    // --- Judgement. ---

    pub(crate) fn judge(&mut self, call: &Call, effect: &Effect<u64>) {
        match effect {
            Effect::Deliver(delivery) => self.delivered(call, delivery),
            Effect::Refused { id, why, .. } => {
                assert_eq!(
                    (call, *why),
                    (&Call::Enqueue(*id), RefusedBecause::Overflow)
                );
                assert!(!self.drops_heads() && self.settings.overflow != Overflow::FlowControl);
            }
            Effect::Forget { id, content, why } => {
                assert_eq!(id.0, *content);
                self.gone(call, *id, *why);
            }
            Effect::DeadLetter {
                id,
                reason,
                delivery_count,
                acquired_count,
                kept,
                ..
            } => {
                let counts = (*delivery_count, *acquired_count);
                self.dead_lettered(call, *id, *reason, counts, *kept);
            }
            Effect::KeptDead {
                id,
                reason,
                delivery_count,
                acquired_count,
            } => {
                let at_least_once = DeadLetterStrategy::AtLeastOnce;
                assert_eq!(self.settings.dead_letter_strategy, at_least_once);
                assert!(self.settings.dead_letter_exchange.is_some());
                self.may_die(call, *id, *reason);
                let item = self.items.get_mut(id).expect("live");
                let counts = (item.delivery_count, item.acquired_count);
                assert_eq!((*delivery_count, *acquired_count), counts);
                item.place = Where::Dead;
            }
            Effect::PoisonLoop {
                id,
                holder,
                returns,
                ..
            } => {
                let giver = self.items[id].giver.expect("somebody had it");
                assert_eq!(giver.0, *holder);
                assert_eq!(Some(*returns - 1), self.settings.poison_loop_returns);
                assert_eq!(self.poison.replace(*id), None);
            }
            Effect::Returned {
                id,
                delivery_count,
                acquired_count,
                until,
            } => {
                self.returned(call, *id, (*delivery_count, *acquired_count), *until);
            }
            Effect::ConsumerCancelled {
                consumer, holder, ..
            } => {
                assert_eq!(*call, Call::Deadline);
                let client = self.end_consumer(*consumer);
                assert_eq!(client.holder, *holder);
                assert!(client.cancel_notify);
                assert_eq!(
                    self.settings.consumer_timeout_action,
                    ConsumerTimeoutAction::Cancel
                );
            }
            Effect::TimedOut(late) => {
                assert_eq!(*call, Call::Deadline);
                if late.action == TimeoutAction::CloseChannel {
                    self.closing.insert(late.holder);
                    let of_channel = self
                        .clients
                        .values_mut()
                        .filter(|c| c.holder == late.holder);
                    of_channel.for_each(|client| client.late = true);
                }
            }
            Effect::ActiveConsumer { consumer } => {
                assert!(self.settings.single_active_consumer);
                assert_ne!(self.active, *consumer);
                self.active = *consumer;
            }
            Effect::QueueExpired => panic!("the queue has no expiry"),
        }
    }

    pub(crate) fn end_consumer(&mut self, id: ConsumerId) -> Client {
        for item in self.items.values_mut() {
            if let Where::Held { consumer, .. } = &mut item.place
                && *consumer == Some(id)
            {
                *consumer = None;
            }
        }
        self.clients.remove(&id).expect("a consumer")
    }

    fn expired(&self, id: EntryId) -> bool {
        self.items[&id].expires_at.is_some_and(|at| at <= self.now)
    }

    /// A fetch does not take what ends within the millisecond that waiting consumers have, nor does
    /// a return give it to them a second time.
    fn may_expire(&self, call: &Call, id: EntryId) -> bool {
        let returns = matches!(call, Call::Requeue(..) | Call::Detach(..) | Call::Deadline);
        let grace = Millis(u64::from(*call == Call::Get || returns));
        self.items[&id]
            .expires_at
            .is_some_and(|at| at <= self.now + grace)
    }

    pub(crate) fn delivered(&mut self, call: &Call, delivery: &Delivery<u64>) {
        let id = delivery.entry;
        assert_eq!(self.order().first(), Some(&id), "not the next message");
        assert!(!self.expired(id), "an expired message is delivered");
        assert_eq!(delivery.content, id.0);
        let item = &self.items[&id];
        let counts = (item.delivery_count, item.acquired_count);
        assert_eq!((delivery.delivery_count, delivery.acquired_count), counts);
        assert_eq!(delivery.redelivered, item.acquired_count > 0);
        match delivery.consumer {
            None => assert_eq!(*call, Call::Get),
            Some(consumer) => {
                let open = self.open();
                assert!(
                    open.contains(&consumer),
                    "no credit, paused or not the active one"
                );
                let client = &self.clients[&consumer];
                assert_eq!(
                    (client.holder, client.no_ack),
                    (delivery.holder, delivery.no_ack)
                );
                let highest = open.iter().map(|id| self.clients[id].priority).max();
                assert_eq!(
                    Some(client.priority),
                    highest,
                    "a higher priority was passed over"
                );
            }
        }
        if delivery.no_ack {
            self.items.remove(&id);
            return;
        }
        let (holder, consumer, since) = (delivery.holder, delivery.consumer, self.now);
        let item = self.items.get_mut(&id).expect("live");
        item.giver = Some((holder, consumer));
        item.place = Where::Held {
            holder,
            consumer,
            since,
        };
    }

    fn is_held(&self, id: EntryId) -> bool {
        matches!(self.items[&id].place, Where::Held { .. })
    }

    fn gone(&mut self, call: &Call, id: EntryId, why: Gone) {
        let reason = match why {
            Gone::Acked => {
                assert!(matches!(call, Call::Ack(ids) if ids.contains(&id)));
                assert!(self.is_held(id));
                None
            }
            Gone::Purged => {
                assert_eq!(*call, Call::Purge);
                assert!(!self.is_held(id));
                None
            }
            Gone::DeadLettered => {
                assert_eq!(*call, Call::DeadLetterDone(id));
                assert_eq!(self.items[&id].place, Where::Dead);
                None
            }
            Gone::DeadLetterDropped => {
                assert_eq!(*call, Call::Reconfigure);
                assert_eq!(self.items[&id].place, Where::Dead);
                None
            }
            Gone::Discarded => Some(DeathReason::Rejected),
            Gone::Expired => Some(DeathReason::Expired),
            Gone::MaxLength => Some(DeathReason::MaxLength),
            Gone::DeliveryLimit => Some(DeathReason::DeliveryLimit),
        };
        if let Some(reason) = reason {
            assert_eq!(self.settings.dead_letter_exchange, None);
            self.may_die(call, id, reason);
        }
        self.sent.retain(|sent| *sent != id);
        self.resting.remove(&id);
        self.items.remove(&id);
    }

    /// Whether a live message may die so, now; its counts follow.
    fn may_die(&mut self, call: &Call, id: EntryId, reason: DeathReason) {
        match reason {
            DeathReason::Expired => {
                let is_ready = matches!(self.items[&id].place, Where::Ready | Where::Returned(_));
                let anywhere = self.settings.expire_anywhere && is_ready;
                assert!(
                    self.may_expire(call, id) && (anywhere || self.heads().contains(&id)),
                    "no expired head"
                );
            }
            DeathReason::MaxLength => {
                assert!(
                    self.drops_heads() && self.over_limit(0, 0),
                    "not over the limit"
                );
                assert_eq!(self.order().first(), Some(&id), "not the head");
                assert!(
                    self.open().is_empty() || self.may_step_down(),
                    "could be delivered"
                );
            }
            DeathReason::Rejected => {
                let Call::Discard(ids, counts) = call else {
                    panic!("rejected by {call:?}")
                };
                assert!(ids.contains(&id) && self.is_held(id));
                let item = self.items.get_mut(&id).expect("live");
                let always = self.settings.delivery_limit_counts == DeliveryLimitCounts::Returns;
                item.acquired_count += u32::from(always || *counts);
                item.delivery_count += u32::from(*counts);
            }
            DeathReason::DeliveryLimit => {
                self.count_return(call, id);
                let delivery_count = self.items[&id].delivery_count;
                assert!(
                    self.settings
                        .delivery_limit
                        .is_some_and(|limit| delivery_count > limit)
                );
            }
        }
    }

    fn dead_lettered(
        &mut self,
        call: &Call,
        id: EntryId,
        reason: DeathReason,
        counts: (u32, u32),
        kept: bool,
    ) {
        assert!(self.settings.dead_letter_exchange.is_some());
        let at_least_once = self.settings.dead_letter_strategy == DeadLetterStrategy::AtLeastOnce;
        if *call == Call::Enqueue(id) && !self.items.contains_key(&id) {
            // The new message itself, which is refused next.
            assert_eq!(
                (self.settings.overflow, kept),
                (Overflow::RejectPublishDlx, false)
            );
            assert_eq!(reason, DeathReason::MaxLength);
            return;
        }
        // What is kept died before.
        assert_eq!(kept, self.items[&id].place == Where::Dead);
        if !kept {
            self.may_die(call, id, reason);
        }
        let item = self.items.get_mut(&id).expect("live");
        assert_eq!(counts, (item.delivery_count, item.acquired_count));
        if kept {
            assert!(at_least_once);
            assert!(!self.sent.contains(&id), "published twice");
            self.resting.remove(&id);
            self.sent.push(id);
            assert!(self.sent.len() <= DEAD_LETTERS_IN_FLIGHT_MAX);
        } else {
            assert!(!at_least_once || reason == DeathReason::MaxLength);
            self.items.remove(&id);
        }
    }

    fn cause(&self, call: &Call, id: EntryId) -> ReturnCause {
        let Where::Held { holder, since, .. } = self.items[&id].place else {
            panic!("{id:?} was not held")
        };
        match call {
            Call::Requeue(ids, cause) if ids.contains(&id) => *cause,
            Call::Detach(gone, cause) if *gone == holder => *cause,
            Call::Deadline => {
                let timeout_ms = self.timeout_ms().expect("a timeout");
                assert!(since + Millis(timeout_ms) <= self.now, "not late yet");
                ReturnCause::Timeout
            }
            other => panic!("{id:?} returned by {other:?}"),
        }
    }

    fn timeout_ms(&self) -> Option<u64> {
        self.settings
            .consumer_timeout_ms
            .map(|timeout_ms| timeout_ms.max(1))
    }

    fn count_return(&mut self, call: &Call, id: EntryId) -> ReturnCause {
        let cause = self.cause(call, id);
        let failure = matches!(
            cause,
            ReturnCause::Reject | ReturnCause::ChannelClosed | ReturnCause::ConnectionLost
        );
        let counts = self.settings.delivery_limit_counts == DeliveryLimitCounts::Returns || failure;
        let item = self.items.get_mut(&id).expect("live");
        item.acquired_count += 1;
        item.delivery_count += u32::from(counts);
        self.count_towards_poison(id);
        cause
    }

    /// A loop is told when the returns in a row by one consumer are one too many. Plays are much
    /// shorter than the minute after which the count begins anew.
    fn count_towards_poison(&mut self, id: EntryId) {
        let item = self.items.get_mut(&id).expect("live");
        let giver = item.giver.expect("somebody had it");
        item.givers.push(giver);
        let in_a_row = item.givers.iter().rev().take_while(|by| **by == giver);
        let in_a_row = in_a_row.count() as u32;
        let told = self.poison.take().is_some_and(|told| told == id);
        let limit = self.settings.poison_loop_returns;
        let is_loop = limit.is_some_and(|limit| in_a_row == limit + 1);
        assert_eq!(told, is_loop, "{in_a_row} returns by one consumer");
    }

    fn returned(&mut self, call: &Call, id: EntryId, counts: (u32, u32), until: Option<Timestamp>) {
        let cause = self.count_return(call, id);
        let delivery_count = self.items[&id].delivery_count;
        assert_eq!(counts, (delivery_count, self.items[&id].acquired_count));
        assert!(
            self.settings
                .delivery_limit
                .is_none_or(|limit| delivery_count <= limit)
        );
        match (until, self.retry_within(cause, delivery_count)) {
            (None, None) => {}
            (Some(until), Some((from, to))) => assert!((from..=to).contains(&until)),
            (until, wanted) => panic!("held back until {until:?}, wanted {wanted:?}"),
        }
        self.come_back(id, until);
    }

    pub(crate) fn come_back(&mut self, id: EntryId, until: Option<Timestamp>) {
        self.returns += 1;
        let item = self.items.get_mut(&id).expect("live");
        item.turn = self.returns;
        item.place = until.map_or(Where::Returned(self.returns), Where::Delayed);
    }

    /// The first and the last moment at which a return may be ready again.
    fn retry_within(
        &self,
        cause: ReturnCause,
        delivery_count: u32,
    ) -> Option<(Timestamp, Timestamp)> {
        let retry = self.settings.delayed_retry?;
        let failure = matches!(
            cause,
            ReturnCause::Reject | ReturnCause::ChannelClosed | ReturnCause::ConnectionLost
        );
        let waits = match retry.kind {
            DelayedRetryKind::All => true,
            DelayedRetryKind::Failed => failure,
            DelayedRetryKind::Returned => !failure,
        };
        let times = delivery_count.max(1);
        let mut delay = retry.min_ms as f64;
        match retry.multiplier_permille {
            None => delay *= f64::from(times),
            Some(permille) => (1..times).for_each(|_| delay *= f64::from(permille) / 1000.0),
        }
        let longest = (delay as u64).min(retry.max_ms);
        let jitter = longest * u64::from(retry.jitter_percent) / 100;
        // Two ways of multiplying may differ by the last millisecond.
        let rounding = u64::from(retry.multiplier_permille.is_some());
        let shortest = (longest - jitter).saturating_sub(rounding);
        waits.then(|| {
            (
                self.now + Millis(shortest),
                self.now + Millis(longest + rounding),
            )
        })
    }

    /// Delays that are over end, in order of their moments; the machine tells nothing about it.
    pub(crate) fn end_delays(&mut self) {
        let mut due: Vec<(Timestamp, u64, EntryId)> = self
            .items
            .iter()
            .filter_map(|(id, item)| match item.place {
                Where::Delayed(at) if at <= self.now => Some((at, item.turn, *id)),
                _ => None,
            })
            .collect();
        due.sort_unstable();
        for (_, _, id) in due {
            self.come_back(id, None);
        }
    }

    /// What must not be left after the queue was told the time.
    pub(crate) fn assert_nothing_due(&self) {
        let watched = match self.settings.expire_anywhere {
            true => self.order(),
            false => self.heads(),
        };
        for id in watched {
            assert!(!self.expired(id), "{id:?} has expired and is there");
        }
        for (id, item) in &self.items {
            if let (Where::Held { since, .. }, Some(timeout_ms)) = (item.place, self.timeout_ms()) {
                assert!(
                    since + Millis(timeout_ms) > self.now,
                    "{id:?} is late and held"
                );
            }
        }
    }
}
