//! In which order messages go out, and where returned ones go.

use crate::queue::script::check;

#[test]
fn messages_are_delivered_first_in_first_out_to_consumers_in_turn() {
    check(
        "
        queue classic
        consumer c1 => -
        consumer c2 => -
        publish a b c d => c1:a c2:b c1:c c2:d
        expect ready 0 unacked 4 consumers 2
        ack a b c d => a!acked b!acked c!acked d!acked
        expect messages 0
        ",
    );
}

#[test]
fn classic_requeue_goes_back_to_the_original_place() {
    check(
        "
        queue classic
        enqueue a b c d e
        get h => h:a
        nack a => a^
        get h => h:a*(1,1)
        get h => h:b
        get h => h:c
        get h => h:d
        get h => h:e
        reject d => d^
        nack b => b^
        nack a c e => a^ c^ e^
        expect ready 5 returned 0
        order a b c d e
        ",
    );
}

#[test]
fn quorum_returns_come_first_in_order_of_return() {
    check(
        "
        queue quorum
        enqueue a b c d
        get h => h:a
        get h => h:b
        get h => h:c
        nack c => c^
        nack a b => a^ b^
        expect ready 4 returned 3
        order c a b d
        ",
    );
}

#[test]
fn quorum_returns_come_before_all_priorities() {
    check(
        "
        queue quorum
        enqueue low priority=0
        get h => h:low
        enqueue high priority=31
        nack low => low^
        order low high
        ",
    );
}

#[test]
fn channel_close_returns_what_it_held_in_order_of_delivery() {
    check(
        "
        queue quorum
        enqueue a b c
        consumer c1 on=h1 => c1:a c1:b c1:c
        enqueue d
        close h1 => a^ b^ c^
        expect consumers 0 unacked 0
        order a b c d
        ",
    );
    check(
        "
        queue classic
        enqueue a b c d
        consumer c1 prefetch=3 => c1:a c1:b c1:c
        ack b => b!acked c1:d
        lose c1 => a^ c^ d^
        order a c d
        ",
    );
}

#[test]
fn redelivered_is_set_for_what_was_handed_out_and_for_nothing_else() {
    check(
        "
        queue classic
        enqueue a b
        consumer c1 prefetch=1 => c1:a
        close c1 => a^
        consumer c2 => c2:a*(1,1) c2:b
        recover a => a^ c2:a*(2,2)
        ",
    );
}

#[test]
fn a_message_that_was_handed_out_before_it_came_here_is_redelivered() {
    check(
        "
        queue quorum delivery-limit=5
        publish a delivered=5 acquired=7
        get h => h:a*(5,7)
        reject a => a!deliverylimit
        ",
    );
}

#[test]
fn cancel_leaves_unacked_with_the_channel() {
    check(
        "
        queue classic
        consumer c1 on=h prefetch=1
        publish a b => c1:a
        cancel c1 => -
        expect consumers 0 unacked 1 ready 1 had-consumers 1
        ack a => a!acked
        expect unacked 0
        ",
    );
    check(
        "
        queue quorum
        consumer c1 on=h prefetch=1
        publish a => c1:a
        cancel c1
        consumer c2 on=h2
        close h => a^ c2:a*(1,1)
        ",
    );
}

#[test]
fn quorum_priorities_are_strict_and_unset_is_four() {
    check(
        "
        queue quorum
        enqueue none1
        enqueue five priority=5
        enqueue four priority=4
        enqueue none2
        enqueue top priority=200
        enqueue three priority=3
        enqueue also-top priority=31
        order top also-top five none1 four none2 three
        ",
    );
}

#[test]
fn classic_priorities_are_clamped_to_the_maximum_and_unset_is_zero() {
    check(
        "
        queue classic max-priority=5
        enqueue none
        enqueue nine priority=9
        enqueue five priority=5
        enqueue zero priority=0
        order nine five none zero
        ",
    );
    check(
        "
        queue classic
        enqueue a
        enqueue b priority=9
        order a b
        ",
    );
}

#[test]
fn classic_requeue_keeps_the_place_within_its_priority() {
    check(
        "
        queue classic max-priority=5
        enqueue l1 l2 priority=1
        enqueue h1 h2 priority=3
        get h => h:h1
        get h => h:h2
        get h => h:l1
        nack l1 h2 h1
        order h1 h2 l1 l2
        ",
    );
}
