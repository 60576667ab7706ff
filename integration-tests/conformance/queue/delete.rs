//! queue.delete and queue.purge.

use integration_tests::request::{
    queue_declare, queue_delete, queue_delete_if_empty, queue_delete_if_unused, queue_purge,
};
use integration_tests::{Close, ConsumerSpec, QueueSpec, conformance};

use super::{BOTH, queue_of};

// amqp 1.7.2.10: delete-ok counts the messages.
#[test]
fn delete_ok_counts_the_messages() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            channel.put_all(&queue, ["a", "b", "c"]);
            assert_eq!(channel.delete(&queue), 3, "{kind}");
            let close = channel.refused(&queue_declare(&QueueSpec::passive(&queue)));
            assert_eq!(close.code, 404, "{kind}");
        }
    });
}

// rabbitmq: deleting what is not there succeeds.
#[test]
fn deleting_a_missing_queue_is_fine() {
    conformance(|trial| assert_eq!(trial.channel().delete(&trial.name("missing")), 0));
}

// amqp 1.7.2.9: if-unused
#[test]
fn a_queue_with_consumers_is_not_deleted_if_unused() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| spec);
        channel.consume(&ConsumerSpec::of(&queue));
        let close = channel.refused(&queue_delete_if_unused(&queue));
        let text = format!("PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use");
        assert_eq!(close, Close::channel(406, text, "queue.delete"));
    });
}

// amqp 1.7.2.9: if-empty
#[test]
fn a_queue_with_messages_is_not_deleted_if_empty() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| spec);
        channel.put_all(&queue, ["a"]);
        let close = channel.refused(&queue_delete_if_empty(&queue));
        let text = format!("PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty");
        assert_eq!(close, Close::channel(406, text, "queue.delete"));
    });
}

// amqp 1.7.2.9: both conditions met
#[test]
fn an_unused_empty_queue_is_deleted_with_conditions() {
    conformance(|trial| {
        let (channel, one) = queue_of(trial, "classic", |spec| spec);
        channel.call(&queue_delete_if_unused(&one));
        let (channel, two) = queue_of(trial, "classic", |spec| spec);
        channel.call(&queue_delete_if_empty(&two));
    });
}

// rabbitmq: quorum queues know no conditions.
#[test]
fn a_quorum_queue_is_not_deleted_with_conditions() {
    conformance(|trial| {
        let conditions = [
            ("if-unused", queue_delete_if_unused as fn(&str) -> _),
            ("if-empty", queue_delete_if_empty as fn(&str) -> _),
        ];
        for (name, condition) in conditions {
            let (channel, queue) = queue_of(trial, "quorum", |spec| spec);
            let text = format!(
                "NOT_IMPLEMENTED - cannot delete queue '{queue}' in vhost '/'. queue.delete \
                 operations with {name} flag set are not supported by quorum queues"
            );
            let close = channel.refused(&condition(&queue));
            assert_eq!(close, Close::connection(540, text, "queue.delete"));
        }
    });
}

// rabbitmq: consumers are told when their queue goes, if they can bear it.
#[test]
fn deleting_a_queue_cancels_its_consumers() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            let consumer = trial.channel();
            let tag = consumer.consume(&ConsumerSpec::of(&queue).tag("told"));
            channel.delete(&queue);
            assert_eq!(consumer.expect_cancel(), tag, "{kind}");
            consumer.sync();
        }
    });
}

// rabbitmq: capability consumer_cancel_notify
#[test]
fn a_client_without_the_capability_hears_nothing_when_its_queue_goes() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| spec);
        let login = integration_tests::Login::without_capabilities();
        let consumer = trial.connect_as(&login).channel(1);
        consumer.consume(&ConsumerSpec::of(&queue));
        channel.delete(&queue);
        consumer.sync();
        consumer.connection().expect_quiet();
    });
}

// rabbitmq: acks for what was in a deleted queue are taken.
#[test]
fn an_ack_for_a_message_of_a_deleted_queue_is_fine() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            channel.put_all(&queue, ["a"]);
            let delivery = channel.get_soon(&queue);
            channel.delete(&queue);
            channel.ack(&delivery);
            channel.sync();
        }
    });
}

// rabbitmq: the name is free at once.
#[test]
fn a_deleted_queue_can_be_declared_afresh() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            channel.put_all(&queue, ["old"]);
            channel.delete(&queue);
            let spec = QueueSpec::durable(&queue).argument("x-queue-type", kind);
            assert_eq!(channel.declare(&spec).ready, 0, "{kind}");
            channel.put_all(&queue, ["new"]);
            assert_eq!(channel.take_all(&queue), ["new"], "{kind}");
        }
    });
}

// amqp 1.7.2.7: purge removes what is ready.
#[test]
fn purge_counts_and_removes_what_is_ready() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            channel.put_all(&queue, ["a", "b", "c"]);
            assert_eq!(channel.purge(&queue), 3, "{kind}");
            assert_eq!(channel.get(&queue), None, "{kind}");
        }
    });
}

// amqp 1.7.2.7: purge leaves what is not acknowledged yet.
#[test]
fn purge_leaves_unacked_messages_alone() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            channel.put_all(&queue, ["held", "gone"]);
            let held = channel.get_soon(&queue);
            assert_eq!(channel.purge(&queue), 1, "{kind}");
            channel.requeue(&held);
            channel.expect_ready(&queue, 1);
            assert_eq!(channel.take_all(&queue), ["held"], "{kind}");
        }
    });
}

// amqp 1.7.2.7: a missing queue
#[test]
fn purging_a_missing_queue_closes_the_channel_with_404() {
    conformance(|trial| {
        let missing = trial.name("missing");
        let close = trial.channel().refused(&queue_purge(&missing));
        let text = format!("NOT_FOUND - no queue '{missing}' in vhost '/'");
        assert_eq!(close, Close::channel(404, text, "queue.purge"));
    });
}

// amqp 1.7.2.9: no queue means the last one; none is an error.
#[test]
fn deleting_the_last_queue_without_one_closes_the_channel_with_404() {
    conformance(|trial| {
        let close = trial.channel().refused(&queue_delete(""));
        let text = "NOT_FOUND - no previously declared queue";
        assert_eq!(close, Close::channel(404, text, "queue.delete"));
    });
}
