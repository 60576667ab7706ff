//! The firehose: while tracing is on in a vhost, a copy of every message that a client publishes
//! or is handed goes to the exchange `amq.rabbitmq.trace`.
//!
//! A copy has the body of its message and tells everything else in its headers. Nobody waits for
//! copies and nobody is held by them. Copies are not copied again, and neither is what becomes of
//! them as dead letters: a queue of copies that overflows into one that is read would never end.
//! While no vhost is traced, a publish and a run of deliveries cost one relaxed load each.
// rabbitmq docs: firehose

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amqp::{Properties, PropertiesBuilder, Table, Value};
use broker_core::VhostName;
use broker_core::metadata::Metadata;
use broker_core::router::{RouteRequest, Routed, carbon_copy_keys};
use bytes::Bytes;
use parking_lot::RwLock;

use crate::clock;
use crate::deliver::BLIND_COPIES;
use crate::holder::Holder;
use crate::node::Node;
use crate::origin::Origin;
use crate::outbox::MessageView;
use crate::record::{EntryMeta, NewMessage};
use crate::route::{InlineTurn, Route};

/// Where copies are published.
const TRACE_EXCHANGE: &str = "amq.rabbitmq.trace";

/// Bytes that a routing key can have.
const KEY_BYTES_MAX: usize = 255;

/// Which vhosts are traced.
#[derive(Debug, Default)]
pub(crate) struct Firehose {
    any: AtomicBool,
    vhosts: RwLock<Vec<VhostName>>,
}

impl Firehose {
    /// Whether messages of this vhost are copied.
    pub(crate) fn runs_in(&self, vhost: &VhostName) -> bool {
        self.any.load(Ordering::Relaxed) && self.vhosts.read().contains(vhost)
    }

    /// Goes by what the metadata says.
    pub(crate) fn adjust(&self, metadata: &Metadata) {
        let traced = metadata.vhosts().filter(|vhost| vhost.record().tracing);
        let traced: Vec<VhostName> = traced.map(|vhost| vhost.name().clone()).collect();
        let mut vhosts = self.vhosts.write();
        self.any.store(!traced.is_empty(), Ordering::Relaxed);
        *vhosts = traced;
    }
}

/// A copy about to be published.
#[derive(Debug)]
pub(crate) struct TraceCopy {
    key: String,
    headers: Table,
    body: Bytes,
}

impl TraceCopy {
    /// Of a message that a client has published. `queues` are those that it goes to.
    pub(crate) fn published(
        node: &Node,
        holder: &Holder,
        message: &MessageView<'_>,
        queues: Vec<String>,
    ) -> Option<Self> {
        let queues: Vec<Value> = queues.into_iter().map(Value::from).collect();
        let key = format!("publish.{}", message.exchange);
        Self::of(node, holder, message, key, ("routed_queues", queues.into()))
    }

    /// Of a message that a client is handed.
    pub(crate) fn delivered(
        node: &Node,
        holder: &Holder,
        message: &MessageView<'_>,
        queue: &str,
        redelivered: bool,
    ) -> Option<Self> {
        let redelivered = Value::I32(redelivered.into());
        let key = format!("deliver.{queue}");
        Self::of(node, holder, message, key, ("redelivered", redelivered))
    }

    /// `None` for a message that is a copy itself, or was one.
    fn of(
        node: &Node,
        holder: &Holder,
        message: &MessageView<'_>,
        mut key: String,
        (about, told): (&str, Value),
    ) -> Option<Self> {
        let properties = Properties::trusted(message.properties);
        if is_copy(message.exchange, properties) {
            return None;
        }
        key.truncate(key.floor_char_boundary(KEY_BYTES_MAX));
        let options = &holder.session.options;
        let mut headers = Table::new();
        headers.push("exchange_name", message.exchange);
        headers.push("routing_keys", routing_keys(message));
        headers.push("properties", told_properties(properties));
        headers.push("node", node.options.name.as_str());
        headers.push(about, told);
        headers.push("vhost", options.vhost.as_str());
        headers.push("connection", holder.session.name());
        headers.push("channel", i32::from(holder.number));
        headers.push("user", options.user.as_str());
        headers.sort();
        Some(Self {
            key,
            headers,
            body: Bytes::copy_from_slice(message.body),
        })
    }
}

/// Publishes copies, in their order. To be called with no lock held.
pub(crate) fn publish(node: &Node, vhost: &VhostName, copies: impl IntoIterator<Item = TraceCopy>) {
    let mut turn = InlineTurn::default();
    for copy in copies {
        let request = RouteRequest {
            seed: rand::random(),
            from_publisher: false,
            ..RouteRequest::publish(TRACE_EXCHANGE, copy.key.as_bytes(), &copy.headers)
        };
        let mut routed = Routed::default();
        let found = node
            .metadata
            .read()
            .vhost(vhost)
            .and_then(|vhost| vhost.route(&request, &mut routed));
        if found.is_err() {
            continue;
        }
        let properties = PropertiesBuilder::new().headers(&copy.headers).build();
        let message = NewMessage {
            exchange: TRACE_EXCHANGE,
            routing_key: &copy.key,
            properties: &properties,
            body: &copy.body,
            ..NewMessage::EMPTY
        };
        for history in &routed.histories {
            node.histories.remember(node, vhost, history, &message);
        }
        let route = Arc::new(Route::routed(node, vhost, &routed));
        route.admit_internal(node, &message);
        let meta = EntryMeta {
            published_at: clock::now(),
            ..EntryMeta::default()
        };
        route.send(node, &meta, &message, &mut turn, || Origin::Nobody);
        if turn.is_full() {
            turn.end(node);
        }
    }
    turn.end(node);
}

/// Whether a message is a copy, or the dead letter of one.
fn is_copy(exchange: &str, properties: Properties<'_>) -> bool {
    exchange == TRACE_EXCHANGE
        || properties
            .header("x-first-death-exchange")
            .is_some_and(|first| first.as_str() == Some(TRACE_EXCHANGE))
}

/// Its key, and those of its copies.
fn routing_keys(message: &MessageView<'_>) -> Vec<Value> {
    let headers = Properties::trusted(message.properties).headers();
    let headers = headers.ok().flatten().unwrap_or_default();
    let copies = carbon_copy_keys(&headers).unwrap_or_default();
    let keys = std::iter::once(message.routing_key.as_bytes()).chain(copies);
    keys.map(text).collect()
}

fn text(octets: &[u8]) -> Value {
    Value::LongString(octets.into())
}

/// The properties as a table, of those that are set: the last one first.
// rabbitmq: rabbit_trace
fn told_properties(properties: Properties<'_>) -> Table {
    let headers = properties.headers().ok().flatten().map(|mut headers| {
        headers.remove(BLIND_COPIES);
        Value::Table(headers)
    });
    let number = |number: u64| i32::try_from(number).map_or(Value::I64(number as i64), Value::I32);
    let fields = [
        ("cluster_id", properties.cluster_id().map(text)),
        ("app_id", properties.app_id().map(text)),
        ("user_id", properties.user_id().map(text)),
        ("type", properties.type_().map(text)),
        ("timestamp", properties.timestamp().map(number)),
        ("message_id", properties.message_id().map(text)),
        ("expiration", properties.expiration().map(text)),
        ("reply_to", properties.reply_to().map(text)),
        ("correlation_id", properties.correlation_id().map(text)),
        (
            "priority",
            properties.priority().map(|at| number(at.into())),
        ),
        (
            "delivery_mode",
            properties.delivery_mode().map(|mode| number(mode.into())),
        ),
        ("headers", headers),
        ("content_encoding", properties.content_encoding().map(text)),
        ("content_type", properties.content_type().map(text)),
    ];
    let mut table = Table::new();
    for (name, value) in fields {
        if let Some(value) = value {
            table.push(name, value);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_told_as_a_table_without_blind_copies() {
        let mut headers = Table::new();
        headers.push("CC", vec![Value::from("c")]);
        headers.push("BCC", vec![Value::from("b")]);
        let block = PropertiesBuilder::new()
            .content_type("text/plain")
            .delivery_mode(2)
            .headers(&headers)
            .build();
        let told = told_properties(Properties::trusted(&block));
        let names: Vec<&str> = told.iter().filter_map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["delivery_mode", "headers", "content_type"]);
        assert_eq!(told.get("delivery_mode"), Some(&Value::I32(2)));
        let shown = told.get("headers").and_then(Value::as_table);
        let shown = shown.expect("headers");
        assert!(shown.contains_key("CC") && !shown.contains_key("BCC"));
    }

    #[test]
    fn a_copy_and_the_dead_letter_of_one_are_recognised() {
        let plain = PropertiesBuilder::new().build();
        let plain = Properties::trusted(&plain);
        assert!(is_copy("amq.rabbitmq.trace", plain));
        assert!(!is_copy("amq.topic", plain));
        let mut headers = Table::new();
        headers.push("x-first-death-exchange", "amq.rabbitmq.trace");
        let dead = PropertiesBuilder::new().headers(&headers).build();
        assert!(is_copy("graves", Properties::trusted(&dead)));
    }
}
