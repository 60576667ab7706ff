//! Where the default, direct and fanout exchanges send a message.

use integration_tests::{Close, ExchangeSpec, Publication, conformance};

use super::{exchange, queue, send};

// amqp 3.1.3.1: the default exchange routes by queue name.
#[test]
fn the_default_exchange_routes_by_queue_name() {
    conformance(|trial| {
        let channel = trial.channel();
        let (one, two) = (queue(trial, &channel, "one"), queue(trial, &channel, "two"));
        send(&channel, "", &one);
        assert_eq!(channel.take_all(&one), [one.as_str()]);
        assert_eq!(channel.take_all(&two), [""; 0]);
    });
}

// amqp 3.1.3.1: direct
#[test]
fn a_direct_exchange_compares_the_whole_key() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        let queue = queue(trial, &channel, "direct");
        channel.bind(&queue, &exchange, "a.b");
        for routing_key in ["a", "a.b", "a.b.c", "A.B", ""] {
            send(&channel, &exchange, routing_key);
        }
        assert_eq!(channel.take_all(&queue), ["a.b"]);
    });
}

// amqp 3.1.3.1: many queues under one key get one copy each.
#[test]
fn a_direct_exchange_copies_to_every_matching_queue() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        let queues = ["one", "two", "three"].map(|stem| queue(trial, &channel, stem));
        queues
            .iter()
            .for_each(|queue| channel.bind(queue, &exchange, "k"));
        send(&channel, &exchange, "k");
        for queue in &queues {
            assert_eq!(channel.take_all(queue), ["k"]);
        }
    });
}

// amqp 3.1.3.2: fanout
#[test]
fn a_fanout_exchange_ignores_the_key() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "fanout");
        let queues = ["one", "two"].map(|stem| queue(trial, &channel, stem));
        queues
            .iter()
            .for_each(|queue| channel.bind(queue, &exchange, "whatever"));
        send(&channel, &exchange, "k");
        send(&channel, &exchange, "");
        for queue in &queues {
            assert_eq!(channel.take_all(queue), ["k", ""]);
        }
    });
}

// amqp 1.8.3.5: what the consumer sees is what the publisher said.
#[test]
fn a_delivery_names_exchange_and_key_of_the_publish() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "fanout");
        let queue = queue(trial, &channel, "told");
        channel.bind(&queue, &exchange, "binding");
        send(&channel, &exchange, "publish");
        let delivery = channel.get_soon(&queue);
        let told = (delivery.exchange, delivery.routing_key);
        assert_eq!(told, (exchange, "publish".to_owned()));
    });
}

// rabbitmq: internal exchanges take nothing from publishers.
#[test]
fn publishing_to_an_internal_exchange_closes_the_channel_with_403() {
    conformance(|trial| {
        let channel = trial.channel();
        let exchange = trial.exchange("internal");
        channel.declare_exchange(&ExchangeSpec::durable(&exchange, "fanout").internal());
        channel.publish(&Publication::new(&exchange, "k", "body"));
        let text = format!(
            "ACCESS_REFUSED - cannot publish to internal exchange '{exchange}' in vhost '/'"
        );
        assert_eq!(
            channel.expect_close(),
            Close::channel(403, text, "basic.publish")
        );
    });
}

// rabbitmq: internal exchanges take messages from other exchanges.
#[test]
fn an_internal_exchange_takes_messages_from_exchanges() {
    conformance(|trial| {
        let (channel, source) = exchange(trial, "fanout");
        let inner = trial.exchange("internal");
        channel.declare_exchange(&ExchangeSpec::durable(&inner, "fanout").internal());
        channel.call(&integration_tests::request::exchange_bind(
            &inner, &source, "",
        ));
        let queue = queue(trial, &channel, "inner");
        channel.bind(&queue, &inner, "");
        send(&channel, &source, "k");
        assert_eq!(channel.take_all(&queue), ["k"]);
    });
}

// amqp 3.1.3: a queue may be bound under many keys.
#[test]
fn a_thousand_bindings_of_one_queue_all_match() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        let queue = queue(trial, &channel, "many");
        let keys: Vec<String> = (0..1000).map(|n| format!("key-{n}")).collect();
        keys.iter()
            .for_each(|key| channel.bind(&queue, &exchange, key));
        for key in [&keys[0], &keys[499], &keys[999]] {
            send(&channel, &exchange, key);
        }
        assert_eq!(channel.take_all(&queue), ["key-0", "key-499", "key-999"]);
    });
}
