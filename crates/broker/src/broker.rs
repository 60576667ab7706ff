//! The broker as its users hold it: opened once, changed through one door, asked by anyone.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use broker_core::Refusal;
use broker_core::flow::ClientFlow;
use broker_core::metadata::{ConnectionId, Metadata, MetadataChange, Outcome, QueueGone};
use cluster::{CommitShards, NodeId, ReplicaGroup, SoloGroup, Staging};
use storage::Storage;

use crate::apply::QueueGroup;
use crate::clock;
use crate::counters::MessageCounts;
use crate::durability::{METADATA_STREAM, StoreOwner, stream_of};
use crate::error::OpenError;
use crate::flow::patrol;
use crate::metadata_store::{MetadataMachine, Waiting};
use crate::node::Node;
use crate::options::BrokerOptions;
use crate::origin::Origin;
use crate::recovery;
use crate::replication::AwayLane;
use crate::session::{Session, SessionOptions, SessionShared};
use crate::timers;

/// How often ends of messages are written that found no publish to ride along with.
const SETTLE_TICK: Duration = Duration::from_millis(10);
/// Ticks between two looks at the disk.
const LOOK_TICKS: u32 = 10;

/// Ticks between two looks at deaths that the log has to tell: a second.
const DEATHS_TICKS: u32 = 100;

/// Ticks between two looks at what other nodes have to do with this one.
const LINKS_TURN: u32 = 5;

/// How soon a node that starts asks again for a majority of its cluster.
const MAJORITY_LOOK: Duration = Duration::from_millis(500);

/// This node's number in a cluster of one.
const NODE: NodeId = NodeId(1);

/// A running node. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    node: Arc<Node>,
    commits: Arc<CommitShards>,
}

impl Broker {
    /// Opens the data directory, restores what is in it and begins to serve. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// The directory cannot be made, is in use by another broker, or does not read back.
    pub async fn open(options: BrokerOptions) -> Result<Self, OpenError> {
        let opening = tokio::task::spawn_blocking(move || Self::open_blocking(options));
        let broker = match opening.await {
            Ok(opened) => opened?,
            Err(error) => return Err(OpenError::Thread(std::io::Error::other(error))),
        };
        // What does not outlive a restart goes by a logged change, so that later changes meet the
        // same state when they are replayed.
        broker.drop_transient().await;
        tokio::spawn(timers::run(
            broker.node.timers.clone(),
            broker.node.me.clone(),
        ));
        tokio::spawn(tick(broker.node.me.clone()));
        tokio::spawn(patrol::run(broker.node.me.clone()));
        Ok(broker)
    }

    /// In a cluster this waits for a majority: before, the node does not know what it serves.
    async fn drop_transient(&self) {
        let node = self.node.replication.as_ref().map(|own| own.core_node());
        loop {
            let Err(refusal) = self.apply(&MetadataChange::DropTransient { node }).await else {
                return;
            };
            if node.is_none() {
                tracing::error!(%refusal, "transient queues of the last run stay");
                return;
            }
            tracing::warn!(%refusal, "the node waits for others of its cluster before it serves");
            tokio::time::sleep(MAJORITY_LOOK).await;
        }
    }

    fn open_blocking(options: BrokerOptions) -> Result<Self, OpenError> {
        std::fs::create_dir_all(&options.data_dir).map_err(|source| OpenError::CreateDataDir {
            path: options.data_dir.clone(),
            source,
        })?;
        let (storage, recovery) = Storage::open(&options.data_dir, options.storage.clone())?;
        let node = Arc::new_cyclic(|me| Node::new(me.clone(), options, storage));
        let replayed = recovery::recover(&node, recovery)?;
        let failing = node.me.clone();
        let commits = CommitShards::start(node.options.commit_threads, move |why| {
            if let Some(node) = failing.upgrade() {
                node.fail(why);
            }
        })
        .map_err(OpenError::Thread)?;
        let journal = node.storage.start(replayed, commits.clone())?;
        let refused = |waiting: usize, why: &str| {
            tracing::error!(waiting, why, "a batch is refused by its group");
        };
        if let Some(replication) = &node.replication {
            replication.open(&node, &journal, &commits)?;
        }
        let metadata: Arc<dyn ReplicaGroup<Waiting>> =
            match node.replication.as_ref().and_then(|own| own.metadata()) {
                Some(replicated) => replicated.clone(),
                None => SoloGroup::open(
                    NODE,
                    METADATA_STREAM,
                    Arc::new(MetadataMachine::new(node.me.clone())),
                    journal.clone(),
                    &commits,
                ),
            };
        node.metadata
            .open(Staging::new(metadata, move |batch, why| {
                refused(batch.contexts.len(), why);
            }));
        let stagings = (0..=node.options.groups).map(|group| {
            let replicated = node.replication.as_ref().and_then(|own| own.group(group));
            let group: Arc<dyn ReplicaGroup<Origin>> = match replicated {
                Some(replicated) => replicated.clone(),
                None => {
                    let stream = stream_of(group);
                    let machine = Arc::new(QueueGroup::new(node.me.clone(), stream));
                    SoloGroup::open(NODE, stream, machine, journal.clone(), &commits)
                }
            };
            staging_of(&node, group)
        });
        let others = node.other_nodes().into_iter().map(|other| {
            let lane = Arc::new(AwayLane::new(node.me.clone(), other));
            staging_of(&node, Arc::new(lane))
        });
        node.groups.open(stagings.chain(others).collect());
        let owner = StoreOwner::new(node.me.clone(), commits.clone());
        node.storage.attach(Arc::new(owner))?;
        node.warming.start(&node).map_err(OpenError::Thread)?;
        Ok(Self { node, commits })
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The one door for change: proposes, and answers when the change is durable and applied.
    ///
    /// # Errors
    /// The rules refuse the change, or the node has failed.
    pub async fn apply(&self, change: &MetadataChange) -> Result<Outcome, Refusal> {
        self.node.apply(change).await
    }

    /// The metadata, behind a short read lock: never to be held across an await.
    pub fn metadata(&self) -> impl Deref<Target = Metadata> + '_ {
        self.node.metadata.read()
    }

    /// Opens a session for a client that has authenticated.
    ///
    /// # Errors
    /// The vhost is missing or closed to the user, a limit of connections is reached, or memory is
    /// exhausted.
    pub fn open_session(&self, options: SessionOptions) -> Result<Session, Refusal> {
        if let Some(limit_bytes) = self.node.flow.memory.exhausted() {
            return Err(Refusal::MemoryExhausted { limit_bytes });
        }
        let (in_vhost, by_user) = self.node.connection_counts(&options);
        let metadata = self.node.metadata.read();
        metadata.check_connection(&options.user, &options.vhost, in_vhost, by_user)?;
        drop(metadata);
        let id = ConnectionId(self.node.next_id());
        let client = ClientFlow::of(
            &options.client_properties,
            &self.node.flow.levers.read(),
            &options.user,
            &options.vhost,
        );
        let memory = self.node.flow.memory.connection();
        let opened = clock::now().0;
        let shared = Arc::new(SessionShared::new(id, options, opened, client, memory));
        self.node.sessions.insert(id, shared.clone());
        if !shared.is_internal() {
            self.node.traffic.connection_opened();
            self.node.events.connection(&shared, true);
        }
        Ok(Session::new(self.node.clone(), shared))
    }

    /// Asks every connection to close, with this reason.
    pub fn close_connections(&self, refusal: Refusal) {
        self.node.close_sessions(refusal, |_| true);
    }

    /// Returns when the node's storage has failed, with the reason. The node takes no work then.
    pub async fn failed(&self) -> String {
        self.node.failure.failed().await
    }

    /// Asks for all messages of a queue but the first `keep_bytes` of them to leave memory. Returns
    /// at once; false when the queue is gone.
    pub fn page_out(&self, queue: broker_core::metadata::QueueId, keep_bytes: u64) -> bool {
        let queue = self.node.queue(queue);
        queue
            .inspect(|queue| self.node.page_out(queue, keep_bytes))
            .is_some()
    }

    /// Messages by what became of them.
    pub fn message_counts(&self) -> MessageCounts {
        self.node.counters.counts()
    }

    /// Writes what waits and stops the storage. Connections must be closed before.
    ///
    /// # Errors
    /// The last write or sync failed.
    pub async fn shutdown(&self) -> Result<(), OpenError> {
        if let Some(replication) = &self.node.replication {
            replication.hand_over().await;
            replication.shutdown().await;
        }
        let broker = self.clone();
        let stopping = tokio::task::spawn_blocking(move || {
            broker.node.warming.stop();
            for queue in broker.node.all_queues() {
                queue.take_mark_back(&broker.node);
            }
            broker.node.groups.flush();
            broker.node.death_log.tell();
            let stopped = broker.node.storage.shutdown();
            broker.commits.shutdown();
            stopped
        });
        match stopping.await {
            Ok(stopped) => Ok(stopped?),
            Err(error) => Err(OpenError::Thread(std::io::Error::other(error))),
        }
    }

    /// Deletes a queue whatever is in it.
    ///
    /// # Errors
    /// The node has failed.
    pub async fn remove_queue(
        &self,
        queue: broker_core::metadata::QueueId,
        why: QueueGone,
    ) -> Result<Outcome, Refusal> {
        self.apply(&MetadataChange::RemoveQueue { queue, why })
            .await
    }
}

/// The place where commands for a group gather.
fn staging_of(node: &Arc<Node>, group: Arc<dyn ReplicaGroup<Origin>>) -> Arc<Staging<Origin>> {
    let refusing = node.me.clone();
    Staging::new(group, move |batch, why| {
        tracing::error!(
            waiting = batch.contexts.len(),
            why,
            "a batch is refused by its group"
        );
        if let Some(node) = refusing.upgrade() {
            node.pressure
                .remove(crate::replication::message_bytes(&batch.payload));
            crate::origin::tell(&node, &batch.contexts, |_| {
                broker_core::channel::Verdict::Rejected
            });
        }
    })
}

/// Writes what found no ride, for as long as the node lives.
async fn tick(node: std::sync::Weak<Node>) {
    let mut ticks = tokio::time::interval(SETTLE_TICK);
    let mut rest = DEATHS_TICKS;
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut turn: u32 = 0;
    loop {
        ticks.tick().await;
        let Some(node) = node.upgrade() else { return };
        node.groups.flush();
        rest -= 1;
        if rest == 0 {
            rest = DEATHS_TICKS;
            node.death_log.tell();
        }
        let now = clock::now();
        if rest.is_multiple_of(LOOK_TICKS) {
            node.disk_space.look(&node, now);
        }
        node.leftovers.sweep(&node, now);
        turn = turn.wrapping_add(1);
        if turn.is_multiple_of(LINKS_TURN) {
            node.tend_links();
        }
    }
}
