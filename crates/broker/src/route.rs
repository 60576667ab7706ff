//! Where a publish goes, resolved to live queues, and the way it gets in: staged with a group, or
//! put into a transient queue at the end of the turn.

use std::sync::Arc;

use broker_core::channel::Verdict;
use broker_core::settings::QueueKind;
use smallvec::SmallVec;

use crate::clock;
use crate::content::Batch;
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
    /// The counters of the exchange that it begins at.
    exchange: Option<Arc<ExchangeTraffic>>,
}

impl Route {
    pub(crate) fn of(queues: impl Iterator<Item = Arc<Queue>>) -> Self {
        let mut route = Self::default();
        for queue in queues {
            match queue.lane {
                Lane::Inline => route.inline.push(queue),
                Lane::Group(group) => route.add_to_group(group, queue.id.0),
            }
        }
        route
    }

    /// As [`Route::of`], for publishes to an exchange that counts them.
    pub(crate) fn from_exchange(
        exchange: Arc<ExchangeTraffic>,
        queues: impl Iterator<Item = Arc<Queue>>,
    ) -> Self {
        Self {
            exchange: Some(exchange),
            ..Self::of(queues)
        }
    }

    pub(crate) fn exchange(&self) -> Option<&Arc<ExchangeTraffic>> {
        self.exchange.as_ref()
    }

    /// How many queues a message goes to.
    pub(crate) fn copies(&self) -> u64 {
        let grouped: usize = self.groups.iter().map(|(_, queues)| queues.len()).sum();
        (self.inline.len() + grouped) as u64
    }

    fn add_to_group(&mut self, group: u32, queue: u64) {
        match self.groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, queues)) => queues.push(queue),
            None => self.groups.push((group, SmallVec::from_slice(&[queue]))),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inline.is_empty() && self.groups.is_empty()
    }

    /// How many verdicts a publish on this route waits for.
    pub(crate) fn verdicts(&self) -> u32 {
        self.groups.len() as u32 + u32::from(!self.inline.is_empty())
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
