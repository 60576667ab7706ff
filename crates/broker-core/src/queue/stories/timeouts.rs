//! Deliveries that are not settled in time.

use crate::queue::script::check;

#[test]
fn a_late_delivery_closes_the_channel_and_is_returned() {
    check(
        "
        queue quorum timeout=1000
        consumer c1 on=h prefetch=2
        consumer c2 on=h prefetch=1
        publish a => c1:a
        advance 600
        publish b => c2:b
        publish c => c1:c
        advance 399 => -
        advance 1 => a^ late(c1,a,1,close)
        expect ready 1 unacked 2
        publish d => -
        close h => c^ b^
        consumer c3 on=h3 => c3:a*(1,1) c3:c*(1,1) c3:b*(1,1) c3:d
        late-ack h a => -
        ",
    );
}

#[test]
fn only_overdue_deliveries_return_and_a_settled_one_is_not_late() {
    check(
        "
        queue quorum timeout=1000 action=return
        consumer c1
        publish a b => c1:a c1:b
        advance 500
        publish c => c1:c
        ack a
        advance 500 => b^ late(c1,b,1,return) c1:b*(1,1)
        late-ack c1 a
        advance 500 => c^ late(c1,c,1,return) c1:c*(1,1)
        ",
    );
}

#[test]
fn with_cancel_the_late_consumer_is_gone_and_its_tag_gets_nothing_more() {
    check(
        "
        queue quorum timeout=600 action=cancel
        consumer c1 on=h prefetch=2
        publish a
        advance 300
        publish b => c1:b
        advance 300 => c1!cancelled a^ late(c1,a,1,cancel)
        expect consumers 0 ready 1 unacked 1
        publish c => -
        late-ack h a => -
        advance 300 => b^ late(h,b,1,return)
        ",
    );
}

#[test]
fn with_cancel_a_client_that_cannot_hear_it_loses_its_channel() {
    check(
        "
        queue quorum timeout=600 action=cancel
        consumer c1 deaf on=h
        publish a => c1:a
        advance 600 => a^ late(c1,a,1,close)
        publish b => -
        ",
    );
    check(
        "
        queue quorum timeout=600 action=cancel
        publish a
        get h => h:a
        advance 600 => a^ late(h,a,1,close)
        ",
    );
}

#[test]
fn a_consumers_own_timeout_is_used_as_it_is() {
    check(
        "
        queue quorum timeout=1000 action=return
        consumer c1 timeout=5000 prefetch=1
        publish a => c1:a
        advance 4999 => -
        advance 1 => a^ late(c1,a,1,return) c1:a*(1,1)
        ",
    );
}

#[test]
fn without_a_timeout_nothing_is_ever_late() {
    check(
        "
        queue classic
        consumer c1
        publish a => c1:a
        advance 100000000 => -
        settings timeout=100000
        advance 0 => a^ late(c1,a,1,close)
        ",
    );
}

#[test]
fn an_extension_starts_the_clock_of_one_delivery_again() {
    check(
        "
        queue quorum timeout=1000 action=return
        consumer c1
        publish a b
        advance 900
        extend c1 a
        advance 100 => b^ late(c1,b,1,return) c1:b*(1,1)
        advance 899 => -
        advance 1 => a^ late(c1,a,1,return) c1:a*(1,1)
        ",
    );
}

#[test]
fn a_late_single_active_consumer_makes_room_when_it_holds_nothing_more() {
    check(
        "
        queue quorum sac timeout=1000
        consumer c1 on=h1 prefetch=2 => active(c1)
        consumer c2 on=h2 => -
        publish a
        advance 500
        publish b => c1:b
        advance 500 => a^ late(c1,a,1,close)
        advance 500 => b^ active(c2) c2:a*(1,1) c2:b*(1,1)
        ",
    );
}

#[test]
fn one_call_takes_back_a_bounded_number_of_late_deliveries() {
    use crate::names::ConsumerTag;
    use crate::queue::*;
    use crate::settings::{QueueKind, QueueSettings};
    use crate::time::Timestamp;

    let settings = QueueSettings {
        consumer_timeout_ms: Some(10),
        ..QueueSettings::default()
    };
    let mut queue = QueueMachine::new(QueueKind::Classic, &settings, Timestamp(0));
    let mut out = Vec::new();
    let consumer = Consumer::new(ConsumerId(1), HolderId(1), ConsumerTag::new("c"));
    queue
        .add_consumer(Timestamp(0), consumer, &mut out)
        .expect("the first consumer");
    for id in 1..=10_000 {
        queue.enqueue(Timestamp(0), Entry::new(EntryId(id), id, 1), &mut out);
    }
    let mut budget = DispatchBudget {
        messages: u32::MAX,
        bytes: u64::MAX,
    };
    queue.dispatch(Timestamp(0), &mut budget, &mut out);
    out.clear();
    let (now, mut calls) = (Timestamp(10), 0);
    while queue.next_deadline().is_some_and(|due| due <= now) {
        queue.on_deadline(now, &mut out);
        calls += 1;
    }
    assert_eq!((calls, queue.counts().ready), (3, 10_000));
    // The channel is told once, however many calls it takes.
    let told = out
        .iter()
        .filter(|effect| matches!(effect, Effect::TimedOut(_)));
    assert_eq!(told.count(), 1);
}
