//! What takes room on the disk.

use broker::observe::{DiskReport, Forecast, MessageState, Pin, QueueDisk};
use management_api::DiskPin;

use crate::time::iso8601;

pub(crate) fn disk(report: &DiskReport) -> management_api::Disk {
    management_api::Disk {
        journal_bytes: report.journal_bytes,
        segment_bytes: report.segment_bytes,
        paged_bytes: report.paged_bytes,
        checkpoint_bytes: report.checkpoint_bytes,
        free_bytes: report.free_bytes,
        free_limit_bytes: report.free_limit_bytes,
        publishers_held: report.is_low,
        forecast: report.forecast.map(forecast),
        queues: report.queues.iter().map(queue_disk).collect(),
    }
}

fn forecast(forecast: Forecast) -> management_api::DiskForecast {
    management_api::DiskForecast {
        growth_bytes_per_s: forecast.growth_bytes_per_s,
        full_in_s: forecast.full_in_s,
        watched_s: forecast.watched_s,
    }
}

pub(crate) fn queue_disk(queue: &QueueDisk) -> management_api::QueueDisk {
    management_api::QueueDisk {
        vhost: queue.vhost.to_string(),
        queue: queue.name.to_string(),
        recovered: queue.recovered,
        segments: queue.segments,
        live_bytes: queue.live_bytes,
        dead_bytes: queue.dead_bytes,
        journal_bytes: queue.journal_bytes,
        paged_bytes: queue.paged_bytes,
        pinned_by: queue.pins.iter().map(pin).collect(),
    }
}

fn pin(pin: &Pin) -> DiskPin {
    let about = DiskPin {
        segment: pin.usage.segment,
        live_messages: pin.usage.live_items,
        live_bytes: pin.usage.live_bytes,
        dead_bytes: pin.usage.dead_bytes,
        entry: pin.entry,
        published: pin.published_ms.map(iso8601),
        ..DiskPin::default()
    };
    let state = |word: &str| word.to_owned();
    match &pin.state {
        MessageState::Ready => DiskPin {
            state: state("ready"),
            ..about
        },
        MessageState::Delayed { .. } => DiskPin {
            state: state("delayed"),
            ..about
        },
        MessageState::DeadLettering { .. } => DiskPin {
            state: state("dead-lettering"),
            ..about
        },
        MessageState::Unacked {
            channel,
            consumer,
            since_ms,
        } => DiskPin {
            state: state("unacked"),
            channel: channel.as_ref().map(|channel| channel.name()),
            consumer_tag: consumer.as_ref().map(ToString::to_string),
            held_since: Some(iso8601(*since_ms)),
            ..about
        },
    }
}
