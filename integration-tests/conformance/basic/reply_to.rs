//! Direct reply-to: answers without a queue.

use integration_tests::request::{basic_consume, basic_get};
use integration_tests::{
    Channel, Close, ConsumerSpec, Delivery, Properties, Publication, QueueSpec, Trial, conformance,
};

/// The name that asks for direct replies.
const REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// Properties that ask for a direct reply.
fn wants_reply() -> Properties {
    Properties {
        reply_to: Some(REPLY_TO.to_owned()),
        ..Properties::default()
    }
}

/// A requester that consumes replies, a responder, and the request that came to it.
fn request(trial: &Trial) -> (Channel, Channel, Delivery) {
    let (requester, responder) = (trial.channel(), trial.channel());
    let queue = trial.queue("requests");
    responder.declare(&QueueSpec::durable(&queue));
    requester.consume(&ConsumerSpec::of(REPLY_TO).tag("replies").no_ack());
    requester.publish(&Publication::to_queue(&queue, "question").with(wants_reply()));
    let request = responder.get_soon(&queue);
    (requester, responder, request)
}

// rabbitmq: direct reply-to
#[test]
fn a_reply_comes_without_a_queue() {
    conformance(|trial| {
        let (requester, responder, request) = request(trial);
        let reply_to = request
            .properties
            .reply_to
            .expect("The request names its reply address.");
        assert!(reply_to.starts_with("amq.rabbitmq.reply-to."), "{reply_to}");
        responder.publish(&Publication::to_queue(&reply_to, "answer"));
        let reply = requester.expect_delivery();
        assert_eq!(reply.text(), "answer");
        let told = (
            reply.consumer_tag.as_str(),
            reply.exchange.as_str(),
            &reply.routing_key,
        );
        assert_eq!(told, ("replies", "", &reply_to));
    });
}

// rabbitmq: replies are not acknowledged.
#[test]
fn a_reply_consumer_with_acks_closes_the_channel_with_406() {
    conformance(|trial| {
        let close = trial
            .channel()
            .refused(&basic_consume(&ConsumerSpec::of(REPLY_TO)));
        let text = "PRECONDITION_FAILED - reply consumer cannot acknowledge";
        assert_eq!(close, Close::channel(406, text, "basic.consume"));
    });
}

// rabbitmq: one reply consumer a channel
#[test]
fn a_second_reply_consumer_closes_the_channel_with_406() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.consume(&ConsumerSpec::of(REPLY_TO).no_ack());
        let close = channel.refused(&basic_consume(&ConsumerSpec::of(REPLY_TO).no_ack()));
        let text = "PRECONDITION_FAILED - reply consumer already set";
        assert_eq!(close, Close::channel(406, text, "basic.consume"));
    });
}

// rabbitmq: asking for replies without listening
#[test]
fn a_request_without_a_reply_consumer_closes_the_channel_with_406() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.publish(&Publication::new("amq.direct", "k", "question").with(wants_reply()));
        let text = "PRECONDITION_FAILED - fast reply consumer does not exist";
        assert_eq!(
            channel.expect_close(),
            Close::channel(406, text, "basic.publish")
        );
    });
}

// rabbitmq: a live reply name looks like a queue.
#[test]
fn a_live_reply_name_can_be_declared_and_a_dead_one_not() {
    conformance(|trial| {
        let (requester, responder, request) = request(trial);
        let reply_to = request
            .properties
            .reply_to
            .expect("The request names its reply address.");
        let declared = responder.declare(&QueueSpec::passive(&reply_to));
        assert_eq!((declared.ready, declared.consumers), (0, 1));
        requester.close();
        let declare = integration_tests::request::queue_declare(&QueueSpec::passive(&reply_to));
        assert_eq!(responder.refused(&declare).code, 404);
    });
}

// rabbitmq: late replies are dropped.
#[test]
fn a_reply_to_a_closed_channel_is_dropped() {
    conformance(|trial| {
        let (requester, responder, request) = request(trial);
        let reply_to = request
            .properties
            .reply_to
            .expect("The request names its reply address.");
        requester.close();
        responder.publish(&Publication::to_queue(&reply_to, "too late"));
        responder.sync();
    });
}

// rabbitmq: replies are delivered to whoever asked for them and to nobody else.
#[test]
fn a_reply_name_is_no_queue_to_take_from() {
    conformance(|trial| {
        let (_requester, responder, request) = request(trial);
        let reply_to = request
            .properties
            .reply_to
            .expect("The request names its reply address.");
        assert_eq!(responder.purge(&reply_to), 0);
        let close = responder.refused(&basic_consume(&ConsumerSpec::of(&reply_to).no_ack()));
        let text = format!(
            "PRECONDITION_FAILED - only creator channel may consume from queue '{reply_to}' in \
             vhost '/'"
        );
        assert_eq!(close, Close::channel(406, text, "basic.consume"));
        let channel = trial.channel();
        channel.send(&basic_get(&reply_to, true));
        let close = channel.connection().expect_close(0);
        let text = format!(
            "NOT_IMPLEMENTED - basic.get not supported by volatile queue '{reply_to}' in vhost '/'"
        );
        assert_eq!(close, Close::connection(540, text, "basic.get"));
    });
}
