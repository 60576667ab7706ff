//! Bindings, of queues and between exchanges.

use integration_tests::request::{exchange_bind, exchange_unbind, queue_bind, queue_unbind};
use integration_tests::{Close, ExchangeSpec, Table, conformance};

use super::{exchange, queue, send};

// amqp 1.7.2.3: a missing exchange
#[test]
fn binding_to_a_missing_exchange_closes_the_channel_with_404() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = queue(trial, &channel, "lone");
        let missing = trial.name("missing");
        let close = channel.refused(&queue_bind(&queue, &missing, "k", &Table::default()));
        let text = format!("NOT_FOUND - no exchange '{missing}' in vhost '/'");
        assert_eq!(close, Close::channel(404, text, "queue.bind"));
    });
}

// amqp 1.7.2.3: a missing queue
#[test]
fn binding_a_missing_queue_closes_the_channel_with_404() {
    conformance(|trial| {
        let channel = trial.channel();
        let missing = trial.name("missing");
        let close = channel.refused(&queue_bind(&missing, "amq.direct", "k", &Table::default()));
        let text = format!("NOT_FOUND - no queue '{missing}' in vhost '/'");
        assert_eq!(close, Close::channel(404, text, "queue.bind"));
    });
}

// rabbitmq: the default exchange binds every queue by itself and nothing else.
#[test]
fn the_default_exchange_takes_no_bindings() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = queue(trial, &channel, "lone");
        let close = channel.refused(&queue_bind(&queue, "", "k", &Table::default()));
        let text = "ACCESS_REFUSED - operation not permitted on the default exchange";
        assert_eq!(close, Close::channel(403, text, "queue.bind"));
    });
}

// rabbitmq: the default exchange's bindings cannot be taken away.
#[test]
fn the_default_exchange_gives_no_bindings_up() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = queue(trial, &channel, "lone");
        let close = channel.refused(&queue_unbind(&queue, "", &queue, &Table::default()));
        let text = "ACCESS_REFUSED - operation not permitted on the default exchange";
        assert_eq!(close, Close::channel(403, text, "queue.unbind"));
    });
}

// amqp 1.7.2.3: binding twice is binding once.
#[test]
fn a_repeated_binding_counts_once() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        let queue = queue(trial, &channel, "twice");
        channel.bind(&queue, &exchange, "k");
        channel.bind(&queue, &exchange, "k");
        send(&channel, &exchange, "k");
        assert_eq!(channel.take_all(&queue), ["k"]);
        channel.unbind(&queue, &exchange, "k");
        send(&channel, &exchange, "k");
        assert_eq!(channel.take_all(&queue), [""; 0]);
    });
}

// rabbitmq: a message comes once, however many bindings match.
#[test]
fn a_message_comes_once_however_many_bindings_match() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "topic");
        let queue = queue(trial, &channel, "once");
        for binding_key in ["#", "a.*", "a.b", "*.b"] {
            channel.bind(&queue, &exchange, binding_key);
        }
        send(&channel, &exchange, "a.b");
        assert_eq!(channel.take_all(&queue), ["a.b"]);
    });
}

// rabbitmq: bindings that differ in their arguments are different bindings.
#[test]
fn bindings_that_differ_in_arguments_are_taken_away_one_by_one() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        let queue = queue(trial, &channel, "arguments");
        let (one, two) = (Table::default().with("n", 1), Table::default().with("n", 2));
        channel.bind_with(&queue, &exchange, "k", &one);
        channel.bind_with(&queue, &exchange, "k", &two);
        channel.call(&queue_unbind(&queue, &exchange, "k", &one));
        send(&channel, &exchange, "k");
        assert_eq!(channel.take_all(&queue), ["k"]);
        channel.call(&queue_unbind(&queue, &exchange, "k", &two));
        send(&channel, &exchange, "k");
        assert_eq!(channel.take_all(&queue), [""; 0]);
    });
}

// rabbitmq: unbinding what is not there succeeds.
#[test]
fn unbinding_what_is_missing_is_fine() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        let queue = queue(trial, &channel, "lone");
        let missing = trial.name("missing");
        channel.unbind(&queue, &exchange, "never");
        channel.unbind(&queue, &missing, "k");
        channel.unbind(&missing, &exchange, "k");
        channel.call(&exchange_unbind(&missing, &exchange, "k"));
        channel.call(&exchange_unbind(&exchange, &missing, "k"));
    });
}

// rabbitmq: exchange to exchange, and on to the queue.
#[test]
fn a_message_passes_from_exchange_to_exchange() {
    conformance(|trial| {
        let (channel, source) = exchange(trial, "direct");
        let destination = trial.exchange("fanout");
        channel.declare_exchange(&ExchangeSpec::durable(&destination, "fanout"));
        let queue = queue(trial, &channel, "far");
        channel.call(&exchange_bind(&destination, &source, "k"));
        channel.bind(&queue, &destination, "");
        send(&channel, &source, "k");
        send(&channel, &source, "other");
        let delivery = channel.get_soon(&queue);
        assert_eq!(
            (delivery.exchange, delivery.routing_key),
            (source, "k".to_owned())
        );
        assert_eq!(channel.get(&queue), None);
    });
}

// rabbitmq: exchange.unbind ends it, and unbind-ok has its own odd number.
#[test]
fn unbinding_exchanges_ends_the_passage() {
    conformance(|trial| {
        let (channel, source) = exchange(trial, "direct");
        let destination = trial.exchange("fanout");
        channel.declare_exchange(&ExchangeSpec::durable(&destination, "fanout"));
        let queue = queue(trial, &channel, "far");
        channel.call(&exchange_bind(&destination, &source, "k"));
        channel.bind(&queue, &destination, "");
        channel.call(&exchange_unbind(&destination, &source, "k"));
        send(&channel, &source, "k");
        assert_eq!(channel.take_all(&queue), [""; 0]);
    });
}

// rabbitmq: rings of exchanges do no harm.
#[test]
fn a_ring_of_exchanges_delivers_once() {
    conformance(|trial| {
        let (channel, first) = exchange(trial, "fanout");
        let second = trial.exchange("second");
        channel.declare_exchange(&ExchangeSpec::durable(&second, "fanout"));
        channel.call(&exchange_bind(&second, &first, ""));
        channel.call(&exchange_bind(&first, &second, ""));
        let queue = queue(trial, &channel, "ring");
        channel.bind(&queue, &first, "");
        channel.bind(&queue, &second, "");
        send(&channel, &first, "k");
        assert_eq!(channel.take_all(&queue), ["k"]);
    });
}

// rabbitmq: both ends must be there; the source is looked at first.
#[test]
fn binding_missing_exchanges_names_the_source_first() {
    conformance(|trial| {
        let channel = trial.channel();
        let (destination, source) = (trial.name("destination"), trial.name("source"));
        let close = channel.refused(&exchange_bind(&destination, &source, "k"));
        let text = format!("NOT_FOUND - no exchange '{source}' in vhost '/'");
        assert_eq!(close, Close::channel(404, text, "exchange.bind"));
    });
}

// amqp 1.7.2.3: no queue and no key mean the last queue and its name.
#[test]
fn an_empty_queue_and_key_bind_the_last_queue_under_its_name() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        let queue = queue(trial, &channel, "last");
        channel.bind("", &exchange, "");
        send(&channel, &exchange, &queue);
        assert_eq!(channel.take_all(&queue), [queue.as_str()]);
    });
}

// amqp 1.7.2.3: no queue means the last one declared on the channel.
#[test]
fn an_empty_queue_name_without_a_last_queue_closes_the_channel_with_404() {
    conformance(|trial| {
        let bind = queue_bind("", "amq.direct", "k", &Table::default());
        let close = trial.channel().refused(&bind);
        let text = "NOT_FOUND - no previously declared queue";
        assert_eq!(close, Close::channel(404, text, "queue.bind"));
    });
}
