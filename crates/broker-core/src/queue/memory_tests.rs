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
fn a_ready_message_takes_64_bytes_and_an_unacked_one_96() {
    let mut queue = queue(QueueKind::Classic);
    fill(&mut queue, 0..MANY);
    let ready_bytes = queue.memory_bytes() as u64 / MANY;
    // Content is a word here; a line of places has up to twice the capacity that it needs.
    assert!(ready_bytes <= 64, "{ready_bytes}");
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
