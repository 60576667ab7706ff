//! Messages that one consumer gives back again and again.

use crate::queue::script::check;

#[test]
fn a_message_that_one_consumer_returns_too_often_within_a_minute_is_told_of_once() {
    check(
        "
        queue quorum poison=2
        consumer c1 prefetch=1
        publish a => c1:a
        nack a => a^ c1:a*(1,1)
        nack a => a^ c1:a*(2,2)
        nack a => poison(c1,a,3) a^ c1:a*(3,3)
        nack a => a^ c1:a*(4,4)
        ",
    );
}

#[test]
fn returns_by_several_consumers_or_in_a_longer_time_are_no_loop() {
    check(
        "
        queue quorum poison=1
        consumer c1 prefetch=1
        publish a => c1:a
        nack a => a^ c1:a*(1,1)
        advance 60000
        nack a => a^ c1:a*(2,2)
        consumer c2 prefetch=1
        pause c1 window
        nack a => poison(c1,a,2) a^ c2:a*(3,3)
        ack a
        ",
    );
    check(
        "
        queue classic
        consumer c1 prefetch=1
        publish a => c1:a
        nack a => a^ c1:a*(1,1)
        nack a => a^ c1:a*(2,2)
        nack a => a^ c1:a*(3,3)
        settings poison=2
        nack a => poison(c1,a,4) a^ c1:a*(4,4)
        ",
    );
}
