//! Messages that are held in memory only, and outlive the batch that they came in: each gets bytes of its
//! own, so that a stuck message keeps nothing but itself.
//!
//! Knows batches and where their messages went; not why they are stuck. What is logged needs none of
//! this: it leaves memory with its journal file.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use broker_core::Timestamp;
use broker_core::metadata::QueueId;
use broker_core::queue::EntryId;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::content::{Batch, Content};
use crate::node::Node;
use crate::queue::QueueState;

/// A smaller batch is not worth looking after.
const BATCH_BYTES_MIN: usize = 4 << 10;
/// Batches that are looked after; of more, the oldest are left as they are.
const BATCHES_MAX: usize = 1 << 16;
/// Batches looked at in one tick.
const SLICE: usize = 64;
/// Most messages leave sooner; then nothing has to be looked at.
const AGE_MIN_MS: u64 = 5_000;

#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<VecDeque<Watched>>);

#[derive(Debug)]
struct Watched {
    batch: Weak<Batch>,
    queue: QueueId,
    first: EntryId,
    last: EntryId,
    due: Timestamp,
}

impl Leftovers {
    /// Messages of the batch entered a queue with these ids, and are in memory only.
    pub(crate) fn note(
        &self,
        batch: &Arc<Batch>,
        queue: QueueId,
        first: EntryId,
        last: EntryId,
        now: Timestamp,
    ) {
        if batch.bytes.len() < BATCH_BYTES_MIN {
            return;
        }
        let mut watched = self.0.lock();
        if watched.len() == BATCHES_MAX {
            watched.pop_front();
        }
        watched.push_back(Watched {
            batch: Arc::downgrade(batch),
            queue,
            first,
            last,
            due: Timestamp(now.0 + AGE_MIN_MS),
        });
    }

    /// Looks at some batches that are old enough.
    pub(crate) fn sweep(&self, node: &Node, now: Timestamp) {
        for _ in 0..SLICE {
            let next = self.0.lock().pop_front_if(|next| next.due <= now);
            let Some(mut next) = next else { return };
            if next.detach(node) {
                next.due = Timestamp(now.0 + AGE_MIN_MS);
                self.0.lock().push_back(next);
            }
        }
    }
}

impl Watched {
    /// Gives the survivors bytes of their own if they are few; answers whether to look again later.
    fn detach(&self, node: &Node) -> bool {
        let Some(batch) = self.batch.upgrade() else {
            return false;
        };
        let Some(queue) = node.queue(self.queue) else {
            return false;
        };
        queue.with_state(|state| {
            let survivors = self.survivors(state, &batch);
            let live_bytes: usize = survivors.iter().map(|(_, len)| *len).sum();
            if 2 * live_bytes > batch.bytes.len() {
                return true;
            }
            for (id, _) in survivors {
                let QueueState {
                    machine, memory, ..
                } = state;
                let detached = machine.entry(id).map(|entry| entry.content.detached());
                let Some(detached) = detached else { continue };
                memory.enters(&detached);
                if let Some(before) = machine.moved(id, detached) {
                    memory.leaves(&before);
                }
            }
            false
        })
    }

    fn survivors(&self, state: &QueueState, batch: &Arc<Batch>) -> Vec<(EntryId, usize)> {
        let live = state.machine.live_from(self.first);
        let live = live.take_while(|entry| entry.id <= self.last);
        live.filter_map(|entry| match &*entry.content {
            Content::Resident {
                batch: held, len, ..
            } if Arc::ptr_eq(held, batch) => Some((entry.id, *len as usize)),
            _ => None,
        })
        .collect()
    }
}

impl Content {
    /// The same with the blob copied out of its batch.
    fn detached(&self) -> Self {
        let Content::Resident { batch, at, len } = self else {
            return self.clone();
        };
        let Some(blob) = batch.bytes.get(*at as usize..(*at + *len) as usize) else {
            return self.clone();
        };
        let own = Batch {
            bytes: Bytes::copy_from_slice(blob),
            file: batch.file,
            shared: Box::default(),
        };
        Content::Resident {
            batch: Arc::new(own),
            at: 0,
            len: *len,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use amqp::Table;
    use broker_core::metadata::{NodeId, QueueRecord};
    use broker_core::settings::QueueKind;
    use broker_core::{QueueName, VhostName};

    use super::*;
    use crate::queue::{After, Arrival, resident};
    use crate::record::EntryMeta;
    use crate::{Broker, BrokerOptions};

    const BODY_BYTES: u32 = 1 << 10;

    fn transient_queue() -> QueueRecord {
        QueueRecord {
            id: QueueId(7),
            vhost: VhostName::new("/"),
            name: QueueName::new("q"),
            kind: QueueKind::Classic,
            durable: false,
            exclusive_owner: None,
            declared_by: None,
            auto_delete: false,
            arguments: Table::default(),
            group: 0,
            home: NodeId(0),
            policy: None,
            operator_policy: None,
            settings: Arc::default(),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn few_survivors_of_a_batch_give_it_back_and_many_do_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let broker = Broker::open(BrokerOptions::new(dir.path())).await;
        let broker = broker.expect("an empty folder opens");
        let node = broker.node();
        let queue = node.declared(node.new_queue(&transient_queue()));
        let batch = Arc::new(Batch {
            bytes: (0..64 * BODY_BYTES)
                .map(|n| (n / BODY_BYTES) as u8)
                .collect(),
            file: None,
            shared: Box::default(),
        });
        let arrivals = (0..64).map(|n| Arrival {
            id: None,
            meta: EntryMeta::default(),
            content: resident(&batch, n * BODY_BYTES, BODY_BYTES),
            bytes: BODY_BYTES,
        });
        let now = Timestamp(1_000);
        let base = queue.enqueue(node, now, arrivals, &mut After::default());
        let (first, last) = (EntryId(base), EntryId(base + 63));
        node.leftovers.note(&batch, queue.id, first, last, now);
        let weak = Arc::downgrade(&batch);
        drop(batch);
        let forget = |ids: std::ops::Range<u64>| {
            let ids: Vec<EntryId> = ids.map(|n| EntryId(base + n)).collect();
            queue.with_state(|state| state.machine.forget(&ids, &mut Vec::new()));
        };
        forget(0..10);
        let sweep = |at_ms: u64| node.leftovers.sweep(node, Timestamp(1_000 + at_ms));
        sweep(AGE_MIN_MS - 1);
        sweep(AGE_MIN_MS);
        assert_eq!(weak.strong_count(), 54, "more than half of it lives");
        forget(10..63);
        sweep(2 * AGE_MIN_MS - 1);
        assert_eq!(weak.strong_count(), 1, "not looked at so soon");
        sweep(2 * AGE_MIN_MS);
        assert_eq!(weak.strong_count(), 0, "the batch is given back");
        let kept = queue.with_state(|state| {
            let kept = state
                .machine
                .entry(last)
                .map(|entry| entry.content.into_owned());
            kept.expect("the last one lives")
        });
        let Content::Resident { batch, at: 0, len } = kept else {
            panic!("it has bytes of its own: {kept:?}");
        };
        assert_eq!(batch.bytes[..len as usize], [63; BODY_BYTES as usize]);
        broker.shutdown().await.expect("it stops");
    }
}
