//! What other members and nodes ask of a group on this node.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use openraft::Snapshot;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest};
use parking_lot::Mutex;
use serde::Serialize;

use super::group::{Forwarded, Shared};
use super::network::SnapshotPiece;
use super::newcomer;
use super::pending::{Outcome, Pending, Source};
use super::types::{Chunks, Command, SnapshotMeta, TypeConfig, Vote};
use crate::group::NodeId;
use crate::links::{Frame, Inbound, Kind};
use crate::machine::{Abandoned, SnapshotMachine};

/// Snapshots that arrive at once; more are refused, and come again.
const ARRIVING_MAX: usize = 2;

/// Snapshots on their way to this member, by sender and number.
#[derive(Default)]
pub(super) struct Arriving(Mutex<HashMap<(NodeId, u64), Parts>>);

struct Parts {
    vote: Vote,
    meta: SnapshotMeta,
    chunks: Vec<Bytes>,
}

impl Arriving {
    fn begin(&self, key: (NodeId, u64), vote: Vote, meta: SnapshotMeta) {
        let mut arriving = self.0.lock();
        // A sender that began again has given up what it sent before.
        arriving.retain(|(node, _), _| *node != key.0);
        if arriving.len() < ARRIVING_MAX {
            let chunks = Vec::new();
            arriving.insert(key, Parts { vote, meta, chunks });
        }
    }

    /// A chunk that is not the next one ends the snapshot: something between was lost.
    fn chunk(&self, key: (NodeId, u64), number: u64, chunk: Bytes) {
        let mut arriving = self.0.lock();
        match arriving.get_mut(&key) {
            Some(parts) if parts.chunks.len() as u64 == number => parts.chunks.push(chunk),
            _ => drop(arriving.remove(&key)),
        }
    }

    fn end(&self, key: (NodeId, u64), chunks: u64) -> Option<Parts> {
        let parts = self.0.lock().remove(&key)?;
        (parts.chunks.len() as u64 == chunks).then_some(parts)
    }

    fn forget(&self, node: NodeId) {
        self.0.lock().retain(|(from, _), _| *from != node);
    }
}

impl<M: SnapshotMachine> Inbound for Shared<M> {
    fn receive(&self, from: NodeId, frame: Frame) {
        let Some(this) = self.this.upgrade() else {
            return;
        };
        match frame.kind {
            Kind::Append => this.on_append(from, frame),
            Kind::Vote => this.on_vote(from, frame),
            Kind::Snapshot => this.on_snapshot(from, frame),
            Kind::Propose => this.on_propose(from, frame),
            Kind::Outcome => this.on_outcome(from, &frame),
            Kind::Elect => this.on_elect(),
            Kind::Ask => this.on_ask(from, frame),
            Kind::Members => this.on_members(from, frame),
            Kind::Leading => this.on_leading(from, &frame),
            Kind::Recall => this.on_recall(from, &frame),
            Kind::HandOver => this.on_hand_over(from, &frame),
            Kind::Reply | Kind::Message => {}
        }
    }

    fn down(&self, node: NodeId) {
        self.arriving.forget(node);
        self.give_up_forwarded(Some(node));
    }
}

impl<M: SnapshotMachine> Shared<M> {
    fn reply<T: Serialize>(&self, to: NodeId, number: u64, answer: &T) {
        match postcard::to_stdvec(answer) {
            Ok(body) => {
                self.links.send(to, Kind::Reply, self.stream, number, &body);
            }
            Err(error) => tracing::error!(%error, "an answer to another node cannot be written"),
        }
    }

    fn on_append(self: Arc<Self>, from: NodeId, frame: Frame) {
        let request: AppendEntriesRequest<TypeConfig> = match postcard::from_bytes(&frame.body) {
            Ok(request) => request,
            Err(error) => return garbled(from, &error),
        };
        let Some(raft) = self.raft() else { return };
        self.links.runtime().clone().spawn(async move {
            if !self.may_follow(request.vote).await {
                return;
            }
            let committed = newcomer::committed(&request);
            let answer = raft.append_entries(request).await;
            if matches!(&answer, Ok(answer) if !matches!(answer, AppendEntriesResponse::HigherVote(_))) {
                self.ear.hear();
                self.caught_up(committed).await;
            }
            self.reply(from, frame.number, &answer);
        });
    }

    fn on_vote(self: Arc<Self>, from: NodeId, frame: Frame) {
        let request: VoteRequest<u64> = match postcard::from_bytes(&frame.body) {
            Ok(request) => request,
            Err(error) => return garbled(from, &error),
        };
        let Some(raft) = self.raft() else { return };
        self.links.runtime().clone().spawn(async move {
            if !self.may_vote_for(request.last_log_id).await {
                return;
            }
            let answer = raft.vote(request).await;
            if answer.as_ref().is_ok_and(|answer| answer.vote_granted) {
                self.ear.hear();
            }
            self.reply(from, frame.number, &answer);
        });
    }

    fn on_snapshot(self: Arc<Self>, from: NodeId, frame: Frame) {
        let key = (from, frame.number);
        match postcard::from_bytes(&frame.body) {
            Ok(SnapshotPiece::Begin { vote, meta }) => self.arriving.begin(key, vote, meta),
            Ok(SnapshotPiece::Chunk { number, bytes }) => self.arriving.chunk(key, number, bytes),
            Ok(SnapshotPiece::End { chunks }) => {
                let (Some(raft), parts) = (self.raft(), self.arriving.end(key, chunks)) else {
                    return;
                };
                self.links.runtime().clone().spawn(async move {
                    let mut answer = None;
                    if let Some(Parts { vote, meta, chunks }) = parts {
                        if !self.may_follow(vote).await {
                            return;
                        }
                        tracing::info!(stream = %self.stream, chunks = chunks.len(), from = from.0,
                            "the state of another member is installed");
                        let snapshot = Box::new(Chunks::Received(chunks));
                        let snapshot = Snapshot { meta, snapshot };
                        answer = raft.install_full_snapshot(vote, snapshot).await.ok();
                        self.ear.hear();
                    }
                    self.reply(from, frame.number, &answer);
                });
            }
            Err(error) => garbled(from, &error),
        }
    }

    /// Another node took a batch and asks this one, as the leader, to propose it.
    fn on_propose(self: Arc<Self>, from: NodeId, frame: Frame) {
        let number = frame.number;
        if self.leading_term().is_none() {
            // It may know by now who does.
            return self.tell(from, number, &Outcome::NotTaken);
        }
        if self.is_transferring() {
            return self.tell(from, number, &Outcome::NotTaken);
        }
        let source = Source::Node { node: from, number };
        let pending = Pending::new(self.this.clone(), source);
        let payload = Bytes::copy_from_slice(&frame.body);
        self.hand_to_raft(Command {
            payload,
            proposal: Some(Arc::new(pending)),
        });
    }

    fn on_outcome(self: Arc<Self>, from: NodeId, frame: &Frame) {
        let forwarded = self.forwarded.lock().remove(&frame.number);
        let Some(forwarded) = forwarded else {
            return;
        };
        let outcome = Outcome::read(&frame.body);
        if let Outcome::NotTaken = outcome {
            return self.hold_again(from, frame.number, forwarded);
        }
        let Forwarded {
            payload, contexts, ..
        } = forwarded;
        match outcome {
            Outcome::Committed(answer) => {
                self.in_flight.fetch_sub(1, Ordering::AcqRel);
                self.machine.answered(payload, contexts, answer);
                self.tell_observer();
            }
            Outcome::Refused | Outcome::NotTaken => {
                let source = Source::Here { payload, contexts };
                self.refuse(source, Abandoned::LeadershipLost);
            }
        }
        self.release_held();
    }

    fn on_elect(self: Arc<Self>) {
        let Some(raft) = self.raft() else { return };
        self.links.runtime().clone().spawn(async move {
            if !self.may_vote_for(self.log.last_log_id()).await {
                return;
            }
            if let Err(error) = raft.trigger().elect().await {
                tracing::warn!(stream = %self.stream, %error, "no election can be held");
            }
        });
    }

    fn on_hand_over(self: Arc<Self>, from: NodeId, frame: &Frame) {
        match postcard::from_bytes(&frame.body) {
            Ok(to) => self.hand_over(NodeId(to)),
            Err(error) => garbled(from, &error),
        }
    }

    fn on_recall(&self, from: NodeId, frame: &Frame) {
        self.newcomer.heard_blank(from);
        self.reply(from, frame.number, &self.memory());
    }

    fn on_leading(&self, from: NodeId, frame: &Frame) {
        match postcard::from_bytes(&frame.body) {
            Ok(shown) => self.outside.hear(from, shown),
            Err(error) => garbled(from, &error),
        }
    }

    fn on_ask(self: Arc<Self>, from: NodeId, frame: Frame) {
        match postcard::from_bytes(&frame.body) {
            Ok(last) => {
                self.links.runtime().clone().spawn(async move {
                    let yes = self.would_vote_for(last) && self.may_vote_for(last).await;
                    let answer = [u8::from(yes)];
                    self.links
                        .send(from, Kind::Reply, self.stream, frame.number, &answer);
                });
            }
            Err(error) => garbled(from, &error),
        }
    }

    fn on_members(self: Arc<Self>, from: NodeId, frame: Frame) {
        match postcard::from_bytes(&frame.body) {
            Ok(members) => self.set_members(members),
            Err(error) => garbled(from, &error),
        }
    }
}

fn garbled(from: NodeId, error: &postcard::Error) {
    tracing::error!(node = from.0, %error, "a frame from another node cannot be read");
}
