//! Queues.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete as on_delete, get, post};
use broker_core::metadata::{
    Destination, MetadataChange, QueueDeclaration, QueueDeletion, QueueRecord, Vhost,
};
use broker_core::permission::Operation;
use broker_core::{QueueName, Refusal, VhostName};
use serde_json::{Value, json};

use super::bindings::to_destination;
use super::{DELETE, GET, GET_PUT_DELETE, POST, Paths, put_answer, resource};
use crate::access::Caller;
use crate::apart::apart;
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show::stats::Histories;
use crate::show::{self, QueueDetail};
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/queues", resource(GET, get(list)))
        .route("/queues/detailed", resource(GET, get(list_detailed)))
        .route("/queues/{vhost}", resource(GET, get(list_of_vhost)))
        .route(
            "/queues/{vhost}/{queue}",
            resource(GET_PUT_DELETE, get(one).put(put).delete(delete)),
        )
        .route(
            "/queues/{vhost}/{queue}/bindings",
            resource(GET, get(bindings)),
        )
        .route(
            "/queues/{vhost}/{queue}/contents",
            resource(DELETE, on_delete(purge)),
        )
        .route("/queues/{vhost}/{queue}/actions", resource(POST, post(act)))
}

/// The queues of a vhost by name.
fn sorted(vhost: &Vhost) -> Vec<Arc<QueueRecord>> {
    let mut records: Vec<_> = vhost.queues().cloned().collect();
    records.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    records
}

async fn list(caller: Caller, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    apart(move || answer(&api, &query, seen(&api, &caller), listed(&query))).await
}

async fn list_detailed(
    caller: Caller,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    apart(move || answer(&api, &query, seen(&api, &caller), QueueDetail::Detailed)).await
}

fn seen(api: &Api, caller: &Caller) -> Vec<Arc<QueueRecord>> {
    let metadata = api.broker().metadata();
    let seen = metadata
        .vhosts()
        .filter(|vhost| caller.sees(&metadata, vhost.name()));
    seen.flat_map(sorted).collect()
}

async fn list_of_vhost(
    caller: Caller,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    apart(move || {
        let rows = {
            let metadata = api.broker().metadata();
            caller.enter(&metadata, &vhost)?;
            sorted(metadata.vhost(&vhost)?)
        };
        answer(&api, &query, rows, listed(&query))
    })
    .await
}

// rabbitmq: disable_stats and enable_queue_totals
fn listed(query: &ListQuery) -> QueueDetail {
    match (
        query.is_true("disable_stats"),
        query.is_true("enable_queue_totals"),
    ) {
        (false, _) => QueueDetail::Listed,
        (true, true) => QueueDetail::Totals,
        (true, false) => QueueDetail::Static,
    }
}

fn answer(
    api: &Api,
    query: &ListQuery,
    rows: Vec<Arc<QueueRecord>>,
    detail: QueueDetail,
) -> Result<Response> {
    let histories = Histories::of(query);
    query.answer_keyed(
        rows,
        |record| record.name.as_str(),
        |record| shown(api, record, detail, histories),
        |record, field| sort_key(api, record, field),
    )
}

/// The value of a field that lists are often sorted by, without showing the whole queue.
fn sort_key(api: &Api, record: &QueueRecord, field: &str) -> Option<Value> {
    let counts = || api.broker().queue_counts(record.id).unwrap_or_default();
    Some(match field {
        "name" => json!(record.name.as_str()),
        "vhost" => json!(record.vhost.as_str()),
        "type" => json!(record.kind.name()),
        "durable" => json!(record.durable),
        "messages" => json!(counts().messages()),
        "messages_ready" => json!(counts().ready),
        "messages_unacknowledged" => json!(counts().unacked),
        "message_bytes" => json!(counts().bytes()),
        "consumers" => json!(counts().consumers),
        _ => return None,
    })
}

fn shown(api: &Api, record: &Arc<QueueRecord>, detail: QueueDetail, histories: Histories) -> Value {
    let view = api.broker().queue_view(record);
    let metadata = api.broker().metadata();
    show::json(&show::queue(
        api,
        &metadata,
        record,
        view.as_ref(),
        detail,
        histories,
    ))
}

/// The queue that a path names.
pub(super) fn find(
    api: &Api,
    caller: &Caller,
    vhost: &VhostName,
    queue: &str,
) -> Result<Arc<QueueRecord>> {
    let metadata = api.broker().metadata();
    caller.enter(&metadata, vhost)?;
    metadata
        .vhost(vhost)?
        .queue(queue)
        .cloned()
        .ok_or(ApiError::ObjectNotFound)
}

async fn one(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let record = find(&api, &caller, &VhostName::new(vhost), &queue)?;
    let histories = Histories::of(&query);
    Ok(query.answer_one(shown(&api, &record, QueueDetail::Single, histories)))
}

async fn put(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let (vhost, queue) = (VhostName::new(vhost), QueueName::cleaned(&queue));
    let arguments = body.arguments()?;
    if let Some(node) = body.text("node")?
        && node != api.node()
    {
        return Err(ApiError::bad_request(format!(
            "Node {node} is not a cluster member"
        )));
    }
    let operation = Operation::QueueDeclare {
        queue: queue.as_str(),
        arguments: &arguments,
    };
    caller.permit(&api.broker().metadata(), &vhost, &operation)?;
    let declaration = QueueDeclaration {
        vhost,
        queue,
        server_named: false,
        durable: body.flag("durable")?,
        exclusive: false,
        auto_delete: body.flag("auto_delete")?,
        arguments,
        connection: None,
        user: Some(caller.user.clone()),
        node: Default::default(),
        groups: api.broker().group_count(),
    };
    Ok(put_answer(
        &api.apply(MetadataChange::DeclareQueue(declaration)).await?,
    ))
}

async fn delete(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    let record = find(&api, &caller, &vhost, &queue)?;
    let operation = Operation::QueueDelete { queue: &queue };
    caller.permit(&api.broker().metadata(), &vhost, &operation)?;
    let counts = api.broker().queue_counts(record.id).unwrap_or_default();
    let deletion = QueueDeletion {
        vhost,
        queue: record.name.clone(),
        connection: None,
        if_unused: query.is_true("if-unused"),
        if_empty: query.is_true("if-empty"),
        consumers: counts.consumers,
        ready: counts.ready,
    };
    api.apply(MetadataChange::DeleteQueue(deletion)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn bindings(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    caller.enter(&metadata, &vhost)?;
    let destination = Destination::Queue(QueueName::new(queue));
    Ok(query.answer_whole(
        to_destination(metadata.vhost(&vhost)?, &destination),
        show::json,
    ))
}

async fn purge(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    let record = find(&api, &caller, &vhost, &queue)?;
    let operation = Operation::QueueRead { queue: &queue };
    caller.permit(&api.broker().metadata(), &vhost, &operation)?;
    if !record.is_open_to(None) {
        let queue = record.name.clone();
        return Err(Refusal::ResourceLocked { queue, vhost }.into());
    }
    let purged = api.broker().purge(record.id).await;
    purged.ok_or(ApiError::ObjectNotFound)??;
    Ok(StatusCode::NO_CONTENT)
}

/// Kept for tools: mirrors are always in step, so there is nothing to do.
async fn act(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    find(&api, &caller, &VhostName::new(vhost), &queue)?;
    body.require(&["action"])?;
    match body.text("action")? {
        Some("sync" | "cancel_sync") => Ok(StatusCode::NO_CONTENT),
        other => Err(ApiError::bad_request(json!(["unknown", other]))),
    }
}
