//! The node: files, memory, disk, logins.

use super::exposition::Exposition;
use super::exposition::Kind::{Counter, Gauge, Untyped};
use crate::process::Process;
use crate::routes::memory_parts;
use crate::state::Api;

/// Milliseconds a second.
const MS_PER_S: f64 = 1000.0;

pub(super) fn write(api: &Api, out: &mut Exposition) {
    write_coarse(api, "", out);
    write_limits(api, "", out);
    write_alarms(api, out);
    write_logins(api, "", out);
}

pub(super) fn write_coarse(api: &Api, prefix: &str, out: &mut Exposition) {
    let process = Process::look(&api.options().data_dir);
    let name = |rest: &str| format!("rabbitmq_{prefix}{rest}");
    let help = "Open file descriptors.";
    out.add(
        Gauge,
        &name("process_open_fds"),
        help,
        &[],
        process.open_files,
    );
    let help = "Resident bytes of memory.";
    out.add(
        Gauge,
        &name("process_resident_memory_bytes"),
        help,
        &[],
        process.resident_bytes,
    );
    let help = "Free bytes where the data lies.";
    out.add(
        Gauge,
        &name("disk_space_available_bytes"),
        help,
        &[],
        process.disk_free_bytes,
    );
    let help = "Threads; the name is that of RabbitMQ's runtime.";
    out.add(
        Gauge,
        &name("erlang_processes_used"),
        help,
        &[],
        process.threads,
    );
}

pub(super) fn write_limits(api: &Api, prefix: &str, out: &mut Exposition) {
    let process = Process::look(&api.options().data_dir);
    let name = |rest: &str| format!("rabbitmq_{prefix}{rest}");
    let help = "Most file descriptors.";
    out.add(
        Gauge,
        &name("process_max_fds"),
        help,
        &[],
        process.open_files_max,
    );
    let alarms = api.broker().alarms();
    let memory_limit_bytes = alarms.memory_limit.unwrap_or(process.memory_total_bytes);
    let help = "Bytes of memory at which publishers are blocked.";
    out.add(
        Gauge,
        &name("resident_memory_limit_bytes"),
        help,
        &[],
        memory_limit_bytes,
    );
    let help = "Free bytes of disk below which publishers are blocked.";
    let disk_limit_bytes = alarms.disk_free_limit;
    out.add(
        Gauge,
        &name("disk_space_available_limit_bytes"),
        help,
        &[],
        disk_limit_bytes,
    );
    let help = "Most threads; the name is that of RabbitMQ's runtime.";
    out.add(
        Gauge,
        &name("erlang_processes_limit"),
        help,
        &[],
        process.threads_max,
    );
    let help = "Seconds since the start; the name is that of RabbitMQ's runtime.";
    let uptime_s = api.uptime_ms() as f64 / MS_PER_S;
    out.add(Gauge, &name("erlang_uptime_seconds"), help, &[], uptime_s);
    let help = "Other nodes of the cluster that cannot be reached.";
    out.add(
        Gauge,
        &name("unreachable_cluster_peers_count"),
        help,
        &[],
        0_u64,
    );
}

fn write_alarms(api: &Api, out: &mut Exposition) {
    let alarms = api.broker().alarms();
    let help = "Whether publishers are blocked for want of memory.";
    out.add(
        Untyped,
        "rabbitmq_alarms_memory_used_watermark",
        help,
        &[],
        u64::from(alarms.memory),
    );
    let help = "Whether publishers are blocked for want of disk.";
    out.add(
        Untyped,
        "rabbitmq_alarms_free_disk_space_watermark",
        help,
        &[],
        u64::from(alarms.disk),
    );
}

pub(super) fn write_logins(api: &Api, prefix: &str, out: &mut Exposition) {
    let name = |rest: &str| format!("rabbitmq_{prefix}{rest}");
    let doors = [
        ("http", api.auth_attempts().counts()),
        ("amqp091", api.broker().logins()),
    ];
    for (protocol, (succeeded, failed)) in doors {
        let labels = [("protocol", protocol)];
        let mut add = |rest: &str, help: &str, count: u64| {
            out.add(Counter, &name(rest), help, &labels, count);
        };
        add("auth_attempts_total", "Logins.", succeeded + failed);
        let help = "Logins that were let in.";
        add("auth_attempts_succeeded_total", help, succeeded);
        add(
            "auth_attempts_failed_total",
            "Logins that were refused.",
            failed,
        );
    }
}

/// Parts of the memory, under RabbitMQ's names.
pub(super) fn write_memory(api: &Api, out: &mut Exposition) {
    for (part, bytes) in memory_parts(api) {
        let name = format!("rabbitmq_memory_{}_bytes", metric_name(&part));
        out.add(Gauge, &name, "Bytes of this part.", &[], bytes);
    }
}

/// The name of a part in metrics, where it differs from that in the HTTP API.
// rabbitmq: GET /metrics/memory-breakdown
fn metric_name(part: &str) -> &str {
    match part {
        "allocated_unused" => "runtime_allocated_unused",
        "atom" => "atom_table",
        "binary" => "binary_heap",
        "code" => "code_module",
        "connection_channels" => "client_connection_channel",
        "connection_other" => "client_connection_other",
        "connection_readers" => "client_connection_reader",
        "connection_writers" => "client_connection_writer",
        "metadata_store" => "modern_metadata_store",
        "metadata_store_ets" => "modern_metadata_store_ets_table",
        "mgmt_db" => "management_stats_db",
        "mnesia" => "classic_metadata_store",
        "msg_index" => "message_index",
        "other_ets" => "other_ets_table",
        "other_proc" => "other_erlang_process",
        "plugins" => "plugin",
        "queue_procs" => "classic_queue_erlang_process",
        "quorum_ets" => "quorum_queue_ets_table",
        "quorum_queue_dlx_procs" => "quorum_queue_dlx_erlang_process",
        "quorum_queue_procs" => "quorum_queue_erlang_process",
        "reserved_unallocated" => "runtime_reserved_unallocated",
        "stream_queue_coordinator_procs" => "stream_coordinator_erlang_process",
        "stream_queue_procs" => "stream_erlang_process",
        "stream_queue_replica_reader_procs" => "stream_replica_reader_erlang_process",
        other => other,
    }
}
