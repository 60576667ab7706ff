//! One run: a phase of faults under load, then a phase in which everything must come right.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{
    Batch, Links, LogNotes, NodeId, RaftGroup, RaftTimes, ReplayedLog, ReplicaGroup, control_stream,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use storage::{Position, StreamId};
use tokio::time::{Instant, sleep};

use crate::disk::{Life, Platter, SimDisk, dice_of};
use crate::machine::{ListMachine, Ticket};
use crate::network::{Network, Weather};
use crate::oracle::{Oracle, Violation};

const STREAM: StreamId = StreamId(1);
/// How long the cluster may take to come right, in its own time.
const PATIENCE: Duration = Duration::from_secs(180);

/// What may happen in a run.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// Members of the group.
    pub nodes: u64,
    /// Steps of the phase of faults; each is a proposal or a fault.
    pub steps: u32,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            nodes: 3,
            steps: 150,
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Proposals that were confirmed.
    pub confirmed: usize,
    /// Nodes that crashed and came back.
    pub crashes: u32,
    /// Links that were cut.
    pub cuts: u32,
}

/// Runs one seed to its end.
///
/// # Errors
/// The rule that was broken.
pub fn run(seed: u64, faults: Faults) -> Result<Outcome, Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread needs nothing that can be missing");
    let local = async { Cluster::new(seed, faults).play().await };
    let outcome = runtime.block_on(local);
    runtime.shutdown_background();
    outcome
}

struct Node {
    life: Life,
    links: Arc<Links>,
    group: Arc<RaftGroup<ListMachine>>,
}

struct Cluster {
    dice: StdRng,
    faults: Faults,
    network: Arc<Network>,
    platters: BTreeMap<u64, Arc<Mutex<Platter>>>,
    nodes: BTreeMap<u64, Node>,
    oracle: Arc<Oracle>,
    tickets: Ticket,
    crashes: u32,
    cuts: u32,
    /// A disk is lost once in a run at most: with a second one the majority may be gone.
    disk_lost: bool,
}

struct NoNotes;

impl LogNotes for NoNotes {
    fn durable(&self, _at: Position, _index: Option<u64>) {}
}

impl Cluster {
    fn new(seed: u64, faults: Faults) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let weather = Weather {
            lost_per_mille: dice.random_range(0..30),
            reordered_per_mille: dice.random_range(0..100),
            delay_ms_max: dice.random_range(1..40),
        };
        let network = Network::new(dice_of(&mut dice), weather);
        Self {
            dice,
            faults,
            network,
            platters: (1..=faults.nodes)
                .map(|node| (node, Arc::default()))
                .collect(),
            nodes: BTreeMap::new(),
            oracle: Arc::default(),
            tickets: 0,
            crashes: 0,
            cuts: 0,
            disk_lost: false,
        }
    }

    async fn play(mut self) -> Result<Outcome, Violation> {
        for node in 1..=self.faults.nodes {
            self.start(node).await;
        }
        for _ in 0..self.faults.steps {
            self.step().await;
            self.oracle.divergence()?;
        }
        self.come_right().await?;
        Ok(Outcome {
            confirmed: self.oracle.confirmed_count(),
            crashes: self.crashes,
            cuts: self.cuts,
        })
    }

    /// Starts a node from what its disk holds.
    async fn start(&mut self, node: u64) {
        let platter = Arc::clone(&self.platters[&node]);
        let replayed = replay(&platter.lock());
        let life = Life::begin(&platter);
        let links = Links::new(NodeId(node));
        self.network.join(&links);
        let machine = Arc::new(ListMachine::new(life.clone(), Arc::clone(&self.oracle)));
        let disk = SimDisk::start(life.clone(), dice_of(&mut self.dice), 20);
        let members: Vec<NodeId> = (1..=self.faults.nodes).map(NodeId).collect();
        let times = RaftTimes::default();
        let notes = Arc::new(NoNotes);
        let group = RaftGroup::open(replayed, machine, &links, disk, notes, times, &members)
            .await
            .expect("a group opens on a sound disk");
        self.nodes.insert(node, Node { life, links, group });
    }

    /// The node stops between two instructions: what was not synced is gone.
    async fn crash(&mut self, node: u64) {
        let Some(Node { life, links, group }) = self.nodes.remove(&node) else {
            return;
        };
        life.end();
        self.network.leave(NodeId(node));
        drop(links);
        group.shutdown().await;
        self.crashes += 1;
    }

    /// The node crashes and comes back on an empty disk.
    async fn lose_disk(&mut self, node: u64) {
        if self.disk_lost {
            return;
        }
        self.disk_lost = true;
        self.crash(node).await;
        self.platters.insert(node, Arc::default());
        self.start(node).await;
    }

    fn any_node(&mut self) -> u64 {
        self.dice.random_range(1..=self.faults.nodes)
    }

    async fn step(&mut self) {
        match self.dice.random_range(0..100) {
            0..70 => {
                let node = self.any_node();
                self.propose(node);
            }
            70..76 => {
                let node = self.any_node();
                match self.nodes.contains_key(&node) {
                    true => self.crash(node).await,
                    false => self.start(node).await,
                }
            }
            76..84 => self.cut(),
            84..90 => self.network.heal(),
            90 => {
                let node = self.any_node();
                self.lose_disk(node).await;
            }
            91..96 => {
                let node = self.any_node();
                self.checkpoint(node);
            }
            _ => {
                let (node, to) = (self.any_node(), self.any_node());
                if let Some(node) = self.nodes.get(&node) {
                    // A node that is no member or does not lead refuses, which is no fault.
                    let _ = node.group.transfer_leader(NodeId(to));
                }
            }
        }
        let pause = self.dice.random_range(0..200);
        sleep(Duration::from_millis(pause)).await;
    }

    fn propose(&mut self, node: u64) -> Option<Ticket> {
        let node = self.nodes.get(&node)?;
        // Held batches are bounded by whoever proposes.
        if node.group.in_flight() > 50 {
            return None;
        }
        self.tickets += 1;
        let ticket = self.tickets;
        let batch = Batch {
            payload: Bytes::copy_from_slice(&ticket.to_be_bytes()),
            contexts: vec![ticket],
            logged: true,
        };
        node.group.propose(batch).ok()?;
        Some(ticket)
    }

    fn cut(&mut self) {
        let (a, b) = (NodeId(self.any_node()), NodeId(self.any_node()));
        if a == b {
            return;
        }
        self.network.cut(a, b);
        if self.dice.random_bool(0.7) {
            self.network.cut(b, a);
        }
        self.cuts += 1;
    }

    /// What the machine holds is saved, and the log lets go of it.
    fn checkpoint(&mut self, node: u64) {
        let Some(Node { group, .. }) = self.nodes.get(&node) else {
            return;
        };
        let applied = group.status().applied_index;
        let mut saved = Vec::new();
        if group.checkpoint(applied, &mut saved).is_none() {
            return;
        }
        let mut platter = self.platters[&node].lock();
        platter.saved = Some(saved);
        platter.save_machine(group.machine().entries(), applied);
        drop(platter);
        group.covered(applied);
    }

    /// The faults end: every node is up, a proposal goes through, all hold the same.
    async fn come_right(&mut self) -> Result<(), Violation> {
        self.network.heal();
        for node in 1..=self.faults.nodes {
            if !self.nodes.contains_key(&node) {
                self.start(node).await;
            }
        }
        let end = Instant::now() + PATIENCE;
        let mut last = None;
        while !last.is_some_and(|ticket| self.oracle.is_confirmed(ticket)) {
            if Instant::now() > end {
                return Err(Violation::Stuck {
                    what: "no proposal is confirmed",
                });
            }
            last = self.propose(1).or(last);
            sleep(Duration::from_millis(500)).await;
        }
        let behind = |cluster: &Self| {
            let last = cluster.oracle.last_index();
            let mut nodes = cluster.nodes.values();
            nodes.any(|node| node.group.status().applied_index < last)
        };
        while behind(self) {
            if Instant::now() > end {
                return Err(Violation::Stuck {
                    what: "a member does not catch up",
                });
            }
            sleep(Duration::from_millis(500)).await;
        }
        let members: Vec<_> = self
            .nodes
            .iter()
            .map(|(number, node)| (*number, node.group.machine().entries()))
            .collect();
        self.oracle.judge(&members)
    }
}

fn replay(platter: &Platter) -> ReplayedLog {
    let mut replayed =
        ReplayedLog::new(STREAM, platter.saved.as_deref()).expect("what was saved can be read");
    for (offset, record) in platter.records.iter().enumerate() {
        let at = Position {
            file: storage::FileId(1),
            offset: offset as u32,
            len: record.payload.len() as u32,
        };
        if record.stream == control_stream(STREAM) {
            replayed
                .control(record.index, &record.payload)
                .expect("a control record can be read");
        } else {
            replayed
                .batch(record.index, record.payload.clone(), at)
                .expect("a batch has a leader");
        }
    }
    replayed
}
