//! Length limits and what happens at them.

use crate::queue::script::check;

#[test]
fn drop_head_drops_the_oldest_ready_message() {
    check(
        "
        queue classic max-length=2 dlx=x
        enqueue a b
        get h => h:a
        get h => h:b
        enqueue c d
        enqueue e => c~maxlen
        expect ready 2 unacked 2
        nack a b => a^ b^ a~maxlen(1,1) b~maxlen(1,1)
        order d e
        ",
    );
}

#[test]
fn a_requeue_over_the_limit_of_a_quorum_queue_drops_the_returned_message() {
    check(
        "
        queue quorum max-length=1
        publish a
        get h => h:a
        publish b => -
        nack a => a^ a!maxlength
        order b
        ",
    );
}

#[test]
fn drop_head_drops_the_highest_priority_first() {
    check(
        "
        queue quorum max-length=2
        enqueue low priority=1
        enqueue high priority=9
        enqueue mid priority=5 => high!maxlength
        order mid low
        ",
    );
}

#[test]
fn bytes_are_limited_like_messages_and_a_too_large_message_drops_everything() {
    check(
        "
        queue classic max-bytes=10
        enqueue a b bytes=4
        expect ready-bytes 8
        enqueue c bytes=4 => a!maxlength
        enqueue big bytes=11 => b!maxlength c!maxlength big!maxlength
        expect ready 0 ready-bytes 0
        ",
    );
}

#[test]
fn a_limit_of_zero_drops_what_no_consumer_takes_at_once() {
    check(
        "
        queue classic max-length=0
        enqueue a => a!maxlength
        consumer c1 prefetch=1
        enqueue b c => c1:b c!maxlength
        ",
    );
}

#[test]
fn a_batch_longer_than_the_limit_is_no_overflow_for_a_consumer_with_credit() {
    check(
        "
        queue quorum max-length=2
        consumer c1 prefetch=3
        enqueue a b c d e => c1:a c1:b c1:c
        enqueue f => d!maxlength
        ",
    );
}

#[test]
fn classic_reject_publish_is_exact() {
    check(
        "
        queue classic max-length=2 overflow=reject-publish
        publish a b c d => c/overflow d/overflow
        get h => h:a
        publish e f => f/overflow
        nack a => a^
        expect ready 3
        publish g => g/overflow
        ",
    );
    check(
        "
        queue classic max-bytes=10 overflow=reject-publish
        publish big bytes=11 => big/overflow
        publish fits bytes=10 => -
        ",
    );
}

#[test]
fn reject_publish_dlx_dead_letters_the_new_message_in_classic_queues() {
    check(
        "
        queue classic max-length=1 overflow=reject-publish-dlx dlx=x
        publish a b => b~maxlen b/overflow
        order a
        ",
    );
    check(
        "
        queue classic max-length=1 overflow=reject-publish-dlx
        publish a b => b/overflow
        queue quorum max-length=1 overflow=reject-publish-dlx dlx=x
        publish c d => c~maxlen
        ",
    );
}

#[test]
fn quorum_reject_publish_is_exact_and_counts_what_is_held_back() {
    check(
        "
        queue quorum max-length=2 overflow=reject-publish retry=all,100,100
        publish a b c => c/overflow
        get h => h:a
        publish d e => e/overflow
        nack a => a^+100
        expect ready 2 delayed 1
        get h => h:b
        publish f => f/overflow
        get h => h:d
        publish g => -
        ",
    );
    check(
        "
        queue quorum max-length=0 overflow=reject-publish
        publish a => a/overflow
        consumer c1 prefetch=1
        publish b => b/overflow
        ",
    );
    check(
        "
        queue quorum max-bytes=10 overflow=reject-publish
        publish big bytes=11 => big/overflow
        publish fits bytes=10 => -
        publish more bytes=1 => more/overflow
        settings max-bytes=11
        publish again bytes=1 => -
        ",
    );
}

#[test]
fn a_changed_limit_applies_at_once() {
    check(
        "
        queue classic
        enqueue a b c d
        settings max-length=2 => a!maxlength b!maxlength
        settings max-length=none
        enqueue e
        expect ready 3
        ",
    );
}

#[test]
fn flow_control_drops_and_refuses_nothing() {
    check(
        "
        queue quorum max-length=1 overflow=flow-control
        publish a b c => -
        expect ready 3
        ",
    );
}

#[test]
fn a_lowered_limit_drops_a_bounded_number_per_call() {
    use crate::queue::*;
    use crate::settings::{QueueKind, QueueSettings};
    use crate::time::Timestamp;

    let now = Timestamp(5);
    let mut settings = QueueSettings::default();
    let mut queue = QueueMachine::new(QueueKind::Classic, &settings, now);
    let mut out = Vec::new();
    for id in 1..=10_000 {
        queue.enqueue(now, Entry::new(EntryId(id), id, 1), &mut out);
    }
    settings.max_length = Some(100);
    queue.reconfigure(now, &settings, &mut out);
    let mut calls = 1;
    while queue.next_deadline().is_some_and(|due| due <= now) {
        queue.on_deadline(now, &mut out);
        calls += 1;
    }
    assert_eq!((calls, queue.counts().ready, out.len()), (3, 100, 9_900));
}
