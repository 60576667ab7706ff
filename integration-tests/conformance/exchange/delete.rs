//! exchange.delete, and exchanges that go by themselves.

use integration_tests::request::{exchange_declare, exchange_delete, exchange_delete_if_unused};
use integration_tests::{Channel, Close, ExchangeSpec, conformance};

use super::{exchange, queue};

/// Whether the exchange is there, seen by a channel of its own.
fn exists(channel: &Channel, exchange: &str) -> bool {
    let asking = channel.connection().channel(999);
    asking.send(&exchange_declare(&ExchangeSpec::passive(
        exchange, "direct",
    )));
    let patience = integration_tests::connection::PATIENCE;
    let came = channel
        .connection()
        .wait_within(999, &["exchange.declare-ok"], patience);
    if came.is_ok() {
        asking.close();
    }
    came.is_ok()
}

// amqp 1.6.2.3
#[test]
fn a_deleted_exchange_is_gone() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        channel.call(&exchange_delete(&exchange));
        assert!(!exists(&channel, &exchange));
    });
}

// rabbitmq: deleting what is not there succeeds.
#[test]
fn deleting_a_missing_exchange_is_fine() {
    conformance(|trial| {
        trial
            .channel()
            .call(&exchange_delete(&trial.name("missing")));
    });
}

// amqp 1.6.2.3: if-unused
#[test]
fn a_bound_exchange_is_not_deleted_if_unused() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        let queue = queue(trial, &channel, "user");
        channel.bind(&queue, &exchange, "k");
        let close = channel.refused(&exchange_delete_if_unused(&exchange));
        let text = format!("PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use");
        assert_eq!(close, Close::channel(406, text, "exchange.delete"));
    });
}

// amqp 1.6.2.3: if-unused
#[test]
fn an_exchange_without_bindings_is_deleted_if_unused() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "direct");
        channel.call(&exchange_delete_if_unused(&exchange));
        assert!(!exists(&channel, &exchange));
    });
}

// rabbitmq: the broker's own exchanges stay.
#[test]
fn the_brokers_own_exchanges_cannot_be_deleted() {
    conformance(|trial| {
        let close = trial.channel().refused(&exchange_delete("amq.direct"));
        let text = "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not \
                    allowed";
        assert_eq!(close, Close::channel(403, text, "exchange.delete"));
    });
}

// rabbitmq: the default exchange stays.
#[test]
fn the_default_exchange_cannot_be_deleted() {
    conformance(|trial| {
        let close = trial.channel().refused(&exchange_delete(""));
        let text = "ACCESS_REFUSED - operation not permitted on the default exchange";
        assert_eq!(close, Close::channel(403, text, "exchange.delete"));
    });
}

// amqp 1.6.2.1: auto-delete goes with the last binding.
#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding() {
    conformance(|trial| {
        let channel = trial.channel();
        let exchange = trial.exchange("auto");
        channel.declare_exchange(&ExchangeSpec::durable(&exchange, "direct").auto_delete());
        let queue = queue(trial, &channel, "user");
        channel.bind(&queue, &exchange, "one");
        channel.bind(&queue, &exchange, "two");
        channel.unbind(&queue, &exchange, "one");
        assert!(exists(&channel, &exchange), "one binding is left");
        channel.unbind(&queue, &exchange, "two");
        assert!(!exists(&channel, &exchange), "no binding is left");
    });
}

// rabbitmq: deleting the last bound queue counts as well.
#[test]
fn an_auto_delete_exchange_goes_with_its_last_queue() {
    conformance(|trial| {
        let channel = trial.channel();
        let exchange = trial.exchange("auto");
        channel.declare_exchange(&ExchangeSpec::durable(&exchange, "direct").auto_delete());
        let queue = queue(trial, &channel, "user");
        channel.bind(&queue, &exchange, "k");
        channel.delete(&queue);
        assert!(!exists(&channel, &exchange));
    });
}

// amqp 1.6.2.1: an exchange that was never bound was never used.
#[test]
fn an_auto_delete_exchange_that_was_never_bound_stays() {
    conformance(|trial| {
        let channel = trial.channel();
        let exchange = trial.exchange("auto");
        channel.declare_exchange(&ExchangeSpec::durable(&exchange, "direct").auto_delete());
        assert!(exists(&channel, &exchange));
    });
}

// rabbitmq: bindings go with their exchange.
#[test]
fn bindings_go_with_their_exchange() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "fanout");
        let queue = queue(trial, &channel, "user");
        channel.bind(&queue, &exchange, "k");
        channel.call(&exchange_delete(&exchange));
        channel.declare_exchange(&ExchangeSpec::durable(&exchange, "fanout"));
        super::send(&channel, &exchange, "k");
        assert_eq!(channel.take_all(&queue), [""; 0]);
    });
}
