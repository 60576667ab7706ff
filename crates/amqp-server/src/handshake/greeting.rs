//! connection.start: who we are and what we can.

use amqp::protocol::{AMQPClass, connection};
use amqp::protocol_types::LongString;
use amqp::{Table, Value, encode_method_with_table};

use crate::options::ServerIdentity;

/// What RabbitMQ announces, and so do we: clients look for these before they use them.
const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

/// The whole frame of connection.start. `mechanisms` are separated by blanks.
pub(super) fn start(identity: &ServerIdentity, mechanisms: &str) -> Vec<u8> {
    let start = connection::Start {
        version_major: 0,
        version_minor: 9,
        mechanisms: LongString::from(mechanisms),
        locales: LongString::from("en_US"),
        ..connection::Start::default()
    };
    let method = AMQPClass::Connection(connection::AMQPMethod::Start(start));
    let mut frame = Vec::new();
    encode_method_with_table(&mut frame, 0, &method, &server_properties(identity));
    frame
}

/// Sorted by key, as RabbitMQ sends them.
fn server_properties(identity: &ServerIdentity) -> Table {
    let mut capabilities = Table::new();
    for capability in CAPABILITIES {
        capabilities.push(capability, Value::Bool(true));
    }
    let mut properties = Table::new();
    properties.push("capabilities", Value::Table(capabilities));
    properties.push("cluster_name", Value::from(identity.cluster_name.as_str()));
    properties.push("copyright", Value::from(identity.copyright.as_str()));
    properties.push("information", Value::from(identity.information.as_str()));
    properties.push("platform", Value::from(identity.platform.as_str()));
    properties.push("product", Value::from(identity.product.as_str()));
    properties.push(
        "sluicemq_version",
        Value::from(identity.sluicemq_version.as_str()),
    );
    properties.push("version", Value::from(identity.version.as_str()));
    properties
}

#[cfg(test)]
mod tests {
    use amqp::{FrameDecoder, Method};

    use super::*;

    #[test]
    fn server_properties_come_sorted_with_all_capabilities_true() {
        let bytes = start(&ServerIdentity::default(), "AMQPLAIN PLAIN");
        let (frame, used) = FrameDecoder::new(8192).next(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        let Method::Other(other) = Method::decode(frame.payload).unwrap() else {
            panic!("connection.start");
        };
        let keys: Vec<_> = other
            .table
            .iter()
            .map(|(key, _)| key.as_str().unwrap())
            .collect();
        assert!(keys.is_sorted(), "{keys:?}");
        let capabilities = other
            .table
            .get("capabilities")
            .and_then(Value::as_table)
            .unwrap();
        assert_eq!(capabilities.len(), 9);
        assert!(
            capabilities
                .iter()
                .all(|(_, value)| *value == Value::Bool(true))
        );
        let AMQPClass::Connection(connection::AMQPMethod::Start(start)) = other.call else {
            panic!("connection.start");
        };
        assert_eq!((start.version_major, start.version_minor), (0, 9));
        assert_eq!(start.mechanisms.as_bytes(), b"AMQPLAIN PLAIN");
    }
}
