//! Exchanges.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use broker_core::metadata::{Destination, ExchangeRecord, MetadataChange, Vhost};
use broker_core::permission::Operation;
use broker_core::{ExchangeName, Refusal, VhostName};
use std::sync::Arc;

use super::bindings::{from_exchange, to_destination};
use super::{GET, GET_PUT_DELETE, Paths, put_answer, resource};
use crate::access::Caller;
use crate::apart::apart;
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::paths::exchange_name;
use crate::segments::Path;
use crate::show::{self, stats::Histories};
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/exchanges", resource(GET, get(list)))
        .route("/exchanges/{vhost}", resource(GET, get(list_of_vhost)))
        .route(
            "/exchanges/{vhost}/{exchange}",
            resource(GET_PUT_DELETE, get(one).put(put).delete(delete)),
        )
        .route(
            "/exchanges/{vhost}/{exchange}/bindings/source",
            resource(GET, get(outgoing)),
        )
        .route(
            "/exchanges/{vhost}/{exchange}/bindings/destination",
            resource(GET, get(incoming)),
        )
}

/// The exchanges of a vhost by name.
fn sorted(vhost: &Vhost) -> Vec<Arc<ExchangeRecord>> {
    let mut records: Vec<_> = vhost
        .exchanges()
        .map(|exchange| exchange.record().clone())
        .collect();
    records.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    records
}

async fn list(caller: Caller, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    let rows: Vec<_> = {
        let metadata = api.broker().metadata();
        let seen = metadata
            .vhosts()
            .filter(|vhost| caller.sees(&metadata, vhost.name()));
        seen.flat_map(sorted).collect()
    };
    apart(move || answer(&api, &query, rows)).await
}

async fn list_of_vhost(
    caller: Caller,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let rows = {
        let metadata = api.broker().metadata();
        caller.enter(&metadata, &vhost)?;
        sorted(metadata.vhost(&vhost)?)
    };
    apart(move || answer(&api, &query, rows)).await
}

fn answer(api: &Api, query: &ListQuery, rows: Vec<Arc<ExchangeRecord>>) -> Result<Response> {
    let histories = Histories::of(query);
    query.answer(
        rows,
        |record| record.name.as_str(),
        |record| show::json(&show::exchange(api, record, histories)),
    )
}

async fn one(
    caller: Caller,
    Path((vhost, exchange)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let record = {
        let metadata = api.broker().metadata();
        caller.enter(&metadata, &vhost)?;
        let found = metadata.vhost(&vhost)?.exchange(exchange_name(&exchange));
        found.ok_or(ApiError::ObjectNotFound)?.record().clone()
    };
    let mut shown = show::exchange(&api, &record, Histories::of(&query));
    shown.incoming = Some(Vec::new());
    shown.outgoing = Some(Vec::new());
    Ok(query.answer_one(show::json(&shown)))
}

async fn put(
    caller: Caller,
    Path((vhost, exchange)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let (vhost, name) = (
        VhostName::new(vhost),
        ExchangeName::cleaned(exchange_name(&exchange)),
    );
    let arguments = body.arguments()?;
    if name.as_str().is_empty() {
        return Err(Refusal::DefaultExchange.into());
    }
    let operation = Operation::ExchangeDeclare {
        exchange: name.as_str(),
        arguments: &arguments,
    };
    caller.permit(&api.broker().metadata(), &vhost, &operation)?;
    let outcome = api
        .apply(MetadataChange::DeclareExchange {
            vhost,
            exchange: name,
            exchange_type: body.text("type")?.unwrap_or("direct").into(),
            durable: body.flag("durable")?,
            auto_delete: body.flag("auto_delete")?,
            internal: body.flag("internal")?,
            arguments,
        })
        .await?;
    Ok(put_answer(&outcome))
}

async fn delete(
    caller: Caller,
    Path((vhost, exchange)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let (vhost, name) = (
        VhostName::new(vhost),
        ExchangeName::new(exchange_name(&exchange)),
    );
    {
        let metadata = api.broker().metadata();
        caller.enter(&metadata, &vhost)?;
        if metadata.vhost(&vhost)?.exchange(name.as_str()).is_none() {
            return Err(ApiError::ObjectNotFound);
        }
        let operation = Operation::ExchangeDelete {
            exchange: name.as_str(),
        };
        caller.permit(&metadata, &vhost, &operation)?;
    }
    if name.as_str().is_empty() {
        return Err(Refusal::DefaultExchange.into());
    }
    let if_unused = query.is_true("if-unused");
    api.apply(MetadataChange::DeleteExchange {
        vhost,
        exchange: name,
        if_unused,
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn outgoing(
    caller: Caller,
    Path((vhost, exchange)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    caller.enter(&metadata, &vhost)?;
    let rows = from_exchange(metadata.vhost(&vhost)?, exchange_name(&exchange));
    Ok(query.answer_whole(rows, show::json))
}

async fn incoming(
    caller: Caller,
    Path((vhost, exchange)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    caller.enter(&metadata, &vhost)?;
    let destination = Destination::Exchange(ExchangeName::new(exchange_name(&exchange)));
    let rows = to_destination(metadata.vhost(&vhost)?, &destination);
    Ok(query.answer_whole(rows, show::json))
}
