//! Queues, exchanges, bindings and vhosts.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use broker::observe::{QueueView, TrafficCounts};
use broker_core::metadata::{self, ExchangeRecord, Metadata, QueueRecord};
use broker_core::queue::QueueCounts;
use broker_core::settings::QueueKind;
use broker_core::{QueueName, VhostName};
use management_api::{
    Binding, Exchange, Queue, QueueCountsOnly, QueueFigures, Vhost, VhostMetadata,
};
use serde_json::{Value, json};

use super::stats::{self, Histories};
use super::{client, consumer, flow, strings, table, trouble};
use crate::paths;
use crate::state::Api;
use crate::statistics::{MESSAGES, READY, UNACKED, as_traffic};
use crate::time::{iso8601, now_ms};

/// How much of a queue is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueDetail {
    /// Without figures.
    Static,
    /// With the three counts and no other figure.
    Totals,
    /// As in lists.
    Listed,
    /// As in the detailed list.
    Detailed,
    /// As by itself, with its consumers.
    Single,
}

/// A queue, `view` being what the broker says of it at this moment.
/// Where the copies of a quorum queue are, and who leads it.
fn place(api: &Api, record: &QueueRecord, shown: &mut Queue) {
    let Some(group) = api.broker().group_of(record.id) else {
        let node = api.node().to_owned();
        shown.members = Some(vec![node.clone()]);
        shown.online = Some(vec![node.clone()]);
        shown.leader = Some(node);
        return;
    };
    let names = |nodes: &[u64]| nodes.iter().map(|node| api.node_name(*node)).collect();
    shown.members = Some(names(&group.members));
    shown.online = Some(names(&group.online));
    match group.leader.filter(|_| group.has_majority()) {
        Some(leader) => {
            shown.node = api.node_name(leader);
            shown.leader = Some(shown.node.clone());
        }
        // rabbitmq: a queue without a majority is in minority.
        None => shown.state = "minority".to_owned(),
    }
}

pub(crate) fn queue(
    api: &Api,
    metadata: &Metadata,
    record: &QueueRecord,
    view: Option<&QueueView>,
    detail: QueueDetail,
    histories: Histories,
) -> Queue {
    let home = Some(record.home.0).filter(|home| *home != 0);
    let node = home.map_or_else(|| api.node().to_owned(), |home| api.node_name(home));
    let is_quorum = record.kind == QueueKind::Quorum;
    let detailed = matches!(detail, QueueDetail::Detailed | QueueDetail::Single);
    let mut shown = Queue {
        name: record.name.to_string(),
        vhost: record.vhost.to_string(),
        kind: record.kind.name().to_owned(),
        durable: record.durable,
        auto_delete: record.auto_delete,
        exclusive: record.exclusive_owner.is_some(),
        arguments: table(&record.arguments),
        node,
        state: if view.is_some() { "running" } else { "down" }.to_owned(),
        internal: Some(false),
        internal_owner: Some(false),
        policy: policy_name(record.policy.as_deref(), detailed),
        operator_policy: policy_name(record.operator_policy.as_deref(), detailed),
        effective_policy_definition: Some(effective_policy(metadata, record)),
        ..Queue::default()
    };
    if is_quorum {
        place(api, record, &mut shown);
        shown.delivery_limit = Some(trouble::delivery_limit(record));
        shown.delayed_retry = Some(trouble::delayed_retry(record));
    }
    let counts = view.map(|view| view.counts).unwrap_or_default();
    match detail {
        QueueDetail::Static => return shown,
        QueueDetail::Totals => {
            shown.totals = Some(QueueCountsOnly {
                messages: counts.messages(),
                messages_ready: counts.ready,
                messages_unacknowledged: counts.unacked,
            });
            return shown;
        }
        QueueDetail::Listed | QueueDetail::Detailed | QueueDetail::Single => {}
    }
    let mut figures = figures(record, view, counts, detailed);
    add_rates(api, record, view, &mut figures, histories);
    if let Some(view) = view {
        trouble::add(view, &mut figures);
    }
    shown.figures = Some(figures);
    let flow = api.broker().queue_flow(record.id);
    shown.flow = flow.as_ref().and_then(flow::queue_flow);
    if let Some(owner) = record.exclusive_owner {
        shown.owner_pid_details = api.broker().connection(owner).as_ref().map(client::owner);
    }
    if detail == QueueDetail::Single {
        let consumers = api.broker().consumers_of(record.id);
        let consumers = consumers
            .iter()
            .map(|info| consumer(info, record, api.node()));
        shown.consumer_details = Some(consumers.collect());
        shown.deliveries = Some(Vec::new());
        shown.incoming = Some(Vec::new());
    }
    shown
}

fn policy_name(name: Option<&str>, detailed: bool) -> Option<Value> {
    match (name, detailed) {
        (Some(name), _) => Some(json!(name)),
        (None, true) => Some(Value::Null),
        (None, false) => None,
    }
}

fn effective_policy(metadata: &Metadata, record: &QueueRecord) -> Value {
    if record.policy.is_none() && record.operator_policy.is_none() {
        return json!({});
    }
    let merged = metadata.queue_policy_definition(record);
    let values: BTreeMap<_, _> = merged
        .iter()
        .map(|(key, (value, _))| (key, value))
        .collect();
    super::json(&values)
}

fn add_rates(
    api: &Api,
    record: &QueueRecord,
    view: Option<&QueueView>,
    figures: &mut QueueFigures,
    histories: Histories,
) {
    let ends = api.broker().queue_ends(record.id);
    let statistics = api.statistics().lock();
    let since_ms = ends.and_then(|ends| statistics.ages().since_ms(record.id, ends.oldest));
    figures.oldest_message_age_ms = since_ms.map(|since_ms| now_ms().saturating_sub(since_ms));
    let series = statistics.queue(record.id);
    figures.messages_details = stats::rate(series, MESSAGES, histories.lengths);
    figures.messages_ready_details = stats::rate(series, READY, histories.lengths);
    figures.messages_unacknowledged_details = stats::rate(series, UNACKED, histories.lengths);
    let traffic = view
        .map(|view| as_traffic(&view.traffic))
        .unwrap_or_default();
    figures.idle_since = statistics.queue_idle_since_ms(record.id).map(iso8601);
    figures.message_stats = stats::message_stats(&traffic, series, histories.messages);
}

fn figures(
    record: &QueueRecord,
    view: Option<&QueueView>,
    counts: QueueCounts,
    detailed: bool,
) -> QueueFigures {
    let is_quorum = record.kind == QueueKind::Quorum;
    let shown_tag = |tag: Option<&broker_core::ConsumerTag>| match (tag, detailed) {
        (Some(tag), _) => Some(json!(tag.as_str())),
        (None, true) => Some(Value::Null),
        (None, false) => None,
    };
    let mut figures = QueueFigures {
        messages: counts.messages(),
        messages_ready: counts.ready,
        messages_unacknowledged: counts.unacked,
        message_bytes: counts.bytes(),
        message_bytes_ready: counts.ready_bytes,
        message_bytes_unacknowledged: counts.unacked_bytes,
        consumers: counts.consumers,
        consumer_capacity: consumer_capacity(counts),
        consumer_utilisation: consumer_capacity(counts),
        memory: view.map_or(0, |view| view.memory_bytes as u64),
        single_active_consumer_tag: shown_tag(view.and_then(|view| view.active_consumer.as_ref())),
        ..QueueFigures::default()
    };
    if is_quorum {
        let by_priority = view
            .map(|view| view.ready_by_priority.as_slice())
            .unwrap_or_default();
        figures.messages_persistent = counts.messages();
        figures.message_bytes_persistent = counts.bytes();
        figures.messages_active_priorities = Some(by_priority.len() as u64);
        figures.messages_by_priority = Some(
            by_priority
                .iter()
                .map(|(priority, ready)| (priority.to_string(), *ready))
                .collect(),
        );
        figures.messages_ready_returned = Some(counts.returned);
        figures.messages_delayed = Some(counts.delayed);
        figures.messages_dlx = Some(counts.dead_lettering);
        figures.message_bytes_dlx = Some(counts.dead_lettering_bytes);
        return figures;
    }
    let exclusive = view.and_then(|view| view.exclusive_consumer.as_ref());
    figures.exclusive_consumer_tag = shown_tag(exclusive);
    figures.head_message_timestamp = detailed.then_some(Value::Null);
    figures.storage_version = Some(2);
    figures.messages_ready_ram = Some(0);
    figures.messages_unacknowledged_ram = Some(0);
    figures
}

/// Consumers that have taken all there is could take more.
fn consumer_capacity(counts: QueueCounts) -> f64 {
    if counts.consumers > 0 && counts.ready == 0 {
        1.0
    } else {
        0.0
    }
}

pub(crate) fn exchange(api: &Api, record: &ExchangeRecord, histories: Histories) -> Exchange {
    let counts = api
        .broker()
        .exchange_traffic(&record.vhost, record.name.as_str());
    let message_stats = counts.and_then(|counts| {
        let statistics = api.statistics().lock();
        let series = statistics.exchange(&record.vhost, &record.name);
        stats::exchange_stats(counts, series, histories.messages)
    });
    Exchange {
        name: record.name.to_string(),
        vhost: record.vhost.to_string(),
        kind: record.kind.name().to_owned(),
        durable: record.durable,
        auto_delete: record.auto_delete,
        internal: record.internal,
        arguments: table(&record.arguments),
        // The broker does not keep who made it; tools only show the name.
        user_who_performed_action: String::new(),
        policy: record.policy.as_deref().map(str::to_owned),
        message_stats,
        incoming: None,
        outgoing: None,
    }
}

pub(crate) fn binding(vhost: &VhostName, binding: &metadata::Binding) -> Binding {
    Binding {
        source: binding.source.to_string(),
        vhost: vhost.to_string(),
        destination: binding.destination.name().to_owned(),
        destination_type: binding.destination.kind().to_string(),
        routing_key: binding.key.to_string(),
        arguments: table(&binding.arguments),
        properties_key: properties_key(&binding.key, &binding.arguments),
    }
}

/// The default exchange's own binding of a queue.
pub(crate) fn implicit_binding(vhost: &VhostName, queue: &QueueName) -> Binding {
    Binding {
        source: String::new(),
        vhost: vhost.to_string(),
        destination: queue.to_string(),
        destination_type: "queue".to_owned(),
        routing_key: queue.to_string(),
        arguments: json!({}),
        properties_key: properties_key(queue.as_str(), &amqp::Table::default()),
    }
}

/// A binding's name in paths: its key, and a short hash of the arguments if it has any.
// rabbitmq: properties_key; opaque to clients but for `~`, which has neither
pub(crate) fn properties_key(key: &str, arguments: &amqp::Table) -> String {
    if arguments.is_empty() {
        return if key.is_empty() {
            "~".to_owned()
        } else {
            paths::form_encoded(key)
        };
    }
    let mut encoded = Vec::new();
    arguments.encode(&mut encoded);
    let hash = BASE64_URL_SAFE_NO_PAD.encode(fnv1a(&encoded).to_be_bytes());
    format!("{}~{hash}", paths::form_encoded(key))
}

/// Fowler, Noll and Vo's hash, 32 bits: the same in every run and release.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

pub(crate) fn vhost(
    api: &Api,
    metadata: &Metadata,
    vhost: &metadata::Vhost,
    traffic: &TrafficCounts,
    histories: Histories,
) -> Vhost {
    let record = vhost.record();
    let default_kind = record
        .default_queue_type
        .unwrap_or(metadata.defaults().queue_kind);
    let mut totals = QueueCounts::default();
    for queue in vhost.queues() {
        if let Some(counts) = api.broker().queue_counts(queue.id) {
            totals.ready += counts.ready;
            totals.unacked += counts.unacked;
            totals.delayed += counts.delayed;
            totals.dead_lettering += counts.dead_lettering;
        }
    }
    let statistics = api.statistics().lock();
    let series = statistics.vhost(vhost.name());
    Vhost {
        name: vhost.name().to_string(),
        description: record.description.to_string(),
        tags: strings(&record.tags),
        default_queue_type: default_kind.name().to_owned(),
        protected_from_deletion: record.protected_from_deletion,
        metadata: VhostMetadata {
            description: record.description.to_string(),
            tags: strings(&record.tags),
            default_queue_type: default_kind.name().to_owned(),
            protected_from_deletion: record.protected_from_deletion,
        },
        tracing: record.tracing,
        cluster_state: BTreeMap::from([(api.node().to_owned(), "running".to_owned())]),
        messages: totals.messages(),
        messages_details: stats::rate(series, MESSAGES, histories.lengths),
        messages_ready: totals.ready,
        messages_ready_details: stats::rate(series, READY, histories.lengths),
        messages_unacknowledged: totals.unacked,
        messages_unacknowledged_details: stats::rate(series, UNACKED, histories.lengths),
        message_stats: stats::message_stats(traffic, series, histories.messages),
        recv_oct: None,
        recv_oct_details: None,
        send_oct: None,
        send_oct_details: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_without_key_and_arguments_is_a_tilde() {
        assert_eq!(properties_key("", &amqp::Table::default()), "~");
    }

    #[test]
    fn arguments_add_a_short_hash_that_depends_on_them() {
        let with = |value: i64| {
            let table: amqp::Table = [("a", amqp::Value::I64(value))].into_iter().collect();
            properties_key("k", &table)
        };
        assert!(
            with(1).starts_with("k~") && with(1).len() == 8,
            "{}",
            with(1)
        );
        assert_ne!(with(1), with(2));
        assert_eq!(with(1), with(1));
    }
}
