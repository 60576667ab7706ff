//! What users may do in vhosts, and with the keys of exchanges.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use broker_core::metadata::{Metadata, MetadataChange};
use broker_core::{ExchangeName, Refusal, UserName, VhostName};
use serde_json::json;

use super::{GET, GET_PUT_DELETE, Paths, delete_answer, put_answer, resource};
use crate::access::Administrator;
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/permissions", resource(GET, get(list)))
        .route(
            "/permissions/{vhost}/{user}",
            resource(GET_PUT_DELETE, get(one).put(put).delete(delete)),
        )
        .route("/topic-permissions", resource(GET, get(list_topics)))
        .route(
            "/topic-permissions/{vhost}/{user}",
            resource(
                GET_PUT_DELETE,
                get(topics).put(put_topic).delete(delete_topics),
            ),
        )
        .route(
            "/topic-permissions/{vhost}/{user}/{exchange}",
            resource(
                GET_PUT_DELETE,
                get(topics_of_exchange)
                    .put(put_topic_of)
                    .delete(delete_topic),
            ),
        )
}

async fn list(_: Administrator, query: ListQuery, State(api): State<Api>) -> Response {
    let metadata = api.broker().metadata();
    let rows = metadata
        .permissions()
        .map(|(u, v, record)| show::permission(u, v, record));
    query.answer_whole(rows.collect(), show::json)
}

async fn one(
    _: Administrator,
    Path((vhost, user)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let (vhost, user) = (VhostName::new(vhost), UserName::new(user));
    let metadata = api.broker().metadata();
    let record = metadata
        .permission(&user, &vhost)
        .ok_or(ApiError::ObjectNotFound)?;
    Ok(query.answer_one(show::json(&show::permission(&user, &vhost, record))))
}

async fn put(
    _: Administrator,
    Path((vhost, user)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let (vhost, user) = (VhostName::new(vhost), UserName::new(user));
    check_ends(&api.broker().metadata(), &vhost, &user)?;
    body.require(&["configure", "write", "read"])?;
    let pattern = |key| body.required_text(key).map(String::into_boxed_str);
    let outcome = api
        .apply(MetadataChange::SetPermission {
            user,
            vhost,
            configure: pattern("configure")?,
            write: pattern("write")?,
            read: pattern("read")?,
        })
        .await?;
    Ok(put_answer(&outcome))
}

fn check_ends(metadata: &Metadata, vhost: &VhostName, user: &UserName) -> Result<()> {
    if metadata.vhost(vhost).is_err() || metadata.user(user).is_none() {
        let (vhost, user) = (vhost.clone(), user.clone());
        return Err(Refusal::VhostOrUserNotFound { vhost, user }.into());
    }
    Ok(())
}

async fn delete(
    _: Administrator,
    Path((vhost, user)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let (vhost, user) = (VhostName::new(vhost), UserName::new(user));
    api.broker()
        .metadata()
        .permission(&user, &vhost)
        .ok_or(ApiError::ObjectNotFound)?;
    delete_answer(
        &api.apply(MetadataChange::ClearPermission { user, vhost })
            .await?,
    )
}

async fn list_topics(_: Administrator, query: ListQuery, State(api): State<Api>) -> Response {
    let metadata = api.broker().metadata();
    let rows = metadata.topic_permissions();
    let rows = rows.map(|(u, v, x, record)| show::topic_permission(u, v, x, record));
    query.answer_whole(rows.collect(), show::json)
}

async fn topics(
    _: Administrator,
    Path((vhost, user)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    topic_list(&api, &query, &vhost, &user, |_| true)
}

async fn topics_of_exchange(
    _: Administrator,
    Path((vhost, user, exchange)): Path<(String, String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    topic_list(&api, &query, &vhost, &user, |name| {
        name.as_str() == exchange
    })
}

/// A user's topic permissions in a vhost; none at all is a missing object.
fn topic_list(
    api: &Api,
    query: &ListQuery,
    vhost: &str,
    user: &str,
    is_wanted: impl Fn(&ExchangeName) -> bool,
) -> Result<Response> {
    let metadata = api.broker().metadata();
    let rows: Vec<_> = metadata
        .topic_permissions()
        .filter(|(u, v, x, _)| u.as_str() == user && v.as_str() == vhost && is_wanted(x))
        .map(|(u, v, x, record)| show::topic_permission(u, v, x, record))
        .collect();
    if rows.is_empty() {
        return Err(ApiError::ObjectNotFound);
    }
    Ok(query.answer_whole(rows, show::json))
}

async fn put_topic(
    _: Administrator,
    Path((vhost, user)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let (vhost, user) = (VhostName::new(vhost), UserName::new(user));
    check_ends(&api.broker().metadata(), &vhost, &user)?;
    body.require(&["exchange", "write", "read"])?;
    let exchange = body.required_text("exchange")?;
    set_topic(&api, vhost, user, &exchange, &body).await
}

async fn put_topic_of(
    _: Administrator,
    Path((vhost, user, exchange)): Path<(String, String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let (vhost, user) = (VhostName::new(vhost), UserName::new(user));
    check_ends(&api.broker().metadata(), &vhost, &user)?;
    body.require(&["write", "read"])?;
    set_topic(&api, vhost, user, &exchange, &body).await
}

async fn set_topic(
    api: &Api,
    vhost: VhostName,
    user: UserName,
    exchange: &str,
    body: &Body,
) -> Result<StatusCode> {
    let exists = api
        .broker()
        .metadata()
        .vhost(&vhost)?
        .exchange(exchange)
        .is_some();
    if !exists {
        return Err(ApiError::bad_request(json!(["no_such_exchange", exchange])));
    }
    let pattern = |key| body.required_text(key).map(String::into_boxed_str);
    let outcome = api
        .apply(MetadataChange::SetTopicPermission {
            user,
            vhost,
            exchange: ExchangeName::new(exchange),
            write: pattern("write")?,
            read: pattern("read")?,
        })
        .await?;
    Ok(put_answer(&outcome))
}

async fn delete_topics(
    _: Administrator,
    Path((vhost, user)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    clear_topics(&api, &vhost, &user, None).await
}

async fn delete_topic(
    _: Administrator,
    Path((vhost, user, exchange)): Path<(String, String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    clear_topics(&api, &vhost, &user, Some(ExchangeName::new(exchange))).await
}

async fn clear_topics(
    api: &Api,
    vhost: &str,
    user: &str,
    exchange: Option<ExchangeName>,
) -> Result<StatusCode> {
    let (vhost, user) = (VhostName::new(vhost), UserName::new(user));
    check_ends(&api.broker().metadata(), &vhost, &user).map_err(|_| ApiError::ObjectNotFound)?;
    let change = MetadataChange::ClearTopicPermission {
        user,
        vhost,
        exchange,
    };
    delete_answer(&api.apply(change).await?)
}
