//! Flow control of the running node: messages for overfull queues wait with their channels, nobody
//! else does, and a consumer never.
//!
//! The rules are `broker_core::flow`'s. Here they meet locks and threads. Order of locks: queue,
//! then gate, then a channel's hold, then its session's mailbox; staging is never taken under a
//! gate. Whoever has made room for something (an ack, a purge, a policy) lets it in on its own
//! thread; a patrol looks after what only time decides.

pub(crate) mod alarm;
pub(crate) mod gate;
pub(crate) mod hold;
pub(crate) mod memory;
pub(crate) mod parked;
pub(crate) mod patrol;
pub(crate) mod session;
pub(crate) mod spill;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use broker_core::flow::{HoldBounds, Levers};
use broker_core::metadata::QueueId;
use broker_core::queue::HolderId;
use parking_lot::{Mutex, RwLock};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::holder::Holder;
use crate::observe::flow::FlowCounts;
use crate::session::SessionShared;
use alarm::Alarms;
use memory::MemoryTree;

/// How publishers are held. Sizes in bytes, times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct FlowOptions {
    /// Longest time that a message waits for a queue that does not say its own.
    pub hold_timeout_ms: u64,
    /// What one channel may have parked, and when it is spoken about.
    pub bounds: HoldBounds,
    /// What all channels together may have parked in memory.
    pub parked_memory_max_bytes: u64,
    /// What all channels together may have parked on disk.
    pub parked_disk_max_bytes: u64,
    /// Memory of the process above which publishers wait; `None` is no limit.
    // rabbitmq: vm_memory_high_watermark
    pub memory_limit_bytes: Option<u64>,
    /// The producers' share of that memory in percent; 0 makes one pool of both sides.
    // ActiveMQ: producerSystemUsagePortion
    pub producer_percent: u64,
    /// Part of the producers' memory in percent from which on messages beyond their queue's share leave
    /// memory for the disk, so that it seldom comes to holding anybody; 0 is never.
    // ActiveMQ: cursorMemoryHighWaterMark
    pub page_out_percent: u64,
    /// Free space of the data directory's file system below which publishers wait;
    /// `observe::RESERVE_FOR_ACKS_BYTES` come on top.
    // rabbitmq: disk_free_limit
    pub disk_free_limit_bytes: u64,
}

impl Default for FlowOptions {
    fn default() -> Self {
        Self {
            hold_timeout_ms: broker_core::flow::HOLD_TIMEOUT_DEFAULT_MS,
            bounds: HoldBounds::default(),
            parked_memory_max_bytes: 128 << 20,
            parked_disk_max_bytes: 1 << 30,
            memory_limit_bytes: None,
            producer_percent: broker_core::flow::PRODUCER_SHARE_DEFAULT_PERCENT,
            page_out_percent: 70,
            disk_free_limit_bytes: 50_000_000,
        }
    }
}

/// The node's part of flow control.
pub(crate) struct Flow {
    pub(crate) options: FlowOptions,
    /// What connections that open now are judged by.
    pub(crate) levers: RwLock<Levers>,
    pub(crate) alarms: Alarms,
    pub(crate) tally: FlowTally,
    pub(crate) memory: MemoryTree,
    parked_disk_bytes: AtomicU64,
    /// Queues that hold their publishers for the memory of a part that they take too much of.
    /// Bounded by the queues.
    pub(crate) guilty: Mutex<FxHashSet<QueueId>>,
    /// Queues whose consumers get no more than their share of the consumers' part. Bounded by the
    /// queues.
    pub(crate) rationed: Mutex<FxHashSet<QueueId>>,
    /// Queues that something waits for, or that owe a word. Bounded by the queues.
    watched: Mutex<FxHashSet<QueueId>>,
    /// Some connection published during an alarm and has not heard of its end.
    sessions_alarmed: AtomicBool,
    /// Channels that are held. Bounded by the channels.
    held: Mutex<FxHashMap<HolderId, Arc<Holder>>>,
}

impl Flow {
    pub(crate) fn new(options: FlowOptions, levers: Levers) -> Self {
        Self {
            options,
            levers: RwLock::new(levers),
            alarms: Alarms::new(options.memory_limit_bytes, options.disk_free_limit_bytes),
            tally: FlowTally::default(),
            memory: MemoryTree::new(
                options.memory_limit_bytes,
                options.producer_percent,
                match options.page_out_percent {
                    0 => 100,
                    percent => percent,
                },
            ),
            parked_disk_bytes: AtomicU64::new(0),
            guilty: Mutex::default(),
            rationed: Mutex::default(),
            watched: Mutex::default(),
            sessions_alarmed: AtomicBool::new(false),
            held: Mutex::default(),
        }
    }

    /// The patrol is to look at this queue.
    pub(crate) fn watch(&self, queue: QueueId) {
        self.watched.lock().insert(queue);
    }

    /// The connection publishes; during an alarm it waits for its end.
    pub(crate) fn note_alarm(&self, session: &SessionShared) {
        if let Some(reason) = self.alarms.reason() {
            session.flow.alarm(&session.signals, reason);
            self.sessions_alarmed.store(true, Ordering::Release);
        }
    }

    pub(crate) fn channel_held(&self, holder: &Arc<Holder>) {
        self.held.lock().insert(holder.id, holder.clone());
    }

    pub(crate) fn channel_released(&self, holder: &Holder) {
        self.held.lock().remove(&holder.id);
    }

    pub(crate) fn held_channels(&self) -> Vec<Arc<Holder>> {
        self.held.lock().values().cloned().collect()
    }

    /// Whether the node has room in memory for a message that waits, beside so many staged bytes.
    fn has_memory(&self, bytes: u64, staged_bytes: u64) -> bool {
        self.memory.parked.used() + bytes <= self.options.parked_memory_max_bytes
            && self.memory.lets_wait(bytes + staged_bytes)
    }

    /// Whether the node has room on disk for a message that waits.
    fn has_disk(&self, bytes: u64) -> bool {
        !self.alarms.is_low_on_disk()
            && self.parked_disk_bytes.load(Ordering::Relaxed) + bytes
                <= self.options.parked_disk_max_bytes
    }

    /// Bytes that wait in memory and on disk.
    pub(crate) fn parked_bytes(&self) -> (u64, u64) {
        (
            self.memory.parked.used(),
            self.parked_disk_bytes.load(Ordering::Relaxed),
        )
    }
}

/// Products that are counted apart; clients may call themselves what they like.
const PRODUCTS_MAX: usize = 64;

/// What flow control did since the node started.
#[derive(Debug, Default)]
pub(crate) struct FlowTally {
    /// For capacity, memory and alarms.
    pub(crate) holds: [AtomicU64; 3],
    pub(crate) flow_frames: AtomicU64,
    /// By what clients call their library. Bounded by [`PRODUCTS_MAX`].
    ignored: Mutex<BTreeMap<Box<str>, u64>>,
    pub(crate) timed_out: AtomicU64,
    pub(crate) no_room: AtomicU64,
    pub(crate) readings_stopped: AtomicU64,
    pub(crate) internal_overshoot_bytes: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl FlowTally {
    /// A client of this product went on although it was asked to pause, or lost its channel for it.
    fn ignored(&self, product: &str) {
        let mut ignored = self.ignored.lock();
        let is_known = ignored.contains_key(product) || ignored.len() < PRODUCTS_MAX;
        let product = if is_known { product } else { "others" };
        *ignored.entry(product.into()).or_default() += 1;
    }

    /// How often clients of each product went on.
    pub(crate) fn ignored_by_product(&self) -> Vec<(Box<str>, u64)> {
        let ignored = self.ignored.lock();
        let counts = ignored.iter();
        counts
            .map(|(product, count)| (product.clone(), *count))
            .collect()
    }

    pub(crate) fn counts(&self) -> FlowCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FlowCounts {
            holds: self.holds.iter().map(load).sum(),
            holds_for_capacity: load(&self.holds[0]),
            holds_for_memory: load(&self.holds[1]),
            holds_for_alarms: load(&self.holds[2]),
            flow_frames: load(&self.flow_frames),
            flow_ignored: self.ignored.lock().values().sum(),
            timed_out: load(&self.timed_out),
            no_room: load(&self.no_room),
            readings_stopped: load(&self.readings_stopped),
            internal_overshoot_bytes: load(&self.internal_overshoot_bytes),
        }
    }
}
