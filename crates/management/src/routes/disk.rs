//! The disk: what takes room, what keeps it there, how long it will last.

use axum::Json;
use axum::extract::State;
use axum::routing::get;
use broker_core::VhostName;
use management_api::{Disk, QueueDisk};

use super::queues::find;
use super::{GET, Paths, resource};
use crate::access::{Caller, Monitor};
use crate::apart::apart;
use crate::error::{ApiError, Result};
use crate::segments::Path;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/disk", resource(GET, get(whole)))
        .route("/queues/{vhost}/{queue}/disk", resource(GET, get(of_queue)))
}

async fn whole(_: Monitor, State(api): State<Api>) -> Result<Json<Disk>> {
    // Walks over all live messages.
    let disk = apart(move || Ok(show::disk(&api.broker().disk_report()))).await?;
    Ok(Json(disk))
}

async fn of_queue(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<Json<QueueDisk>> {
    let record = find(&api, &caller, &VhostName::new(vhost), &queue)?;
    let disk = apart(move || {
        let report = api.broker().disk_report_of(record.id);
        let report = report.ok_or(ApiError::ObjectNotFound)?;
        Ok(show::queue_disk(&report))
    })
    .await?;
    Ok(Json(disk))
}
