//! Which messages of a queue: dead letters by what they died of, where and when, and any message
//! by its headers.

use amqp::{Properties, Value};
use management_api::MessageFilter;
use serde_json::Map;

use crate::error::Result;
use crate::list::ListQuery;
use crate::show;

/// A message's last death, from its header.
// rabbitmq: x-death, the newest first
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LastDeath {
    pub(super) reason: String,
    pub(super) queue: String,
    pub(super) exchange: String,
    pub(super) routing_key: String,
    at_ms: Option<u64>,
}

impl LastDeath {
    pub(super) fn of(properties: &Properties<'_>) -> Option<Self> {
        let header = properties.header("x-death")?;
        let death = header.as_array()?.first()?.as_table()?.clone();
        let text = |key: &str| {
            let value = death.get(key).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let keys = death.get("routing-keys").and_then(Value::as_array);
        let key = keys.and_then(|keys| keys.first()).and_then(Value::as_str);
        Some(Self {
            reason: text("reason"),
            queue: text("queue"),
            exchange: text("exchange"),
            routing_key: key.unwrap_or_default().to_owned(),
            at_ms: match death.get("time") {
                Some(Value::Timestamp(seconds)) => Some(seconds.saturating_mul(1000)),
                _ => None,
            },
        })
    }
}

/// Whether a message meets every condition that is given.
pub(super) fn matches(
    filter: &MessageFilter,
    properties: &Properties<'_>,
    death: Option<&LastDeath>,
    now_ms: u64,
) -> bool {
    let is_wanted = |wanted: &Option<String>, is: fn(&LastDeath) -> &str| match wanted {
        None => true,
        Some(wanted) => death.is_some_and(|death| is(death) == wanted),
    };
    if !is_wanted(&filter.reason, |death| &death.reason)
        || !is_wanted(&filter.died_in, |death| &death.queue)
    {
        return false;
    }
    if filter.older_than_ms.is_some() || filter.newer_than_ms.is_some() {
        let published_ms = properties
            .timestamp()
            .map(|seconds| seconds.saturating_mul(1000));
        // Of what has no time nobody can say how old it is.
        let Some(at_ms) = death.and_then(|death| death.at_ms).or(published_ms) else {
            return false;
        };
        let age_ms = now_ms.saturating_sub(at_ms);
        if filter.older_than_ms.is_some_and(|least| age_ms < least)
            || filter.newer_than_ms.is_some_and(|most| age_ms > most)
        {
            return false;
        }
    }
    filter.headers.iter().all(|(name, wanted)| {
        let header = properties.header(name);
        let header = header.map(|value| {
            let table: amqp::Table = [(name.as_str(), value)].into_iter().collect();
            show::table(&table)[name].take()
        });
        header.as_ref() == Some(wanted)
    })
}

/// The filter of a query: `reason`, `died_in`, and any number of `header=name=value`.
pub(super) fn of_query(query: &ListQuery) -> Result<MessageFilter> {
    let text = |key: &str| query.get(key).map(str::to_owned);
    let mut headers = Map::new();
    for pair in query.all("header") {
        let Some((name, value)) = pair.split_once('=') else {
            let reason = serde_json::json!(["not_a_header", pair]);
            return Err(crate::error::ApiError::bad_request(reason));
        };
        // As typed: JSON where it is some, else text.
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        headers.insert(name.to_owned(), value);
    }
    Ok(MessageFilter {
        reason: text("reason"),
        died_in: text("died_in"),
        headers,
        ..MessageFilter::default()
    })
}

/// Whether a filter lets everything through.
pub(super) fn is_open(filter: &MessageFilter) -> bool {
    *filter == MessageFilter::default()
}

#[cfg(test)]
mod tests {
    use amqp::{PropertiesBuilder, Table};
    use serde_json::json;

    use super::*;

    const DIED_AT_MS: u64 = 1_000_000;

    fn dead_letter() -> Vec<u8> {
        let keys = Value::Array(vec![Value::from("new.eu")]);
        let death: Table = [
            ("reason", Value::from("rejected")),
            ("queue", Value::from("orders")),
            ("exchange", Value::from("shop")),
            ("time", Value::Timestamp(DIED_AT_MS / 1000)),
            ("routing-keys", keys),
        ]
        .into_iter()
        .collect();
        let headers: Table = [
            ("x-death", Value::Array(vec![Value::Table(death)])),
            ("try", Value::I64(3)),
        ]
        .into_iter()
        .collect();
        PropertiesBuilder::new().headers(&headers).build()
    }

    fn passes(filter: MessageFilter) -> bool {
        let block = dead_letter();
        let properties = Properties::trusted(&block);
        let death = LastDeath::of(&properties);
        matches(&filter, &properties, death.as_ref(), DIED_AT_MS + 60_000)
    }

    #[test]
    fn the_last_death_is_read_from_the_header() {
        let block = dead_letter();
        let death = LastDeath::of(&Properties::trusted(&block)).expect("a death");
        assert_eq!(
            (
                death.queue.as_str(),
                death.exchange.as_str(),
                death.routing_key.as_str()
            ),
            ("orders", "shop", "new.eu")
        );
    }

    #[test]
    fn every_condition_must_hold() {
        let by_reason = |reason: &str| MessageFilter {
            reason: Some(reason.into()),
            ..MessageFilter::default()
        };
        assert!(passes(MessageFilter::default()));
        assert!(passes(by_reason("rejected")) && !passes(by_reason("expired")));
        let header = |value| MessageFilter {
            headers: [("try".to_owned(), json!(value))].into_iter().collect(),
            ..by_reason("rejected")
        };
        assert!(passes(header(3)) && !passes(header(4)));
    }

    #[test]
    fn the_age_is_counted_from_the_death() {
        let older = |ms| MessageFilter {
            older_than_ms: Some(ms),
            ..MessageFilter::default()
        };
        assert!(passes(older(60_000)) && !passes(older(60_001)));
        let newer = |ms| MessageFilter {
            newer_than_ms: Some(ms),
            ..MessageFilter::default()
        };
        assert!(passes(newer(60_000)) && !passes(newer(59_999)));
    }
}
