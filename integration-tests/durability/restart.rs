//! What a restart keeps beside messages in flight, and what it ends.

use integration_tests::request::{exchange_bind, exchange_declare, queue_declare};
use integration_tests::{
    BrokerProcess, Channel, Connection, ExchangeSpec, Login, Method, Properties, Publication,
    QueueSpec, own_broker,
};

/// How the broker ends in a test.
type End = fn(&mut BrokerProcess);

/// Both ways to end a broker; most promises hold for both.
const ENDS: [(&str, End); 2] = [
    ("kill -9", BrokerProcess::kill9),
    ("TERM", |broker| {
        broker.terminate();
    }),
];

/// Runs a test once for each way to end a broker: `before` it ends and `after` it is back.
fn over_restart(before: impl Fn(&Channel), after: impl Fn(&Channel, &str)) {
    own_broker(|| {
        for (name, end) in ENDS {
            let mut broker = BrokerProcess::start();
            before(&Connection::open(broker.address()).channel(1));
            end(&mut broker);
            broker.restart();
            after(&Connection::open(broker.address()).channel(1), name);
        }
    });
}

/// Whether a passive declare finds what it asks for.
fn exists(channel: &Channel, method: &Method) -> bool {
    let asking = channel.connection().channel(99);
    asking.send(method);
    let answer = format!("{}-ok", method.name);
    let patience = integration_tests::connection::PATIENCE;
    let came = channel.connection().wait_within(99, &[&answer], patience);
    if came.is_ok() {
        asking.close();
    }
    came.is_ok()
}

fn queue(name: &str) -> Method {
    queue_declare(&QueueSpec::passive(name))
}

fn exchange(name: &str) -> Method {
    exchange_declare(&ExchangeSpec::passive(name, "direct"))
}

// amqp 1.6.2.1, 1.7.2.1: durable
#[test]
fn durable_things_stay_and_transient_things_go() {
    over_restart(
        |channel| {
            channel.declare(&QueueSpec::durable("stays"));
            channel.declare(&QueueSpec::quorum("stays.quorum"));
            channel.declare(&QueueSpec::durable("stays.auto").auto_delete());
            channel.declare(&QueueSpec::transient("goes"));
            channel.declare(&QueueSpec::transient("goes.exclusive").exclusive());
            channel.declare_exchange(&ExchangeSpec::durable("stays", "topic"));
            channel.declare_exchange(&ExchangeSpec::transient("goes", "topic"));
        },
        |channel, end| {
            for name in ["stays", "stays.quorum", "stays.auto"] {
                assert!(exists(channel, &queue(name)), "{end}: queue {name}");
            }
            for name in ["goes", "goes.exclusive"] {
                assert!(!exists(channel, &queue(name)), "{end}: queue {name}");
            }
            assert!(exists(channel, &exchange("stays")), "{end}");
            assert!(!exists(channel, &exchange("goes")), "{end}");
        },
    );
}

// amqp 1.7.2.3: bindings of durable queues to durable exchanges are durable.
#[test]
fn bindings_of_durable_things_stay() {
    over_restart(
        |channel| {
            channel.declare_exchange(&ExchangeSpec::durable("source", "topic"));
            channel.declare_exchange(&ExchangeSpec::durable("between", "fanout"));
            channel.call(&exchange_bind("between", "source", "a.#"));
            for (name, kind) in [("bound.classic", "classic"), ("bound.quorum", "quorum")] {
                channel.declare(&QueueSpec::durable(name).argument("x-queue-type", kind));
                channel.bind(name, "between", "");
                channel.bind(name, "source", "gone");
                channel.unbind(name, "source", "gone");
            }
        },
        |channel, end| {
            for key in ["a.b", "gone"] {
                assert!(channel.publish_confirmed(&Publication::new("source", key, key)));
            }
            for name in ["bound.classic", "bound.quorum"] {
                assert_eq!(channel.take_all(name), ["a.b"], "{end}: {name}");
            }
        },
    );
}

// amqp 1.8.1: delivery mode
#[test]
fn persistent_messages_stay_and_transient_ones_go() {
    over_restart(
        |channel| {
            channel.declare(&QueueSpec::durable("mixed"));
            channel.confirm_select();
            for n in 0..10 {
                let persistent = Properties::persistent();
                let properties = if n % 2 == 0 {
                    persistent
                } else {
                    Properties::default()
                };
                channel.publish(&Publication::to_queue("mixed", n.to_string()).with(properties));
            }
            channel.outcomes();
        },
        |channel, end| {
            assert_eq!(
                channel.take_all("mixed"),
                ["0", "2", "4", "6", "8"],
                "{end}"
            );
        },
    );
}

// rabbitmq: a quorum queue keeps every message.
#[test]
fn a_quorum_queue_keeps_transient_messages_too() {
    over_restart(
        |channel| {
            channel.declare(&QueueSpec::quorum("kept"));
            assert!(channel.publish_confirmed(&Publication::to_queue("kept", "transient")));
        },
        |channel, end| assert_eq!(channel.take_all("kept"), ["transient"], "{end}"),
    );
}

// amqp 1.8.1: properties and bodies come back as they went.
#[test]
fn properties_and_large_bodies_stay_as_they_were() {
    let properties = Properties {
        content_type: Some("text/plain".to_owned()),
        message_id: Some("id".to_owned()),
        timestamp: Some(1_700_000_000),
        ..Properties::persistent()
    };
    let properties = properties.header("key", "value").header("number", 5);
    let bodies = [
        vec![1u8; 1_500_000],
        Vec::new(),
        vec![2u8; 9_000],
        vec![3u8; 100],
    ];
    over_restart(
        |channel| {
            for (name, kind) in [("rich.classic", "classic"), ("rich.quorum", "quorum")] {
                channel.declare(&QueueSpec::durable(name).argument("x-queue-type", kind));
                for body in &bodies {
                    let publication = Publication::to_queue(name, body);
                    assert!(channel.publish_confirmed(&publication.with(properties.clone())));
                }
            }
        },
        |channel, end| {
            for name in ["rich.classic", "rich.quorum"] {
                for body in &bodies {
                    let came = channel.get_soon(name);
                    assert!(came.body == *body, "{end}: {name}: a body has changed");
                    // A queue may count deliveries in the headers of its own messages.
                    assert_eq!(
                        came.properties.content_type, properties.content_type,
                        "{end}"
                    );
                    assert_eq!(came.properties.message_id, properties.message_id, "{end}");
                    assert_eq!(came.properties.timestamp, properties.timestamp, "{end}");
                    assert_eq!(came.properties.get("key"), properties.get("key"), "{end}");
                    assert_eq!(
                        came.properties.get("number"),
                        properties.get("number"),
                        "{end}"
                    );
                }
            }
        },
    );
}

// rabbitmq: settled messages stay settled once their queue said so.
#[test]
fn what_a_purge_or_a_delete_removed_stays_removed() {
    over_restart(
        |channel| {
            for (name, kind) in [("emptied.classic", "classic"), ("emptied.quorum", "quorum")] {
                let spec = QueueSpec::durable(name).argument("x-queue-type", kind);
                channel.declare(&spec);
                channel.put_all(name, ["old", "older"]);
                assert_eq!(channel.delete(name), 2);
                channel.declare(&spec);
                channel.put_all(name, ["purged"]);
                assert_eq!(channel.purge(name), 1);
                channel.put_all(name, ["new"]);
            }
        },
        |channel, end| {
            for name in ["emptied.classic", "emptied.quorum"] {
                assert_eq!(channel.take_all(name), ["new"], "{end}: {name}");
            }
        },
    );
}

// rabbitmq: a queue that was deleted stays deleted.
#[test]
fn deleted_things_stay_deleted() {
    over_restart(
        |channel| {
            for name in ["deleted.classic", "deleted.quorum"] {
                let kind = name.trim_start_matches("deleted.");
                channel.declare(&QueueSpec::durable(name).argument("x-queue-type", kind));
                channel.put_all(name, ["a"]);
                channel.delete(name);
            }
            channel.declare_exchange(&ExchangeSpec::durable("deleted", "direct"));
            channel.call(&integration_tests::request::exchange_delete("deleted"));
        },
        |channel, end| {
            for name in ["deleted.classic", "deleted.quorum"] {
                assert!(!exists(channel, &queue(name)), "{end}: queue {name}");
            }
            assert!(!exists(channel, &exchange("deleted")), "{end}");
        },
    );
}

// rabbitmq: arguments are part of the queue.
#[test]
fn queue_arguments_stay_in_force() {
    let spec = QueueSpec::durable("limited").argument("x-max-length", 2);
    over_restart(
        |channel| {
            channel.declare(&spec);
            channel.put_all("limited", ["a", "b"]);
        },
        |channel, end| {
            assert_eq!(channel.declare(&spec).ready, 2, "{end}");
            channel.put_all("limited", ["c"]);
            assert_eq!(channel.take_all("limited"), ["b", "c"], "{end}");
        },
    );
}

// rabbitmq: an expiration goes on over a restart.
#[test]
fn messages_expire_over_a_restart() {
    over_restart(
        |channel| {
            for name in ["brief.classic", "brief.quorum"] {
                let kind = name.trim_start_matches("brief.");
                channel.declare(&QueueSpec::durable(name).argument("x-queue-type", kind));
                let brief = Properties::persistent().expires("300");
                assert!(channel.publish_confirmed(&Publication::to_queue(name, "a").with(brief)));
            }
        },
        |channel, _| {
            for name in ["brief.classic", "brief.quorum"] {
                channel.expect_ready(name, 0);
                assert_eq!(channel.get(name), None, "{name}");
            }
        },
    );
}

// rabbitmq: the first user is made once and stays.
#[test]
fn users_stay() {
    own_broker(|| {
        for (name, end) in ENDS {
            let first = [
                ("RABBITMQ_DEFAULT_USER", "carol"),
                ("RABBITMQ_DEFAULT_PASS", "secret"),
            ];
            let mut broker = BrokerProcess::start_in(&[], &first);
            let carol = Login::of("carol", "secret");
            let channel = Connection::open_as(broker.address(), &carol).channel(1);
            channel.declare(&QueueSpec::durable("hers"));
            end(&mut broker);
            broker.forget_environment();
            broker.restart();
            let channel = Connection::open_as(broker.address(), &carol).channel(1);
            assert!(exists(&channel, &queue("hers")), "{name}");
        }
    });
}

// rabbitmq: a redelivery says so, a restart in between or not.
#[test]
fn unacked_messages_are_back_after_a_restart() {
    over_restart(
        |channel| {
            for name in ["held.classic", "held.quorum"] {
                let kind = name.trim_start_matches("held.");
                channel.declare(&QueueSpec::durable(name).argument("x-queue-type", kind));
                channel.put_all(name, ["a", "b"]);
                channel.get_soon(name);
            }
        },
        |channel, end| {
            for name in ["held.classic", "held.quorum"] {
                channel.expect_ready(name, 2);
                let mut texts = channel.take_all(name);
                texts.sort_unstable();
                assert_eq!(texts, ["a", "b"], "{end}: {name}");
            }
        },
    );
}

// One message at a time: each confirm is kept by itself, with nothing behind it to push it out.
#[test]
fn a_single_confirmed_message_survives_kill_9_at_once() {
    own_broker(|| {
        let mut broker = BrokerProcess::start();
        for round in 0..6 {
            let channel = Connection::open(broker.address()).channel(1);
            for name in ["single.classic", "single.quorum"] {
                let kind = name.trim_start_matches("single.");
                channel.declare(&QueueSpec::durable(name).argument("x-queue-type", kind));
                channel.put_all(name, [round.to_string()]);
            }
            broker.kill9();
            broker.restart();
        }
        let channel = Connection::open(broker.address()).channel(1);
        for name in ["single.classic", "single.quorum"] {
            assert_eq!(
                channel.take_all(name),
                ["0", "1", "2", "3", "4", "5"],
                "{name}"
            );
        }
    });
}

// A broker that is told to start on a data directory in use must say so and leave it alone.
#[test]
fn a_second_broker_on_the_same_data_is_refused() {
    own_broker(|| {
        let broker = BrokerProcess::start();
        let channel = Connection::open(broker.address()).channel(1);
        channel.declare(&QueueSpec::durable("mine"));
        let refusal = broker.second_start();
        assert!(
            !refusal.status.success(),
            "expected a refusal; came {refusal:?}"
        );
        let said = String::from_utf8_lossy(&refusal.stderr);
        assert!(!said.contains("panicked"), "{said}");
        channel.put_all("mine", ["still served"]);
    });
}
