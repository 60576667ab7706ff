//! The table of paths, and what all answers have in common.

mod bindings;
mod clients;
mod definitions;
mod disk;
mod events;
mod exchanges;
mod features;
mod health;
mod incidents;
mod insight;
mod limits;
mod logins;
mod messages;
mod nodes;
mod openapi;
mod overview;
mod parameters;
mod permissions;
mod policies;
mod queues;
mod quorum;
mod reload;
mod users;
mod vhosts;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, options};
use broker_core::metadata::Outcome;

use crate::error::ApiError;
use crate::state::Api;

/// Largest body of a request, in bytes: a message of 16 MiB as base64, or definitions of some ten
/// thousand queues.
const BODY_BYTES_MAX: usize = 24 << 20;

const GET: &str = "HEAD, GET, OPTIONS";
const GET_PUT: &str = "HEAD, GET, PUT, OPTIONS";
const GET_PUT_DELETE: &str = "HEAD, GET, PUT, DELETE, OPTIONS";
const GET_DELETE: &str = "HEAD, GET, DELETE, OPTIONS";
const GET_POST: &str = "HEAD, GET, POST, OPTIONS";
const GET_POST_DELETE: &str = "GET, POST, DELETE, OPTIONS";
const POST_DELETE: &str = "POST, DELETE, OPTIONS";
const PUT_DELETE: &str = "PUT, DELETE, OPTIONS";
const PUT: &str = "PUT, OPTIONS";
const POST: &str = "POST, OPTIONS";
const DELETE: &str = "DELETE, OPTIONS";

pub(crate) use nodes::memory_parts;
pub(crate) use overview::RUNTIME_VERSION;

/// All resources of the API.
fn all() -> Paths {
    Paths::new()
        .merge(overview::paths())
        .merge(nodes::paths())
        .merge(vhosts::paths())
        .merge(users::paths())
        .merge(permissions::paths())
        .merge(limits::paths())
        .merge(policies::paths())
        .merge(parameters::paths())
        .merge(exchanges::paths())
        .merge(queues::paths())
        .merge(quorum::paths())
        .merge(messages::paths())
        .merge(bindings::paths())
        .merge(clients::paths())
        .merge(definitions::paths())
        .merge(features::paths())
        .merge(reload::paths())
        .merge(logins::paths())
        .merge(health::paths())
        .merge(insight::paths())
        .merge(events::paths())
        .merge(disk::paths())
        .merge(incidents::paths())
        .merge(openapi::paths())
}

/// The HTTP API.
pub(crate) fn api(state: Api) -> Router {
    Router::new()
        .nest("/api", all().router)
        .route("/", get(front_page))
        .fallback(nothing_here)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::map_response(never_cached))
        .with_state(state)
}

/// Resources with their paths: served, and listed for those who describe the API.
pub(crate) struct Paths {
    router: Router<Api>,
    /// Paths below `/api` with what they allow.
    listed: Vec<(&'static str, &'static str)>,
}

impl Paths {
    pub(crate) fn new() -> Self {
        Self {
            router: Router::new(),
            listed: Vec::new(),
        }
    }

    pub(crate) fn route(mut self, path: &'static str, resource: Resource) -> Self {
        self.router = self.router.route(path, resource.methods);
        self.listed.push((path, resource.allow));
        self
    }

    pub(crate) fn merge(mut self, others: Self) -> Self {
        self.router = self.router.merge(others.router);
        self.listed.extend(others.listed);
        self
    }
}

/// One resource: its methods and what it says of them.
pub(crate) struct Resource {
    allow: &'static str,
    methods: MethodRouter<Api>,
}

/// One resource: its methods, `OPTIONS` among them, and the `allow` header on every answer.
// rabbitmq: OPTIONS needs no login, a wrong method is refused before the login
fn resource(allow: &'static str, methods: MethodRouter<Api>) -> Resource {
    let with_allow = move |mut response: Response| async move {
        response
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static(allow));
        response
    };
    let methods = methods
        .merge(options(|| async { StatusCode::OK }))
        .fallback(|| async { StatusCode::METHOD_NOT_ALLOWED })
        .layer(middleware::map_response(with_allow));
    Resource { allow, methods }
}

async fn nothing_here() -> Response {
    let mut response = ApiError::ObjectNotFound.into_response();
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(GET));
    response
}

async fn front_page() -> &'static str {
    "The HTTP API is under /api.\n"
}

async fn never_cached(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        header::VARY,
        HeaderValue::from_static("accept, accept-encoding, origin"),
    );
    response
}

/// 201 when the change made something that did not exist, else 204.
fn put_answer(outcome: &Outcome) -> StatusCode {
    if outcome.created() {
        StatusCode::CREATED
    } else {
        StatusCode::NO_CONTENT
    }
}

/// 204 when the change removed something.
fn delete_answer(outcome: &Outcome) -> Result<StatusCode, ApiError> {
    if outcome.is_empty() {
        Err(ApiError::ObjectNotFound)
    } else {
        Ok(StatusCode::NO_CONTENT)
    }
}
