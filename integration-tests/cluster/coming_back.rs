//! A member that was away has what the others have, before it is asked to lead.

use integration_tests::{Publication, QueueSpec, expect_soon};

use crate::trio::{NODES, Trio};

const BEFORE: usize = 100;
const MEANWHILE: usize = 200;

/// The very first queue of a cluster: its log comes back before the news that there is a queue.
#[test]
fn a_killed_member_comes_back_with_every_message_of_the_first_queue() {
    let mut trio = Trio::start();
    let channel = trio.channel(2);
    channel.declare(&QueueSpec::quorum("first"));
    channel.confirm_select();
    let publish = |count: usize| {
        let message = Publication::to_queue("first", b"m");
        (0..count)
            .filter(|_| channel.publish_confirmed(&message))
            .count() as u64
    };
    let mut confirmed = publish(BEFORE);
    trio.kill(1);
    confirmed += publish(MEANWHILE);
    trio.restart(&[1]);
    for node in 1..=NODES {
        let http = trio.http(node);
        let held = || http.ok("GET", "/api/queues/%2F/first", None)["messages"].as_u64();
        // One whose confirm did not come in time may be there as well.
        expect_soon("the member has every message", &true, || {
            held().is_some_and(|held| held >= confirmed)
        });
    }
}
