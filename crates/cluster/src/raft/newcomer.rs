//! A member that remembers nothing: the group is new, or this member's disk is.
//!
//! One whose disk was lost has forgotten what it acknowledged, and its vote could elect a leader that
//! never had it. So it takes no part in elections until it has again what the others committed, or
//! all others are there and none of them knows more than the one that wants to lead. It has forgotten
//! whom it promised to follow as well: it follows a leader once all others are there and none of them
//! has heard of a later one.
//!
//! A group begins once each member has found all others blank; a majority would not do, for the one
//! that is not there may have what the others lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use openraft::raft::AppendEntriesRequest;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

use super::group::Shared;
use super::types::{LogId, Raft, TypeConfig, Vote};
use crate::group::NodeId;
use crate::links::Kind;
use crate::machine::SnapshotMachine;

const ASK_EVERY: Duration = Duration::from_millis(200);
/// How long members may be missing before that is told.
const TOLD_AFTER: Duration = Duration::from_secs(10);
const ANSWER_TIME_MAX: Duration = Duration::from_millis(500);
/// How long a word of its former life may be under way to the leader.
const FORMER_LIFE: Duration = Duration::from_secs(5);

/// What a member remembers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Memory {
    last: Option<LogId>,
    vote: Option<Vote>,
}

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Vote and lead.
    Full = 0,
    /// It is being found out whether the others remember more.
    Asking = 1,
    /// Only take in.
    Behind = 2,
}

pub(super) struct Newcomer {
    part: AtomicU8,
    since: Instant,
    /// The members that the node was told to begin with; a blank log names none.
    told_members: BTreeSet<NodeId>,
    /// Whom it may follow although it does not take part: nobody knew of a later leader.
    follows: Mutex<Option<Vote>>,
    /// Members that were blank when they were heard of last.
    blank: Mutex<BTreeSet<NodeId>>,
}

impl Newcomer {
    pub(super) fn new(remembers_nothing: bool, behind: bool, told_members: &[NodeId]) -> Self {
        let part = match (behind, remembers_nothing) {
            (true, _) => Part::Behind,
            (false, true) => Part::Asking,
            (false, false) => Part::Full,
        };
        Self {
            part: AtomicU8::new(part as u8),
            since: Instant::now(),
            told_members: told_members.iter().copied().collect(),
            follows: Mutex::default(),
            blank: Mutex::default(),
        }
    }

    pub(super) fn may_vote(&self) -> bool {
        self.part.load(Ordering::Acquire) == Part::Full as u8
    }

    /// Another member asks what this one remembers: it remembers nothing itself.
    pub(super) fn heard_blank(&self, node: NodeId) {
        self.blank.lock().insert(node);
    }

    pub(super) fn is_behind(&self) -> bool {
        self.part.load(Ordering::Acquire) == Part::Behind as u8
    }

    fn set(&self, part: Part) {
        self.part.store(part as u8, Ordering::Release);
    }
}

impl<M: SnapshotMachine> Shared<M> {
    /// Finds out whether this member begins a group or comes back to one, and lets it take part
    /// accordingly.
    pub(super) async fn find_part(self: Arc<Self>, raft: Raft, members: Vec<NodeId>) {
        let others: BTreeSet<NodeId> = members
            .iter()
            .copied()
            .filter(|node| *node != self.links.node())
            .collect();
        let mut told = false;
        while !self.closed.load(Ordering::Acquire) {
            let answers = self.recall(others.iter().copied()).await;
            if answers.iter().any(|(_, memory)| remembers(memory.last)) {
                self.fall_behind().await;
                return;
            }
            let mut missing = others.clone();
            {
                let mut blank = self.newcomer.blank.lock();
                blank.extend(answers.iter().map(|(node, _)| *node));
                missing.retain(|node| !blank.contains(node));
            }
            if missing.is_empty() {
                if let Err(error) = self.begin(&raft, &members).await {
                    tracing::warn!(stream = %self.stream, error, "the group does not begin");
                }
                self.newcomer.set(Part::Full);
                return;
            }
            if !told && self.newcomer.since.elapsed() > TOLD_AFTER {
                told = true;
                tracing::warn!(stream = %self.stream, ?missing,
                    "a group begins once all of its members are there for the first time");
            }
            sleep(ASK_EVERY).await;
        }
    }

    async fn fall_behind(&self) {
        self.newcomer.set(Part::Behind);
        tracing::info!(stream = %self.stream,
            "this member begins with nothing, the others do not: it votes once it has caught up");
        if let Err(error) = self.log.set_behind(true).await {
            tracing::error!(stream = %self.stream, %error, "it cannot be noted that this member is behind");
        }
    }

    /// What this member remembers.
    pub(super) fn memory(&self) -> Memory {
        Memory {
            last: self.log.last_log_id(),
            vote: self.log.vote(),
        }
    }

    /// What these members remember, as far as they answer.
    async fn recall(&self, nodes: impl Iterator<Item = NodeId>) -> Vec<(NodeId, Memory)> {
        let asking = nodes.map(|node| async move {
            let asking = self.links.call(node, Kind::Recall, self.stream, &[]);
            let answer = timeout(ANSWER_TIME_MAX, asking).await.ok()?.ok()?;
            Some((node, postcard::from_bytes(&answer).ok()?))
        });
        let answers = futures::future::join_all(asking).await;
        answers.into_iter().flatten().collect()
    }

    /// Whether this member may help to elect one whose log ends there. One that is behind may if all
    /// others are there and none of them knows more.
    pub(super) async fn may_vote_for(&self, last: Option<LogId>) -> bool {
        if self.newcomer.may_vote() {
            return true;
        }
        if !self.newcomer.is_behind() {
            return false;
        }
        let memories = self.recall_all().await;
        memories.is_some_and(|memories| memories.iter().all(|memory| memory.last <= last))
    }

    /// Whether this member may take in what the leader with this vote sends, and say so: it counts.
    pub(super) async fn may_follow(&self, vote: Vote) -> bool {
        if self.newcomer.may_vote() || *self.newcomer.follows.lock() == Some(vote) {
            return true;
        }
        let memories = self.recall_all().await;
        let may =
            memories.is_some_and(|memories| memories.iter().all(|known| known.vote <= Some(vote)));
        if may {
            *self.newcomer.follows.lock() = Some(vote);
        }
        may
    }

    /// What all other members remember; `None` if one is missing.
    async fn recall_all(&self) -> Option<Vec<Memory>> {
        let here = self.links.node();
        let mut others: BTreeSet<NodeId> = self.members().into_iter().map(NodeId).collect();
        if others.is_empty() {
            // It has not even the first entry, and perhaps nobody leads who could send it.
            others.clone_from(&self.newcomer.told_members);
        }
        others.remove(&here);
        let answers = self.recall(others.iter().copied()).await;
        let all = !others.is_empty() && answers.len() == others.len();
        all.then(|| answers.into_iter().map(|(_, memory)| memory).collect())
    }

    /// The leader's word on what is committed came, and was taken in.
    pub(super) async fn caught_up(&self, commit_index: Option<u64>) {
        let applied = self.applied_index.load(Ordering::Acquire);
        let has_all = commit_index.is_some_and(|index| applied > index);
        if !self.newcomer.is_behind() || !has_all || self.newcomer.since.elapsed() < FORMER_LIFE {
            return;
        }
        match self.log.set_behind(false).await {
            Ok(()) => {
                tracing::info!(stream = %self.stream, "this member has caught up and takes part");
                self.newcomer.set(Part::Full);
            }
            Err(error) => {
                tracing::error!(stream = %self.stream, %error, "it cannot be noted that this member has caught up");
            }
        }
    }
}

/// Whether a log has anything that only a group at work writes: its first entry says who the members
/// are, the second one that somebody leads.
fn remembers(last: Option<LogId>) -> bool {
    last.is_some_and(|last| last.index > 0)
}

/// Up to where the leader says that the log is committed.
pub(super) fn committed(request: &AppendEntriesRequest<TypeConfig>) -> Option<u64> {
    request.leader_commit.map(|committed| committed.index)
}
