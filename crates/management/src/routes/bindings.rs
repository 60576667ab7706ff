//! Bindings.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use broker_core::metadata::{Destination, MetadataChange, Vhost};
use broker_core::permission::Operation;
use broker_core::refusal::Permission;
use broker_core::{ExchangeName, QueueName, Refusal, VhostName};
use management_api::Binding;

use super::{GET, GET_DELETE, GET_POST, Paths, resource};
use crate::access::Caller;
use crate::apart::apart;
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::paths::{encoded_segment, exchange_name};
use crate::segments::Path;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/bindings", resource(GET, get(list)))
        .route("/bindings/{vhost}", resource(GET, get(list_of_vhost)))
        .route(
            "/bindings/{vhost}/e/{source}/{kind}/{destination}",
            resource(GET_POST, get(between).post(bind)),
        )
        .route(
            "/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}",
            resource(GET_DELETE, get(one).delete(unbind)),
        )
}

/// All bindings of a vhost: the default exchange's own first, then by source.
fn all(vhost: &Vhost) -> Vec<Binding> {
    let mut rows = from_exchange(vhost, "");
    let mut sources: Vec<&str> = vhost
        .exchanges()
        .map(|exchange| exchange.record().name.as_str())
        .collect();
    sources.sort_unstable();
    for source in sources.into_iter().filter(|source| !source.is_empty()) {
        rows.extend(from_exchange(vhost, source));
    }
    rows
}

/// The bindings that lead away from an exchange.
pub(super) fn from_exchange(vhost: &Vhost, exchange: &str) -> Vec<Binding> {
    if exchange.is_empty() {
        let mut queues: Vec<&QueueName> = vhost.queues().map(|record| &record.name).collect();
        queues.sort_unstable();
        let implicit = queues.into_iter();
        return implicit
            .map(|queue| show::implicit_binding(vhost.name(), queue))
            .collect();
    }
    let bindings = vhost.bindings_from(exchange);
    bindings
        .iter()
        .map(|binding| show::binding(vhost.name(), binding))
        .collect()
}

/// The bindings that lead to a queue or an exchange, the default exchange's own first.
pub(super) fn to_destination(vhost: &Vhost, destination: &Destination) -> Vec<Binding> {
    let implicit = match destination {
        Destination::Queue(queue) if vhost.queue(queue.as_str()).is_some() => {
            Some(show::implicit_binding(vhost.name(), queue))
        }
        _ => None,
    };
    let bindings = vhost.bindings_to(destination);
    let bound = bindings
        .iter()
        .map(|binding| show::binding(vhost.name(), binding));
    implicit.into_iter().chain(bound).collect()
}

async fn list(caller: Caller, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    apart(move || {
        let rows: Vec<Binding> = {
            let metadata = api.broker().metadata();
            let vhosts = metadata.vhosts();
            let seen = vhosts.filter(|vhost| caller.sees(&metadata, vhost.name()));
            seen.flat_map(all).collect()
        };
        Ok(query.answer_whole(rows, show::json))
    })
    .await
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
            all(metadata.vhost(&vhost)?)
        };
        Ok(query.answer_whole(rows, show::json))
    })
    .await
}

/// The two ends of a binding, from a path.
struct Ends {
    vhost: VhostName,
    source: ExchangeName,
    destination: Destination,
}

impl Ends {
    fn of(vhost: &str, source: &str, kind: &str, destination: &str) -> Result<Self> {
        let destination = match kind {
            "q" => Destination::Queue(QueueName::new(destination)),
            "e" => Destination::Exchange(ExchangeName::new(exchange_name(destination))),
            _ => return Err(ApiError::ObjectNotFound),
        };
        Ok(Self {
            vhost: VhostName::new(vhost),
            source: ExchangeName::new(exchange_name(source)),
            destination,
        })
    }

    /// The bindings between them.
    fn bindings(&self, vhost: &Vhost) -> Vec<Binding> {
        let mut rows = to_destination(vhost, &self.destination);
        rows.retain(|binding| binding.source == self.source.as_str());
        rows
    }

    fn check(&self, api: &Api, caller: &Caller, key: &str) -> Result<()> {
        let metadata = api.broker().metadata();
        let operation = Operation::Bind {
            source: self.source.as_str(),
            destination: &self.destination,
        };
        caller.permit(&metadata, &self.vhost, &operation)?;
        let is_default = |name: &str| name.is_empty();
        if is_default(self.source.as_str()) || is_default(self.destination.name()) {
            return Err(Refusal::DefaultExchange.into());
        }
        let source = self.source.as_str();
        Ok(metadata.check_topic_access(
            &caller.user,
            &self.vhost,
            source,
            key.as_bytes(),
            Permission::Read,
        )?)
    }
}

type EndsPath = Path<(String, String, String, String)>;
type KeyPath = Path<(String, String, String, String, String)>;

async fn between(
    caller: Caller,
    Path((vhost, source, kind, destination)): EndsPath,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let ends = Ends::of(&vhost, &source, &kind, &destination)?;
    let metadata = api.broker().metadata();
    caller.enter(&metadata, &ends.vhost)?;
    Ok(query.answer_whole(ends.bindings(metadata.vhost(&ends.vhost)?), show::json))
}

async fn bind(
    caller: Caller,
    Path((vhost, source, kind, destination)): EndsPath,
    State(api): State<Api>,
    body: Body,
) -> Result<Response> {
    let ends = Ends::of(&vhost, &source, &kind, &destination)?;
    let key = match body.get("routing_key") {
        Some(_) => body.required_text("routing_key")?,
        None => String::new(),
    };
    let mut arguments = body.arguments()?;
    ends.check(&api, &caller, &key)?;
    let Ends {
        vhost,
        source,
        destination,
    } = ends;
    let change = MetadataChange::Bind {
        vhost,
        source,
        destination: destination.clone(),
        key: key.as_str().into(),
        arguments: arguments.clone(),
        connection: None,
    };
    api.apply(change).await?;
    // As the binding keeps them.
    arguments.sort();
    let properties_key = show::properties_key(&key, &arguments);
    let location = format!(
        "{}/{}",
        encoded_segment(destination.name()),
        encoded_segment(&properties_key)
    );
    let location = HeaderValue::try_from(location)
        .map_err(|error| ApiError::Broken(format!("the location of a binding: {error}")))?;
    Ok((StatusCode::CREATED, [(header::LOCATION, location)]).into_response())
}

async fn one(
    caller: Caller,
    Path((vhost, source, kind, destination, key)): KeyPath,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let ends = Ends::of(&vhost, &source, &kind, &destination)?;
    let metadata = api.broker().metadata();
    caller.enter(&metadata, &ends.vhost)?;
    let mut bindings = ends.bindings(metadata.vhost(&ends.vhost)?).into_iter();
    let found = bindings.find(|binding| binding.properties_key == key);
    Ok(query.answer_one(show::json(&found.ok_or(ApiError::ObjectNotFound)?)))
}

async fn unbind(
    caller: Caller,
    Path((vhost, source, kind, destination, key)): KeyPath,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let ends = Ends::of(&vhost, &source, &kind, &destination)?;
    let found = {
        let metadata = api.broker().metadata();
        caller.enter(&metadata, &ends.vhost)?;
        let bindings = metadata.vhost(&ends.vhost)?.bindings_to(&ends.destination);
        let is_it = |key_of: String| key_of == key;
        bindings.into_iter().find(|binding| {
            binding.source == ends.source
                && is_it(show::properties_key(&binding.key, &binding.arguments))
        })
    };
    let binding = found.ok_or(ApiError::ObjectNotFound)?;
    ends.check(&api, &caller, &binding.key)?;
    let Ends {
        vhost,
        source,
        destination,
    } = ends;
    api.apply(MetadataChange::Unbind {
        vhost,
        source,
        destination,
        key: binding.key.as_ref().into(),
        arguments: binding.arguments.clone(),
        connection: None,
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}
