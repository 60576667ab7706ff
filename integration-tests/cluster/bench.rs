//! How a cluster of three local nodes carries many quorum queues: time to declare them, memory and
//! idle CPU, and how long consumers wait when the node that leads everything dies. Prints figures and
//! asserts nothing.
//!
//! ```text
//! cargo bench -p integration-tests --bench quorum-queues -- [QUEUES]
//! ```

#[allow(dead_code, reason = "the tests of the cluster use the rest")]
mod net;
#[allow(dead_code, reason = "the tests of the cluster use the rest")]
mod trio;

use std::thread::sleep;
use std::time::{Duration, Instant};

use integration_tests::request::queue_declare;
use integration_tests::{Channel, ConsumerSpec, Properties, Publication, QueueSpec};
use serde_json::json;

use crate::trio::{NODES, Trio};

const QUEUES_USUALLY: u32 = 10_000;
/// Declares that wait for their answers at once.
const WINDOW: u32 = 200;
/// How long the idle cluster is watched.
const IDLE: Duration = Duration::from_secs(20);
/// Time for what the declares left to do.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);
/// More queues than there are replica groups: each group has one among the first.
const GROUPS: u32 = 8;

fn name(queue: u32) -> String {
    format!("many.{queue}")
}

fn main() {
    let queues = std::env::args()
        .skip(1)
        .find_map(|word| word.parse().ok())
        .unwrap_or(QUEUES_USUALLY);
    let mut trio = Trio::start();
    let empty_rss = rss_mib(&trio);
    declare(&trio, queues);
    sleep(SETTLES_WITHIN);
    println!("memory, empty:     {empty_rss} MiB on the three nodes");
    println!(
        "memory:            {} MiB on the three nodes",
        rss_mib(&trio)
    );
    idle(&trio);
    fail_over(&mut trio);
}

fn declare(trio: &Trio, queues: u32) {
    let channel = trio.channel(1);
    let begun = Instant::now();
    let mut answered = 0;
    for queue in 0..queues {
        channel.send(&queue_declare(&QueueSpec::quorum(&name(queue))));
        if queue - answered >= WINDOW {
            channel.wait_for(&["queue.declare-ok"]);
            answered += 1;
        }
    }
    for _ in answered..queues {
        channel.wait_for(&["queue.declare-ok"]);
    }
    let took = begun.elapsed();
    println!(
        "declare:           {queues} quorum queues in {:.1} s, {:.0} a second",
        took.as_secs_f64(),
        f64::from(queues) / took.as_secs_f64()
    );
}

fn rss_mib(trio: &Trio) -> u64 {
    (1..=NODES)
        .map(|node| trio.node(node).rss_bytes())
        .sum::<u64>()
        >> 20
}

fn idle(trio: &Trio) {
    let cpu = || -> Duration { (1..=NODES).map(|node| trio.node(node).cpu_time()).sum() };
    let before = cpu();
    sleep(IDLE);
    let used = cpu() - before;
    println!(
        "idle CPU:          {:.1} % of a core on the three nodes together",
        used.as_secs_f64() / IDLE.as_secs_f64() * 100.0
    );
}

/// One node leads everything and dies: how long until a message that is published afterwards comes.
fn fail_over(trio: &mut Trio) {
    let http = trio.http(2);
    let leader = http.ok("GET", "/api/nodes", None);
    let first = leader[0]["name"]
        .as_str()
        .expect("A node has a name.")
        .to_owned();
    for queue in 0..GROUPS {
        let path = format!("/api/queues/quorum/%2F/{}/leader", name(queue));
        http.ok("POST", &path, Some(&json!({"node": first})));
    }
    let consumer = trio.channel(2);
    for queue in 0..GROUPS {
        consumer.consume(&ConsumerSpec::of(&name(queue)));
    }
    let publisher = trio.channel(3);
    publisher.confirm_select();
    trio.kill(1);
    let died = Instant::now();
    let mut slowest = Duration::ZERO;
    for queue in 0..GROUPS {
        until_confirmed(&publisher, &name(queue));
        let delivery = consumer.delivery_within(Duration::from_secs(30));
        let delivery = delivery.expect("It was confirmed.");
        consumer.ack(&delivery);
        if queue == 0 {
            println!(
                "fail-over:         first delivery {:.2} s after the kill",
                died.elapsed().as_secs_f64()
            );
        }
        slowest = died.elapsed();
    }
    println!(
        "fail-over:         all groups deliver {:.2} s after the kill",
        slowest.as_secs_f64()
    );
}

fn until_confirmed(publisher: &Channel, queue: &str) {
    let publication = Publication::to_queue(queue, "after").with(Properties::persistent());
    // A nack is the honest answer of a group whose leader just died.
    while !publisher.publish_confirmed(&publication) {
        sleep(Duration::from_millis(10));
    }
}
