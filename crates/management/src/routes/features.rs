//! Feature flags and deprecated features: what tools ask before they use something.
//!
//! This broker has no nodes of mixed releases to protect, so every flag is on; the names are those
//! that clients look for.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, put};
use management_api::{DeprecatedFeature, FeatureFlag};

use super::{GET, PUT, Paths, resource};
use crate::access::{Administrator, Caller};
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/feature-flags", resource(GET, get(flags)))
        .route("/feature-flags/{flag}/enable", resource(PUT, put(enable)))
        .route("/deprecated-features", resource(GET, get(deprecated)))
        .route(
            "/deprecated-features/used",
            resource(GET, get(deprecated_in_use)),
        )
}

/// Name, what it stands for, whether a release without it is no longer possible.
// rabbitmq: feature flags that clients ask for
const FLAGS: [(&str, &str, bool); 15] = [
    (
        "classic_queue_type_delivery_support",
        "Classic queues deliver through the queue type",
        true,
    ),
    ("detailed_queues_endpoint", "GET /api/queues/detailed", true),
    (
        "drop_unroutable_metric",
        "Unroutable messages that are dropped are counted",
        true,
    ),
    (
        "empty_basic_get_metric",
        "basic.get on empty queues is counted",
        true,
    ),
    ("khepri_db", "The metadata is a replicated log", true),
    (
        "message_containers",
        "Messages keep their properties as they came",
        true,
    ),
    (
        "message_containers_deaths_v2",
        "Dead-letter cycles are detected",
        true,
    ),
    ("quorum_queue", "Queues of type quorum", true),
    (
        "rabbit_exchange_type_local_random",
        "Exchanges of type x-local-random",
        true,
    ),
    (
        "user_limits",
        "Limits of connections and channels per user",
        true,
    ),
    (
        "virtual_host_metadata",
        "Vhosts have a description, tags and a default queue type",
        true,
    ),
    ("rabbitmq_4.0.0", "The level of RabbitMQ 4.0", true),
    ("rabbitmq_4.1.0", "The level of RabbitMQ 4.1", true),
    ("rabbitmq_4.2.0", "The level of RabbitMQ 4.2", true),
    ("rabbitmq_4.3.0", "The level of RabbitMQ 4.3", false),
];

fn flag((name, desc, is_required): (&str, &str, bool)) -> FeatureFlag {
    FeatureFlag {
        name: name.into(),
        desc: desc.into(),
        doc_url: String::new(),
        state: "enabled".into(),
        stability: if is_required { "required" } else { "stable" }.into(),
        require_level: if is_required { "hard" } else { "none" }.into(),
        experiment_level: "supported".into(),
        callbacks: Vec::new(),
        provided_by: "rabbit".into(),
    }
}

async fn flags(_: Caller, query: ListQuery) -> Response {
    query.answer_whole(FLAGS.map(flag).to_vec(), show::json)
}

async fn enable(_: Administrator, Path(name): Path<String>) -> Result<StatusCode> {
    match FLAGS.iter().any(|(known, _, _)| *known == name) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::bad_request("unsupported")),
    }
}

/// Name, phase, and what it is.
// rabbitmq: deprecated features
const DEPRECATED: [(&str, &str, &str); 6] = [
    (
        "classic_queue_mirroring",
        "removed",
        "Mirrors of classic queues: use quorum queues",
    ),
    (
        "global_qos",
        "denied_by_default",
        "Prefetch of a whole channel: it counts per consumer",
    ),
    (
        "management_metrics_collection",
        "permitted_by_default",
        "Metrics over the HTTP API",
    ),
    (
        "queue_master_locator",
        "denied_by_default",
        "Use queue-leader-locator",
    ),
    (
        "ram_node_type",
        "removed",
        "Nodes that keep their metadata in memory only",
    ),
    (
        "transient_nonexcl_queues",
        "permitted_by_default",
        "Transient queues that are not exclusive",
    ),
];

fn deprecated_feature((name, phase, desc): (&str, &str, &str)) -> DeprecatedFeature {
    DeprecatedFeature {
        name: name.into(),
        state: if phase == "permitted_by_default" {
            "permitted"
        } else {
            "denied"
        }
        .into(),
        desc: desc.into(),
        deprecation_phase: phase.into(),
        doc_url: String::new(),
        provided_by: "rabbit".into(),
    }
}

async fn deprecated(_: Caller, query: ListQuery) -> Response {
    query.answer_whole(DEPRECATED.map(deprecated_feature).to_vec(), show::json)
}

async fn deprecated_in_use(
    _: Caller,
    query: ListQuery,
    axum::extract::State(api): axum::extract::State<Api>,
) -> Response {
    let has_transient = api
        .broker()
        .metadata()
        .queues()
        .any(|record| !record.durable && record.exclusive_owner.is_none());
    let used = DEPRECATED
        .into_iter()
        .filter(|(name, _, _)| has_transient && *name == "transient_nonexcl_queues");
    query.answer_whole(used.map(deprecated_feature).collect(), show::json)
}
