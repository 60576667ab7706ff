//! The rules of queues as stories. Each test is one rule of the reference.

use super::script::check;

// --- Order. ---

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

// --- Priorities. ---

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

// --- Consumers. ---

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

// --- Single active consumer. ---

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

// --- Time to live. ---

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
        advance 99
        nack a => a^
        advance 1 => a!expired
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

// --- Length limits. ---

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
fn quorum_reject_publish_takes_one_more_and_resumes_at_eighty_percent() {
    check(
        "
        queue quorum max-length=10 overflow=reject-publish
        publish 1 2 3 4 5 6 7 8 9 10 11 => -
        publish x => x/overflow
        get h => h:1
        get h => h:2
        publish x => x/overflow
        expect ready 9
        get h => h:3
        publish 12 => -
        publish 13 14 => -
        publish x => x/overflow
        ",
    );
    check(
        "
        queue quorum max-length=0 overflow=reject-publish
        publish a => -
        publish b => b/overflow
        get h no-ack => h:a
        publish c => -
        ",
    );
    check(
        "
        queue quorum max-bytes=10 overflow=reject-publish
        publish big bytes=100 => -
        publish b => b/overflow
        purge
        publish c => -
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

// --- Delivery limit. ---

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
        "queue quorum\npublish a\n{rounds}get h\nreject a => a!deliverylimit"
    ));
    let rounds = "get h\nreject a => a^\n".repeat(60);
    check(&format!(
        "queue quorum delivery-limit=none\npublish a\n{rounds}get h => h:a*(60,60)"
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

// --- Consumer timeout. ---

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

// --- Delayed retry. ---

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

// --- Dead letters. ---

#[test]
fn at_least_once_keeps_the_message_until_its_targets_confirmed() {
    check(
        "
        queue quorum dlx=x at-least-once overflow=reject-publish
        publish a b
        get h
        discard a => a~~rejected(1,1)
        expect ready 1 unacked 0 dead-lettering 1 messages 2
        dead-lettered a => a!deadlettered
        expect messages 1
        ",
    );
}

#[test]
fn a_dead_letter_that_no_target_took_is_tried_again_after_three_minutes() {
    check(
        "
        queue quorum dlx=x at-least-once
        publish a ttl=10
        advance 10 => a~~expired
        dead-letter-failed a => -
        advance 179999 => -
        advance 1 => a~~expired
        dead-lettered a => a!deadlettered
        ",
    );
}

#[test]
fn at_most_thirty_two_dead_letters_are_on_their_way() {
    let names: Vec<String> = (0..40).map(|i| format!("m{i}")).collect();
    let sent: Vec<String> = names[..32]
        .iter()
        .map(|name| format!("{name}~~expired"))
        .collect();
    check(&format!(
        "
        queue quorum dlx=x at-least-once ttl=10
        enqueue {}
        advance 10 => {}
        expect dead-lettering 40
        dead-lettered m3 m4 => m3!deadlettered m4!deadlettered m32~~expired m33~~expired
        ",
        names.join(" "),
        sent.join(" "),
    ));
}

#[test]
fn giving_at_least_once_up_deletes_what_was_pending() {
    check(
        "
        queue quorum dlx=x at-least-once ttl=10
        publish a b
        advance 10 => a~~expired b~~expired
        settings at-most-once => a!deadletterdropped b!deadletterdropped
        expect messages 0
        ",
    );
}

#[test]
fn pending_dead_letters_count_towards_a_refusing_quorum_queues_limit_and_are_purged() {
    check(
        "
        queue quorum dlx=x at-least-once overflow=reject-publish max-length=2 ttl=10
        publish a b
        advance 10
        publish c => -
        publish d => d/overflow
        purge => c!purged a!purged b!purged
        publish e => -
        ",
    );
}

#[test]
fn dropped_heads_are_kept_for_their_targets_only_up_to_the_limit() {
    check(
        "
        queue quorum dlx=x at-least-once max-length=1
        publish a b => a~~maxlen
        publish c => b~maxlen
        dead-lettered a => a!deadlettered
        publish d => c~~maxlen
        ",
    );
}

// --- Purge. ---

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

// --- Recovery and followers. ---

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
    use super::*;
    use crate::settings::{QueueKind, QueueSettings};
    use crate::time::Timestamp;

    let now = Timestamp(1);
    let settings = QueueSettings::default();
    let mut queue = QueueMachine::new(QueueKind::Quorum, &settings, now);
    let mut out = Vec::new();
    queue.enqueue(now, Entry::new(EntryId(5), 'a', 1), &mut out);
    queue.enqueue(now, Entry::new(EntryId(5), 'b', 1), &mut out);
    let why = RefusedBecause::IdNotIncreasing;
    assert_eq!(
        out,
        [Effect::Refused {
            id: EntryId(5),
            content: 'b',
            why
        }]
    );
    assert!(!queue.restore(Entry::new(EntryId(4), 'c', 1)));
    assert_eq!(queue.counts().ready, 1);
}
