//! Messages looked at where they are, and those that are handed out.

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use broker::observe::{MessageState, Which};
use broker_core::metadata::QueueId;
use broker_core::permission::Operation;
use management_api::{MessageFilter, QueuedMessage};
use serde_json::json;

use super::selection::{LastDeath, is_open, matches, of_query};
use super::{content, enter};
use crate::access::Caller;
use crate::apart::apart;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::routes::{GET, Paths, resource};
use crate::segments::Path;
use crate::show;
use crate::state::Api;
use crate::time::now_ms;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/queues/{vhost}/{queue}/peek", resource(GET, get(peek)))
        .route(
            "/queues/{vhost}/{queue}/unacked",
            resource(GET, get(unacked)),
        )
}

/// Messages of a peek when the query does not say, and most of them.
const PEEK_COUNT_DEFAULT: usize = 10;
const PEEK_COUNT_MAX: usize = 1_000;
/// Messages that a peek with a filter looks at.
const SIFTED_MAX: usize = 100_000;
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
    let filter = of_query(&query)?;
    // Reads from disk, and passes over what lies before the offset.
    apart(move || {
        let messages = match is_open(&filter) {
            true => api.broker().messages(record.id, which, offset, count),
            false => sifted(&api, record.id, which, &filter, offset, count),
        };
        let shown = messages
            .iter()
            .map(|message| queued(message, truncate, api.node()));
        Ok(query.answer_whole(shown.collect(), show::json))
    })
    .await
}

/// The messages that a filter leaves: those behind the `offset`-th of them.
fn sifted(
    api: &Api,
    queue: QueueId,
    which: Which,
    filter: &MessageFilter,
    offset: usize,
    count: usize,
) -> Vec<broker::observe::QueuedMessage> {
    let now_ms = now_ms();
    let is_wanted = |message: &broker::observe::QueuedMessage| {
        let seen = message.with_view(|view| {
            let properties = amqp::Properties::trusted(view.properties);
            let death = LastDeath::of(&properties);
            matches(filter, &properties, death.as_ref(), now_ms)
        });
        seen.unwrap_or(false)
    };
    let mut found = Vec::new();
    let (mut first, mut examined, mut passed) = (0, 0, 0);
    while found.len() < count && examined < SIFTED_MAX {
        let part = api
            .broker()
            .messages_from(queue, which, first, 0, PEEK_COUNT_MAX);
        let Some(last) = part.last() else {
            break;
        };
        first = last.entry + 1;
        examined += part.len();
        for message in part.into_iter().filter(is_wanted) {
            if passed < offset {
                passed += 1;
            } else if found.len() < count {
                found.push(message);
            }
        }
    }
    found
}

fn queued(message: &broker::observe::QueuedMessage, truncate: usize, node: &str) -> QueuedMessage {
    let (state, holder) = match &message.state {
        MessageState::Ready => ("ready", None),
        MessageState::Delayed { .. } => ("delayed", None),
        MessageState::DeadLettering { .. } => ("dead-lettering", None),
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
        delayed_until: match message.state {
            MessageState::Delayed { until_ms } => Some(until_ms),
            _ => None,
        },
        message: message.with_view(|view| content(&view, truncate, false)),
    }
}
