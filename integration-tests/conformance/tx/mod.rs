//! Class tx: publishes and acks that count together.

use integration_tests::request::{basic_ack, confirm_select, queue_declare, queue_delete};
use integration_tests::{
    Channel, Close, ConsumerSpec, Method, Properties, Publication, QueueSpec, Trial, conformance,
};

fn select() -> Method {
    Method::new("tx.select", vec![])
}

fn commit() -> Method {
    Method::new("tx.commit", vec![])
}

fn rollback() -> Method {
    Method::new("tx.rollback", vec![])
}

/// A transactional channel, a second one that looks on, and a queue with `texts`.
fn scene(trial: &Trial, texts: &[&str]) -> (Channel, Channel, String) {
    let (channel, watcher) = (trial.channel(), trial.channel());
    let queue = trial.queue("tx");
    watcher.declare(&QueueSpec::durable(&queue));
    watcher.put_all(&queue, texts);
    channel.call(&select());
    (channel, watcher, queue)
}

// amqp 1.9.2.1
#[test]
fn select_may_be_repeated() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.call(&select());
        channel.call(&select());
    });
}

// amqp 1.9.2.3: publishes count with the commit.
#[test]
fn publishes_are_seen_after_the_commit_only() {
    conformance(|trial| {
        let (channel, watcher, queue) = scene(trial, &[]);
        channel.put(&queue, "a");
        channel.put(&queue, "b");
        channel.sync();
        assert_eq!(watcher.ready(&queue), 0);
        channel.call(&commit());
        assert_eq!(watcher.ready(&queue), 2);
        assert_eq!(watcher.take_all(&queue), ["a", "b"]);
    });
}

// amqp 1.9.2.5: a rollback forgets publishes.
#[test]
fn publishes_are_forgotten_by_a_rollback() {
    conformance(|trial| {
        let (channel, watcher, queue) = scene(trial, &[]);
        channel.put(&queue, "a");
        channel.call(&rollback());
        channel.call(&commit());
        assert_eq!(watcher.ready(&queue), 0);
    });
}

// amqp 1.9.2.3: acks count with the commit.
#[test]
fn acks_count_with_the_commit() {
    conformance(|trial| {
        let (channel, watcher, queue) = scene(trial, &["a", "b"]);
        let delivery = channel.get_soon(&queue);
        channel.ack(&delivery);
        channel.call(&commit());
        channel.connection().drop_socket();
        watcher.expect_ready(&queue, 1);
        assert_eq!(watcher.take_all(&queue), ["b"]);
    });
}

// amqp 1.9.2.3: what was not committed did not happen.
#[test]
fn acks_without_a_commit_do_not_count() {
    conformance(|trial| {
        let (channel, watcher, queue) = scene(trial, &["a"]);
        let delivery = channel.get_soon(&queue);
        channel.ack(&delivery);
        channel.sync();
        channel.connection().drop_socket();
        watcher.expect_ready(&queue, 1);
    });
}

// rabbitmq: after a rollback messages are unacked as before.
#[test]
fn a_rollback_makes_acks_undone_and_requeues_nothing() {
    conformance(|trial| {
        let (channel, watcher, queue) = scene(trial, &["a"]);
        let delivery = channel.get_soon(&queue);
        channel.ack(&delivery);
        channel.call(&rollback());
        assert_eq!(watcher.ready(&queue), 0);
        channel.ack(&delivery);
        channel.call(&commit());
        channel.close();
        assert_eq!(watcher.get(&queue), None);
    });
}

// rabbitmq: a tag that was acked in the transaction is spent.
#[test]
fn acking_twice_in_a_transaction_closes_the_channel_with_406() {
    conformance(|trial| {
        let (channel, _, queue) = scene(trial, &["a"]);
        let delivery = channel.get_soon(&queue);
        channel.ack(&delivery);
        let close = channel.refused(&basic_ack(delivery.tag, false));
        assert_eq!(close.text, "PRECONDITION_FAILED - unknown delivery tag 1");
    });
}

// amqp 1.9.2.3: commit without select
#[test]
fn commit_without_select_closes_the_channel_with_406() {
    conformance(|trial| {
        for method in [commit(), rollback()] {
            let close = trial.channel().refused(&method);
            let text = "PRECONDITION_FAILED - channel is not transactional";
            assert_eq!(close, Close::channel(406, text, method.name));
        }
    });
}

// rabbitmq: transactions and confirms exclude each other.
#[test]
fn a_transaction_on_a_confirming_channel_closes_it_with_406() {
    conformance(|trial| {
        let channel = trial.channel();
        channel.call(&confirm_select());
        let close = channel.refused(&select());
        let text = "PRECONDITION_FAILED - cannot switch from confirm to tx mode";
        assert_eq!(close, Close::channel(406, text, "tx.select"));
    });
}

// rabbitmq: the exchange is looked at when the publish comes.
#[test]
fn a_missing_exchange_is_told_before_the_commit() {
    conformance(|trial| {
        let (channel, _, _) = scene(trial, &[]);
        channel.publish(&Publication::new(&trial.name("missing"), "k", "a"));
        assert_eq!(channel.expect_close().code, 404);
    });
}

// amqp 1.9.2.3: several commits, one after another
#[test]
fn each_commit_begins_a_new_transaction() {
    conformance(|trial| {
        let (channel, watcher, queue) = scene(trial, &[]);
        for text in ["a", "b", "c"] {
            channel.put(&queue, text);
            channel.call(&commit());
        }
        assert_eq!(watcher.take_all(&queue), ["a", "b", "c"]);
    });
}

// amqp 1.9.2.3: only publishes and acks are transactional.
#[test]
fn declaring_is_not_transactional() {
    conformance(|trial| {
        let (channel, watcher, _) = scene(trial, &[]);
        let queue = trial.queue("at once");
        channel.call(&queue_declare(&QueueSpec::durable(&queue)));
        watcher.declare(&QueueSpec::passive(&queue));
    });
}

// amqp 1.9.2.3: returns come with the commit.
#[test]
fn mandatory_messages_are_returned_with_the_commit() {
    conformance(|trial| {
        let (channel, _, _) = scene(trial, &[]);
        channel.publish(&Publication::new("", &trial.name("nowhere"), "a").mandatory());
        channel.send(&commit());
        let came = [(), ()].map(|()| channel.wait_for(&["basic.return", "tx.commit-ok"]).0.name);
        assert_eq!(came, ["basic.return", "tx.commit-ok"]);
    });
}

// amqp 1.9.2.3: routed when it was published, and nowhere to go at the commit.
#[test]
fn a_mandatory_message_whose_queue_is_gone_at_the_commit_is_returned() {
    conformance(|trial| {
        let (channel, watcher, queue) = scene(trial, &[]);
        channel.publish(&Publication::to_queue(&queue, "a").mandatory());
        channel.sync();
        watcher.call(&queue_delete(&queue));
        channel.send(&commit());
        let came = [(), ()].map(|()| channel.wait_for(&["basic.return", "tx.commit-ok"]).0.name);
        assert_eq!(came, ["basic.return", "tx.commit-ok"]);
    });
}

// rabbitmq: a publish in a transaction lives from the commit on.
#[test]
fn the_time_to_live_of_a_publish_begins_with_the_commit() {
    conformance(|trial| {
        let (channel, watcher, queue) = scene(trial, &[]);
        let brief = |queue: &str| {
            Publication::to_queue(queue, "a").with(Properties::default().expires("1000"))
        };
        channel.publish(&brief(&queue));
        channel.sync();
        // One that was published later and has ended tells that the time has passed.
        let clock = trial.queue("clock");
        watcher.declare(&QueueSpec::durable(&clock));
        watcher.publish(&brief(&clock));
        watcher.expect_ready(&clock, 1);
        watcher.expect_ready(&clock, 0);
        channel.call(&commit());
        assert_eq!(watcher.take_all(&queue), ["a"]);
    });
}

// rabbitmq: direct replies count with the commit, too.
#[test]
fn a_direct_reply_is_sent_by_the_commit() {
    conformance(|trial| {
        let (channel, watcher, queue) = scene(trial, &[]);
        watcher.consume(&ConsumerSpec::of("amq.rabbitmq.reply-to").no_ack());
        let wants_reply = Properties {
            reply_to: Some("amq.rabbitmq.reply-to".to_owned()),
            ..Properties::default()
        };
        watcher.publish(&Publication::to_queue(&queue, "question").with(wants_reply));
        let reply_to = channel.get_soon(&queue).properties.reply_to;
        let reply_to = reply_to.expect("The request names its reply address.");
        channel.put(&reply_to, "answer");
        channel.sync();
        watcher.expect_no_delivery();
        channel.call(&commit());
        assert_eq!(watcher.expect_delivery().text(), "answer");
    });
}

/// Commits more messages than a full queue takes; the queue keeps what it had.
fn commit_to_a_full_queue(trial: &Trial, kind: &str) {
    let (channel, watcher) = (trial.channel(), trial.channel());
    let queue = trial.queue(kind);
    let spec = QueueSpec::durable(&queue)
        .argument("x-queue-type", kind)
        .argument("x-max-length", 2)
        .argument("x-overflow", "reject-publish");
    watcher.declare(&spec);
    for _ in 0..6 {
        watcher.publish_confirmed(&Publication::to_queue(&queue, "filler"));
    }
    let full = watcher.ready(&queue);
    channel.call(&select());
    for _ in 0..3 {
        channel.put(&queue, "too many");
    }
    let text = "PRECONDITION_FAILED - partial tx completion";
    let wanted = Close::channel(406, text, "tx.commit");
    assert_eq!(channel.refused(&commit()), wanted);
    watcher.expect_ready(&queue, full);
}

// rabbitmq: text
#[test]
fn a_commit_that_a_full_queue_refuses_closes_the_channel_with_406() {
    conformance(|trial| commit_to_a_full_queue(trial, "classic"));
}

// amqp 1.9.2.3: a commit that did not happen is told, whatever the type of the queue.
#[test]
fn a_commit_that_a_full_quorum_queue_refuses_closes_the_channel_with_406() {
    conformance(|trial| commit_to_a_full_queue(trial, "quorum"));
}
