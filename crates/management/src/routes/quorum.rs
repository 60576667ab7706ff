//! Replica groups: the members of quorum queues, who leads, and changes of both.
//!
//! The paths are RabbitMQ's, but for the leader of one queue, which has none there. Queues share
//! groups: what changes one queue's members changes those of its whole group.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete as on_delete, get, post};
use broker::observe::{LogView, MemberView, MembersFault};
use broker_core::VhostName;
use broker_core::metadata::{QueueId, QueueRecord};
use broker_core::settings::QueueKind;
use serde_json::{Value, json};

use super::queues::find;
use super::{DELETE, GET, POST, Paths, resource};
use crate::access::{Administrator, Caller};
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route(
            "/queues/quorum/{vhost}/{queue}/status",
            resource(GET, get(status)),
        )
        .route(
            "/queues/quorum/{vhost}/{queue}/replicas/add",
            resource(POST, post(add_member)),
        )
        .route(
            "/queues/quorum/{vhost}/{queue}/replicas/delete",
            resource(DELETE, on_delete(remove_member)),
        )
        .route(
            "/queues/quorum/{vhost}/{queue}/leader",
            resource(POST, post(transfer_leader)),
        )
        .route(
            "/queues/quorum/replicas/on/{node}/grow",
            resource(POST, post(grow)),
        )
        .route(
            "/queues/quorum/replicas/on/{node}/shrink",
            resource(DELETE, on_delete(shrink)),
        )
        .route("/rebalance/queues", resource(POST, post(rebalance)))
}

fn find_quorum(
    api: &Api,
    caller: &Caller,
    vhost: String,
    queue: &str,
) -> Result<std::sync::Arc<QueueRecord>> {
    let record = find(api, caller, &VhostName::new(vhost), queue)?;
    match record.kind {
        QueueKind::Quorum => Ok(record),
        _ => Err(ApiError::ObjectNotFound),
    }
}

async fn status(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let record = find_quorum(&api, &caller, vhost, &queue)?;
    let members = api.broker().members_of(record.id).await;
    let has_leader = members.iter().any(|member| member.leads);
    let shown = match members.is_empty() {
        true => vec![alone(&api, &record, api.broker().log_of(record.id))],
        false => {
            let members = members.iter();
            members
                .map(|member| shown(&api, &record, member, has_leader))
                .collect()
        }
    };
    Ok(query.answer_whole(shown, Value::clone))
}

/// A member under the names of `rabbitmq-queues quorum_status`.
fn shown(api: &Api, record: &QueueRecord, member: &MemberView, has_leader: bool) -> Value {
    let state = match (member.copy, member.leads) {
        (None, _) => "noproc",
        (Some(_), true) => "leader",
        (Some(_), false) if has_leader => "follower",
        (Some(_), false) => "candidate",
    };
    let mut shown = json!({
        "Node Name": api.node_name(member.node),
        "Raft State": state,
        "Membership": match member.copy.is_none_or(|copy| copy.votes) {
            true => "voter",
            false => "promotable",
        },
        "Group": record.group,
    });
    if let Some(copy) = member.copy {
        shown["Last Log Index"] = json!(copy.last_index);
        shown["Last Written"] = json!(copy.last_index);
        shown["Last Applied"] = json!(copy.applied_index);
        shown["Commit Index"] = json!(copy.applied_index);
        shown["Snapshot Index"] = json!(copy.saved_index);
        shown["Term"] = json!(copy.term);
        shown["Messages"] = json!(copy.messages);
    }
    shown
}

/// The only member, where there is one node.
fn alone(api: &Api, record: &QueueRecord, log: Option<LogView>) -> Value {
    let mut shown = json!({
        "Node Name": api.node(),
        "Raft State": "leader",
        "Membership": "voter",
        "Group": record.group,
    });
    if let Some(log) = log {
        shown["Last Log Index"] = json!(log.last_index);
        shown["Last Written"] = json!(log.last_index);
        shown["Last Applied"] = json!(log.applied_index);
        shown["Commit Index"] = json!(log.applied_index);
        shown["Snapshot Index"] = json!(log.saved_index);
    }
    shown
}

/// The node that a body or a path names.
fn node(api: &Api, name: &str) -> Result<u64> {
    let number = api.node_number(name);
    number.ok_or_else(|| ApiError::bad_request(format!("node '{name}' is not in the cluster")))
}

fn node_of(api: &Api, body: &Body) -> Result<u64> {
    body.require(&["node"])?;
    node(api, body.text("node")?.unwrap_or_default())
}

fn outcome(done: Result<(), MembersFault>, status: StatusCode) -> Result<StatusCode> {
    match done {
        Ok(()) => Ok(status),
        Err(fault) => Err(ApiError::bad_request(fault.to_string())),
    }
}

async fn add_member(
    Administrator(caller): Administrator,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let record = find_quorum(&api, &caller, vhost, &queue)?;
    let node = node_of(&api, &body)?;
    let done = api.broker().add_member(record.id, node).await;
    outcome(done, StatusCode::CREATED)
}

async fn remove_member(
    Administrator(caller): Administrator,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let record = find_quorum(&api, &caller, vhost, &queue)?;
    let node = node_of(&api, &body)?;
    let done = api.broker().remove_member(record.id, node).await;
    outcome(done, StatusCode::NO_CONTENT)
}

async fn transfer_leader(
    Administrator(caller): Administrator,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let record = find_quorum(&api, &caller, vhost, &queue)?;
    let node = node_of(&api, &body)?;
    let done = api.broker().transfer_leader(record.id, node).await;
    outcome(done, StatusCode::NO_CONTENT)
}

/// One queue of each replica group, with its name: its members are those of all the others.
fn one_of_each_group(api: &Api) -> Vec<(QueueId, String, String)> {
    let metadata = api.broker().metadata();
    let mut groups = std::collections::BTreeMap::new();
    for record in metadata.queues() {
        if record.kind == QueueKind::Quorum {
            groups
                .entry(record.group)
                .or_insert_with(|| (record.id, record.vhost.to_string(), record.name.to_string()));
        }
    }
    groups.into_values().collect()
}

/// Makes a node a member of every group that has queues, or of those with an even number of members.
async fn grow(
    _: Administrator,
    Path(name): Path<String>,
    State(api): State<Api>,
    body: Body,
) -> Result<axum::Json<Value>> {
    let node = node(&api, &name)?;
    let even_only = body.text("strategy")? == Some("even");
    let mut results = Vec::new();
    for (queue, vhost, name) in one_of_each_group(&api) {
        let members = api.broker().members_of(queue).await;
        let is_in = members.iter().any(|member| member.node == node);
        if is_in || (even_only && members.len() % 2 == 1) {
            continue;
        }
        let done = api.broker().add_member(queue, node).await;
        let size = members.len() + usize::from(done.is_ok());
        results.push(result(&vhost, &name, size, done));
    }
    Ok(axum::Json(Value::Array(results)))
}

/// Takes a node out of every group.
async fn shrink(
    _: Administrator,
    Path(name): Path<String>,
    State(api): State<Api>,
) -> Result<axum::Json<Value>> {
    let node = node(&api, &name)?;
    let mut results = Vec::new();
    for (queue, vhost, name) in one_of_each_group(&api) {
        let members = api.broker().members_of(queue).await;
        if !members.iter().any(|member| member.node == node) {
            continue;
        }
        let done = api.broker().remove_member(queue, node).await;
        let size = members.len() - usize::from(done.is_ok());
        results.push(result(&vhost, &name, size, done));
    }
    Ok(axum::Json(Value::Array(results)))
}

fn result(vhost: &str, queue: &str, size: usize, done: Result<(), MembersFault>) -> Value {
    let said = match done {
        Ok(()) => "ok".to_owned(),
        Err(fault) => fault.to_string(),
    };
    json!({"vhost": vhost, "name": queue, "size": size, "result": said})
}

async fn rebalance(_: Administrator, State(api): State<Api>) -> StatusCode {
    api.broker().rebalance();
    StatusCode::NO_CONTENT
}
