//! Messages looked at where they are, and those that are handed out.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use broker::observe::{MessageState, Which};
use broker_core::permission::Operation;
use management_api::QueuedMessage;
use serde_json::json;

use super::{content, enter};
use crate::access::Caller;
use crate::apart::apart;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::routes::{GET, resource};
use crate::segments::Path;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Router<Api> {
    Router::new()
        .route("/queues/{vhost}/{queue}/peek", resource(GET, get(peek)))
        .route(
            "/queues/{vhost}/{queue}/unacked",
            resource(GET, get(unacked)),
        )
}

/// Messages of a peek when the query does not say, and most of them.
const PEEK_COUNT_DEFAULT: usize = 10;
const PEEK_COUNT_MAX: usize = 1_000;
/// Bytes of each body of a peek when the query does not say.
const PEEK_TRUNCATE_DEFAULT: usize = 64 << 10;

/// Shows messages where they are: nothing is delivered, counted or moved by it.
async fn peek(
    caller: Caller,
    path: Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    look(caller, path, query, api, Which::All).await
}

/// Shows the messages that are handed out, with who has them and since when.
async fn unacked(
    caller: Caller,
    path: Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    look(caller, path, query, api, Which::Unacked).await
}

async fn look(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    query: ListQuery,
    api: Api,
    which: Which,
) -> Result<Response> {
    let vhost = enter(&api, &caller, &vhost)?;
    let record = {
        let metadata = api.broker().metadata();
        let found = metadata.vhost(&vhost)?.queue(&queue).cloned();
        let record = found.ok_or(ApiError::ObjectNotFound)?;
        caller.permit(&metadata, &vhost, &Operation::QueueRead { queue: &queue })?;
        record
    };
    let number = |key, default| match query.get(key) {
        None => Ok(default),
        Some(digits) => digits
            .parse::<usize>()
            .map_err(|_| ApiError::bad_request(json!(["not_integer", key, digits]))),
    };
    let offset = number("offset", 0)?;
    let count = number("count", PEEK_COUNT_DEFAULT)?.min(PEEK_COUNT_MAX);
    let truncate = number("truncate", PEEK_TRUNCATE_DEFAULT)?;
    // Reads from disk, and passes over what lies before the offset.
    apart(move || {
        let messages = api.broker().messages(record.id, which, offset, count);
        let shown = messages
            .iter()
            .map(|message| queued(message, truncate, api.node()));
        Ok(query.answer_whole(shown.collect(), show::json))
    })
    .await
}

fn queued(message: &broker::observe::QueuedMessage, truncate: usize, node: &str) -> QueuedMessage {
    let (state, holder) = match &message.state {
        MessageState::Ready => ("ready", None),
        MessageState::Delayed => ("delayed", None),
        MessageState::DeadLettering => ("dead-lettering", None),
        MessageState::Unacked {
            channel,
            consumer,
            since_ms,
        } => ("unacked", Some((channel, consumer, *since_ms))),
    };
    QueuedMessage {
        entry: message.entry,
        state: state.to_owned(),
        bytes: message.bytes,
        priority: message.priority,
        persistent: message.persistent,
        expires_at: message.expires_at_ms,
        delivery_count: message.delivery_count,
        acquired_count: message.acquired_count,
        consumer_tag: holder
            .and_then(|(_, consumer, _)| consumer.as_ref())
            .map(ToString::to_string),
        channel_details: holder
            .and_then(|(channel, _, _)| channel.as_ref())
            .map(|channel| show::channel_details(channel, node)),
        unacked_since: holder.map(|(_, _, since_ms)| since_ms),
        message: message.with_view(|view| content(&view, truncate, false)),
    }
}
