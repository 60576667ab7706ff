//! Health checks: 200 with `ok`, or 503 with the reason.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use broker_core::VhostName;
use management_api::Health;
use serde_json::json;

use super::{GET, Paths, resource};
use crate::access::Caller;
use crate::error::{ApiError, Result};
use crate::segments::Path;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/health/checks/alarms", resource(GET, get(all_well)))
        .route("/health/checks/local-alarms", resource(GET, get(all_well)))
        .route("/health/checks/virtual-hosts", resource(GET, get(all_well)))
        .route("/health/checks/is-in-service", resource(GET, get(all_well)))
        .route(
            "/health/checks/below-node-connection-limit",
            resource(GET, get(all_well)),
        )
        .route(
            "/health/checks/reached-target-cluster-size",
            resource(GET, get(all_well)),
        )
        .route(
            "/health/checks/metadata-store/initialized",
            resource(GET, get(all_well)),
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
            resource(GET, get(all_well)),
        )
        .route(
            "/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}",
            resource(GET, get(all_well)),
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

/// Checks that this broker passes whenever it answers: it has no alarms that it would not act on
/// by itself, serves every vhost, leads every group and has no other nodes.
async fn all_well(_: Caller) -> Response {
    answer(Health::ok())
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

async fn quorum_critical(_: Caller) -> Response {
    answer(Health {
        reason: Some("single node cluster".into()),
        ..Health::ok()
    })
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
) -> Result<Response> {
    if !matches!(unit.as_str(), "days" | "weeks" | "months" | "years") {
        return Err(ApiError::bad_request(
            "Time unit not recognised. Supported units: days, weeks, months, years.",
        ));
    }
    if within.parse::<u32>().is_err() {
        return Err(ApiError::bad_request("Invalid expiration value."));
    }
    Ok(answer(Health::ok()))
}

fn leaders_in(api: &Api, vhost: &str) -> Result<Response> {
    match api.broker().metadata().vhost(&VhostName::new(vhost)) {
        Ok(_) => Ok(answer(Health::ok())),
        Err(_) => Err(ApiError::ObjectNotFound),
    }
}

async fn leaders_of_vhost(
    _: Caller,
    Path(vhost): Path<String>,
    State(api): State<Api>,
) -> Result<Response> {
    leaders_in(&api, &vhost)
}

async fn leaders_matching(
    _: Caller,
    Path((vhost, _pattern)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<Response> {
    leaders_in(&api, &vhost)
}

async fn node(_: Caller, Path(node): Path<String>, State(api): State<Api>) -> Result<Response> {
    if node != api.node() {
        return Err(ApiError::ObjectNotFound);
    }
    Ok(answer(Health::ok()))
}
