//! A cluster under load that things happen to, and the judgement in the end.

use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use integration_tests::{QueueSpec, expect_soon};

use crate::clients::{Clients, LINES, line};
use crate::history::History;
use crate::invariants::{
    TOLD_MAX, confirmed_is_not_lost, minority_confirms_nothing, order_is_kept,
    settled_stays_settled,
};
use crate::trio::{NODES, Trio};

/// How long the cluster is left alone between two faults.
const CALM: Duration = Duration::from_secs(3);
/// How long a fault lasts: longer than an election.
pub(crate) const FAULT: Duration = Duration::from_secs(4);
/// How long the cluster may take to come right once the faults have stopped.
const COMES_RIGHT_WITHIN: Duration = Duration::from_secs(60);
/// How often each scenario happens; more by hand.
const TURNS: &str = "SLUICEMQ_TEST_CLUSTER_TURNS";

pub(crate) fn turns() -> u64 {
    let turns = std::env::var(TURNS).ok();
    turns.map_or(1, |turns| turns.parse().expect("A number of turns."))
}

pub(crate) struct Scene {
    pub(crate) trio: Trio,
    history: History,
    clients: Clients,
    /// Nodes without a majority, and when.
    alone: Vec<(u64, Range<Instant>)>,
}

impl Scene {
    /// Starts cluster and load in a network of their own; `None` where that cannot be had.
    pub(crate) fn begin() -> Option<Scene> {
        let trio = Trio::in_own_network()?;
        let channel = trio.channel(1);
        for number in 0..LINES {
            channel.declare(&QueueSpec::quorum(&line(number)));
        }
        let history = History::default();
        let nodes: Vec<_> = (1..=NODES)
            .map(|node| (node, trio.node(node).address()))
            .collect();
        let clients = Clients::start(&nodes, &history);
        Some(Scene {
            trio,
            history,
            clients,
            alone: Vec::new(),
        })
    }

    /// Something happens to the cluster and is over when this returns.
    pub(crate) fn fault(&mut self, happens: impl FnOnce(&mut Trio)) {
        sleep(CALM);
        self.history.fault_begins();
        happens(&mut self.trio);
        self.history.fault_ends();
    }

    /// As `fault`; `node` reaches no majority meanwhile.
    pub(crate) fn fault_alone(&mut self, node: u64, happens: impl FnOnce(&mut Trio)) {
        let begun = Instant::now() + CALM;
        let mut ended = begun;
        self.fault(|trio| {
            happens(trio);
            ended = Instant::now();
            trio.net().heal();
        });
        self.alone.push((node, begun..ended));
    }

    /// The faults are over: everything drains, all members hold the same, and nothing that was seen
    /// breaks a rule.
    #[track_caller]
    pub(crate) fn end(self) {
        sleep(CALM);
        let Scene {
            trio,
            history,
            clients,
            alone,
        } = self;
        assert!(
            clients.stop_publishing(COMES_RIGHT_WITHIN),
            "some publishes have no outcome\n{}",
            trio.last_words()
        );
        let end = Instant::now() + COMES_RIGHT_WITHIN;
        let mut lost = confirmed_is_not_lost::judge(&history.events());
        while !lost.is_empty() && Instant::now() < end {
            sleep(Duration::from_millis(200));
            lost = confirmed_is_not_lost::judge(&history.events());
        }
        let events = history.events();
        let mut wrong = lost;
        wrong.extend(settled_stays_settled::judge(&history));
        wrong.extend(order_is_kept::judge(&events));
        for (node, alone) in &alone {
            wrong.extend(minority_confirms_nothing::judge(&events, *node, alone));
        }
        assert!(
            wrong.is_empty(),
            "{} rules are broken, among them:\n{}\n{}",
            wrong.len(),
            wrong[..wrong.len().min(TOLD_MAX)].join("\n"),
            trio.last_words()
        );
        for node in 1..=NODES {
            let channel = trio.channel(node);
            let left = || {
                (0..LINES)
                    .map(|number| channel.ready(&line(number)))
                    .sum::<u64>()
            };
            expect_soon(&format!("messages left as node {node} sees it"), &0, left);
        }
        trio.expect_equal_members((0..LINES).map(line));
        let confirmed = events
            .iter()
            .filter(|event| event.what == crate::history::What::Confirmed);
        println!("{} messages confirmed", confirmed.count());
        clients.end();
    }
}
