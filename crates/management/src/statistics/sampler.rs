//! The task that takes the samples.

use std::collections::HashMap;

use broker::observe::QueueEnds;
use broker_core::metadata::{ConnectionId, QueueId};
use broker_core::{ExchangeName, VhostName};
use tokio::time::MissedTickBehavior;

use super::{INTERVAL, Statistics, as_traffic, churn_values, message_values, traffic_values};
use crate::process::Process;
use crate::state::{Api, WeakApi};
use crate::time::now_ms;

/// Samples for as long as somebody holds the API.
pub(crate) async fn run(api: WeakApi) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(api) = api.upgrade() else { return };
        // A pass over many queues takes milliseconds: not on a thread that serves connections.
        let pass = tokio::task::spawn_blocking(move || sample(&api));
        if let Err(error) = pass.await {
            tracing::error!(%error, "statistics could not be sampled");
        }
    }
}

/// One pass. What costs locks is looked at first, so that readers of the statistics never wait
/// for the broker.
fn sample(api: &Api) {
    let at_ms = now_ms();
    let look = Look::at(api);
    let mut statistics = api.statistics().lock();
    let Statistics {
        queues,
        channels,
        connections,
        exchanges,
        vhosts,
        node,
        churn,
        process,
        ages,
    } = &mut *statistics;
    queues.begin();
    for (queue, values) in look.queues {
        queues.sample(queue, at_ms, values);
    }
    queues.end();
    ages.begin();
    for (queue, ends) in look.ends {
        ages.note(queue, at_ms, ends);
    }
    ages.end();
    channels.begin();
    for (channel, values) in look.channels {
        channels.sample(channel, at_ms, values);
    }
    channels.end();
    connections.begin();
    for (connection, values) in look.connections {
        connections.sample(connection, at_ms, values);
    }
    connections.end();
    exchanges.begin();
    for (exchange, values) in look.exchanges {
        exchanges.sample(exchange, at_ms, values);
    }
    exchanges.end();
    vhosts.begin();
    for (vhost, values) in look.vhosts {
        vhosts.sample(vhost, at_ms, values);
    }
    vhosts.end();
    node.push(at_ms, look.node);
    churn.push(at_ms, look.churn);
    process.push(at_ms, look.process);
}

/// The values of one pass.
struct Look {
    queues: Vec<(QueueId, [u64; 14])>,
    /// Of those that have messages.
    ends: Vec<(QueueId, QueueEnds)>,
    channels: Vec<(u64, [u64; 14])>,
    connections: Vec<(ConnectionId, [u64; 2])>,
    exchanges: Vec<((VhostName, ExchangeName), [u64; 2])>,
    vhosts: Vec<(VhostName, [u64; 14])>,
    node: [u64; 14],
    churn: [u64; 7],
    process: [u64; 4],
}

impl Look {
    fn at(api: &Api) -> Self {
        let broker = api.broker();
        let mut queues = Vec::new();
        let mut messages: HashMap<QueueId, [u64; 3]> = HashMap::new();
        broker.each_queue(|queue, counts, traffic| {
            let held = message_values(counts);
            if held != [0; 3] {
                messages.insert(queue, held);
            }
            queues.push((queue, traffic_values(&as_traffic(traffic), held)));
        });
        let with_messages = messages.keys();
        let ends = with_messages.filter_map(|queue| Some((*queue, broker.queue_ends(*queue)?)));
        let ends = ends.collect();
        let (by_vhost, total) = broker.traffic();
        let mut vhosts = Vec::new();
        let mut exchanges = Vec::new();
        let mut all = [0; 3];
        let metadata = broker.metadata();
        for vhost in metadata.vhosts() {
            let mut held = [0; 3];
            for counts in vhost.queues().filter_map(|queue| messages.get(&queue.id)) {
                add(&mut held, *counts);
            }
            add(&mut all, held);
            let traffic = by_vhost.get(vhost.name()).copied().unwrap_or_default();
            vhosts.push((vhost.name().clone(), traffic_values(&traffic, held)));
            for exchange in vhost.exchanges() {
                let name = &exchange.record().name;
                if let Some((into, out)) = broker.exchange_traffic(vhost.name(), name.as_str()) {
                    exchanges.push(((vhost.name().clone(), name.clone()), [into, out]));
                }
            }
        }
        drop(metadata);
        let connections = broker.connections();
        let channels = connections
            .iter()
            .flat_map(|connection| connection.channels());
        let octets = connections
            .iter()
            .map(|view| (view.id(), [view.received().0, view.sent().octets]))
            .collect();
        let process = Process::look(&api.options().data_dir);
        Self {
            queues,
            ends,
            channels: channels
                .map(|channel| (channel.id(), traffic_values(&channel.traffic(), [0; 3])))
                .collect(),
            connections: octets,
            exchanges,
            vhosts,
            node: traffic_values(&total, all),
            churn: churn_values(&broker.churn()),
            process: [
                process.resident_bytes,
                process.disk_free_bytes,
                process.open_files,
                process.threads,
            ],
        }
    }
}

fn add(sum: &mut [u64; 3], values: [u64; 3]) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum += value;
    }
}
