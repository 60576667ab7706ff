//! Opening an AMQP connection: who we are, who the broker is, and what both agreed on.

use amqp::protocol::{AMQPClass, connection};
use amqp::{ByteString, Table, Value, encode_method, encode_method_with_table};
use serde::Serialize;

use super::ClientFault;
use super::connection::Connection;
use super::link::{Link, TlsTrust};
use crate::uri::Endpoint;

/// The largest frame we ask for. RabbitMQ's default; larger ones bring nothing.
const FRAME_BYTES_MAX: u32 = 131_072;

/// How to open connections.
#[derive(Clone, Debug)]
pub(crate) struct ClientOptions {
    pub(crate) trust: TlsTrust,
    /// Seconds; 0 turns heartbeats off. The smaller of ours and the broker's wins.
    pub(crate) heartbeat_seconds: u16,
}

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuned {
    pub(crate) frame_bytes_max: u32,
    pub(crate) heartbeat_seconds: u16,
    /// The highest channel number; 0 sets no limit.
    pub(crate) channel_max: u16,
}

/// Who the broker says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ServerIdentity {
    pub(crate) product: String,
    pub(crate) version: String,
    pub(crate) platform: String,
}

impl Connection {
    pub(crate) async fn open(
        endpoint: &Endpoint,
        options: &ClientOptions,
    ) -> Result<Self, ClientFault> {
        let link = Link::open(endpoint, &options.trust).await?;
        let mut connection = Self::unopened(link);
        connection.out.extend_from_slice(&amqp::PROTOCOL_HEADER);
        connection.server = greet(&mut connection, endpoint).await?;
        let tuned = tune(&mut connection, options).await?;
        connection.tuned_to(tuned);
        let open = connection::Open {
            virtual_host: endpoint.vhost.as_str().into(),
        };
        let open = AMQPClass::Connection(connection::AMQPMethod::Open(open));
        match connection.call(0, &open).await?.call {
            AMQPClass::Connection(connection::AMQPMethod::OpenOk(_)) => Ok(connection),
            other => Err(unexpected(&other, "connection.open-ok")),
        }
    }
}

async fn greet(
    connection: &mut Connection,
    endpoint: &Endpoint,
) -> Result<ServerIdentity, ClientFault> {
    let start = connection.answer(0, "the protocol header").await?;
    let AMQPClass::Connection(connection::AMQPMethod::Start(_)) = start.call else {
        return Err(unexpected(&start.call, "connection.start"));
    };
    let login = format!("\0{}\0{}", endpoint.user, endpoint.password);
    let start_ok = connection::StartOk {
        mechanism: "PLAIN".into(),
        response: login.as_str().into(),
        locale: "en_US".into(),
        ..connection::StartOk::default()
    };
    let start_ok = AMQPClass::Connection(connection::AMQPMethod::StartOk(start_ok));
    encode_method_with_table(&mut connection.out, 0, &start_ok, &client_properties());
    Ok(identity(&start.table))
}

async fn tune(connection: &mut Connection, options: &ClientOptions) -> Result<Tuned, ClientFault> {
    let tune = connection.answer(0, "connection.start-ok").await?.call;
    let AMQPClass::Connection(connection::AMQPMethod::Tune(tune)) = tune else {
        return Err(unexpected(&tune, "connection.tune"));
    };
    let tuned = Tuned {
        frame_bytes_max: smaller_limit(tune.frame_max, FRAME_BYTES_MAX),
        heartbeat_seconds: smaller_limit(tune.heartbeat, options.heartbeat_seconds),
        channel_max: tune.channel_max,
    };
    let heartbeat = if options.heartbeat_seconds == 0 {
        0
    } else {
        tuned.heartbeat_seconds
    };
    let tuned = Tuned {
        heartbeat_seconds: heartbeat,
        ..tuned
    };
    let tune_ok = connection::TuneOk {
        channel_max: tuned.channel_max,
        frame_max: tuned.frame_bytes_max,
        heartbeat,
    };
    let tune_ok = AMQPClass::Connection(connection::AMQPMethod::TuneOk(tune_ok));
    encode_method(&mut connection.out, 0, &tune_ok);
    Ok(tuned)
}

/// The smaller of two limits, where 0 means none.
fn smaller_limit<N: Ord + Default + Copy>(a: N, b: N) -> N {
    let none = N::default();
    if a == none || b == none {
        a.max(b)
    } else {
        a.min(b)
    }
}

// `channel_flow_aware` tells SluiceMQ that we stop publishing when it says channel.flow; brokers
// that do not know the word ignore it.
fn client_properties() -> Table {
    let capabilities: Table = [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
        "per_consumer_qos",
        "channel_flow_aware",
    ]
    .into_iter()
    .map(|name| (name, true))
    .collect();
    let mut properties: Table = [
        ("product", "sluicemq-perf"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("platform", "Rust"),
        ("connection_name", "sluicemq-perf"),
    ]
    .into_iter()
    .collect();
    properties.insert("capabilities", capabilities);
    properties
}

fn identity(server_properties: &Table) -> ServerIdentity {
    let text = |key| {
        let value = server_properties.get(key).and_then(Value::as_bytes);
        value.map_or_else(String::new, |bytes| {
            String::from_utf8_lossy(ByteString::new(bytes).as_bytes()).into_owned()
        })
    };
    ServerIdentity {
        product: text("product"),
        version: text("version"),
        platform: text("platform"),
    }
}

fn unexpected(got: &AMQPClass, expected: &str) -> ClientFault {
    ClientFault::unexpected(format!("{got:?}"), expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_limit_wins_and_zero_is_no_limit() {
        assert_eq!(smaller_limit(0_u16, 5), 5);
        assert_eq!(smaller_limit(5_u16, 0), 5);
        assert_eq!(smaller_limit(7_u16, 5), 5);
        assert_eq!(smaller_limit(0_u16, 0), 0);
    }

    #[test]
    fn a_broker_without_names_is_nobody_and_not_a_fault() {
        assert_eq!(identity(&Table::new()), ServerIdentity::default());
        let named: Table = [("product", "P"), ("version", "1")].into_iter().collect();
        assert_eq!(identity(&named).product, "P");
        assert_eq!(identity(&named).version, "1");
    }
}
