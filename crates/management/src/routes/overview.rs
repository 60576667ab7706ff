//! The cluster as a whole: overview, its name, and who asks.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use broker::observe::TrafficCounts;
use broker_core::metadata::MetadataChange;
use broker_core::queue::QueueCounts;
use broker_core::term::Term;
use management_api::{
    ClusterName, Context, ExchangeType, Listener, MessageStats, ObjectTotals, Overview,
    QueueTotals, SampleRetentionPolicies, WhoAmI,
};
use serde_json::{Map, Value, json};

use super::{GET, GET_PUT, Paths, resource};
use crate::access::{Administrator, Caller};
use crate::apart::apart;
use crate::body::Body;
use crate::error::Result;
use crate::list::ListQuery;
use crate::options::ListenerInfo;
use crate::show;
use crate::show::stats::{self, Histories};
use crate::state::{Api, CLUSTER_NAME};
use crate::statistics::{MESSAGES, READY, UNACKED};

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/overview", resource(GET, get(overview)))
        .route(
            "/cluster-name",
            resource(GET_PUT, get(cluster_name).put(set_cluster_name)),
        )
        .route("/version", resource(GET, get(version)))
        .route("/extensions", resource(GET, get(extensions)))
        .route("/whoami", resource(GET, get(whoami)))
}

async fn overview(caller: Caller, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    apart(move || {
        let overview = shown(&caller, &api, Histories::of(&query));
        Ok(query.answer_one(show::json(&overview)))
    })
    .await
}

/// Kept for tools that read versions of RabbitMQ's runtime: this broker has none.
// rabbitmq: clients look for "[jit" and parse the first number
pub(crate) const RUNTIME_VERSION: &str = "27.0";
pub(super) const RUNTIME_FULL_VERSION: &str = "Rust [source] [64-bit] [jit]";
pub(super) const CRYPTO_LIB_VERSION: &str = "AWS-LC";

fn shown(caller: &Caller, api: &Api, histories: Histories) -> Overview {
    let options = api.options();
    let sees_nodes = caller.is_monitor();
    let (object_totals, counts) = totals(caller, api);
    // One look at the metadata at a time: a second one within the first could wait for ever.
    let default_queue_kind = api.broker().metadata().defaults().queue_kind;
    Overview {
        management_version: options.rabbitmq_version.clone(),
        rates_mode: "basic".into(),
        sample_retention_policies: SampleRetentionPolicies {
            global: vec![60],
            basic: vec![60],
            detailed: Vec::new(),
        },
        exchange_types: exchange_types(),
        product_name: options.product_name.clone(),
        product_version: options.product_version.clone(),
        rabbitmq_version: options.rabbitmq_version.clone(),
        cluster_name: api.cluster_name(),
        cluster_tags: cluster_tags(api),
        node_tags: Map::new(),
        erlang_version: RUNTIME_VERSION.into(),
        erlang_full_version: RUNTIME_FULL_VERSION.into(),
        crypto_lib_version: CRYPTO_LIB_VERSION.into(),
        disable_stats: false,
        default_queue_type: default_queue_kind.name().into(),
        is_op_policy_updating_enabled: true,
        enable_queue_totals: false,
        require_definition_json_extension: false,
        message_stats: message_stats(caller, api, histories),
        churn_rates: {
            let counts = api.broker().churn();
            stats::churn(&counts, api.statistics().lock().churn(), histories.messages)
        },
        queue_totals: queue_totals(api, object_totals.queues, counts, histories),
        object_totals,
        statistics_db_event_queue: 0,
        node: sees_nodes.then(|| api.node().to_owned()),
        listeners: sees_nodes.then(|| listeners(api)),
        contexts: sees_nodes.then(|| contexts(api, true)),
    }
}

fn cluster_tags(api: &Api) -> Value {
    let metadata = api.broker().metadata();
    let stored = metadata
        .global_parameters()
        .find(|(name, _)| *name == "cluster_tags");
    match stored {
        Some((_, tags @ Term::Map(_))) => show::term(tags),
        _ => json!({}),
    }
}

/// What the caller may see of the vhosts, counted.
fn totals(caller: &Caller, api: &Api) -> (ObjectTotals, QueueCounts) {
    let mut counts = QueueCounts::default();
    let mut objects = ObjectTotals::default();
    {
        let metadata = api.broker().metadata();
        for vhost in metadata
            .vhosts()
            .filter(|vhost| caller.sees(&metadata, vhost.name()))
        {
            objects.exchanges += vhost.exchange_count();
            objects.queues += vhost.queue_count();
            for queue in vhost
                .queues()
                .filter_map(|queue| api.broker().queue_counts(queue.id))
            {
                counts.ready += queue.ready;
                counts.unacked += queue.unacked;
                counts.delayed += queue.delayed;
                counts.dead_lettering += queue.dead_lettering;
                counts.consumers += queue.consumers;
            }
        }
    }
    objects.consumers = usize::try_from(counts.consumers).unwrap_or(usize::MAX);
    let connections = api.broker().connections();
    let own = connections
        .iter()
        .filter(|view| caller.is_monitor() || *view.user() == caller.user);
    for connection in own {
        objects.connections += 1;
        objects.channels += connection.channel_count();
    }
    (objects, counts)
}

/// Of the whole node for those who see all of it, else of the vhosts that the caller sees.
fn message_stats(caller: &Caller, api: &Api, histories: Histories) -> MessageStats {
    let (by_vhost, total) = api.broker().traffic();
    if caller.is_monitor() {
        let statistics = api.statistics().lock();
        let series = Some(statistics.node());
        return stats::message_stats(&total, series, histories.messages).unwrap_or_default();
    }
    let metadata = api.broker().metadata();
    let mut seen = TrafficCounts::default();
    for (vhost, counts) in &by_vhost {
        if caller.sees(&metadata, vhost) {
            seen += *counts;
        }
    }
    stats::message_stats(&seen, None, None).unwrap_or_default()
}

fn queue_totals(
    api: &Api,
    queues: usize,
    counts: QueueCounts,
    histories: Histories,
) -> QueueTotals {
    if queues == 0 {
        return QueueTotals::default();
    }
    let statistics = api.statistics().lock();
    let rate = |counter| Some(statistics.node().details(counter, histories.lengths));
    QueueTotals {
        messages: Some(counts.messages()),
        messages_details: rate(MESSAGES),
        messages_ready: Some(counts.ready),
        messages_ready_details: rate(READY),
        messages_unacknowledged: Some(counts.unacked),
        messages_unacknowledged_details: rate(UNACKED),
    }
}

/// Exchange types that can be declared.
pub(super) fn exchange_types() -> Vec<ExchangeType> {
    let of = |name: &str, description: &str| ExchangeType {
        name: name.into(),
        description: description.into(),
        enabled: true,
    };
    vec![
        of("direct", "To the queues bound with exactly the routing key"),
        of("fanout", "To every queue"),
        of("headers", "To the queues whose bindings match the headers"),
        of(
            "topic",
            "To the queues whose binding patterns match the routing key",
        ),
        of(
            "x-consistent-hash",
            "To one queue, chosen by a hash over weighted bindings",
        ),
        of("x-local-random", "To one queue of this node, at random"),
        of(
            "x-modulus-hash",
            "To one queue, chosen by a hash of the routing key",
        ),
        of("x-random", "To one queue, at random"),
        of(
            "x-recent-history",
            "To every queue; new ones get the last messages first",
        ),
    ]
}

pub(super) fn listeners(api: &Api) -> Vec<Listener> {
    let shown = |listener: &ListenerInfo| Listener {
        node: api.node().to_owned(),
        protocol: listener.protocol.to_owned(),
        ip_address: listener.address.ip().to_string(),
        port: listener.address.port(),
        socket_opts: json!({"nodelay": true}),
        tls: matches!(listener.protocol, "amqp/ssl" | "https"),
    };
    api.listeners().iter().map(shown).collect()
}

/// The HTTP listeners; with the node's name where answers speak of several.
pub(super) fn contexts(api: &Api, with_node: bool) -> Vec<Context> {
    let http = api
        .listeners()
        .iter()
        .filter(|listener| listener.protocol.starts_with("http"));
    http.map(|listener| Context {
        node: with_node.then(|| api.node().to_owned()),
        description: match listener.protocol {
            "http/prometheus" => "Metrics".into(),
            _ => "HTTP API".into(),
        },
        path: "/".into(),
        ip: listener.address.ip().to_string(),
        port: listener.address.port().to_string(),
    })
    .collect()
}

async fn cluster_name(_: Caller, State(api): State<Api>) -> Json<ClusterName> {
    Json(ClusterName {
        name: api.cluster_name(),
    })
}

async fn set_cluster_name(
    _: Administrator,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    body.require(&["name"])?;
    let value = Term::text(body.required_text("name")?);
    api.apply(MetadataChange::SetGlobalParameter {
        name: CLUSTER_NAME.into(),
        value,
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn version(_: Caller, State(api): State<Api>) -> Json<String> {
    Json(api.options().rabbitmq_version.clone())
}

/// Kept for tools that ask: pages have no extensions.
async fn extensions(_: Caller) -> Json<Vec<BTreeMap<String, String>>> {
    Json(Vec::new())
}

async fn whoami(caller: Caller) -> Json<WhoAmI> {
    Json(WhoAmI {
        name: caller.user.to_string(),
        tags: show::strings(&caller.tags),
        is_internal_user: true,
    })
}
