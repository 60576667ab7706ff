//! Publishes to queues that live on one other node: classic queues have no group to go through.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use broker_core::channel::Verdict;
use broker_core::metadata::QueueId;
use bytes::Bytes;
use cluster::{
    AppliedObserver, Batch, CallNumbers, GroupStatus, MemberChange, MemberError, NodeId,
    ProposeError, ReplicaGroup, Role,
};
use parking_lot::{Mutex, RwLock};

use super::wire::Wire;
use crate::node::Node;
use crate::origin::{self, Origin};
use crate::record::{Blob, Command, Commands, NewMessage};
use crate::route::{InlineTurn, Route};

/// Batches for the queues of one other node. There is no log here: the other node has one.
pub(crate) struct AwayLane {
    node: Weak<Node>,
    to: NodeId,
    in_flight: AtomicUsize,
    observer: RwLock<Option<Weak<dyn AppliedObserver>>>,
}

/// Batches that other nodes have and that they have not answered.
#[derive(Default)]
pub(super) struct Published {
    numbers: CallNumbers,
    waiting: Mutex<HashMap<u64, Sent>>,
}

struct Sent {
    lane: Arc<AwayLane>,
    bytes: usize,
    origins: Vec<Origin>,
}

impl AwayLane {
    pub(crate) fn new(node: Weak<Node>, to: NodeId) -> Self {
        Self {
            node,
            to,
            in_flight: AtomicUsize::new(0),
            observer: RwLock::new(None),
        }
    }

    fn ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        let observer = self.observer.read().as_ref().and_then(Weak::upgrade);
        if let Some(observer) = observer {
            observer.applied(0);
        }
    }
}

/// Bytes of the messages in a batch, as `Pressure` counts them.
pub(crate) fn message_bytes(payload: &[u8]) -> usize {
    let commands = Commands::of(payload).into_iter().flatten();
    commands
        .map(|command| match command {
            Ok(Command::Publish { blob_len, .. }) => blob_len as usize,
            _ => 0,
        })
        .sum()
}

impl ReplicaGroup<Origin> for Arc<AwayLane> {
    fn propose(&self, batch: Batch<Origin>) -> Result<u64, ProposeError<Origin>> {
        let Some(node) = self.node.upgrade() else {
            return Err(ProposeError::Stopped {
                why: "the node is gone".into(),
                batch,
            });
        };
        let Some(replication) = &node.replication else {
            return Err(ProposeError::NotLeader {
                leader: None,
                batch,
            });
        };
        let published = &replication.published;
        let number = published.numbers.draw();
        let Batch {
            payload,
            contexts,
            logged,
        } = batch;
        let mut waiting = published.waiting.lock();
        // Under the lock, so that the answer finds the batch.
        let message = Wire::Publish {
            number,
            batch: payload.clone(),
        };
        if !node.say(self.to, &message) {
            drop(waiting);
            return Err(ProposeError::NotLeader {
                leader: Some(self.to),
                batch: Batch {
                    payload,
                    contexts,
                    logged,
                },
            });
        }
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        waiting.insert(
            number,
            Sent {
                lane: self.clone(),
                bytes: message_bytes(&payload),
                origins: contexts,
            },
        );
        Ok(number)
    }

    fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    fn has_room(&self) -> bool {
        true
    }

    fn status(&self) -> GroupStatus {
        GroupStatus {
            role: Role::Follower,
            leader: Some(self.to),
            term: 0,
            votes: true,
            members: vec![self.to],
            last_index: 0,
            applied_index: 0,
        }
    }

    fn change_members(&self, change: MemberChange) -> Result<(), MemberError> {
        let (MemberChange::Add(node) | MemberChange::Remove(node)) = change;
        Err(MemberError::NotReplicated(node))
    }

    fn transfer_leader(&self, to: NodeId) -> Result<(), MemberError> {
        Err(MemberError::NotReplicated(to))
    }

    fn observe(&self, observer: Weak<dyn AppliedObserver>) {
        *self.observer.write() = Some(observer);
    }
}

/// Messages of one batch from another node, until the last verdict is in.
pub(crate) struct AwayReceipt {
    from: NodeId,
    number: u64,
    open: AtomicU32,
    refused: Mutex<Vec<u32>>,
}

impl AwayReceipt {
    pub(crate) fn verdict(&self, node: &Node, place: u32, verdict: Verdict) {
        if verdict == Verdict::Rejected {
            self.refused.lock().push(place);
        }
        self.landed(node);
    }

    fn landed(&self, node: &Node) {
        if self.open.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let (number, refused) = (self.number, self.refused.lock().clone());
        node.say(self.from, &Wire::Published { number, refused });
    }
}

impl Node {
    /// Another node publishes to queues that live here.
    pub(super) fn publish_for(&self, from: NodeId, number: u64, batch: &[u8]) {
        // One is open until all are on their way.
        let receipt = Arc::new(AwayReceipt {
            from,
            number,
            open: AtomicU32::new(1),
            refused: Mutex::default(),
        });
        let mut inline = InlineTurn::default();
        let mut place = 0;
        for command in Commands::of(batch).into_iter().flatten() {
            let Ok(Command::Publish {
                meta,
                targets,
                blob_at,
                blob_len,
            }) = command
            else {
                continue;
            };
            let bytes = batch.get(blob_at as usize..(blob_at + blob_len) as usize);
            if let Some(blob) = bytes.and_then(Blob::parse) {
                let queues = targets
                    .iter()
                    .filter_map(|queue| self.queue(QueueId(queue)));
                let route = Arc::new(Route::of(queues));
                let message = NewMessage {
                    exchange: blob.exchange,
                    routing_key: blob.routing_key,
                    properties: blob.properties,
                    body: blob.body,
                    dead_lettered: blob.dead_lettered,
                    keys_replaced: blob.keys_replaced,
                    has_bcc: blob.has_bcc,
                };
                receipt.open.fetch_add(route.verdicts(), Ordering::AcqRel);
                route.send(self, &meta, &message, &mut inline, || Origin::Away {
                    receipt: receipt.clone(),
                    place,
                });
            }
            place += 1;
        }
        inline.end(self);
        receipt.landed(self);
    }

    /// Another node says what became of a batch.
    pub(super) fn away_published(&self, number: u64, refused: &[u32]) {
        let Some(replication) = &self.replication else {
            return;
        };
        let sent = replication.published.waiting.lock().remove(&number);
        let Some(sent) = sent else { return };
        self.pressure.remove(sent.bytes);
        origin::tell(self, &sent.origins, |place| {
            match refused.contains(&(place as u32)) {
                true => Verdict::Rejected,
                false => Verdict::Stored,
            }
        });
        sent.lane.ended();
    }

    /// Nobody will say what became of the batches at this node: their publishers are told no.
    pub(super) fn give_up_published(&self, node: NodeId) {
        let Some(replication) = &self.replication else {
            return;
        };
        let lost: Vec<Sent> = {
            let mut waiting = replication.published.waiting.lock();
            let numbers: Vec<u64> = waiting
                .iter()
                .filter(|(_, sent)| sent.lane.to == node)
                .map(|(number, _)| *number)
                .collect();
            numbers
                .iter()
                .filter_map(|number| waiting.remove(number))
                .collect()
        };
        for sent in lost {
            self.pressure.remove(sent.bytes);
            origin::tell(self, &sent.origins, |_| Verdict::Rejected);
            sent.lane.ended();
        }
    }

    /// The other nodes of the cluster, in the order of their lanes.
    pub(crate) fn other_nodes(&self) -> Vec<NodeId> {
        let Some(replication) = &self.replication else {
            return Vec::new();
        };
        let mut others: Vec<NodeId> = replication
            .options
            .members
            .iter()
            .map(|member| NodeId(member.node))
            .filter(|node| *node != replication.me())
            .collect();
        others.sort_unstable();
        others
    }
}

/// An answer of the leader about a batch: the places of the messages that it refused.
pub(crate) fn refused_places(answer: &Bytes) -> Vec<usize> {
    answer
        .chunks_exact(4)
        .filter_map(|place| place.first_chunk::<4>())
        .map(|place| u32::from_le_bytes(*place) as usize)
        .collect()
}

pub(crate) fn write_refused(places: &[usize]) -> Bytes {
    let octets = places.iter().map(|place| (*place as u32).to_le_bytes());
    octets.flatten().collect::<Vec<u8>>().into()
}
