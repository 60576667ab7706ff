//! One active consumer at a time.

use crate::queue::script::check;

#[test]
fn only_the_single_active_consumer_is_served_and_the_oldest_follows_it() {
    check(
        "
        queue classic sac
        consumer c1 => active(c1)
        consumer c2 => -
        consumer c3 => -
        publish a b => c1:a c1:b
        cancel c1 => active(c2)
        publish c => c2:c
        ack a => a!acked
        close c2 => c^ active(c3) c3:c*(1,1)
        close c3 => c^ active(none)
        ",
    );
}

#[test]
fn the_next_single_active_consumer_is_the_one_of_highest_priority() {
    check(
        "
        queue classic sac
        consumer c1 => active(c1)
        consumer c2 priority=1 => -
        consumer c3 priority=5 => -
        publish a => c1:a
        cancel c1 => active(c3)
        ",
    );
}

#[test]
fn quorum_hands_over_to_a_higher_priority_when_the_active_one_holds_nothing() {
    check(
        "
        queue quorum sac
        consumer c1 prefetch=2 => active(c1)
        publish a b => c1:a c1:b
        consumer c2 priority=1 => -
        publish c => -
        ack a => a!acked
        ack b => b!acked active(c2) c2:c
        cancel c2 => active(c1)
        ",
    );
    check(
        "
        queue quorum sac
        consumer c1 => active(c1)
        consumer c2 priority=1 => active(c2)
        consumer c3 priority=1 => -
        ",
    );
}

#[test]
fn a_takeover_is_off_when_the_higher_priority_leaves_before_it() {
    check(
        "
        queue quorum sac
        consumer c1 prefetch=1 => active(c1)
        publish a => c1:a
        consumer c2 priority=1 => -
        publish b => -
        cancel c2 => -
        ack a => a!acked c1:b
        ",
    );
}

#[test]
fn classic_keeps_the_active_consumer_whatever_the_priority() {
    check(
        "
        queue classic sac
        consumer c1 => active(c1)
        consumer c2 priority=9 => -
        publish a => c1:a
        ack a => a!acked
        publish b => c1:b
        ",
    );
}

#[test]
fn quorum_activates_the_next_at_once_when_the_active_one_cancels_with_unacked() {
    check(
        "
        queue quorum sac
        consumer c1 => active(c1)
        consumer c2
        publish a => c1:a
        cancel c1 => active(c2)
        publish b => c2:b
        ack a => a!acked
        ",
    );
}

#[test]
fn get_is_refused_on_a_quorum_queue_with_a_single_active_consumer_only() {
    check(
        "
        queue quorum sac
        get h => SingleActiveConsumerGet
        queue classic sac
        get h => empty
        ",
    );
}
