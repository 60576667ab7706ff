//! Channels, connections and exchanges.

use broker::observe::{ChannelView, ConnectionView, Octets, TrafficCounts};
use broker_core::{ExchangeName, VhostName};

use super::exposition::Kind::{Counter, Gauge};
use super::exposition::{Exposition, Labels};
use super::objects::{Labelled, Scope};
use crate::state::Api;

/// A channel at one moment.
struct Channel {
    name: String,
    traffic: TrafficCounts,
    consumers: u64,
    unacked: u64,
    unconfirmed: u64,
    uncommitted: u64,
    prefetch: u64,
}

impl Labelled for Channel {
    fn with_labels(&self, use_them: impl FnOnce(Labels<'_>)) {
        use_them(&[("channel", &self.name)]);
    }
}

/// A connection at one moment.
struct Connection {
    name: String,
    channels: u64,
    octets: Octets,
    pending_octets: u64,
}

impl Labelled for Connection {
    // rabbitmq: the label of connections is called channel
    fn with_labels(&self, use_them: impl FnOnce(Labels<'_>)) {
        use_them(&[("channel", &self.name)]);
    }
}

/// An exchange at one moment.
struct Exchange {
    vhost: VhostName,
    name: ExchangeName,
    published: u64,
}

impl Labelled for Exchange {
    fn with_labels(&self, use_them: impl FnOnce(Labels<'_>)) {
        use_them(&[
            ("vhost", self.vhost.as_str()),
            ("exchange", self.name.as_str()),
        ]);
    }
}

fn connections(api: &Api, scope: &Scope) -> Vec<ConnectionView> {
    let mut connections = api.broker().connections();
    connections.retain(|connection| scope.has_vhost(connection.vhost()));
    connections
}

fn channels(api: &Api, scope: &Scope) -> Vec<Channel> {
    let connections = connections(api, scope);
    let views = connections.iter().flat_map(ConnectionView::channels);
    views.map(|view| look(api, &view)).collect()
}

fn look(api: &Api, view: &ChannelView) -> Channel {
    Channel {
        name: view.name(),
        traffic: view.traffic(),
        consumers: api.broker().consumer_count(view) as u64,
        unacked: view.unacked(),
        unconfirmed: view.unconfirmed(),
        uncommitted: view.uncommitted(),
        prefetch: u64::from(view.prefetch()),
    }
}

fn exchanges(api: &Api, scope: &Scope) -> Vec<Exchange> {
    let names: Vec<(VhostName, ExchangeName)> = {
        let metadata = api.broker().metadata();
        let vhosts = metadata
            .vhosts()
            .filter(|vhost| scope.has_vhost(vhost.name()));
        let of_vhost = vhosts.flat_map(|vhost| {
            let names = vhost
                .exchanges()
                .map(|exchange| exchange.record().name.clone());
            names.map(|name| (vhost.name().clone(), name))
        });
        of_vhost.collect()
    };
    let counted = names.into_iter().filter_map(|(vhost, name)| {
        let (published, _) = api.broker().exchange_traffic(&vhost, name.as_str())?;
        Some(Exchange {
            vhost,
            name,
            published,
        })
    });
    counted.collect()
}

pub(super) fn write_all(api: &Api, scope: &Scope, out: &mut Exposition) {
    let channels = channels(api, scope);
    standing(&channels, scope, out);
    publishing(&channels, scope, out);
    taking(&channels, scope, out);
    write_connections(api, scope, out);
    write_exchanges(api, scope, out);
}

pub(super) fn write_channels(api: &Api, scope: &Scope, out: &mut Exposition) {
    standing(&channels(api, scope), scope, out);
}

pub(super) fn write_publishing(api: &Api, scope: &Scope, out: &mut Exposition) {
    publishing(&channels(api, scope), scope, out);
}

pub(super) fn write_taking(api: &Api, scope: &Scope, out: &mut Exposition) {
    taking(&channels(api, scope), scope, out);
}

fn standing(channels: &[Channel], scope: &Scope, out: &mut Exposition) {
    let help = "Consumers.";
    scope.write(out, Gauge, "channel_consumers", help, channels, |c| {
        c.consumers
    });
    let help = "Deliveries that wait for an acknowledgement.";
    scope.write(
        out,
        Gauge,
        "channel_messages_unacked",
        help,
        channels,
        |c| c.unacked,
    );
    let help = "Publishes that wait for a confirm.";
    scope.write(
        out,
        Gauge,
        "channel_messages_unconfirmed",
        help,
        channels,
        |c| c.unconfirmed,
    );
    let help = "Publishes that wait for a commit.";
    scope.write(
        out,
        Gauge,
        "channel_messages_uncommitted",
        help,
        channels,
        |c| c.uncommitted,
    );
    let help = "Prefetch of consumers to come.";
    scope.write(out, Gauge, "consumer_prefetch", help, channels, |c| {
        c.prefetch
    });
    let help = "Prefetch of the whole channel, which does not exist here.";
    scope.write(out, Gauge, "channel_prefetch", help, channels, |_| 0);
}

fn publishing(channels: &[Channel], scope: &Scope, out: &mut Exposition) {
    let help = "Messages published.";
    scope.write(
        out,
        Counter,
        "channel_messages_published_total",
        help,
        channels,
        |c| c.traffic.publish,
    );
    let help = "Messages confirmed.";
    scope.write(
        out,
        Counter,
        "channel_messages_confirmed_total",
        help,
        channels,
        |c| c.traffic.confirm,
    );
    let help = "Unroutable messages returned.";
    scope.write(
        out,
        Counter,
        "channel_messages_unroutable_returned_total",
        help,
        channels,
        |c| c.traffic.return_unroutable,
    );
    let help = "Unroutable messages dropped.";
    scope.write(
        out,
        Counter,
        "channel_messages_unroutable_dropped_total",
        help,
        channels,
        |c| c.traffic.drop_unroutable,
    );
}

fn taking(channels: &[Channel], scope: &Scope, out: &mut Exposition) {
    let help = "Messages got with acknowledgement.";
    scope.write(out, Counter, "channel_get_ack_total", help, channels, |c| {
        c.traffic.get
    });
    let help = "Messages got without acknowledgement.";
    scope.write(out, Counter, "channel_get_total", help, channels, |c| {
        c.traffic.get_no_ack
    });
    let help = "Times that there was nothing to get.";
    scope.write(
        out,
        Counter,
        "channel_get_empty_total",
        help,
        channels,
        |c| c.traffic.get_empty,
    );
    let help = "Messages delivered with acknowledgement.";
    scope.write(
        out,
        Counter,
        "channel_messages_delivered_ack_total",
        help,
        channels,
        |c| c.traffic.deliver,
    );
    let help = "Messages delivered without acknowledgement.";
    scope.write(
        out,
        Counter,
        "channel_messages_delivered_total",
        help,
        channels,
        |c| c.traffic.deliver_no_ack,
    );
    let help = "Messages handed out once more.";
    scope.write(
        out,
        Counter,
        "channel_messages_redelivered_total",
        help,
        channels,
        |c| c.traffic.redeliver,
    );
    let help = "Messages acknowledged.";
    scope.write(
        out,
        Counter,
        "channel_messages_acked_total",
        help,
        channels,
        |c| c.traffic.ack,
    );
}

pub(super) fn write_connections(api: &Api, scope: &Scope, out: &mut Exposition) {
    let views = connections(api, scope);
    let connections: Vec<_> = views
        .iter()
        .map(|view| Connection {
            name: view.name(),
            channels: view.channel_count() as u64,
            octets: octets(view),
            pending_octets: view.sent().pending_octets,
        })
        .collect();
    let help = "Open channels.";
    scope.write(out, Gauge, "connection_channels", help, &connections, |c| {
        c.channels
    });
    let help = "Octets that wait to be written.";
    scope.write(
        out,
        Gauge,
        "connection_pending_packets",
        help,
        &connections,
        |c| c.pending_octets,
    );
    // A sum must not shrink when a connection goes.
    let closed = scope.is_sum().then(|| api.broker().octets());
    let all = closed.map(|octets| {
        vec![Connection {
            name: String::new(),
            channels: 0,
            octets,
            pending_octets: 0,
        }]
    });
    let counted = all.as_deref().unwrap_or(&connections);
    let mut count = |name: &str, help: &str, of: fn(&Octets) -> u64| {
        scope.write(out, Counter, name, help, counted, |c| of(&c.octets));
    };
    let help = "Octets read from clients.";
    count("connection_incoming_bytes_total", help, |octets| {
        octets.received
    });
    let help = "Octets written to clients.";
    count("connection_outgoing_bytes_total", help, |octets| {
        octets.sent
    });
    let help = "Reads from clients.";
    count("connection_incoming_packets_total", help, |octets| {
        octets.reads
    });
    let help = "Writes to clients.";
    count("connection_outgoing_packets_total", help, |octets| {
        octets.writes
    });
}

fn octets(view: &ConnectionView) -> Octets {
    let ((received, reads), sent) = (view.received(), view.sent());
    Octets {
        received,
        reads,
        sent: sent.octets,
        writes: sent.writes,
    }
}

pub(super) fn write_exchanges(api: &Api, scope: &Scope, out: &mut Exposition) {
    let exchanges = exchanges(api, scope);
    let help = "Messages published to the exchange.";
    scope.write(
        out,
        Counter,
        "exchange_messages_published_total",
        help,
        &exchanges,
        |x| x.published,
    );
}
