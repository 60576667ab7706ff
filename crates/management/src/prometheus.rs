//! Metrics as Prometheus reads them, under RabbitMQ's names so that its dashboards show data.
//!
//! Every answer is written from one look at the broker. Families and labels are RabbitMQ's; what
//! only this broker has begins with `sluicemq_`.

mod channels;
mod exposition;
mod flow;
mod identity;
mod incidents;
mod node;
mod objects;
mod own;
mod queues;
mod reload;
mod stored;
mod totals;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use fancy_regex::Regex;

use crate::apart::apart;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::state::Api;
use exposition::Exposition;
use objects::{Grouping, Scope};

/// The metrics listener: no login, since a scraper has none.
pub(crate) fn paths(state: Api) -> Router {
    Router::new()
        .route("/metrics", scraped(get(aggregated)))
        .route("/metrics/per-object", scraped(get(per_object)))
        .route("/metrics/detailed", scraped(get(detailed)))
        .route("/metrics/memory-breakdown", scraped(get(memory_breakdown)))
        .route("/healthz/live", get(live))
        .route("/healthz/ready", get(ready))
        .fallback(async || ApiError::ObjectNotFound)
        .with_state(state)
}

// rabbitmq: HEAD is answered without looking
fn scraped(methods: MethodRouter<Api>) -> MethodRouter<Api> {
    methods.head(async || StatusCode::NO_CONTENT)
}

/// A look costs a lock a queue: not on a thread that serves connections.
async fn written(
    api: Api,
    endpoint: &'static str,
    write: impl FnOnce(&Api, &mut Exposition) + Send + 'static,
) -> Result<Response> {
    let text = apart(move || {
        let mut exposition = Exposition::default();
        write(&api, &mut exposition);
        identity::write(&api, endpoint, &mut exposition);
        Ok(exposition.text())
    })
    .await?;
    let content_type = [(header::CONTENT_TYPE, exposition::CONTENT_TYPE)];
    Ok((content_type, text).into_response())
}

async fn aggregated(State(api): State<Api>) -> Result<Response> {
    written(api, "aggregated", |api, out| {
        let scope = Scope::everything(Grouping::Aggregated);
        totals::write(api, out);
        node::write(api, out);
        reload::write(api, out);
        queues::write_all(api, &scope, out);
        channels::write_all(api, &scope, out);
        totals::write_global(api, out);
        own::write_ages(api, &scope, out);
        own::write_flow(api, out);
        stored::write(api, out);
        stored::write_logs(api, &scope, out);
        incidents::write(api, &scope, out);
        flow::write_queues(api, &scope, out);
        flow::write_meters(api, out);
    })
    .await
}

async fn per_object(State(api): State<Api>) -> Result<Response> {
    written(api, "per-object", |api, out| {
        let scope = Scope::everything(Grouping::PerObject);
        totals::write(api, out);
        node::write(api, out);
        reload::write(api, out);
        queues::write_all(api, &scope, out);
        queues::write_info(api, &scope, out);
        channels::write_all(api, &scope, out);
        totals::write_global(api, out);
        own::write_ages(api, &scope, out);
        own::write_flow(api, out);
        stored::write(api, out);
        stored::write_logs(api, &scope, out);
        incidents::write(api, &scope, out);
        flow::write_queues(api, &scope, out);
        flow::write_meters(api, out);
    })
    .await
}

async fn detailed(query: ListQuery, State(api): State<Api>) -> Result<Response> {
    let families: Vec<String> = query.all("family").map(str::to_owned).collect();
    let vhosts: Vec<String> = query.all("vhost").map(str::to_owned).collect();
    let queue = match query.get("queue") {
        None => None,
        Some(pattern) => Some(Regex::new(pattern).map_err(|_| {
            ApiError::bad_request(format!("invalid regular expression: {pattern}"))
        })?),
    };
    written(api, "detailed", move |api, out| {
        let scope = Scope::new(Grouping::Detailed, vhosts, queue);
        for family in &families {
            match family.as_str() {
                "queue_coarse_metrics" => queues::write_coarse(api, &scope, out),
                "queue_metrics" => queues::write_figures(api, &scope, out),
                "queue_flow_metrics" => flow::write_queues(api, &scope, out),
                "queue_consumer_count" => queues::write_consumers(api, &scope, out),
                "queue_delivery_metrics" => queues::write_deliveries(api, &scope, out),
                "exchange_metrics" => channels::write_exchanges(api, &scope, out),
                "channel_metrics" => channels::write_channels(api, &scope, out),
                "channel_exchange_metrics" => channels::write_publishing(api, &scope, out),
                "channel_queue_metrics" => channels::write_taking(api, &scope, out),
                "connection_metrics" | "connection_coarse_metrics" => {
                    channels::write_connections(api, &scope, out);
                }
                "connection_churn_metrics" => totals::write_churn(api, "detailed_", out),
                "node_coarse_metrics" => node::write_coarse(api, "detailed_", out),
                "node_metrics" => node::write_limits(api, "detailed_", out),
                "auth_attempt_metrics" => node::write_logins(api, "detailed_", out),
                "ra_metrics" => stored::write_logs(api, &scope, out),
                "vhost_status" => totals::write_vhosts(api, &scope, out),
                "exchange_bindings" => totals::write_exchange_bindings(api, &scope, out),
                "exchange_names" => totals::write_exchange_names(api, &scope, out),
                // rabbitmq: families that nobody knows are passed over
                _ => {}
            }
        }
    })
    .await
}

async fn memory_breakdown(State(api): State<Api>) -> Result<Response> {
    written(api, "memory-breakdown", |api, out| {
        node::write_memory(api, out)
    })
    .await
}

/// The process answers.
async fn live() -> &'static str {
    "ok\n"
}

/// The broker serves clients.
async fn ready(State(api): State<Api>) -> Response {
    let serves = api
        .listeners()
        .iter()
        .any(|open| matches!(open.protocol, "amqp" | "amqp/ssl"));
    match serves {
        true => "ok\n".into_response(),
        false => (
            StatusCode::SERVICE_UNAVAILABLE,
            "no AMQP listener is open\n",
        )
            .into_response(),
    }
}
