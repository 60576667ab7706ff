//! The exchange types beyond AMQP's own four.

use integration_tests::connection::PATIENCE;
use integration_tests::request::{exchange_declare, queue_bind};
use integration_tests::trial::is_foreign;
use integration_tests::{
    Channel, Close, ExchangeSpec, Method, Properties, Publication, QueueSpec, Table, Trial, Value,
    conformance, say,
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

/// A delayed exchange that routes by key, and a queue bound to it with key `k`.
fn delayed(trial: &Trial) -> Option<(Channel, String, String)> {
    let by_key = |spec: ExchangeSpec| spec.argument("x-delayed-type", "direct");
    let (channel, exchange) = plugin(trial, "x-delayed-message", by_key)?;
    let queue = queue(trial, &channel, "delayed");
    channel.bind(&queue, &exchange, "k");
    Some((channel, exchange, queue))
}

fn delayed_by(exchange: &str, text: &str, delay: impl Into<Value>) -> Publication {
    let header = Properties::persistent().header("x-delay", delay);
    Publication::new(exchange, "k", text).with(header)
}

// rabbitmq: x-delayed-message holds a message for as long as its header says.
#[test]
fn a_delayed_exchange_routes_each_message_when_its_delay_is_over() {
    conformance(|trial| {
        let Some((channel, exchange, queue)) = delayed(trial) else {
            return;
        };
        for (text, delay_ms) in [("late", 600), ("soon", 200), ("at once", 0)] {
            assert!(channel.publish_confirmed(&delayed_by(&exchange, text, delay_ms)));
        }
        assert_eq!(channel.get_soon(&queue).text(), "at once");
        for text in ["soon", "late"] {
            assert_eq!(channel.get_soon(&queue).text(), text);
        }
    });
}

// rabbitmq: the header is delivered negated, so that a second delayed exchange does not delay again.
#[test]
fn a_delivered_message_shows_its_delay_negated() {
    conformance(|trial| {
        let Some((channel, exchange, queue)) = delayed(trial) else {
            return;
        };
        channel.publish(&delayed_by(&exchange, "a", 50));
        let delivery = channel.get_soon(&queue);
        let delay = delivery.properties.get("x-delay");
        assert_eq!(delay.and_then(Value::as_integer), Some(-50));
    });
}

// rabbitmq: integers of every width; what is not above zero does not delay.
#[test]
fn a_delay_may_be_a_whole_number_of_any_width_and_a_negative_one_is_none() {
    conformance(|trial| {
        let Some((channel, exchange, queue)) = delayed(trial) else {
            return;
        };
        let delays = [
            Value::I8(100),
            Value::I16(100),
            Value::I32(100),
            Value::I64(100),
        ];
        for delay in delays {
            let publication = delayed_by(&exchange, "a", delay.clone());
            assert!(channel.publish_confirmed(&publication));
            assert_eq!(channel.ready(&queue), 0, "{delay:?}");
            assert_eq!(channel.get_soon(&queue).text(), "a");
        }
        assert!(channel.publish_confirmed(&delayed_by(&exchange, "past", -100)));
        channel.expect_ready(&queue, 1);
        assert_eq!(channel.get_soon(&queue).text(), "past");
        let none = Publication::new(&exchange, "k", "none");
        assert!(channel.publish_confirmed(&none));
        assert_eq!(channel.get_soon(&queue).text(), "none");
    });
}

// rabbitmq: the delayed type is an argument that must be a type.
#[test]
fn a_delayed_exchange_wants_a_type_to_route_by() {
    conformance(|trial| {
        if delayed(trial).is_none() {
            return;
        }
        let spec = ExchangeSpec::durable(&trial.exchange("untyped"), "x-delayed-message");
        let close = trial.channel().refused(&exchange_declare(&spec));
        let text = "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing \
                    exchange type";
        assert_eq!(close, Close::channel(406, text, "exchange.declare"));
    });
}

// rabbitmq: x-recent-history keeps what was published, and a rolled back message was not.
#[test]
fn a_recent_history_exchange_keeps_what_was_committed_only() {
    conformance(|trial| {
        let Some((watcher, exchange)) = plugin(trial, "x-recent-history", |spec| spec) else {
            return;
        };
        let channel = trial.channel();
        channel.call(&Method::new("tx.select", vec![]));
        channel.publish(&Publication::new(&exchange, "k", "dropped"));
        channel.call(&Method::new("tx.rollback", vec![]));
        channel.publish(&Publication::new(&exchange, "k", "kept"));
        channel.sync();
        let early = queue(trial, &watcher, "early");
        watcher.bind(&early, &exchange, "");
        assert_eq!(watcher.ready(&early), 0);
        channel.call(&Method::new("tx.commit", vec![]));
        let late = queue(trial, &watcher, "late");
        watcher.bind(&late, &exchange, "");
        watcher.expect_ready(&late, 1);
        assert_eq!(watcher.take_all(&late), ["kept"]);
    });
}
