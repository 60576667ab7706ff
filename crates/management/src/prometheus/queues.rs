//! Queues.

use std::sync::Arc;

use broker::observe::QueueView;
use broker_core::metadata::QueueRecord;
use broker_core::settings::QueueKind;

use super::exposition::Kind::{Counter, Gauge, Untyped};
use super::exposition::{Exposition, Labels};
use super::objects::{Labelled, Scope};
use crate::state::Api;

impl Labelled for QueueView {
    fn with_labels(&self, use_them: impl FnOnce(Labels<'_>)) {
        let record = &self.record;
        use_them(&[
            ("vhost", record.vhost.as_str()),
            ("queue", record.name.as_str()),
        ]);
    }
}

/// One look at every queue of the scope.
pub(super) fn views(api: &Api, scope: &Scope) -> Vec<QueueView> {
    let mut records: Vec<Arc<QueueRecord>> = {
        let metadata = api.broker().metadata();
        let vhosts = metadata
            .vhosts()
            .filter(|vhost| scope.has_vhost(vhost.name()));
        vhosts.flat_map(|vhost| vhost.queues().cloned()).collect()
    };
    records.retain(|record| scope.has_queue(record.name.as_str()));
    records
        .sort_unstable_by(|one, other| (&one.vhost, &one.name).cmp(&(&other.vhost, &other.name)));
    records
        .iter()
        .filter_map(|record| api.broker().queue_view(record))
        .collect()
}

pub(super) fn write_all(api: &Api, scope: &Scope, out: &mut Exposition) {
    let views = views(api, scope);
    coarse(&views, scope, out);
    consumers(&views, scope, out);
    figures(&views, scope, out);
    deliveries(&views, scope, out);
}

pub(super) fn write_coarse(api: &Api, scope: &Scope, out: &mut Exposition) {
    coarse(&views(api, scope), scope, out);
}

pub(super) fn write_consumers(api: &Api, scope: &Scope, out: &mut Exposition) {
    consumers(&views(api, scope), scope, out);
}

pub(super) fn write_figures(api: &Api, scope: &Scope, out: &mut Exposition) {
    figures(&views(api, scope), scope, out);
}

pub(super) fn write_deliveries(api: &Api, scope: &Scope, out: &mut Exposition) {
    deliveries(&views(api, scope), scope, out);
}

fn coarse(views: &[QueueView], scope: &Scope, out: &mut Exposition) {
    scope.write(
        out,
        Gauge,
        "queue_messages_ready",
        "Messages that wait for consumers.",
        views,
        |v| v.counts.ready,
    );
    scope.write(
        out,
        Gauge,
        "queue_messages_unacked",
        "Messages that are handed out.",
        views,
        |v| v.counts.unacked,
    );
    scope.write(out, Gauge, "queue_messages", "All messages.", views, |v| {
        v.counts.messages()
    });
}

fn consumers(views: &[QueueView], scope: &Scope, out: &mut Exposition) {
    scope.write(out, Gauge, "queue_consumers", "Consumers.", views, |v| {
        v.counts.consumers
    });
}

fn figures(views: &[QueueView], scope: &Scope, out: &mut Exposition) {
    let quorum_only = |view: &QueueView, count: u64| match view.record.kind {
        QueueKind::Quorum => count,
        QueueKind::Classic => 0,
    };
    scope.write(
        out,
        Gauge,
        "queue_messages_bytes",
        "Bytes of all messages.",
        views,
        |v| v.counts.bytes(),
    );
    scope.write(
        out,
        Gauge,
        "queue_messages_ready_bytes",
        "Bytes that wait.",
        views,
        |v| v.counts.ready_bytes,
    );
    scope.write(
        out,
        Gauge,
        "queue_messages_unacked_bytes",
        "Bytes handed out.",
        views,
        |v| v.counts.unacked_bytes,
    );
    let help = "Messages of quorum queues, which outlive a restart whatever they are.";
    scope.write(out, Gauge, "queue_messages_persistent", help, views, |v| {
        quorum_only(v, v.counts.messages())
    });
    scope.write(
        out,
        Gauge,
        "queue_messages_persistent_bytes",
        "Their bytes.",
        views,
        |v| quorum_only(v, v.counts.bytes()),
    );
    let help = "Bytes of memory of the queue's own structures.";
    scope.write(out, Gauge, "queue_process_memory_bytes", help, views, |v| {
        v.memory_bytes as u64
    });
    let help = "1 while consumers could take more than there is.";
    scope.write(out, Gauge, "queue_consumer_capacity", help, views, |v| {
        u64::from(v.counts.consumers > 0 && v.counts.ready == 0)
    });
    scope.write(out, Gauge, "queue_consumer_utilisation", help, views, |v| {
        u64::from(v.counts.consumers > 0 && v.counts.ready == 0)
    });
}

fn deliveries(views: &[QueueView], scope: &Scope, out: &mut Exposition) {
    let help = "Messages got with acknowledgement.";
    scope.write(out, Counter, "queue_get_ack_total", help, views, |v| {
        v.traffic.get
    });
    let help = "Messages got without acknowledgement.";
    scope.write(out, Counter, "queue_get_total", help, views, |v| {
        v.traffic.get_no_ack
    });
    let help = "Times that there was nothing to get.";
    scope.write(out, Counter, "queue_get_empty_total", help, views, |v| {
        v.traffic.get_empty
    });
    let help = "Messages delivered to consumers that acknowledge.";
    scope.write(
        out,
        Counter,
        "queue_messages_delivered_ack_total",
        help,
        views,
        |v| v.traffic.deliver,
    );
    let help = "Messages delivered to consumers that do not acknowledge.";
    scope.write(
        out,
        Counter,
        "queue_messages_delivered_total",
        help,
        views,
        |v| v.traffic.deliver_no_ack,
    );
    let help = "Messages handed out once more.";
    scope.write(
        out,
        Counter,
        "queue_messages_redelivered_total",
        help,
        views,
        |v| v.traffic.redeliver,
    );
    let help = "Messages acknowledged.";
    scope.write(
        out,
        Counter,
        "queue_messages_acked_total",
        help,
        views,
        |v| v.traffic.ack,
    );
    let help = "Messages that came in.";
    scope.write(
        out,
        Counter,
        "queue_messages_published_total",
        help,
        views,
        |v| v.traffic.publish,
    );
}

/// Type and standing of each queue.
pub(super) fn write_info(api: &Api, scope: &Scope, out: &mut Exposition) {
    for view in views(api, scope) {
        let record = &view.record;
        let labels = [
            ("vhost", record.vhost.as_str()),
            ("queue", record.name.as_str()),
            ("queue_type", record.kind.module_name()),
            ("membership", "leader"),
        ];
        out.add(
            Untyped,
            "rabbitmq_queue_info",
            "Type and standing of the queue.",
            &labels,
            1_u64,
        );
    }
}
