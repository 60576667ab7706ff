//! Limits of vhosts and users.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, put};
use broker_core::metadata::{self, MetadataChange};
use broker_core::{UserName, VhostName};
use management_api::Limits;
use serde_json::json;

use super::{GET, PUT_DELETE, Paths, resource};
use crate::access::{Administrator, Caller};
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/vhost-limits", resource(GET, get(of_vhosts)))
        .route("/vhost-limits/{vhost}", resource(GET, get(of_vhost)))
        .route(
            "/vhost-limits/{vhost}/{limit}",
            resource(PUT_DELETE, put(set_of_vhost).delete(clear_of_vhost)),
        )
        .route("/user-limits", resource(GET, get(of_users)))
        .route("/user-limits/{user}", resource(GET, get(of_user)))
        .route(
            "/user-limits/{user}/{limit}",
            resource(PUT_DELETE, put(set_of_user).delete(clear_of_user)),
        )
}

fn vhost_limits(vhost: &metadata::Vhost) -> Option<Limits> {
    (!vhost.limits().is_empty()).then(|| Limits {
        vhost: Some(vhost.name().to_string()),
        user: None,
        value: show::limits(vhost.limits()),
    })
}

async fn of_vhosts(caller: Caller, query: ListQuery, State(api): State<Api>) -> Response {
    let metadata = api.broker().metadata();
    let seen = metadata
        .vhosts()
        .filter(|vhost| caller.sees(&metadata, vhost.name()));
    query.answer_whole(seen.filter_map(vhost_limits).collect(), show::json)
}

async fn of_vhost(
    caller: Caller,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    caller.look_into(&metadata, &vhost)?;
    let limits = vhost_limits(metadata.vhost(&vhost)?);
    Ok(query.answer_whole(limits.into_iter().collect(), show::json))
}

async fn set_of_vhost(
    _: Administrator,
    Path((vhost, limit)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    api.broker().metadata().vhost(&vhost)?;
    body.require(&["value"])?;
    let value = body
        .term("value")?
        .ok_or_else(|| ApiError::missing(&["value"]))?;
    api.apply(MetadataChange::SetVhostLimit {
        vhost,
        name: limit.into(),
        value,
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn clear_of_vhost(
    _: Administrator,
    Path((vhost, limit)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    api.apply(MetadataChange::ClearVhostLimit {
        vhost,
        name: limit.into(),
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn user_limits(user: &UserName, limits: Option<&metadata::Limits>) -> Option<Limits> {
    limits
        .filter(|limits| !limits.is_empty())
        .map(|limits| Limits {
            vhost: None,
            user: Some(user.to_string()),
            value: show::limits(limits),
        })
}

async fn of_users(_: Administrator, query: ListQuery, State(api): State<Api>) -> Response {
    let metadata = api.broker().metadata();
    let users = metadata.users();
    let rows = users.filter_map(|(name, _)| user_limits(name, metadata.user_limits(name)));
    query.answer_whole(rows.collect(), show::json)
}

async fn of_user(
    _: Administrator,
    Path(user): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let user = UserName::new(user);
    let metadata = api.broker().metadata();
    metadata.user(&user).ok_or(ApiError::ObjectNotFound)?;
    let limits = user_limits(&user, metadata.user_limits(&user));
    Ok(query.answer_whole(limits.into_iter().collect(), show::json))
}

async fn set_of_user(
    _: Administrator,
    Path((user, limit)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let name = UserName::new(&user);
    if api.broker().metadata().user(&name).is_none() {
        return Err(ApiError::bad_request(json!(["no_such_user", user])));
    }
    body.require(&["value"])?;
    let value = body
        .term("value")?
        .ok_or_else(|| ApiError::missing(&["value"]))?;
    api.apply(MetadataChange::SetUserLimit {
        user: name,
        name: limit.into(),
        value,
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn clear_of_user(
    _: Administrator,
    Path((user, limit)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let user = UserName::new(user);
    if api.broker().metadata().user(&user).is_none() {
        return Err(ApiError::ObjectNotFound);
    }
    api.apply(MetadataChange::ClearUserLimit {
        user,
        name: limit.into(),
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}
