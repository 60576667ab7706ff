//! Who is held, by what and why; for listings and for "why am I blocked".

use std::sync::Arc;

use broker_core::flow::{CapacityLimits, Levers, Meter, Stage};
use broker_core::metadata::QueueId;
use broker_core::{QueueName, VhostName};

use super::client::ChannelView;
use crate::broker::Broker;
use crate::clock;
use crate::holder::Holder;

/// What flow control did since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Times that something began to hold a channel.
    pub holds: u64,
    /// Of these, for overfull queues.
    pub holds_for_capacity: u64,
    /// For memory: a queue's own, its vhost's or the node's.
    pub holds_for_memory: u64,
    /// For alarms of the node.
    pub holds_for_alarms: u64,
    /// `channel.flow` frames sent.
    pub flow_frames: u64,
    /// Clients that did not pause, and channels that were closed for it.
    pub flow_ignored: u64,
    /// Messages refused since they waited too long.
    pub timed_out: u64,
    /// Messages refused since there was no room for them to wait.
    pub no_room: u64,
    /// Times that a channel had more parked than memory is for.
    pub readings_stopped: u64,
    /// Bytes that the broker's own messages went beyond capacities.
    pub internal_overshoot_bytes: u64,
}

/// One thing that holds a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBy {
    /// The queue.
    pub queue: QueueName,
    /// Its vhost.
    pub vhost: VhostName,
    /// Why, as the log says it: `Queue orders`.
    pub cause: String,
    /// Since when, in milliseconds since the epoch.
    pub since_ms: u64,
}

/// A channel that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldView {
    /// Where it stands.
    pub stage: Stage,
    /// What holds it; the first one began.
    pub held_by: Vec<HeldBy>,
    /// Since when, in milliseconds since the epoch.
    pub since_ms: u64,
    /// Messages that wait.
    pub parked_messages: u64,
    /// Their bytes in memory.
    pub parked_bytes: u64,
    /// Their bytes on disk.
    pub spilled_bytes: u64,
    /// `channel.flow(false)` is out.
    pub flow_sent: bool,
    /// The connection is not read.
    pub reading_stopped: bool,
    /// `connection.blocked` is out.
    pub blocked_sent: bool,
    /// Confirms are withheld.
    pub confirms_withheld: bool,
}

/// A channel that a queue holds.
#[derive(Clone)]
pub struct HeldChannel {
    /// The channel.
    pub channel: ChannelView,
    /// Its messages that wait for the queue.
    pub parked_messages: u64,
    /// Their bytes, as the queue's limits count them.
    pub parked_bytes: u64,
}

/// A queue's standing towards its capacity.
#[derive(Clone)]
pub struct QueueFlow {
    /// The capacity; `None` when it holds nobody.
    pub limits: Option<CapacityLimits>,
    /// Since when it is overfull, in milliseconds since the epoch.
    pub overfull_since_ms: Option<u64>,
    /// How often it became overfull.
    pub overfull_total: u64,
    /// How long it was overfull, all in all.
    pub overfull_ms_total: u64,
    /// Bytes in memory at which the queue holds its publishers; `None` is no limit of its own.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes in memory above which its messages leave for the disk.
    pub memory_high_water_bytes: Option<u64>,
    /// The queue has its own limit of memory full, or memory is full and it has more than its share.
    pub over_memory_share: bool,
    /// Bytes of its messages in memory, with their places in the queue.
    pub resident_bytes: u64,
    /// Messages that are on disk only.
    pub paged_messages: u64,
    /// Whom it holds.
    pub held_channels: Vec<HeldChannel>,
    /// Messages that wait for it.
    pub parked_messages: u64,
    /// Their bytes.
    pub parked_bytes: u64,
}

/// One meter of the memory tree. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterView {
    /// What is used.
    pub used: u64,
    /// The limit; `None` is none.
    pub limit: Option<u64>,
    /// Below it, the mark above which nothing more is kept.
    pub high_water: Option<u64>,
}

/// The memory tree. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryView {
    /// Everything below.
    pub main: MeterView,
    /// Messages that wait, in queues or with their publishers, and those being received.
    pub producers: MeterView,
    /// Messages that are handed out.
    pub consumers: MeterView,
    /// Of the producers': what waits with its publishers.
    pub parked: u64,
    /// Of the producers': bodies that were announced and are being received.
    pub ingest: u64,
    /// Beside the tree: published and on the way to the journal.
    pub staged: u64,
    /// Of the producers': what the queues of each vhost keep.
    pub vhosts: Vec<(VhostName, MeterView)>,
}

/// Alarms of the node and what they go by. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmView {
    /// More memory is used than allowed.
    pub memory: bool,
    /// Less disk space is free than wanted.
    pub disk: bool,
    /// Memory of the process.
    pub memory_used: u64,
    /// Its limit; `None` is none.
    pub memory_limit: Option<u64>,
    /// Free space of the data directory's file system.
    pub disk_free: u64,
    /// Its limit.
    pub disk_free_limit: u64,
}

impl HoldView {
    pub(super) fn of(holder: &Arc<Holder>) -> Option<Self> {
        let session = &holder.session;
        let flow = holder.flow.lock();
        let since = flow.hold.since()?;
        let causes = flow.hold.causes().filter_map(|(id, since)| {
            let (queue, cause) = flow.queues.iter().find(|(queue, _)| queue.id == id)?;
            Some((queue.clone(), cause.clone(), since))
        });
        let causes: Vec<_> = causes.collect();
        let mut view = Self {
            stage: flow.hold.stage(),
            held_by: Vec::new(),
            since_ms: since.0,
            parked_messages: flow.hold.parked_messages(),
            parked_bytes: flow.hold.memory_bytes(),
            spilled_bytes: flow.hold.spilled_bytes(),
            flow_sent: flow.hold.is_asked_to_pause(),
            reading_stopped: session.flow.must_not_be_read(),
            blocked_sent: session.flow.is_blocked(),
            confirms_withheld: !holder.publishes_plainly() && flow.hold.parked_messages() > 0,
        };
        // A gate is locked before a channel's hold.
        drop(flow);
        let held_by = causes.into_iter().map(|(queue, cause, since)| {
            // It may hold for something else than at first.
            let now = queue.gate.with_state(|state| {
                let cause = state.cause(&queue.name);
                cause.map(|cause| cause.to_string())
            });
            HeldBy {
                queue: queue.name.clone(),
                vhost: queue.vhost.clone(),
                cause: now.unwrap_or(cause),
                since_ms: since.0,
            }
        });
        view.held_by = held_by.collect();
        Some(view)
    }
}

impl Broker {
    /// What flow control did since the node started.
    pub fn flow_counts(&self) -> FlowCounts {
        self.node().flow.tally.counts()
    }

    /// Clients that did not pause, and channels that were closed for it, by what the clients call
    /// their library.
    pub fn flow_ignored_by_product(&self) -> Vec<(Box<str>, u64)> {
        self.node().flow.tally.ignored_by_product()
    }

    /// Connections that are not read since their channels wait.
    pub fn unread_connections(&self) -> u64 {
        let sessions = self.node().sessions.iter();
        let unread = sessions.filter(|session| session.flow.must_not_be_read());
        unread.count() as u64
    }

    /// Bytes that wait with their publishers, in memory and on disk.
    pub fn parked_bytes(&self) -> (u64, u64) {
        self.node().flow.parked_bytes()
    }

    /// Queues whose consumers get no more than their share of the consumers' part of the memory.
    pub fn rationed_queues(&self) -> usize {
        self.node().flow.rationed.lock().len()
    }

    /// The channels that are held, in no particular order.
    pub fn held_channels(&self) -> Vec<ChannelView> {
        let held = self.node().flow.held_channels();
        held.into_iter().map(ChannelView::new).collect()
    }

    /// A queue's standing towards its capacity; `None` when it is gone.
    pub fn queue_flow(&self, queue: QueueId) -> Option<QueueFlow> {
        let queue = self.node().queue(queue)?;
        let now = clock::now();
        let (resident_bytes, paged_messages) = queue.with_state(|state| {
            let messages = state.machine.counts().messages();
            let paged = messages.saturating_sub(state.memory.resident_messages());
            (state.memory.resident_bytes(), paged)
        });
        Some(queue.gate.with_state(|state| {
            let held = state.held().map(|(holder, messages, bytes)| HeldChannel {
                channel: ChannelView::new(holder.clone()),
                parked_messages: messages,
                parked_bytes: bytes,
            });
            let held_channels: Vec<HeldChannel> = held.collect();
            QueueFlow {
                limits: state.fullness.limits(),
                overfull_since_ms: state.fullness.overfull_since().map(|since| since.0),
                overfull_total: state.fullness.times_overfull(),
                overfull_ms_total: state.fullness.overfull_ms(now),
                memory_limit_bytes: state.memory_limit().map(|(limit, _)| limit),
                memory_high_water_bytes: state.memory_limit().map(|(_, mark)| mark),
                over_memory_share: state.lacks_memory(),
                resident_bytes,
                paged_messages,
                parked_messages: held_channels.iter().map(|held| held.parked_messages).sum(),
                parked_bytes: held_channels.iter().map(|held| held.parked_bytes).sum(),
                held_channels,
            }
        }))
    }

    /// The memory tree.
    pub fn memory(&self) -> MemoryView {
        let node = self.node();
        let tree = &node.flow.memory;
        let of = |meter: &Meter| MeterView {
            used: meter.used(),
            limit: meter.limit(),
            high_water: meter.high_water(),
        };
        let vhosts = tree.vhosts().into_iter();
        MemoryView {
            main: of(&tree.main),
            producers: of(&tree.producers),
            consumers: of(&tree.consumers),
            parked: tree.parked.used(),
            ingest: tree.ingest.used(),
            staged: node.pressure.staged_bytes(),
            vhosts: vhosts
                .map(|(vhost, memory)| (vhost, of(&memory.pool.meter)))
                .collect(),
        }
    }

    /// The node's alarms, with what was measured last.
    pub fn alarms(&self) -> AlarmView {
        let alarms = &self.node().flow.alarms;
        AlarmView {
            memory: alarms.is_low_on_memory(),
            disk: alarms.is_low_on_disk(),
            memory_used: alarms.memory_used(),
            memory_limit: alarms.memory_limit(),
            disk_free: self.node().disk_space.free_bytes(),
            disk_free_limit: alarms.disk_free_limit(),
        }
    }

    /// Memory of the process above which publishers wait, from here on; `None` is no limit.
    // rabbitmqctl: set_vm_memory_high_watermark
    pub fn set_memory_limit(&self, bytes: Option<u64>) {
        self.node().flow.alarms.set_memory_limit(bytes);
        self.node().flow.memory.set_limit(bytes);
        self.node().look_at_machine();
    }

    /// Connections that come from here on are judged by these words. Open ones stay as they were
    /// judged: a client that was asked to pause must hear when to go on.
    pub fn set_levers(&self, levers: Levers) {
        *self.node().flow.levers.write() = levers;
    }

    /// Free disk space below which publishers wait, from here on.
    // rabbitmqctl: set_disk_free_limit
    pub fn set_disk_free_limit(&self, bytes: u64) {
        self.node().flow.alarms.set_disk_free_limit(bytes);
        self.node().look_at_machine();
    }
}
