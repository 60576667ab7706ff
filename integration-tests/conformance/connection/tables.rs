//! Field tables and properties on their way through the broker.

use integration_tests::{
    Channel, Delivery, Properties, Publication, QueueSpec, Table, Trial, Value, conformance,
};

/// A message with `properties` after its way through a queue.
fn relayed(trial: &Trial, properties: Properties) -> Delivery {
    let channel = trial.channel();
    let queue = trial.queue("relay");
    channel.declare(&QueueSpec::durable(&queue));
    relayed_by(&channel, &queue, properties)
}

fn relayed_by(channel: &Channel, queue: &str, properties: Properties) -> Delivery {
    let publication = Publication::to_queue(queue, "body").with(properties);
    assert!(channel.publish_confirmed(&publication));
    channel.get_soon(queue)
}

// amqp 4.2.5.5, rabbitmq: every type that comes back as it went
#[test]
fn every_field_type_comes_back_as_it_went() {
    conformance(|trial| {
        let nested = Table::default().with("z", 1).with("a", Value::Void);
        let headers = Table::default()
            .with("a-bool", true)
            .with("b-i8", Value::I8(-8))
            .with("c-u8", Value::U8(8))
            .with("d-i16", Value::I16(-16))
            .with("e-u16", Value::U16(16))
            .with("f-i32", Value::I32(-32))
            .with("g-u32", Value::U32(u32::MAX))
            .with("h-i64", Value::I64(i64::MIN))
            .with("i-f32", Value::F32(0.5))
            .with("j-f64", Value::F64(-0.25))
            .with("k-decimal", Value::Decimal(2, 31_415))
            .with("l-timestamp", Value::Timestamp(1_700_000_000))
            .with("m-text", "text")
            .with("n-bytes", Value::Bytes(vec![0, 255]))
            .with(
                "o-array",
                vec![Value::I32(1), Value::from("two"), Value::Void],
            )
            .with("p-table", nested)
            .with("q-void", Value::Void);
        let properties = Properties {
            headers: Some(headers.clone()),
            ..Properties::default()
        };
        assert_eq!(relayed(trial, properties).properties.headers, Some(headers));
    });
}

// rabbitmq: `L` is read as a signed 64-bit number.
#[test]
fn a_long_long_comes_back_as_a_signed_one() {
    conformance(|trial| {
        let properties = Properties::default().header("n", Value::L64(-5));
        let delivery = relayed(trial, properties);
        assert_eq!(
            delivery.properties.get("n").and_then(Value::as_integer),
            Some(-5)
        );
    });
}

// amqp 4.2.5.3: long strings hold any octets.
#[test]
fn a_long_string_that_is_not_utf_8_comes_back_as_it_went() {
    conformance(|trial| {
        let octets = Value::Text(vec![0xFF, 0x00, 0xFE]);
        let delivery = relayed(trial, Properties::default().header("raw", octets.clone()));
        assert_eq!(delivery.properties.get("raw"), Some(&octets));
    });
}

// amqp 1.8.1: all properties are the application's.
#[test]
fn all_properties_come_back_as_they_went() {
    conformance(|trial| {
        let text = |text: &str| Some(text.to_owned());
        let properties = Properties {
            content_type: text("application/json"),
            content_encoding: text("gzip"),
            headers: Some(Table::default().with("k", "v")),
            delivery_mode: Some(2),
            priority: Some(9),
            correlation_id: text("correlation"),
            reply_to: text("reply"),
            expiration: text("3600000"),
            message_id: text("message"),
            timestamp: Some(1_700_000_000),
            kind: text("kind"),
            user_id: text("guest"),
            app_id: text("app"),
            cluster_id: text("cluster"),
        };
        assert_eq!(relayed(trial, properties.clone()).properties, properties);
    });
}

// amqp 1.8.1: a property that was not sent is not delivered.
#[test]
fn a_message_without_properties_comes_back_without_any() {
    conformance(|trial| {
        let delivery = relayed(trial, Properties::default());
        assert_eq!(delivery.properties, Properties::default());
    });
}

// amqp 1.8.1: an empty table of headers is not the same as none.
#[test]
fn empty_headers_come_back_as_empty_headers() {
    conformance(|trial| {
        let properties = Properties {
            headers: Some(Table::default()),
            ..Properties::default()
        };
        assert_eq!(relayed(trial, properties.clone()).properties, properties);
    });
}

// rabbitmq: a delivery mode that means nothing is relayed.
#[test]
fn an_odd_delivery_mode_comes_back_as_it_went() {
    conformance(|trial| {
        let properties = Properties {
            delivery_mode: Some(7),
            ..Properties::default()
        };
        assert_eq!(relayed(trial, properties.clone()).properties, properties);
    });
}

// rabbitmq: priorities are delivered as published, whatever the queue makes of them.
#[test]
fn a_priority_comes_back_as_it_went() {
    conformance(|trial| {
        let properties = Properties::default().priority(255);
        assert_eq!(relayed(trial, properties.clone()).properties, properties);
    });
}

// amqp 4.2.5.5: a table may hold many fields.
#[test]
fn many_headers_come_back_complete() {
    conformance(|trial| {
        let names = (0..500).map(|n| format!("header-{n:03}"));
        let headers = names.fold(Table::default(), |table, name| {
            table.with(&name, name.as_str())
        });
        let properties = Properties {
            headers: Some(headers.clone()),
            ..Properties::default()
        };
        assert_eq!(relayed(trial, properties).properties.headers, Some(headers));
    });
}

// amqp 4.2.5.5: names are up to 255 octets of UTF-8.
#[test]
fn a_long_header_name_comes_back_as_it_went() {
    conformance(|trial| {
        let name = "ä".repeat(127);
        let properties = Properties::default().header(&name, 1);
        assert_eq!(relayed(trial, properties.clone()).properties, properties);
    });
}

// rabbitmq: the same in a quorum queue
#[test]
fn a_quorum_queue_relays_properties_as_they_came() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("relay");
        channel.declare(&QueueSpec::quorum(&queue));
        let properties = Properties {
            content_type: Some("text/plain".to_owned()),
            delivery_mode: Some(2),
            correlation_id: Some("c".to_owned()),
            timestamp: Some(5),
            ..Properties::default()
        };
        let properties = properties.header("a", 1).header("b", Value::Void);
        let delivery = relayed_by(&channel, &queue, properties.clone());
        assert_eq!(delivery.properties, properties);
    });
}
