//! Logins: how many were tried, and hashes of passwords for those who write definitions. Resets of
//! statistics.

use auth::{HashedPassword, HashingAlgorithm};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{StatusCode, Uri};
use axum::routing::{delete as on_delete, get, post};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use management_api::AuthAttempts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{DELETE, GET, GET_DELETE, POST_DELETE, Paths, resource};
use crate::access::{Administrator, Caller, Monitor, check_login};
use crate::error::{ApiError, Result};
use crate::segments::Path;
use crate::server::Peer;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route(
            "/auth/attempts/{node}",
            resource(GET_DELETE, get(attempts).delete(reset)),
        )
        .route(
            "/auth/attempts/{node}/source",
            resource(GET_DELETE, get(attempts_by_source).delete(reset)),
        )
        .route(
            "/auth/hash_password/{password}",
            resource(GET, get(hash_password)),
        )
        .route("/login", resource(POST_DELETE, post(login).delete(log_out)))
        .route("/config/effective", resource(GET, get(effective_settings)))
        .route("/reset", resource(DELETE, on_delete(reset_statistics)))
        .route(
            "/reset/{node}",
            resource(DELETE, on_delete(reset_node_statistics)),
        )
}

fn check_node(api: &Api, node: &str) -> Result<()> {
    if node == api.node() {
        Ok(())
    } else {
        Err(ApiError::ObjectNotFound)
    }
}

async fn attempts(
    _: Monitor,
    Path(node): Path<String>,
    State(api): State<Api>,
) -> Result<Json<Vec<AuthAttempts>>> {
    check_node(&api, &node)?;
    let doors = [
        ("http", api.auth_attempts().counts()),
        ("amqp091", api.broker().logins()),
    ];
    let attempts = doors.map(|(protocol, (succeeded, failed))| AuthAttempts {
        protocol: protocol.into(),
        auth_attempts: succeeded + failed,
        auth_attempts_failed: failed,
        auth_attempts_succeeded: succeeded,
    });
    Ok(Json(attempts.into()))
}

/// Attempts are not kept by address.
async fn attempts_by_source(
    _: Monitor,
    Path(node): Path<String>,
    State(api): State<Api>,
) -> Result<Json<Vec<Value>>> {
    check_node(&api, &node)?;
    Ok(Json(Vec::new()))
}

async fn reset(_: Monitor, Path(node): Path<String>, State(api): State<Api>) -> Result<StatusCode> {
    check_node(&api, &node)?;
    api.auth_attempts().reset();
    Ok(StatusCode::NO_CONTENT)
}

/// Forgets samples; the counters themselves go on.
async fn reset_statistics(_: Administrator, State(api): State<Api>) -> StatusCode {
    api.statistics().lock().reset();
    StatusCode::NO_CONTENT
}

async fn reset_node_statistics(
    _: Administrator,
    Path(node): Path<String>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    check_node(&api, &node)?;
    api.statistics().lock().reset();
    Ok(StatusCode::NO_CONTENT)
}

async fn hash_password(_: Caller, Path(password): Path<String>) -> Json<Value> {
    let hash = HashedPassword::new(HashingAlgorithm::default(), password.as_bytes());
    Json(json!({"ok": hash.to_string()}))
}

/// A login from a form: the token that later requests carry.
// rabbitmq: POST /api/login
async fn login(
    State(api): State<Api>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    body: Bytes,
) -> Result<Json<Value>> {
    let LoginForm { username, password } = parsed(&body)?;
    let caller = check_login(
        &api,
        &username,
        password.as_bytes(),
        peer.ip().to_canonical(),
    )
    .await?;
    let token = BASE64_STANDARD.encode(format!("{username}:{password}"));
    Ok(Json(json!({
        "user": {
            "name": caller.user.as_str(),
            "tags": show::strings(&caller.tags),
            "is_internal_user": true,
        },
        "token": {"type": "basic", "value": token},
    })))
}

/// Nothing is kept of a login, so there is nothing to forget.
async fn log_out() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// What a form of a login holds.
#[derive(Deserialize)]
struct LoginForm {
    username: String,
    password: String,
}

/// A form is written like a query.
fn parsed(body: &[u8]) -> Result<LoginForm> {
    let wrong = || ApiError::bad_request("username and password must come as a form");
    let query = std::str::from_utf8(body).map_err(|_| wrong())?;
    let uri: Uri = format!("/?{query}").parse().map_err(|_| wrong())?;
    let Query(form) = Query::try_from_uri(&uri).map_err(|_| wrong())?;
    Ok(form)
}

/// What the operator wrote, with defaults and overrides; secrets are masked.
async fn effective_settings(_: Monitor, State(api): State<Api>) -> Json<Value> {
    Json(api.options().settings.clone())
}
