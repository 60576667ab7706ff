//! Brokers on this machine that form a cluster; three of them, as a rule.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use integration_tests::http::Http;
use integration_tests::{BrokerProcess, Channel, Connection, expect_soon};

use crate::net::Net;

pub(crate) const NODES: u64 = 3;
/// How long members may differ once nothing happens any more.
const EQUAL_WITHIN: std::time::Duration = std::time::Duration::from_secs(30);
const SECRET: &str = "what the nodes of the test know";

pub(crate) struct Trio {
    /// In the order of their numbers, from 1.
    nodes: Vec<BrokerProcess>,
    /// Goes after the nodes.
    net: Option<Net>,
}

/// Where the nodes listen for each other, and for clients, in a network of their own.
const CLUSTER_PORT: u16 = 25672;
const AMQP_PORT: u16 = 5672;

impl Trio {
    /// Starts the nodes side by side: none is ready before a majority is there.
    pub(crate) fn start() -> Trio {
        Trio::of_nodes(NODES, &[])
    }

    /// Starts another number of nodes, with further settings.
    pub(crate) fn of_nodes(nodes: u64, settings: &[&str]) -> Trio {
        Trio::of(free_addresses(nodes), None, settings)
    }

    /// Starts the nodes in namespaces of their own, where they can be cut off from each other. Says
    /// so where that cannot be had.
    pub(crate) fn in_own_network() -> Option<Trio> {
        let net = match Net::build(NODES) {
            Ok(net) => net,
            Err(why) => {
                eprintln!("SKIPPED: network namespaces cannot be had here: {why}");
                return None;
            }
        };
        let addresses = (1..=NODES).map(|node| SocketAddr::new(Net::address(node), CLUSTER_PORT));
        Some(Trio::of(addresses.collect(), Some(net), &[]))
    }

    fn of(addresses: Vec<SocketAddr>, net: Option<Net>, settings: &[&str]) -> Trio {
        let apart = net.is_some();
        let members: Vec<String> = (1..)
            .zip(&addresses)
            .map(|(n, at)| format!("{n}@{at}"))
            .collect();
        let members = members.join(",");
        let members = &members;
        let nodes = thread::scope(|scope| {
            let starting: Vec<_> = (1..)
                .zip(&addresses)
                .map(|(number, address)| {
                    scope.spawn(move || start_node(number, *address, members, apart, settings))
                })
                .collect();
            let started = starting.into_iter().map(|node| node.join());
            started
                .map(|node| node.expect("The node must start."))
                .collect()
        });
        Trio { nodes, net }
    }

    pub(crate) fn node(&self, number: u64) -> &BrokerProcess {
        &self.nodes[number as usize - 1]
    }

    /// The network between the nodes, which they must have.
    pub(crate) fn net(&self) -> &Net {
        self.net
            .as_ref()
            .expect("The nodes are in their own network.")
    }

    /// A channel on this node.
    pub(crate) fn channel(&self, number: u64) -> Channel {
        Connection::open(self.node(number).address()).channel(1)
    }

    pub(crate) fn http(&self, number: u64) -> Http {
        Http::new(self.node(number).management().expect("It is served."))
    }

    pub(crate) fn kill(&mut self, number: u64) {
        self.nodes[number as usize - 1].kill9();
    }

    pub(crate) fn restart(&mut self, numbers: &[u64]) {
        thread::scope(|scope| {
            for (number, node) in (1..).zip(&mut self.nodes) {
                if numbers.contains(&number) {
                    scope.spawn(move || node.restart());
                }
            }
        });
    }

    /// Ends all nodes in order, side by side.
    pub(crate) fn terminate(&mut self) {
        self.nodes.iter().for_each(BrokerProcess::send_term);
        for node in &mut self.nodes {
            let status = node.wait_for_end();
            assert!(
                integration_tests::broker_process::is_clean_exit(status),
                "{status}: {}",
                node.stderr_tail()
            );
        }
    }

    /// Kills a node and takes everything from its disk.
    pub(crate) fn lose_disk(&mut self, number: u64) {
        let node = &mut self.nodes[number as usize - 1];
        node.kill9();
        node.empty_disk();
    }

    /// Waits until every member of these queues is there and has a vote.
    #[track_caller]
    pub(crate) fn expect_voters(&self, queues: impl Iterator<Item = String>) {
        let http = self.http(1);
        for queue in queues {
            let path = format!("/api/queues/quorum/%2F/{queue}/status");
            let votes = || {
                let said = http.ok("GET", &path, None);
                let members = said.as_array().cloned().unwrap_or_default();
                let voting = members
                    .iter()
                    .filter(|member| member["Membership"] == "voter" && member["Term"].is_u64());
                voting.count() as u64
            };
            expect_soon(&format!("members of {queue} that vote"), &NODES, votes);
        }
    }

    /// Waits until all members of each queue say the same of it.
    #[track_caller]
    pub(crate) fn expect_equal_members(&self, queues: impl Iterator<Item = String>) {
        let http = self.http(1);
        for queue in queues {
            let path = format!("/api/queues/quorum/%2F/{queue}/status");
            let equal = || {
                let said = http.ok("GET", &path, None);
                let members = said.as_array().cloned().unwrap_or_default();
                let copies: Vec<_> = members
                    .iter()
                    .map(|member| (&member["Last Applied"], &member["Messages"]))
                    .map(|(applied, messages)| (applied.as_u64(), messages.as_u64()))
                    .collect();
                let first = copies.first().copied();
                let same = copies
                    .iter()
                    .all(|copy| Some(*copy) == first && copy.0.is_some());
                (copies.len() == NODES as usize && same, said.to_string())
            };
            let end = std::time::Instant::now() + EQUAL_WITHIN;
            loop {
                let (same, said) = equal();
                if same {
                    break;
                }
                assert!(
                    std::time::Instant::now() < end,
                    "the members of {queue} differ: {said}"
                );
                thread::sleep(std::time::Duration::from_millis(200));
            }
        }
    }

    /// Ends one node in order and starts it again.
    pub(crate) fn stop_and_start(&mut self, number: u64) {
        let node = &mut self.nodes[number as usize - 1];
        let status = node.terminate();
        assert!(
            integration_tests::broker_process::is_clean_exit(status),
            "{status}: {}",
            node.stderr_tail()
        );
        node.restart();
    }

    /// Which node leads the queue, as this node sees it, once somebody does.
    pub(crate) fn leader(&self, queue: &str, seen_from: u64) -> u64 {
        let http = self.http(seen_from);
        let path = format!("/api/queues/%2F/{queue}");
        let look = || {
            http.ok("GET", &path, None)["leader"]
                .as_str()
                .and_then(number_of)
        };
        expect_soon("somebody leads", &true, || look().is_some());
        look().expect("It was there a moment ago.")
    }

    /// The nodes' last words, for a failure.
    pub(crate) fn last_words(&self) -> String {
        let words = (1..).zip(&self.nodes);
        words
            .map(|(number, node)| format!("node {number}:\n{}\n", node.stderr_tail()))
            .collect()
    }
}

/// The number in a name such as `rabbit-2@host`.
fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("rabbit-")?
        .split('@')
        .next()?
        .parse()
        .ok()
}

fn start_node(
    number: u64,
    address: SocketAddr,
    members: &str,
    apart: bool,
    further: &[&str],
) -> BrokerProcess {
    let node = format!("cluster.node={number}");
    let listener = format!("listeners.cluster={address}");
    let environment = [
        ("SLUICEMQ__CLUSTER__NODES", members),
        ("SLUICEMQ__CLUSTER__SECRET", SECRET),
    ];
    if apart {
        let launcher = Net::launcher(number);
        let launcher: Vec<&str> = launcher.iter().map(String::as_str).collect();
        // The same after each start, so that clients find it again.
        let amqp = format!(
            "listeners.amqp={}",
            SocketAddr::new(address.ip(), AMQP_PORT)
        );
        let management = format!("listeners.management={}", SocketAddr::new(address.ip(), 0));
        let settings: [&str; 5] = [
            &node,
            &listener,
            &amqp,
            &management,
            "auth.loopback_users=[]",
        ];
        return BrokerProcess::start_by(&launcher, &settings, &environment);
    }
    let settings: [&str; 2] = [&node, &listener];
    let settings: Vec<&str> = settings
        .into_iter()
        .chain(further.iter().copied())
        .collect();
    BrokerProcess::start_in(&settings, &environment)
}

/// All are held at once, so that none comes twice.
fn free_addresses(nodes: u64) -> Vec<SocketAddr> {
    let bound: Vec<TcpListener> = (0..nodes)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("A port must be free."))
        .collect();
    let addresses = bound.iter().map(|listener| listener.local_addr());
    addresses
        .map(|address| address.expect("It is bound."))
        .collect()
}
