//! Messages and queues that expire.

use crate::queue::script::check;

#[test]
fn the_shorter_of_message_and_queue_time_to_live_applies() {
    check(
        "
        queue classic ttl=100
        enqueue a ttl=50
        enqueue b ttl=500
        advance 49 => -
        advance 1 => a!expired
        advance 49 => -
        advance 1 => b!expired
        expect messages 0
        ",
    );
}

#[test]
fn messages_expire_at_the_head_only_and_are_never_delivered_late() {
    check(
        "
        queue classic dlx=x
        enqueue long ttl=1000
        enqueue short ttl=10
        advance 500 => -
        expect ready 2
        get h => h:long
        advance 0 => short~expired
        ",
    );
    check(
        "
        queue quorum
        enqueue forever
        enqueue short ttl=10
        enqueue other ttl=10 priority=9
        advance 10 => other!expired
        expect ready 2
        consumer c1 prefetch=2 => c1:forever short!expired
        ",
    );
}

#[test]
fn time_to_live_zero_is_delivered_at_once_or_expires() {
    check(
        "
        queue classic ttl=0
        publish a => -
        advance 1 => a!expired
        consumer c1
        publish b => c1:b
        advance 10 => -
        ",
    );
    check(
        "
        queue quorum
        publish a ttl=0
        advance 1 => a!expired
        ",
    );
}

#[test]
fn unacked_messages_do_not_expire_until_they_come_back() {
    check(
        "
        queue quorum dlx=x
        publish a ttl=100
        get h => h:a
        advance 1000 => -
        nack a => a^ a~expired(1,1)
        ",
    );
    check(
        "
        queue classic
        publish a ttl=100
        get h => h:a
        advance 98
        nack a => a^
        advance 2 => a!expired
        ",
    );
}

#[test]
fn the_grace_of_time_to_live_zero_is_for_the_first_delivery() {
    check(
        "
        queue classic ttl=0
        consumer c1
        publish a => c1:a
        nack a => a^ a!expired
        ",
    );
}

#[test]
fn a_change_of_the_time_to_live_does_not_touch_what_is_queued() {
    check(
        "
        queue classic ttl=100
        enqueue a
        settings ttl=10
        enqueue b
        advance 50 => -
        advance 50 => a!expired b!expired
        ",
    );
}

#[test]
fn an_unused_queue_expires_and_use_renews_it() {
    check(
        "
        queue classic expires=1000
        advance 999 => -
        touch
        advance 999 => -
        get h => empty
        advance 999 => -
        consumer c1
        advance 5000 => -
        cancel c1
        advance 999 => -
        advance 1 => queue-expired
        advance 5000 => -
        ",
    );
    check(
        "
        queue quorum expires=1000
        advance 600
        touch
        advance 400 => queue-expired
        ",
    );
}

#[test]
fn one_call_expires_a_bounded_number_and_the_deadline_stays_in_the_past() {
    use crate::queue::*;
    use crate::settings::{QueueKind, QueueSettings};
    use crate::time::Timestamp;

    let settings = QueueSettings {
        message_ttl_ms: Some(10),
        ..QueueSettings::default()
    };
    let mut queue = QueueMachine::new(QueueKind::Classic, &settings, Timestamp(0));
    let mut out = Vec::new();
    for id in 1..=10_000 {
        queue.enqueue(Timestamp(0), Entry::new(EntryId(id), id, 1), &mut out);
    }
    let (now, mut calls) = (Timestamp(10), 0);
    while queue.next_deadline().is_some_and(|due| due <= now) {
        queue.on_deadline(now, &mut out);
        assert!(out.len() <= WORK_PER_CALL_MAX as usize);
        out.clear();
        calls += 1;
    }
    assert_eq!((calls, queue.counts().messages()), (3, 0));
}

#[test]
fn messages_behind_longer_lived_ones_expire_too_where_the_settings_say_so() {
    for kind in ["classic", "quorum"] {
        check(&format!(
            "
            queue {kind} expire-anywhere dlx=x
            publish long
            publish longer ttl=1000
            publish short ttl=10
            publish middle ttl=20
            advance 9 => -
            advance 1 => short~expired
            order long longer middle
            "
        ));
    }
}

#[test]
fn a_held_message_expires_when_it_comes_back_and_an_acked_one_never() {
    check(
        "
        queue quorum expire-anywhere
        publish first
        publish a ttl=10
        publish b ttl=10
        get h => h:first
        get h => h:a
        get h => h:b
        advance 20 => -
        ack b => b!acked
        nack a => a^ a!expired
        expect messages 1
        ",
    );
}

#[test]
fn where_messages_expire_can_change_while_they_wait() {
    check(
        "
        queue quorum
        publish long
        publish short ttl=10
        advance 20
        expect ready 2
        settings expire-anywhere => -
        advance 0
        order long
        ",
    );
    check(
        "
        queue quorum expire-anywhere
        publish long
        publish short ttl=10
        settings expire-anywhere=no
        advance 20
        expect ready 2
        ",
    );
}
