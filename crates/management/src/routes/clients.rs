//! Connections, channels and consumers.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use broker::observe::{ChannelView, ConnectionView};
use broker_core::metadata::{QueueRecord, Vhost};
use broker_core::{Refusal, VhostName};
use management_api::Consumer;
use std::sync::Arc;

use super::{GET, GET_DELETE, Paths, resource};
use crate::access::Caller;
use crate::apart::apart;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show::{self, stats::Histories};
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/connections", resource(GET, get(connections)))
        .route(
            "/connections/{name}",
            resource(GET_DELETE, get(connection).delete(close_connection)),
        )
        .route(
            "/connections/{name}/channels",
            resource(GET, get(channels_of_connection)),
        )
        .route(
            "/connections/username/{user}",
            resource(
                GET_DELETE,
                get(connections_of_user).delete(close_connections_of_user),
            ),
        )
        .route(
            "/vhosts/{vhost}/connections",
            resource(GET, get(connections_of_vhost)),
        )
        .route("/channels", resource(GET, get(channels)))
        .route("/channels/{name}", resource(GET, get(channel)))
        .route(
            "/vhosts/{vhost}/channels",
            resource(GET, get(channels_of_vhost)),
        )
        .route("/consumers", resource(GET, get(consumers)))
        .route("/consumers/{vhost}", resource(GET, get(consumers_of_vhost)))
}

/// Users see their own connections, monitoring users all.
fn seen(api: &Api, caller: &Caller) -> Vec<ConnectionView> {
    let mut views = api.broker().connections();
    if !caller.is_monitor() {
        views.retain(|view| *view.user() == caller.user);
    }
    views
}

/// Those of one vhost that the caller may enter.
fn seen_in(api: &Api, caller: &Caller, vhost: VhostName) -> Result<Vec<ConnectionView>> {
    caller.enter(&api.broker().metadata(), &vhost)?;
    let mut views = seen(api, caller);
    views.retain(|view| *view.vhost() == vhost);
    Ok(views)
}

async fn connections(caller: Caller, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    apart(move || answer_connections(&api, &query, seen(&api, &caller))).await
}

async fn connections_of_vhost(
    caller: Caller,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let views = seen_in(&api, &caller, VhostName::new(vhost))?;
    apart(move || answer_connections(&api, &query, views)).await
}

fn answer_connections(
    api: &Api,
    query: &ListQuery,
    views: Vec<ConnectionView>,
) -> Result<Response> {
    let named: Vec<(String, ConnectionView)> =
        views.into_iter().map(|view| (view.name(), view)).collect();
    let histories = Histories::of(query);
    query.answer(
        named,
        |(name, _)| name,
        |(_, view)| show::json(&show::connection(api, view, histories)),
    )
}

fn find_connection(api: &Api, caller: &Caller, name: &str) -> Result<ConnectionView> {
    let found = api
        .broker()
        .connections()
        .into_iter()
        .find(|view| view.name() == name);
    let view = found.ok_or(ApiError::ObjectNotFound)?;
    if !caller.is_monitor() && *view.user() != caller.user {
        return Err(ApiError::NotAuthorised(
            "User not authorised to access object",
        ));
    }
    Ok(view)
}

async fn connection(
    caller: Caller,
    Path(name): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let view = find_connection(&api, &caller, &name)?;
    Ok(query.answer_one(show::json(&show::connection(
        &api,
        &view,
        Histories::of(&query),
    ))))
}

const REASON_HEADER: &str = "x-reason";
// rabbitmq: the text of closes without a reason of their own
const REASON_DEFAULT: &str = "Closed via management plugin";

/// What the client is told.
fn closing(headers: &HeaderMap) -> Refusal {
    let given = headers
        .get(REASON_HEADER)
        .and_then(|value| value.to_str().ok());
    Refusal::ClosedByOperator {
        reason: given.unwrap_or(REASON_DEFAULT).into(),
    }
}

async fn close_connection(
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let view = find_connection(&api, &caller, &name)?;
    if !caller.is_administrator() && *view.user() != caller.user {
        return Err(ApiError::NotAuthorised(
            "User not authorised to access object",
        ));
    }
    api.broker()
        .close_connections_of(&[view.id()], &closing(&headers))
        .await;
    Ok(StatusCode::NO_CONTENT)
}

async fn connections_of_user(
    caller: Caller,
    Path(user): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Response {
    let mut views = seen(&api, &caller);
    views.retain(|view| view.user().as_str() == user);
    query.answer_whole(views, |view| {
        show::json(&show::user_connection(view, api.node()))
    })
}

async fn close_connections_of_user(
    caller: Caller,
    Path(user): Path<String>,
    headers: HeaderMap,
    State(api): State<Api>,
) -> Result<StatusCode> {
    if !caller.is_administrator() && caller.user.as_str() != user {
        return Err(ApiError::NotAuthorised(
            "User not authorised to access object",
        ));
    }
    let mut views = api.broker().connections();
    views.retain(|view| view.user().as_str() == user);
    let ids: Vec<_> = views.iter().map(|view| view.id()).collect();
    api.broker()
        .close_connections_of(&ids, &closing(&headers))
        .await;
    Ok(StatusCode::NO_CONTENT)
}

async fn channels(caller: Caller, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    apart(move || answer_channels(&api, &query, seen(&api, &caller))).await
}

async fn channels_of_vhost(
    caller: Caller,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let views = seen_in(&api, &caller, VhostName::new(vhost))?;
    apart(move || answer_channels(&api, &query, views)).await
}

async fn channels_of_connection(
    caller: Caller,
    Path(name): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let view = find_connection(&api, &caller, &name)?;
    answer_channels(&api, &query, vec![view])
}

fn answer_channels(api: &Api, query: &ListQuery, views: Vec<ConnectionView>) -> Result<Response> {
    let channels = views.iter().flat_map(ConnectionView::channels);
    let named: Vec<(String, ChannelView)> = channels.map(|view| (view.name(), view)).collect();
    let histories = Histories::of(query);
    query.answer(
        named,
        |(name, _)| name,
        |(_, view)| show::json(&show::channel(api, view, histories)),
    )
}

async fn channel(
    caller: Caller,
    Path(name): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    apart(move || one_channel(&api, &caller, &query, &name)).await
}

fn one_channel(api: &Api, caller: &Caller, query: &ListQuery, name: &str) -> Result<Response> {
    let views = seen(api, caller);
    let mut channels = views.iter().flat_map(ConnectionView::channels);
    let view = channels
        .find(|view| view.name() == name)
        .ok_or(ApiError::ObjectNotFound)?;
    let mut shown = show::channel(api, &view, Histories::of(query));
    let consumers = all_consumers(api, |_| true).into_iter();
    let own: Vec<_> = consumers
        .filter(|consumer| consumer.channel_details.name == name)
        .collect();
    shown.consumer_details = Some(own);
    shown.deliveries = Some(Vec::new());
    shown.publishes = Some(Vec::new());
    Ok(query.answer_one(show::json(&shown)))
}

/// Consumers of the queues of these vhosts.
fn all_consumers(api: &Api, is_wanted: impl Fn(&Vhost) -> bool) -> Vec<Consumer> {
    let records: Vec<Arc<QueueRecord>> = {
        let metadata = api.broker().metadata();
        metadata
            .vhosts()
            .filter(|vhost| is_wanted(vhost))
            .flat_map(Vhost::queues)
            .cloned()
            .collect()
    };
    let of_queue = |record: &Arc<QueueRecord>| {
        let consumers = api.broker().consumers_of(record.id).into_iter();
        let shown = consumers.map(|info| show::consumer(&info, record, api.node()));
        shown.collect::<Vec<_>>()
    };
    records.iter().flat_map(of_queue).collect()
}

async fn consumers(caller: Caller, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    let seen: Vec<VhostName> = {
        let metadata = api.broker().metadata();
        let vhosts = metadata.vhosts().map(Vhost::name);
        vhosts
            .filter(|vhost| caller.sees(&metadata, vhost))
            .cloned()
            .collect()
    };
    apart(move || {
        let rows = all_consumers(&api, |vhost| seen.contains(vhost.name()));
        Ok(query.answer_whole(rows, show::json))
    })
    .await
}

async fn consumers_of_vhost(
    caller: Caller,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let name = VhostName::new(vhost);
    caller.look_into(&api.broker().metadata(), &name)?;
    apart(move || {
        let rows = all_consumers(&api, |vhost| *vhost.name() == name);
        Ok(query.answer_whole(rows, show::json))
    })
    .await
}
