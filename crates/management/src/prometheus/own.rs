//! Families that only this broker has.

use std::collections::HashMap;

use broker_core::metadata::QueueId;

use super::exposition::Exposition;
use super::exposition::Kind::{Counter, Gauge};
use super::objects::Scope;
use crate::state::Api;
use crate::time::now_ms;

const MS_PER_S: f64 = 1000.0;

/// How long the oldest messages have waited: the longest of all queues, or each queue's.
pub(super) fn write_ages(api: &Api, scope: &Scope, out: &mut Exposition) {
    let mut oldest: HashMap<QueueId, u64> = HashMap::new();
    api.broker().each_queue(|queue, counts, _| {
        if counts.messages() > 0 {
            oldest.insert(queue, 0);
        }
    });
    for (queue, entry) in &mut oldest {
        *entry = api
            .broker()
            .queue_ends(*queue)
            .map_or(0, |ends| ends.oldest);
    }
    let now_ms = now_ms();
    let ages: HashMap<QueueId, f64> = {
        let statistics = api.statistics().lock();
        let age = |(queue, entry): (&QueueId, &u64)| {
            let since_ms = statistics.ages().since_ms(*queue, *entry);
            let age_ms = since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
            (*queue, age_ms as f64 / MS_PER_S)
        };
        oldest.iter().map(age).collect()
    };
    let name = "sluicemq_queue_oldest_message_age_seconds";
    let help = "Seconds that the oldest message has been in its queue at least.";
    if scope.is_sum() {
        let longest = ages.values().copied().fold(0.0, f64::max);
        out.add(Gauge, name, help, &[], longest);
        return;
    }
    let metadata = api.broker().metadata();
    for record in metadata
        .queues()
        .filter(|record| scope.has_queue(record.name.as_str()))
    {
        let Some(age) = ages.get(&record.id) else {
            continue;
        };
        let labels = [
            ("vhost", record.vhost.as_str()),
            ("queue", record.name.as_str()),
        ];
        out.add(Gauge, name, help, &labels, *age);
    }
}

/// What flow control does: holds, parked messages, refusals for want of room or time.
pub(super) fn write_flow(api: &Api, out: &mut Exposition) {
    let broker = api.broker();
    let (memory_bytes, disk_bytes) = broker.parked_bytes();
    let gauges = [
        (
            "parked_memory_bytes",
            "Bytes in memory that wait with their publishers.",
            memory_bytes,
        ),
        (
            "parked_disk_bytes",
            "Bytes on disk that wait with their publishers.",
            disk_bytes,
        ),
        (
            "held_channels",
            "Channels that are held.",
            broker.held_channels().len() as u64,
        ),
        (
            "unread_connections",
            "Connections that are not read since their channels wait.",
            broker.unread_connections(),
        ),
    ];
    for (name, help, value) in gauges {
        out.add(Gauge, &format!("sluicemq_flow_{name}"), help, &[], value);
    }
    let counts = broker.flow_counts();
    let counters = [
        (
            "flow_frames_total",
            "Frames channel.flow that were sent.",
            counts.flow_frames,
        ),
        (
            "readings_stopped_total",
            "Times that a connection was not read since too much of it waited.",
            counts.readings_stopped,
        ),
        (
            "internal_overshoot_bytes_total",
            "Bytes that dead letters went beyond capacities.",
            counts.internal_overshoot_bytes,
        ),
    ];
    for (name, help, value) in counters {
        out.add(Counter, &format!("sluicemq_flow_{name}"), help, &[], value);
    }
    let causes = [
        ("capacity", counts.holds_for_capacity),
        ("memory", counts.holds_for_memory),
        ("alarm", counts.holds_for_alarms),
    ];
    for (cause, value) in causes {
        let name = "sluicemq_flow_holds_total";
        let help = "Times that something began to hold a channel.";
        out.add(Counter, name, help, &[("cause", cause)], value);
    }
    let refusals = [
        ("hold_timeout", counts.timed_out),
        ("park_full", counts.no_room),
    ];
    for (cause, value) in refusals {
        let name = "sluicemq_flow_refused_total";
        let help = "Messages refused since they waited too long, or found no room to wait in.";
        out.add(Counter, name, help, &[("cause", cause)], value);
    }
    for (product, value) in broker.flow_ignored_by_product() {
        let name = "sluicemq_flow_ignored_total";
        let help = "Clients that did not pause when they were asked to.";
        out.add(Counter, name, help, &[("product", &product)], value);
    }
}
