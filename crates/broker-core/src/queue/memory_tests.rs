//! Memory follows what is live, whatever has passed through.

use super::*;
use crate::names::ConsumerTag;
use crate::settings::{QueueKind, QueueSettings};
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp(1);
const MANY: u64 = 100_000;

fn queue(kind: QueueKind) -> QueueMachine<u64> {
    QueueMachine::new(kind, &QueueSettings::default(), NOW)
}

fn fill(queue: &mut QueueMachine<u64>, ids: std::ops::Range<u64>) {
    let mut out = Vec::new();
    for id in ids {
        queue.enqueue(NOW, Entry::new(EntryId(id + 1), id, 10), &mut out);
    }
    assert!(out.is_empty());
}

fn deliver_all(queue: &mut QueueMachine<u64>) -> Vec<EntryId> {
    let mut out = Vec::new();
    let mut budget = DispatchBudget {
        messages: u32::MAX,
        bytes: u64::MAX,
    };
    queue.dispatch(NOW, &mut budget, &mut out);
    let delivered = out.iter().map(|effect| match effect {
        Effect::Deliver(delivery) => delivery.entry,
        other => panic!("{other:?}"),
    });
    delivered.collect()
}

fn consume(queue: &mut QueueMachine<u64>) {
    let consumer = Consumer::new(ConsumerId(1), HolderId(1), ConsumerTag::new("c"));
    queue
        .add_consumer(NOW, consumer, &mut Vec::new())
        .expect("the first consumer");
}

fn settle(queue: &mut QueueMachine<u64>, ids: &[EntryId], how: Settlement) {
    queue.settle(NOW, HolderId(1), ids, how, &mut Vec::new());
}

#[test]
fn an_idle_queue_takes_less_than_a_kibibyte() {
    assert!(queue(QueueKind::Quorum).memory_bytes() < 640);
    let mut queue = queue(QueueKind::Quorum);
    consume(&mut queue);
    fill(&mut queue, 0..MANY);
    while queue.purge(1000, &mut Vec::new()) == 1000 {}
    queue.remove_consumer(NOW, ConsumerId(1), &mut Vec::new());
    assert!(queue.memory_bytes() < 1024, "{}", queue.memory_bytes());
}

#[test]
fn a_message_that_waits_takes_24_bytes_and_an_unacked_one_96() {
    let mut queue = queue(QueueKind::Classic);
    fill(&mut queue, 0..MANY);
    let ready_bytes = queue.memory_bytes() as u64 / MANY;
    assert!(ready_bytes <= 24, "{ready_bytes}");
    consume(&mut queue);
    assert_eq!(deliver_all(&mut queue).len() as u64, MANY);
    let unacked_bytes = queue.memory_bytes() as u64 / MANY;
    assert!(unacked_bytes <= 96, "{unacked_bytes}");
}

#[test]
fn a_burst_leaves_nothing_behind_and_one_stuck_delivery_only_itself() {
    for how in [Settlement::Ack, Settlement::Discard(DiscardCause::Nack)] {
        let mut queue = queue(QueueKind::Classic);
        consume(&mut queue);
        fill(&mut queue, 0..MANY);
        let ids = deliver_all(&mut queue);
        for part in ids[1..].chunks(100) {
            settle(&mut queue, part, how);
        }
        assert_eq!(queue.counts().messages(), 1);
        assert!(queue.memory_bytes() < 16_384, "{}", queue.memory_bytes());
        settle(&mut queue, &ids[..1], how);
        assert!(queue.memory_bytes() < 4096, "{}", queue.memory_bytes());
    }
}

#[test]
fn what_passes_a_stuck_delivery_leaves_nothing_behind() {
    let mut queue = queue(QueueKind::Classic);
    consume(&mut queue);
    fill(&mut queue, 0..1);
    deliver_all(&mut queue);
    for round in 0..MANY / 100 {
        fill(&mut queue, 1 + round * 100..1 + (round + 1) * 100);
        let ids = deliver_all(&mut queue);
        // Some come back first, so that all lines are passed through.
        settle(
            &mut queue,
            &ids[..10],
            Settlement::Requeue(ReturnCause::Nack),
        );
        let again = deliver_all(&mut queue);
        settle(&mut queue, &ids[10..], Settlement::Ack);
        settle(&mut queue, &again, Settlement::Ack);
    }
    assert_eq!(queue.counts().messages(), 1);
    assert!(queue.memory_bytes() < 32_768, "{}", queue.memory_bytes());
}

#[test]
fn a_follower_forgets_as_its_leader_does_and_keeps_a_stuck_message_only() {
    let mut queue = queue(QueueKind::Quorum);
    let mut gone = Vec::new();
    for id in 0..MANY {
        assert!(queue.restore(Entry::new(EntryId(id + 1), id, 10)));
        if id % 10 == 0 {
            queue.returned(EntryId(id + 1), 1, 1, None);
        }
        if id > 100 {
            queue.forget(&[EntryId(id - 50)], &mut gone);
        }
    }
    assert_eq!(queue.counts().messages(), MANY - gone.len() as u64);
    assert!(queue.memory_bytes() < 65_536, "{}", queue.memory_bytes());
}

#[test]
fn acks_in_any_order_give_the_memory_back() {
    let mut queue = queue(QueueKind::Quorum);
    let mut consumer = Consumer::new(ConsumerId(1), HolderId(1), ConsumerTag::new("c"));
    consumer.prefetch = u16::MAX;
    queue
        .add_consumer(NOW, consumer, &mut Vec::new())
        .expect("the first consumer");
    fill(&mut queue, 0..60_000);
    let ids = deliver_all(&mut queue);
    // 7 and 60,000 have no common divisor: every id once, in leaps.
    for step in 0..ids.len() {
        settle(&mut queue, &[ids[step * 7 % ids.len()]], Settlement::Ack);
    }
    assert_eq!(queue.counts().messages(), 0);
    assert!(queue.memory_bytes() < 4096, "{}", queue.memory_bytes());
}

/// A handle that can be put down only when it points to the disk.
#[derive(Clone, Debug, PartialEq)]
enum Somewhere {
    InMemory(Box<u64>),
    OnDisk(u64),
}

impl Handle for Somewhere {
    type AtRest = u64;

    fn at_rest(&self) -> Option<u64> {
        match self {
            Somewhere::InMemory(_) => None,
            Somewhere::OnDisk(at) => Some(*at),
        }
    }

    fn taken_up(at: u64) -> Self {
        Somewhere::OnDisk(at)
    }
}

#[test]
fn messages_that_move_to_the_disk_are_put_down_and_come_back_as_they_were() {
    let mut queue = QueueMachine::new(QueueKind::Quorum, &QueueSettings::default(), NOW);
    let mut out = Vec::new();
    for id in 1..=MANY {
        let mut entry = Entry::new(EntryId(id), Somewhere::InMemory(Box::new(id)), 10);
        entry.expires_at = (id > MANY / 2).then_some(Timestamp(id));
        assert!(queue.restore(entry));
    }
    assert!(queue.memory_bytes() as u64 / MANY >= 48);
    for id in 1..=MANY {
        let before = queue.moved(EntryId(id), Somewhere::OnDisk(id * 3));
        assert_eq!(before, Some(Somewhere::InMemory(Box::new(id))));
    }
    // Half of them with an expiry beside them.
    assert!(queue.memory_bytes() as u64 / MANY <= 24 + 8 + 1);
    // They move once more while they are put down.
    for id in (1..=MANY).step_by(3) {
        let before = queue.moved(EntryId(id), Somewhere::OnDisk(id * 4));
        assert_eq!(before, Some(Somewhere::OnDisk(id * 3)));
    }
    assert!(queue.memory_bytes() as u64 / MANY <= 24 + 8 + 1);
    let views: Vec<_> = queue.live_from(EntryId(0)).collect();
    assert_eq!(views.len() as u64, MANY);
    for view in views {
        let id = view.id.0;
        let factor = if id % 3 == 1 { 4 } else { 3 };
        assert_eq!(*view.content, Somewhere::OnDisk(id * factor));
        let expires_at = (id > MANY / 2).then_some(Timestamp(id));
        assert_eq!((view.bytes, view.expires_at), (10, expires_at));
    }
    let mut gone = Vec::new();
    queue.forget(&[EntryId(1_000)], &mut gone);
    assert_eq!(gone, [Somewhere::OnDisk(4_000)]);
    assert!(queue.entry(EntryId(1_000)).is_none());
    assert!(queue.entry(EntryId(1_001)).is_some());
    assert_eq!(queue.counts().ready, MANY - 1);
    out.clear();
    let mut budget = DispatchBudget {
        messages: u32::MAX,
        bytes: u64::MAX,
    };
    let mut consumer = Consumer::new(ConsumerId(1), HolderId(1), ConsumerTag::new("c"));
    consumer.no_ack = true;
    let later = Timestamp(1);
    queue
        .add_consumer(later, consumer, &mut out)
        .expect("the first consumer");
    queue.dispatch(later, &mut budget, &mut out);
    let delivered = out
        .iter()
        .filter(|effect| matches!(effect, Effect::Deliver(_)));
    assert_eq!(delivered.count() as u64, MANY - 1);
}
