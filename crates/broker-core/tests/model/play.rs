//! Random calls, made to the machine and judged by the naive queue.

use broker_core::names::ConsumerTag;
use broker_core::queue::{
    Consumer, ConsumerId, DiscardCause, DispatchBudget, DispatchEnd, Effect, Effects, Entry,
    EntryId, EntryState, HolderId, Pause, QueueMachine, ReturnCause, Settlement,
};
use broker_core::settings::{Overflow, QueueKind, QueueSettings};
use broker_core::time::{Millis, Timestamp};
use proptest::sample::Index;

use super::naive::{Call, Client, Item, Naive, Where};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Enqueue {
        count: u8,
        priority: Option<u8>,
        ttl_ms: Option<u64>,
        bytes: u32,
    },
    Dispatch {
        messages: u32,
    },
    Consume {
        holder: u64,
        prefetch: u16,
        priority: i64,
        no_ack: bool,
        cancel_notify: bool,
    },
    Pause {
        which: Index,
        flow: bool,
    },
    Resume {
        which: Index,
        flow: bool,
    },
    Cancel(Index),
    Detach {
        holder: u64,
        cause: u8,
    },
    Settle {
        which: Vec<Index>,
        how: u8,
    },
    Get {
        holder: u64,
        no_ack: bool,
    },
    Advance(u64),
    Purge(u32),
    Reconfigure {
        max_length: Option<u64>,
        dlx: bool,
        expire_anywhere: bool,
        timeout_ms: Option<u64>,
    },
    DeadLetterDone {
        which: Index,
        stored: bool,
    },
    Forget(Vec<Index>),
    HoldAgain {
        holder: u64,
        which: Vec<Index>,
    },
    Touch {
        which: Index,
        extend: bool,
    },
}

pub(crate) struct Play {
    queue: QueueMachine<u64>,
    naive: Naive,
    out: Effects<u64>,
    last_id: u64,
    last_consumer: u64,
}

impl Play {
    pub(crate) fn new(kind: QueueKind, settings: QueueSettings) -> Self {
        let now = Timestamp(1000);
        Self {
            queue: QueueMachine::new(kind, &settings, now),
            naive: Naive::new(kind, settings, now),
            out: Vec::new(),
            last_id: 0,
            last_consumer: 0,
        }
    }

    pub(crate) fn run(mut self, ops: Vec<Op>) {
        for op in ops {
            self.play(op);
            self.compare();
        }
        // At the end everybody goes and all is purged: nothing may be left.
        for holder in 0..4 {
            self.detach(HolderId(holder), ReturnCause::ConnectionLost);
        }
        while self.queue.purge(3, &mut self.out) == 3 {}
        self.judge(&Call::Purge);
        self.compare();
        assert_eq!(self.queue.counts().messages(), 0);
        assert!(self.naive.items.is_empty());
    }

    fn judge(&mut self, call: &Call) {
        for effect in std::mem::take(&mut self.out) {
            self.naive.judge(call, &effect);
        }
    }

    fn play(&mut self, op: Op) {
        match op {
            Op::Enqueue {
                count,
                priority,
                ttl_ms,
                bytes,
            } => {
                for _ in 0..count.min(self.room()) {
                    self.enqueue(priority, ttl_ms, bytes);
                }
            }
            Op::Dispatch { messages } => self.dispatch(messages),
            Op::Consume {
                holder,
                prefetch,
                priority,
                no_ack,
                cancel_notify,
            } => {
                let (window, flow, late) = (false, false, false);
                let holder = HolderId(holder);
                self.consume(Client {
                    holder,
                    prefetch,
                    priority,
                    no_ack,
                    cancel_notify,
                    window,
                    flow,
                    late,
                });
            }
            Op::Pause { which, flow } => self.pause(which, flow, true),
            Op::Resume { which, flow } => self.pause(which, flow, false),
            Op::Cancel(which) => self.cancel(which),
            Op::Detach { holder, cause } => {
                let causes = [
                    ReturnCause::ChannelClosed,
                    ReturnCause::ConnectionLost,
                    ReturnCause::NodeDown,
                ];
                self.detach(HolderId(holder), causes[usize::from(cause)]);
            }
            Op::Settle { which, how } => self.settle(&which, how),
            Op::Get { holder, no_ack } => self.get(HolderId(holder), no_ack),
            Op::Advance(span_ms) => self.advance(span_ms),
            Op::Purge(max) => self.purge(max),
            Op::Reconfigure {
                max_length,
                dlx,
                expire_anywhere,
                timeout_ms,
            } => {
                self.naive.settings.expire_anywhere = expire_anywhere;
                self.naive.settings.consumer_timeout_ms = timeout_ms;
                self.reconfigure(max_length, dlx);
            }
            Op::DeadLetterDone { which, stored } => self.dead_letter_done(which, stored),
            Op::Forget(which) => self.forget(&which),
            Op::HoldAgain { holder, which } => self.hold_again(HolderId(holder), &which),
            Op::Touch { which, extend } => self.touch(which, extend),
        }
    }

    fn room(&self) -> u8 {
        1000usize
            .saturating_sub(self.naive.items.len())
            .min(u8::MAX.into()) as u8
    }

    fn enqueue(&mut self, priority: Option<u8>, ttl_ms: Option<u64>, bytes: u32) {
        self.last_id += 3;
        let id = EntryId(self.last_id);
        let now = self.naive.now;
        let mut entry = Entry::new(id, id.0, bytes);
        entry.priority = priority;
        entry.expires_at = ttl_ms.map(|ttl| now + Millis(ttl));
        let item = Item {
            level: self.naive.level(priority),
            bytes,
            expires_at: self.naive.expiry(entry.expires_at),
            delivery_count: 0,
            acquired_count: 0,
            givers: Vec::new(),
            giver: None,
            turn: 0,
            place: Where::Ready,
        };
        self.queue.enqueue(now, entry, &mut self.out);
        // The machine makes room before it takes the message when it refuses, and after it when
        // it drops heads; an early look at the new message would judge the first wrongly.
        let refused = self
            .out
            .iter()
            .any(|effect| matches!(effect, Effect::Refused { .. }));
        let refuses = matches!(
            self.naive.settings.overflow,
            Overflow::RejectPublish | Overflow::RejectPublishDlx
        );
        let early = refuses
            && !(self.naive.kind == QueueKind::Quorum
                && self.naive.settings.overflow == Overflow::RejectPublishDlx);
        let call = Call::Enqueue(id);
        let effects = std::mem::take(&mut self.out);
        let mut taken = !early;
        if taken {
            self.naive.items.insert(id, item.clone());
        }
        for effect in &effects {
            // A refusing queue hands out first, then looks whether there is room.
            if !taken && !refused && !self.naive.over_limit(1, bytes.into()) {
                self.naive.items.insert(id, item.clone());
                taken = true;
            }
            self.naive.judge(&call, effect);
        }
        if !taken && !refused {
            self.naive.items.insert(id, item);
        }
        if early && refused {
            assert!(
                self.naive.over_limit(1, bytes.into()),
                "refused with room left"
            );
        } else if early {
            // What came back may be over the limit; what is published may not.
            assert!(!self.naive.over_limit(0, 0), "taken without room");
        }
    }

    fn dispatch(&mut self, messages: u32) {
        let mut budget = DispatchBudget {
            messages,
            bytes: u64::MAX,
        };
        let end = self
            .queue
            .dispatch(self.naive.now, &mut budget, &mut self.out);
        assert_eq!(budget.messages == 0, end == DispatchEnd::Budget);
        self.judge(&Call::Dispatch);
        if end != DispatchEnd::Budget {
            assert!(
                self.naive.is_exhausted(),
                "ready messages and open consumers are left"
            );
        }
    }

    fn consume(&mut self, client: Client) {
        if self.naive.closing.contains(&client.holder) {
            return;
        }
        self.last_consumer += 1;
        let id = ConsumerId(self.last_consumer);
        let mut consumer = Consumer::new(id, client.holder, ConsumerTag::new("c"));
        consumer.prefetch = client.prefetch;
        consumer.priority = client.priority;
        consumer.no_ack = client.no_ack;
        consumer.cancel_notify = client.cancel_notify;
        self.queue
            .add_consumer(self.naive.now, consumer, &mut self.out)
            .expect("not exclusive");
        self.naive.clients.insert(id, client);
        self.judge(&Call::Other);
    }

    fn pick_consumer(&self, which: Index) -> Option<ConsumerId> {
        let ids: Vec<ConsumerId> = self.naive.clients.keys().copied().collect();
        (!ids.is_empty()).then(|| *which.get(&ids))
    }

    fn pause(&mut self, which: Index, flow: bool, on: bool) {
        let Some(id) = self.pick_consumer(which) else {
            return;
        };
        let why = if flow {
            Pause::CHANNEL_FLOW
        } else {
            Pause::WINDOW
        };
        let client = self.naive.clients.get_mut(&id).expect("picked");
        match flow {
            true => client.flow = on,
            false => client.window = on,
        }
        match on {
            true => self.queue.pause(id, why),
            false => {
                self.queue.resume(id, why);
            }
        }
    }

    fn cancel(&mut self, which: Index) {
        let Some(id) = self.pick_consumer(which) else {
            return;
        };
        self.naive.end_consumer(id);
        assert!(
            self.queue
                .remove_consumer(self.naive.now, id, &mut self.out)
        );
        self.judge(&Call::Other);
    }

    fn detach(&mut self, holder: HolderId, cause: ReturnCause) {
        let of_channel: Vec<ConsumerId> = self
            .naive
            .clients
            .iter()
            .filter(|(_, client)| client.holder == holder)
            .map(|(id, _)| *id)
            .collect();
        for id in of_channel {
            self.naive.end_consumer(id);
        }
        self.naive.closing.remove(&holder);
        self.queue
            .detach(self.naive.now, holder, cause, &mut self.out);
        self.judge(&Call::Detach(holder, cause));
        let left = self
            .naive
            .items
            .values()
            .any(|item| matches!(item.place, Where::Held { holder: h, .. } if h == holder));
        assert!(!left, "a channel that is gone holds something");
    }

    fn settle(&mut self, which: &[Index], how: u8) {
        let held: Vec<(EntryId, HolderId)> = self
            .naive
            .items
            .iter()
            .filter_map(|(id, item)| match item.place {
                Where::Held { holder, .. } => Some((*id, holder)),
                _ => None,
            })
            .collect();
        if held.is_empty() {
            return;
        }
        let (_, holder) = *which[0].get(&held);
        // Some are of other channels, and some come twice: only the first of the right ones count.
        let ids: Vec<EntryId> = which.iter().map(|index| index.get(&held).0).collect();
        let mut right: Vec<EntryId> = held
            .iter()
            .filter(|(id, h)| *h == holder && ids.contains(id))
            .map(|(id, _)| *id)
            .collect();
        right.sort_unstable();
        let (how, call) = match how {
            0 | 1 => (Settlement::Ack, Call::Ack(right.clone())),
            2 => (
                Settlement::Discard(DiscardCause::Nack),
                Call::Discard(right.clone(), false),
            ),
            3 => (
                Settlement::Discard(DiscardCause::Reject),
                Call::Discard(right.clone(), true),
            ),
            other => {
                let causes = [ReturnCause::Nack, ReturnCause::Reject, ReturnCause::Recover];
                let cause = causes[usize::from(other) - 4];
                (
                    Settlement::Requeue(cause),
                    Call::Requeue(right.clone(), cause),
                )
            }
        };
        let late_before = self.queue.counts().late_settles;
        let settled = self
            .queue
            .settle(self.naive.now, holder, &ids, how, &mut self.out);
        assert_eq!(settled as usize, right.len());
        let late = self.queue.counts().late_settles - late_before;
        assert_eq!(late as usize, ids.len() - right.len());
        self.judge(&call);
        for id in right {
            let item = self.naive.items.get(&id);
            let again = item.is_some_and(|item| matches!(item.place, Where::Held { .. }));
            assert!(
                !again || matches!(how, Settlement::Requeue(_)),
                "settled and still held"
            );
        }
    }

    fn get(&mut self, holder: HolderId, no_ack: bool) {
        match self
            .queue
            .get(self.naive.now, holder, no_ack, &mut self.out)
        {
            Ok(Some(got)) => {
                self.judge(&Call::Get);
                assert_eq!((got.delivery.holder, got.delivery.no_ack), (holder, no_ack));
                self.naive.delivered(&Call::Get, &got.delivery);
                assert_eq!(got.ready_left, self.naive.ready().0);
            }
            Ok(None) => {
                self.judge(&Call::Get);
                assert!(self.naive.order().is_empty());
            }
            Err(_) => {
                assert!(self.naive.settings.single_active_consumer);
                assert_eq!(self.naive.kind, QueueKind::Quorum);
            }
        }
    }

    fn advance(&mut self, span_ms: u64) {
        let end = self.naive.now + Millis(span_ms);
        while let Some(due) = self.queue.next_deadline().filter(|due| *due <= end) {
            self.naive.now = self.naive.now.max(due);
            self.queue.on_deadline(self.naive.now, &mut self.out);
            // Delays end first, and silently.
            self.naive.end_delays();
            self.judge(&Call::Deadline);
            let next = self.queue.next_deadline();
            assert!(
                next.is_none_or(|next| next > self.naive.now),
                "work is left"
            );
        }
        self.naive.now = end;
        self.naive.assert_nothing_due();
    }

    fn purge(&mut self, max: u32) {
        let before = self.naive.items.len();
        let purged = self.queue.purge(max, &mut self.out);
        self.judge(&Call::Purge);
        assert_eq!(before - self.naive.items.len(), purged as usize);
        if purged < max {
            let held = self.naive.held().0 as usize;
            assert_eq!(self.naive.items.len(), held, "only what is held stays");
        }
    }

    fn reconfigure(&mut self, max_length: Option<u64>, dlx: bool) {
        self.naive.settings.max_length = max_length;
        self.naive.settings.dead_letter_exchange = dlx.then(|| "dlx".into());
        let settings = self.naive.settings.clone();
        self.queue
            .reconfigure(self.naive.now, &settings, &mut self.out);
        self.judge(&Call::Reconfigure);
    }

    fn dead_letter_done(&mut self, which: Index, stored: bool) {
        if self.naive.sent.is_empty() {
            return;
        }
        let id = *which.get(&self.naive.sent);
        match stored {
            true => self.queue.dead_lettered(&[id], &mut self.out),
            false => {
                self.naive.sent.retain(|sent| *sent != id);
                self.naive.resting.insert(id, self.naive.now);
                self.queue
                    .dead_letter_failed(self.naive.now, &[id], &mut self.out);
            }
        }
        self.judge(&Call::DeadLetterDone(id));
        assert_ne!(stored, self.naive.items.contains_key(&id));
    }

    fn pick_entries(&self, which: &[Index], wanted: impl Fn(Where) -> bool) -> Vec<EntryId> {
        let all: Vec<EntryId> = self
            .naive
            .items
            .iter()
            .filter(|(_, item)| wanted(item.place))
            .map(|(id, _)| *id)
            .collect();
        if all.is_empty() {
            return all;
        }
        let mut ids: Vec<EntryId> = which.iter().map(|index| *index.get(&all)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn forget(&mut self, which: &[Index]) {
        let ids = self.pick_entries(which, |_| true);
        let mut gone = Vec::new();
        self.queue.forget(&ids, &mut gone);
        assert_eq!(gone, ids.iter().map(|id| id.0).collect::<Vec<_>>());
        for id in ids {
            self.naive.items.remove(&id);
            self.naive.sent.retain(|sent| *sent != id);
            self.naive.resting.remove(&id);
        }
    }

    fn hold_again(&mut self, holder: HolderId, which: &[Index]) {
        // Without a message that was returned: it would keep two places in the line of returns.
        let ids = self.pick_entries(which, |place| place == Where::Ready);
        let held = self.queue.hold_again(self.naive.now, holder, None, &ids);
        assert_eq!(held as usize, ids.len());
        for id in ids {
            let (consumer, since) = (None, self.naive.now);
            let item = self.naive.items.get_mut(&id).expect("picked");
            item.giver = Some((holder, None));
            item.place = Where::Held {
                holder,
                consumer,
                since,
            };
        }
    }

    fn touch(&mut self, which: Index, extend: bool) {
        let now = self.naive.now;
        let held = self.pick_entries(&[which], |place| matches!(place, Where::Held { .. }));
        if let (Some(id), true) = (held.first(), extend) {
            let item = self.naive.items.get_mut(id).expect("picked");
            if let Where::Held { holder, since, .. } = &mut item.place {
                assert!(self.queue.extend(now, *holder, *id));
                *since = now;
            }
        }
        if let Some(id) = self.pick_entries(&[which], |_| true).first() {
            assert_eq!(self.queue.moved(*id, id.0), Some(id.0));
        }
    }

    /// The machine holds what the list holds.
    fn compare(&self) {
        let counts = self.queue.counts();
        assert_eq!((counts.ready, counts.ready_bytes), self.naive.ready());
        assert_eq!((counts.unacked, counts.unacked_bytes), self.naive.held());
        assert_eq!((counts.delayed, counts.delayed_bytes), self.naive.delayed());
        assert_eq!(
            (counts.dead_lettering, counts.dead_lettering_bytes),
            self.naive.dead()
        );
        assert_eq!(counts.consumers as usize, self.naive.clients.len());

        let live: Vec<_> = self.queue.live_from(EntryId(0)).collect();
        assert_eq!(live.len(), self.naive.items.len());
        for (view, (id, item)) in live.iter().zip(&self.naive.items) {
            assert_eq!(
                (view.id, view.bytes, view.priority),
                (*id, item.bytes, item.level)
            );
            assert_eq!(view.expires_at, item.expires_at);
            let counts = (item.delivery_count, item.acquired_count);
            assert_eq!((view.delivery_count, view.acquired_count), counts);
            assert!(
                is_state(view.state, item.place),
                "{id:?} is {:?}",
                view.state
            );
        }
        for view in self.queue.consumers() {
            let client = &self.naive.clients[&view.consumer.id];
            assert_eq!(
                u64::from(view.unacked),
                self.naive.unacked_of(view.consumer.id)
            );
            assert!(
                u64::from(view.unacked) <= self.naive.credit(client),
                "too much credit"
            );
        }
        let by_priority: u64 = self
            .queue
            .ready_by_priority()
            .map(|(_, messages)| messages)
            .sum();
        assert_eq!(by_priority + counts.returned, counts.ready);
    }
}

fn is_state(state: EntryState, place: Where) -> bool {
    match (state, place) {
        (EntryState::Ready, Where::Ready | Where::Returned(_)) => true,
        (EntryState::Delayed { until }, Where::Delayed(wanted)) => until == wanted,
        (EntryState::DeadLettering { .. }, Where::Dead) => true,
        (
            EntryState::Unacked {
                holder,
                consumer,
                since,
            },
            Where::Held {
                holder: wanted_holder,
                consumer: wanted_consumer,
                since: wanted_since,
            },
        ) => (holder, consumer, since) == (wanted_holder, wanted_consumer, wanted_since),
        _ => false,
    }
}
