//! What recent-history exchanges remember, and tell a queue that is bound to them later.
//!
//! Kept in memory only: a history is a courtesy to late comers, not a store.
// rabbitmq: x-recent-history

use std::collections::VecDeque;
use std::sync::Arc;

use amqp::Properties;
use broker_core::exchange::{RECENT_HISTORY_LENGTH_DEFAULT, recent_history_length};
use broker_core::metadata::{Binding, Destination};
use broker_core::{ExchangeName, VhostName};
use dashmap::DashMap;

use crate::clock;
use crate::node::Node;
use crate::origin::Origin;
use crate::record::{self, Blob, EntryMeta, NewMessage};
use crate::route::{InlineTurn, Route};

/// Bytes that one exchange remembers at most, whatever its length allows.
const HISTORY_BYTES_MAX: usize = 16 << 20;

/// Histories by exchange. Each is bounded by its length (`RECENT_HISTORY_LENGTH_MAX`) and bytes.
#[derive(Default)]
pub(crate) struct Histories {
    by_exchange: DashMap<(VhostName, ExchangeName), History>,
}

#[derive(Default)]
struct History {
    messages: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

impl Histories {
    /// The exchange has seen a message.
    pub(crate) fn remember(
        &self,
        node: &Node,
        vhost: &VhostName,
        exchange: &ExchangeName,
        message: &NewMessage<'_>,
    ) {
        let length = {
            let metadata = node.metadata.read();
            let found = metadata
                .vhost(vhost)
                .ok()
                .and_then(|vhost| vhost.exchange(exchange.as_str()));
            found.map_or(0, |exchange| {
                recent_history_length(&exchange.record().arguments)
                    .unwrap_or(RECENT_HISTORY_LENGTH_DEFAULT)
            }) as usize
        };
        let mut blob = Vec::with_capacity(message.blob_len());
        record::put_blob(&mut blob, message);
        let key = (vhost.clone(), exchange.clone());
        let mut history = self.by_exchange.entry(key).or_default();
        history.bytes += blob.len();
        history.messages.push_back(blob.into());
        while history.messages.len() > length || history.bytes > HISTORY_BYTES_MAX {
            let Some(oldest) = history.messages.pop_front() else {
                break;
            };
            history.bytes -= oldest.len();
        }
    }

    /// The exchange is gone.
    pub(crate) fn forget(&self, vhost: &VhostName, exchange: &ExchangeName) {
        self.by_exchange.remove(&(vhost.clone(), exchange.clone()));
    }

    /// A queue was bound: it gets what went before.
    pub(crate) fn tell(&self, node: &Node, vhost: &VhostName, binding: &Binding) {
        let Destination::Queue(queue) = &binding.destination else {
            return;
        };
        let key = (vhost.clone(), binding.source.clone());
        let Some(history) = self.by_exchange.get(&key) else {
            return;
        };
        let messages: Vec<Arc<[u8]>> = history.messages.iter().cloned().collect();
        drop(history);
        let queue = {
            let metadata = node.metadata.read();
            let found = metadata
                .vhost(vhost)
                .ok()
                .and_then(|vhost| vhost.queue(queue.as_str()));
            found.and_then(|record| node.queue(record.id))
        };
        let Some(queue) = queue else { return };
        let route = Arc::new(Route::of(std::iter::once(queue)));
        let mut turn = InlineTurn::default();
        for blob in messages.iter().filter_map(|bytes| Blob::parse(bytes)) {
            let scan = Properties::trusted(blob.properties).scan();
            let meta = EntryMeta {
                persistent: scan.delivery_mode == Some(2),
                priority: scan.priority,
                published_at: clock::now(),
                ..EntryMeta::default()
            };
            let message = blob.again();
            route.send(node, &meta, &message, &mut turn, || Origin::Nobody);
        }
        turn.end(node);
    }
}
