//! Start-up: metadata and queues from checkpoints and the journal. What queues have in segments is left
//! until the journal or somebody else needs it.
//!
//! Everything here can be interrupted and done again: it changes nothing on disk. A message found
//! both in a segment and in the journal has one id and is taken once.

use std::sync::Arc;

use broker_core::metadata::{ExchangeRecord, MetadataEvent, QueueId, QueueRecord};
use broker_core::queue::{Entry, EntryId};
use broker_core::settings::QueueKind;
use rustc_hash::{FxHashMap, FxHashSet};
use storage::{Recovery, Replayed, ReplayedRecord, StorageError, StoreId};

use crate::apply::entry_id;
use crate::content::{Batch, Content};
use crate::delayed;
use crate::durability::METADATA_STREAM;
use crate::error::OpenError;
use crate::files::METADATA_STORE;
use crate::ledger::Checkpoint;
use crate::node::Node;
use crate::queue::{Lane, Queue, QueueState, resident};
use crate::record::{Blob, Command, Commands};
use crate::replication::{control_store, stream_of_control};
use crate::route::keeps;

/// What is known of the stores before the journal is read.
struct Stores {
    checkpoints: FxHashMap<StoreId, (u64, Checkpoint)>,
    /// Queues whose settings changed on the way.
    reconfigured: FxHashSet<QueueId>,
}

impl Stores {
    fn read(recovery: &Recovery) -> Result<Self, OpenError> {
        let mut checkpoints = FxHashMap::default();
        for store in recovery.stores() {
            if store == METADATA_STORE || stream_of_control(store).is_some() {
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
        Ok(Self {
            checkpoints,
            reconfigured: FxHashSet::default(),
        })
    }

    /// What the store's checkpoint says; nothing when there is none.
    fn take(&mut self, store: StoreId) -> Checkpoint {
        let kept = self.checkpoints.get_mut(&store);
        kept.map(|(_, checkpoint)| std::mem::take(checkpoint))
            .unwrap_or_default()
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
    let checkpoint = recovery.checkpoint(METADATA_STORE)?;
    let control = recovery.checkpoint(control_store(METADATA_STREAM))?;
    match (&node.replication, checkpoint.is_some(), control.is_some()) {
        (None, _, true) => return Err(OpenError::Clustered),
        (Some(_), true, false) => return Err(OpenError::NotClustered),
        (Some(replication), _, _) => replication.prepare(&recovery, node.options.groups)?,
        (None, _, false) => {}
    }
    if let Some(checkpoint) = checkpoint {
        node.metadata.restore(&checkpoint.blob)?;
    }
    node.warming.begin(node.storage.segments().segment_count());
    let mut stores = Stores::read(&recovery)?;
    let on_disk = recovery.stores();
    let records: Vec<Arc<QueueRecord>> = node.metadata.read().queues().cloned().collect();
    let delaying: Vec<Arc<ExchangeRecord>> = delayed::exchanges(&node.metadata.read());
    for record in records {
        in_a_group_of_ours(node, &record)?;
        let queue = Arc::new(node.new_queue(&record));
        let checkpoint = stores.take(queue.store());
        restore_queue(node, &queue, checkpoint);
        node.publish_queue(queue);
    }
    for record in delaying {
        if let Some(queue) = delayed::store(node, &record).map(Arc::new) {
            let checkpoint = stores.take(queue.store());
            restore_queue(node, &queue, checkpoint);
            node.publish_queue(queue);
        }
    }
    // Those that are not there were deleted.
    let next = node.metadata.read().next_queue();
    node.heard_of_queues_below(next.0);
    let replayed =
        recovery.replay::<OpenError>(|record| replay_record(node, &mut stores, record))?;
    node.firehose.adjust(&node.metadata.read());
    for id in &stores.reconfigured {
        let record = node.metadata.read().queue_by_id(*id).cloned();
        if let (Some(queue), Some(record)) = (node.queue(*id), record) {
            queue.reconfigure(node, &record.settings);
        }
    }
    if let Some(replication) = &node.replication {
        let checkpoints = stores.checkpoints.into_iter();
        replication.keep_unclaimed(checkpoints.map(|(store, (_, checkpoint))| (store, checkpoint)));
        return Ok(replayed);
    }
    for store in on_disk {
        if store != METADATA_STORE && node.queue(QueueId(store.0)).is_none() {
            node.storage.drop_store(store);
        }
    }
    Ok(replayed)
}

/// A queue of a group that this node does not run would be lost silently.
fn in_a_group_of_ours(node: &Node, record: &QueueRecord) -> Result<(), OpenError> {
    if record.kind == QueueKind::Quorum && record.group >= node.options.groups {
        return Err(OpenError::FewerGroups {
            configured: node.options.groups,
            needed: record.group + 1,
        });
    }
    Ok(())
}

/// What the queue has in segments is left there until somebody needs it. Called before anybody can
/// find the queue.
pub(crate) fn restore_queue(node: &Node, queue: &Queue, checkpoint: Checkpoint) {
    if !matches!(queue.lane, Lane::Group(_)) {
        return;
    }
    queue.while_cold(|state| state.cool(node, queue, checkpoint));
}

fn restore_entry(queue: &Queue, state: &mut QueueState, entry: Entry<Content>) {
    let id = entry.id;
    let content = entry.content.clone();
    if state.machine.restore(entry) {
        state.memory.enters(&content);
    } else {
        tracing::debug!(queue = %queue.name, entry = id.0, "an entry was restored before");
    }
}

fn replay_record(
    node: &Node,
    stores: &mut Stores,
    record: ReplayedRecord,
) -> Result<(), OpenError> {
    if let Some(replication) = &node.replication
        && replication.replay(&node.files, &record)?
    {
        return Ok(());
    }
    if record.stream.0 >= 1 << 30 {
        return Err(OpenError::Clustered);
    }
    if record.stream == METADATA_STREAM {
        return replay_metadata(node, stores, &record);
    }
    restore_batch(node, &record, &mut |queue| {
        live(node, stores, &record, queue)
    })
}

/// Takes a batch in without any rule: what it says was decided when it was written. `live` answers
/// the queue that a command is about, unless it is gone or has the batch already.
pub(crate) fn restore_batch(
    node: &Node,
    record: &ReplayedRecord,
    live: &mut dyn FnMut(u64) -> Option<Arc<Queue>>,
) -> Result<(), OpenError> {
    let unreadable = |what: &str| OpenError::Unreadable {
        what: format!(
            "journal file {} at {} ({what})",
            record.at.file, record.at.offset
        ),
    };
    let batch = Arc::new(Batch {
        bytes: record.payload.clone(),
        file: Some(record.at.file),
        shared: Box::default(),
    });
    let commands = Commands::of(&record.payload).map_err(|fault| unreadable(&fault.to_string()))?;
    let mut publishes = 0;
    // A batch is mostly about one queue: it is looked for once.
    let mut last: Option<(u64, Option<Arc<Queue>>)> = None;
    let mut live = |queue: u64| match &last {
        Some((found, answer)) if *found == queue => answer.clone(),
        _ => {
            let answer = live(queue);
            last = Some((queue, answer.clone()));
            answer
        }
    };
    for command in commands {
        match command.map_err(|fault| unreadable(&fault.to_string()))? {
            Command::Publish {
                meta,
                targets,
                blob_at,
                blob_len,
            } => {
                if publishes == 0 {
                    node.ages
                        .note(record.stream, record.index, meta.published_at);
                }
                let id = entry_id(record.index, publishes);
                publishes += 1;
                for target in targets.iter() {
                    let Some(queue) = live(target) else {
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
                    queue.while_cold(|state| {
                        entry.expires_at = state.machine.expiry(meta.published_at, expiration);
                        // Up to this very one: paged out, it is in a segment as well.
                        state.take_in(id.0 + 1)?;
                        restore_entry(&queue, state, entry);
                        Ok::<_, StorageError>(())
                    })?;
                }
            }
            Command::Forget { queue, entries } => {
                let Some(queue) = live(queue) else {
                    continue;
                };
                forget(node, &queue, entries.iter())?;
            }
            Command::HandedOut { queue, up_to_index } => {
                let Some(queue) = live(queue) else {
                    continue;
                };
                queue.while_cold(|state| state.ledger.restore_mark(up_to_index));
            }
            Command::Returned {
                queue,
                entry,
                counted,
            } => {
                let Some(queue) = live(queue) else {
                    continue;
                };
                queue.while_cold(|state| {
                    let id = EntryId(entry);
                    state.take_in(entry + 1)?;
                    if counted.restore(&mut state.machine, id) {
                        state.ledger.returned(id, counted);
                    }
                    Ok::<_, StorageError>(())
                })?;
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

fn forget(
    node: &Node,
    queue: &Queue,
    entries: impl Iterator<Item = u64>,
) -> Result<(), StorageError> {
    queue.while_cold(|state| {
        for id in entries.map(EntryId) {
            state.take_in(id.0 + 1)?;
            let mut gone = Vec::new();
            state.machine.forget(&[id], &mut gone);
            let Some(content) = gone.pop() else { continue };
            state.memory.leaves(&content);
            let stored = matches!(content, Content::Stored(_));
            state.ledger.ended(id, stored);
            if let Some((tier, location)) = content.place() {
                node.storage.tier(tier).release(queue.store(), &[*location]);
            }
        }
        Ok(())
    })
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
        .apply_entry(record.index, &record.payload, |_, outcome, _| {
            events.extend(outcome.into_iter().flat_map(|outcome| outcome.events));
        });
    for event in events {
        match event {
            MetadataEvent::QueueDeclared {
                record,
                created: true,
            } => {
                in_a_group_of_ours(node, &record)?;
                let queue = Arc::new(node.new_queue(&record));
                let checkpoint = stores.take(queue.store());
                restore_queue(node, &queue, checkpoint);
                node.publish_queue(queue);
            }
            MetadataEvent::ExchangeDeclared {
                record,
                created: true,
            } => {
                if let Some(queue) = delayed::store(node, &record).map(Arc::new) {
                    let checkpoint = stores.take(queue.store());
                    restore_queue(node, &queue, checkpoint);
                    node.publish_queue(queue);
                }
            }
            MetadataEvent::ExchangeDeleted { record, .. } => {
                if let Some(id) = record.delay_store {
                    node.queues.remove(&id);
                }
            }
            // Its segments are dropped at the end of the recovery.
            MetadataEvent::QueueDeleted { record, .. } => {
                node.queues.remove(&record.id);
            }
            MetadataEvent::QueueReconfigured { record } => {
                // At the end: the journal may still bring messages that belong before others.
                stores.reconfigured.insert(record.id);
            }
            _ => {}
        }
    }
    Ok(())
}
