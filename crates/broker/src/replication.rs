//! This node among the others of its cluster: the replica groups it has a part in, who leads them, and
//! what it keeps on disk for them.
//!
//! A node without a cluster has none of this. What crosses a link is in `wire`; how clients of this
//! node reach queues that are led elsewhere is in `outward`, and the other side of it in `inward`.

mod away;
mod balance;
mod inward;
pub(crate) mod members;
mod outward;
mod snapshot;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use broker_core::metadata::QueueId;
use broker_core::queue::ConsumerId;
use cluster::{
    JournalDisk, Links, LogNotes, NodeId, RaftGroup, RaftTimes, ReplayedLog, Secret, TcpOptions,
    TcpTransport,
};
use dashmap::DashMap;
use parking_lot::Mutex;
use storage::{Position, Recovery, ReplayedRecord, StoreId, StreamId};
use tokio::time::Instant;

pub(crate) use self::away::{AwayLane, AwayReceipt, message_bytes, refused_places, write_refused};
pub(crate) use self::outward::{Attachment, CallError, RemoteGot};
use crate::apply::QueueGroup;
use crate::durability::{METADATA_STREAM, stream_of};
use crate::error::OpenError;
use crate::files::Files;
use crate::groups::LOCAL_LANE;
use crate::ledger::Checkpoint;
use crate::metadata_store::MetadataMachine;
use crate::node::Node;
use crate::queue::{Lane, Queue};

/// Another node, or this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// Its number, from 1 to [`NODES_MAX`].
    pub node: u64,
    /// Where it listens for the others.
    pub address: String,
}

impl ClusterMember {
    /// Its name, of its number and the host that it is reached at: the form that tools made for
    /// RabbitMQ expect.
    pub fn name(&self) -> String {
        let host = self.address.rsplit_once(':');
        let host = host.map_or(&self.address[..], |(host, _)| host);
        format!("rabbit-{}@{host}", self.node)
    }
}

/// Largest number of a node: numbers of connections and consumers carry it in their upper bits.
pub const NODES_MAX: u64 = 1 << 15;

/// What makes a node a part of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// This node's number.
    pub node: u64,
    /// All nodes, this one too; the same on every node.
    pub members: Vec<ClusterMember>,
    /// The secret that all nodes know.
    pub secret: Secret,
    /// The bound socket for the other nodes.
    pub listener: Arc<std::net::TcpListener>,
    /// Members of a replica group; 3 unless there are fewer nodes.
    pub group_size: usize,
}

/// Batches for queues that this node has not heard of. In the course of things they come faster than
/// the news of the queue by milliseconds; after a start whole logs of queues may be applied again
/// before the log of the metadata is. So the bound is beyond what a journal within its cap holds:
/// whatever is left out is missing on this member.
const EARLY_BATCHES_MAX: usize = 16_000_000;

/// How long a node that stops waits for others to lead what it led.
const HAND_OVER_MS_MAX: u64 = 8_000;
const HAND_OVER_LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Replication {
    pub(crate) links: Arc<Links>,
    pub(crate) options: ClusterOptions,
    /// Logs between their replay and the opening of their groups.
    logs: Mutex<HashMap<StreamId, ReplayedLog>>,
    /// Checkpoints of queues whose declaration is not applied again yet.
    unclaimed: Mutex<HashMap<StoreId, Checkpoint>>,
    early: Mutex<Early>,
    metadata: OnceLock<Arc<RaftGroup<MetadataMachine>>>,
    groups: OnceLock<Vec<Arc<RaftGroup<QueueGroup>>>>,
    pub(crate) attachments: DashMap<ConsumerId, Attachment>,
    outward: outward::Calls,
    inward: inward::Guests,
    published: away::Published,
    balance: balance::Balance,
}

#[derive(Default)]
struct Early {
    batches: BTreeMap<QueueId, Vec<ReplayedRecord>>,
    count: usize,
}

/// Store of a group's own state.
pub(crate) fn control_store(stream: StreamId) -> StoreId {
    StoreId(u64::MAX - 1 - u64::from(stream.0))
}

/// The group whose state the store holds.
pub(crate) fn stream_of_control(store: StoreId) -> Option<StreamId> {
    let stream = (u64::MAX - 1).checked_sub(store.0)?;
    let stream = u32::try_from(stream).ok()?;
    (stream < 1 << 30).then_some(StreamId(stream))
}

impl Replication {
    /// To be called within a runtime.
    pub(crate) fn new(options: ClusterOptions) -> Self {
        Self {
            links: Links::new(NodeId(options.node)),
            options,
            logs: Mutex::default(),
            unclaimed: Mutex::default(),
            early: Mutex::default(),
            metadata: OnceLock::new(),
            groups: OnceLock::new(),
            attachments: DashMap::new(),
            outward: outward::Calls::default(),
            inward: inward::Guests::default(),
            published: away::Published::default(),
            balance: balance::Balance::default(),
        }
    }

    pub(crate) fn me(&self) -> NodeId {
        self.links.node()
    }

    pub(crate) fn core_node(&self) -> broker_core::metadata::NodeId {
        broker_core::metadata::NodeId(self.options.node)
    }

    /// What operators call a node.
    pub(crate) fn name_of(&self, node: NodeId) -> String {
        let mut members = self.options.members.iter();
        let member = members.find(|member| member.node == node.0);
        member.map_or_else(|| node.0.to_string(), ClusterMember::name)
    }

    /// Members of a group: those nodes, counted round from the group's number.
    fn members_of(&self, group: u32) -> Vec<NodeId> {
        let mut nodes: Vec<u64> = self.options.members.iter().map(|m| m.node).collect();
        nodes.sort_unstable();
        let size = self.options.group_size.min(nodes.len());
        let first = group as usize % nodes.len().max(1);
        let round = nodes.iter().cycle().skip(first).take(size);
        round.map(|node| NodeId(*node)).collect()
    }

    fn all_nodes(&self) -> Vec<NodeId> {
        let members = self.options.members.iter();
        members.map(|member| NodeId(member.node)).collect()
    }

    /// Reads the groups' saved states, before the journal is replayed.
    pub(crate) fn prepare(&self, recovery: &Recovery, groups: u32) -> Result<(), OpenError> {
        let streams = (1..=groups).map(stream_of).chain([METADATA_STREAM]);
        let mut logs = self.logs.lock();
        for stream in streams {
            let saved = recovery.checkpoint(control_store(stream))?;
            let saved = saved.as_ref().map(|saved| &saved.blob[..]);
            logs.insert(stream, ReplayedLog::new(stream, saved)?);
        }
        Ok(())
    }

    /// Takes a record of a replicated group out of the replay.
    pub(crate) fn replay(&self, files: &Files, record: &ReplayedRecord) -> Result<bool, OpenError> {
        let mut logs = self.logs.lock();
        let ReplayedRecord {
            at, stream, index, ..
        } = *record;
        if let Some(log) = logs.get_mut(&stream) {
            files.note_store(Some(at), stream, index, control_store(stream));
            log.batch(index, record.payload.clone(), at)?;
            return Ok(true);
        }
        let own = StreamId(stream.0 & !(1 << 30));
        let Some(log) = logs.get_mut(&own).filter(|_| own != stream) else {
            return Ok(false);
        };
        match log.control(index, &record.payload)? {
            Some(entry) => files.note_store(Some(at), own, entry, control_store(own)),
            None => files.note_store(Some(at), stream, index, control_store(own)),
        }
        Ok(true)
    }

    /// Keeps the checkpoints of queues that are not known yet.
    pub(crate) fn keep_unclaimed(&self, checkpoints: impl Iterator<Item = (StoreId, Checkpoint)>) {
        self.unclaimed.lock().extend(checkpoints);
    }

    pub(crate) fn claim(&self, store: StoreId) -> Option<Checkpoint> {
        self.unclaimed.lock().remove(&store)
    }

    /// Opens the groups and the links. The journal must run.
    pub(crate) fn open(
        &self,
        node: &Arc<Node>,
        journal: &storage::Journal<cluster::Tag>,
        commits: &cluster::CommitShards,
    ) -> Result<(), OpenError> {
        let runtime = tokio::runtime::Handle::current();
        let options = &self.options;
        let listener = options.listener.try_clone().map_err(OpenError::Thread)?;
        listener.set_nonblocking(true).map_err(OpenError::Thread)?;
        runtime.block_on(async {
            let listener =
                tokio::net::TcpListener::from_std(listener).map_err(OpenError::Thread)?;
            let peers = options.members.iter();
            let tcp = TcpOptions {
                peers: peers
                    .map(|member| (NodeId(member.node), member.address.clone()))
                    .collect(),
                secret: options.secret.clone(),
            };
            let service: std::sync::Weak<Node> = node.me.clone();
            self.links.serve(service);
            TcpTransport::start(&self.links, listener, tcp);
            let machine = Arc::new(MetadataMachine::new(node.me.clone()));
            let members = self.all_nodes();
            let metadata = self
                .open_group(node, METADATA_STREAM, machine, &members, journal, commits)
                .await?;
            let set = self.metadata.set(metadata).is_ok();
            let mut groups = Vec::new();
            for group in 1..=node.options.groups {
                let stream = stream_of(group);
                let machine = Arc::new(QueueGroup::new(node.me.clone(), stream));
                let members = self.members_of(group);
                groups.push(
                    self.open_group(node, stream, machine, &members, journal, commits)
                        .await?,
                );
            }
            let set = set && self.groups.set(groups).is_ok();
            debug_assert!(set, "the groups are opened once");
            Ok(())
        })
    }

    async fn open_group<M: cluster::SnapshotMachine>(
        &self,
        node: &Arc<Node>,
        stream: StreamId,
        machine: Arc<M>,
        members: &[NodeId],
        journal: &storage::Journal<cluster::Tag>,
        commits: &cluster::CommitShards,
    ) -> Result<Arc<RaftGroup<M>>, OpenError> {
        let mut log = match self.logs.lock().remove(&stream) {
            Some(log) => log,
            None => ReplayedLog::new(stream, None)?,
        };
        log.continue_control(journal.last_index(cluster::control_stream(stream)));
        let disk = JournalDisk::open(stream, log.covered(), journal.clone(), commits);
        let notes = Arc::new(Notes {
            node: node.me.clone(),
            stream,
        });
        let times = RaftTimes::default();
        RaftGroup::open(log, machine, &self.links, disk, notes, times, members)
            .await
            .map_err(|why| OpenError::Group {
                stream: stream.0,
                why,
            })
    }

    pub(crate) fn metadata(&self) -> Option<&Arc<RaftGroup<MetadataMachine>>> {
        self.metadata.get()
    }

    /// The replica group with this number, from 1.
    pub(crate) fn group(&self, group: u32) -> Option<&Arc<RaftGroup<QueueGroup>>> {
        self.groups.get()?.get(group.checked_sub(1)? as usize)
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Arc<RaftGroup<QueueGroup>>> {
        self.groups.get().into_iter().flatten()
    }

    /// Writes a group's own state for a journal file that is being flushed.
    pub(crate) fn checkpoint(
        &self,
        files: &Files,
        store: StoreId,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let stream = stream_of_control(store)?;
        let flushed = files.flushed(stream);
        if stream == METADATA_STREAM {
            return self.metadata()?.checkpoint(flushed, out);
        }
        self.group(stream.0 - 1)?.checkpoint(flushed, out)
    }

    /// A journal file is gone: logs need not keep what is in checkpoints.
    pub(crate) fn released(&self, files: &Files) {
        if let Some(metadata) = self.metadata() {
            metadata.covered(files.flushed(METADATA_STREAM));
        }
        for (number, group) in (1..).zip(self.groups()) {
            group.covered(files.flushed(stream_of(number)));
        }
    }

    /// A batch for a queue that could not be found. Answers the queue if it was declared in the
    /// meantime; keeps the batch if the news of the queue is still to come.
    pub(crate) fn early(
        &self,
        node: &Node,
        queue: QueueId,
        record: &ReplayedRecord,
    ) -> Option<Arc<Queue>> {
        let mut early = self.early.lock();
        // Looked for again under the lock under which it is published.
        let found = node.queue(queue);
        if found.is_some() || node.knows_of(queue) {
            return found;
        }
        let batches = early.batches.get(&queue);
        if batches
            .and_then(|own| own.last())
            .is_some_and(|last| last.index == record.index)
        {
            // Another command of the same batch asked before.
            return None;
        }
        if early.count >= EARLY_BATCHES_MAX {
            tracing::error!(queue = queue.0, "a batch for an unknown queue is left out");
            return None;
        }
        early.count += 1;
        early.batches.entry(queue).or_default().push(record.clone());
        None
    }

    /// Whether batches of the group wait for the news of their queue.
    pub(crate) fn has_early(&self, stream: StreamId) -> bool {
        let early = self.early.lock();
        let mut batches = early.batches.values().flatten();
        batches.any(|batch| batch.stream == stream)
    }

    /// The state of the group up to this index comes from another member.
    pub(crate) fn forget_early(&self, stream: StreamId, up_to_index: u64) {
        let mut early = self.early.lock();
        for batches in early.batches.values_mut() {
            batches.retain(|batch| batch.stream != stream || batch.index > up_to_index);
        }
        early.batches.retain(|_, batches| !batches.is_empty());
        early.count = early.batches.values().map(Vec::len).sum();
    }

    /// Hands over the batches that came before the news of their queue, and makes the queue known:
    /// no batch comes in between.
    pub(crate) fn take_early(&self, queue: QueueId, publish: impl FnOnce(Vec<ReplayedRecord>)) {
        let mut early = self.early.lock();
        let batches = early.batches.remove(&queue).unwrap_or_default();
        early.count -= batches.len();
        publish(batches);
    }

    /// Ends the groups on this node.
    pub(crate) async fn shutdown(&self) {
        for group in self.groups() {
            group.shutdown().await;
        }
        if let Some(metadata) = self.metadata() {
            metadata.shutdown().await;
        }
    }

    /// Hands the groups that this node leads to other members, as far as they are there, and waits
    /// until they lead. Bounded by [`HAND_OVER_MS_MAX`].
    pub(crate) async fn hand_over(&self) {
        let begun = self.give_up_leading();
        let end = Instant::now() + Duration::from_millis(HAND_OVER_MS_MAX);
        while begun > 0 && self.led() > 0 && Instant::now() < end {
            tokio::time::sleep(HAND_OVER_LOOK).await;
        }
    }

    fn give_up_leading(&self) -> usize {
        let mut begun = 0;
        for group in self.groups() {
            begun += usize::from(self.give_up(&**group));
        }
        if let Some(metadata) = self.metadata() {
            begun += usize::from(self.give_up(&**metadata));
        }
        begun
    }

    /// How many groups this node leads.
    fn led(&self) -> usize {
        let groups = self.groups().filter(|group| group.is_leading()).count();
        let metadata = self.metadata().is_some_and(|group| group.is_leading());
        groups + usize::from(metadata)
    }

    fn give_up<C>(&self, group: &dyn cluster::ReplicaGroup<C>) -> bool {
        let status = group.status();
        if status.leader != Some(self.me()) {
            return false;
        }
        let mut others = status.members.iter().filter(|node| **node != self.me());
        let Some(to) = others.find(|node| self.links.is_up(**node)) else {
            return false;
        };
        group.transfer_leader(*to).is_ok()
    }
}

/// Where a group's records lie, for the flush of their files.
struct Notes {
    node: std::sync::Weak<Node>,
    stream: StreamId,
}

impl LogNotes for Notes {
    fn durable(&self, at: Position, index: Option<u64>) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        let store = control_store(self.stream);
        match index {
            Some(index) => node.files.note_store(Some(at), self.stream, index, store),
            None => {
                let control = cluster::control_stream(self.stream);
                node.files.note_store(Some(at), control, 0, store);
            }
        }
    }
}

impl Node {
    /// Whether this node decides what happens in a queue of this lane.
    pub(crate) fn leads(&self, lane: Lane) -> bool {
        match (&self.replication, lane) {
            (Some(replication), Lane::Group(group)) if group != LOCAL_LANE => replication
                .group(group)
                .is_some_and(|group| group.is_leading()),
            (_, Lane::Away(_)) => false,
            _ => true,
        }
    }

    /// This node's number for the rules; 0 where there is one node only.
    pub(crate) fn core_node(&self) -> broker_core::metadata::NodeId {
        self.replication
            .as_ref()
            .map_or_else(Default::default, Replication::core_node)
    }

    /// Silences a consumer, wherever its queue is led.
    pub(crate) fn pause(
        &self,
        queue: &crate::queue::Queue,
        consumer: ConsumerId,
        pause: broker_core::queue::Pause,
    ) {
        self.note_pause(consumer, pause, true);
        match self.is_away(queue) {
            true => self.pause_away(queue, consumer, pause),
            false => queue.pause(consumer, pause),
        }
    }

    /// The queues of a replica group.
    pub(crate) fn queues_of(&self, stream: StreamId) -> Vec<Arc<crate::queue::Queue>> {
        let mut queues = self.all_queues();
        queues
            .retain(|queue| matches!(queue.lane, Lane::Group(group) if stream_of(group) == stream));
        queues
    }
}
