//! The state of a machine on its way to a member whose log is too far behind.
//!
//! Queues travel as their live messages, each with its number and counts. What arrives is written to
//! segments and checkpoints before the old state is let go of.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use broker_core::Timestamp;
use broker_core::metadata::QueueId;
use broker_core::queue::{Entry, EntryId, EntryState, EntryView};
use bytes::Bytes;
use cluster::SnapshotMachine;
use serde::{Deserialize, Serialize};
use storage::{Item, StorageError, Tier};
use thiserror::Error;

use crate::apply::{QueueGroup, first_id_after};
use crate::content::{Content, LoadedBlob};
use crate::delayed;
use crate::durability::Attributes;
use crate::files::METADATA_STORE;
use crate::metadata_store::MetadataMachine;
use crate::node::Node;
use crate::queue::Queue;
use crate::record::Blob;
use crate::standing::{Counted, Standing};

/// Bytes of messages in one chunk.
const CHUNK_BYTES: usize = 1 << 20;
/// Messages looked at under one lock of their queue.
const SLICE: usize = 500;
/// How long the messages of a queue wait for the news of it. A member that does not hear of it for
/// longer cannot take part.
const NEWS_TIME_MAX: Duration = Duration::from_secs(60);
const NEWS_LOOK: Duration = Duration::from_millis(5);

/// What went wrong with a snapshot.
#[derive(Debug, Error)]
pub(crate) enum SnapshotError {
    #[error("the node ends")]
    Gone,
    #[error(transparent)]
    Format(#[from] postcard::Error),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("the metadata of another member cannot be taken over: {0}")]
    Metadata(#[from] crate::error::OpenError),
    #[error("a snapshot of the metadata is empty")]
    Empty,
    #[error("messages of queues that are not known here yet cannot be handed on")]
    Early,
    #[error("queue number {0} came with a snapshot and was not heard of in {s} s", s = NEWS_TIME_MAX.as_secs())]
    Unheard(u64),
}

#[derive(Serialize, Deserialize)]
struct Message {
    queue: u64,
    entry: u64,
    priority: u8,
    persistent: bool,
    expires_at: Option<u64>,
    /// See `standing`.
    counted: Vec<u8>,
    blob: Bytes,
}

impl Message {
    fn counted(&self) -> Counted {
        Counted::read(&self.counted).unwrap_or_default()
    }
}

impl SnapshotMachine for MetadataMachine {
    type Error = SnapshotError;

    fn snapshot(&self, chunk: &mut dyn FnMut(Bytes) -> bool) -> Result<u64, SnapshotError> {
        let node = self.node().ok_or(SnapshotError::Gone)?;
        let mut blob = Vec::new();
        let index = node.metadata.checkpoint(&mut blob);
        chunk(blob.into());
        index.ok_or(SnapshotError::Empty)
    }

    fn install(
        &self,
        index: u64,
        chunks: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), SnapshotError> {
        let node = self.node().ok_or(SnapshotError::Gone)?;
        let blob = chunks.next().ok_or(SnapshotError::Empty)?;
        node.storage
            .checkpoints()
            .put(&[(METADATA_STORE, index, &blob)])?;
        node.metadata.restore(&blob)?;
        node.firehose.adjust(&node.metadata.read());
        let records: Vec<_> = node.metadata.read().queues().cloned().collect();
        for record in &records {
            match node.queue(record.id) {
                Some(queue) => queue.reconfigure(&node, &record.settings),
                None => node.declared(node.new_queue(record)).awake(&node),
            }
        }
        let delaying = delayed::exchanges(&node.metadata.read());
        for exchange in &delaying {
            let known = exchange
                .delay_store
                .is_some_and(|id| node.queue(id).is_some());
            if !known && let Some(store) = delayed::store(&node, exchange) {
                node.declared(store).awake(&node);
            }
        }
        let next = node.metadata.read().next_queue();
        node.heard_of_queues_below(next.0);
        let queues = records.iter().map(|record| record.id);
        let stores = delaying.iter().filter_map(|exchange| exchange.delay_store);
        let left: HashSet<QueueId> = queues.chain(stores).collect();
        for queue in node.all_queues() {
            if !left.contains(&queue.id) {
                node.remove_queue(queue.id);
            }
        }
        Ok(())
    }
}

impl SnapshotMachine for QueueGroup {
    type Error = SnapshotError;

    fn snapshot(&self, chunk: &mut dyn FnMut(Bytes) -> bool) -> Result<u64, SnapshotError> {
        let node = self.node().ok_or(SnapshotError::Gone)?;
        let replication = node.replication.as_ref();
        if replication.is_some_and(|own| own.has_early(self.stream())) {
            return Err(SnapshotError::Early);
        }
        let mut out = Outgoing::default();
        for queue in node.queues_of(self.stream()) {
            let mut from = 0;
            loop {
                let slice = slice_of(&node, &queue, from);
                let Some(last) = slice.last() else { break };
                from = last.entry + 1;
                for message in slice {
                    if !out.add(message, chunk)? {
                        return Ok(0);
                    }
                }
            }
        }
        out.flush(chunk)?;
        Ok(0)
    }

    fn install(
        &self,
        index: u64,
        chunks: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), SnapshotError> {
        let node = self.node().ok_or(SnapshotError::Gone)?;
        let mut queues: BTreeMap<u64, Vec<Message>> = BTreeMap::new();
        for chunk in chunks {
            for message in postcard::from_bytes::<Vec<Message>>(&chunk)? {
                queues.entry(message.queue).or_default().push(message);
            }
        }
        if let Some(replication) = &node.replication {
            replication.forget_early(self.stream(), index);
        }
        for id in queues.keys() {
            await_news(&node, QueueId(*id))?;
        }
        for queue in node.queues_of(self.stream()) {
            let messages = queues.remove(&queue.id.0).unwrap_or_default();
            install_queue(&node, &queue, index, messages)?;
        }
        Ok(())
    }
}

/// The news of a queue comes through the group of the metadata, and may be later than its messages. One
/// that is known of and not there any more was deleted.
fn await_news(node: &Node, queue: QueueId) -> Result<(), SnapshotError> {
    let end = Instant::now() + NEWS_TIME_MAX;
    while node.queue(queue).is_none() && !node.knows_of(queue) {
        if Instant::now() >= end {
            return Err(SnapshotError::Unheard(queue.0));
        }
        std::thread::sleep(NEWS_LOOK);
    }
    Ok(())
}

#[derive(Default)]
struct Outgoing {
    messages: Vec<Message>,
    bytes: usize,
}

impl Outgoing {
    fn add(
        &mut self,
        message: Message,
        chunk: &mut dyn FnMut(Bytes) -> bool,
    ) -> Result<bool, SnapshotError> {
        self.bytes += message.blob.len();
        self.messages.push(message);
        match self.bytes >= CHUNK_BYTES {
            true => self.flush(chunk),
            false => Ok(true),
        }
    }

    fn flush(&mut self, chunk: &mut dyn FnMut(Bytes) -> bool) -> Result<bool, SnapshotError> {
        let bytes = postcard::to_stdvec(&self.messages)?;
        self.messages.clear();
        self.bytes = 0;
        Ok(chunk(bytes.into()))
    }
}

/// The next live messages of a queue. What cannot be read is left out, and was reported.
fn slice_of(node: &Node, queue: &Queue, from: u64) -> Vec<Message> {
    let slice: Vec<_> = queue.with_state(|state| {
        let live = state.machine.live_from(EntryId(from)).take(SLICE);
        live.map(|entry| {
            let message = Message {
                queue: queue.id.0,
                entry: entry.id.0,
                priority: entry.priority,
                persistent: entry.persistent,
                expires_at: entry.expires_at.map(|at| at.0),
                counted: counted_of(&entry),
                blob: Bytes::new(),
            };
            (message, entry.content.into_owned())
        })
        .collect()
    });
    slice
        .into_iter()
        .filter_map(|(mut message, content)| {
            message.blob = node.load(queue.store(), &content)?.bytes();
            Some(message)
        })
        .collect()
}

fn install_queue(
    node: &Node,
    queue: &Arc<Queue>,
    index: u64,
    messages: Vec<Message>,
) -> Result<(), SnapshotError> {
    let store = queue.store();
    let held = |entry: u64| queue.with_state(|state| state.machine.entry(EntryId(entry)).is_some());
    let (here, missing): (Vec<_>, Vec<_>) = messages
        .into_iter()
        .partition(|message| held(message.entry));
    let parts: Vec<[&[u8]; 1]> = missing.iter().map(|m| [m.blob.as_ref()]).collect();
    let items: Vec<Item<'_>> = missing
        .iter()
        .zip(&parts)
        .map(|(message, parts)| Item {
            id: message.entry,
            attributes: attributes_of(message).pack(),
            parts,
        })
        .collect();
    let segments = node.storage.segments();
    let places = segments.append(store, &items)?;
    segments.sync(&[store])?;
    let mut entries: BTreeMap<u64, Entry<Content>> = BTreeMap::new();
    for (message, place) in missing.iter().zip(places) {
        entries.insert(
            message.entry,
            entry_of(queue, message, Content::Stored(place)),
        );
    }
    let mut blob = Vec::new();
    let settings = node.settings_of(queue);
    queue.with_state(|state| {
        // What is dead in segments stays so: their bytes are still there.
        let mut ledger = state.ledger.dead_only();
        for message in &here {
            let content = state.machine.entry(EntryId(message.entry));
            let content = content.map(|entry| entry.content.into_owned());
            if let Some(content) = content {
                entries.insert(message.entry, entry_of(queue, message, content));
            }
        }
        for entry in state.machine.live_from(EntryId(0)) {
            if entries.contains_key(&entry.id.0) {
                continue;
            }
            state.memory.leaves(&entry.content);
            if let Some((tier, place)) = entry.content.place() {
                ledger.ended(entry.id, tier == Tier::Durable);
                node.storage.tier(tier).release(store, &[*place]);
            }
        }
        let first = entries.keys().next().copied();
        for message in here.iter().chain(&missing) {
            let counted = message.counted();
            if counted != Counted::default() {
                ledger.returned(EntryId(message.entry), counted);
            }
        }
        ledger.write(first.unwrap_or_else(|| first_id_after(index)), &mut blob);
        state.replace(queue.kind, settings.as_deref(), entries.into_values());
        for (id, counted) in ledger.counted() {
            counted.restore(&mut state.machine, id);
        }
        state.ledger = ledger;
    });
    node.storage.checkpoints().put(&[(store, index, &blob)])?;
    Ok(())
}

fn attributes_of(message: &Message) -> Attributes {
    let head_bytes = Blob::parse(&message.blob)
        .and_then(|blob| u16::try_from(message.blob.len() - blob.body.len()).ok());
    Attributes {
        expires_at: message.expires_at.map(Timestamp),
        priority: Some(message.priority),
        head_bytes,
    }
}

fn entry_of(queue: &Queue, message: &Message, content: Content) -> Entry<Content> {
    let loaded = LoadedBlob::read(message.blob.clone());
    let counted = message.counted();
    let (properties, body) = loaded
        .blob()
        .map_or((0, 0), |blob| (blob.properties.len(), blob.body.len()));
    Entry {
        id: EntryId(message.entry),
        content,
        bytes: queue.logical_bytes(properties, body),
        priority: Some(message.priority),
        persistent: message.persistent,
        expires_at: message.expires_at.map(Timestamp),
        delivery_count: counted.delivery_count,
        acquired_count: counted.acquired_count,
    }
}

/// Counts and standing of a message. Who holds it is the leader's business.
fn counted_of(entry: &EntryView<'_, Content>) -> Vec<u8> {
    let standing = match entry.state {
        EntryState::Delayed { until } => Standing::HeldBack(until),
        EntryState::DeadLettering { reason } => Standing::Dead(reason),
        _ => Standing::InLine,
    };
    let counted = Counted {
        delivery_count: entry.delivery_count,
        acquired_count: entry.acquired_count,
        standing,
    };
    let mut bytes = Vec::new();
    counted.put(&mut bytes);
    bytes
}

impl Node {
    pub(crate) fn settings_of(
        &self,
        queue: &Queue,
    ) -> Option<Arc<broker_core::settings::QueueSettings>> {
        if let Some(exchange) = &queue.holds_for {
            return Some(Arc::new(delayed::settings(exchange)));
        }
        let metadata = self.metadata.read();
        let record = metadata.queues().find(|record| record.id == queue.id)?;
        Some(record.settings.clone())
    }

    /// Whether the queue's number was given out on this node's metadata.
    pub(crate) fn knows_of(&self, queue: QueueId) -> bool {
        queue.0 < self.queues_heard_of.load(Ordering::Acquire)
    }
}
