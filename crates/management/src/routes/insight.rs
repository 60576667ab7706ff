//! Answers to why: what limits a queue, which settings it goes by and from whom, where a message
//! would go, what holds a publisher.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use broker::observe::{AlarmView, ChannelView, ConnectionView, QueueFlow};
use broker_core::VhostName;
use broker_core::metadata::QueueRecord;
use broker_core::settings::Origin;
use management_api::{
    ConsumerLoad, HoldReason, PublisherWhy, QueueSetting, QueueSettings, QueueWhy, RouteAnswer,
    RouteQuestion, RoutedTo,
};
use serde_json::{Value, json};

use super::queues::find;
use super::{GET, POST, Paths, resource};
use crate::access::Caller;
use crate::apart::apart;
use crate::body::{Body, to_term};
use crate::error::{ApiError, Result};
use crate::internal_client::missing;
use crate::paths::exchange_name;
use crate::segments::Path;
use crate::show;
use crate::state::Api;
use crate::statistics::{ACKED, DELIVERED, PUBLISHED, TAKEN};
use crate::time::now_ms;
use crate::verdict::Figures;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/queues/{vhost}/{queue}/why", resource(GET, get(why)))
        .route(
            "/queues/{vhost}/{queue}/settings",
            resource(GET, get(settings)),
        )
        .route(
            "/exchanges/{vhost}/{exchange}/route",
            resource(POST, post(route)),
        )
        .route(
            "/publishers/{publisher}/why",
            resource(GET, get(publisher_why)),
        )
}

async fn why(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<Json<QueueWhy>> {
    let record = find(&api, &caller, &VhostName::new(vhost), &queue)?;
    // Walks over messages in hand.
    let group = api.broker().group_of(record.id);
    let mut shown = apart(move || {
        let flow = api.broker().queue_flow(record.id);
        let figures = look(&api, &record, flow.as_ref());
        let mut shown = shown(figures, flow.as_ref().and_then(show::queue_flow));
        if let Some((messages, at)) = api.broker().refused_publishes(record.id) {
            let seconds = now_ms().saturating_sub(at.0) / 1_000;
            shown.text.push_str(&format!(
                "; it was full and has refused {messages} publishes, the last {seconds} s ago"
            ));
            let figure = ("refused_publishes".to_owned(), json!(messages));
            shown.figures.extend([figure]);
        }
        let view = api.broker().queue_view(&record);
        if let Some((why, _)) = view.and_then(|view| view.dead_letters_held) {
            shown
                .text
                .push_str(&format!("; its dead letters are held: {why}"));
        }
        Ok(shown)
    })
    .await?;
    if let Some(why) = group.and_then(|group| group.why()) {
        shown.verdict = "no_majority".to_owned();
        shown.text = why;
        shown.next = Some("start the nodes that are missing, or mend the network".to_owned());
    }
    Ok(Json(shown))
}

fn look(api: &Api, record: &Arc<QueueRecord>, flow: Option<&QueueFlow>) -> Figures {
    let broker = api.broker();
    let counts = broker.queue_counts(record.id).unwrap_or_default();
    let now_ms = now_ms();
    let ages = broker.unacked_ages(record.id);
    let age_of = |channel: &str, tag: &str| {
        let age = ages.iter().find(|age| {
            age.consumer
                .as_ref()
                .is_some_and(|known| known.as_str() == tag)
                && age
                    .channel
                    .as_ref()
                    .is_some_and(|known| known.name() == channel)
        });
        age.map(|age| now_ms.saturating_sub(age.since_ms))
    };
    let consumers = broker.consumers_of(record.id).into_iter().map(|info| {
        let channel = info.channel.name();
        ConsumerLoad {
            oldest_unacked_ms: age_of(&channel, info.tag.as_str()),
            consumer_tag: Some(info.tag.to_string()),
            channel: Some(channel),
            prefetch: info.prefetch,
            unacked: u64::from(info.unacked),
            held_by: info.held_by.map(|limit| limit.to_string()),
        }
    });
    let mut consumers: Vec<ConsumerLoad> = consumers.collect();
    consumers.sort_by_key(|consumer| std::cmp::Reverse(consumer.oldest_unacked_ms));
    let ends = broker.queue_ends(record.id);
    let held_publishers = flow.map_or(0, |flow| flow.held_channels.len());
    let statistics = api.statistics().lock();
    let series = statistics.queue(record.id);
    let rate = |counter| series.map_or(0.0, |series| series.rate(counter));
    let since_ms = ends.and_then(|ends| statistics.ages().since_ms(record.id, ends.oldest));
    Figures {
        ready: counts.ready,
        unacked: counts.unacked,
        held_publishers,
        over_memory_share: flow.is_some_and(|flow| flow.over_memory_share),
        parked: flow.map_or(0, |flow| flow.parked_messages),
        published_per_s: rate(PUBLISHED),
        delivered_per_s: DELIVERED
            .iter()
            .chain(&TAKEN)
            .map(|counter| rate(*counter))
            .sum(),
        acked_per_s: rate(ACKED),
        consumers,
        oldest_ready_ms: since_ms.map(|since_ms| now_ms.saturating_sub(since_ms)),
    }
}

fn shown(figures: Figures, flow: Option<management_api::QueueFlow>) -> QueueWhy {
    let verdict = figures.verdict();
    let mut shown: BTreeMap<String, Value> = [
        ("ready", json!(figures.ready)),
        ("unacked", json!(figures.unacked)),
        ("consumers", json!(figures.consumers.len())),
        ("held_publishers", json!(figures.held_publishers)),
        ("parked", json!(figures.parked)),
        ("published_per_s", json!(figures.published_per_s)),
        ("delivered_per_s", json!(figures.delivered_per_s)),
        ("acked_per_s", json!(figures.acked_per_s)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(ms) = figures.oldest_ready_ms {
        shown.insert("oldest_message_ms".into(), json!(ms));
    }
    QueueWhy {
        verdict: verdict.name.to_owned(),
        text: verdict.text,
        next: verdict.next,
        figures: shown,
        consumers: figures.consumers,
        flow,
    }
}

async fn settings(
    caller: Caller,
    Path((vhost, queue)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<Json<QueueSettings>> {
    let record = find(&api, &caller, &VhostName::new(vhost), &queue)?;
    let explained = api.broker().explain_queue(&record);
    let settings = explained.iter().map(|source| QueueSetting {
        key: source.key.to_owned(),
        value: show::term(&source.value),
        origin: match &source.origin {
            Origin::Argument => "argument".to_owned(),
            Origin::Default => "default".to_owned(),
            Origin::VhostDefault => "vhost default".to_owned(),
            Origin::Policy(name) => format!("policy {name}"),
            Origin::OperatorPolicy(name) => format!("operator policy {name}"),
        },
    });
    Ok(Json(QueueSettings {
        settings: settings.collect(),
        policy: record.policy.as_deref().map(str::to_owned),
        operator_policy: record.operator_policy.as_deref().map(str::to_owned),
    }))
}

async fn route(
    caller: Caller,
    Path((vhost, exchange)): Path<(String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<Json<RouteAnswer>> {
    let vhost = VhostName::new(vhost);
    caller.enter(&api.broker().metadata(), &vhost)?;
    let question: RouteQuestion = serde_json::from_value(body.0.into())
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let headers = to_term(&question.headers.into())?.to_table();
    let exchange = exchange_name(&exchange);
    let key = question.routing_key.as_bytes();
    let reached = api
        .broker()
        .route_of(&vhost, exchange, key, &headers)
        .map_err(missing)?;
    let queues = reached.into_iter().map(|reached| RoutedTo {
        queue: reached.queue.to_string(),
        why: reached.why,
    });
    let queues: Vec<RoutedTo> = queues.collect();
    Ok(Json(RouteAnswer {
        routed: !queues.is_empty(),
        queues,
    }))
}

/// Channels that one question may be about.
const PUBLISHERS_MAX: usize = 100;

async fn publisher_why(
    caller: Caller,
    Path(publisher): Path<String>,
    State(api): State<Api>,
) -> Result<Response> {
    let connections = api.broker().connections();
    let is_seen =
        |connection: &&ConnectionView| caller.is_monitor() || *connection.user() == caller.user;
    let channels = connections
        .iter()
        .filter(is_seen)
        .flat_map(ConnectionView::channels);
    let mut found: Vec<ChannelView> = channels
        .filter(|channel| channel.name().contains(&publisher))
        .take(PUBLISHERS_MAX)
        .collect();
    // A whole name means that one, whatever else begins with it.
    if let Some(exact) = found.iter().position(|channel| channel.name() == publisher) {
        found = vec![found.swap_remove(exact)];
    }
    match found.as_slice() {
        [] => Err(ApiError::ObjectNotFound),
        [channel] => Ok(axum::response::IntoResponse::into_response(Json(
            of_publisher(channel, api.broker().alarms()),
        ))),
        several => {
            let names: Vec<String> = several.iter().map(ChannelView::name).collect();
            Err(ApiError::bad_request(json!({"several_channels": names})))
        }
    }
}

fn of_publisher(channel: &ChannelView, alarms: AlarmView) -> PublisherWhy {
    let now_ms = now_ms();
    let hold = channel.hold();
    let traffic = channel.traffic();
    let mut reasons: Vec<HoldReason> = hold
        .iter()
        .flat_map(|hold| &hold.held_by)
        .map(|by| {
            let seconds = now_ms.saturating_sub(by.since_ms) / 1000;
            HoldReason {
                kind: "queue".into(),
                queue: Some(by.queue.to_string()),
                text: format!(
                    "{} of vhost '{}' has held it for {seconds} s",
                    by.cause, by.vhost
                ),
            }
        })
        .collect();
    // Alarms hold whoever publishes, not a channel of its own.
    for (is_on, what) in [(alarms.memory, "memory"), (alarms.disk, "disk space")] {
        if is_on && channel.connection().is_blocked() {
            reasons.push(HoldReason {
                kind: "node".into(),
                queue: None,
                text: format!("the node is short of {what}"),
            });
        }
    }
    if let Some(limit) = channel.connection().paced_by() {
        reasons.push(HoldReason {
            kind: "limit".into(),
            queue: None,
            text: limit.to_string(),
        });
    }
    let text = match &hold {
        Some(hold) => format!(
            "it is held: {} messages wait, {} bytes in memory and {} on disk{}{}",
            hold.parked_messages,
            hold.parked_bytes,
            hold.spilled_bytes,
            if hold.confirms_withheld {
                "; confirms are withheld"
            } else {
                ""
            },
            if hold.reading_stopped {
                "; its connection is not read"
            } else {
                ""
            },
        ),
        None if reasons.iter().any(|reason| reason.kind == "limit") => {
            "it publishes as much as it may; its connection is not read meanwhile".into()
        }
        None if !reasons.is_empty() => "the node asks it to wait".into(),
        None => format!(
            "nothing holds it: {} published, {} confirmed",
            traffic.publish, traffic.confirm
        ),
    };
    PublisherWhy {
        name: channel.name(),
        state: if reasons.is_empty() && hold.is_none() {
            "open"
        } else {
            "held"
        }
        .to_owned(),
        text,
        reasons,
        hold: show::channel_hold(channel),
        unconfirmed: channel.unconfirmed(),
        unroutable: traffic.return_unroutable + traffic.drop_unroutable,
    }
}
