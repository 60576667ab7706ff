//! The replicated driver: applies committed batches to the queues, in log order.
//!
//! The same code runs for a publish on this node and, later, for one that another member
//! proposed; only the origins differ. Ends of messages in a batch were carried out when they were
//! staged, so a leader only notes them here.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};

use broker_core::channel::Verdict;
use broker_core::metadata::QueueId;
use broker_core::queue::EntryId;
use bytes::Bytes;
use cluster::{Abandoned, CommittedEntry, StateMachine};
use storage::{ReplayedRecord, StreamId};

use crate::clock;
use crate::content::Batch;
use crate::node::Node;
use crate::origin::{self, Origin};
use crate::queue::{After, Arrival, Queue, resident};
use crate::record::{Blob, Command, Commands, EntryMeta};
use crate::recovery;
use crate::replication;
use crate::route::keeps;

/// Bits of an entry id that number the publishes of one batch: four million, more than fit into
/// the staged bytes of a node.
const ORDINAL_BITS: u32 = 22;

/// The id of the `ordinal`-th publish of a log entry: increasing along the log, the same on every
/// member and after every restart.
pub(crate) fn entry_id(index: u64, ordinal: usize) -> EntryId {
    EntryId(index << ORDINAL_BITS | ordinal as u64)
}

/// First id that entries after the log entry `index` can have.
pub(crate) fn first_id_after(index: u64) -> u64 {
    (index + 1) << ORDINAL_BITS
}

/// The log entry that an id comes from.
pub(crate) fn index_of(id: EntryId) -> u64 {
    id.0 >> ORDINAL_BITS
}

fn ordinal(id: EntryId) -> usize {
    (id.0 & ((1 << ORDINAL_BITS) - 1)) as usize
}

/// A message of the batch on its way into one queue.
#[derive(Clone, Copy)]
struct Placement {
    queue: u64,
    ordinal: usize,
    meta: EntryMeta,
    blob_at: u32,
    blob_len: u32,
}

/// What the messages of a batch are.
#[derive(Default)]
struct Contents {
    placements: Vec<Placement>,
    /// Bytes of all messages.
    bytes: usize,
    /// Messages that go to several queues.
    shared: Vec<(u32, AtomicU32)>,
}

/// The machine of one group: the queues that belong to it.
pub(crate) struct QueueGroup {
    node: Weak<Node>,
    stream: StreamId,
}

impl QueueGroup {
    pub(crate) fn new(node: Weak<Node>, stream: StreamId) -> Self {
        Self { node, stream }
    }

    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        self.node.upgrade()
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    /// Takes in what the leader decided.
    fn keep(&self, node: &Node, entry: &CommittedEntry) {
        let Some(at) = entry.at else {
            tracing::error!(
                index = entry.index,
                "a committed batch has no place on disk"
            );
            return;
        };
        let record = ReplayedRecord {
            at,
            stream: self.stream,
            index: entry.index,
            payload: entry.payload.clone(),
        };
        let mut touched: Vec<Arc<Queue>> = Vec::new();
        let kept = recovery::restore_batch(node, &record, &mut |queue| {
            let id = QueueId(queue);
            if let Some(last) = touched.last().filter(|last| last.id == id) {
                return Some(last.clone());
            }
            node.files.note(entry.at, self.stream, entry.index, id);
            let queue = node.queue(id).or_else(|| self.early(node, id, &record))?;
            touched.push(queue.clone());
            Some(queue)
        });
        for queue in touched {
            queue.tell_memory();
        }
        if let Err(error) = kept {
            tracing::error!(index = entry.index, %error, "a committed batch cannot be read");
        }
    }

    /// The news of a queue comes through another group, and may be later than its first messages.
    fn early(&self, node: &Node, queue: QueueId, record: &ReplayedRecord) -> Option<Arc<Queue>> {
        node.replication.as_ref()?.early(node, queue, record)
    }

    /// Notes which stores a batch touches and lists where its messages go, grouped by queue.
    fn read(&self, node: &Node, entry: &CommittedEntry) -> Contents {
        let mut contents = Contents::default();
        let Contents {
            placements,
            bytes,
            shared,
        } = &mut contents;
        let mut publishes = 0;
        let commands = match Commands::of(&entry.payload) {
            Ok(commands) => commands,
            Err(fault) => {
                tracing::error!(index = entry.index, %fault, "a committed batch cannot be read");
                return contents;
            }
        };
        for command in commands {
            match command {
                Ok(Command::Publish {
                    meta,
                    targets,
                    blob_at,
                    blob_len,
                }) => {
                    placements.extend(targets.iter().map(|queue| Placement {
                        queue,
                        ordinal: publishes,
                        meta,
                        blob_at,
                        blob_len,
                    }));
                    if targets.iter().len() > 1 {
                        shared.push((blob_at, AtomicU32::new(0)));
                    }
                    publishes += 1;
                    *bytes += blob_len as usize;
                }
                Ok(
                    Command::Forget { queue, .. }
                    | Command::Returned { queue, .. }
                    | Command::HandedOut { queue, .. },
                ) => {
                    node.files
                        .note(entry.at, self.stream, entry.index, QueueId(queue));
                }
                Err(fault) => {
                    tracing::error!(index = entry.index, %fault, "a committed batch cannot be read");
                    break;
                }
            }
        }
        // Usually all go to one queue already. Stable: order within a queue is that of the log.
        if placements
            .windows(2)
            .any(|pair| pair[0].queue > pair[1].queue)
        {
            placements.sort_by_key(|placement| placement.queue);
        }
        contents
    }
}

impl StateMachine for QueueGroup {
    type Context = Origin;

    fn apply(&self, entry: CommittedEntry, origins: Vec<Origin>) -> Bytes {
        let Some(node) = self.node.upgrade() else {
            return Bytes::new();
        };
        if !entry.leading {
            let bytes = replication::message_bytes(&entry.payload);
            self.keep(&node, &entry);
            if !origins.is_empty() {
                node.pressure.remove(bytes);
                origin::tell(&node, &origins, |_| Verdict::Stored);
            }
            return Bytes::new();
        }
        let now = clock::now();
        node.ages.note(self.stream, entry.index, now);
        let Contents {
            placements,
            bytes,
            shared,
        } = self.read(&node, &entry);
        let batch = Arc::new(Batch {
            bytes: entry.payload,
            file: entry.at.map(|at| at.file),
            shared: shared.into(),
        });
        let mut rejected: Vec<usize> = Vec::new();
        for run in placements.chunk_by(|a, b| a.queue == b.queue) {
            let id = QueueId(run[0].queue);
            node.files.note(entry.at, self.stream, entry.index, id);
            let found = node.queue(id).or_else(|| {
                let record = ReplayedRecord {
                    at: entry.at?,
                    stream: self.stream,
                    index: entry.index,
                    payload: batch.bytes.clone(),
                };
                self.early(&node, id, &record)
            });
            let Some(queue) = found else { continue };
            let mut after = After::default();
            let arrivals = run.iter().filter_map(|placement| {
                let Placement {
                    ordinal,
                    meta,
                    blob_at,
                    blob_len,
                    ..
                } = *placement;
                let blob = Blob::parse(&batch.bytes[blob_at as usize..][..blob_len as usize])?;
                Some(Arrival {
                    id: Some(entry_id(entry.index, ordinal)),
                    meta,
                    bytes: queue.logical_bytes(blob.properties.len(), blob.body.len()),
                    content: resident(&batch, blob_at, blob_len),
                })
            });
            queue.enqueue(&node, now, arrivals, &mut after);
            if run
                .iter()
                .any(|new| !keeps(queue.kind, new.meta.persistent))
            {
                let id = |ordinal| entry_id(entry.index, ordinal);
                let (first, last) = (id(run[0].ordinal), id(run[run.len() - 1].ordinal));
                node.leftovers.note(&batch, queue.id, first, last, now);
            }
            rejected.extend(after.refused.drain(..).map(ordinal));
            node.carry_out(&queue, after);
        }
        rejected.sort_unstable();
        if origins.is_empty() {
            return replication::write_refused(&rejected);
        }
        node.pressure.remove(bytes);
        origin::tell(&node, &origins, |publish| {
            match rejected.binary_search(&publish) {
                Ok(_) => Verdict::Rejected,
                Err(_) => Verdict::Stored,
            }
        });
        Bytes::new()
    }

    fn abandon(&self, payload: Bytes, origins: Vec<Origin>, why: Abandoned) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        if origins.is_empty() {
            return;
        }
        node.pressure.remove(replication::message_bytes(&payload));
        tracing::warn!(publishes = origins.len(), ?why, "publishes are abandoned");
        origin::tell(&node, &origins, |_| Verdict::Rejected);
    }

    fn answered(&self, payload: Bytes, origins: Vec<Origin>, answer: Bytes) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        if origins.is_empty() {
            return;
        }
        node.pressure.remove(replication::message_bytes(&payload));
        let refused = replication::refused_places(&answer);
        origin::tell(&node, &origins, |publish| {
            match refused.contains(&publish) {
                true => Verdict::Rejected,
                false => Verdict::Stored,
            }
        });
    }

    fn lead(&self) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        for queue in node.queues_of(self.stream) {
            queue.awake(&node);
        }
    }

    fn follow(&self) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        for queue in node.queues_of(self.stream) {
            queue.step_down(&node);
        }
        if let Some(replication) = &node.replication {
            node.unsettle_group(self.stream, replication.me());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_ids_increase_along_the_log() {
        let ids = [
            entry_id(1, 0),
            entry_id(1, 1),
            entry_id(2, 0),
            entry_id(3, 4_000_000),
        ];
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(entry_id(3, 4_000_000).0 < first_id_after(3));
        assert_eq!(ordinal(entry_id(3, 77)), 77);
    }
}
