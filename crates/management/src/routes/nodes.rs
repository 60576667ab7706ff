//! Nodes: what the process uses of its machine.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, put};
use management_api::{
    AlarmLimits, Application, ExchangeType, Memory, MemoryBreakdown, MemoryTotals, Node, Rate,
};
use serde_json::{Value, json};

use super::overview::{
    CRYPTO_LIB_VERSION, RUNTIME_FULL_VERSION, RUNTIME_VERSION, contexts, exchange_types,
};
use super::{GET, PUT, Paths, resource};
use crate::access::{Administrator, Monitor};
use crate::apart::apart;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::process::Process;
use crate::segments::Path;
use crate::show::{self, stats, stats::Histories};
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/nodes", resource(GET, get(list)))
        .route("/nodes/{node}", resource(GET, get(one)))
        .route("/nodes/{node}/memory", resource(GET, get(memory)))
        .route(
            "/nodes/{node}/alarm-limits",
            resource(PUT, put(set_alarm_limits)),
        )
        .route(
            "/nodes/{node}/memory/relative",
            resource(GET, get(relative_memory)),
        )
}

async fn list(_: Monitor, query: ListQuery, State(api): State<Api>) -> Response {
    let mut nodes = vec![show::json(&node(&api, Histories::of(&query)))];
    nodes.extend(others(&api));
    nodes.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    query.answer_whole(nodes, Value::clone)
}

/// The other nodes of the cluster: what this one knows of them is whether they can be reached.
fn others(api: &Api) -> Vec<Value> {
    let here = api.broker().cluster_node();
    let nodes = api.broker().cluster_nodes().into_iter();
    nodes
        .filter(|node| Some(node.node) != here)
        .map(|node| {
            json!({
                "name": api.node_name(node.node),
                "type": "disc",
                "running": node.is_up,
                "cluster_address": node.address,
            })
        })
        .collect()
}

fn check_node(api: &Api, name: &str) -> Result<()> {
    if name == api.node() {
        Ok(())
    } else {
        Err(ApiError::ObjectNotFound)
    }
}

async fn one(
    _: Monitor,
    Path(name): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    check_node(&api, &name)?;
    Ok(query.answer_one(show::json(&node(&api, Histories::of(&query)))))
}

/// Parts that RabbitMQ's tools look for among the plugins; here they are built in.
const BUILT_IN: [&str; 3] = [
    "rabbitmq_management",
    "rabbitmq_management_agent",
    "rabbitmq_prometheus",
];

/// Seconds after which a silent node counts as down.
const NET_TICK_S: u64 = 60;

fn node(api: &Api, histories: Histories) -> Node {
    let options = api.options();
    let process = Process::look(&options.data_dir);
    let churn_counts = api.broker().churn();
    let statistics = api.statistics().lock();
    let rate = |counter| statistics.process().details(counter, histories.node);
    let application = |name: &str, description: &str, version: &str| Application {
        name: name.into(),
        description: description.into(),
        version: version.into(),
    };
    let alarms = api.broker().alarms();
    Node {
        name: api.node().to_owned(),
        kind: "disc".into(),
        running: true,
        being_drained: false,
        os_pid: std::process::id().to_string(),
        uptime: api.uptime_ms(),
        run_queue: 0,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        rates_mode: "basic".into(),
        mem_used: process.resident_bytes,
        mem_used_details: rate(0),
        mem_limit: alarms.memory_limit.unwrap_or(process.memory_total_bytes),
        mem_alarm: alarms.memory,
        mem_calculation_strategy: "rss".into(),
        disk_free: process.disk_free_bytes,
        disk_free_details: rate(1),
        disk_free_limit: alarms.disk_free_limit,
        disk_free_alarm: alarms.disk,
        fd_used: process.open_files,
        fd_used_details: rate(2),
        fd_total: process.open_files_max,
        sockets_used: 0,
        sockets_used_details: Rate::default(),
        sockets_total: 0,
        proc_used: process.threads,
        proc_used_details: rate(3),
        proc_total: process.threads_max,
        partitions: Vec::new(),
        net_ticktime: NET_TICK_S,
        db_dir: options.data_dir.display().to_string(),
        config_files: options
            .config_files
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
        log_files: vec!["<stderr>".into()],
        enabled_plugins: BUILT_IN.map(str::to_owned).to_vec(),
        exchange_types: exchange_types(),
        auth_mechanisms: options
            .auth_mechanisms
            .iter()
            .map(|name| ExchangeType {
                name: name.clone(),
                description: "SASL mechanism".into(),
                enabled: true,
            })
            .collect(),
        applications: vec![
            application("rabbit", &options.product_name, &options.rabbitmq_version),
            application("rabbitmq_management", "HTTP API", &options.rabbitmq_version),
        ],
        contexts: contexts(api, false),
        cluster_links: Vec::new(),
        metrics_gc_queue_length: BTreeMap::new(),
        ra_open_file_metrics: BTreeMap::new(),
        rabbitmq_version: options.rabbitmq_version.clone(),
        erlang_version: RUNTIME_VERSION.into(),
        erlang_full_version: RUNTIME_FULL_VERSION.into(),
        crypto_lib_version: CRYPTO_LIB_VERSION.into(),
        churn: stats::churn(&churn_counts, statistics.churn(), histories.node),
        counters: counters(),
    }
}

/// Counters of RabbitMQ's runtime and files that have nothing to count here. Tools that decode
/// strictly want to see them.
const WITHOUT_COUNT: [&str; 16] = [
    "context_switches",
    "gc_bytes_reclaimed",
    "gc_num",
    "io_read_bytes",
    "io_read_count",
    "io_reopen_count",
    "io_seek_count",
    "io_sync_count",
    "io_write_bytes",
    "io_write_count",
    "mnesia_disk_tx_count",
    "mnesia_ram_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_read_count",
    "queue_index_write_count",
];
const WITHOUT_TIME: [&str; 4] = [
    "io_read_avg_time",
    "io_seek_avg_time",
    "io_sync_avg_time",
    "io_write_avg_time",
];

fn counters() -> BTreeMap<String, Value> {
    let counts = WITHOUT_COUNT.iter().map(|name| (*name, json!(0)));
    let times = WITHOUT_TIME.iter().map(|name| (*name, json!(0.0)));
    let still = json!({"rate": 0.0});
    counts
        .chain(times)
        .flat_map(|(name, value)| {
            [
                (name.to_owned(), value),
                (format!("{name}_details"), still.clone()),
            ]
        })
        .collect()
}

/// Parts of RabbitMQ's memory by name. Here all memory is one heap.
// rabbitmq: GET /api/nodes/{name}/memory
const MEMORY_PARTS: [&str; 25] = [
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "metadata_store",
    "other_proc",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "metadata_store_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
];
/// What cannot be told apart yet is counted here.
const REMAINDER: &str = "other_system";

fn breakdown(api: &Api) -> MemoryBreakdown {
    let process = Process::look(&api.options().data_dir);
    let mut parts: BTreeMap<String, u64> = MEMORY_PARTS
        .iter()
        .map(|name| ((*name).to_owned(), 0))
        .collect();
    parts.insert("reserved_unallocated".to_owned(), 0);
    let queues = queue_bytes(api);
    parts.insert("queue_procs".to_owned(), queues.classic);
    parts.insert("quorum_queue_procs".to_owned(), queues.quorum);
    let rest = process
        .resident_bytes
        .saturating_sub(queues.classic + queues.quorum);
    parts.insert(REMAINDER.to_owned(), rest);
    MemoryBreakdown {
        parts,
        strategy: "rss".into(),
        total: MemoryTotals {
            rss: process.resident_bytes,
            allocated: process.resident_bytes,
            erlang: process.resident_bytes,
        },
    }
}

/// The parts of the node's memory in bytes, by name.
pub(crate) fn memory_parts(api: &Api) -> BTreeMap<String, u64> {
    breakdown(api).parts
}

#[derive(Default)]
struct QueueBytes {
    classic: u64,
    quorum: u64,
}

/// Memory of the queues' own structures, message bodies not counted.
fn queue_bytes(api: &Api) -> QueueBytes {
    let records: Vec<_> = api.broker().metadata().queues().cloned().collect();
    let mut bytes = QueueBytes::default();
    for record in records {
        let of_queue = api
            .broker()
            .queue_view(&record)
            .map_or(0, |view| view.memory_bytes as u64);
        match record.kind {
            broker_core::settings::QueueKind::Classic => bytes.classic += of_queue,
            broker_core::settings::QueueKind::Quorum => bytes.quorum += of_queue,
        }
    }
    bytes
}

async fn memory(
    _: Monitor,
    Path(name): Path<String>,
    State(api): State<Api>,
) -> Result<Json<Memory>> {
    check_node(&api, &name)?;
    let memory = apart(move || Ok(breakdown(&api))).await?;
    Ok(Json(Memory { memory }))
}

/// Until the next start, as what is set at run time elsewhere.
// rabbitmqctl: set_vm_memory_high_watermark, set_disk_free_limit
async fn set_alarm_limits(
    Administrator(caller): Administrator,
    Path(name): Path<String>,
    State(api): State<Api>,
    body: Bytes,
) -> Result<StatusCode> {
    check_node(&api, &name)?;
    let limits: AlarmLimits =
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let memory = limit_of(limits.memory_bytes, limits.memory_share)?;
    let disk_free = limit_of(limits.disk_free_bytes, limits.disk_free_memory_share)?;
    tracing::info!(user = %caller.user, ?limits, "limits of alarms are changed over HTTP");
    if memory.is_some() {
        api.broker().set_memory_limit(memory);
    }
    if let Some(bytes) = disk_free {
        api.broker().set_disk_free_limit(bytes);
    }
    Ok(StatusCode::NO_CONTENT)
}

fn limit_of(bytes: Option<u64>, share: Option<f64>) -> Result<Option<u64>> {
    let Some(share) = share else { return Ok(bytes) };
    if bytes.is_some() || !share.is_finite() || share < 0.0 {
        return Err(ApiError::bad_request(
            "a limit is either a number of bytes or a share of memory from 0 on",
        ));
    }
    let total = broker::memory_limit_bytes()
        .ok_or_else(|| ApiError::bad_request("how much memory there is is not known here"))?;
    Ok(Some((total as f64 * share) as u64))
}

/// Percentages, rounded up.
async fn relative_memory(
    _: Monitor,
    Path(name): Path<String>,
    State(api): State<Api>,
) -> Result<Json<Value>> {
    check_node(&api, &name)?;
    let breakdown = apart(move || Ok(breakdown(&api))).await?;
    let total = breakdown.total.rss.max(1);
    let percent = |bytes: &u64| bytes.saturating_mul(100).div_ceil(total);
    let mut parts: BTreeMap<&str, u64> = breakdown
        .parts
        .iter()
        .map(|(name, bytes)| (name.as_str(), percent(bytes)))
        .collect();
    parts.insert("total", 100);
    Ok(Json(json!({"memory": parts})))
}
