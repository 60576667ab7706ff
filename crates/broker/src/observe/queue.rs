//! A queue and its consumers, for listings.

use std::sync::Arc;

use amqp::Table;
use broker_core::metadata::QueueId;
use broker_core::metadata::QueueRecord;
use broker_core::queue::{ConsumerState, EntryId, EntryState, Pause, QueueCounts};
use broker_core::settings::QueueKind;
use broker_core::{ConsumerTag, Refusal, Timestamp};

use super::client::ChannelView;
use super::deaths::QueueDeaths;
use super::incidents::HeldBecause;
use super::traffic::QueueTraffic;
use crate::broker::Broker;
use crate::queue::Queue;

/// A queue at one moment.
#[derive(Clone, Debug)]
pub struct QueueView {
    /// What is known of it.
    pub record: Arc<QueueRecord>,
    /// What it holds.
    pub counts: QueueCounts,
    /// Bytes of memory that it takes, message bodies not counted.
    pub memory_bytes: usize,
    /// Ready messages of each priority that has any, from the highest.
    pub ready_by_priority: Vec<(u8, u64)>,
    /// The single active consumer.
    pub active_consumer: Option<ConsumerTag>,
    /// The consumer that wanted to be alone.
    pub exclusive_consumer: Option<ConsumerTag>,
    /// What passed through it since it was made or the node started.
    pub traffic: QueueTraffic,
    /// Messages that died in it since it was made or the node started.
    pub deaths: QueueDeaths,
    /// Why its dead letters are held, and since when (milliseconds since the epoch).
    pub dead_letters_held: Option<(HeldBecause, u64)>,
    /// When the first and the last of the messages that are held back are ready again
    /// (milliseconds since the epoch).
    pub delayed_until_ms: Option<(u64, u64)>,
}

impl QueueView {
    pub(super) fn of(queue: &Queue, record: Arc<QueueRecord>) -> Self {
        queue.with_state(|state| {
            let machine = &state.machine;
            let tag_where = |wanted: fn(&broker_core::queue::ConsumerView<'_>) -> bool| {
                let found = machine.consumers().find(wanted);
                found.map(|view| view.consumer.tag.clone())
            };
            Self {
                counts: machine.counts(),
                memory_bytes: machine.memory_bytes(),
                ready_by_priority: match record.kind {
                    QueueKind::Quorum => machine.ready_by_priority().collect(),
                    QueueKind::Classic => Vec::new(),
                },
                active_consumer: tag_where(|view| view.state == ConsumerState::SingleActive),
                exclusive_consumer: tag_where(|view| view.consumer.exclusive),
                traffic: state.traffic,
                deaths: state.deaths,
                dead_letters_held: state.dead_letters_held,
                delayed_until_ms: machine
                    .delayed_until()
                    .map(|(first, last)| (first.0, last.0)),
                record,
            }
        })
    }
}

/// A consumer at one moment.
#[derive(Clone)]
pub struct ConsumerInfo {
    /// Its tag.
    pub tag: ConsumerTag,
    /// Its channel.
    pub channel: ChannelView,
    /// What it is to its queue.
    pub state: ConsumerState,
    /// Most unsettled deliveries; 0 is no limit.
    pub prefetch: u16,
    /// Higher ones are served first.
    pub priority: i64,
    /// Whether it wanted to be alone.
    pub exclusive: bool,
    /// Deliveries count as acknowledged when they are sent.
    pub no_ack: bool,
    /// Its own longest time for an ack.
    pub timeout_ms: Option<u64>,
    /// Unsettled deliveries.
    pub unacked: u32,
    /// The limit of its user or vhost that keeps it from being given more.
    pub held_by: Option<Refusal>,
    /// As it was started.
    pub arguments: Table,
}

impl ConsumerInfo {
    pub(super) fn all_of(queue: &Queue) -> Vec<Self> {
        queue.with_state(|state| {
            let views = state.machine.consumers();
            views
                .filter_map(|view| {
                    let holder = state.holders.get(&view.consumer.holder)?;
                    Some(Self {
                        tag: view.consumer.tag.clone(),
                        channel: ChannelView::new(holder.clone()),
                        state: view.state,
                        prefetch: view.consumer.prefetch,
                        priority: view.consumer.priority,
                        exclusive: view.consumer.exclusive,
                        no_ack: view.consumer.no_ack,
                        timeout_ms: view.consumer.timeout_ms,
                        unacked: view.unacked,
                        held_by: (view.paused.contains(Pause::TENANT))
                            .then(|| holder.full_hands())
                            .flatten(),
                        arguments: state
                            .consumer_arguments
                            .get(&view.consumer.id)
                            .cloned()
                            .unwrap_or_default(),
                    })
                })
                .collect()
        })
    }
}

/// The oldest and the newest message of a queue by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueEnds {
    /// The oldest that is there.
    pub oldest: u64,
    /// The newest that was ever there.
    pub newest: u64,
}

/// How long a consumer has held its oldest delivery.
#[derive(Clone)]
pub struct UnackedAge {
    /// Its tag; `None` when the message was got.
    pub consumer: Option<ConsumerTag>,
    /// The channel; `None` when it has just gone.
    pub channel: Option<ChannelView>,
    /// The oldest delivery's entry.
    pub entry: u64,
    /// Since when, in milliseconds since the epoch.
    pub since_ms: u64,
    /// Deliveries that it holds.
    pub unacked: u64,
}

/// Messages looked at for one answer about who holds what.
const AGES_SEEN_MAX: usize = 100_000;

impl Broker {
    /// The ends of a queue; `None` when it is empty or gone.
    pub fn queue_ends(&self, queue: QueueId) -> Option<QueueEnds> {
        self.node().queue(queue)?.with_state(|state| {
            let oldest = state.machine.live_from(EntryId(0)).next()?.id.0;
            let newest = state.machine.last_id()?.0;
            Some(QueueEnds { oldest, newest })
        })
    }

    /// Publishes that a queue refused since it was full: how many, and when the last; `None` when there
    /// was none or the queue is gone.
    pub fn refused_publishes(&self, queue: QueueId) -> Option<(u64, Timestamp)> {
        let refusals = self.node().queue(queue)?.with_state(|state| state.refusals);
        Some((refusals.total, refusals.last_at?))
    }

    /// Who holds deliveries of a queue, and since when the oldest of each; the longest first.
    /// Looks at no more than the hundred thousand oldest messages.
    pub fn unacked_ages(&self, queue: QueueId) -> Vec<UnackedAge> {
        let Some(queue) = self.node().queue(queue) else {
            return Vec::new();
        };
        let mut ages = queue.with_state(|state| {
            let mut ages = std::collections::HashMap::new();
            for entry in state.machine.live_from(EntryId(0)).take(AGES_SEEN_MAX) {
                let EntryState::Unacked {
                    holder,
                    consumer,
                    since,
                } = entry.state
                else {
                    continue;
                };
                let age = ages
                    .entry((holder, consumer))
                    .or_insert_with(|| UnackedAge {
                        consumer: consumer.and_then(|id| state.tags.get(&id).cloned()),
                        channel: state.holders.get(&holder).cloned().map(ChannelView::new),
                        entry: entry.id.0,
                        since_ms: since.0,
                        unacked: 0,
                    });
                age.unacked += 1;
                if since.0 < age.since_ms {
                    age.since_ms = since.0;
                    age.entry = entry.id.0;
                }
            }
            ages.into_values().collect::<Vec<_>>()
        });
        ages.sort_by_key(|age| age.since_ms);
        ages
    }
}
