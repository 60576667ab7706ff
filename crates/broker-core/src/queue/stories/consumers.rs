//! Who is served: turns, credit, pauses, exclusive consumers, basic.get.

use crate::queue::script::check;

#[test]
fn prefetch_limits_what_a_consumer_holds_and_credit_counts_at_once() {
    check(
        "
        queue classic
        consumer c1 prefetch=2
        publish a b c d => c1:a c1:b
        ack b => b!acked c1:c
        expect unacked 2 ready 1
        nack a => a^ c1:a*(1,1)
        ",
    );
}

#[test]
fn a_consumer_without_acks_has_no_limit_and_holds_nothing() {
    check(
        "
        queue quorum
        consumer c1 prefetch=1 no-ack
        publish a b c => c1:a c1:b c1:c
        expect messages 0
        ",
    );
}

#[test]
fn a_consumer_that_is_out_of_credit_queues_up_at_the_end_when_it_gets_some() {
    check(
        "
        queue classic
        consumer c1 prefetch=1
        consumer c2 prefetch=2
        publish a b c d => c1:a c2:b c2:c
        ack a => a!acked c1:d
        ack d b c => d!acked b!acked c!acked
        publish e f g => c1:e c2:f c2:g
        ",
    );
}

#[test]
fn higher_consumer_priority_is_served_first_while_it_has_credit() {
    check(
        "
        queue classic
        consumer low priority=-1
        consumer high priority=10 prefetch=2
        consumer mid
        publish a b c => high:a high:b mid:c
        pause mid window
        publish d => low:d
        ack a => a!acked
        publish e => high:e
        ",
    );
}

#[test]
fn a_paused_consumer_gets_nothing_until_all_reasons_are_taken_back() {
    check(
        "
        queue classic
        consumer c1 paused=window => -
        publish a => -
        pause c1 flow => -
        resume c1 window => -
        resume c1 flow => c1:a
        ",
    );
}

#[test]
fn the_budget_ends_a_dispatch_and_the_next_goes_on() {
    check(
        "
        queue classic
        consumer c1 paused=window
        consumer c2 paused=window
        publish a b c d => -
        enqueue e
        resume c1 window => c1:a c1:b c1:c c1:d c1:e
        ack a b c d e
        pause c1 window
        enqueue f g h
        hand-out 2 => -
        get x => x:f
        ",
    );
    check(
        "
        queue classic
        consumer c1
        enqueue a b c
        hand-out 2 => c1:a c1:b
        hand-out 2 => c1:c
        ",
    );
}

#[test]
fn exclusive_consumers_are_alone_in_classic_queues() {
    check(
        "
        queue classic
        consumer c1 exclusive
        refused-consumer c2
        refused-consumer c3 exclusive
        cancel c1
        consumer c4
        refused-consumer c5 exclusive
        ",
    );
    check(
        "
        queue classic sac
        refused-consumer c1 exclusive
        consumer c2 => active(c2)
        ",
    );
    check(
        "
        queue quorum
        consumer c1 exclusive
        consumer c2 exclusive
        publish a b => c1:a c2:b
        ",
    );
}

#[test]
fn get_takes_the_next_message_and_tells_how_many_are_left() {
    check(
        "
        queue classic
        get h => empty
        enqueue a b
        get h no-ack => h:a
        get h => h:b
        expect messages 1 unacked 1
        ack b => b!acked
        get h => empty
        ",
    );
}

#[test]
fn settling_what_the_channel_does_not_hold_is_counted_and_ignored() {
    check(
        "
        queue classic
        enqueue a
        get h1 => h1:a
        late-ack h2 a => -
        ack a => a!acked
        late-ack h1 a => -
        expect late 2
        ",
    );
}

#[test]
fn a_consumer_with_its_share_of_bytes_in_hand_gets_no_more_until_it_settles() {
    check(
        "
        queue classic
        byte-credit 20
        consumer c1
        publish a b c bytes=15 => c1:a c1:b
        ack a => a!acked c1:c
        byte-credit none
        publish d bytes=15 => c1:d
        byte-credit 20
        publish e bytes=1 => -
        consumer c2 => c2:e
        byte-credit none
        ",
    );
}

#[test]
fn a_byte_credit_that_is_lifted_hands_out_what_waited() {
    check(
        "
        queue quorum
        consumer c1
        byte-credit 10
        publish a b bytes=10 => c1:a
        byte-credit 30 => c1:b
        ",
    );
}

#[test]
fn consumers_whose_tenant_has_no_room_wait_and_those_without_acks_do_not() {
    check(
        "
        queue classic
        consumer c1
        consumer c2
        room 3
        publish a b c d e => c1:a c2:b c1:c
        expect unacked 3 ready 2
        room 1
        ack a => a!acked
        resume c2 tenant => c2:d
        consumer free no-ack => free:e
        expect unacked 3 ready 0
        ",
    );
}
