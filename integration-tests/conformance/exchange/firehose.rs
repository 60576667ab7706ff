//! The firehose: what is published and delivered in a traced vhost is told to `amq.rabbitmq.trace`.

use integration_tests::request::exchange_bind;
use integration_tests::{
    Channel, Close, Connection, ConsumerSpec, Delivery, ExchangeSpec, Login, Method, Properties,
    Publication, QueueSpec, Table, Value, conformance,
};
use serde_json::json;

const TRACE: &str = "amq.rabbitmq.trace";

/// A vhost of its own that is traced, and a channel that takes the copies.
struct Traced {
    vhost: String,
    client: Connection,
    tap: Channel,
}

impl Traced {
    /// The next copy: its key, its headers and the body.
    fn copy(&self) -> (String, Table, String) {
        let copy = self.tap.expect_delivery();
        assert_eq!(copy.exchange, TRACE);
        let text = copy.text();
        let Delivery {
            routing_key,
            properties,
            ..
        } = copy;
        (routing_key, properties.headers.expect("headers"), text)
    }

    fn keys(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.copy().0).collect()
    }
}

fn traced(test: &str, body: impl Fn(&Traced)) {
    conformance(|trial| {
        let Some(http) = trial.http(test) else {
            return;
        };
        let vhost = trial.name("traced");
        let path = format!("/api/vhosts/{vhost}");
        http.ok("PUT", &path, Some(&json!({"tracing": true})));
        let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
        let rights_path = format!("/api/permissions/{vhost}/guest");
        http.ok("PUT", &rights_path, Some(&rights));
        let login = Login {
            vhost: vhost.clone(),
            ..Login::default()
        };
        let tap = trial.connect_as(&login).channel(1);
        tap.declare(&QueueSpec::durable("copies"));
        tap.bind("copies", TRACE, "#");
        tap.consume(&ConsumerSpec::of("copies").no_ack());
        let client = trial.connect_as(&login);
        body(&Traced { vhost, client, tap });
        http.ok("DELETE", &path, None);
    });
}

fn texts(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(|text| Value::from(*text)).collect())
}

// rabbitmq: firehose, publish
#[test]
fn a_publish_is_told_with_its_properties_keys_and_queues() {
    traced("a_publish_is_told", |scene| {
        let channel = scene.client.channel(7);
        channel.declare(&QueueSpec::durable("orders"));
        channel.bind("orders", "amq.direct", "new");
        let properties = Properties {
            content_type: Some("text/plain".to_owned()),
            delivery_mode: Some(2),
            priority: Some(3),
            timestamp: Some(1_700_000_000),
            ..Properties::default()
        };
        let properties = properties.header("colour", "red");
        channel.publish(&Publication::new("amq.direct", "new", "body").with(properties));
        let (key, told, text) = scene.copy();
        assert_eq!(
            (key.as_str(), text.as_str()),
            ("publish.amq.direct", "body")
        );
        assert_eq!(told.get("exchange_name"), Some(&Value::from("amq.direct")));
        assert_eq!(told.get("routing_keys"), Some(&texts(&["new"])));
        assert_eq!(told.get("routed_queues"), Some(&texts(&["orders"])));
        assert_eq!(told.get("user"), Some(&Value::from("guest")));
        assert_eq!(told.get("channel"), Some(&Value::I32(7)));
        for word in ["node", "connection", "vhost"] {
            assert!(matches!(told.get(word), Some(Value::Text(text)) if !text.is_empty()));
        }
        let Some(Value::Table(properties)) = told.get("properties") else {
            panic!("expected the properties; came: {told:?}");
        };
        let headers = Table::default().with("colour", "red");
        let wanted = Table::default()
            .with("timestamp", Value::I32(1_700_000_000))
            .with("priority", Value::I32(3))
            .with("delivery_mode", Value::I32(2))
            .with("headers", Value::Table(headers))
            .with("content_type", "text/plain");
        assert_eq!(properties, &wanted);
    });
}

// rabbitmq: firehose, deliver
#[test]
fn what_is_delivered_or_taken_is_told_with_its_queue() {
    traced("what_is_delivered_is_told", |scene| {
        let channel = scene.client.channel(1);
        channel.declare(&QueueSpec::durable("orders"));
        channel.put("orders", "body");
        let taken = channel.get_soon("orders");
        channel.requeue(&taken);
        channel.consume(&ConsumerSpec::of("orders").no_ack());
        channel.expect_delivery();
        assert_eq!(scene.copy().0, "publish.");
        for redelivered in [0, 1] {
            let (key, told, text) = scene.copy();
            assert_eq!((key.as_str(), text.as_str()), ("deliver.orders", "body"));
            assert_eq!(told.get("redelivered"), Some(&Value::I32(redelivered)));
            assert_eq!(told.get("routing_keys"), Some(&texts(&["orders"])));
            assert_eq!(told.get("routed_queues"), None);
        }
    });
}

// rabbitmq: quorum queues deliver on another way.
#[test]
fn deliveries_of_quorum_queues_are_told() {
    traced("deliveries_of_quorum_queues_are_told", |scene| {
        let channel = scene.client.channel(1);
        channel.declare(&QueueSpec::quorum("orders"));
        channel.consume(&ConsumerSpec::of("orders").no_ack());
        channel.put("orders", "body");
        channel.expect_delivery();
        assert_eq!(scene.keys(2), ["publish.", "deliver.orders"]);
    });
}

// rabbitmq: what has no route is published all the same.
#[test]
fn a_publish_without_a_route_is_told() {
    traced("a_publish_without_a_route_is_told", |scene| {
        let channel = scene.client.channel(1);
        channel.publish(&Publication::new("amq.fanout", "nowhere", "body"));
        let (key, told, _) = scene.copy();
        assert_eq!(key, "publish.amq.fanout");
        assert_eq!(told.get("routed_queues"), Some(&Value::Array(Vec::new())));
    });
}

// rabbitmq: sender-selected distribution
#[test]
fn copied_keys_are_told_and_blind_ones_are_not_among_the_headers() {
    traced("copied_keys_are_told", |scene| {
        let channel = scene.client.channel(1);
        let properties = Properties::default()
            .header("CC", texts(&["cc"]))
            .header("BCC", texts(&["bcc"]));
        channel.publish(&Publication::new("amq.fanout", "to", "body").with(properties));
        let (_, told, _) = scene.copy();
        assert_eq!(told.get("routing_keys"), Some(&texts(&["to", "cc", "bcc"])));
        let Some(Value::Table(properties)) = told.get("properties") else {
            panic!("expected the properties; came: {told:?}");
        };
        let headers = Table::default().with("CC", texts(&["cc"]));
        assert_eq!(properties.get("headers"), Some(&Value::Table(headers)));
    });
}

// rabbitmq: told when it comes
#[test]
fn a_publish_of_a_transaction_is_told_before_the_commit() {
    traced("a_publish_of_a_transaction_is_told", |scene| {
        let channel = scene.client.channel(1);
        channel.call(&Method::new("tx.select", vec![]));
        channel.publish(&Publication::new("amq.fanout", "", "body"));
        assert_eq!(scene.copy().0, "publish.amq.fanout");
    });
}

// rabbitmq: direct replies pass no queue and are told.
#[test]
fn direct_replies_are_told() {
    traced("direct_replies_are_told", |scene| {
        let channel = scene.client.channel(1);
        let reply_to = "amq.rabbitmq.reply-to";
        channel.consume(&ConsumerSpec::of(reply_to).no_ack());
        channel.declare(&QueueSpec::durable("requests"));
        let properties = Properties {
            reply_to: Some(reply_to.to_owned()),
            ..Properties::default()
        };
        channel.publish(&Publication::to_queue("requests", "question").with(properties));
        let request = channel.get_soon("requests");
        let name = request.properties.reply_to.expect("reply_to");
        channel.publish(&Publication::to_queue(&name, "answer"));
        channel.expect_delivery();
        let deliver = format!("deliver.{name}");
        let wanted = ["publish.", "deliver.requests", "publish.", &deliver];
        assert_eq!(scene.keys(4), wanted);
    });
}

// rabbitmq: internal
#[test]
fn clients_cannot_publish_copies() {
    traced("clients_cannot_publish_copies", |scene| {
        let channel = scene.client.channel(1);
        channel.publish(&Publication::new(TRACE, "publish.x", "forged"));
        let vhost = &scene.vhost;
        let text = format!(
            "ACCESS_REFUSED - cannot publish to internal exchange '{TRACE}' in vhost '{vhost}'"
        );
        let wanted = Close::channel(403, text, "basic.publish");
        assert_eq!(channel.expect_close(), wanted);
    });
}

// Copies go on to other exchanges and are no messages to be told themselves.
#[test]
fn copies_pass_on_to_other_exchanges_and_are_not_told_again() {
    traced("copies_pass_on", |scene| {
        let channel = scene.client.channel(1);
        channel.declare_exchange(&ExchangeSpec::durable("further", "fanout"));
        channel.call(&exchange_bind("further", TRACE, "publish.#"));
        channel.declare(&QueueSpec::durable("far"));
        channel.bind("far", "further", "");
        channel.publish(&Publication::new("amq.fanout", "", "first"));
        assert_eq!(channel.get_soon("far").exchange, TRACE);
        channel.publish(&Publication::new("amq.fanout", "", "second"));
        let (_, _, first) = scene.copy();
        let (_, _, second) = scene.copy();
        assert_eq!([first, second], ["first", "second"]);
    });
}

// Tracing ends, also for channels that are open.
#[test]
fn nothing_is_told_once_tracing_is_off() {
    conformance(|trial| {
        let Some(http) = trial.http("nothing_is_told_once_tracing_is_off") else {
            return;
        };
        let vhost = trial.name("traced");
        let path = format!("/api/vhosts/{vhost}");
        http.ok("PUT", &path, Some(&json!({"tracing": true})));
        let login = Login {
            vhost: vhost.clone(),
            ..Login::default()
        };
        let channel = trial.connect_as(&login).channel(1);
        channel.declare(&QueueSpec::durable("copies"));
        channel.bind("copies", TRACE, "publish.#");
        channel.publish(&Publication::new("amq.fanout", "", "on"));
        channel.expect_ready("copies", 1);
        http.ok("PUT", &path, Some(&json!({"tracing": false})));
        assert!(channel.publish_confirmed(&Publication::new("amq.fanout", "", "off")));
        assert_eq!(channel.take_all("copies"), ["on"]);
        http.ok("DELETE", &path, None);
    });
}
