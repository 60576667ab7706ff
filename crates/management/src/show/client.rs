//! Connections, channels and consumers.

use broker::observe::{ChannelView, ConnectionView, ConsumerInfo};
use broker_core::metadata::QueueRecord;
use broker_core::queue::ConsumerState;
use management_api::{
    Channel, ChannelDetails, Connection, ConnectionDetails, Consumer, QueueRef, UserConnection,
};

use super::stats::{self, Histories};
use super::{flow, table};
use crate::state::Api;
use crate::statistics::{RECEIVED, SENT};
use crate::time::iso8601;

const PROTOCOL: &str = "AMQP 0-9-1";

pub(crate) fn connection(api: &Api, view: &ConnectionView, histories: Histories) -> Connection {
    let node = api.node();
    let (peer, local) = (view.peer(), view.local());
    let ((received, reads), sent) = (view.received(), view.sent());
    let (received_rate, sent_rate) = {
        let statistics = api.statistics().lock();
        let series = statistics.connection(view.id());
        let rate = |counter| stats::rate(series, counter, histories.data_rates);
        (rate(RECEIVED), rate(SENT))
    };
    let client_properties = table(view.client_properties());
    let tls = view.tls();
    Connection {
        name: view.name(),
        user_provided_name: client_properties
            .get("connection_name")
            .and_then(|name| name.as_str())
            .map(str::to_owned),
        node: node.to_owned(),
        host: local.ip().to_string(),
        port: local.port(),
        peer_host: peer.ip().to_string(),
        peer_port: peer.port(),
        protocol: PROTOCOL.to_owned(),
        kind: "network".to_owned(),
        state: state(view).to_owned(),
        vhost: view.vhost().to_string(),
        user: view.user().to_string(),
        user_who_performed_action: view.user().to_string(),
        auth_mechanism: view.mechanism().to_owned(),
        connected_at: view.connected_at_ms(),
        timeout: view.heartbeat_s(),
        frame_max: view.frame_max(),
        channel_max: view.channel_max(),
        channels: view.channel_count(),
        client_properties,
        ssl: tls.is_some(),
        ssl_protocol: tls.map(|tls| tls.protocol.clone()),
        ssl_cipher: tls.map(|tls| tls.cipher_suite.clone()),
        ssl_hash: None,
        ssl_key_exchange: None,
        peer_cert_subject: tls.and_then(|tls| tls.subject.clone()),
        peer_cert_issuer: tls.and_then(|tls| tls.issuer.clone()),
        peer_cert_validity: tls.and_then(|tls| tls.validity.clone()),
        peer_cert_serial_number: tls.and_then(|tls| tls.serial_number.clone()),
        recv_oct: received,
        recv_oct_details: received_rate,
        recv_cnt: reads,
        send_oct: sent.octets,
        send_oct_details: sent_rate,
        send_cnt: sent.writes,
        send_pend: sent.pending_octets,
        ingest_bytes: view.ingest_bytes(),
        parked_bytes: view.parked_bytes(),
    }
}

/// What a connection is doing, in the words that dashboards know.
// rabbitmq: connection states
fn state(view: &ConnectionView) -> &'static str {
    if view.is_blocked() {
        "blocked"
    } else if view.is_held() || view.has_held_channel() || view.paced_by().is_some() {
        "flow"
    } else {
        "running"
    }
}

pub(crate) fn user_connection(view: &ConnectionView, node: &str) -> UserConnection {
    UserConnection {
        name: view.name(),
        vhost: view.vhost().to_string(),
        user: view.user().to_string(),
        node: node.to_owned(),
    }
}

fn connection_details(view: &ConnectionView) -> ConnectionDetails {
    let peer = view.peer();
    ConnectionDetails {
        name: view.name(),
        peer_host: peer.ip().to_string(),
        peer_port: peer.port(),
    }
}

pub(crate) fn channel(api: &Api, view: &ChannelView, histories: Histories) -> Channel {
    let connection = view.connection();
    let traffic = view.traffic();
    let hold = flow::channel_hold(view);
    let (message_stats, idle_since) = {
        let statistics = api.statistics().lock();
        let series = statistics.channel(view.id());
        (
            stats::message_stats(&traffic, series, histories.messages),
            statistics.channel_idle_since_ms(view.id()).map(iso8601),
        )
    };
    Channel {
        name: view.name(),
        number: view.number(),
        node: api.node().to_owned(),
        vhost: connection.vhost().to_string(),
        user: connection.user().to_string(),
        user_who_performed_action: connection.user().to_string(),
        state: if hold.is_some() { "flow" } else { "running" }.to_owned(),
        connection_details: connection_details(&connection),
        prefetch_count: view.prefetch(),
        consumer_count: api.broker().consumer_count(view),
        confirm: view.is_confirming(),
        transactional: view.is_transactional(),
        messages_unacknowledged: view.unacked(),
        messages_unconfirmed: view.unconfirmed(),
        messages_uncommitted: view.uncommitted(),
        acks_uncommitted: 0,
        pending_raft_commands: 0,
        cached_segments: 0,
        idle_since,
        message_stats,
        hold,
        consumer_details: None,
        deliveries: None,
        publishes: None,
    }
}

pub(crate) fn consumer(info: &ConsumerInfo, record: &QueueRecord, node: &str) -> Consumer {
    let default_timeout_ms = record.settings.consumer_timeout_ms;
    Consumer {
        consumer_tag: info.tag.to_string(),
        arguments: table(&info.arguments),
        ack_required: !info.no_ack,
        exclusive: info.exclusive,
        active: info.state != ConsumerState::Waiting,
        activity_status: activity(info.state).to_owned(),
        prefetch_count: info.prefetch,
        consumer_timeout: info.timeout_ms.or(default_timeout_ms).unwrap_or_default(),
        queue: QueueRef {
            name: record.name.to_string(),
            vhost: record.vhost.to_string(),
        },
        channel_details: channel_details(&info.channel, node),
    }
}

pub(crate) fn channel_details(channel: &ChannelView, node: &str) -> ChannelDetails {
    let connection = channel.connection();
    let peer = connection.peer();
    ChannelDetails {
        connection_name: connection.name(),
        name: channel.name(),
        node: node.to_owned(),
        number: channel.number(),
        peer_host: peer.ip().to_string(),
        peer_port: peer.port(),
        user: connection.user().to_string(),
    }
}

fn activity(state: ConsumerState) -> &'static str {
    match state {
        ConsumerState::Up => "up",
        ConsumerState::SingleActive => "single_active",
        ConsumerState::Waiting => "waiting",
        ConsumerState::TimedOut => "timeout",
    }
}

/// The owner of an exclusive queue.
pub(super) fn owner(view: &ConnectionView) -> ConnectionDetails {
    connection_details(view)
}
