//! Start-up: metadata, queues and their messages from checkpoints, segments and the journal.
//!
//! Everything here can be interrupted and done again: it changes nothing on disk. A message found
//! both in a segment and in the journal has one id and is taken once.

use std::sync::Arc;

use broker_core::metadata::{MetadataEvent, QueueId, QueueRecord};
use broker_core::queue::{Entry, EntryId};
use rustc_hash::FxHashMap;
use storage::{Recovery, Replayed, ReplayedRecord, StoreId};

use crate::apply::entry_id;
use crate::content::{Batch, Content};
use crate::durability::{Attributes, METADATA_STREAM};
use crate::error::OpenError;
use crate::files::METADATA_STORE;
use crate::ledger::{Checkpoint, Ledger};
use crate::node::Node;
use crate::queue::{Lane, Queue, QueueState, resident};
use crate::record::{Blob, Command, Commands};
use crate::route::keeps;

/// What is known of the stores before the journal is read.
struct Stores {
    checkpoints: FxHashMap<StoreId, (u64, Checkpoint)>,
}

impl Stores {
    fn read(recovery: &Recovery) -> Result<Self, OpenError> {
        let mut checkpoints = FxHashMap::default();
        for store in recovery.stores() {
            if store == METADATA_STORE {
                continue;
            }
            if let Some(checkpoint) = recovery.checkpoint(store)? {
                let read =
                    Checkpoint::read(&checkpoint.blob).ok_or_else(|| OpenError::Unreadable {
                        what: format!("queue store {store}"),
                    })?;
                checkpoints.insert(store, (checkpoint.covered, read));
            }
        }
        Ok(Self { checkpoints })
    }

    /// Highest index of its stream whose effects are in the store's checkpoint.
    fn covered(&self, store: StoreId) -> u64 {
        self.checkpoints
            .get(&store)
            .map_or(0, |(covered, _)| *covered)
    }
}

/// Restores the node's state. Afterwards the journal can be started.
pub(crate) fn recover(node: &Node, recovery: Recovery) -> Result<Replayed, OpenError> {
    if let Some(checkpoint) = recovery.checkpoint(METADATA_STORE)? {
        node.metadata.restore(&checkpoint.blob)?;
    }
    let mut stores = Stores::read(&recovery)?;
    let on_disk = recovery.stores();
    let records: Vec<Arc<QueueRecord>> = node.metadata.read().queues().cloned().collect();
    for record in records {
        restore_queue(node, &record, &mut stores)?;
    }
    let replayed =
        recovery.replay::<OpenError>(|record| replay_record(node, &mut stores, record))?;
    for store in on_disk {
        if store != METADATA_STORE && node.queue(QueueId(store.0)).is_none() {
            node.storage.drop_store(store);
        }
    }
    Ok(replayed)
}

/// Makes the queue and fills it from its segments.
fn restore_queue(node: &Node, record: &QueueRecord, stores: &mut Stores) -> Result<(), OpenError> {
    let queue = node.add_queue(record);
    if queue.lane == Lane::Inline {
        return Ok(());
    }
    let checkpoint = stores
        .checkpoints
        .get_mut(&queue.store())
        .map(|(_, checkpoint)| std::mem::take(checkpoint))
        .unwrap_or_default();
    let mut items = Vec::new();
    for item in node.storage.segments().recover(queue.store())? {
        items.push(item?);
    }
    items.sort_unstable_by_key(|item| item.id);
    queue.with_state(|state| {
        let mut dead = Vec::new();
        let mut last = None;
        for item in items {
            // A copy that a crash left behind a finished one is dead as well.
            if checkpoint.is_dead(item.id) || last == Some(item.id) {
                dead.push(item.location);
                continue;
            }
            last = Some(item.id);
            let attributes = Attributes::unpack(item.attributes);
            let head = attributes.head_bytes.map_or(0, u32::from);
            let body = item.location.len.saturating_sub(head);
            let (delivery_count, acquired_count) = checkpoint
                .counted
                .get(&item.id)
                .copied()
                .unwrap_or_default();
            restore_entry(
                &queue,
                state,
                Entry {
                    id: EntryId(item.id),
                    content: Content::Stored(item.location),
                    bytes: queue.logical_bytes(head as usize, body as usize),
                    priority: attributes.priority,
                    persistent: true,
                    expires_at: attributes.expires_at,
                    delivery_count,
                    acquired_count,
                },
            );
        }
        node.release(queue.store(), &dead);
        state.ledger = Ledger::resume(checkpoint);
    });
    Ok(())
}

fn restore_entry(queue: &Queue, state: &mut QueueState, entry: Entry<Content>) {
    let id = entry.id;
    if !state.machine.restore(entry) {
        tracing::debug!(queue = %queue.name, entry = id.0, "an entry was restored before");
    }
}

fn replay_record(
    node: &Node,
    stores: &mut Stores,
    record: ReplayedRecord,
) -> Result<(), OpenError> {
    if record.stream == METADATA_STREAM {
        return replay_metadata(node, stores, &record);
    }
    let unreadable = |what: &str| OpenError::Unreadable {
        what: format!(
            "journal file {} at {} ({what})",
            record.at.file, record.at.offset
        ),
    };
    let batch = Arc::new(Batch {
        bytes: record.payload.clone(),
        file: Some(record.at.file),
    });
    let commands = Commands::of(&record.payload).map_err(|fault| unreadable(&fault.to_string()))?;
    let mut publishes = 0;
    for command in commands {
        match command.map_err(|fault| unreadable(&fault.to_string()))? {
            Command::Publish {
                meta,
                targets,
                blob_at,
                blob_len,
            } => {
                let id = entry_id(record.index, publishes);
                publishes += 1;
                for target in targets.iter() {
                    let Some(queue) = live(node, stores, &record, target) else {
                        continue;
                    };
                    if !keeps(queue.kind, meta.persistent) {
                        continue;
                    }
                    let bytes = &batch.bytes[blob_at as usize..][..blob_len as usize];
                    let blob = Blob::parse(bytes).ok_or_else(|| unreadable("a message"))?;
                    let expiration = meta.expires_at.map(|at| at.since(meta.published_at));
                    let mut entry = Entry {
                        id,
                        content: resident(&batch, blob_at, blob_len),
                        bytes: queue.logical_bytes(blob.properties.len(), blob.body.len()),
                        priority: meta.priority,
                        persistent: meta.persistent,
                        expires_at: meta.expires_at,
                        delivery_count: meta.delivery_count,
                        acquired_count: meta.acquired_count,
                    };
                    queue.with_state(|state| {
                        entry.expires_at = state.machine.expiry(meta.published_at, expiration);
                        restore_entry(&queue, state, entry);
                    });
                }
            }
            Command::Forget { queue, entries } => {
                let Some(queue) = live(node, stores, &record, queue) else {
                    continue;
                };
                forget(node, &queue, entries.iter());
            }
            Command::HandedOut { queue, up_to_index } => {
                let Some(queue) = live(node, stores, &record, queue) else {
                    continue;
                };
                queue.with_state(|state| state.ledger.restore_mark(up_to_index));
            }
            Command::Returned {
                queue,
                entry,
                delivery_count,
                acquired_count,
            } => {
                let Some(queue) = live(node, stores, &record, queue) else {
                    continue;
                };
                queue.with_state(|state| {
                    let id = EntryId(entry);
                    if state
                        .machine
                        .returned(id, delivery_count, acquired_count, None)
                    {
                        state.ledger.returned(id, delivery_count, acquired_count);
                    }
                });
            }
        }
    }
    Ok(())
}

/// The queue that a command is about, if it still exists and does not have the command's effects
/// from its checkpoint.
fn live(node: &Node, stores: &Stores, record: &ReplayedRecord, queue: u64) -> Option<Arc<Queue>> {
    let queue = node.queue(QueueId(queue))?;
    node.files
        .note(Some(record.at), record.stream, record.index, queue.id);
    (record.index > stores.covered(queue.store())).then_some(queue)
}

fn forget(node: &Node, queue: &Queue, entries: impl Iterator<Item = u64>) {
    queue.with_state(|state| {
        for id in entries.map(EntryId) {
            let mut gone = Vec::new();
            state.machine.forget(&[id], &mut gone);
            let Some(content) = gone.pop() else { continue };
            let stored = matches!(content, Content::Stored(_));
            state.ledger.ended(id, stored);
            if let Content::Stored(location) = content {
                node.release(queue.store(), &[location]);
            }
        }
    });
}

fn replay_metadata(
    node: &Node,
    stores: &mut Stores,
    record: &ReplayedRecord,
) -> Result<(), OpenError> {
    node.files.note_store(
        Some(record.at),
        METADATA_STREAM,
        record.index,
        METADATA_STORE,
    );
    if node.metadata.covers(record.index) {
        return Ok(());
    }
    let mut events = Vec::new();
    node.metadata
        .apply_entry(record.index, &record.payload, |_, outcome| {
            events.extend(outcome.into_iter().flat_map(|outcome| outcome.events));
        });
    for event in events {
        match event {
            MetadataEvent::QueueDeclared {
                record,
                created: true,
            } => {
                restore_queue(node, &record, stores)?;
            }
            // Its segments are dropped at the end of the recovery.
            MetadataEvent::QueueDeleted { record, .. } => {
                node.queues.remove(&record.id);
            }
            MetadataEvent::QueueReconfigured { record } => {
                if let Some(queue) = node.queue(record.id) {
                    queue.reconfigure(node, &record.settings);
                }
            }
            _ => {}
        }
    }
    Ok(())
}
