//! Publishing and getting single messages, for people who look what is going on.

mod peek;
mod properties;
mod relocate;
mod selection;

use axum::Json;
use axum::extract::State;
use axum::routing::{get, post};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use broker::{DeclareQueue, MessageView};
use broker_core::{QueueName, Refusal, VhostName};
use management_api::{GotMessage, Health, MessageContent, Routed};
use serde_json::{Value, json};

use super::{GET, POST, Paths, resource};
use crate::access::Caller;
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::internal_client::{InternalClient, missing};
use crate::paths::exchange_name;
use crate::segments::Path;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    peek::paths()
        .merge(relocate::paths())
        .route(
            "/exchanges/{vhost}/{exchange}/publish",
            resource(POST, post(publish)),
        )
        .route(
            "/queues/{vhost}/{queue}/get",
            resource(POST, post(get_messages)),
        )
        .route("/aliveness-test/{vhost}", resource(GET, get(aliveness)))
}

async fn publish(
    caller: Caller,
    Path((vhost, exchange)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<Json<Routed>> {
    let vhost = enter(&api, &caller, &vhost)?;
    let exchange = exchange_name(&exchange);
    if api
        .broker()
        .metadata()
        .vhost(&vhost)?
        .exchange(exchange)
        .is_none()
    {
        return Err(ApiError::NotFound("exchange_not_found".into()));
    }
    body.require(&["properties", "routing_key", "payload", "payload_encoding"])?;
    let properties = properties::encode(body.get("properties"))?;
    let key = body.required_text("routing_key")?;
    let payload = payload(&body)?;
    let mut client = InternalClient::open(api.broker(), &caller.user, &vhost)?;
    let routed = client.publish(exchange, &key, &properties, &payload).await;
    client.close().await;
    Ok(Json(Routed { routed: routed? }))
}

/// The vhost of a path, for operations that open a session in it.
fn enter(api: &Api, caller: &Caller, vhost: &str) -> Result<VhostName> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    metadata.vhost(&vhost)?;
    if metadata.permission(&caller.user, &vhost).is_none() {
        return Err(match caller.is_administrator() {
            true => ApiError::NotAuthorised(crate::error::ACCESS_REFUSED),
            false => ApiError::hidden(),
        });
    }
    Ok(vhost)
}

fn payload(body: &Body) -> Result<Vec<u8>> {
    let payload = body.required_text("payload")?;
    match body.text("payload_encoding")? {
        Some("string") => Ok(payload.into_bytes()),
        Some("base64") => BASE64_STANDARD
            .decode(&payload)
            .map_err(|_| ApiError::bad_request(json!(["not_base64", payload]))),
        other => Err(ApiError::bad_request(json!([
            "unsupported_encoding",
            other
        ]))),
    }
}

/// What becomes of a message after it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckMode {
    Ack,
    Nack,
    Reject,
    Discard,
}

impl AckMode {
    fn parse(mode: Option<&str>) -> Result<Self> {
        match mode {
            Some("ack_requeue_false") => Ok(Self::Ack),
            Some("ack_requeue_true") => Ok(Self::Nack),
            Some("reject_requeue_true") => Ok(Self::Reject),
            Some("reject_requeue_false") => Ok(Self::Discard),
            other => Err(ApiError::bad_request(format!(
                "Invalid ackmode value: {}. Valid values are: ack_requeue_true, ack_requeue_false, \
                 reject_requeue_true, reject_requeue_false",
                other.unwrap_or_default()
            ))),
        }
    }
}

/// Most messages that one request gets: each is answered whole.
const GET_COUNT_MAX: u64 = 10_000;
/// Bytes of bodies after which a request gets no more messages.
const GET_BYTES_MAX: usize = 64 << 20;

/// What a get asks for.
struct Wanted {
    count: u64,
    mode: AckMode,
    as_base64: bool,
    truncate: usize,
}

impl Wanted {
    fn of(body: &Body) -> Result<Self> {
        body.require(&["count", "ackmode", "encoding"])?;
        let as_base64 = match body.text("encoding")? {
            Some("auto") => false,
            Some("base64") => true,
            other => return Err(ApiError::bad_request(json!(["invalid_encoding", other]))),
        };
        Ok(Self {
            count: number(body, "count")?
                .unwrap_or_default()
                .min(GET_COUNT_MAX),
            mode: AckMode::parse(body.text("ackmode")?)?,
            as_base64,
            truncate: number(body, "truncate")?.map_or(usize::MAX, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
        })
    }
}

/// A number, also as a string of digits.
fn number(body: &Body, key: &str) -> Result<Option<u64>> {
    let number = match body.get(key) {
        None => return Ok(None),
        Some(Value::String(digits)) => digits.parse().ok(),
        Some(other) => other.as_u64(),
    };
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(ApiError::bad_request(json!(["not_integer", body.get(key)]))),
    }
}

async fn get_messages(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<Json<Vec<GotMessage>>> {
    let vhost = enter(&api, &caller, &vhost)?;
    if api
        .broker()
        .metadata()
        .vhost(&vhost)?
        .queue(&queue)
        .is_none()
    {
        return Err(ApiError::NotFound("queue_not_found".into()));
    }
    let wanted = Wanted::of(&body)?;
    let mut client = InternalClient::open(api.broker(), &caller.user, &vhost)?;
    let messages = take(&mut client, &QueueName::new(queue), &wanted).await;
    client.close().await;
    Ok(Json(messages?))
}

/// Gets all first and settles them afterwards, so that none is got twice.
async fn take(
    client: &mut InternalClient,
    queue: &QueueName,
    wanted: &Wanted,
) -> Result<Vec<GotMessage>> {
    let mut messages = Vec::new();
    let mut tags = Vec::new();
    let mut bytes = 0;
    for _ in 0..wanted.count {
        let got = client
            .channel()
            .get(queue.clone(), wanted.mode == AckMode::Ack)
            .await;
        let Some(got) = got.map_err(missing)? else {
            break;
        };
        if wanted.mode != AckMode::Ack {
            tags.push(got.delivery_tag);
        }
        let shown = got.with_view(|view| {
            bytes += view.body.len();
            content(&view, wanted.truncate, wanted.as_base64)
        });
        let content =
            shown.ok_or_else(|| ApiError::Broken("a stored message is damaged".into()))?;
        messages.push(GotMessage {
            redelivered: got.redelivered,
            message_count: got.message_count,
            content,
        });
        if bytes >= GET_BYTES_MAX {
            break;
        }
    }
    settle(client, &tags, wanted.mode)?;
    Ok(messages)
}

/// The last one first: returned messages then stand in their old order.
fn settle(client: &mut InternalClient, tags: &[u64], mode: AckMode) -> Result<(), Refusal> {
    let channel = client.channel();
    for tag in tags.iter().rev() {
        match mode {
            AckMode::Ack => {}
            AckMode::Nack => channel.nack(*tag, false, true)?,
            AckMode::Reject => channel.reject(*tag, true)?,
            AckMode::Discard => channel.reject(*tag, false)?,
        }
    }
    channel.end_turn();
    Ok(())
}

fn content(view: &MessageView<'_>, truncate: usize, as_base64: bool) -> MessageContent {
    let body = &view.body[..view.body.len().min(truncate)];
    let (payload, payload_encoding) = match std::str::from_utf8(body) {
        Ok(text) if !as_base64 => (text.to_owned(), "string"),
        _ => (BASE64_STANDARD.encode(body), "base64"),
    };
    MessageContent {
        payload_bytes: view.body.len(),
        exchange: view.exchange.to_owned(),
        routing_key: view.routing_key.to_owned(),
        properties: properties::shown(view.properties),
        payload,
        payload_encoding: payload_encoding.to_owned(),
    }
}

/// The queue that aliveness tests leave behind, so that the next one finds it.
// rabbitmq: aliveness-test
const ALIVENESS_QUEUE: &str = "aliveness-test";

async fn aliveness(
    caller: Caller,
    Path(vhost): Path<String>,
    State(api): State<Api>,
) -> Result<Json<Health>> {
    let exists = api
        .broker()
        .metadata()
        .vhost(&VhostName::new(&vhost))
        .is_ok();
    if !exists {
        return Err(ApiError::ObjectNotFound);
    }
    let vhost = enter(&api, &caller, &vhost)?;
    let mut client = InternalClient::open(api.broker(), &caller.user, &vhost)?;
    let alive = round_trip(&mut client).await;
    client.close().await;
    alive?;
    Ok(Json(Health::ok()))
}

async fn round_trip(client: &mut InternalClient) -> Result<()> {
    let queue = QueueName::new(ALIVENESS_QUEUE);
    let declare = DeclareQueue {
        queue: queue.clone(),
        passive: false,
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: amqp::Table::default(),
    };
    client.channel().declare_queue(declare).await?;
    let no_properties = amqp::PropertiesBuilder::new().build();
    client
        .publish("", ALIVENESS_QUEUE, &no_properties, b"test_message")
        .await?;
    match client.channel().get(queue, true).await? {
        Some(_) => Ok(()),
        None => Err(ApiError::Broken(
            "the message of an aliveness test did not arrive".into(),
        )),
    }
}
