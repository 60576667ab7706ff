//! Incidents in queues: the last ones, and how often each kind happened.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use broker::observe::Incident;
use broker_core::VhostName;
use management_api::IncidentCount;

use super::{GET, Paths, resource};
use crate::access::{Caller, Monitor};
use crate::error::Result;
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/incidents", resource(GET, get(everywhere)))
        .route("/incidents/{vhost}", resource(GET, get(in_vhost)))
        .route("/incidents/{vhost}/{queue}", resource(GET, get(in_queue)))
        .route("/incident-counts", resource(GET, get(counts)))
}

async fn everywhere(caller: Caller, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    answer(&api, &query, |incident| {
        caller.sees(&api.broker().metadata(), &incident.vhost)
    })
}

async fn in_vhost(
    caller: Caller,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    caller.look_into(&api.broker().metadata(), &vhost)?;
    answer(&api, &query, |incident| incident.vhost == vhost)
}

/// Also of a queue that is gone: what happened, happened.
async fn in_queue(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    caller.look_into(&api.broker().metadata(), &vhost)?;
    answer(&api, &query, |incident| {
        incident.vhost == vhost && incident.queue.as_str() == queue
    })
}

/// The last ones first: the list is long, and who looks wants to know what happens now.
fn answer(api: &Api, query: &ListQuery, is_wanted: impl Fn(&Incident) -> bool) -> Result<Response> {
    let mut incidents = api.broker().recent_incidents();
    incidents.retain(is_wanted);
    incidents.reverse();
    query.answer(
        incidents,
        |incident| incident.queue.as_str(),
        |incident| show::json(&show::incident(incident)),
    )
}

async fn counts(_: Monitor, State(api): State<Api>) -> Json<Vec<IncidentCount>> {
    let counts = api.broker().incident_counts().into_iter();
    let counts = counts.map(|(kind, count)| IncidentCount {
        kind: kind.to_owned(),
        count,
    });
    Json(counts.collect())
}
