//! Policies and operator policies.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use broker_core::VhostName;
use broker_core::metadata::{MetadataChange, Vhost};
use broker_core::policy::{PolicyForm, PolicyScope};

use super::{GET, GET_PUT_DELETE, Paths, delete_answer, put_answer, resource};
use crate::access::{Administrator, Caller, Policymaker};
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/policies", resource(GET, get(list)))
        .route("/policies/{vhost}", resource(GET, get(list_of_vhost)))
        .route(
            "/policies/{vhost}/{policy}",
            resource(GET_PUT_DELETE, get(one).put(put).delete(delete)),
        )
        .route("/operator-policies", resource(GET, get(operator_list)))
        .route(
            "/operator-policies/{vhost}",
            resource(GET, get(operator_list_of_vhost)),
        )
        .route(
            "/operator-policies/{vhost}/{policy}",
            resource(
                GET_PUT_DELETE,
                get(operator_one).put(operator_put).delete(operator_delete),
            ),
        )
}

async fn list(caller: Caller, query: ListQuery, State(api): State<Api>) -> Response {
    shown_list(&api, &caller, &query, PolicyScope::User)
}

async fn operator_list(caller: Caller, query: ListQuery, State(api): State<Api>) -> Response {
    shown_list(&api, &caller, &query, PolicyScope::Operator)
}

fn shown_list(api: &Api, caller: &Caller, query: &ListQuery, scope: PolicyScope) -> Response {
    let metadata = api.broker().metadata();
    let seen = metadata
        .vhosts()
        .filter(|vhost| caller.sees(&metadata, vhost.name()));
    query.answer_whole(
        seen.flat_map(|vhost| of_vhost(vhost, scope)).collect(),
        show::json,
    )
}

fn of_vhost(vhost: &Vhost, scope: PolicyScope) -> Vec<management_api::Policy> {
    vhost
        .policies(scope)
        .iter()
        .map(|policy| show::policy(vhost.name(), policy))
        .collect()
}

async fn list_of_vhost(
    caller: Caller,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    shown_list_of_vhost(&api, &caller, &query, vhost, PolicyScope::User)
}

async fn operator_list_of_vhost(
    caller: Caller,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    shown_list_of_vhost(&api, &caller, &query, vhost, PolicyScope::Operator)
}

fn shown_list_of_vhost(
    api: &Api,
    caller: &Caller,
    query: &ListQuery,
    vhost: String,
    scope: PolicyScope,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    caller.enter(&metadata, &vhost)?;
    Ok(query.answer_whole(of_vhost(metadata.vhost(&vhost)?, scope), show::json))
}

async fn one(
    Policymaker(caller): Policymaker,
    Path((vhost, policy)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    shown(&api, &caller, &query, vhost, &policy, PolicyScope::User)
}

async fn operator_one(
    Administrator(caller): Administrator,
    Path((vhost, policy)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    shown(&api, &caller, &query, vhost, &policy, PolicyScope::Operator)
}

fn shown(
    api: &Api,
    caller: &Caller,
    query: &ListQuery,
    vhost: String,
    policy: &str,
    scope: PolicyScope,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    caller.enter(&metadata, &vhost)?;
    let found = metadata.vhost(&vhost)?.policies(scope).find(policy);
    let policy = found.ok_or(ApiError::ObjectNotFound)?;
    Ok(query.answer_one(show::json(&show::policy(&vhost, policy))))
}

async fn put(
    Policymaker(caller): Policymaker,
    Path((vhost, policy)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    set(&api, &caller, vhost, &policy, PolicyScope::User, &body).await
}

async fn operator_put(
    Administrator(caller): Administrator,
    Path((vhost, policy)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    set(&api, &caller, vhost, &policy, PolicyScope::Operator, &body).await
}

async fn set(
    api: &Api,
    caller: &Caller,
    vhost: String,
    name: &str,
    scope: PolicyScope,
    body: &Body,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    {
        let metadata = api.broker().metadata();
        metadata.vhost(&vhost)?;
        caller.enter(&metadata, &vhost)?;
    }
    let policy = PolicyForm {
        name: name.into(),
        pattern: body.term("pattern")?,
        apply_to: body.term("apply-to")?,
        definition: body.term("definition")?,
        priority: body.term("priority")?,
    };
    let outcome = api
        .apply(MetadataChange::SetPolicy {
            vhost,
            scope,
            policy,
        })
        .await?;
    Ok(put_answer(&outcome))
}

async fn delete(
    Policymaker(caller): Policymaker,
    Path((vhost, policy)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    remove(&api, &caller, vhost, &policy, PolicyScope::User).await
}

async fn operator_delete(
    Administrator(caller): Administrator,
    Path((vhost, policy)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    remove(&api, &caller, vhost, &policy, PolicyScope::Operator).await
}

async fn remove(
    api: &Api,
    caller: &Caller,
    vhost: String,
    name: &str,
    scope: PolicyScope,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    caller.enter(&api.broker().metadata(), &vhost)?;
    let change = MetadataChange::DeletePolicy {
        vhost,
        scope,
        name: name.into(),
    };
    delete_answer(&api.apply(change).await?)
}
