//! The members of replica groups as operators see and change them: where each one's log stands, who is
//! in, who leads. What a member knows of itself is asked of it.

use std::time::Duration;

use broker_core::metadata::QueueId;
use cluster::{MemberChange, MemberError, NodeId, ReplicaGroup};
use tokio::time::{Instant, sleep};

use super::wire::{Answer, Call, Wire};
use crate::broker::Broker;
use crate::node::Node;
use crate::queue::{Lane, Queue};

/// How long a change of members or leader may take; a new member has to catch up first.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a member says about its copy of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyView {
    /// The term that it knows.
    pub term: u64,
    /// The last entry of its log.
    pub last_index: u64,
    /// The last entry that it has applied.
    pub applied_index: u64,
    /// The last entry whose effects are in its saved state.
    pub saved_index: u64,
    /// Messages that it holds of the queue.
    pub messages: u64,
    /// Whether it takes part in elections.
    pub votes: bool,
}

/// A member of a queue's replica group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its node.
    pub node: u64,
    /// Whether it leads.
    pub leads: bool,
    /// What it says; `None` when it does not answer.
    pub copy: Option<CopyView>,
}

/// Why members or leader stay as they are.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersFault {
    /// The queue is gone or not replicated.
    #[error("the queue is not replicated")]
    NotReplicated,
    /// The cluster has no such node, or it cannot be reached.
    #[error("node {0} is not running")]
    NodeNotRunning(u64),
    /// The group refuses.
    #[error(transparent)]
    Refused(#[from] MemberError),
    /// It may still come about.
    #[error("the change was not done within {} s", CHANGE_TIME_MAX.as_secs())]
    TimedOut,
}

impl Node {
    pub(super) fn copy_of(&self, queue: &Queue) -> Option<CopyView> {
        let Lane::Group(group) = queue.lane else {
            return None;
        };
        let status = self.groups.status(group)?;
        Some(CopyView {
            term: status.term,
            last_index: status.last_index,
            applied_index: status.applied_index,
            saved_index: self
                .storage
                .checkpoints()
                .covered(queue.store())
                .unwrap_or(0),
            messages: queue.counts().messages(),
            votes: status.votes,
        })
    }

    /// Asks another node to even out the leaders.
    pub(crate) fn ask_to_rebalance(&self, node: NodeId) {
        // One that is away leads nothing.
        let _ = self.say(node, &Wire::Rebalance);
    }

    async fn copy_at(&self, node: NodeId, queue: &Queue) -> Option<CopyView> {
        let me = self.replication.as_ref()?.me();
        if node == me {
            return self.copy_of(queue);
        }
        match self.ask(node, queue.id, Call::Copy).await {
            Some(Answer::Copy {
                term,
                last_index,
                applied_index,
                saved_index,
                messages,
                votes,
            }) => Some(CopyView {
                term,
                last_index,
                applied_index,
                saved_index,
                messages,
                votes,
            }),
            _ => None,
        }
    }
}

impl Broker {
    /// The members of a queue's replica group, each with what it says of itself; none for a queue
    /// that is not replicated.
    pub async fn members_of(&self, queue: QueueId) -> Vec<MemberView> {
        let (Some(group), Some(queue)) = (self.group_of(queue), self.node().queue(queue)) else {
            return Vec::new();
        };
        let mut members = Vec::new();
        for node in group.members {
            let copy = match group.online.contains(&node) {
                true => self.node().copy_at(NodeId(node), &queue).await,
                false => None,
            };
            let leads = group.leader == Some(node);
            members.push(MemberView { node, leads, copy });
        }
        members
    }

    /// Adds a node to the replica group of a queue, and waits until it counts. The queues of a group
    /// share its members.
    ///
    /// # Errors
    /// It cannot be done, or not in time.
    pub async fn add_member(&self, queue: QueueId, node: u64) -> Result<(), MembersFault> {
        if !self.is_up(NodeId(node)) {
            return Err(MembersFault::NodeNotRunning(node));
        }
        match self
            .change_members(queue, MemberChange::Add(NodeId(node)))
            .await
        {
            // rabbitmq: being in already is as good.
            Err(MembersFault::Refused(MemberError::AlreadyMember(_))) => Ok(()),
            done => done,
        }
    }

    /// Takes a node out of the replica group of a queue, dead or alive.
    ///
    /// # Errors
    /// It cannot be done, or not in time.
    pub async fn remove_member(&self, queue: QueueId, node: u64) -> Result<(), MembersFault> {
        let group = self.replica_group(queue)?;
        let status = group.status();
        // The others would be without a leader for an election's time.
        let mut others = status.members.iter().map(|member| member.0);
        let next = others.find(|other| *other != node && self.is_up(NodeId(*other)));
        if let Some(next) = next.filter(|_| status.leader == Some(NodeId(node))) {
            self.transfer_leader(queue, next).await?;
        }
        self.change_members(queue, MemberChange::Remove(NodeId(node)))
            .await
    }

    async fn change_members(
        &self,
        queue: QueueId,
        change: MemberChange,
    ) -> Result<(), MembersFault> {
        let group = self.replica_group(queue)?;
        group.change_members(change)?;
        let (node, wanted) = match change {
            MemberChange::Add(node) => (node, true),
            MemberChange::Remove(node) => (node, false),
        };
        until(|| group.status().members.contains(&node) == wanted).await
    }

    /// Lets another member lead the replica group of a queue.
    ///
    /// # Errors
    /// It cannot be done, or not in time.
    pub async fn transfer_leader(&self, queue: QueueId, to: u64) -> Result<(), MembersFault> {
        if !self.is_up(NodeId(to)) {
            return Err(MembersFault::NodeNotRunning(to));
        }
        let group = self.replica_group(queue)?;
        let to = NodeId(to);
        group.transfer_leader(to)?;
        until(|| group.status().leader == Some(to)).await
    }

    fn replica_group(
        &self,
        queue: QueueId,
    ) -> Result<std::sync::Arc<cluster::RaftGroup<crate::apply::QueueGroup>>, MembersFault> {
        let queue = self.node().queue(queue);
        let lane = queue.map(|queue| queue.lane);
        let replication = self.node().replication.as_ref();
        match (lane, replication) {
            (Some(Lane::Group(group)), Some(replication)) => replication
                .group(group)
                .cloned()
                .ok_or(MembersFault::NotReplicated),
            _ => Err(MembersFault::NotReplicated),
        }
    }
}

async fn until(done: impl Fn() -> bool) -> Result<(), MembersFault> {
    let end = Instant::now() + CHANGE_TIME_MAX;
    while !done() {
        if Instant::now() >= end {
            return Err(MembersFault::TimedOut);
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}
