//! When this member wants to lead: it has heard of no leader for a while, and a majority of the
//! members, asked before, has not either.
//!
//! openraft's own timer draws its patience once in a life: two members that drew nearly the same would
//! outbid each other for ever, and one that was cut off comes back with a term that ends a sound
//! leader. So elections are begun here. Asking first changes nothing on anybody's disk.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use openraft::ServerState;
use parking_lot::Mutex;
use rand::RngExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::group::{RaftTimes, Shared};
use super::types::{LogId, Raft};
use crate::group::NodeId;
use crate::links::Kind;
use crate::machine::SnapshotMachine;

/// How often a member looks whether it has waited long enough.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A disk that is slower than an election is given twice the time again and again, up to here.
const PATIENCE_DOUBLED_MAX: u32 = 4;

/// What this member heard of a leader, and what it makes of that.
#[derive(Default)]
pub(super) struct Ear(Mutex<Option<Instant>>);

impl Ear {
    /// A leader has shown itself, or a candidate got this member's vote.
    pub(super) fn hear(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    fn heard(&self) -> Option<Instant> {
        *self.0.lock()
    }
}

/// How long to wait, drawn anew each time.
struct Patience {
    times: RaftTimes,
    in_vain: u32,
}

impl Patience {
    /// For a leader that has fallen silent: longer than its lease.
    fn of_follower(&mut self) -> Duration {
        self.in_vain = 0;
        let RaftTimes {
            heartbeat_ms,
            election_ms_min,
            election_ms_max,
        } = self.times;
        let spread = rand::rng().random_range(0..=election_ms_max - election_ms_min);
        Duration::from_millis(election_ms_max + heartbeat_ms + spread)
    }

    /// Before an election that came to nothing is held again.
    fn of_candidate(&mut self) -> Duration {
        let RaftTimes {
            election_ms_min,
            election_ms_max,
            ..
        } = self.times;
        let drawn = rand::rng().random_range(election_ms_min..=election_ms_max);
        let doubled = self.in_vain.min(PATIENCE_DOUBLED_MAX);
        self.in_vain += 1;
        Duration::from_millis(drawn << doubled)
    }

    /// Before the others are asked again.
    fn of_asker(&self) -> Duration {
        let RaftTimes {
            heartbeat_ms,
            election_ms_min,
            ..
        } = self.times;
        Duration::from_millis(rand::rng().random_range(heartbeat_ms..=election_ms_min))
    }
}

/// Holds elections when they are due, as long as the group lives.
pub(super) async fn hold_elections<M: SnapshotMachine>(
    group: Weak<Shared<M>>,
    raft: Raft,
    times: RaftTimes,
) {
    let metrics = raft.server_metrics();
    let mut patience = Patience { times, in_vain: 0 };
    let mut since = Instant::now();
    let mut wait = patience.of_asker();
    loop {
        sleep(LOOK_EVERY).await;
        let Some(shared) = group.upgrade() else {
            return;
        };
        let (leads, voters) = {
            let metrics = metrics.borrow();
            let voters: BTreeSet<u64> =
                metrics.membership_config.membership().voter_ids().collect();
            (metrics.state == ServerState::Leader, voters)
        };
        let heard = shared.ear.heard().filter(|heard| *heard > since);
        let is_voter = voters.contains(&shared.links.node().0);
        if leads || heard.is_some() || !is_voter {
            since = heard.unwrap_or_else(Instant::now);
            wait = patience.of_follower();
            continue;
        }
        if since.elapsed() < wait {
            continue;
        }
        since = Instant::now();
        let last = shared.log.last_log_id();
        let wanted = shared.may_vote_for(last).await && shared.is_wanted(&voters, times).await;
        wait = match wanted {
            true => {
                if raft.trigger().elect().await.is_err() {
                    return;
                }
                patience.of_candidate()
            }
            false => patience.of_asker(),
        };
    }
}

impl<M: SnapshotMachine> Shared<M> {
    /// Whether a majority would vote for this member.
    async fn is_wanted(self: &Arc<Self>, voters: &BTreeSet<u64>, times: RaftTimes) -> bool {
        let here = self.links.node();
        let Ok(question) = postcard::to_stdvec(&self.log.last_log_id()) else {
            return false;
        };
        let question: Arc<[u8]> = question.into();
        let patience = Duration::from_millis(times.election_ms_min);
        let (answers, mut coming) = mpsc::channel(voters.len().max(1));
        for node in voters.iter().copied().map(NodeId).filter(|n| *n != here) {
            let (this, question, answers) = (Arc::clone(self), question.clone(), answers.clone());
            self.links.runtime().spawn(async move {
                let asking = this.links.call(node, Kind::Ask, this.stream, &question);
                let answer = timeout(patience, asking).await;
                let yes = matches!(answer, Ok(Ok(answer)) if answer.first() == Some(&1));
                // Enough others may have answered.
                let _ = answers.send(yes).await;
            });
        }
        drop(answers);
        let mut wanted_by = 1;
        while wanted_by * 2 <= voters.len() {
            match coming.recv().await {
                Some(yes) => wanted_by += usize::from(yes),
                None => return false,
            }
        }
        true
    }

    /// Whether this member would vote for one whose log ends there.
    pub(super) fn would_vote_for(&self, last: Option<LogId>) -> bool {
        let leads = self.leading_term().is_some() && self.has_lease();
        let lease = Duration::from_millis(self.lease_ms);
        let heard = self.ear.heard();
        let hears = heard.is_some_and(|heard| heard.elapsed() <= lease);
        !leads && !hears && last >= self.log.last_log_id()
    }
}
