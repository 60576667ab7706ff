//! Changes of who is in a replica group and who leads it, and clusters that are larger than a group.

use std::collections::BTreeSet;

use integration_tests::http::Http;
use integration_tests::{Publication, QueueSpec, expect_soon};
use serde_json::json;

use crate::trio::{NODES, Trio};
use crate::{consume_all, declare_all, expect_all, publish_all, queues};

fn status_path(queue: &str) -> String {
    format!("/api/queues/quorum/%2F/{queue}/status")
}

fn name_of(node: u64) -> String {
    format!("rabbit-{node}@127.0.0.1")
}

fn members(http: &Http, queue: &str) -> BTreeSet<String> {
    let said = http.ok("GET", &status_path(queue), None);
    let members = said.as_array().cloned().unwrap_or_default();
    let names = members
        .iter()
        .filter_map(|member| member["Node Name"].as_str());
    names.map(str::to_owned).collect()
}

#[test]
fn a_member_leaves_a_group_and_comes_back_to_all_of_it() {
    let trio = Trio::start();
    declare_all(&trio.channel(1));
    let publisher = trio.channel(2);
    publisher.confirm_select();
    assert_eq!(publish_all(&publisher, "before ", 80).len(), 80);
    let http = trio.http(1);
    let group = "/api/queues/quorum/%2F/cluster.0/replicas";
    let third = json!({"node": name_of(3)});
    http.ok("DELETE", &format!("{group}/delete"), Some(&third));
    let two: BTreeSet<String> = [1, 2].map(name_of).into();
    expect_soon("the members", &two, || members(&http, "cluster.0"));
    assert_eq!(publish_all(&publisher, "between ", 80).len(), 80);
    // Clients of the node that is no member any more are served all the same.
    let outside = trio.channel(3);
    outside.confirm_select();
    assert!(outside.publish_confirmed(&Publication::to_queue("cluster.0", "from outside")));
    outside.expect_ready("cluster.0", 21);
    http.ok("POST", &format!("{group}/add"), Some(&third));
    let three: BTreeSet<String> = (1..=NODES).map(name_of).collect();
    expect_soon("the members", &three, || members(&http, "cluster.0"));
    trio.expect_equal_members(queues().into_iter());
    let refused = http.send(
        "POST",
        &format!("{group}/add"),
        Some(&json!({"node": "nobody"})),
    );
    assert_eq!(refused.status, 400);
}

#[test]
fn leadership_goes_where_it_is_asked_to_and_nothing_is_refused_meanwhile() {
    let trio = Trio::start();
    declare_all(&trio.channel(1));
    let (publisher, consumer) = (trio.channel(2), trio.channel(3));
    publisher.confirm_select();
    consume_all(&consumer);
    let http = trio.http(1);
    let mut wanted = BTreeSet::new();
    for node in 1..=NODES {
        let path = "/api/queues/quorum/%2F/cluster.0/leader";
        http.ok("POST", path, Some(&json!({"node": name_of(node)})));
        let confirmed = publish_all(&publisher, &format!("led by {node}: "), 80);
        assert_eq!(confirmed.len(), 80, "all are confirmed under node {node}");
        wanted.extend(confirmed);
        expect_soon("the leader", &node, || trio.leader("cluster.0", 1));
    }
    let taken = expect_all(&trio, &consumer, wanted);
    assert_eq!(taken.len(), 80 * NODES as usize, "none comes twice");
}

#[test]
fn a_cluster_may_be_larger_than_its_groups() {
    let mut five = Trio::of_nodes(5, &["cluster.group_size=3"]);
    declare_all(&five.channel(1));
    let http = five.http(1);
    for queue in queues() {
        assert_eq!(members(&http, &queue).len(), 3, "{queue}");
    }
    let mut wanted = BTreeSet::new();
    for node in 1..=5 {
        let channel = five.channel(node);
        channel.confirm_select();
        let confirmed = publish_all(&channel, &format!("from {node}: "), 40);
        assert_eq!(confirmed.len(), 40, "all are confirmed through node {node}");
        wanted.extend(confirmed);
        channel.expect_ready("cluster.0", 5 * node);
    }
    five.kill(2);
    // One of the five is no member of the group of this queue, whichever that is.
    let outside =
        (1..=5).find(|node| *node != 2 && !members(&http, "cluster.0").contains(&name_of(*node)));
    let outside = outside.expect("Two of five are no members.");
    let consumer = five.channel(outside);
    consume_all(&consumer);
    let taken = expect_all(&five, &consumer, wanted);
    assert_eq!(taken.len(), 200, "none comes twice");
    five.channel(outside)
        .declare(&QueueSpec::quorum("declared.later"));
}

#[test]
fn health_checks_tell_what_a_cluster_cannot_lose_and_what_it_lacks() {
    const WHOLE: &str = "reached-target-cluster-size";
    const CRITICAL: &str = "node-is-quorum-critical";
    const LED: &str = "quorum-queues-without-elected-leaders/all-vhosts";
    let mut trio = Trio::start();
    declare_all(&trio.channel(1));
    let http = trio.http(2);
    let statuses = || {
        [WHOLE, CRITICAL, LED].map(|check| {
            let path = format!("/api/health/checks/{check}");
            http.send("GET", &path, None).status
        })
    };
    expect_soon("all is well", &[200, 200, 200], statuses);
    trio.kill(1);
    expect_soon("one more must not go", &[503, 503, 200], statuses);
    trio.kill(3);
    expect_soon("nobody can lead", &[503, 503, 503], statuses);
    let leaderless = http.send("GET", &format!("/api/health/checks/{LED}"), None);
    let names = leaderless.body["queues"].as_array().cloned();
    let names: BTreeSet<String> = names
        .iter()
        .flatten()
        .filter_map(|queue| queue["name"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(names, queues().into_iter().collect::<BTreeSet<String>>());
    trio.restart(&[1, 3]);
    expect_soon("all is well again", &[200, 200, 200], statuses);
}
