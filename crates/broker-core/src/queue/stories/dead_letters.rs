//! Dead letters that are kept until their targets have confirmed.

use crate::queue::script::check;

#[test]
fn at_least_once_keeps_the_message_until_its_targets_confirmed() {
    check(
        "
        queue quorum dlx=x at-least-once overflow=reject-publish
        publish a b
        get h
        discard a => a=rejected a~~rejected(1,1)
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
        advance 10 => a=expired a~~expired
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
    let died = names.iter().enumerate().map(|(at, name)| match at {
        ..32 => format!("{name}=expired {name}~~expired"),
        _ => format!("{name}=expired"),
    });
    let died: Vec<String> = died.collect();
    check(&format!(
        "
        queue quorum dlx=x at-least-once ttl=10
        enqueue {}
        advance 10 => {}
        expect dead-lettering 40
        dead-lettered m3 m4 => m3!deadlettered m4!deadlettered m32~~expired m33~~expired
        ",
        names.join(" "),
        died.join(" "),
    ));
}

#[test]
fn giving_at_least_once_up_deletes_what_was_pending() {
    check(
        "
        queue quorum dlx=x at-least-once ttl=10
        publish a b
        advance 10 => a=expired a~~expired b=expired b~~expired
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
        publish c => c/overflow
        dead-lettered a => a!deadlettered
        publish d => -
        publish e => e/overflow
        purge => d!purged b!purged
        publish f => -
        ",
    );
}

#[test]
fn dropped_heads_are_kept_for_their_targets_only_up_to_the_limit() {
    check(
        "
        queue quorum dlx=x at-least-once max-length=1
        publish a b => a=maxlen a~~maxlen
        publish c => b~maxlen
        dead-lettered a => a!deadlettered
        publish d => c=maxlen c~~maxlen
        ",
    );
}

#[test]
fn what_rests_is_tried_again_when_targets_may_have_changed() {
    check(
        "
        queue quorum dlx=x at-least-once ttl=10
        publish a b
        advance 10
        dead-letter-failed a => -
        retry-dead-letters => a~~expired
        dead-lettered a b => a!deadlettered b!deadlettered
        ",
    );
}

#[test]
fn a_dead_letter_carries_what_the_application_said_of_a_delivery() {
    check(
        "
        queue quorum dlx=x delivery-limit=1
        consumer c1
        publish a b => c1:a c1:b
        reason c1 a malformed
        discard a => a~rejected(1,1)[malformed]
        reason c1 b try-later
        nack b => b^ c1:b*(1,1)
        nack b => b~delivery_limit(2,2)[try-later]
        ",
    );
}
