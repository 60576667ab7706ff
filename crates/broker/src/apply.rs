//! The replicated driver: applies committed batches to the queues, in log order.
//!
//! The same code runs for a publish on this node and, later, for one that another member
//! proposed; only the origins differ. Ends of messages in a batch were carried out when they were
//! staged, so a leader only notes them here.

use std::sync::{Arc, Weak};

use broker_core::channel::Verdict;
use broker_core::metadata::QueueId;
use broker_core::queue::EntryId;
use cluster::{Abandoned, CommittedEntry, StateMachine};
use storage::StreamId;

use crate::clock;
use crate::content::Batch;
use crate::node::Node;
use crate::origin::{self, Origin};
use crate::queue::{After, Arrival, resident};
use crate::record::{Blob, Command, Commands, EntryMeta};

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

/// The machine of one group: the queues that belong to it.
pub(crate) struct QueueGroup {
    node: Weak<Node>,
    stream: StreamId,
}

impl QueueGroup {
    pub(crate) fn new(node: Weak<Node>, stream: StreamId) -> Self {
        Self { node, stream }
    }

    /// Notes which stores a batch touches and lists where its messages go, grouped by queue.
    fn read(&self, node: &Node, entry: &CommittedEntry) -> (Vec<Placement>, usize) {
        let mut placements = Vec::new();
        let (mut publishes, mut bytes) = (0, 0);
        let commands = match Commands::of(&entry.payload) {
            Ok(commands) => commands,
            Err(fault) => {
                tracing::error!(index = entry.index, %fault, "a committed batch cannot be read");
                return (placements, bytes);
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
                    publishes += 1;
                    bytes += blob_len as usize;
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
        (placements, bytes)
    }
}

impl StateMachine for QueueGroup {
    type Context = Origin;

    fn apply(&self, entry: CommittedEntry, origins: Vec<Origin>) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        let now = clock::now();
        let (placements, bytes) = self.read(&node, &entry);
        let batch = Arc::new(Batch {
            bytes: entry.payload,
            file: entry.at.map(|at| at.file),
        });
        let mut rejected: Vec<usize> = Vec::new();
        for run in placements.chunk_by(|a, b| a.queue == b.queue) {
            let id = QueueId(run[0].queue);
            node.files.note(entry.at, self.stream, entry.index, id);
            let Some(queue) = node.queue(id) else {
                continue;
            };
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
            rejected.extend(after.refused.drain(..).map(ordinal));
            node.carry_out(&queue, after);
        }
        if origins.is_empty() {
            return;
        }
        node.pressure.remove(bytes);
        rejected.sort_unstable();
        origin::tell(&node, &origins, |publish| {
            match rejected.binary_search(&publish) {
                Ok(_) => Verdict::Rejected,
                Err(_) => Verdict::Stored,
            }
        });
    }

    fn abandon(&self, origins: Vec<Origin>, why: Abandoned) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        tracing::warn!(publishes = origins.len(), ?why, "publishes are abandoned");
        origin::tell(&node, &origins, |_| Verdict::Rejected);
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
