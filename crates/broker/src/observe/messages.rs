//! Messages of a queue, looked at without touching anything: no delivery, no count, no order
//! changes by it.

use broker_core::ConsumerTag;
use broker_core::dead_letter::DeathReason;
use broker_core::metadata::QueueId;
use broker_core::queue::{EntryId, EntryState, EntryView};

use super::client::ChannelView;
use crate::broker::Broker;
use crate::content::{Content, LoadedBlob};
use crate::outbox::MessageView;
use crate::queue::QueueState;

/// Messages looked at under one lock of their queue.
const SLICE: usize = 4_096;

/// Which messages of a queue are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All, in the order in which they were published.
    All,
    /// Those that are handed out.
    Unacked,
}

/// Where in its queue a message is.
#[derive(Clone)]
pub enum MessageState {
    /// Waits for a consumer.
    Ready,
    /// Was returned and is held back.
    Delayed {
        /// Until then, in milliseconds since the epoch.
        until_ms: u64,
    },
    /// Is on its way to the dead-letter exchange.
    DeadLettering {
        /// Of what it died.
        reason: DeathReason,
    },
    /// Is handed out.
    Unacked {
        /// To whom; `None` when the channel has just gone.
        channel: Option<ChannelView>,
        /// To which consumer; `None` when it was got.
        consumer: Option<ConsumerTag>,
        /// Since when, in milliseconds since the epoch.
        since_ms: u64,
    },
}

/// A message of a queue.
pub struct QueuedMessage {
    /// Its number in the queue, growing in the order of publishing.
    pub entry: u64,
    /// Where it is.
    pub state: MessageState,
    /// Bytes as the length limits count them.
    pub bytes: u32,
    /// The level it is delivered at.
    pub priority: u8,
    /// Whether the publisher wants it kept.
    pub persistent: bool,
    /// When it expires, in milliseconds since the epoch.
    pub expires_at_ms: Option<u64>,
    /// Returns that count towards the delivery limit.
    pub delivery_count: u32,
    /// All returns.
    pub acquired_count: u32,
    loaded: Option<LoadedBlob>,
}

impl QueuedMessage {
    /// The message itself; `None` when it has left the queue meanwhile.
    pub fn with_view<R>(&self, f: impl FnOnce(MessageView<'_>) -> R) -> Option<R> {
        let loaded = self.loaded.as_ref()?;
        Some(f(loaded.blob()?.view(loaded.owner())))
    }
}

impl Broker {
    /// Messages of a queue from the `offset`-th of those asked for, at most `count`. Costs a pass
    /// over the messages before, in slices.
    pub fn messages(
        &self,
        queue: QueueId,
        which: Which,
        offset: usize,
        count: usize,
    ) -> Vec<QueuedMessage> {
        self.messages_from(queue, which, 0, offset, count)
    }

    /// As [`Broker::messages`], beginning with this entry or the next one that is there: a walk
    /// in parts passes over nothing twice.
    pub fn messages_from(
        &self,
        queue: QueueId,
        which: Which,
        first: u64,
        offset: usize,
        count: usize,
    ) -> Vec<QueuedMessage> {
        let Some(queue) = self.node().queue(queue) else {
            return Vec::new();
        };
        let mut found: Vec<(QueuedMessage, Content)> = Vec::new();
        let mut to_skip = offset;
        let mut from = EntryId(first);
        loop {
            let next = queue.with_state(|state| {
                let mut last = None;
                let mut seen = 0;
                for entry in state.machine.live_from(from).take(SLICE) {
                    seen += 1;
                    last = Some(entry.id);
                    if !is_wanted(&entry, which) {
                        continue;
                    }
                    if to_skip > 0 {
                        to_skip -= 1;
                        continue;
                    }
                    if found.len() == count {
                        return None;
                    }
                    found.push((message(state, &entry), entry.content.into_owned()));
                }
                last.filter(|_| seen == SLICE).map(|id| EntryId(id.0 + 1))
            });
            match next {
                Some(next) if found.len() < count => from = next,
                _ => break,
            }
        }
        let store = queue.store();
        let loaded = found.into_iter().map(|(message, content)| {
            let loaded = self.node().load(store, &content);
            QueuedMessage { loaded, ..message }
        });
        loaded.collect()
    }
}

fn is_wanted(entry: &EntryView<'_, Content>, which: Which) -> bool {
    match which {
        Which::All => true,
        Which::Unacked => matches!(entry.state, EntryState::Unacked { .. }),
    }
}

/// Where in its queue a message is.
pub(super) fn state_of(state: &QueueState, entry: &EntryView<'_, Content>) -> MessageState {
    match entry.state {
        EntryState::Ready => MessageState::Ready,
        EntryState::Delayed { until } => MessageState::Delayed { until_ms: until.0 },
        EntryState::DeadLettering { reason } => MessageState::DeadLettering { reason },
        EntryState::Unacked {
            holder,
            consumer,
            since,
        } => MessageState::Unacked {
            channel: state.holders.get(&holder).cloned().map(ChannelView::new),
            consumer: consumer.and_then(|consumer| state.tags.get(&consumer).cloned()),
            since_ms: since.0,
        },
    }
}

fn message(state: &QueueState, entry: &EntryView<'_, Content>) -> QueuedMessage {
    QueuedMessage {
        entry: entry.id.0,
        state: state_of(state, entry),
        bytes: entry.bytes,
        priority: entry.priority,
        persistent: entry.persistent,
        expires_at_ms: entry.expires_at.map(|at| at.0),
        delivery_count: entry.delivery_count,
        acquired_count: entry.acquired_count,
        loaded: None,
    }
}
