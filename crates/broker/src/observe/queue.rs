//! A queue and its consumers, for listings.

use std::sync::Arc;

use amqp::Table;
use broker_core::ConsumerTag;
use broker_core::metadata::QueueRecord;
use broker_core::queue::{ConsumerState, QueueCounts};
use broker_core::settings::QueueKind;

use super::client::ChannelView;
use super::traffic::QueueTraffic;
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
