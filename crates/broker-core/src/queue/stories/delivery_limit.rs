//! Counting of returns, and the return that was one too many.

use crate::queue::script::check;

#[test]
fn the_return_that_exceeds_the_delivery_limit_ends_the_message() {
    check(
        "
        queue quorum delivery-limit=2 dlx=x
        publish a
        get h => h:a
        reject a => a^
        get h => h:a*(1,1)
        nack a => a^
        get h => h:a*(2,2)
        nack a => a~delivery_limit(3,3)
        expect messages 0
        ",
    );
    check(
        "
        queue quorum delivery-limit=0
        publish a
        get h
        reject a => a!deliverylimit
        ",
    );
}

#[test]
fn the_default_limit_is_twenty_and_none_is_unlimited() {
    let rounds = "get h\nreject a => a^\n".repeat(20);
    check(&format!(
        "queue quorum poison=none\npublish a\n{rounds}get h\nreject a => a!deliverylimit"
    ));
    let rounds = "get h\nreject a => a^\n".repeat(60);
    check(&format!(
        "queue quorum poison=none delivery-limit=none\npublish a\n{rounds}get h => h:a*(60,60)"
    ));
}

#[test]
fn counting_failures_nacks_recovers_and_timeouts_are_not_counted() {
    check(
        "
        queue quorum delivery-limit=3 counts=failures timeout=100 action=return
        publish a
        get h
        nack a => a^
        get h => h:a*(0,1)
        recover a => a^
        get h => h:a*(0,2)
        advance 100 => a^ late(h,a,1,return)
        get h => h:a*(0,3)
        node-down h => a^
        get h => h:a*(0,4)
        reject a => a^
        get h => h:a*(1,5)
        close h => a^
        get h => h:a*(2,6)
        lose h => a^
        get h => h:a*(3,7)
        reject a => a!deliverylimit
        ",
    );
}

#[test]
fn a_changed_delivery_limit_applies_to_the_next_return() {
    check(
        "
        queue quorum delivery-limit=none
        publish a
        get h
        nack a
        get h
        nack a
        settings delivery-limit=2
        get h
        nack a => a!deliverylimit
        ",
    );
}

#[test]
fn a_discard_dead_letters_as_rejected_and_only_a_reject_counts() {
    check(
        "
        queue quorum dlx=x
        publish a b
        get h
        get h
        discard a => a~rejected(1,1)
        nack-discard b => b~rejected(0,1)
        ",
    );
    check(
        "
        queue classic
        publish a
        get h
        discard a => a!discarded
        ",
    );
}

#[test]
fn a_discarded_delivery_was_acquired_but_for_a_nack_in_rabbitmqs_counting() {
    check(
        "
        queue quorum dlx=x
        publish a b
        get h
        get h
        nack-discard a => a~rejected(0,1)
        discard b => b~rejected(1,1)
        ",
    );
    check(
        "
        queue quorum counts=failures dlx=x
        publish a b
        get h
        get h
        nack-discard a => a~rejected
        discard b => b~rejected(1,1)
        ",
    );
}
