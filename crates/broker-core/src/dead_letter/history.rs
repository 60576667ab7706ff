//! The death history in a message's headers: written by the broker when a message dies, read to
//! tell cycles.
//!
//! A history counts only if a broker wrote it; the stored message carries that as a flag, since
//! publishers may send headers of the same names. Theirs are replaced at the first real death.
// rabbitmq docs: dead letter exchanges

use amqp::{Properties, PropertiesBuilder, Table, TableError, Value};

use super::DeathReason;
use crate::queue::Past;
use crate::router::MessageView;
use crate::time::Timestamp;

const HISTORY: &str = "x-death";
const CARBON_COPY: &str = "CC";

/// The consumer that had the message last.
const CONSUMER: &str = "x-death-consumer";
/// When and how its last deliveries ended.
const ATTEMPTS: &str = "x-death-attempts";
/// What the application said of it.
const APPLICATION_REASON: &str = "x-death-application-reason";

/// What happened to a message, as its history tells it.
#[derive(Clone, Copy, Debug)]
pub struct Death<'a> {
    /// The queue that it died in.
    pub queue: &'a str,
    /// Of what.
    pub reason: DeathReason,
    /// When.
    pub at: Timestamp,
    /// The exchange that it was published to before.
    pub exchange: &'a str,
    /// The key that it was published with before.
    pub routing_key: &'a str,
    /// Whether the carbon copies in its headers were keys of it as well: not after a dead-letter
    /// key has replaced them.
    pub copies_count: bool,
    /// What it went through in the queue, if anything is known.
    pub past: Option<&'a Past>,
}

/// The property block of a message after a death: its history brought up to date, its expiration
/// taken away so that it does not expire again by it.
///
/// # Errors
/// The headers of the block cannot be read.
pub fn bury(
    properties: Properties<'_>,
    history_is_ours: bool,
    death: &Death<'_>,
) -> Result<Vec<u8>, TableError> {
    let expiration = properties.expiration();
    let edited = PropertiesBuilder::from(properties).edit_headers(|headers| {
        if !history_is_ours {
            forget_history(headers);
        }
        let event = take_event(headers, death, expiration);
        let mut events = vec![Value::Table(event)];
        if let Some(Value::Array(earlier)) = headers.remove(HISTORY) {
            events.extend(earlier);
        }
        headers.insert(HISTORY, Value::Array(events));
        mark(headers, "x-first-death", death, false);
        mark(headers, "x-last-death", death, true);
        if let Some(past) = death.past {
            tell(headers, past);
        }
    })?;
    Ok(edited.without_expiration().build())
}

fn forget_history(headers: &mut Table) {
    for name in [HISTORY, CONSUMER, ATTEMPTS, APPLICATION_REASON] {
        headers.remove(name);
    }
    for which in ["x-first-death", "x-last-death"] {
        for what in ["exchange", "queue", "reason"] {
            headers.remove(format!("{which}-{what}"));
        }
    }
}

/// Headers of this broker: they tell of the queue in which the message was handed out last.
fn tell(headers: &mut Table, past: &Past) {
    let attempts = past.attempts.iter().map(|attempt| {
        let mut table = Table::default();
        table.insert("time", Value::Timestamp(attempt.until.seconds()));
        table.insert("end", attempt.end.name());
        let held_ms = attempt.until.since(attempt.since).0;
        table.insert(
            "held-ms",
            Value::I64(i64::try_from(held_ms).unwrap_or(i64::MAX)),
        );
        Value::Table(table)
    });
    let attempts: Vec<Value> = attempts.collect();
    let texts = [
        (CONSUMER, past.consumer.as_ref().map(|tag| tag.as_str())),
        (APPLICATION_REASON, past.reason.as_deref()),
    ];
    headers.insert(ATTEMPTS, Value::Array(attempts));
    for (name, text) in texts {
        match text {
            Some(text) => drop(headers.insert(name, text)),
            None => drop(headers.remove(name)),
        }
    }
}

fn mark(headers: &mut Table, which: &str, death: &Death<'_>, again: bool) {
    let facts = [
        ("exchange", death.exchange),
        ("queue", death.queue),
        ("reason", death.reason.name()),
    ];
    for (what, fact) in facts {
        let name = format!("{which}-{what}");
        if again || !headers.contains_key(&name) {
            headers.insert(name.as_str(), fact);
        }
    }
}

/// The event of this queue and reason, counted up and taken out of the history; a fresh one if
/// there is none.
fn take_event(headers: &mut Table, death: &Death<'_>, expiration: Option<&[u8]>) -> Table {
    let copies = match death.copies_count {
        true => carbon_copies(headers),
        false => Vec::new(),
    };
    if let Some(Value::Array(mut events)) = headers.remove(HISTORY) {
        let known = events.iter().position(|event| is_of(event, death));
        let known = known.map(|at| events.remove(at));
        headers.insert(HISTORY, Value::Array(events));
        if let Some(Value::Table(mut event)) = known {
            let count = event.get("count").and_then(Value::as_i64).unwrap_or(0);
            event.insert("count", Value::I64(count.saturating_add(1)));
            return event;
        }
    }
    let mut event = Table::default();
    if let Some(expiration) = expiration {
        event.insert(
            "original-expiration",
            Value::LongString(expiration.to_vec().into()),
        );
    }
    let keys = std::iter::once(Value::from(death.routing_key)).chain(copies);
    event.insert("count", Value::I64(1));
    event.insert("reason", death.reason.name());
    event.insert("queue", death.queue);
    event.insert("time", Value::Timestamp(death.at.seconds()));
    event.insert("exchange", death.exchange);
    event.insert("routing-keys", Value::Array(keys.collect()));
    event
}

fn is_of(event: &Value, death: &Death<'_>) -> bool {
    queue_of(event) == Some(death.queue) && reason_of(event) == Some(death.reason.name())
}

fn queue_of(event: &Value) -> Option<&str> {
    event.as_table()?.get("queue")?.as_str()
}

fn reason_of(event: &Value) -> Option<&str> {
    event.as_table()?.get("reason")?.as_str()
}

/// The blind copies are nobody's business; the open ones are part of the keys.
fn carbon_copies(headers: &Table) -> Vec<Value> {
    match headers.get(CARBON_COPY) {
        Some(Value::Array(keys)) => keys
            .iter()
            .filter(|key| matches!(key, Value::LongString(_)))
            .cloned()
            .collect(),
        _ => Vec::new(),
    }
}

/// Whether a dead letter with this history must not enter the queue: it has been there, and
/// nobody rejected it since. Loops by expiry or by the delivery limit end so; loops that a client
/// keeps going by its rejects do not.
pub fn is_cycle(message: &dyn MessageView, queue: &str) -> bool {
    let Some(Value::Array(events)) = message.headers().and_then(|headers| headers.get(HISTORY))
    else {
        return false;
    };
    let Some(been_there) = events
        .iter()
        .position(|event| queue_of(event) == Some(queue))
    else {
        return false;
    };
    let rejected = DeathReason::Rejected.name();
    !events[..=been_there]
        .iter()
        .any(|event| reason_of(event) == Some(rejected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Attempt, AttemptEnd, DiscardCause};

    fn death<'a>(queue: &'a str, reason: DeathReason, second: u64) -> Death<'a> {
        Death {
            queue,
            reason,
            at: Timestamp(second * 1000),
            exchange: "work",
            routing_key: "key",
            copies_count: true,
            past: None,
        }
    }

    fn buried(deaths: &[Death<'_>], mut block: Vec<u8>) -> Vec<u8> {
        for (count, death) in deaths.iter().enumerate() {
            block = bury(Properties::trusted(&block), count > 0, death).expect("readable headers");
        }
        block
    }

    /// `reason@queue*count second` of each event, newest first.
    fn history(block: &[u8]) -> Vec<String> {
        let headers = Properties::trusted(block)
            .headers()
            .expect("a table")
            .expect("headers");
        let Some(Value::Array(events)) = headers.get(HISTORY) else {
            panic!("no history")
        };
        events
            .iter()
            .map(|event| {
                let table = event.as_table().expect("a table");
                let count = table.get("count").and_then(Value::as_i64).expect("a count");
                let Some(Value::Timestamp(second)) = table.get("time") else {
                    panic!("no time")
                };
                format!(
                    "{}@{}*{count} {second}",
                    reason_of(event).unwrap(),
                    queue_of(event).unwrap()
                )
            })
            .collect()
    }

    #[test]
    fn a_repeated_death_counts_up_moves_to_the_front_and_keeps_its_first_time() {
        let block = buried(
            &[
                death("a", DeathReason::Rejected, 1),
                death("b", DeathReason::Expired, 2),
                death("a", DeathReason::Rejected, 3),
            ],
            PropertiesBuilder::new().build(),
        );
        assert_eq!(history(&block), ["rejected@a*2 1", "expired@b*1 2"]);
    }

    #[test]
    fn first_death_is_kept_and_last_death_follows() {
        let block = buried(
            &[
                death("a", DeathReason::MaxLength, 1),
                death("b", DeathReason::Expired, 2),
            ],
            PropertiesBuilder::new().build(),
        );
        let headers = Properties::trusted(&block).headers().unwrap().unwrap();
        let text = |name: &str| {
            headers
                .get(name)
                .and_then(Value::as_str)
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            (text("x-first-death-queue"), text("x-first-death-reason")),
            ("a".into(), "maxlen".into())
        );
        assert_eq!(
            (text("x-last-death-queue"), text("x-last-death-reason")),
            ("b".into(), "expired".into())
        );
    }

    #[test]
    fn the_expiration_moves_into_the_history() {
        let block = buried(
            &[death("a", DeathReason::Expired, 1)],
            PropertiesBuilder::new().expiration("500").build(),
        );
        let properties = Properties::trusted(&block);
        assert_eq!(properties.expiration(), None);
        let headers = properties.headers().unwrap().unwrap();
        let Some(Value::Array(events)) = headers.get(HISTORY) else {
            panic!("no history")
        };
        let names: Vec<_> = events[0]
            .as_table()
            .unwrap()
            .iter()
            .map(|(name, _)| String::from_utf8_lossy(name.as_bytes()).into_owned())
            .collect();
        let expected = [
            "original-expiration",
            "count",
            "reason",
            "queue",
            "time",
            "exchange",
            "routing-keys",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_publishers_own_history_is_replaced() {
        let forged = PropertiesBuilder::new()
            .header("x-death", "not an array")
            .and_then(|builder| builder.header("x-first-death-queue", "forged"))
            .unwrap()
            .build();
        let block = buried(&[death("a", DeathReason::Rejected, 1)], forged);
        assert_eq!(history(&block), ["rejected@a*1 1"]);
        let headers = Properties::trusted(&block).headers().unwrap().unwrap();
        assert_eq!(
            headers.get("x-first-death-queue").and_then(Value::as_str),
            Some("a")
        );
    }

    #[test]
    fn the_last_attempts_and_the_applications_word_are_told_and_stay_told() {
        let past = Past {
            attempts: [Attempt {
                since: Timestamp(4_000),
                until: Timestamp(5_500),
                end: AttemptEnd::Discarded(DiscardCause::Reject),
            }]
            .into_iter()
            .collect(),
            consumer: Some("worker".into()),
            reason: Some("malformed".into()),
        };
        let told = Death {
            past: Some(&past),
            ..death("a", DeathReason::Rejected, 5)
        };
        let forged = PropertiesBuilder::new()
            .header("x-death-attempts", "forged")
            .unwrap()
            .build();
        let block = buried(&[told, death("b", DeathReason::Expired, 9)], forged);
        let headers = Properties::trusted(&block).headers().unwrap().unwrap();
        let text = |name: &str| headers.get(name).and_then(Value::as_str).unwrap();
        assert_eq!(text("x-death-consumer"), "worker");
        assert_eq!(text("x-death-application-reason"), "malformed");
        let attempts = headers.get("x-death-attempts").and_then(Value::as_array);
        let [Value::Table(attempt)] = attempts.unwrap() else {
            panic!("one attempt")
        };
        assert_eq!(attempt.get("time"), Some(&Value::Timestamp(5)));
        assert_eq!(attempt.get("held-ms"), Some(&Value::I64(1_500)));
        assert_eq!(
            attempt.get("end").and_then(Value::as_str),
            Some("reject-discard")
        );
    }

    #[test]
    fn a_cycle_ends_unless_somebody_rejected_on_the_way() {
        let cycle = |deaths: &[Death<'_>], queue| {
            let block = buried(deaths, PropertiesBuilder::new().build());
            let headers = Properties::trusted(&block).headers().unwrap().unwrap();
            is_cycle(&headers, queue)
        };
        let (expired, rejected) = (DeathReason::Expired, DeathReason::Rejected);
        assert!(cycle(&[death("a", expired, 1)], "a"));
        assert!(!cycle(&[death("a", expired, 1)], "b"));
        assert!(cycle(
            &[death("a", expired, 1), death("b", expired, 2)],
            "a"
        ));
        assert!(!cycle(
            &[death("a", expired, 1), death("b", rejected, 2)],
            "a"
        ));
        assert!(!cycle(&[death("a", rejected, 1)], "a"));
    }
}
