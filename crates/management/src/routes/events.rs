//! What happens, as it happens, by server-sent events.
// whatwg html: server-sent events

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::routing::get;
use broker::observe::{Event, EventListener, Heard};
use futures::Stream;
use management_api::EventShape;
use tokio_util::sync::CancellationToken;

use super::{GET, Paths, resource};
use crate::access::Caller;
use crate::list::ListQuery;
use crate::state::Api;
use crate::time::{iso8601, now_ms};

pub(super) fn paths() -> Paths {
    Paths::new().route("/events", resource(GET, get(events)))
}

/// A sign of life, so that nobody on the way takes the connection for dead.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// Who listens, and to what.
struct Listening {
    api: Api,
    caller: Caller,
    prefix: String,
    listener: EventListener,
    shutdown: CancellationToken,
}

async fn events(
    caller: Caller,
    query: ListQuery,
    State(api): State<Api>,
    Extension(shutdown): Extension<CancellationToken>,
) -> Sse<impl Stream<Item = Result<Message, Infallible>>> {
    let listening = Listening {
        listener: api.broker().listen(),
        api,
        caller,
        prefix: query.get("type").unwrap_or_default().to_owned(),
        shutdown,
    };
    let stream = futures::stream::unfold(listening, |mut listening| async move {
        let event = listening.next().await?;
        Some((Ok(message(&event)), listening))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE))
}

impl Listening {
    /// The next event for this caller; `None` ends the stream.
    async fn next(&mut self) -> Option<EventShape> {
        loop {
            let heard = tokio::select! {
                heard = self.listener.next() => heard?,
                () = self.shutdown.cancelled() => return None,
            };
            match heard {
                Heard::Event(event) if self.is_for_caller(&event) => return Some(shape(event)),
                Heard::Event(_) => {}
                Heard::Lost(count) => {
                    return Some(EventShape {
                        event: "lost".into(),
                        time: iso8601(now_ms()),
                        vhost: None,
                        about: format!("{count} events: this listener is too slow"),
                    });
                }
            }
        }
    }

    fn is_for_caller(&self, event: &Event) -> bool {
        event.name.starts_with(&self.prefix)
            && match &event.vhost {
                None => self.caller.is_monitor(),
                Some(vhost) => self.caller.sees(&self.api.broker().metadata(), vhost),
            }
    }
}

fn shape(event: Event) -> EventShape {
    EventShape {
        event: event.name.to_owned(),
        time: iso8601(event.at_ms),
        vhost: event.vhost.map(|vhost| vhost.to_string()),
        about: event.about,
    }
}

fn message(event: &EventShape) -> Message {
    let message = Message::default().event(&event.event);
    message
        .json_data(event)
        // A shape has string keys and no failing parts.
        .unwrap_or_default()
}
