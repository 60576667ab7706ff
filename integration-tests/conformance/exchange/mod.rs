//! Class exchange: declaring, deleting, binding, and where each type sends a message.

mod alternate;
mod bind;
mod carbon_copy;
mod declare;
mod delete;
mod firehose;
mod headers;
mod route;
mod special;
mod topic;

use integration_tests::{Channel, ExchangeSpec, Publication, QueueSpec, Trial};

/// A fresh exchange of type `kind` and a channel to use it by.
fn exchange(trial: &Trial, kind: &str) -> (Channel, String) {
    let channel = trial.channel();
    let exchange = trial.exchange(kind);
    channel.declare_exchange(&ExchangeSpec::durable(&exchange, kind));
    (channel, exchange)
}

/// A fresh queue.
fn queue(trial: &Trial, channel: &Channel, stem: &str) -> String {
    let queue = trial.queue(stem);
    channel.declare(&QueueSpec::durable(&queue));
    queue
}

/// Publishes `routing_key` as body under itself, confirmed.
fn send(channel: &Channel, exchange: &str, routing_key: &str) {
    let publication = Publication::new(exchange, routing_key, routing_key);
    assert!(
        channel.publish_confirmed(&publication),
        "expected {routing_key:?} to be confirmed"
    );
}
