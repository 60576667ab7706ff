//! The operator's files: read again, and what they would change.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use broker_core::metadata::{FileDefaults, FilePolicy};
use serde::Deserialize;

use super::{GET_POST, POST, Paths, resource};
use crate::access::{Administrator, Monitor};
use crate::apart::apart;
use crate::error::{ApiError, Result};
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/reload", resource(GET_POST, get(status).post(reload)))
        .route("/policy-files/plan", resource(POST, post(plan)))
}

async fn status(_: Monitor, State(api): State<Api>) -> Result<Response> {
    let door = api.reload_door().ok_or(ApiError::ObjectNotFound)?;
    Ok(Json(door.status()).into_response())
}

/// 200 with what became of the files, or 400 with what is wrong with them.
async fn reload(Administrator(caller): Administrator, State(api): State<Api>) -> Result<Response> {
    let door = api.reload_door().ok_or(ApiError::ObjectNotFound)?;
    tracing::info!(user = %caller.user, "a reload is asked for over HTTP");
    let status = door.reload().await;
    let faults = [&status.configuration.faults, &status.policies.faults];
    let faults: Vec<&str> = faults.into_iter().flatten().map(String::as_str).collect();
    if faults.is_empty() {
        return Ok(Json(status).into_response());
    }
    Err(ApiError::bad_request(faults.join("\n")))
}

#[derive(Deserialize)]
struct Files {
    #[serde(default)]
    policies: Vec<FilePolicy>,
    #[serde(default)]
    defaults: Vec<FileDefaults>,
}

/// What these policies would do in the place of those that files hold.
async fn plan(
    _: Administrator,
    State(api): State<Api>,
    body: axum::body::Bytes,
) -> Result<Response> {
    let files: Files =
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    apart(move || {
        // Not behind the lock: a plan works on a copy of everything.
        let metadata = api.broker().metadata().clone();
        let plan = metadata.plan_file_policies(&files.policies, &files.defaults)?;
        Ok(Json(show::json(&plan)).into_response())
    })
    .await
}
