//! A replica group of several members, as its proposers see it.
//!
//! Whoever leads proposes; the others hand their batches to the leader and hear from it what became
//! of them. While nobody leads, batches wait here, and whoever staged them sees that there is no room.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use openraft::{ChangeMembers, Config, ServerState, SnapshotPolicy};
use parking_lot::{Mutex, RwLock};
use storage::StreamId;
use tokio::sync::mpsc;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::adapter::{Adapter, Standing};
use super::election::{self, Ear};
use super::inbound::Arriving;
use super::log::{LogDisk, LogNotes, RaftLog};
use super::network::Network;
use super::newcomer::Newcomer;
use super::outside::Outside;
use super::pending::{Pending, Source};
use super::replay::ReplayedLog;
use super::types::{Command, Raft};
use crate::group::{
    AppliedObserver, Batch, GroupStatus, MemberChange, MemberError, NodeId, ProposeError,
    ReplicaGroup, Role,
};
use crate::links::{Kind, Links};
use crate::machine::{Abandoned, SnapshotMachine};

/// How patient the members of a group are with each other.
#[derive(Debug, Clone, Copy)]
pub struct RaftTimes {
    /// A leader shows itself this often.
    pub heartbeat_ms: u64,
    /// A member that hears nothing for a time between these two wants to lead.
    pub election_ms_min: u64,
    /// See `election_ms_min`.
    pub election_ms_max: u64,
}

impl Default for RaftTimes {
    /// A dead leader is replaced within two seconds, and a sync of half a second is no death: a
    /// member waits for the longest of these times and then for one between the two.
    fn default() -> Self {
        Self {
            heartbeat_ms: 200,
            election_ms_min: 450,
            election_ms_max: 800,
        }
    }
}

/// How long the leader may take to say what became of a batch.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
/// Beyond the lease, for heartbeats that were under way.
const TRANSFER_MARGIN: Duration = Duration::from_millis(50);
const TRANSFER_LOOK: Duration = Duration::from_millis(10);

/// A replica group with members on several nodes.
pub struct RaftGroup<M: SnapshotMachine> {
    shared: Arc<Shared<M>>,
}

pub(super) struct Shared<M: SnapshotMachine> {
    pub(super) this: Weak<Self>,
    pub(super) stream: StreamId,
    pub(super) machine: Arc<M>,
    pub(super) links: Arc<Links>,
    pub(super) log: RaftLog,
    raft: OnceLock<Raft>,
    proposals: OnceLock<mpsc::UnboundedSender<Command>>,
    pub(super) standing: Mutex<Standing>,
    /// Copy of the standing, to be read without its lock.
    pub(super) leading: AtomicBool,
    /// Without word from a majority for so long, another member may lead already.
    pub(super) lease_ms: u64,
    pub(super) ear: Ear,
    pub(super) outside: Outside,
    pub(super) newcomer: Newcomer,
    pub(super) closed: AtomicBool,
    /// Whether leadership is on its way to another member: nothing is proposed meanwhile.
    pub(super) transferring: AtomicBool,
    pub(super) in_flight: AtomicUsize,
    pub(super) applied_index: AtomicU64,
    /// Machine index up to which the machine's checkpoints go.
    pub(super) covered: AtomicU64,
    /// Batches that nobody can take at the moment, in their order. Bounded by the proposer (see
    /// `Staging`).
    held: Mutex<VecDeque<Held<M::Context>>>,
    /// Batches at the leader, by their numbers.
    pub(super) forwarded: Mutex<HashMap<u64, Forwarded<M::Context>>>,
    pub(super) arriving: Arriving,
    observer: RwLock<Option<Weak<dyn AppliedObserver>>>,
}

/// A batch that waits for a leader.
struct Held<C> {
    /// The number under which it was sent and came back.
    number: Option<u64>,
    batch: Batch<C>,
}

/// A batch that another node was asked to propose.
pub(super) struct Forwarded<C> {
    pub(super) payload: Bytes,
    pub(super) contexts: Vec<C>,
    to: NodeId,
    since: Instant,
}

impl<M: SnapshotMachine> fmt::Debug for RaftGroup<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftGroup")
            .field("stream", &self.shared.stream)
            .finish_non_exhaustive()
    }
}

impl<M: SnapshotMachine> RaftGroup<M> {
    /// Opens the group on this node. The machine must have been brought to what its checkpoints cover,
    /// and no further. A group that nobody knows yet begins with `members`, which must be the same on
    /// each of them.
    ///
    /// # Errors
    /// openraft does not start, with its reason.
    pub async fn open(
        replayed: ReplayedLog,
        machine: Arc<M>,
        links: &Arc<Links>,
        disk: Arc<dyn LogDisk>,
        notes: Arc<dyn LogNotes>,
        times: RaftTimes,
        members: &[NodeId],
    ) -> Result<Arc<Self>, String> {
        let stream = replayed.stream();
        let covered = replayed.covered();
        let mut state = replayed.into_state();
        state.resign(links.node());
        let log = RaftLog::new(stream, state, disk, notes);
        let is_member = members.contains(&links.node());
        let remembers_nothing = is_member && members.len() > 1 && log.is_blank();
        let newcomer = Newcomer::new(remembers_nothing, log.is_behind(), members);
        let shared = Arc::new_cyclic(|this| Shared {
            this: Weak::clone(this),
            stream,
            machine,
            links: Arc::clone(links),
            log,
            raft: OnceLock::new(),
            proposals: OnceLock::new(),
            standing: Mutex::default(),
            leading: AtomicBool::new(false),
            lease_ms: times.election_ms_max,
            ear: Ear::default(),
            outside: Outside::default(),
            newcomer,
            closed: AtomicBool::new(false),
            transferring: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            applied_index: AtomicU64::new(covered),
            covered: AtomicU64::new(covered),
            held: Mutex::default(),
            forwarded: Mutex::default(),
            arriving: Arriving::default(),
            observer: RwLock::new(None),
        });
        let raft = shared.start(times).await?;
        let inbound: Weak<Shared<M>> = Arc::downgrade(&shared);
        links.register(stream, inbound);
        if remembers_nothing {
            tokio::spawn(Arc::clone(&shared).find_part(raft, members.to_vec()));
        } else {
            shared.begin(&raft, members).await?;
        }
        Ok(Arc::new(Self { shared }))
    }

    /// The machine of the group.
    pub fn machine(&self) -> &Arc<M> {
        &self.shared.machine
    }

    /// Writes what must outlive journal files that hold entries up to `flushed`. Answers the last
    /// control record that is in it.
    pub fn checkpoint(&self, flushed: u64, out: &mut Vec<u8>) -> Option<u64> {
        let applied = self.shared.applied_index.load(Ordering::Acquire);
        self.shared.log.save(flushed.min(applied), out)
    }

    /// The machine's checkpoints up to `flushed` are durable: the log lets go of what they cover.
    pub fn covered(&self, flushed: u64) {
        let applied = self.shared.applied_index.load(Ordering::Acquire);
        let covered = flushed.min(applied);
        if self.shared.covered.fetch_max(covered, Ordering::AcqRel) >= covered {
            return;
        }
        let Some(raft) = self.shared.raft() else {
            return;
        };
        self.shared.links.runtime().spawn(async move {
            if let Err(error) = raft.trigger().snapshot().await {
                tracing::debug!(%error, "a group that ends keeps its log");
            }
        });
    }

    /// Whether this node leads and its machine knows it.
    pub fn is_leading(&self) -> bool {
        self.shared.leading.load(Ordering::Acquire)
    }

    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.shared.leader()
    }

    /// Waits for a change of the leader, or of the members.
    pub fn watch(&self) -> Option<impl Future<Output = ()> + Send + use<M>> {
        let mut metrics = self.shared.raft()?.server_metrics();
        metrics.mark_unchanged();
        Some(async move {
            // An error means that the group has ended; whoever waits looks and sees.
            let _ = metrics.changed().await;
        })
    }

    /// Ends the consensus on this node. What is in flight is abandoned.
    pub async fn shutdown(&self) {
        self.shared.closed.store(true, Ordering::Release);
        if let Some(raft) = self.shared.raft()
            && let Err(error) = raft.shutdown().await
        {
            tracing::warn!(stream = %self.shared.stream, %error, "a group ended badly");
        }
        self.shared.give_up_forwarded(None);
        let held: Vec<_> = self.shared.held.lock().drain(..).collect();
        for Held { batch, .. } in held {
            let Batch {
                payload, contexts, ..
            } = batch;
            let source = Source::Here { payload, contexts };
            self.shared.refuse(source, Abandoned::Closed);
        }
    }
}

impl<M: SnapshotMachine> Shared<M> {
    async fn start(self: &Arc<Self>, times: RaftTimes) -> Result<Raft, String> {
        let config = Config {
            cluster_name: format!("group-{}", self.stream.0),
            heartbeat_interval: times.heartbeat_ms,
            // What openraft draws between these goes unused: elections are begun by `election`. The
            // one is how long a vote may take, the other the lease of a leader.
            enable_elect: false,
            election_timeout_min: times.election_ms_max - 1,
            election_timeout_max: times.election_ms_max,
            install_snapshot_timeout: 60_000,
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: 0,
            // A member is fed entries as long as the log has them.
            replication_lag_threshold: u64::MAX,
            ..Config::default()
        };
        let config = config.validate().map_err(|error| error.to_string())?;
        let network = Network {
            links: Arc::clone(&self.links),
            stream: self.stream,
        };
        let covered = self.covered.load(Ordering::Acquire);
        let (last_log_id, membership) = self.log.covered(covered);
        let adapter = Adapter::new(Arc::clone(self), last_log_id, membership);
        let node = self.links.node().0;
        let raft = Raft::new(node, Arc::new(config), network, self.log.clone(), adapter)
            .await
            .map_err(|error| error.to_string())?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let set = self.raft.set(raft.clone()).is_ok() && self.proposals.set(sender).is_ok();
        debug_assert!(set, "a group is started once");
        tokio::spawn(propose_in_order(raft.clone(), receiver));
        tokio::spawn(follow_leader(Arc::downgrade(self), raft.clone()));
        tokio::spawn(election::hold_elections(
            Arc::downgrade(self),
            raft.clone(),
            times,
        ));
        Ok(raft)
    }

    pub(super) async fn begin(&self, raft: &Raft, members: &[NodeId]) -> Result<(), String> {
        let here = self.links.node();
        if !members.contains(&here) || self.log.last_index() > 0 {
            return Ok(());
        }
        let members: BTreeSet<u64> = members.iter().map(|node| node.0).collect();
        match raft.initialize(members).await {
            Ok(()) => Ok(()),
            // The others were faster: their first entries are here already.
            Err(error) if self.log.last_index() > 0 => {
                tracing::debug!(%error, "the group has begun elsewhere");
                Ok(())
            }
            Err(error) => match raft.is_initialized().await {
                Ok(true) => Ok(()),
                // Somebody asked for a vote first: it will send its entries.
                _ if raft.metrics().borrow().current_term > 0 => Ok(()),
                _ => Err(error.to_string()),
            },
        }
    }

    pub(super) fn raft(&self) -> Option<Raft> {
        self.raft.get().cloned()
    }

    /// The term in which this node leads, as the consensus sees it.
    pub(super) fn leading_term(&self) -> Option<u64> {
        let metrics = self.raft.get()?.server_metrics();
        let metrics = metrics.borrow();
        (metrics.state == ServerState::Leader).then(|| metrics.vote.leader_id().get_term())
    }

    fn term(&self) -> u64 {
        let Some(raft) = self.raft.get() else {
            return 0;
        };
        let metrics = raft.server_metrics();
        metrics.borrow().vote.leader_id().get_term()
    }

    /// Whether a majority has answered this leader lately. The others elect nobody before.
    pub(super) fn has_lease(&self) -> bool {
        let Some(raft) = self.raft.get() else {
            return false;
        };
        let silent_ms = raft.data_metrics().borrow().millis_since_quorum_ack;
        silent_ms.is_none_or(|ms| ms < self.lease_ms)
    }

    fn leader(&self) -> Option<NodeId> {
        let metrics = self.raft.get()?.server_metrics();
        let (leader, term) = {
            let metrics = metrics.borrow();
            (metrics.current_leader, metrics.vote.leader_id().get_term())
        };
        match self.outside.leader(term) {
            Some((leader, _)) => Some(leader),
            None => leader.map(NodeId),
        }
    }

    pub(super) fn hand_to_raft(&self, command: Command) {
        if let Some(proposals) = self.proposals.get()
            && let Err(unsent) = proposals.send(command)
        {
            // Dropping it tells its source, which must not happen under the caller's locks.
            self.links.runtime().spawn(async move { drop(unsent) });
        }
    }

    pub(super) fn tell_observer(&self) {
        let observer = self.observer.read().as_ref().and_then(Weak::upgrade);
        if let Some(observer) = observer {
            observer.applied(self.applied_index.load(Ordering::Acquire));
        }
    }

    /// Brings a batch on its way, or back when nobody can take it at the moment.
    fn route(
        &self,
        number: Option<u64>,
        batch: Batch<M::Context>,
    ) -> Result<(), Batch<M::Context>> {
        let here = self.links.node();
        match self.leader() {
            Some(leader) if leader == here && self.is_transferring() => Err(batch),
            Some(leader) if leader == here => {
                let source = Source::Here {
                    payload: batch.payload.clone(),
                    contexts: batch.contexts,
                };
                let pending = Pending::new(self.this.clone(), source);
                self.hand_to_raft(Command {
                    payload: batch.payload,
                    proposal: Some(Arc::new(pending)),
                });
                Ok(())
            }
            Some(leader) => self.forward(leader, number, batch),
            None => Err(batch),
        }
    }

    fn forward(
        &self,
        to: NodeId,
        number: Option<u64>,
        batch: Batch<M::Context>,
    ) -> Result<(), Batch<M::Context>> {
        let number = number.unwrap_or_else(|| self.links.number());
        let mut forwarded = self.forwarded.lock();
        // Under the lock, so that the outcome finds the batch.
        if !self
            .links
            .send(to, Kind::Propose, self.stream, number, &batch.payload)
        {
            return Err(batch);
        }
        let Batch {
            payload, contexts, ..
        } = batch;
        forwarded.insert(
            number,
            Forwarded {
                payload,
                contexts,
                to,
                since: Instant::now(),
            },
        );
        Ok(())
    }

    /// Sends on what was held, as far as somebody takes it. What was sent before may still come back
    /// and belongs ahead of what follows it.
    pub(super) fn release_held(&self) {
        let mut held = self.held.lock();
        if held.is_empty() {
            return;
        }
        let unanswered = self.forwarded.lock().keys().copied().min();
        while let Some(Held { number, batch }) = held.pop_front() {
            let follows = unanswered.is_some_and(|first| number.is_none_or(|own| own > first));
            let routed = match follows {
                true => Err(batch),
                false => self.route(number, batch),
            };
            if let Err(batch) = routed {
                held.push_front(Held { number, batch });
                return;
            }
        }
    }

    /// Nobody will say what became of batches at this node (or at any): they may be committed or not.
    pub(super) fn give_up_forwarded(&self, at: Option<NodeId>) {
        self.give_up(|batch| at.is_none_or(|node| node == batch.to));
    }

    fn give_up(&self, which: impl Fn(&Forwarded<M::Context>) -> bool) {
        let lost: Vec<_> = {
            let mut forwarded = self.forwarded.lock();
            let numbers: Vec<u64> = forwarded
                .iter()
                .filter(|(_, batch)| which(batch))
                .map(|(number, _)| *number)
                .collect();
            numbers
                .iter()
                .filter_map(|number| forwarded.remove(number))
                .collect()
        };
        for batch in lost {
            let Forwarded {
                payload, contexts, ..
            } = batch;
            let source = Source::Here { payload, contexts };
            self.refuse(source, Abandoned::LeadershipLost);
        }
    }

    /// Begins to let another member lead, if this one does.
    pub(super) fn hand_over(self: Arc<Self>, to: NodeId) {
        let leads = self.leading_term().is_some() && to != self.links.node();
        let Some(raft) = self.raft().filter(|_| leads) else {
            return;
        };
        if !self.transferring.swap(true, Ordering::AcqRel) {
            let runtime = self.links.runtime().clone();
            runtime.spawn(async move { self.transfer(&raft, to).await });
        }
    }

    /// Lets another member lead. The members vote for nobody as long as they hear from this leader,
    /// so it falls silent: no heartbeat, and no entry either.
    async fn transfer(&self, raft: &Raft, to: NodeId) {
        let lease = Duration::from_millis(self.lease_ms);
        raft.runtime_config().heartbeat(false);
        tokio::time::sleep(lease + TRANSFER_MARGIN).await;
        self.links.send(to, Kind::Elect, self.stream, 0, &[]);
        // Nobody may want to lead; then this node goes on.
        let end = Instant::now() + lease;
        while self.leading_term().is_some() && Instant::now() < end {
            tokio::time::sleep(TRANSFER_LOOK).await;
        }
        raft.runtime_config().heartbeat(true);
        self.transferring.store(false, Ordering::Release);
        self.release_held();
    }

    pub(super) fn is_transferring(&self) -> bool {
        self.transferring.load(Ordering::Acquire)
    }

    /// The leader is about to be another one: the batch is sent again, behind those that came back
    /// before and ahead of those that were not sent. Once another leader is known, later batches may
    /// be with it already.
    pub(super) fn hold_again(&self, from: NodeId, number: u64, batch: Forwarded<M::Context>) {
        let mut held = self.held.lock();
        if self.leader() != Some(from) {
            drop(held);
            let Forwarded {
                payload, contexts, ..
            } = batch;
            return self.refuse(
                Source::Here { payload, contexts },
                Abandoned::LeadershipLost,
            );
        }
        let Forwarded {
            payload, contexts, ..
        } = batch;
        let before = |own: &Held<_>| own.number.is_some_and(|own| own < number);
        let place = held.partition_point(before);
        let batch = Batch {
            payload,
            contexts,
            logged: true,
        };
        let number = Some(number);
        held.insert(place, Held { number, batch });
    }

    pub(super) fn members(&self) -> BTreeSet<u64> {
        let Some(raft) = self.raft.get() else {
            return BTreeSet::new();
        };
        let metrics = raft.server_metrics();
        let known: BTreeSet<u64> = {
            let metrics = metrics.borrow();
            metrics.membership_config.membership().voter_ids().collect()
        };
        if let Some((_, shown)) = self.outside.leader(self.term()) {
            return shown;
        }
        match self.outside.last_members() {
            shown if !shown.is_empty() && !known.contains(&self.links.node().0) => shown,
            _ => known,
        }
    }

    /// Changes the members, as the leader.
    pub(super) fn set_members(self: &Arc<Self>, members: BTreeSet<u64>) {
        let (Some(raft), this) = (self.raft(), Arc::clone(self)) else {
            return;
        };
        self.links.runtime().spawn(async move {
            let present = this.members();
            for node in members.difference(&present) {
                let node = (*node, openraft::EmptyNode {});
                if let Err(error) = raft.add_learner(node.0, node.1, true).await {
                    tracing::warn!(stream = %this.stream, node = node.0, %error, "a member is not added");
                    return;
                }
            }
            let change = ChangeMembers::ReplaceAllVoters(members);
            if let Err(error) = raft.change_membership(change, false).await {
                tracing::warn!(stream = %this.stream, %error, "the members stay as they are");
            }
        });
    }
}

/// Hands commands to openraft in the order in which they were proposed.
async fn propose_in_order(raft: Raft, mut commands: mpsc::UnboundedReceiver<Command>) {
    // openraft complains of answers that nobody takes.
    let mut answers = VecDeque::new();
    while let Some(command) = commands.recv().await {
        // A failure reaches the source through the command itself.
        match raft.client_write_ff(command).await {
            Ok(answer) => answers.push_back(answer),
            Err(error) => tracing::debug!(%error, "a group that has ended takes no batch"),
        }
        while let Some(front) = answers.front_mut()
            && !matches!(front.try_recv(), Err(TryRecvError::Empty))
        {
            answers.pop_front();
        }
    }
}

/// Tells the machine and the proposers when the leader changes.
async fn follow_leader<M: SnapshotMachine>(group: Weak<Shared<M>>, raft: Raft) {
    let mut metrics = raft.server_metrics();
    let mut last_leader = None;
    loop {
        metrics.mark_unchanged();
        let Some(shared) = group.upgrade() else {
            return;
        };
        let leader = shared.leader();
        shared.show_outside();
        shared.settle_standing(&mut shared.standing.lock());
        if leader != last_leader {
            tracing::info!(stream = %shared.stream, leader = leader.map(|node| node.0), "leader");
            if let Some(before) = last_leader {
                shared.give_up_forwarded(Some(before));
            }
            last_leader = leader;
        }
        // The answer may have been lost on its way.
        shared.give_up(|batch| batch.since.elapsed() > ANSWER_TIME_MAX);
        shared.release_held();
        drop(shared);
        // A link that comes up later is noticed by the clock.
        let changed = tokio::time::timeout(Duration::from_millis(200), metrics.changed()).await;
        if let Ok(Err(_)) = changed {
            return;
        }
    }
}

impl<M: SnapshotMachine> ReplicaGroup<M::Context> for RaftGroup<M> {
    fn propose(&self, batch: Batch<M::Context>) -> Result<u64, ProposeError<M::Context>> {
        let (bytes, bytes_max) = (
            batch.payload.len() as u64,
            self.shared.log.disk().record_bytes_max(),
        );
        if bytes > bytes_max {
            return Err(ProposeError::TooLarge {
                bytes,
                bytes_max,
                batch,
            });
        }
        self.shared.in_flight.fetch_add(1, Ordering::AcqRel);
        let mut held = self.shared.held.lock();
        let routed = match held.is_empty() {
            true => self.shared.route(None, batch),
            false => Err(batch),
        };
        if let Err(batch) = routed {
            let number = None;
            held.push_back(Held { number, batch });
        }
        Ok(self.shared.log.last_index() + 1)
    }

    fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Acquire)
    }

    fn has_room(&self) -> bool {
        self.shared.log.disk().has_room() && self.shared.held.lock().is_empty()
    }

    fn status(&self) -> GroupStatus {
        let leader = self.shared.leader();
        let role = match leader {
            Some(_) if self.is_leading() => Role::Leader,
            Some(leader) if leader != self.shared.links.node() => Role::Follower,
            _ => Role::Leaderless,
        };
        GroupStatus {
            role,
            leader,
            term: self.shared.term(),
            votes: self.shared.newcomer.may_vote(),
            members: self.shared.members().into_iter().map(NodeId).collect(),
            last_index: self.shared.log.last_index(),
            applied_index: self.shared.applied_index.load(Ordering::Acquire),
        }
    }

    fn change_members(&self, change: MemberChange) -> Result<(), MemberError> {
        let mut members = self.shared.members();
        match change {
            MemberChange::Add(node) if !members.insert(node.0) => {
                return Err(MemberError::AlreadyMember(node));
            }
            MemberChange::Remove(node) if !members.remove(&node.0) => {
                return Err(MemberError::NotAMember(node));
            }
            MemberChange::Remove(node) if members.is_empty() => {
                return Err(MemberError::LastMember(node));
            }
            _ => {}
        }
        match self.shared.leader() {
            Some(leader) if leader != self.shared.links.node() => {
                if let Ok(body) = postcard::to_stdvec(&members) {
                    let stream = self.shared.stream;
                    self.shared
                        .links
                        .send(leader, Kind::Members, stream, 0, &body);
                }
            }
            _ => self.shared.set_members(members),
        }
        Ok(())
    }

    fn transfer_leader(&self, to: NodeId) -> Result<(), MemberError> {
        if !self.shared.members().contains(&to.0) {
            return Err(MemberError::NotAMember(to));
        }
        let links = &self.shared.links;
        match self.shared.leader() {
            Some(leader) if leader != links.node() => {
                if let Ok(body) = postcard::to_stdvec(&to.0) {
                    // A leader that cannot be told is as good as one that does not do it.
                    links.send(leader, Kind::HandOver, self.shared.stream, 0, &body);
                }
            }
            _ => Arc::clone(&self.shared).hand_over(to),
        }
        Ok(())
    }

    fn observe(&self, observer: Weak<dyn AppliedObserver>) {
        *self.shared.observer.write() = Some(observer);
    }
}
