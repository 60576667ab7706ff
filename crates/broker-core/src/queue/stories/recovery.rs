//! Purges, restored state, followers.

use crate::queue::script::check;

#[test]
fn purge_removes_what_is_ready_and_leaves_the_unacked() {
    check(
        "
        queue classic
        enqueue a b c
        get h => h:a
        purge => b!purged c!purged
        expect ready 0 unacked 1
        nack a => a^
        order a
        ",
    );
}

#[test]
fn restored_state_leads_like_the_one_it_was_made_of() {
    check(
        "
        queue quorum max-length=1 delivery-limit=2
        restore a b c d
        forget b
        returned c 1 2
        returned a 2 2
        hold-again h1 d
        expect ready 2 unacked 1
        ack d => d!acked
        consumer c1 prefetch=1 => c1:c*(1,2)
        nack c => c^ c1:a*(2,2)
        ",
    );
}

#[test]
fn an_id_that_does_not_increase_is_not_taken() {
    use crate::queue::*;
    use crate::settings::{QueueKind, QueueSettings};
    use crate::time::Timestamp;

    let now = Timestamp(1);
    let settings = QueueSettings::default();
    let mut queue = QueueMachine::new(QueueKind::Quorum, &settings, now);
    let mut out = Vec::new();
    queue.enqueue(now, Entry::new(EntryId(5), 1, 1), &mut out);
    queue.enqueue(now, Entry::new(EntryId(5), 2, 1), &mut out);
    let why = RefusedBecause::IdNotIncreasing;
    assert_eq!(
        out,
        [Effect::Refused {
            id: EntryId(5),
            content: 2,
            why
        }]
    );
    assert!(!queue.restore(Entry::new(EntryId(4), 3, 1)));
    assert_eq!(queue.counts().ready, 1);
}

#[test]
fn what_may_have_been_handed_out_is_redelivered_at_its_place() {
    check(
        "
        queue quorum
        publish a priority=0
        publish b priority=9
        publish c
        maybe-acquired a
        maybe-acquired b
        returned c 2 3
        get h => h:c*(2,3)
        get h => h:b*(0,1)
        get h => h:a*(0,1)
        ",
    );
}
