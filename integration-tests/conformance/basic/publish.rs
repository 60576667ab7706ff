//! basic.publish: what is refused, what is returned.

use integration_tests::{Close, Properties, Publication, QueueSpec, Trial, conformance};

// amqp 1.8.3.7: a missing exchange
#[test]
fn publishing_to_a_missing_exchange_closes_the_channel_with_404() {
    conformance(|trial| {
        let channel = trial.channel();
        let missing = trial.name("missing");
        channel.publish(&Publication::new(&missing, "k", "body"));
        let text = format!("NOT_FOUND - no exchange '{missing}' in vhost '/'");
        assert_eq!(
            channel.expect_close(),
            Close::channel(404, text, "basic.publish")
        );
    });
}

// rabbitmq: immediate is not there.
#[test]
fn an_immediate_publish_closes_with_540() {
    conformance(|trial| {
        let channel = trial.channel();
        let publication = Publication {
            immediate: true,
            ..Publication::new("", "k", "body")
        };
        channel.publish(&publication);
        let text = "NOT_IMPLEMENTED - immediate=true";
        assert_eq!(
            channel.expect_close(),
            Close::connection(540, text, "basic.publish")
        );
    });
}

// amqp 1.8.3.7: mandatory
#[test]
fn a_mandatory_message_without_a_route_is_returned_whole() {
    conformance(|trial| {
        let channel = trial.channel();
        let properties = Properties {
            content_type: Some("text/plain".to_owned()),
            message_id: Some("id".to_owned()),
            ..Properties::persistent()
        };
        let properties = properties.header("key", "value");
        let key = trial.name("nowhere");
        let publication = Publication::new("amq.direct", &key, "body")
            .with(properties.clone())
            .mandatory();
        channel.publish(&publication);
        let returned = channel.expect_return();
        assert_eq!((returned.code, returned.text.as_str()), (312, "NO_ROUTE"));
        assert_eq!(
            (returned.exchange, returned.routing_key),
            ("amq.direct".to_owned(), key)
        );
        assert_eq!(
            (returned.properties, returned.body),
            (properties, b"body".to_vec())
        );
    });
}

// amqp 1.8.3.7: an empty body is returned as one.
#[test]
fn an_empty_mandatory_message_is_returned() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.publish(&Publication::new("", &trial.name("nowhere"), "").mandatory());
        assert_eq!(channel.expect_return().body, b"");
    });
}

// amqp 1.8.3.7: mandatory says nothing about routed messages.
#[test]
fn a_mandatory_message_with_a_route_is_not_returned() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("route");
        channel.declare(&QueueSpec::durable(&queue));
        assert!(channel.publish_confirmed(&Publication::to_queue(&queue, "a").mandatory()));
        channel.connection().expect_quiet();
    });
}

// amqp 1.8.3.7: without mandatory a message without a route is dropped.
#[test]
fn a_message_without_a_route_is_dropped_silently() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.publish(&Publication::new("", &trial.name("nowhere"), "body"));
        channel.sync();
        channel.connection().expect_quiet();
    });
}

// rabbitmq: validated user-id
#[test]
fn a_user_id_of_somebody_else_closes_the_channel_with_406() {
    conformance(|trial| {
        let channel = trial.channel();
        let properties = Properties {
            user_id: Some("bob".to_owned()),
            ..Properties::default()
        };
        channel.publish(&Publication::new("amq.direct", "k", "body").with(properties));
        let text = "PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user \
                    was 'guest'";
        assert_eq!(
            channel.expect_close(),
            Close::channel(406, text, "basic.publish")
        );
    });
}

// amqp 4.7: publishes of one channel keep their order.
#[test]
fn publishes_of_one_channel_keep_their_order() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("order");
        channel.declare(&QueueSpec::durable(&queue));
        let texts: Vec<String> = (0..500).map(|n| n.to_string()).collect();
        for (index, text) in texts.iter().enumerate() {
            let persistent = Properties::persistent();
            let properties = if index % 3 == 0 {
                persistent
            } else {
                Properties::default()
            };
            channel.publish(&Publication::to_queue(&queue, text).with(properties));
        }
        channel.expect_ready(&queue, 500);
        assert_eq!(channel.take_all(&queue), texts);
    });
}

// amqp 4.2.6: bodies of any size come back as they went.
#[test]
fn bodies_of_all_sizes_come_back_as_they_went() {
    conformance(|trial| {
        for kind in super::BOTH {
            let channel = trial.channel();
            let queue = trial.queue(kind);
            channel.declare(&QueueSpec::durable(&queue).argument("x-queue-type", kind));
            // Around the sizes at which frames and stores change their ways.
            for length in [
                0, 1, 4095, 4096, 8191, 8192, 131_063, 131_064, 131_065, 1_000_000,
            ] {
                let body: Vec<u8> = (0..length).map(|n: u32| n.to_le_bytes()[0]).collect();
                let publication = Publication::to_queue(&queue, &body);
                let publication = publication.with(Properties::persistent());
                assert!(channel.publish_confirmed(&publication));
                let delivery = channel.get_soon(&queue);
                assert!(
                    delivery.body == body,
                    "{kind}: a body of {length} octets has changed"
                );
                channel.ack(&delivery);
            }
        }
    });
}

// amqp 1.8.3.7: the empty exchange name is the default exchange.
#[test]
fn a_declared_queue_is_reachable_by_its_name_at_once() {
    conformance(|trial| {
        for kind in super::BOTH {
            let channel = trial.channel();
            let queue = trial.queue(kind);
            channel.declare(&QueueSpec::durable(&queue).argument("x-queue-type", kind));
            channel.publish(&Publication::to_queue(&queue, "a").mandatory());
            assert_eq!(channel.get_soon(&queue).text(), "a", "{kind}");
        }
    });
}

/// What a publish with all of these faults is refused for.
fn told(trial: &Trial, exchange: &str, properties: Properties) -> Close {
    let channel = trial.channel();
    channel.publish(&Publication::new(exchange, "nowhere", "body").with(properties));
    channel.expect_close()
}

/// Properties with a fault each, in the order in which they are told.
fn faulty() -> [(Properties, &'static str); 4] {
    let mut all = Properties {
        reply_to: Some("amq.rabbitmq.reply-to".to_owned()),
        user_id: Some("nobody".to_owned()),
        ..Properties::default()
    }
    .header("CC", "no array")
    .expires("soon");
    let mut less = || {
        let now = all.clone();
        match (&all.reply_to, &all.expiration, &all.headers) {
            (Some(_), ..) => all.reply_to = None,
            (_, Some(_), _) => all.expiration = None,
            _ => all.headers = None,
        }
        now
    };
    [
        (less(), "fast reply consumer does not exist"),
        (less(), "invalid expiration 'soon': no_integer"),
        (
            less(),
            "invalid message: {unacceptable_type_in_header,\"CC\",longstr}",
        ),
        (
            less(),
            "user_id property set to 'nobody' but authenticated user was 'guest'",
        ),
    ]
}

// rabbitmq: which of several faults is told
#[test]
fn a_fault_of_the_exchange_is_told_before_those_of_the_properties() {
    conformance(|trial| {
        let missing = trial.name("missing");
        for (properties, _) in faulty() {
            let text = format!("NOT_FOUND - no exchange '{missing}' in vhost '/'");
            let wanted = Close::channel(404, text, "basic.publish");
            assert_eq!(told(trial, &missing, properties), wanted);
        }
    });
}

// rabbitmq: which of several faults is told
#[test]
fn faults_of_the_properties_are_told_in_their_order() {
    conformance(|trial| {
        for (properties, text) in faulty() {
            let text = format!("PRECONDITION_FAILED - {text}");
            let wanted = Close::channel(406, text, "basic.publish");
            assert_eq!(told(trial, "amq.direct", properties), wanted);
        }
    });
}
