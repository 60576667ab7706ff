//! Sums over the node and the cluster.

use broker::observe::{DeathStrategy, QueueTraffic, SIZE_CLASSES};
use broker_core::metadata::Vhost;
use broker_core::settings::QueueKind;

use super::exposition::Exposition;
use super::exposition::Kind::{Counter, Gauge};
use super::objects::Scope;
use crate::state::Api;

const PROTOCOL: (&str, &str) = ("protocol", "amqp091");

/// Objects, and what came and went.
pub(super) fn write(api: &Api, out: &mut Exposition) {
    write_churn(api, "", out);
    let connections = api.broker().connections();
    let channels: usize = connections
        .iter()
        .map(|connection| connection.channel_count())
        .sum();
    let mut consumers = 0;
    let mut queues = 0_u64;
    api.broker().each_queue(|_, counts, _| {
        consumers += counts.consumers;
        queues += 1;
    });
    out.add(
        Gauge,
        "rabbitmq_connections",
        "Open connections.",
        &[],
        connections.len(),
    );
    out.add(Gauge, "rabbitmq_channels", "Open channels.", &[], channels);
    out.add(Gauge, "rabbitmq_consumers", "Consumers.", &[], consumers);
    out.add(Gauge, "rabbitmq_queues", "Queues.", &[], queues);
}

pub(super) fn write_churn(api: &Api, prefix: &str, out: &mut Exposition) {
    let churn = api.broker().churn();
    let rows = [
        (
            "connections_opened_total",
            "Connections opened.",
            churn.connections_opened,
        ),
        (
            "connections_closed_total",
            "Connections closed.",
            churn.connections_closed,
        ),
        (
            "channels_opened_total",
            "Channels opened.",
            churn.channels_opened,
        ),
        (
            "channels_closed_total",
            "Channels closed.",
            churn.channels_closed,
        ),
        (
            "queues_declared_total",
            "Queue declarations.",
            churn.queues_declared,
        ),
        (
            "queues_created_total",
            "Queues created.",
            churn.queues_created,
        ),
        (
            "queues_deleted_total",
            "Queues deleted.",
            churn.queues_deleted,
        ),
    ];
    for (name, help, count) in rows {
        out.add(
            Counter,
            &format!("rabbitmq_{prefix}{name}"),
            help,
            &[],
            count,
        );
    }
}

/// Messages by protocol and queue type since the node started.
pub(super) fn write_global(api: &Api, out: &mut Exposition) {
    let (_, traffic) = api.broker().traffic();
    let rows = [
        (
            "messages_received_total",
            "Messages published.",
            traffic.publish,
        ),
        (
            "messages_confirmed_total",
            "Messages confirmed.",
            traffic.confirm,
        ),
        (
            "messages_unroutable_returned_total",
            "Unroutable messages returned.",
            traffic.return_unroutable,
        ),
        (
            "messages_unroutable_dropped_total",
            "Unroutable messages dropped.",
            traffic.drop_unroutable,
        ),
    ];
    for (name, help, count) in rows {
        out.add(
            Counter,
            &format!("rabbitmq_global_{name}"),
            help,
            &[PROTOCOL],
            count,
        );
    }
    write_clients(api, out);
    let mut routed = 0;
    for kind in [QueueKind::Classic, QueueKind::Quorum] {
        let queues = by_kind(api, kind);
        routed += queues.publish;
        write_kind(kind, &queues, out);
        write_deaths(api, kind, out);
    }
    let help = "Copies of messages that went to queues.";
    out.add(
        Counter,
        "rabbitmq_global_messages_routed_total",
        help,
        &[PROTOCOL],
        routed,
    );
    write_sizes(api, out);
}

fn write_clients(api: &Api, out: &mut Exposition) {
    let connections = api.broker().connections();
    let (mut publishers, mut confirming) = (0_u64, 0_u64);
    for channel in connections
        .iter()
        .flat_map(|connection| connection.channels())
    {
        let traffic = channel.traffic();
        publishers += u64::from(traffic.publish > 0);
        if channel.is_confirming() {
            confirming += traffic.publish;
        }
    }
    let mut consumers = 0;
    api.broker()
        .each_queue(|_, counts, _| consumers += counts.consumers);
    let help = "Channels that have published.";
    out.add(
        Gauge,
        "rabbitmq_global_publishers",
        help,
        &[PROTOCOL],
        publishers,
    );
    out.add(
        Gauge,
        "rabbitmq_global_consumers",
        "Consumers.",
        &[PROTOCOL],
        consumers,
    );
    let help = "Messages published on open channels that confirm.";
    let name = "rabbitmq_global_messages_received_confirm_total";
    out.add(Counter, name, help, &[PROTOCOL], confirming);
}

/// What all queues of a type did, those that are deleted too.
fn by_kind(api: &Api, kind: QueueKind) -> QueueTraffic {
    let of_kind: std::collections::HashSet<_> = {
        let metadata = api.broker().metadata();
        let queues = metadata.queues().filter(|record| record.kind == kind);
        queues.map(|record| record.id).collect()
    };
    let mut sum = api.broker().traffic_of_deleted_queues(kind);
    api.broker().each_queue(|queue, _, traffic| {
        if of_kind.contains(&queue) {
            sum += *traffic;
        }
    });
    sum
}

fn write_kind(kind: QueueKind, queues: &QueueTraffic, out: &mut Exposition) {
    let labels = [PROTOCOL, ("queue_type", kind.module_name())];
    let delivered = queues.deliver + queues.deliver_no_ack + queues.get + queues.get_no_ack;
    let rows = [
        (
            "messages_delivered_total",
            "Messages handed out.",
            delivered,
        ),
        (
            "messages_delivered_consume_manual_ack_total",
            "Messages delivered with acknowledgement.",
            queues.deliver,
        ),
        (
            "messages_delivered_consume_auto_ack_total",
            "Messages delivered without acknowledgement.",
            queues.deliver_no_ack,
        ),
        (
            "messages_delivered_get_manual_ack_total",
            "Messages got with acknowledgement.",
            queues.get,
        ),
        (
            "messages_delivered_get_auto_ack_total",
            "Messages got without acknowledgement.",
            queues.get_no_ack,
        ),
        (
            "messages_get_empty_total",
            "Times that there was nothing to get.",
            queues.get_empty,
        ),
        (
            "messages_redelivered_total",
            "Messages handed out once more.",
            queues.redeliver,
        ),
        (
            "messages_acknowledged_total",
            "Messages acknowledged.",
            queues.ack,
        ),
    ];
    for (name, help, count) in rows {
        out.add(
            Counter,
            &format!("rabbitmq_global_{name}"),
            help,
            &labels,
            count,
        );
    }
}

/// Reasons in the order of `DeathReason`.
const REASONS: [(&str, &str); 4] = [
    ("rejected", "Messages that consumers rejected."),
    ("expired", "Messages whose time was over."),
    ("maxlen", "Messages that made room, or found none."),
    ("delivery_limit", "Messages that were returned too often."),
];

fn write_deaths(api: &Api, kind: QueueKind, out: &mut Exposition) {
    let deaths = api.broker().deaths(kind);
    let strategies = [
        (DeathStrategy::AtMostOnce, "at_most_once"),
        (DeathStrategy::AtLeastOnce, "at_least_once"),
        (DeathStrategy::Disabled, "disabled"),
    ];
    let queue_type = ("queue_type", kind.module_name());
    for (row, (reason, help)) in REASONS.iter().enumerate() {
        // rabbitmq: classic queues have neither a delivery limit nor at-least-once dead letters
        if kind == QueueKind::Classic && *reason == "delivery_limit" {
            continue;
        }
        let name = format!("rabbitmq_global_messages_dead_lettered_{reason}_total");
        for (strategy, word) in strategies {
            if kind == QueueKind::Classic && strategy == DeathStrategy::AtLeastOnce {
                continue;
            }
            let labels = [queue_type, ("dead_letter_strategy", word)];
            out.add(
                Counter,
                &name,
                help,
                &labels,
                deaths.dead[row][strategy as usize],
            );
        }
    }
    if kind == QueueKind::Quorum {
        let name = "rabbitmq_global_messages_dead_lettered_confirmed_total";
        let help = "Dead letters that their targets confirmed.";
        let labels = [queue_type, ("dead_letter_strategy", "at_least_once")];
        out.add(Counter, name, help, &labels, deaths.confirmed);
    }
}

fn write_sizes(api: &Api, out: &mut Exposition) {
    let sizes = api.broker().message_sizes();
    let classes: Vec<(u64, u64)> = SIZE_CLASSES
        .iter()
        .copied()
        .zip(sizes.messages.iter().copied())
        .collect();
    let above = sizes.messages[SIZE_CLASSES.len()];
    let name = "rabbitmq_message_size_bytes";
    let help = "Sizes of published messages.";
    out.add_histogram(name, help, &[PROTOCOL], &classes, above, sizes.bytes);
}

fn each_vhost(api: &Api, scope: &Scope, mut write: impl FnMut(&Vhost)) {
    let metadata = api.broker().metadata();
    for vhost in metadata
        .vhosts()
        .filter(|vhost| scope.has_vhost(vhost.name()))
    {
        write(vhost);
    }
}

pub(super) fn write_vhosts(api: &Api, scope: &Scope, out: &mut Exposition) {
    each_vhost(api, scope, |vhost| {
        let labels = [("vhost", vhost.name().as_str())];
        let name = "rabbitmq_cluster_vhost_status";
        out.add(Gauge, name, "Whether the vhost is served.", &labels, 1_u64);
    });
}

pub(super) fn write_exchange_bindings(api: &Api, scope: &Scope, out: &mut Exposition) {
    each_vhost(api, scope, |vhost| {
        for exchange in vhost.exchanges() {
            let record = exchange.record();
            let labels = [
                ("vhost", vhost.name().as_str()),
                ("exchange", record.name.as_str()),
                ("type", record.kind.name()),
            ];
            let name = "rabbitmq_cluster_exchange_bindings";
            let help = "Bindings that lead away from the exchange.";
            out.add(Gauge, name, help, &labels, exchange.outgoing_count());
        }
    });
}

pub(super) fn write_exchange_names(api: &Api, scope: &Scope, out: &mut Exposition) {
    each_vhost(api, scope, |vhost| {
        for exchange in vhost.exchanges() {
            let record = exchange.record();
            let labels = [
                ("vhost", vhost.name().as_str()),
                ("exchange", record.name.as_str()),
                ("type", record.kind.name()),
            ];
            let name = "rabbitmq_cluster_exchange_name";
            out.add(Gauge, name, "Exchanges that exist.", &labels, 1_u64);
        }
    });
}
