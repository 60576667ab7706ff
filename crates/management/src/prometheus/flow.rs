//! Flow control of each queue, and the meters of memory.

use std::sync::Arc;

use broker::observe::{MeterView, QueueFlow};
use broker_core::metadata::QueueRecord;

use super::exposition::Exposition;
use super::exposition::Kind::{self, Counter, Gauge};
use super::objects::Scope;
use crate::state::Api;

const MS_PER_S: f64 = 1000.0;

/// One family over queues, with what its number is.
type Family = (&'static str, &'static str, Kind, fn(&QueueFlow) -> f64);

const FAMILIES: [Family; 8] = [
    (
        "overfull",
        "1 while the queue holds its publishers since it is above its capacity.",
        Gauge,
        |flow| f64::from(u8::from(flow.overfull_since_ms.is_some())),
    ),
    (
        "overfull_total",
        "Times that the queue became overfull.",
        Counter,
        |flow| flow.overfull_total as f64,
    ),
    (
        "overfull_seconds_total",
        "Seconds that the queue was overfull.",
        Counter,
        |flow| flow.overfull_ms_total as f64 / MS_PER_S,
    ),
    (
        "held_channels",
        "Channels that the queue holds.",
        Gauge,
        |flow| flow.held_channels.len() as f64,
    ),
    (
        "parked_messages",
        "Messages that wait for the queue with their publishers.",
        Gauge,
        |flow| flow.parked_messages as f64,
    ),
    ("parked_bytes", "Their bytes.", Gauge, |flow| {
        flow.parked_bytes as f64
    }),
    (
        "resident_bytes",
        "Bytes of the queue's messages in memory, with their places in the queue.",
        Gauge,
        |flow| flow.resident_bytes as f64,
    ),
    (
        "paged_messages",
        "Messages of the queue that are on disk only.",
        Gauge,
        |flow| flow.paged_messages as f64,
    ),
];

/// What flow control does with each queue, or with all of them.
pub(super) fn write_queues(api: &Api, scope: &Scope, out: &mut Exposition) {
    let broker = api.broker();
    let records: Vec<Arc<QueueRecord>> = {
        let metadata = broker.metadata();
        let queues = metadata.queues().filter(|record| {
            scope.has_vhost(&record.vhost) && scope.has_queue(record.name.as_str())
        });
        queues.cloned().collect()
    };
    let flows: Vec<(Arc<QueueRecord>, QueueFlow)> = records
        .into_iter()
        .filter_map(|record| Some((record.clone(), broker.queue_flow(record.id)?)))
        .collect();
    for (name, help, kind, of) in FAMILIES {
        let name = format!("sluicemq_queue_{name}");
        if scope.is_sum() {
            let sum: f64 = flows.iter().map(|(_, flow)| of(flow)).sum();
            out.add(kind, &name, help, &[], sum);
            continue;
        }
        for (record, flow) in &flows {
            let labels = [
                ("vhost", record.vhost.as_str()),
                ("queue", record.name.as_str()),
            ];
            out.add(kind, &name, help, &labels, of(flow));
        }
    }
}

/// The meters of memory: what is used, the limit, and the mark above which nothing more is kept.
pub(super) fn write_meters(api: &Api, out: &mut Exposition) {
    let memory = api.broker().memory();
    let part = |used| MeterView {
        used,
        limit: None,
        high_water: None,
    };
    let meters = [
        ("main", memory.main),
        ("producers", memory.producers),
        ("consumers", memory.consumers),
        ("parked", part(memory.parked)),
        ("ingest", part(memory.ingest)),
        ("staged", part(memory.staged)),
    ];
    for (meter, view) in meters {
        let labels = [("meter", meter)];
        let name = "sluicemq_memory_used_bytes";
        out.add(
            Gauge,
            name,
            "Bytes of messages in memory.",
            &labels,
            view.used,
        );
        if let Some(limit) = view.limit {
            let help = "Bytes at which publishers wait.";
            out.add(Gauge, "sluicemq_memory_limit_bytes", help, &labels, limit);
        }
        if let Some(mark) = view.high_water {
            let name = "sluicemq_memory_high_water_bytes";
            let help = "Bytes above which nothing more is kept in memory.";
            out.add(Gauge, name, help, &labels, mark);
        }
    }
    for (vhost, view) in memory.vhosts {
        let labels = [("vhost", vhost.as_str())];
        let name = "sluicemq_vhost_memory_used_bytes";
        let help = "Bytes in memory of messages that wait in the vhost's queues.";
        out.add(Gauge, name, help, &labels, view.used);
        if let Some(limit) = view.limit {
            let name = "sluicemq_vhost_memory_limit_bytes";
            let help = "Bytes at which the vhost's publishers wait.";
            out.add(Gauge, name, help, &labels, limit);
        }
        if let Some(mark) = view.high_water {
            let name = "sluicemq_vhost_memory_high_water_bytes";
            let help = "Bytes above which the vhost's messages leave memory for the disk.";
            out.add(Gauge, name, help, &labels, mark);
        }
    }
}
