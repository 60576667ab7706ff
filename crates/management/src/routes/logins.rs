//! Logins: how many were tried, and hashes of passwords for those who write definitions. Resets of
//! statistics.

use auth::{HashedPassword, HashingAlgorithm};
use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete as on_delete, get};
use management_api::AuthAttempts;
use serde_json::{Value, json};

use super::{DELETE, GET, GET_DELETE, resource};
use crate::access::{Administrator, Caller, Monitor};
use crate::error::{ApiError, Result};
use crate::segments::Path;
use crate::state::Api;

pub(super) fn paths() -> Router<Api> {
    Router::new()
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
    let (succeeded, failed) = api.auth_attempts().counts();
    Ok(Json(vec![AuthAttempts {
        protocol: "http".into(),
        auth_attempts: succeeded + failed,
        auth_attempts_failed: failed,
        auth_attempts_succeeded: succeeded,
    }]))
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
