//! The exchange types beyond AMQP's own four.

use integration_tests::request::queue_bind;
use integration_tests::{Close, QueueSpec, Table, conformance};

use super::{exchange, queue, send};

// rabbitmq: x-modulus-hash sends each key to one bound queue, always the same.
#[test]
fn a_modulus_hash_exchange_sends_each_key_to_one_queue() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "x-modulus-hash");
        let queues = ["one", "two", "three"].map(|stem| queue(trial, &channel, stem));
        queues
            .iter()
            .for_each(|queue| channel.bind(queue, &exchange, ""));
        for _ in 0..2 {
            (0..60).for_each(|n| send(&channel, &exchange, &format!("key-{n}")));
        }
        let taken = queues.map(|queue| channel.take_all(&queue));
        assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), 120);
        for texts in &taken {
            let (first, second) = texts.split_at(texts.len() / 2);
            assert_eq!(
                first, second,
                "each key must find the queue of its first time"
            );
        }
        let used = taken.iter().filter(|texts| !texts.is_empty()).count();
        assert!(used > 1, "expected the keys to be spread; came: {taken:?}");
    });
}

// rabbitmq: x-local-random sends to one of the bound classic queues.
#[test]
fn a_local_random_exchange_sends_to_one_queue_a_message() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "x-local-random");
        let queues = ["one", "two"].map(|stem| queue(trial, &channel, stem));
        queues
            .iter()
            .for_each(|queue| channel.bind(queue, &exchange, ""));
        (0..64).for_each(|n| send(&channel, &exchange, &n.to_string()));
        let taken = queues.map(|queue| channel.take_all(&queue).len());
        assert_eq!(taken.iter().sum::<usize>(), 64);
        assert!(
            !taken.contains(&0),
            "expected both queues to get some; came: {taken:?}"
        );
    });
}

// rabbitmq: x-local-random takes no keys.
#[test]
fn a_local_random_exchange_refuses_a_binding_key() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "x-local-random");
        let queue = queue(trial, &channel, "keyed");
        let close = channel.refused(&queue_bind(&queue, &exchange, "k", &Table::default()));
        let text = "PRECONDITION_FAILED - Non empty binding 'k' key not permitted";
        assert_eq!(close, Close::channel(406, text, "queue.bind"));
    });
}

// rabbitmq: x-local-random takes classic queues only.
#[test]
fn a_local_random_exchange_refuses_a_quorum_queue() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "x-local-random");
        let queue = trial.queue("quorum");
        channel.declare(&QueueSpec::quorum(&queue));
        let close = channel.refused(&queue_bind(&queue, &exchange, "", &Table::default()));
        let text = "PRECONDITION_FAILED - Queue type rabbit_quorum_queue not valid for this \
                    exchange type";
        assert_eq!(close, Close::channel(406, text, "queue.bind"));
    });
}
