//! Moving messages to another place, and sending dead letters back: a part of the queue a request.
//!
//! A message is held before it is published and settled after its target has confirmed it, so it
//! is never lost, and is doubled only when the node dies in between. What no queue takes stays.

use axum::Json;
use axum::extract::State;
use axum::routing::post;
use broker::observe::{MessageState, QueuedMessage, Which};
use broker_core::metadata::{QueueId, QueueRecord};
use broker_core::permission::Operation;
use broker_core::{QueueName, VhostName};
use management_api::{MoveReport, MoveRequest, MoveSample, MoveTarget};
use std::sync::Arc;
use std::time::Duration;

use super::enter;
use super::selection::{LastDeath, matches};
use crate::access::Caller;
use crate::apart::apart;
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::internal_client::{Copy, InternalClient};
use crate::routes::{POST, Paths, resource};
use crate::segments::Path;
use crate::state::Api;
use crate::time::now_ms;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route(
            "/queues/{vhost}/{queue}/move",
            resource(POST, post(move_messages)),
        )
        .route(
            "/queues/{vhost}/{queue}/redrive",
            resource(POST, post(redrive)),
        )
}

/// Messages looked at in one request.
const EXAMINED_MAX: usize = 1_000;
/// Messages of a dry run that are shown.
const SAMPLES_MAX: usize = 20;
/// Longest time that a rate may stretch one request to.
const PACE_MAX: Duration = Duration::from_secs(20);

async fn move_messages(
    caller: Caller,
    path: Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<Json<MoveReport>> {
    let request = parsed(body)?;
    if request.to.is_none() {
        return Err(ApiError::missing(&["to"]));
    }
    relocate(caller, path, api, request).await
}

async fn redrive(
    caller: Caller,
    path: Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<Json<MoveReport>> {
    relocate(caller, path, api, parsed(body)?).await
}

fn parsed(body: Body) -> Result<MoveRequest> {
    let request: MoveRequest = serde_json::from_value(body.0.into())
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    if let Some(MoveTarget {
        queue, exchange, ..
    }) = &request.to
        && queue.is_some() == exchange.is_some()
    {
        return Err(ApiError::bad_request(
            "to must name either a queue or an exchange",
        ));
    }
    if request
        .rate
        .is_some_and(|rate| !(rate.is_finite() && rate > 0.0))
    {
        return Err(ApiError::bad_request(
            "rate must be more than 0 messages a second",
        ));
    }
    Ok(request)
}

async fn relocate(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    api: Api,
    request: MoveRequest,
) -> Result<Json<MoveReport>> {
    let vhost = enter(&api, &caller, &vhost)?;
    let record = {
        let metadata = api.broker().metadata();
        let found = metadata.vhost(&vhost)?.queue(&queue).cloned();
        let record = found.ok_or(ApiError::ObjectNotFound)?;
        caller.permit(&metadata, &vhost, &Operation::QueueRead { queue: &queue })?;
        check_target(&api, &vhost, request.to.as_ref())?;
        record
    };
    let part = Part {
        api,
        vhost,
        record,
        request,
    };
    // Whoever asked may hang up: what is held must be settled all the same.
    let work = tokio::spawn(async move { part.run(&caller).await });
    match work.await {
        Ok(report) => Ok(Json(report?)),
        Err(error) => Err(ApiError::Broken(format!("a move broke off: {error}"))),
    }
}

fn check_target(api: &Api, vhost: &VhostName, to: Option<&MoveTarget>) -> Result<()> {
    let metadata = api.broker().metadata();
    let vhost = metadata.vhost(vhost)?;
    let Some(to) = to else {
        return Ok(());
    };
    match (&to.queue, &to.exchange) {
        (Some(queue), _) if vhost.queue(queue).is_none() => {
            Err(ApiError::NotFound("queue_not_found".into()))
        }
        (_, Some(exchange)) if vhost.exchange(exchange).is_none() => {
            Err(ApiError::NotFound("exchange_not_found".into()))
        }
        _ => Ok(()),
    }
}

/// One part of the work.
struct Part {
    api: Api,
    vhost: VhostName,
    record: Arc<QueueRecord>,
    request: MoveRequest,
}

/// A message that is to move.
struct Chosen {
    entry: u64,
    death: Option<LastDeath>,
    copy: Copy,
}

impl Part {
    async fn run(self, caller: &Caller) -> Result<MoveReport> {
        let part = Arc::new(self);
        let looking = part.clone();
        let (mut report, chosen) = apart(move || looking.choose()).await?;
        report.dry_run = part.request.dry_run;
        if part.request.dry_run {
            report.samples = chosen.iter().take(SAMPLES_MAX).map(sample).collect();
            return Ok(report);
        }
        if chosen.is_empty() {
            return Ok(report);
        }
        let begun = tokio::time::Instant::now();
        let mut client = InternalClient::open(part.api.broker(), &caller.user, &part.vhost)?;
        let moved = move_chosen(&mut client, part.record.id, &chosen).await;
        client.close().await;
        let (moved, refused) = moved?;
        report.moved = moved;
        report.refused = refused;
        if let Some(rate) = part.request.rate {
            let due = Duration::from_secs_f64(moved as f64 / rate).min(PACE_MAX);
            tokio::time::sleep_until(begun + due).await;
        }
        Ok(report)
    }

    /// Looks at the next messages and picks those that the filter leaves.
    fn choose(&self) -> Result<(MoveReport, Vec<Chosen>)> {
        let request = &self.request;
        let first = request.after.map_or(0, |after| after.saturating_add(1));
        // A pace is kept by parts that take no longer than a request may.
        let paced = request.rate.map_or(EXAMINED_MAX, |rate| {
            (rate * PACE_MAX.as_secs_f64()).ceil() as usize
        });
        let count = EXAMINED_MAX.min(paced.max(1));
        let seen = self
            .api
            .broker()
            .messages_from(self.record.id, Which::All, first, 0, count);
        let limit = request.limit.unwrap_or(u64::MAX);
        let now_ms = now_ms();
        let mut report = MoveReport {
            more: seen.len() == count,
            ..MoveReport::default()
        };
        let mut chosen = Vec::new();
        for message in &seen {
            if report.matched >= limit {
                break;
            }
            report.examined += 1;
            report.last_entry = Some(message.entry);
            if !matches!(message.state, MessageState::Ready) {
                continue;
            }
            if let Some(one) = self.chosen(message, now_ms) {
                report.matched += 1;
                chosen.push(one);
            }
        }
        report.more |= report.examined < seen.len() as u64;
        Ok((report, chosen))
    }

    fn chosen(&self, message: &QueuedMessage, now_ms: u64) -> Option<Chosen> {
        message.with_view(|view| {
            let properties = amqp::Properties::trusted(view.properties);
            let death = LastDeath::of(&properties);
            if !matches(&self.request.filter, &properties, death.as_ref(), now_ms) {
                return None;
            }
            let (exchange, routing_key) = match &self.request.to {
                Some(to) => target(to, view.routing_key),
                None => self.origin(death.as_ref()?),
            };
            Some(Chosen {
                entry: message.entry,
                death,
                copy: Copy {
                    exchange,
                    routing_key,
                    properties: view.properties.to_vec(),
                    body: view.body.to_vec(),
                },
            })
        })?
    }

    /// Where a dead letter came from: the queue that it died in, and only that one; when it is
    /// gone, the exchange it was published to.
    fn origin(&self, death: &LastDeath) -> (String, String) {
        let metadata = self.api.broker().metadata();
        let vhost = metadata.vhost(&self.vhost);
        let is_there = vhost.is_ok_and(|vhost| vhost.queue(&death.queue).is_some());
        let queue = QueueName::new(&death.queue);
        match is_there && queue != self.record.name {
            true => (String::new(), death.queue.clone()),
            false => (death.exchange.clone(), death.routing_key.clone()),
        }
    }
}

fn target(to: &MoveTarget, own_key: &str) -> (String, String) {
    match (&to.queue, &to.exchange) {
        (Some(queue), _) => (String::new(), queue.clone()),
        (None, exchange) => {
            let key = to.routing_key.as_deref().unwrap_or(own_key);
            (exchange.clone().unwrap_or_default(), key.to_owned())
        }
    }
}

fn sample(chosen: &Chosen) -> MoveSample {
    let death = chosen.death.as_ref();
    MoveSample {
        entry: chosen.entry,
        reason: death.map(|death| death.reason.clone()),
        died_in: death.map(|death| death.queue.clone()),
        to_exchange: chosen.copy.exchange.clone(),
        to_routing_key: chosen.copy.routing_key.clone(),
    }
}

/// Answers how many were moved, and how many stay since nobody took them.
async fn move_chosen(
    client: &mut InternalClient,
    queue: QueueId,
    chosen: &[Chosen],
) -> Result<(u64, u64)> {
    let entries: Vec<u64> = chosen.iter().map(|chosen| chosen.entry).collect();
    let held = client.channel().hold_chosen(queue, &entries);
    // What a consumer got meanwhile is its own.
    let ours: Vec<&Chosen> = chosen
        .iter()
        .filter(|chosen| held.binary_search(&chosen.entry).is_ok())
        .collect();
    let copies: Vec<&Copy> = ours.iter().map(|chosen| &chosen.copy).collect();
    let taken = client.publish_all(&copies).await?;
    let mut moved = Vec::new();
    let mut refused = Vec::new();
    for (chosen, taken) in ours.iter().zip(taken) {
        match taken {
            true => moved.push(chosen.entry),
            false => refused.push(chosen.entry),
        }
    }
    let channel = client.channel();
    channel.settle_chosen(queue, &moved, true);
    channel.settle_chosen(queue, &refused, false);
    channel.end_turn();
    Ok((moved.len() as u64, refused.len() as u64))
}
