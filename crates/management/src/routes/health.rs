//! Health checks: 200 with `ok`, or 503 with the reason.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use broker::observe::GroupView;
use broker_core::VhostName;
use broker_core::metadata::QueueRecord;
use broker_core::settings::QueueKind;
use management_api::{Alarm, Health};
use serde_json::{Value, json};

use super::{GET, Paths, resource};
use crate::access::Caller;
use crate::error::{ApiError, Result};
use crate::segments::Path;
use crate::state::Api;
use crate::time::{iso8601, now_ms};

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/health/checks/alarms", resource(GET, get(alarms)))
        .route(
            "/health/checks/local-alarms",
            resource(GET, get(local_alarms)),
        )
        .route("/health/checks/virtual-hosts", resource(GET, get(all_well)))
        .route("/health/checks/is-in-service", resource(GET, get(all_well)))
        .route(
            "/health/checks/below-node-connection-limit",
            resource(GET, get(all_well)),
        )
        .route(
            "/health/checks/reached-target-cluster-size",
            resource(GET, get(cluster_size)),
        )
        .route(
            "/health/checks/metadata-store/initialized",
            resource(GET, get(initialized)),
        )
        .route(
            "/health/checks/metadata-store/initialized/with-data",
            resource(GET, get(with_data)),
        )
        .route(
            "/health/checks/ready-to-serve-clients",
            resource(GET, get(ready)),
        )
        .route(
            "/health/checks/node-is-quorum-critical",
            resource(GET, get(quorum_critical)),
        )
        .route(
            "/health/checks/port-listener/{port}",
            resource(GET, get(port_listener)),
        )
        .route(
            "/health/checks/protocol-listener/{protocols}",
            resource(GET, get(protocol_listener)),
        )
        .route(
            "/health/checks/certificate-expiration/{within}/{unit}",
            resource(GET, get(certificate_expiration)),
        )
        .route(
            "/health/checks/quorum-queues-without-elected-leaders/all-vhosts",
            resource(GET, get(leaders)),
        )
        .route(
            "/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}",
            resource(GET, get(leaders_everywhere_matching)),
        )
        .route(
            "/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}",
            resource(GET, get(leaders_of_vhost)),
        )
        .route(
            "/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}",
            resource(GET, get(leaders_matching)),
        )
        .route("/healthchecks/node", resource(GET, get(all_well)))
        .route("/healthchecks/node/{node}", resource(GET, get(node)))
}

fn answer(health: Health) -> Response {
    let status = match health.status.as_str() {
        "ok" => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(health)).into_response()
}

/// Checks that this broker passes whenever it answers: it serves every vhost, and takes no part of
/// itself out of service.
async fn all_well(_: Caller) -> Response {
    answer(Health::ok())
}

async fn alarms(_: Caller, State(api): State<Api>) -> Response {
    no_alarms(&api, "There are alarms in effect in the cluster")
}

async fn local_alarms(_: Caller, State(api): State<Api>) -> Response {
    no_alarms(&api, "There are alarms in effect on the node")
}

/// Alarms of other nodes hold nobody here and are not known here.
fn no_alarms(api: &Api, reason: &str) -> Response {
    let found = api.broker().alarms();
    let raised = [(found.memory, "memory"), (found.disk, "disk")];
    let raised = raised.into_iter().filter(|(is_raised, _)| *is_raised);
    let alarms: Vec<Alarm> = raised
        .map(|(_, resource)| Alarm {
            node: api.node().to_owned(),
            resource: resource.to_owned(),
        })
        .collect();
    answer(match alarms.is_empty() {
        true => Health::ok(),
        false => Health {
            alarms: Some(alarms),
            ..Health::failed(reason)
        },
    })
}

/// Whether all nodes that the configuration names are there.
async fn cluster_size(_: Caller, State(api): State<Api>) -> Response {
    let nodes = api.broker().cluster_nodes();
    let up = nodes.iter().filter(|node| node.is_up).count();
    answer(match up == nodes.len() {
        true => Health::ok(),
        false => Health::failed(format!("{up} of {} nodes can be reached", nodes.len())),
    })
}

async fn initialized(_: Caller, State(api): State<Api>) -> Response {
    let group = api.broker().metadata_group();
    answer(match group.and_then(|group| group.why()) {
        None => Health::ok(),
        Some(why) => Health::failed(format!("the metadata store is not available: {why}")),
    })
}

async fn with_data(_: Caller, State(api): State<Api>) -> Response {
    let has_vhost = api.broker().metadata().vhosts().next().is_some();
    answer(match has_vhost {
        true => Health::ok(),
        false => Health::failed("the metadata store has no data"),
    })
}

async fn ready(_: Caller, State(api): State<Api>) -> Response {
    let serves = api
        .listeners()
        .iter()
        .any(|open| matches!(open.protocol, "amqp" | "amqp/ssl"));
    answer(match serves {
        true => Health::ok(),
        false => Health::failed("no active listeners for AMQP/AMQPS"),
    })
}

/// Whether quorum queues would be without a majority if this node went.
async fn quorum_critical(_: Caller, State(api): State<Api>) -> Response {
    let Some(here) = api.broker().cluster_node() else {
        return answer(Health {
            reason: Some("single node cluster".into()),
            ..Health::ok()
        });
    };
    let needs_this = |group: &GroupView| {
        let others = group.online.iter().filter(|node| **node != here).count();
        group.members.contains(&here) && others * 2 <= group.members.len()
    };
    let queues = quorum_queues(&api, |_| true, needs_this);
    answer(match queues.is_empty() {
        true => Health::ok(),
        false => Health {
            queues: Some(queues),
            ..Health::failed(
                "There are quorum queues that would lose their quorum if the target node is shut down",
            )
        },
    })
}

/// Quorum queues that are asked for and whose group is as asked for.
fn quorum_queues(
    api: &Api,
    wanted: impl Fn(&QueueRecord) -> bool,
    group_is: impl Fn(&GroupView) -> bool,
) -> Vec<Value> {
    let replicated: Vec<_> = {
        let metadata = api.broker().metadata();
        let queues = metadata.vhosts().flat_map(|vhost| vhost.queues());
        let quorum = queues.filter(|queue| queue.kind == QueueKind::Quorum && wanted(queue));
        quorum
            .map(|queue| (queue.id, queue.name.clone(), queue.vhost.clone()))
            .collect()
    };
    let found = replicated.into_iter().filter(|(id, ..)| {
        let group = api.broker().group_of(*id);
        group.as_ref().is_some_and(&group_is)
    });
    found
        .map(|(_, name, vhost)| {
            json!({
                "name": name.as_str(),
                "readable_name": format!("queue '{name}' in vhost '{vhost}'"),
                "virtual_host": vhost.as_str(),
                "type": "rabbit_quorum_queue",
            })
        })
        .collect()
}

async fn port_listener(
    _: Caller,
    Path(port): Path<String>,
    State(api): State<Api>,
) -> Result<Response> {
    let port: u16 = port
        .parse()
        .map_err(|_| ApiError::bad_request("Invalid port"))?;
    let ports: Vec<u16> = api
        .listeners()
        .iter()
        .map(|listener| listener.address.port())
        .collect();
    Ok(answer(match ports.contains(&port) {
        true => Health {
            port: Some(port),
            ..Health::ok()
        },
        false => Health {
            missing: Some(json!(port)),
            ports: Some(ports),
            ..Health::failed("No active listener")
        },
    }))
}

/// Protocols are separated by commas; names count in any case.
async fn protocol_listener(
    _: Caller,
    Path(wanted): Path<String>,
    State(api): State<Api>,
) -> Response {
    let mut protocols: Vec<String> = api
        .listeners()
        .iter()
        .map(|listener| listener.protocol.to_owned())
        .collect();
    protocols.dedup();
    let is_open = |wanted: &&str| {
        protocols
            .iter()
            .any(|open| open.eq_ignore_ascii_case(wanted))
    };
    let missing: Vec<&str> = wanted
        .split(',')
        .filter(|protocol| !is_open(protocol))
        .collect();
    answer(match missing.is_empty() {
        true => Health {
            protocols: Some(protocols),
            ..Health::ok()
        },
        false => Health {
            missing: Some(json!(missing)),
            protocols: Some(protocols),
            ..Health::failed("No active listener")
        },
    })
}

async fn certificate_expiration(
    _: Caller,
    Path((within, unit)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<Response> {
    let days = match unit.as_str() {
        "days" => 1,
        "weeks" => 7,
        "months" => 30,
        "years" => 365,
        _ => {
            return Err(ApiError::bad_request(
                "Time unit not recognised. Supported units: days, weeks, months, years.",
            ));
        }
    };
    let within: u64 = within
        .parse::<u32>()
        .map_err(|_| ApiError::bad_request("Invalid expiration value."))?
        .into();
    let end_s = now_ms() / 1_000 + within * days * DAY_S;
    let Some(expires_at_s) = api.certificate_expires_at_s().filter(|at| *at < end_s) else {
        return Ok(answer(Health::ok()));
    };
    let over_tls = api.listeners().iter();
    let over_tls = over_tls.filter(|open| matches!(open.protocol, "amqp/ssl" | "https"));
    let expired = over_tls.map(|open| {
        json!({
            "node": api.node(),
            "interface": open.address.ip().to_string(),
            "port": open.address.port(),
            "protocol": open.protocol,
            "certfile_expires_on": [iso8601(expires_at_s * 1_000)],
        })
    });
    Ok(answer(Health {
        expired: Some(expired.collect()),
        ..Health::failed("Certificates expiring")
    }))
}

const DAY_S: u64 = 24 * 60 * 60;

async fn leaders(_: Caller, State(api): State<Api>) -> Response {
    all_led(&api, |_| true)
}

async fn leaders_everywhere_matching(
    _: Caller,
    Path(pattern): Path<String>,
    State(api): State<Api>,
) -> Result<Response> {
    let pattern = compiled(&pattern)?;
    Ok(all_led(&api, |queue| matches(&pattern, queue)))
}

async fn leaders_of_vhost(
    _: Caller,
    Path(vhost): Path<String>,
    State(api): State<Api>,
) -> Result<Response> {
    leaders_in(&api, &vhost, |_| true)
}

async fn leaders_matching(
    _: Caller,
    Path((vhost, pattern)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<Response> {
    let pattern = compiled(&pattern)?;
    leaders_in(&api, &vhost, |queue| matches(&pattern, queue))
}

fn compiled(pattern: &str) -> Result<fancy_regex::Regex> {
    fancy_regex::Regex::new(pattern).map_err(|error| ApiError::bad_request(error.to_string()))
}

fn matches(pattern: &fancy_regex::Regex, queue: &QueueRecord) -> bool {
    pattern.is_match(queue.name.as_str()).unwrap_or(false)
}

fn leaders_in(api: &Api, vhost: &str, wanted: impl Fn(&QueueRecord) -> bool) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    if api.broker().metadata().vhost(&vhost).is_err() {
        return Err(ApiError::ObjectNotFound);
    }
    Ok(all_led(api, |queue| queue.vhost == vhost && wanted(queue)))
}

/// Whether each of these queues has a leader.
fn all_led(api: &Api, wanted: impl Fn(&QueueRecord) -> bool) -> Response {
    let queues = quorum_queues(api, wanted, |group| group.why().is_some());
    answer(match queues.is_empty() {
        true => Health::ok(),
        false => Health {
            queues: Some(queues),
            ..Health::failed("Detected quorum queues without an elected leader")
        },
    })
}

async fn node(_: Caller, Path(node): Path<String>, State(api): State<Api>) -> Result<Response> {
    if node != api.node() {
        return Err(ApiError::ObjectNotFound);
    }
    Ok(answer(Health::ok()))
}
