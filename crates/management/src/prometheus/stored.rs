//! What is written: the journal and its syncs, what lives on the disk, the logs of quorum queues.

use broker::observe::{LogView, SYNC_CLASSES_US};
use broker_core::settings::QueueKind;

use super::exposition::Exposition;
use super::exposition::Kind::Gauge;
use super::objects::Scope;
use super::queues;
use crate::state::Api;

const US_PER_S: f64 = 1_000_000.0;

/// The disk, seen from the node.
pub(super) fn write(api: &Api, out: &mut Exposition) {
    let journal = api.broker().journal();
    let times = journal.sync_times;
    let classes: Vec<(f64, u64)> = SYNC_CLASSES_US
        .iter()
        .map(|us| *us as f64 / US_PER_S)
        .zip(times.syncs)
        .collect();
    out.add_histogram(
        "sluicemq_journal_sync_duration_seconds",
        "How long the journal's writes took, each with its sync.",
        &[],
        &classes,
        times.syncs[SYNC_CLASSES_US.len()],
        times.us as f64 / US_PER_S,
    );
    let stored = api.broker().stored();
    let gauges = [
        (
            "sluicemq_disk_journal_bytes",
            "Bytes of the journal's files, free ones too.",
            journal.bytes,
        ),
        (
            "sluicemq_disk_segments",
            "Files of messages that outlived the journal.",
            stored.segments,
        ),
        (
            "sluicemq_disk_live_bytes",
            "Bytes of messages that live in segments.",
            stored.live_bytes,
        ),
        (
            "sluicemq_disk_dead_bytes",
            "Bytes of messages that are gone and still take room in segments.",
            stored.dead_bytes,
        ),
    ];
    for (name, help, value) in gauges {
        out.add(Gauge, name, help, &[], value);
    }
}

/// The logs of quorum queues, under the names of RabbitMQ's Raft library.
// rabbitmq: the sum is only of the worst latency and the most segments; names have no `_total`
pub(super) fn write_logs(api: &Api, scope: &Scope, out: &mut Exposition) {
    let system = ("ra_system", "quorum_queues");
    let latency_s = api.broker().journal().sync_times.last_us as f64 / US_PER_S;
    let logs: Vec<_> = queues::views(api, scope)
        .into_iter()
        .filter(|view| view.record.kind == QueueKind::Quorum)
        .filter_map(|view| {
            let log = api.broker().log_of(view.record.id)?;
            Some((view.record, log))
        })
        .collect();
    let help = "Seconds of the journal's last sync, which every commit waits for.";
    if scope.is_sum() {
        let name = "rabbitmq_raft_max_commit_latency_seconds";
        out.add(Gauge, name, help, &[system], latency_s);
        let segments = logs.iter().map(|(_, log)| log.segments).max();
        let name = "rabbitmq_raft_max_num_segments";
        let help = "Most segment files of a quorum queue.";
        out.add(Gauge, name, help, &[system], segments.unwrap_or(0));
        return;
    }
    let prefix = scope.prefix();
    for (record, log) in &logs {
        let labels = [
            ("vhost", record.vhost.as_str()),
            ("queue", record.name.as_str()),
        ];
        let name = format!("{prefix}raft_commit_latency_seconds");
        out.add(Gauge, &name, help, &labels, latency_s);
        for (rest, help, number) in FIGURES {
            out.add(
                Gauge,
                &format!("{prefix}raft_{rest}"),
                help,
                &labels,
                number(log),
            );
        }
    }
}

/// One figure of a log: name, help, number.
type Figure = (&'static str, &'static str, fn(&LogView) -> u64);

const FIGURES: [Figure; 5] = [
    (
        "last_written_index",
        "Last entry of the log that the queue shares.",
        |log| log.last_index,
    ),
    (
        "commit_index",
        "Last entry of that log that is committed.",
        |log| log.applied_index,
    ),
    (
        "last_applied",
        "Last entry of that log that is applied.",
        |log| log.applied_index,
    ),
    (
        "snapshot_index",
        "Last entry whose effects are in the queue's saved state.",
        |log| log.saved_index,
    ),
    ("num_segments", "Segment files of the queue.", |log| {
        log.segments
    }),
];
