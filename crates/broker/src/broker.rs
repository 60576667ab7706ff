//! The broker as its users hold it: opened once, changed through one door, asked by anyone.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use broker_core::Refusal;
use broker_core::metadata::{ConnectionId, Metadata, MetadataChange, Outcome, QueueGone};
use cluster::{CommitShards, NodeId, SoloGroup, Staging};
use storage::Storage;

use crate::apply::QueueGroup;
use crate::clock;
use crate::counters::MessageCounts;
use crate::durability::{METADATA_STREAM, StoreOwner, stream_of};
use crate::error::OpenError;
use crate::metadata_store::MetadataMachine;
use crate::node::Node;
use crate::options::BrokerOptions;
use crate::recovery;
use crate::session::{Session, SessionOptions, SessionShared};
use crate::timers;

/// How often ends of messages are written that found no publish to ride along with.
const SETTLE_TICK: Duration = Duration::from_millis(10);

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
        let dropped = broker
            .apply(&MetadataChange::DropTransient { node: None })
            .await;
        if let Err(refusal) = dropped {
            tracing::error!(%refusal, "transient queues of the last run stay");
        }
        tokio::spawn(timers::run(
            broker.node.timers.clone(),
            broker.node.me.clone(),
        ));
        tokio::spawn(tick(broker.node.me.clone()));
        Ok(broker)
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
                node.failure.fail(why);
                node.close_sessions(node.failure.refusal(), |_| true);
            }
        })
        .map_err(OpenError::Thread)?;
        let journal = node.storage.start(replayed, commits.clone())?;
        let refused = |waiting: usize, why: &str| {
            tracing::error!(waiting, why, "a batch is refused by its group");
        };
        let metadata = SoloGroup::open(
            NODE,
            METADATA_STREAM,
            Arc::new(MetadataMachine::new(node.me.clone())),
            journal.clone(),
            &commits,
        );
        node.metadata
            .open(Staging::new(metadata, move |batch, why| {
                refused(batch.contexts.len(), why);
            }));
        let stagings = (0..=node.options.groups).map(|group| {
            let stream = stream_of(group);
            let machine = Arc::new(QueueGroup::new(node.me.clone(), stream));
            let solo = SoloGroup::open(NODE, stream, machine, journal.clone(), &commits);
            let refusing = node.me.clone();
            Staging::new(solo, move |batch, why| {
                refused(batch.contexts.len(), why);
                if let Some(node) = refusing.upgrade() {
                    crate::origin::tell(&node, &batch.contexts, |_| {
                        broker_core::channel::Verdict::Rejected
                    });
                }
            })
        });
        node.groups.open(stagings.collect());
        for queue in node.all_queues() {
            queue.awake(&node);
        }
        let owner = StoreOwner::new(node.me.clone(), commits.clone());
        node.storage.attach(Arc::new(owner))?;
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
    /// The vhost is missing or closed to the user, or a limit of connections is reached.
    pub fn open_session(&self, options: SessionOptions) -> Result<Session, Refusal> {
        let (in_vhost, by_user) = self.node.connection_counts(&options);
        let metadata = self.node.metadata.read();
        metadata.check_connection(&options.user, &options.vhost, in_vhost, by_user)?;
        drop(metadata);
        let id = ConnectionId(self.node.next_id());
        let shared = Arc::new(SessionShared::new(id, options, clock::now().0));
        self.node.sessions.insert(id, shared.clone());
        if !shared.is_internal() {
            self.node.traffic.connection_opened();
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

    /// Messages by what became of them.
    pub fn message_counts(&self) -> MessageCounts {
        self.node.counters.counts()
    }

    /// Writes what waits and stops the storage. Connections must be closed before.
    ///
    /// # Errors
    /// The last write or sync failed.
    pub async fn shutdown(&self) -> Result<(), OpenError> {
        let broker = self.clone();
        let stopping = tokio::task::spawn_blocking(move || {
            for queue in broker.node.all_queues() {
                queue.take_mark_back(&broker.node);
            }
            broker.node.groups.flush();
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

/// Writes what found no ride, for as long as the node lives.
async fn tick(node: std::sync::Weak<Node>) {
    let mut ticks = tokio::time::interval(SETTLE_TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(node) = node.upgrade() else { return };
        node.groups.flush();
    }
}
