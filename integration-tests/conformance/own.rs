//! What only this broker has: its own defaults, and the list of wanted differences itself.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock};

use integration_tests::differences::differences;
use integration_tests::request::{basic_nack, basic_recover};
use integration_tests::{
    BrokerProcess, Channel, Connection, ConsumerSpec, QueueSpec, Value, own_broker,
};

/// A broker with nothing set, shared by the tests of this file.
fn broker() -> MutexGuard<'static, BrokerProcess> {
    static BROKER: OnceLock<Mutex<BrokerProcess>> = OnceLock::new();
    let broker = BROKER.get_or_init(|| Mutex::new(BrokerProcess::start()));
    broker
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A quorum queue with one argument and one message.
fn quorum(channel: &Channel, name: &str, argument: &str, value: i32) {
    channel.declare(&QueueSpec::quorum(name).argument(argument, value));
    channel.put_all(name, ["a"]);
}

#[test]
fn every_listed_difference_names_a_test_of_this_suite() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    for difference in differences() {
        let (module, test) = difference
            .test
            .rsplit_once("::")
            .expect("A path inside the suite.");
        let path = module.replace("::", "/");
        let files = [
            suite.join(format!("{path}.rs")),
            suite.join(path).join("mod.rs"),
        ];
        let texts: String = files.iter().flat_map(fs::read_to_string).collect();
        assert!(
            texts.contains(&format!("fn {test}(")),
            "{} is not there",
            difference.test
        );
        assert!(
            !difference.reason.is_empty(),
            "{} has no reason",
            difference.test
        );
    }
}

// Our own default: every return counts towards the delivery limit.
#[test]
fn by_default_every_return_counts_towards_the_delivery_limit() {
    own_broker(|| {
        let channel = Connection::open(broker().address()).channel(1);
        quorum(&channel, "returns", "x-delivery-limit", 2);
        for n in 0..3 {
            let delivery = channel.get_soon("returns");
            let count = delivery
                .properties
                .get("x-delivery-count")
                .and_then(Value::as_integer);
            assert_eq!(count.unwrap_or_default(), n);
            if n == 1 {
                channel.call(&basic_recover(true));
            } else {
                channel.send(&basic_nack(delivery.tag, false, true));
            }
        }
        channel.expect_ready("returns", 0);
        assert_eq!(channel.get("returns"), None);
    });
}

// Our own default: a consumer that does not ack in time loses its channel.
#[test]
fn by_default_a_late_ack_closes_the_channel_with_406() {
    own_broker(|| {
        let address = broker().address();
        let watcher = Connection::open(address).channel(1);
        quorum(&watcher, "late", "x-consumer-timeout", 500);
        let slow = Connection::open(address).channel(1);
        slow.consume(&ConsumerSpec::of("late"));
        slow.expect_delivery();
        let close = slow.expect_close();
        assert_eq!((close.code, close.fault), (406, (0, 0)), "{close:?}");
        assert!(watcher.get_soon("late").redelivered);
    });
}

// The product's own name, unless it is told to use another one.
#[test]
fn the_product_is_sluicemq_and_speaks_the_level_of_rabbitmq_4_3() {
    own_broker(|| {
        let properties = Connection::open(broker().address()).server_properties();
        let text = |key| properties.get(key).and_then(Value::as_text);
        assert_eq!(text("product"), Some("SluiceMQ"));
        assert_eq!(text("version"), Some("4.3.6"));
        assert!(text("sluicemq_version").is_some(), "{properties:?}");
    });
}

// `node.product` is for clients that insist on a name.
#[test]
fn the_product_name_can_be_set() {
    own_broker(|| {
        let broker = BrokerProcess::start_with(&["node.product=RabbitMQ"]);
        let properties = Connection::open(broker.address()).server_properties();
        assert_eq!(
            properties.get("product").and_then(Value::as_text),
            Some("RabbitMQ")
        );
    });
}
