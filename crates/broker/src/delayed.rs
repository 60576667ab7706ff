//! Delayed exchanges: where their messages wait, and what happens when their time has come.
//!
//! Each delayed exchange has a store that works like a queue without a name: the same machine,
//! the same log. A message lies in it with its delay as the time it has to live; when that is over
//! it is routed from the exchange, and stays until every target has it. Must not know how the
//! delay is read from a message: that is the router's.

use std::sync::Arc;

use amqp::{Properties, PropertiesBuilder, Value};
use broker_core::expiration;
use broker_core::metadata::{ExchangeRecord, Metadata, QueueRecord, Vhost};
use broker_core::router::{RouteRequest, Routed, carbon_copy_keys};
use broker_core::settings::{DeadLetterStrategy, QueueKind, QueueSettings};
use broker_core::{ExchangeName, QueueName};

use crate::clock;
use crate::dead_letterer::receipt;
use crate::node::Node;
use crate::observe::incidents::HeldBecause;
use crate::origin::Origin;
use crate::queue::{DeadLetterJob, Queue};
use crate::record::{EntryMeta, NewMessage};
use crate::route::{InlineTurn, Route};

const DELAY_HEADER: &str = "x-delay";

/// The exchanges that hold messages back.
pub(crate) fn exchanges(metadata: &Metadata) -> Vec<Arc<ExchangeRecord>> {
    let all = metadata.vhosts().flat_map(Vhost::exchanges);
    let records = all.map(|exchange| exchange.record().clone());
    records
        .filter(|record| record.delay_store.is_some())
        .collect()
}

/// Makes the store of a delayed exchange; `None` for other exchanges.
pub(crate) fn store(node: &Node, exchange: &ExchangeRecord) -> Option<Queue> {
    let record = record(exchange)?;
    Some(node.new_store(&record, exchange.name.clone()))
}

/// What a store of this exchange goes by.
pub(crate) fn settings(exchange: &ExchangeName) -> QueueSettings {
    QueueSettings {
        expire_anywhere: true,
        dead_letter_exchange: Some(exchange.clone()),
        dead_letter_strategy: DeadLetterStrategy::AtLeastOnce,
        ..QueueSettings::default()
    }
}

/// What a store is as a queue: messages of durable exchanges are kept whatever their delivery
/// mode, as messages of quorum queues are.
fn record(exchange: &ExchangeRecord) -> Option<QueueRecord> {
    Some(QueueRecord {
        id: exchange.delay_store?,
        vhost: exchange.vhost.clone(),
        name: QueueName::new(exchange.name.as_str()),
        kind: match exchange.durable {
            true => QueueKind::Quorum,
            false => QueueKind::Classic,
        },
        durable: exchange.durable,
        exclusive_owner: None,
        declared_by: None,
        auto_delete: false,
        arguments: Default::default(),
        group: 0,
        home: Default::default(),
        policy: None,
        operator_policy: None,
        settings: Arc::new(settings(&exchange.name)),
    })
}

/// The delay of a message is over: it goes where the exchange leads.
///
/// # Errors
/// It cannot go now; it stays and is tried again.
pub(crate) fn release(
    node: &Node,
    store: &Arc<Queue>,
    exchange: &ExchangeName,
    job: &DeadLetterJob,
) -> Result<(), HeldBecause> {
    let loaded = job.loaded.as_ref().ok_or(HeldBecause::Unreadable)?;
    let blob = loaded.blob().ok_or(HeldBecause::Unreadable)?;
    let properties = over(Properties::trusted(blob.properties)).ok_or(HeldBecause::Unreadable)?;
    let scan = Properties::trusted(&properties).scan();
    let headers = Properties::trusted(&properties)
        .headers()
        .ok()
        .flatten()
        .unwrap_or_default();
    let extra_keys = match blob.keys_replaced {
        true => Default::default(),
        false => carbon_copy_keys(&headers).unwrap_or_default(),
    };
    let request = RouteRequest {
        extra_keys: &extra_keys,
        seed: rand::random(),
        from_publisher: false,
        ..RouteRequest::publish(exchange.as_str(), blob.routing_key.as_bytes(), &headers)
    };
    let mut routed = Routed::default();
    node.metadata
        .read()
        .vhost(&store.vhost)
        .and_then(|vhost| vhost.route(&request, &mut routed))
        .map_err(|_| HeldBecause::ExchangeMissing)?;
    let message = NewMessage {
        exchange: blob.exchange,
        routing_key: blob.routing_key,
        properties: &properties,
        body: blob.body,
        dead_lettered: blob.dead_lettered,
        keys_replaced: blob.keys_replaced,
        has_bcc: blob.has_bcc,
    };
    for history in &routed.histories {
        node.histories
            .remember(node, &store.vhost, history, &message);
    }
    let route = Arc::new(Route::routed(node, &store.vhost, &routed));
    if route.is_empty() {
        tracing::debug!(vhost = %store.vhost, %exchange, "a delayed message has no route");
        store.dead_lettered(node, job.entry, Ok(()));
        return Ok(());
    }
    let now = clock::now();
    let expiration = scan
        .expiration
        .and_then(|text| expiration::parse(text).ok());
    let meta = EntryMeta {
        persistent: scan.delivery_mode == Some(2),
        priority: scan.priority,
        published_at: now,
        expires_at: expiration.map(|span| now + span),
        delivery_count: 0,
        acquired_count: 0,
    };
    let receipt = receipt(job, &route);
    let mut turn = InlineTurn::default();
    route.send(node, &meta, &message, &mut turn, || match &receipt {
        Some(receipt) => Origin::DeadLetter(receipt.clone()),
        None => Origin::Nobody,
    });
    turn.end(node);
    Ok(())
}

/// The property block with the delay negated: another delayed exchange behind this one does not
/// hold the message again. `None` when the headers cannot be read.
// rabbitmq: delayed message exchange plugin
fn over(properties: Properties<'_>) -> Option<Vec<u8>> {
    let edited = PropertiesBuilder::from(properties).edit_headers(|headers| {
        if let Some(delay) = headers.get(DELAY_HEADER).and_then(negated) {
            headers.insert(DELAY_HEADER, delay);
        }
    });
    Some(edited.ok()?.build())
}

fn negated(delay: &Value) -> Option<Value> {
    Some(match delay {
        Value::F32(number) => Value::F32(-number),
        Value::F64(number) => Value::F64(-number),
        other => {
            let ms = match other.as_str() {
                Some(text) => text.parse::<i64>().ok()?,
                None => other.as_i64()?,
            };
            let ms = ms.checked_neg()?;
            i32::try_from(ms).map_or(Value::I64(ms), Value::I32)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_negated_in_every_form_that_is_one() {
        let cases = [
            (Value::I32(5000), Value::I32(-5000)),
            (Value::I64(4_294_967_295), Value::I64(-4_294_967_295)),
            (Value::U8(200), Value::I32(-200)),
            (Value::from("70"), Value::I32(-70)),
            (Value::F64(1.5), Value::F64(-1.5)),
        ];
        for (delay, wanted) in cases {
            assert_eq!(negated(&delay), Some(wanted), "{delay:?}");
        }
        assert_eq!(negated(&Value::from("soon")), None);
    }
}
