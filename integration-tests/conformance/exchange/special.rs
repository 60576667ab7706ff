//! The exchange types beyond AMQP's own four.

use integration_tests::connection::PATIENCE;
use integration_tests::request::{exchange_declare, queue_bind};
use integration_tests::trial::is_foreign;
use integration_tests::{
    Channel, Close, ExchangeSpec, Properties, Publication, QueueSpec, Table, Trial, conformance,
    say,
};

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

/// A fresh exchange of a type that RabbitMQ has as a plugin. Pointed at a RabbitMQ without it, the
/// test says so and is over.
fn plugin(trial: &Trial, kind: &str, describe: Describe) -> Option<(Channel, String)> {
    let channel = trial.channel();
    let exchange = trial.exchange(kind);
    channel.send(&exchange_declare(&describe(ExchangeSpec::durable(
        &exchange, kind,
    ))));
    let declared =
        channel
            .connection()
            .wait_within(channel.number(), &["exchange.declare-ok"], PATIENCE);
    match declared {
        Ok(_) => Some((channel, exchange)),
        Err(instead) if is_foreign() => {
            say(&format!(
                "SKIPPED: no exchange type {kind} there ({instead})"
            ));
            None
        }
        Err(instead) => panic!("expected exchange.declare-ok; came {instead}"),
    }
}

/// What an exchange has beside name and type.
type Describe = fn(ExchangeSpec) -> ExchangeSpec;

// rabbitmq: x-consistent-hash, the same key to the same queue
#[test]
fn a_consistent_hash_exchange_sends_each_key_to_one_queue() {
    conformance(|trial| {
        let Some((channel, exchange)) = plugin(trial, "x-consistent-hash", |spec| spec) else {
            return;
        };
        let queues = ["one", "two"].map(|stem| queue(trial, &channel, stem));
        queues
            .iter()
            .for_each(|queue| channel.bind(queue, &exchange, "1"));
        for _ in 0..2 {
            (0..60).for_each(|n| send(&channel, &exchange, &format!("key-{n}")));
        }
        let taken = queues.map(|queue| channel.take_all(&queue));
        assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), 120);
        for texts in &taken {
            assert!(
                !texts.is_empty(),
                "expected the keys to be spread; came {taken:?}"
            );
            let (first, second) = texts.split_at(texts.len() / 2);
            assert_eq!(
                first, second,
                "each key must find the queue of its first time"
            );
        }
    });
}

// rabbitmq: the binding key of x-consistent-hash is a weight.
#[test]
fn a_consistent_hash_exchange_spreads_by_weight() {
    conformance(|trial| {
        let Some((channel, exchange)) = plugin(trial, "x-consistent-hash", |spec| spec) else {
            return;
        };
        let (light, heavy) = (
            queue(trial, &channel, "light"),
            queue(trial, &channel, "heavy"),
        );
        channel.bind(&light, &exchange, "1");
        channel.bind(&heavy, &exchange, "9");
        channel.confirm_select();
        for n in 0..400 {
            channel.publish(&Publication::new(&exchange, &format!("key-{n}"), "body"));
        }
        channel.outcomes();
        let (light, heavy) = (channel.ready(&light), channel.ready(&heavy));
        assert_eq!(light + heavy, 400);
        assert!(
            heavy > 3 * light,
            "expected about 40 and 360; came {light} and {heavy}"
        );
    });
}

// rabbitmq: weights are positive integers.
#[test]
fn a_consistent_hash_exchange_refuses_other_binding_keys() {
    conformance(|trial| {
        for (key, why) in [
            ("abc", "The binding key must be an integer: <<\"abc\">>"),
            ("0", "The binding key must be greater than 0"),
        ] {
            let Some((channel, exchange)) = plugin(trial, "x-consistent-hash", |spec| spec) else {
                return;
            };
            let queue = queue(trial, &channel, "weight");
            let close = channel.refused(&queue_bind(&queue, &exchange, key, &Table::default()));
            let text = format!("PRECONDITION_FAILED - {why}");
            assert_eq!(close, Close::channel(406, text, "queue.bind"));
        }
    });
}

// rabbitmq: argument hash-header
#[test]
fn a_consistent_hash_exchange_may_hash_a_header() {
    conformance(|trial| {
        let hashes = |spec: ExchangeSpec| spec.argument("hash-header", "by");
        let Some((channel, exchange)) = plugin(trial, "x-consistent-hash", hashes) else {
            return;
        };
        let queues = ["one", "two"].map(|stem| queue(trial, &channel, stem));
        queues
            .iter()
            .for_each(|queue| channel.bind(queue, &exchange, "1"));
        for n in 0..50 {
            let properties = Properties::default().header("by", "always the same");
            let publication = Publication::new(&exchange, &format!("key-{n}"), "body");
            assert!(channel.publish_confirmed(&publication.with(properties)));
        }
        let mut ready = queues.map(|queue| channel.ready(&queue));
        ready.sort_unstable();
        assert_eq!(ready, [0, 50]);
    });
}

// rabbitmq: x-random
#[test]
fn a_random_exchange_sends_to_one_queue_a_message() {
    conformance(|trial| {
        let Some((channel, exchange)) = plugin(trial, "x-random", |spec| spec) else {
            return;
        };
        let queues = ["one", "two"].map(|stem| queue(trial, &channel, stem));
        queues
            .iter()
            .for_each(|queue| channel.bind(queue, &exchange, "any"));
        (0..64).for_each(|n| send(&channel, &exchange, &n.to_string()));
        let taken = queues.map(|queue| channel.take_all(&queue).len());
        assert_eq!(taken.iter().sum::<usize>(), 64);
        assert!(
            !taken.contains(&0),
            "expected both queues to get some; came {taken:?}"
        );
    });
}

// rabbitmq: x-recent-history
#[test]
fn a_recent_history_exchange_tells_a_new_queue_what_went_before() {
    conformance(|trial| {
        let keeps = |spec: ExchangeSpec| spec.argument("x-recent-history-length", 2);
        let Some((channel, exchange)) = plugin(trial, "x-recent-history", keeps) else {
            return;
        };
        ["a", "b", "c"]
            .iter()
            .for_each(|text| send(&channel, &exchange, text));
        let unkept = Properties::default().header("x-recent-history-no-store", true);
        let publication = Publication::new(&exchange, "d", "d").with(unkept);
        assert!(channel.publish_confirmed(&publication));
        let queue = queue(trial, &channel, "late");
        channel.bind(&queue, &exchange, "");
        channel.expect_ready(&queue, 2);
        let mut texts = channel.take_all(&queue);
        texts.sort_unstable();
        assert_eq!(texts, ["b", "c"]);
    });
}

// rabbitmq: without the plugin the type is unknown. Nothing durable holds delayed messages here, so
// the type is not offered.
#[test]
fn a_delayed_exchange_is_an_unknown_type() {
    conformance(|trial| {
        let mut spec = ExchangeSpec::durable(&trial.exchange("delayed"), "x-delayed-message");
        spec = spec.argument("x-delayed-type", "direct");
        let close = trial.channel().refused(&exchange_declare(&spec));
        let text = "PRECONDITION_FAILED - unknown exchange type 'x-delayed-message'";
        assert_eq!(close, Close::channel(406, text, "exchange.declare"));
    });
}
