//! Stories about a queue as text, and the one function that plays them.
//!
//! A line is a command, and after `=>` what has to come of it; `-` is nothing, and without `=>` it does
//! not matter. Commands hand out what they make possible, save `enqueue` and `settle`-like ones
//! on paused consumers. Effects are written as:
//!
//! ```text
//! c1:a          delivered to consumer c1            c1:a*(2,3)    again: delivery count 2, acquired 3
//! h1:a          fetched by channel h1               a!acked       gone, and why
//! a~expired     dead-lettered once, and why         a~~expired    dead-lettered and kept
//! a~expired[bad]  with the application's reason
//! a^  a^+100    came back, held back for 100 ms     a/overflow    refused
//! a=expired     kept for its dead letter    poison(c1,a,11)   given back too often
//! late(c1,a,1,close)  timed out                     c1!cancelled  active(c1)  queue-expired
//! ```

use std::collections::BTreeMap;

use super::*;
use crate::names::ConsumerTag;
use crate::settings::{
    ConsumerTimeoutAction, DeadLetterStrategy, DelayedRetry, DelayedRetryKind, DeliveryLimitCounts,
    Overflow, QueueKind, QueueSettings, QuorumDefaults,
};
use crate::time::{Millis, Timestamp};

/// Plays a script; panics with the line that does not hold.
pub(super) fn check(script: &str) {
    let mut stage = Stage::new();
    for (number, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (command, expected) = match line.split_once("=>") {
            Some((command, expected)) => (command.trim(), Some(expected.trim())),
            None => (line, None),
        };
        let words: Vec<&str> = command.split_whitespace().collect();
        stage.play(&words);
        let seen = stage.transcript();
        if let Some(expected) = expected {
            let expected = if expected == "-" { "" } else { expected };
            assert_eq!(seen, expected, "line {}: {line}", number + 1);
        }
        stage.audit(line);
    }
}

struct Stage {
    now: Timestamp,
    queue: QueueMachine<String>,
    settings: QueueSettings,
    out: Effects<String>,
    seen: Vec<String>,
    ids: BTreeMap<String, EntryId>,
    consumers: BTreeMap<String, (ConsumerId, HolderId)>,
    holders: BTreeMap<String, HolderId>,
    last_id: u64,
    /// Deliveries that the consumers' tenants have room for; all, if none.
    room: Option<u64>,
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is no number"))
}

/// `key=value` words, and bare words as keys without value.
fn options<'a>(words: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    words
        .iter()
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .collect()
}

impl Stage {
    fn new() -> Self {
        let settings = QueueSettings::default();
        Self {
            now: Timestamp(1_000_000),
            queue: QueueMachine::new(QueueKind::Classic, &settings, Timestamp(1_000_000)),
            settings,
            out: Vec::new(),
            seen: Vec::new(),
            ids: BTreeMap::new(),
            consumers: BTreeMap::new(),
            holders: BTreeMap::new(),
            last_id: 0,
            room: None,
        }
    }

    fn play(&mut self, words: &[&str]) {
        let rest = &words[1..];
        match words[0] {
            "queue" => self.make_queue(rest),
            "settings" => {
                self.configure(rest);
                self.queue
                    .reconfigure(self.now, &self.settings, &mut self.out);
            }
            "enqueue" => return self.publish(rest),
            "publish" => self.publish(rest),
            "dispatch" => {}
            "room" => self.room = Some(number(rest[0])),
            "hand-out" => return self.dispatch(number(rest[0]) as u32),
            "consumer" => self.consume(rest),
            "refused-consumer" => self.refused_consumer(rest),
            "cancel" => {
                let (id, _) = self.consumers[rest[0]];
                assert!(self.queue.remove_consumer(self.now, id, &mut self.out));
            }
            "close" => self.detach(rest[0], ReturnCause::ChannelClosed),
            "lose" => self.detach(rest[0], ReturnCause::ConnectionLost),
            "node-down" => self.detach(rest[0], ReturnCause::NodeDown),
            "pause" => self.queue.pause(self.consumers[rest[0]].0, pause(rest[1])),
            "resume" => drop(self.queue.resume(self.consumers[rest[0]].0, pause(rest[1]))),
            "byte-credit" => {
                let bytes = (rest[0] != "none").then(|| number(rest[0]));
                self.queue.set_byte_credit(bytes);
            }
            "ack" => self.settle(rest, Settlement::Ack),
            "nack" => self.settle(rest, Settlement::Requeue(ReturnCause::Nack)),
            "reject" => self.settle(rest, Settlement::Requeue(ReturnCause::Reject)),
            "recover" => self.settle(rest, Settlement::Requeue(ReturnCause::Recover)),
            "discard" => self.settle(rest, Settlement::Discard(DiscardCause::Reject)),
            "nack-discard" => self.settle(rest, Settlement::Discard(DiscardCause::Nack)),
            "late-ack" => self.late_ack(rest),
            "get" => return self.get(rest),
            "extend" => {
                let (holder, id) = (self.holder(rest[0]), self.ids[rest[1]]);
                assert!(self.queue.extend(self.now, holder, id));
            }
            "reason" => {
                let (holder, id) = (self.holder(rest[0]), self.ids[rest[1]]);
                assert!(self.queue.note_reason(holder, id, rest[2]));
            }
            "retry-dead-letters" => self.queue.retry_dead_letters(&mut self.out),
            "touch" => self.queue.touch(self.now, Use::Declare),
            "advance" => self.advance(number(rest[0])),
            "purge" => drop(self.queue.purge(u32::MAX, &mut self.out)),
            "dead-lettered" => {
                let ids: Vec<_> = rest.iter().map(|name| self.ids[*name]).collect();
                self.queue.dead_lettered(&ids, &mut self.out);
            }
            "dead-letter-failed" => {
                let ids: Vec<_> = rest.iter().map(|name| self.ids[*name]).collect();
                self.queue.dead_letter_failed(self.now, &ids, &mut self.out);
            }
            "restore" => {
                for name in rest {
                    let entry = self.entry(name);
                    assert!(self.queue.restore(entry));
                }
                return;
            }
            "forget" => {
                let ids: Vec<_> = rest.iter().map(|name| self.ids[*name]).collect();
                let mut gone = Vec::new();
                self.queue.forget(&ids, &mut gone);
                assert_eq!(gone, rest);
                return;
            }
            "returned" => {
                let (delivered, acquired) = (number(rest[1]) as u32, number(rest[2]) as u32);
                let until = rest.get(3).map(|span| self.now + Millis(number(span)));
                let id = self.ids[rest[0]];
                assert!(self.queue.returned(id, delivered, acquired, until));
                return;
            }
            "maybe-acquired" => {
                self.queue.maybe_acquired(self.ids[rest[0]]);
                return;
            }
            "hold-again" => {
                let holder = self.holder(rest[0]);
                let ids: Vec<_> = rest[1..].iter().map(|name| self.ids[*name]).collect();
                let held = self.queue.hold_again(self.now, holder, None, &ids);
                assert_eq!(held as usize, ids.len());
                return;
            }
            "expect" => return self.expect(rest),
            "order" => return self.order(rest),
            other => panic!("no command {other}"),
        }
        self.dispatch(u32::MAX);
    }

    fn make_queue(&mut self, words: &[&str]) {
        let kind = match words[0] {
            "classic" => QueueKind::Classic,
            "quorum" => QueueKind::Quorum,
            other => panic!("no kind {other}"),
        };
        self.settings = QueueSettings::of_kind(kind, &QuorumDefaults::default());
        self.configure(&words[1..]);
        self.queue = QueueMachine::new(kind, &self.settings, self.now);
    }

    fn configure(&mut self, words: &[&str]) {
        let limit = |value: &str| (value != "none").then(|| number(value));
        let s = &mut self.settings;
        for (key, value) in options(words) {
            match key {
                "ttl" => s.message_ttl_ms = limit(value),
                "expires" => s.expires_ms = limit(value),
                "max-length" => s.max_length = limit(value),
                "max-bytes" => s.max_length_bytes = limit(value),
                "max-priority" => s.max_priority = Some(number(value) as u8),
                "overflow" => s.overflow = Overflow::parse(value).expect(value),
                "dlx" => s.dead_letter_exchange = (value != "none").then(|| value.into()),
                "at-least-once" => s.dead_letter_strategy = DeadLetterStrategy::AtLeastOnce,
                "at-most-once" => s.dead_letter_strategy = DeadLetterStrategy::AtMostOnce,
                "sac" => s.single_active_consumer = true,
                "delivery-limit" => s.delivery_limit = limit(value).map(|limit| limit as u32),
                "counts" => {
                    s.delivery_limit_counts = DeliveryLimitCounts::parse(value).expect(value);
                }
                "timeout" => s.consumer_timeout_ms = limit(value),
                "expire-anywhere" => s.expire_anywhere = value != "no",
                "poison" => s.poison_loop_returns = limit(value).map(|limit| limit as u32),
                "action" => {
                    s.consumer_timeout_action = ConsumerTimeoutAction::parse(value).expect(value);
                }
                "retry" if value == "none" => s.delayed_retry = None,
                "retry" => {
                    let parts: Vec<&str> = value.split(',').collect();
                    let kind = DelayedRetryKind::parse(parts[0]).expect(value);
                    let (min_ms, max_ms) = (number(parts[1]), number(parts[2]));
                    s.delayed_retry = Some(DelayedRetry {
                        kind,
                        min_ms,
                        max_ms,
                        multiplier_permille: parts.get(3).map(|n| number(n) as u32),
                        jitter_percent: parts.get(4).map_or(0, |n| number(n) as u8),
                    });
                }
                other => panic!("no setting {other}"),
            }
        }
    }

    fn holder(&mut self, name: &str) -> HolderId {
        let next = HolderId(self.holders.len() as u64 + 1);
        *self.holders.entry(name.to_owned()).or_insert(next)
    }

    fn entry(&mut self, name: &str) -> Entry<String> {
        self.last_id += 7;
        let id = EntryId(self.last_id);
        self.ids.insert(name.to_owned(), id);
        Entry::new(id, name.to_owned(), 1)
    }

    fn publish(&mut self, words: &[&str]) {
        let names: Vec<&&str> = words.iter().filter(|word| !word.contains('=')).collect();
        for name in names {
            let mut entry = self.entry(name);
            for (key, value) in options(words) {
                match key {
                    "priority" => entry.priority = Some(number(value) as u8),
                    "ttl" => entry.expires_at = Some(self.now + Millis(number(value))),
                    "bytes" => entry.bytes = number(value) as u32,
                    "delivered" => entry.delivery_count = number(value) as u32,
                    "acquired" => entry.acquired_count = number(value) as u32,
                    _ => {}
                }
            }
            self.queue.enqueue(self.now, entry, &mut self.out);
        }
    }

    fn dispatch(&mut self, messages: u32) {
        let mut budget = DispatchBudget {
            messages,
            bytes: u64::MAX,
        };
        let Some(room) = &mut self.room else {
            self.queue.dispatch(self.now, &mut budget, &mut self.out);
            return;
        };
        let mut may_take = |_, _| {
            let has_room = *room > 0;
            *room = room.saturating_sub(1);
            has_room
        };
        let queue = &mut self.queue;
        queue.dispatch_asking(self.now, &mut budget, &mut self.out, &mut may_take);
    }

    fn consumer(&mut self, words: &[&str]) -> Consumer {
        let name = words[0];
        let id = ConsumerId(self.consumers.len() as u64 + 100);
        let holder = options(words).into_iter().find(|(key, _)| *key == "on");
        let holder = self.holder(holder.map_or(name, |(_, holder)| holder));
        let mut consumer = Consumer::new(id, holder, ConsumerTag::new(name));
        for (key, value) in options(&words[1..]) {
            match key {
                "prefetch" => consumer.prefetch = number(value) as u16,
                "priority" => consumer.priority = value.parse().expect(value),
                "exclusive" => consumer.exclusive = true,
                "no-ack" => consumer.no_ack = true,
                "timeout" => consumer.timeout_ms = Some(number(value)),
                "deaf" => consumer.cancel_notify = false,
                "paused" => consumer.paused = pause(value),
                "on" => {}
                other => panic!("no option {other}"),
            }
        }
        self.consumers.insert(name.to_owned(), (id, holder));
        consumer
    }

    fn consume(&mut self, words: &[&str]) {
        let consumer = self.consumer(words);
        let added = self.queue.add_consumer(self.now, consumer, &mut self.out);
        assert_eq!(added, Ok(()), "{words:?}");
    }

    fn refused_consumer(&mut self, words: &[&str]) {
        let consumer = self.consumer(words);
        let added = self.queue.add_consumer(self.now, consumer, &mut self.out);
        assert_eq!(added, Err(QueueFault::ExclusiveUse), "{words:?}");
    }

    fn detach(&mut self, holder: &str, cause: ReturnCause) {
        let holder = self.holder(holder);
        self.queue.detach(self.now, holder, cause, &mut self.out);
    }

    fn settle(&mut self, names: &[&str], how: Settlement) {
        let ids: Vec<_> = names.iter().map(|name| self.ids[*name]).collect();
        let mut from = 0;
        while from < ids.len() {
            let holder = self.who_holds(ids[from]);
            let same = ids[from..]
                .iter()
                .take_while(|id| self.who_holds(**id) == holder)
                .count();
            let to = from + same;
            let settled = self
                .queue
                .settle(self.now, holder, &ids[from..to], how, &mut self.out);
            assert_eq!(settled as usize, same);
            from = to;
        }
    }

    fn who_holds(&self, id: EntryId) -> HolderId {
        match self.queue.entry(id).map(|entry| entry.state) {
            Some(EntryState::Unacked { holder, .. }) => holder,
            other => panic!("{id:?} is {other:?}"),
        }
    }

    fn late_ack(&mut self, words: &[&str]) {
        let (holder, id) = (self.holder(words[0]), self.ids[words[1]]);
        let late_before = self.queue.counts().late_settles;
        let ids = [id];
        assert_eq!(
            self.queue
                .settle(self.now, holder, &ids, Settlement::Ack, &mut self.out),
            0
        );
        assert_eq!(self.queue.counts().late_settles, late_before + 1);
    }

    fn get(&mut self, words: &[&str]) {
        let holder = self.holder(words[0]);
        let no_ack = words.contains(&"no-ack");
        match self.queue.get(self.now, holder, no_ack, &mut self.out) {
            Ok(Some(got)) => {
                assert_eq!(got.ready_left, self.queue.counts().ready);
                let got = self.show(&Effect::Deliver(got.delivery));
                // Heads that had expired went first.
                self.transcribe();
                self.seen.push(got);
            }
            Ok(None) => self.seen.push("empty".to_owned()),
            Err(fault) => self.seen.push(format!("{fault:?}")),
        }
    }

    fn advance(&mut self, span_ms: u64) {
        let end = self.now + Millis(span_ms);
        while let Some(due) = self.queue.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.queue.on_deadline(self.now, &mut self.out);
            assert_ne!(self.queue.next_deadline(), Some(due), "the deadline stays");
            self.dispatch(u32::MAX);
        }
        self.now = end;
    }

    fn expect(&mut self, words: &[&str]) {
        let counts = self.queue.counts();
        for pair in words.chunks(2) {
            let seen = match pair[0] {
                "ready" => counts.ready,
                "ready-bytes" => counts.ready_bytes,
                "unacked" => counts.unacked,
                "unacked-bytes" => counts.unacked_bytes,
                "returned" => counts.returned,
                "delayed" => counts.delayed,
                "dead-lettering" => counts.dead_lettering,
                "messages" => counts.messages(),
                "consumers" => counts.consumers,
                "had-consumers" => u64::from(counts.had_consumers),
                "late" => counts.late_settles,
                other => panic!("no count {other}"),
            };
            assert_eq!(seen, number(pair[1]), "{pair:?}: {counts:?}");
        }
    }

    /// The order in which all that is ready is fetched, without taking it: on a copy of what the
    /// queue would hand to a consumer with no acks.
    fn order(&mut self, words: &[&str]) {
        let holder = HolderId(u64::MAX);
        let mut names = Vec::new();
        while let Ok(Some(got)) = self.queue.get(self.now, holder, true, &mut self.out) {
            names.push(got.delivery.content);
        }
        assert_eq!(names, words, "order");
    }

    fn transcribe(&mut self) {
        let effects = std::mem::take(&mut self.out);
        for effect in &effects {
            let shown = self.show(effect);
            self.seen.push(shown);
        }
    }

    fn transcript(&mut self) -> String {
        self.transcribe();
        std::mem::take(&mut self.seen).join(" ")
    }

    fn consumer_name(&self, id: ConsumerId) -> &str {
        let found = self
            .consumers
            .iter()
            .find(|(_, (consumer, _))| *consumer == id);
        found.map_or("?", |(name, _)| name)
    }

    fn holder_name(&self, id: HolderId) -> &str {
        let found = self.holders.iter().find(|(_, holder)| **holder == id);
        found.map_or("?", |(name, _)| name)
    }

    fn entry_name(&self, id: EntryId) -> &str {
        let found = self.ids.iter().find(|(_, entry)| **entry == id);
        found.map_or("?", |(name, _)| name)
    }

    fn show(&self, effect: &Effect<String>) -> String {
        match effect {
            Effect::Deliver(delivery) => self.show_delivery(delivery),
            Effect::Refused { content, why, .. } => {
                format!("{content}/{}", format!("{why:?}").to_lowercase())
            }
            Effect::Forget { content, why, .. } => {
                format!("{content}!{}", format!("{why:?}").to_lowercase())
            }
            Effect::DeadLetter {
                content,
                reason,
                kept,
                delivery_count,
                acquired_count,
                past,
                ..
            } => {
                let how = if *kept { "~~" } else { "~" };
                let counts = match (delivery_count, acquired_count) {
                    (0, 0) => String::new(),
                    (delivered, acquired) => format!("({delivered},{acquired})"),
                };
                let said = past.as_ref().and_then(|past| past.reason.as_deref());
                let said = said.map_or(String::new(), |said| format!("[{said}]"));
                format!("{content}{how}{}{counts}{said}", reason.name())
            }
            Effect::KeptDead { id, reason, .. } => {
                format!("{}={}", self.entry_name(*id), reason.name())
            }
            Effect::PoisonLoop {
                id,
                holder,
                consumer,
                returns,
            } => {
                let who = consumer.as_ref().map(ConsumerTag::as_str);
                let who = who.unwrap_or_else(|| self.holder_name(*holder));
                format!("poison({who},{},{returns})", self.entry_name(*id))
            }
            Effect::Returned { id, until, .. } => {
                let name = self.entry_name(*id);
                match until {
                    Some(until) => format!("{name}^+{}", until.since(self.now).0),
                    None => format!("{name}^"),
                }
            }
            Effect::ConsumerCancelled { consumer, .. } => {
                format!("{}!cancelled", self.consumer_name(*consumer))
            }
            Effect::TimedOut(late) => {
                let who = late.consumer.map(|consumer| self.consumer_name(consumer));
                let who = who.unwrap_or_else(|| self.holder_name(late.holder));
                let action = match late.action {
                    TimeoutAction::CloseChannel => "close",
                    TimeoutAction::CancelConsumer => "cancel",
                    TimeoutAction::ReturnOnly => "return",
                };
                format!(
                    "late({who},{},{},{action})",
                    self.entry_name(late.entry),
                    late.overdue
                )
            }
            Effect::ActiveConsumer { consumer } => {
                let name = consumer.map_or("none", |consumer| self.consumer_name(consumer));
                format!("active({name})")
            }
            Effect::QueueExpired => "queue-expired".to_owned(),
        }
    }

    fn show_delivery(&self, delivery: &Delivery<String>) -> String {
        let who = delivery
            .consumer
            .map(|consumer| self.consumer_name(consumer));
        let who = who.unwrap_or_else(|| self.holder_name(delivery.holder));
        let again = match delivery.redelivered {
            true => format!("*({},{})", delivery.delivery_count, delivery.acquired_count),
            false => String::new(),
        };
        format!("{who}:{}{again}", delivery.content)
    }

    /// What holds after every line: counts are the sums of what is there.
    fn audit(&self, line: &str) {
        let counts = self.queue.counts();
        let (mut ready, mut unacked, mut delayed, mut dead) = (0, 0, 0, 0);
        for entry in self.queue.live_from(EntryId(0)) {
            match entry.state {
                EntryState::Ready => ready += 1,
                EntryState::Unacked { .. } => unacked += 1,
                EntryState::Delayed { .. } => delayed += 1,
                EntryState::DeadLettering { .. } => dead += 1,
            }
        }
        let seen = (
            counts.ready,
            counts.unacked,
            counts.delayed,
            counts.dead_lettering,
        );
        assert_eq!(seen, (ready, unacked, delayed, dead), "after {line}");
        let held: u32 = self.queue.consumers().map(|view| view.unacked).sum();
        assert!(u64::from(held) <= unacked, "after {line}");
    }
}

fn pause(word: &str) -> Pause {
    match word {
        "window" => Pause::WINDOW,
        "flow" => Pause::CHANNEL_FLOW,
        "memory" => Pause::MEMORY,
        "tenant" => Pause::TENANT,
        other => panic!("no reason {other}"),
    }
}
