//! What goes wrong in queues: incidents, deaths, dead letters that are held, returns that wait.

use std::collections::BTreeMap;

use broker::observe::{Incident, IncidentKind, QueueView};
use broker_core::ConsumerTag;
use broker_core::dead_letter::DeathReason;
use broker_core::metadata::QueueRecord;
use broker_core::queue::TimeoutAction;
use broker_core::settings::{ConsumerTimeoutAction, QueueKind};
use management_api::{DeadLettersHeld, QueueFigures};
use serde_json::{Value, json};

use crate::time::iso8601;

/// All reasons; their order is that of the broker's counts.
pub(crate) const REASONS: [DeathReason; 4] = [
    DeathReason::Rejected,
    DeathReason::Expired,
    DeathReason::MaxLength,
    DeathReason::DeliveryLimit,
];

// rabbitmq: quorum queues show their limit, or the word
pub(super) fn delivery_limit(record: &QueueRecord) -> Value {
    record
        .settings
        .delivery_limit
        .map_or(json!("unlimited"), |limit| json!(limit))
}

// rabbitmq: `all (min: 5000ms, max: 5000ms)`; what it does not know follows only when it is set
pub(super) fn delayed_retry(record: &QueueRecord) -> String {
    let Some(retry) = &record.settings.delayed_retry else {
        return "disabled".to_owned();
    };
    let multiplier = retry.multiplier_permille.map(|permille| {
        let multiplier = f64::from(permille) / 1000.0;
        format!(", multiplier: {multiplier}")
    });
    let jitter = (retry.jitter_percent > 0).then(|| format!(", jitter: {}%", retry.jitter_percent));
    format!(
        "{} (min: {}ms, max: {}ms{}{})",
        retry.kind.name(),
        retry.min_ms,
        retry.max_ms,
        multiplier.unwrap_or_default(),
        jitter.unwrap_or_default(),
    )
}

/// Adds what has gone wrong in a queue to its figures.
pub(super) fn add(view: &QueueView, figures: &mut QueueFigures) {
    if view.record.kind == QueueKind::Classic && view.counts.delayed > 0 {
        figures.messages_delayed = Some(view.counts.delayed);
    }
    (figures.next_delayed_at, figures.last_delayed_at) = view.delayed_until_ms.unzip();
    figures.dead_letters_held = view
        .dead_letters_held
        .map(|(why, since_ms)| DeadLettersHeld {
            why: why.to_string(),
            since: iso8601(since_ms),
        });
    figures.messages_dead_lettered = by_reason(&view.deaths.dead_lettered);
    figures.messages_dropped = by_reason(&view.deaths.dropped);
    figures.late_settles = Some(view.counts.late_settles).filter(|late| *late > 0);
}

fn by_reason(deaths: &[u64; 4]) -> BTreeMap<String, u64> {
    let counted = REASONS.iter().zip(deaths).filter(|(_, count)| **count > 0);
    counted
        .map(|(reason, count)| (reason.name().to_owned(), *count))
        .collect()
}

pub(crate) fn incident(incident: &Incident) -> management_api::Incident {
    let about = management_api::Incident {
        kind: incident.kind.name().to_owned(),
        time: iso8601(incident.at_ms),
        vhost: incident.vhost.to_string(),
        queue: incident.queue.to_string(),
        ..Default::default()
    };
    match &incident.kind {
        IncidentKind::PoisonLoop {
            consumer,
            client,
            entry,
            returns,
        } => management_api::Incident {
            text: format!(
                "{} of client '{client}' has given message {entry} back {returns} times within a \
                 minute; look at what it does with this message, or hold returns back with \
                 delayed-retry-type",
                who(consumer.as_ref())
            ),
            consumer_tag: consumer.as_ref().map(ToString::to_string),
            client: Some(client.clone()),
            entry: Some(*entry),
            returns: Some(*returns),
            ..about
        },
        IncidentKind::DeliveryTimedOut {
            consumer,
            client,
            channel,
            delivery_tag,
            timeout_ms,
            action,
        } => management_api::Incident {
            text: format!(
                "{} of client '{client}' did not acknowledge a delivery on channel {channel} \
                 within {timeout_ms} ms; {}",
                who(consumer.as_ref()),
                followed(*action)
            ),
            consumer_tag: consumer.as_ref().map(ToString::to_string),
            client: Some(client.clone()),
            channel: Some(*channel),
            delivery_tag: *delivery_tag,
            timeout_ms: Some(*timeout_ms),
            action: Some(word(*action).to_owned()),
            ..about
        },
        IncidentKind::DeadLettersHeld { why } => management_api::Incident {
            text: format!("dead letters are held: {why}"),
            ..about
        },
        IncidentKind::DeadLettersReleased => management_api::Incident {
            text: "dead letters that were held are on their way".to_owned(),
            ..about
        },
        IncidentKind::QueueOverfull { bytes, messages } => management_api::Incident {
            text: format!(
                "the queue is overfull with {messages} messages of {bytes} bytes; its publishers \
                 are held"
            ),
            ..about
        },
        IncidentKind::QueueUnderfull { bytes, messages } => management_api::Incident {
            text: format!(
                "the queue is underfull with {messages} messages of {bytes} bytes; its publishers \
                 go on"
            ),
            ..about
        },
        IncidentKind::PublishesRefused { messages } => management_api::Incident {
            text: format!(
                "the queue is full and has refused {messages} publishes, as its overflow mode says"
            ),
            ..about
        },
        IncidentKind::WaitedTooLong { messages } => management_api::Incident {
            text: format!(
                "{messages} messages waited for room for longer than hold-timeout and are refused"
            ),
            ..about
        },
    }
}

fn who(consumer: Option<&ConsumerTag>) -> String {
    match consumer {
        Some(tag) => format!("consumer '{tag}'"),
        None => "a basic.get".to_owned(),
    }
}

fn word(action: TimeoutAction) -> &'static str {
    match action {
        TimeoutAction::CloseChannel => ConsumerTimeoutAction::Close.name(),
        TimeoutAction::CancelConsumer => ConsumerTimeoutAction::Cancel.name(),
        TimeoutAction::ReturnOnly => ConsumerTimeoutAction::Return.name(),
    }
}

fn followed(action: TimeoutAction) -> &'static str {
    match action {
        TimeoutAction::CloseChannel => "its channel was closed",
        TimeoutAction::CancelConsumer => "it was cancelled",
        TimeoutAction::ReturnOnly => "the message was taken back",
    }
}
