//! What takes room on the disk, and which message of which consumer keeps it there.
//!
//! A segment goes when nothing in it lives, and is copied when little does; what is reported here is
//! what stands in between. One walk over a queue's live messages, in slices.

use std::collections::BTreeMap;

use broker_core::metadata::QueueId;
use broker_core::queue::EntryId;
use broker_core::{QueueName, VhostName};
use storage::{SegmentUsage, Tier};

use super::messages::{MessageState, state_of};
use crate::apply::index_of;
use crate::broker::Broker;
use crate::content::Content;
use crate::disk_space::Forecast;
use crate::durability::stream_of;
use crate::node::Node;
use crate::queue::{Lane, Queue, QueueState};

/// Messages looked at under one lock of their queue.
const SLICE: usize = 4_096;
/// Segments of one queue that are told of one by one, those with the most dead bytes first.
const PINS_MAX: usize = 64;

/// The disk of the data directory.
#[derive(Clone, Debug)]
pub struct DiskReport {
    /// Bytes of the journal's files, those kept for recycling too.
    pub journal_bytes: u64,
    /// Bytes of segments that survive a restart.
    pub segment_bytes: u64,
    /// Bytes of messages that were paged out and do not survive.
    pub paged_bytes: u64,
    /// Bytes of saved states.
    pub checkpoint_bytes: u64,
    /// Bytes free on the file system.
    pub free_bytes: u64,
    /// Below this, and its reserve, publishers are held.
    pub free_limit_bytes: u64,
    /// Whether they are held.
    pub is_low: bool,
    /// How it goes on; `None` in the first seconds.
    pub forecast: Option<Forecast>,
    /// Each queue that has anything on the disk.
    pub queues: Vec<QueueDisk>,
}

/// A queue's part of the disk.
#[derive(Clone, Debug)]
pub struct QueueDisk {
    /// Its number.
    pub queue: QueueId,
    /// Its vhost.
    pub vhost: VhostName,
    /// Its name.
    pub name: QueueName,
    /// Whether its segments were looked into since the start; if not, only the journal counts.
    pub recovered: bool,
    /// Segment files.
    pub segments: u64,
    /// Bytes of live messages in segments.
    pub live_bytes: u64,
    /// Bytes of messages that are gone and whose segments are still there.
    pub dead_bytes: u64,
    /// Bytes of live messages whose only place on disk is the journal.
    pub journal_bytes: u64,
    /// Bytes of files of messages that were paged out and do not survive.
    pub paged_bytes: u64,
    /// The segments and what keeps them, those with the most dead bytes first.
    pub pins: Vec<Pin>,
}

/// A segment, and the oldest message that lives in it.
#[derive(Clone)]
pub struct Pin {
    /// Whether it survives a restart.
    pub tier: Tier,
    /// The segment and what is in it.
    pub usage: SegmentUsage,
    /// Number of the message in its queue.
    pub entry: u64,
    /// About when it was published, in milliseconds since the epoch; `None` when that was before
    /// anything that the node remembers.
    pub published_ms: Option<u64>,
    /// Where in the queue it is: the consumer that holds it, and since when.
    pub state: MessageState,
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pin")
            .field("tier", &self.tier)
            .field("usage", &self.usage)
            .field("entry", &self.entry)
            .field("published_ms", &self.published_ms)
            .finish_non_exhaustive()
    }
}

impl Broker {
    /// What takes room on the disk. Walks over all live messages of all queues, in slices.
    pub fn disk_report(&self) -> DiskReport {
        let node = self.node();
        let usage = node.storage.disk_usage();
        let queues = node.all_queues();
        let queues = queues.iter().map(|queue| QueueDisk::of(node, queue));
        DiskReport {
            journal_bytes: usage.journal_bytes,
            segment_bytes: usage.segment_bytes,
            paged_bytes: usage.paged_bytes,
            checkpoint_bytes: usage.checkpoint_bytes,
            free_bytes: node.disk_space.free_bytes(),
            free_limit_bytes: node.flow.alarms.disk_free_limit(),
            is_low: node.flow.alarms.is_low_on_disk(),
            forecast: node.disk_space.forecast(node.flow.alarms.disk_free_limit()),
            queues: queues.filter(QueueDisk::is_anything).collect(),
        }
    }

    /// One queue's part of the disk; `None` when the queue is gone.
    pub fn disk_report_of(&self, queue: QueueId) -> Option<QueueDisk> {
        let node = self.node();
        Some(QueueDisk::of(node, &*node.queue(queue)?))
    }

    /// Whether publishers are held because the disk is almost full.
    pub fn is_disk_low(&self) -> bool {
        self.node().flow.alarms.is_low_on_disk()
    }
}

/// What a walk over live messages gathers.
#[derive(Default)]
struct Walk {
    journal_bytes: u64,
    /// Oldest message of each segment.
    oldest: BTreeMap<(Tier, u32), (u64, MessageState)>,
}

impl QueueDisk {
    fn of(node: &Node, queue: &Queue) -> Self {
        let recovered = !queue.while_cold(|state| state.is_cold());
        let mut walk = Walk::default();
        let mut from = recovered.then_some(EntryId(0));
        while let Some(first) = from {
            from = queue.with_state(|state| walk.slice(state, first));
        }
        let store = queue.store();
        let usage = node.storage.segments().usage(store);
        let mut pins: Vec<Pin> = Vec::new();
        for tier in [Tier::Durable, Tier::Paged] {
            for usage in node.storage.tier(tier).segments_of(store) {
                let oldest = walk.oldest.remove(&(tier, usage.segment));
                pins.extend(oldest.map(|(entry, state)| Pin {
                    tier,
                    usage,
                    entry,
                    published_ms: published_ms(node, queue, entry),
                    state,
                }));
            }
        }
        pins.sort_by_key(|pin| std::cmp::Reverse(pin.usage.dead_bytes));
        pins.truncate(PINS_MAX);
        Self {
            queue: queue.id,
            vhost: queue.vhost.clone(),
            name: queue.name.clone(),
            recovered,
            segments: usage.segments,
            live_bytes: usage.live_bytes,
            dead_bytes: usage.dead_bytes,
            journal_bytes: walk.journal_bytes,
            paged_bytes: node.storage.paged().usage(store).file_bytes,
            pins,
        }
    }

    fn is_anything(&self) -> bool {
        self.segments > 0 || self.journal_bytes > 0 || self.paged_bytes > 0
    }
}

fn published_ms(node: &Node, queue: &Queue, entry: u64) -> Option<u64> {
    let Lane::Group(group) = queue.lane else {
        return None;
    };
    let index = index_of(EntryId(entry));
    node.ages.written_at(stream_of(group), index).map(|at| at.0)
}

impl Walk {
    /// Looks at a slice; answers where the next one begins.
    fn slice(&mut self, state: &QueueState, from: EntryId) -> Option<EntryId> {
        let mut seen = 0;
        let mut last = None;
        for entry in state.machine.live_from(from).take(SLICE) {
            seen += 1;
            last = Some(entry.id);
            if let Content::Resident { len, .. } = &*entry.content {
                self.journal_bytes += match entry.content.is_logged() {
                    true => u64::from(*len),
                    false => 0,
                };
            }
            if let Some((tier, location)) = entry.content.place() {
                let key = (tier, location.segment);
                self.oldest
                    .entry(key)
                    .or_insert_with(|| (entry.id.0, state_of(state, &entry)));
            }
        }
        last.filter(|_| seen == SLICE).map(|id| EntryId(id.0 + 1))
    }
}
