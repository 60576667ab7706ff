//! Dead-lettering: why a message leaves its queue, where it goes and what it carries then.

use integration_tests::{
    Channel, Delivery, ExchangeSpec, Properties, Publication, QueueSpec, Table, Trial, Value,
    conformance,
};

use super::{BOTH, queue_of};

/// A source queue whose dead letters go to a queue of their own.
struct Scene {
    channel: Channel,
    source: String,
    exchange: String,
    dead: String,
}

fn scene(trial: &Trial, kind: &str, describe: impl FnOnce(QueueSpec) -> QueueSpec) -> Scene {
    let exchange = trial.exchange("dlx");
    let (channel, source) = queue_of(trial, kind, |spec| {
        describe(spec.argument("x-dead-letter-exchange", &exchange))
    });
    channel.declare_exchange(&ExchangeSpec::durable(&exchange, "fanout"));
    let dead = trial.queue("dead");
    channel.declare(&QueueSpec::durable(&dead));
    channel.bind(&dead, &exchange, "");
    Scene {
        channel,
        source,
        exchange,
        dead,
    }
}

/// The newest entry of the death history.
fn death(delivery: &Delivery) -> Table {
    deaths(delivery).first().cloned().unwrap_or_default()
}

fn deaths(delivery: &Delivery) -> Vec<Table> {
    let history = delivery
        .properties
        .get("x-death")
        .map(Value::elements)
        .unwrap_or_default();
    history
        .iter()
        .filter_map(Value::as_table)
        .cloned()
        .collect()
}

fn text<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_text).unwrap_or_default()
}

fn count(table: &Table) -> i64 {
    table
        .get("count")
        .and_then(Value::as_integer)
        .unwrap_or_default()
}

// rabbitmq: reason rejected
#[test]
fn a_rejected_message_is_dead_lettered() {
    conformance(|trial| {
        for kind in BOTH {
            let scene = scene(trial, kind, |spec| spec);
            scene.channel.put_all(&scene.source, ["a"]);
            let delivery = scene.channel.get_soon(&scene.source);
            scene.channel.discard(&delivery);
            let dead = scene.channel.get_soon(&scene.dead);
            assert_eq!(dead.text(), "a");
            assert_eq!(
                (dead.exchange.as_str(), &dead.routing_key),
                (&*scene.exchange, &scene.source)
            );
            let death = death(&dead);
            assert_eq!(text(&death, "reason"), "rejected", "{kind}");
            assert_eq!(text(&death, "queue"), scene.source, "{kind}");
            assert_eq!(text(&death, "exchange"), "", "{kind}");
            assert_eq!(count(&death), 1, "{kind}");
            let keys = death.get("routing-keys").map(Value::elements);
            assert_eq!(keys, Some(&[Value::from(&scene.source)][..]), "{kind}");
            assert!(
                matches!(death.get("time"), Some(Value::Timestamp(_))),
                "{kind}: {death:?}"
            );
        }
    });
}

// rabbitmq: the first and the last death have headers of their own.
#[test]
fn first_and_last_death_are_told() {
    conformance(|trial| {
        for kind in BOTH {
            let scene = scene(trial, kind, |spec| spec);
            scene.channel.put_all(&scene.source, ["a"]);
            let delivery = scene.channel.get_soon(&scene.source);
            scene.channel.discard(&delivery);
            let dead = scene.channel.get_soon(&scene.dead);
            for which in ["first", "last"] {
                let header = |part: &str| {
                    let key = format!("x-{which}-death-{part}");
                    dead.properties
                        .get(&key)
                        .and_then(Value::as_text)
                        .map(str::to_owned)
                };
                assert_eq!(header("reason").as_deref(), Some("rejected"), "{kind}");
                assert_eq!(header("queue").as_ref(), Some(&scene.source), "{kind}");
                assert_eq!(header("exchange").as_deref(), Some(""), "{kind}");
            }
        }
    });
}

// rabbitmq: reason expired; the expiration is kept in the history only.
#[test]
fn an_expired_message_is_dead_lettered_without_its_expiration() {
    conformance(|trial| {
        for kind in BOTH {
            let scene = scene(trial, kind, |spec| spec);
            let properties = Properties::persistent().expires("50");
            scene
                .channel
                .publish(&Publication::to_queue(&scene.source, "a").with(properties));
            let dead = scene.channel.get_soon(&scene.dead);
            assert_eq!(dead.properties.expiration, None, "{kind}");
            let death = death(&dead);
            assert_eq!(text(&death, "reason"), "expired", "{kind}");
            assert_eq!(text(&death, "original-expiration"), "50", "{kind}");
        }
    });
}

// rabbitmq: reason expired by the queue's own time to live
#[test]
fn a_message_that_outlives_the_queues_time_to_live_is_dead_lettered() {
    conformance(|trial| {
        for kind in BOTH {
            let scene = scene(trial, kind, |spec| spec.argument("x-message-ttl", 50));
            scene.channel.put_all(&scene.source, ["a", "b"]);
            let texts = [0, 1].map(|_| scene.channel.get_soon(&scene.dead).text());
            assert_eq!(texts, ["a", "b"], "{kind}");
        }
    });
}

// rabbitmq: reason maxlen
#[test]
fn a_message_dropped_for_length_is_dead_lettered() {
    conformance(|trial| {
        for kind in BOTH {
            let scene = scene(trial, kind, |spec| spec.argument("x-max-length", 1));
            scene.channel.put_all(&scene.source, ["old", "new"]);
            let dead = scene.channel.get_soon(&scene.dead);
            assert_eq!(dead.text(), "old", "{kind}");
            assert_eq!(text(&death(&dead), "reason"), "maxlen", "{kind}");
            assert_eq!(scene.channel.take_all(&scene.source), ["new"], "{kind}");
        }
    });
}

// rabbitmq: reject-publish-dlx dead-letters the message that does not fit.
#[test]
fn a_refused_publish_is_dead_lettered_if_asked() {
    conformance(|trial| {
        let scene = scene(trial, "classic", |spec| {
            spec.argument("x-max-length", 1)
                .argument("x-overflow", "reject-publish-dlx")
        });
        let publish = |text| Publication::to_queue(&scene.source, text);
        assert!(scene.channel.publish_confirmed(&publish("in")));
        assert!(!scene.channel.publish_confirmed(&publish("out")));
        let dead = scene.channel.get_soon(&scene.dead);
        assert_eq!(
            (dead.text().as_str(), text(&death(&dead), "reason")),
            ("out", "maxlen")
        );
    });
}

// rabbitmq: reason delivery_limit
#[test]
fn a_message_that_failed_too_often_is_dead_lettered() {
    conformance(|trial| {
        let scene = scene(trial, "quorum", |spec| spec.argument("x-delivery-limit", 1));
        scene.channel.put_all(&scene.source, ["a"]);
        for _ in 0..2 {
            let delivery = scene.channel.get_soon(&scene.source);
            scene
                .channel
                .send(&integration_tests::request::basic_reject(
                    delivery.tag,
                    true,
                ));
        }
        let dead = scene.channel.get_soon(&scene.dead);
        assert_eq!(text(&death(&dead), "reason"), "delivery_limit");
    });
}

// rabbitmq: x-dead-letter-routing-key
#[test]
fn a_dead_letter_key_replaces_the_messages_own() {
    conformance(|trial| {
        for kind in BOTH {
            let scene = scene(trial, kind, |spec| {
                spec.argument("x-dead-letter-routing-key", "other")
            });
            scene.channel.put_all(&scene.source, ["a"]);
            let delivery = scene.channel.get_soon(&scene.source);
            scene.channel.discard(&delivery);
            assert_eq!(
                scene.channel.get_soon(&scene.dead).routing_key,
                "other",
                "{kind}"
            );
        }
    });
}

// rabbitmq: a dead-letter exchange that is not there
#[test]
fn without_its_exchange_a_dead_letter_is_gone() {
    conformance(|trial| {
        for kind in BOTH {
            let missing = trial.name("missing");
            let (channel, queue) = queue_of(trial, kind, |spec| {
                spec.argument("x-dead-letter-exchange", &missing)
            });
            channel.put_all(&queue, ["a"]);
            let delivery = channel.get_soon(&queue);
            channel.discard(&delivery);
            channel.sync();
            channel.expect_ready(&queue, 0);
        }
    });
}

// rabbitmq: rejecting without a dead-letter exchange
#[test]
fn without_a_dead_letter_exchange_a_rejected_message_is_gone() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            channel.put_all(&queue, ["a"]);
            let delivery = channel.get_soon(&queue);
            channel.discard(&delivery);
            channel.sync();
            assert_eq!(channel.get(&queue), None, "{kind}");
        }
    });
}

/// Two queues that dead-letter to each other through the default exchange; only the first expires.
fn ring(trial: &Trial, kind: &str) -> (Channel, String, String) {
    let (one, two) = (trial.queue("one"), trial.queue("two"));
    let channel = trial.channel();
    let dead_letters_to = |from: &str, to: &str| {
        QueueSpec::durable(from)
            .argument("x-queue-type", kind)
            .argument("x-dead-letter-exchange", "")
            .argument("x-dead-letter-routing-key", to)
    };
    channel.declare(&dead_letters_to(&one, &two).argument("x-message-ttl", 50));
    channel.declare(&dead_letters_to(&two, &one));
    (channel, one, two)
}

// rabbitmq: a repeated death counts up and comes first.
#[test]
fn a_message_that_dies_twice_counts_up() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, one, two) = ring(trial, kind);
            channel.put_all(&one, ["a"]);
            let first = channel.get_soon(&two);
            channel.discard(&first);
            let again = channel.get_soon(&two);
            let deaths = deaths(&again);
            let told: Vec<_> = deaths
                .iter()
                .map(|death| (text(death, "queue"), text(death, "reason"), count(death)))
                .collect();
            let wanted = [(one.as_str(), "expired", 2), (two.as_str(), "rejected", 1)];
            assert_eq!(told, wanted, "{kind}");
        }
    });
}

// rabbitmq: a ring without a client in it is cut.
#[test]
fn a_message_that_only_expires_in_a_ring_is_gone() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| {
                spec.argument("x-message-ttl", 50)
                    .argument("x-dead-letter-exchange", "")
            });
            channel.put_all(&queue, ["a"]);
            channel.expect_ready(&queue, 0);
            channel.connection().expect_quiet();
            assert_eq!(channel.get(&queue), None, "{kind}");
        }
    });
}

// rabbitmq: BCC is never delivered, CC goes on, both route.
#[test]
fn copies_follow_the_message_to_its_dead_letter_exchange() {
    conformance(|trial| {
        let exchange = trial.exchange("dlx");
        let (channel, source) = queue_of(trial, "classic", |spec| {
            spec.argument("x-dead-letter-exchange", &exchange)
        });
        channel.declare_exchange(&ExchangeSpec::durable(&exchange, "direct"));
        let (cc, bcc) = (trial.queue("cc"), trial.queue("bcc"));
        for queue in [&cc, &bcc] {
            channel.declare(&QueueSpec::durable(queue));
            channel.bind(queue, &exchange, queue);
        }
        let keys = |key: &String| Value::Array(vec![Value::from(key)]);
        let properties = Properties::default()
            .header("CC", keys(&cc))
            .header("BCC", keys(&bcc));
        let publication = Publication::to_queue(&source, "a").with(properties);
        assert!(channel.publish_confirmed(&publication));
        // The copies themselves are the publisher's and of no interest here.
        channel.purge(&cc);
        channel.purge(&bcc);
        let delivery = channel.get_soon(&source);
        channel.discard(&delivery);
        for queue in [&cc, &bcc] {
            let dead = channel.get_soon(queue);
            assert_eq!(dead.properties.get("CC"), Some(&keys(&cc)));
            assert_eq!(dead.properties.get("BCC"), None);
        }
    });
}

// rabbitmq: death headers of a publisher are data until a real death replaces them.
#[test]
fn death_headers_of_a_publisher_are_replaced_by_a_real_death() {
    conformance(|trial| {
        for kind in BOTH {
            let scene = scene(trial, kind, |spec| spec);
            let properties = Properties::persistent().header("x-death", "invented");
            scene
                .channel
                .publish(&Publication::to_queue(&scene.source, "a").with(properties));
            let delivery = scene.channel.get_soon(&scene.source);
            assert_eq!(
                delivery.properties.get("x-death"),
                Some(&Value::from("invented"))
            );
            scene.channel.discard(&delivery);
            let dead = scene.channel.get_soon(&scene.dead);
            assert_eq!(count(&death(&dead)), 1, "{kind}");
        }
    });
}

// rabbitmq: deleting or purging is no death.
#[test]
fn purged_messages_are_not_dead_lettered() {
    conformance(|trial| {
        for kind in BOTH {
            let scene = scene(trial, kind, |spec| spec);
            scene.channel.put_all(&scene.source, ["a"]);
            scene.channel.purge(&scene.source);
            scene.channel.delete(&scene.source);
            scene.channel.connection().expect_quiet();
            assert_eq!(scene.channel.get(&scene.dead), None, "{kind}");
        }
    });
}

// rabbitmq: a dead-letter key replaces the copies in CC and BCC for good.
#[test]
fn copies_do_not_count_again_behind_a_dead_letter_key() {
    conformance(|trial| {
        for kind in BOTH {
            let exchange = trial.exchange("direct");
            let (channel, second) = queue_of(trial, kind, |spec| {
                spec.argument("x-dead-letter-exchange", &exchange)
            });
            channel.declare_exchange(&ExchangeSpec::durable(&exchange, "direct"));
            let (_, first) = queue_of(trial, kind, |spec| {
                spec.argument("x-dead-letter-exchange", "")
                    .argument("x-dead-letter-routing-key", &second)
            });
            let [by_key, by_copy] = ["key", "copy"].map(|name| trial.queue(name));
            for (queue, key) in [(&by_key, second.as_str()), (&by_copy, "copy")] {
                channel.declare(&QueueSpec::durable(queue));
                channel.bind(queue, &exchange, key);
            }
            let copies =
                Properties::default().header("CC", Value::Array(vec![Value::from("copy")]));
            channel.publish(&Publication::to_queue(&first, "a").with(copies));
            for queue in [&first, &second] {
                channel.discard(&channel.get_soon(queue));
            }
            let dead = channel.get_soon(&by_key);
            let death = death(&dead);
            let keys = death.get("routing-keys").map(Value::elements);
            assert_eq!(keys, Some(&[Value::from(second.as_str())][..]), "{kind}");
            assert_eq!(channel.get(&by_copy), None, "{kind}");
        }
    });
}

// rabbitmq: headers are one frame, however large they have become.
#[test]
fn headers_that_grew_by_a_death_reach_a_client_with_small_frames() {
    conformance(|trial| {
        for kind in BOTH {
            let scene = scene(trial, kind, |spec| spec);
            let login = integration_tests::Login {
                frame_max: Some(8192),
                ..integration_tests::Login::default()
            };
            let client = trial.connect_as(&login).channel(1);
            let pad = "p".repeat(8100);
            let properties = Properties::default().header("pad", pad.as_str());
            client.publish(&Publication::to_queue(&scene.source, "body").with(properties));
            let first = client.get_soon(&scene.source);
            client.discard(&first);
            let dead = client.get_soon(&scene.dead);
            assert_eq!(dead.text(), "body");
            assert_eq!(dead.properties.get("pad"), Some(&Value::from(pad.as_str())));
            assert_eq!(death(&dead).get("reason"), Some(&Value::from("rejected")));
        }
    });
}

// rabbitmq: the customary delay queue, which each sender declares again
#[test]
fn a_delay_queue_that_is_declared_again_and_again_passes_every_message_on() {
    conformance(|trial| {
        let channel = trial.channel();
        let (work, delay) = (trial.queue("work"), trial.queue("delay"));
        channel.declare(&QueueSpec::durable(&work));
        for text in ["first", "second", "third"] {
            let spec = QueueSpec::durable(&delay)
                .argument("x-message-ttl", 50)
                .argument("x-expires", 60_000)
                .argument("x-dead-letter-exchange", "")
                .argument("x-dead-letter-routing-key", work.as_str());
            channel.declare(&spec);
            channel.put(&delay, text);
            let passed = channel.get_soon(&work);
            assert_eq!(passed.text(), text);
            assert_eq!(death(&passed).get("count"), Some(&Value::I64(1)));
        }
    });
}
