//! Returns that are held back.

use crate::queue::script::check;

#[test]
fn returns_are_held_back_in_proportion_to_the_delivery_count() {
    check(
        "
        queue quorum retry=all,100,250
        publish a
        get h
        reject a => a^+100
        expect ready 0 delayed 1 messages 1
        advance 99 => -
        expect ready 0
        advance 1 => -
        expect ready 1 returned 1 delayed 0
        get h => h:a*(1,1)
        reject a => a^+200
        advance 200
        get h
        reject a => a^+250
        purge => a!purged
        ",
    );
}

#[test]
fn retry_kinds_hold_back_failures_or_the_others() {
    check(
        "
        queue quorum retry=failed,100,100
        publish a b
        get h
        get h
        nack a => a^
        reject b => b^+100
        queue quorum retry=returned,100,100
        publish c d
        get h
        get h
        nack c => c^+100
        reject d => d^
        ",
    );
}

#[test]
fn delayed_messages_count_towards_the_limits_of_quorum_queues() {
    check(
        "
        queue quorum max-length=2 retry=all,100,100
        publish a b
        get h
        nack a => a^+100
        publish c => b!maxlength
        order c
        ",
    );
}

#[test]
fn due_returns_come_back_in_order_of_their_moments() {
    check(
        "
        queue quorum retry=all,100,1000
        publish a b c
        consumer c1 prefetch=3 => c1:a c1:b c1:c
        pause c1 window
        nack b => b^+100
        advance 50
        nack a c => a^+100 c^+100
        advance 100
        order b a c
        ",
    );
}

#[test]
fn delays_grow_by_the_multiplier_up_to_the_longest() {
    check(
        "
        queue quorum retry=all,100,1000,3000
        publish a
        get h
        nack a => a^+100
        advance 100
        get h
        nack a => a^+300
        advance 300
        get h
        nack a => a^+900
        advance 900
        get h
        nack a => a^+1000
        ",
    );
}

#[test]
fn classic_queues_hold_returns_back_and_put_them_at_their_old_place() {
    check(
        "
        queue classic retry=all,100,100
        publish a b
        get h => h:a
        nack a => a^+100
        expect ready 1 delayed 1
        advance 100
        order a b
        ",
    );
}

#[test]
fn a_restored_delay_ends_when_it_would_have_ended() {
    check(
        "
        queue quorum
        restore a b
        returned a 1 1 40
        expect ready 1 delayed 1
        advance 39
        expect delayed 1
        advance 1
        order a b
        ",
    );
}

#[test]
fn giving_delays_up_leaves_running_ones_and_makes_no_more() {
    check(
        "
        queue quorum retry=all,100,100
        publish a b
        get h
        nack a => a^+100
        settings retry=none
        get h
        nack b => b^
        expect delayed 1
        advance 100
        order b a
        ",
    );
}
