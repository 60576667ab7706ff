//! Where a publish goes, resolved to live queues, and the way it gets in: staged with a group, or
//! put into a transient queue at the end of the turn.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use broker_core::VhostName;
use broker_core::channel::Verdict;
use broker_core::metadata::QueueId;
use broker_core::queue::EntryId;
use broker_core::router::Routed;
use broker_core::settings::QueueKind;
use broker_core::time::Millis;
use smallvec::SmallVec;

use crate::clock;
use crate::content::Batch;
use crate::flow::gate::Load;
use crate::groups::{LOCAL_LANE, Publication};
use crate::node::Node;
use crate::observe::exchange::ExchangeTraffic;
use crate::origin::{self, Origin};
use crate::queue::{After, Arrival, Lane, Queue, resident};
use crate::record::{self, EntryMeta, NewMessage};

/// The queues of one routing decision, by the way they are reached.
#[derive(Default)]
pub(crate) struct Route {
    /// Transient queues.
    inline: SmallVec<[Arc<Queue>; 2]>,
    /// Queue ids by group.
    groups: SmallVec<[(u32, SmallVec<[u64; 4]>); 2]>,
    /// The queues behind those ids.
    grouped: SmallVec<[Arc<Queue>; 2]>,
    /// Stores of delayed exchanges, and for how many milliseconds the message stays there.
    delays: SmallVec<[(Arc<Route>, u64); 1]>,
    /// The counters of the exchange that it begins at.
    exchange: Option<Arc<ExchangeTraffic>>,
}

impl Route {
    pub(crate) fn of(queues: impl Iterator<Item = Arc<Queue>>) -> Self {
        let mut route = Self::default();
        for queue in queues {
            match queue.lane {
                Lane::Inline => route.inline.push(queue),
                Lane::Group(group) => {
                    route.add_to_group(group, queue.id.0);
                    route.grouped.push(queue);
                }
                Lane::Away(group) => route.add_to_group(group, queue.id.0),
            }
        }
        route
    }

    /// The live queues of a routing decision, and the stores that hold the message back.
    pub(crate) fn routed(node: &Node, vhost: &VhostName, routed: &Routed) -> Self {
        let queues = routed.queues.iter().filter_map(|id| node.queue(*id));
        let mut route = Self::of(queues);
        if !routed.delays.is_empty() {
            route.delays = delays(node, vhost, routed);
        }
        route
    }

    /// The route with the stores of another one: what is held back does not wait for queues.
    pub(crate) fn with_delays_of(self, other: &Route) -> Self {
        let delays = other.delays.clone();
        Self { delays, ..self }
    }

    /// The route as of publishes to an exchange that counts them.
    pub(crate) fn through_exchange(self, exchange: Arc<ExchangeTraffic>) -> Self {
        Self {
            exchange: Some(exchange),
            ..self
        }
    }

    pub(crate) fn exchange(&self) -> Option<&Arc<ExchangeTraffic>> {
        self.exchange.as_ref()
    }

    /// How many queues a message goes to.
    pub(crate) fn copies(&self) -> u64 {
        (self.inline.len() + self.grouped.len()) as u64
    }

    /// The queues that a message goes to.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.inline.iter().chain(&self.grouped)
    }

    /// The names of the queues that a message goes to, also of those that live elsewhere.
    pub(crate) fn queue_names(&self, node: &Node) -> Vec<String> {
        let grouped = self.groups.iter().flat_map(|(_, queues)| queues);
        let grouped = grouped.filter_map(|id| node.queue(QueueId(*id)));
        let queues = self.inline.iter().cloned().chain(grouped);
        queues.map(|queue| queue.name.as_str().to_owned()).collect()
    }

    /// Whether a publish of so many bytes may pass without asking the gates of its queues.
    pub(crate) fn is_free(&self, node: &Node, body_bytes: usize) -> bool {
        !node.flow.alarms.any()
            && !node.flow.memory.must_look(body_bytes as u64)
            && self.queues().all(|queue| queue.gate.is_free())
    }

    /// Lets a message of the broker's own into its queues, whatever they hold.
    pub(crate) fn admit_internal(&self, node: &Node, message: &NewMessage<'_>) {
        if self.is_free(node, message.body.len()) {
            return;
        }
        for queue in self.queues() {
            let bytes = queue.logical_bytes(message.properties.len(), message.body.len());
            let load = Load::of(bytes, message.blob_len() as u64);
            node.flow.memory.excuse(load.memory_bytes);
            queue.gate.admit_internal(node, queue, load);
        }
    }

    fn add_to_group(&mut self, group: u32, queue: u64) {
        match self.groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, queues)) => queues.push(queue),
            None => self.groups.push((group, SmallVec::from_slice(&[queue]))),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inline.is_empty() && self.groups.is_empty() && self.delays.is_empty()
    }

    /// How many verdicts a publish on this route waits for.
    pub(crate) fn verdicts(&self) -> u32 {
        let (groups, stores) = (self.groups.len() as u32, self.delays.len() as u32);
        groups + stores + u32::from(!self.inline.is_empty())
    }

    /// Sends the message on its way; `origin` is asked once for each verdict to come.
    pub(crate) fn send(
        self: &Arc<Self>,
        node: &Node,
        meta: &EntryMeta,
        message: &NewMessage<'_>,
        turn: &mut InlineTurn,
        mut origin: impl FnMut() -> Origin,
    ) {
        self.send_to_queues(node, meta, message, turn, &mut origin);
        for (store, delay_ms) in &self.delays {
            let meta = EntryMeta {
                expires_at: Some(meta.published_at + Millis(*delay_ms)),
                ..*meta
            };
            store.send_to_queues(node, &meta, message, turn, &mut origin);
        }
    }

    fn send_to_queues(
        self: &Arc<Self>,
        node: &Node,
        meta: &EntryMeta,
        message: &NewMessage<'_>,
        turn: &mut InlineTurn,
        origin: &mut impl FnMut() -> Origin,
    ) {
        for (group, queues) in &self.groups {
            // The local lane's classic queues keep persistent messages only; a transient one goes
            // the same way for its order, but needs no disk.
            let logged = *group != LOCAL_LANE || meta.persistent;
            let publication = Publication {
                queues,
                meta,
                message,
                logged,
            };
            node.groups
                .publish(*group, &node.pressure, &publication, origin());
        }
        if !self.inline.is_empty() {
            turn.add(self.clone(), meta, message, origin());
        }
    }
}

/// The stores of the delayed exchanges that hold a message back.
fn delays(node: &Node, vhost: &VhostName, routed: &Routed) -> SmallVec<[(Arc<Route>, u64); 1]> {
    let metadata = node.metadata.read();
    let Ok(vhost) = metadata.vhost(vhost) else {
        return SmallVec::new();
    };
    let delays = routed.delays.iter().filter_map(|(exchange, delay_ms)| {
        let store = vhost.exchange(exchange.as_str())?.record().delay_store?;
        let store = Route::of(std::iter::once(node.queue(store)?));
        Some((Arc::new(store), *delay_ms))
    });
    delays.collect()
}

/// Messages for transient queues, gathered over one turn: one lock a queue, one copy a message.
#[derive(Default)]
pub(crate) struct InlineTurn {
    bytes: Vec<u8>,
    messages: Vec<InlineMessage>,
}

struct InlineMessage {
    route: Arc<Route>,
    meta: EntryMeta,
    at: u32,
    len: u32,
    properties: u32,
    body: u32,
    origin: Origin,
}

/// Bytes after which a turn is ended early, so that one stuck message pins no more than this.
const INLINE_TURN_BYTES_MAX: usize = 256 << 10;

impl InlineTurn {
    fn add(
        &mut self,
        route: Arc<Route>,
        meta: &EntryMeta,
        message: &NewMessage<'_>,
        origin: Origin,
    ) {
        let at = self.bytes.len();
        record::put_blob(&mut self.bytes, message);
        self.messages.push(InlineMessage {
            route,
            meta: *meta,
            at: at as u32,
            len: (self.bytes.len() - at) as u32,
            properties: message.properties.len() as u32,
            body: message.body.len() as u32,
            origin,
        });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= INLINE_TURN_BYTES_MAX
    }

    /// Puts the messages into their queues and tells their publishers.
    pub(crate) fn end(&mut self, node: &Node) {
        if self.messages.is_empty() {
            return;
        }
        let now = clock::now();
        let batch = Arc::new(Batch {
            bytes: std::mem::take(&mut self.bytes).into(),
            file: None,
            shared: self
                .messages
                .iter()
                .filter(|message| message.route.inline.len() > 1)
                .map(|message| (message.at, AtomicU32::new(0)))
                .collect(),
        });
        let mut rejected: Vec<usize> = Vec::new();
        let mut first = 0;
        let same_route = |a: &InlineMessage, b: &InlineMessage| Arc::ptr_eq(&a.route, &b.route);
        for run in self.messages.chunk_by(same_route) {
            for queue in &run[0].route.inline {
                let mut after = After::default();
                let arrivals = run.iter().map(|message| Arrival {
                    id: None,
                    meta: message.meta,
                    content: resident(&batch, message.at, message.len),
                    bytes: queue.logical_bytes(message.properties as usize, message.body as usize),
                });
                let base = queue.enqueue(node, now, arrivals, &mut after);
                let last = EntryId(base + run.len() as u64 - 1);
                node.leftovers
                    .note(&batch, queue.id, EntryId(base), last, now);
                rejected.extend(
                    after
                        .refused
                        .iter()
                        .map(|id| first + (id.0 - base) as usize),
                );
                node.carry_out(queue, after);
            }
            first += run.len();
        }
        rejected.sort_unstable();
        let origins: Vec<Origin> = self
            .messages
            .drain(..)
            .map(|message| message.origin)
            .collect();
        origin::tell(node, &origins, |at| match rejected.binary_search(&at) {
            Ok(_) => Verdict::Rejected,
            Err(_) => Verdict::Stored,
        });
    }
}

/// The message's own persistence as this kind of queue sees it.
// rabbitmq: quorum queues store every message, whatever its delivery mode.
pub(crate) fn keeps(kind: QueueKind, persistent: bool) -> bool {
    kind == QueueKind::Quorum || persistent
}
