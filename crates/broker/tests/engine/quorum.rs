//! Delivery limits, delays, timeouts and dead letters on a running node, with a restart in between
//! where something must survive it.

use std::time::Duration;

use amqp::{Properties, PropertiesBuilder, Table, Value};
use broker::observe::{HeldBecause, IncidentKind};
use broker::{Broker, DeclareExchange, Publish};
use broker_core::metadata::{MetadataChange, QueueRecord};
use broker_core::policy::{ApplyTo, PolicyForm, PolicyScope};
use broker_core::queue::QueueCounts;
use broker_core::settings::Origin;
use broker_core::term::Term;
use broker_core::{QueueName, VhostName};
use std::sync::Arc;

use crate::client::{Client, Left, open};

/// Waits until something holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"));
}

fn record(broker: &Broker, queue: &str) -> Arc<QueueRecord> {
    let metadata = broker.metadata();
    let vhost = metadata.vhost(&VhostName::new("/")).unwrap();
    vhost.queue(queue).unwrap().clone()
}

fn counts(broker: &Broker, queue: &str) -> QueueCounts {
    broker.queue_counts(record(broker, queue).id).unwrap()
}

fn quorum_with(more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    let mut arguments = vec![("x-queue-type", Value::from("quorum"))];
    arguments.extend_from_slice(more);
    arguments
}

async fn declare_exchange(client: &mut Client, name: &str, kind: &str, arguments: Table) {
    let declare = DeclareExchange {
        exchange: name.into(),
        exchange_type: kind.into(),
        passive: false,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments,
    };
    client.channel.declare_exchange(declare).await.unwrap();
}

/// Takes a message and answers its delivery tag.
async fn take(client: &mut Client, queue: &str) -> Option<u64> {
    let got = client.channel.get(QueueName::new(queue), false).await;
    got.unwrap().map(|got| got.delivery_tag)
}

async fn take_soon(client: &mut Client, queue: &str) -> u64 {
    for _ in 0..10_000 {
        if let Some(tag) = take(client, queue).await {
            return tag;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("nothing to take from {queue}")
}

/// Takes a message and answers its body and headers.
async fn look(client: &mut Client, queue: &str) -> (String, Table) {
    for _ in 0..10_000 {
        let got = client.channel.get(QueueName::new(queue), true).await;
        if let Some(got) = got.unwrap() {
            let seen = got.with_view(|view| {
                let headers = Properties::trusted(view.properties).headers().unwrap();
                let body = String::from_utf8_lossy(view.body).into_owned();
                (body, headers.unwrap_or_default())
            });
            return seen.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("nothing to take from {queue}")
}

fn headers(pairs: &[(&str, Value)]) -> Vec<u8> {
    let builder = PropertiesBuilder::new();
    let built = builder.edit_headers(|headers| {
        for (name, value) in pairs {
            headers.insert(*name, value.clone());
        }
    });
    built.unwrap().build()
}

async fn restart(broker: Broker, client: Client, dir: &std::path::Path) -> (Broker, Client) {
    client.session.close().await;
    broker.shutdown().await.unwrap();
    drop((client, broker));
    let broker = open(dir).await;
    let client = Client::connect(&broker);
    (broker, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_that_is_held_back_stays_so_over_a_restart() {
    for kind in ["quorum", "classic"] {
        let dir = tempfile::tempdir().unwrap();
        let broker = open(dir.path()).await;
        let mut client = Client::connect(&broker);
        let long = [
            ("x-queue-type", Value::from(kind)),
            ("x-delayed-retry-type", "all".into()),
            ("x-delayed-retry-min", Value::I32(3_600_000)),
        ];
        client.declare("long", true, &long).await;
        client.publish("", "long", "a");
        client.publish("", "long", "b");
        let tag = take_soon(&mut client, "long").await;
        client.channel.reject(tag, true).unwrap();
        client.channel.end_turn();
        until("one is held back", || counts(&broker, "long").delayed == 1).await;
        let (broker, mut client) = restart(broker, client, dir.path()).await;
        let seen = counts(&broker, "long");
        assert_eq!((seen.delayed, seen.ready), (1, 1), "{kind}");
        assert_eq!(client.drain("long").await, ["b"], "{kind}");
        let view = broker.queue_view(&record(&broker, "long")).unwrap();
        assert!(view.delayed_until_ms.is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_that_ends_after_a_restart_gives_the_message_back_with_its_count() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    let arguments = quorum_with(&[
        ("x-delayed-retry-type", "all".into()),
        ("x-delayed-retry-min", Value::I32(300)),
    ]);
    client.declare("q", true, &arguments).await;
    client.publish("", "q", "a");
    let tag = take_soon(&mut client, "q").await;
    client.channel.nack(tag, false, true).unwrap();
    client.channel.end_turn();
    let (_broker, mut client) = restart(broker, client, dir.path()).await;
    let (body, headers) = look(&mut client, "q").await;
    assert_eq!(body, "a");
    assert_eq!(headers.get("x-delivery-count"), Some(&Value::I64(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_without_a_target_are_held_told_of_and_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    let arguments = quorum_with(&[
        ("x-dead-letter-exchange", "later".into()),
        ("x-dead-letter-strategy", "at-least-once".into()),
    ]);
    client.declare("q", true, &arguments).await;
    client.channel.confirm_select().unwrap();
    for n in 0..40 {
        client.publish("", "q", &n.to_string());
    }
    client.channel.end_turn();
    client.confirmed(40).await;
    for _ in 0..40 {
        let tag = take(&mut client, "q").await.unwrap();
        client.channel.reject(tag, false).unwrap();
        client.channel.end_turn();
    }
    let held = |broker: &Broker| {
        let view = broker.queue_view(&record(broker, "q")).unwrap();
        view.dead_letters_held.map(|(why, _)| why)
    };
    until("40 wait", || counts(&broker, "q").dead_lettering == 40).await;
    assert_eq!(held(&broker), Some(HeldBecause::ExchangeMissing));
    let incidents = broker.recent_incidents();
    let told = |event: &broker::observe::Incident| {
        matches!(
            event.kind,
            IncidentKind::DeadLettersHeld {
                why: HeldBecause::ExchangeMissing
            }
        )
    };
    assert_eq!(incidents.iter().filter(|event| told(event)).count(), 1);

    let (broker, mut client) = restart(broker, client, dir.path()).await;
    let seen = counts(&broker, "q");
    assert_eq!((seen.dead_lettering, seen.ready), (40, 0));
    declare_exchange(&mut client, "later", "fanout", Table::default()).await;
    until("no route is noticed", || {
        held(&broker) == Some(HeldBecause::NoRoute)
    })
    .await;
    client.declare("target", true, &quorum_with(&[])).await;
    client.bind("target", "later", "").await;
    until("all have arrived", || {
        counts(&broker, "target").ready == 40 && counts(&broker, "q").messages() == 0
    })
    .await;
    assert_eq!(held(&broker), None);
    let mut bodies = client.drain("target").await;
    bodies.sort_unstable_by_key(|body| body.parse::<u32>().unwrap());
    let wanted: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    assert_eq!(bodies, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_exchange_holds_confirmed_messages_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    let by_key: Table = [("x-delayed-type", Value::from("direct"))]
        .into_iter()
        .collect();
    declare_exchange(&mut client, "d", "x-delayed-message", by_key).await;
    client.declare("q", true, &quorum_with(&[])).await;
    client.bind("q", "d", "k").await;
    client.channel.confirm_select().unwrap();
    let mut publish = |body: &str, delay: Value| {
        client.publish_with("d", "k", body, &headers(&[("x-delay", delay)]));
    };
    publish("later", Value::I32(400));
    publish("sooner", Value::I64(200));
    publish("text", Value::from("300"));
    publish("never", Value::I64(3_600_000));
    publish("negative", Value::I32(-5));
    client.channel.end_turn();
    client.confirmed(5).await;
    assert_eq!(client.drain("q").await, ["negative"]);
    let held = |broker: &Broker| {
        let metadata = broker.metadata();
        let vhost = metadata.vhost(&VhostName::new("/")).unwrap();
        let record = vhost.exchange("d").unwrap().record().clone();
        drop(metadata);
        broker.delayed_messages(&record)
    };
    let (broker, mut client) = restart(broker, client, dir.path()).await;
    for (body, delay) in [("sooner", -200), ("text", -300), ("later", -400)] {
        let (came, headers) = look(&mut client, "q").await;
        assert_eq!(came, body);
        assert_eq!(headers.get("x-delay"), Some(&Value::I32(delay)));
    }
    until("one is left", || held(&broker) == Some(1)).await;
    let (broker, mut client) = restart(broker, client, dir.path()).await;
    assert_eq!(held(&broker), Some(1));
    assert_eq!(client.get("q").await, None);
    client
        .channel
        .delete_exchange("d".into(), false)
        .await
        .unwrap();
    let mut traffic = 0;
    broker.each_queue(|_, _, _| traffic += 1);
    assert_eq!(traffic, 1, "the store is no queue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reason_of_the_application_is_shown_in_the_dead_letter() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    let arguments = quorum_with(&[
        ("x-dead-letter-exchange", "".into()),
        ("x-dead-letter-routing-key", "dead".into()),
        ("x-delivery-limit", Value::I32(5)),
    ]);
    client.declare("q", true, &arguments).await;
    client.declare("dead", true, &quorum_with(&[])).await;
    client.publish("", "q", "a");
    client.consume("q", "worker", false).await;
    client.channel.end_turn();
    client.left(1).await;
    client.channel.nack(1, false, true).unwrap();
    client.channel.end_turn();
    client.left(1).await;
    let tag = headers(&[("delivery-tag", Value::I64(2)), ("channel", Value::I32(1))]);
    client.publish_with("sluicemq.reason", "", "no such customer", &tag);
    client.channel.reject(2, false).unwrap();
    client.channel.end_turn();
    let (_, headers) = look(&mut client, "dead").await;
    let text = |name: &str| headers.get(name).and_then(Value::as_str);
    assert_eq!(text("x-death-application-reason"), Some("no such customer"));
    assert_eq!(text("x-death-consumer"), Some("worker"));
    let attempts = headers.get("x-death-attempts").and_then(Value::as_array);
    let ends: Vec<&str> = attempts
        .unwrap()
        .iter()
        .filter_map(|attempt| attempt.as_table()?.get("end")?.as_str())
        .collect();
    assert_eq!(ends, ["nack", "reject-discard"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_on_a_delivery_that_is_not_out_comes_back_and_a_bad_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.channel.confirm_select().unwrap();
    let unknown = headers(&[("delivery-tag", Value::I32(7))]);
    client.publish_with("sluicemq.deadline", "", "", &unknown);
    client.channel.end_turn();
    let left = client.left(2).await;
    assert!(matches!(left[0], Left::Return { .. }), "{left:?}");
    assert!(matches!(left[1], Left::Ack { tag: 1, .. }), "{left:?}");
    let refusal = client.channel.publish(Publish {
        exchange: "sluicemq.deadline",
        routing_key: "",
        mandatory: false,
        immediate: false,
        properties: &[0, 0],
        body: b"",
    });
    assert_eq!(
        refusal.unwrap_err().to_string(),
        "message for exchange 'sluicemq.deadline' not understood: header 'delivery-tag' is missing"
    );
}

async fn set_policy(broker: &Broker, definition: &[(&str, Term)]) {
    let definition = definition
        .iter()
        .map(|(key, value)| (Box::from(*key), value.clone()));
    let definition = Term::Map(definition.collect());
    let policy = PolicyForm::new("p", ".*", ApplyTo::QuorumQueues, 0, definition);
    let change = MetadataChange::SetPolicy {
        vhost: VhostName::new("/"),
        scope: PolicyScope::User,
        policy,
    };
    broker.apply(&change).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_ack_settles_nothing_after_the_delivery_was_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    let arguments = quorum_with(&[
        ("x-consumer-timeout", Value::I32(3_600_000)),
        ("x-consumer-timeout-action", "return".into()),
    ]);
    client.declare("q", true, &arguments).await;
    client.publish("", "q", "a");
    client.consume("q", "slow", false).await;
    client.channel.end_turn();
    client.left(1).await;
    // A shorter timeout reaches deliveries that are out.
    set_policy(&broker, &[("consumer-timeout", Term::Integer(50))]).await;
    let again = client.left(1).await;
    assert!(matches!(
        &again[0],
        Left::Deliver {
            redelivered: true,
            ..
        }
    ));
    set_policy(&broker, &[("consumer-timeout", Term::Integer(3_600_000))]).await;
    client.channel.ack(1, false).unwrap();
    client.channel.end_turn();
    let seen = counts(&broker, "q");
    assert_eq!((seen.unacked, seen.ready), (1, 0));
    assert!(broker.message_counts().settled_late >= 1);
    assert_eq!(seen.late_settles, 1);
    let timed_out = broker
        .recent_incidents()
        .into_iter()
        .find_map(|event| match event.kind {
            IncidentKind::DeliveryTimedOut {
                consumer,
                delivery_tag,
                timeout_ms,
                ..
            } => Some((consumer, delivery_tag, timeout_ms)),
            _ => None,
        });
    assert_eq!(timed_out, Some((Some("slow".into()), Some(1), 50)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_of_one_delivery_can_be_pushed_back() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    let arguments = quorum_with(&[
        ("x-consumer-timeout", Value::I32(400)),
        ("x-consumer-timeout-action", "return".into()),
    ]);
    client.declare("q", true, &arguments).await;
    for body in ["kept", "late"] {
        client.publish("", "q", body);
    }
    client.consume("q", "worker", false).await;
    client.channel.end_turn();
    client.left(2).await;
    let push_back = headers(&[("delivery-tag", Value::I64(1))]);
    let pushed = async {
        loop {
            client.publish_with("sluicemq.deadline", "", "", &push_back);
            client.channel.end_turn();
            tokio::time::sleep(Duration::from_millis(20)).await;
            if let Ok(left) = tokio::time::timeout(Duration::from_millis(1), client.left(1)).await {
                return left;
            }
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(20), pushed).await;
    let Left::Deliver {
        body, redelivered, ..
    } = &left.unwrap()[0]
    else {
        panic!("nothing came back")
    };
    assert_eq!((body.as_str(), *redelivered), ("late", true));
    client.channel.ack(1, false).unwrap();
    client.channel.end_turn();
    assert_eq!(counts(&broker, "q").messages(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_loop_is_one_event_with_queue_consumer_and_client() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    client.declare("q", true, &quorum_with(&[])).await;
    client.publish("", "q", "a");
    client.consume("q", "worker", false).await;
    client.channel.end_turn();
    for tag in 1..=15 {
        client.left(1).await;
        client.channel.nack(tag, false, true).unwrap();
        client.channel.end_turn();
    }
    client.left(1).await;
    let incidents = broker.recent_incidents();
    let [event] = &incidents[..] else {
        panic!("one event, not {incidents:?}")
    };
    assert_eq!(event.queue.as_str(), "q");
    let IncidentKind::PoisonLoop {
        consumer,
        client: name,
        returns,
        ..
    } = &event.kind
    else {
        panic!("{event:?}")
    };
    assert_eq!(
        (consumer.as_ref().unwrap().as_str(), *returns),
        ("worker", 11)
    );
    assert_eq!(name, "127.0.0.1:5672 -> 127.0.0.1:5672");
    assert_eq!(broker.incident_counts()[0], ("poison-loop", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_setting_of_a_queue_tells_where_it_comes_from() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    let arguments = quorum_with(&[("x-max-length", Value::I32(9))]);
    client.declare("q", true, &arguments).await;
    let definition = [
        ("delivery-limit", Term::Integer(3)),
        ("expire-anywhere", Term::Bool(true)),
        ("delayed-retry-type", Term::text("all")),
        ("delayed-retry-min", Term::Integer(10)),
        ("delayed-retry-multiplier", Term::Float(1.5)),
    ];
    set_policy(&broker, &definition).await;
    let every = broker.explain_queue(&record(&broker, "q"));
    let find = |key| {
        let found = every.iter().find(|setting| setting.key == key).unwrap();
        (found.value.clone(), found.origin.clone())
    };
    let policy = || Origin::Policy("p".into());
    assert_eq!(find("max-length"), (Term::Integer(9), Origin::Argument));
    assert_eq!(find("delivery-limit"), (Term::Integer(3), policy()));
    assert_eq!(find("expire-anywhere"), (Term::Bool(true), policy()));
    assert_eq!(
        find("delayed-retry-multiplier"),
        (Term::Float(1.5), policy())
    );
    assert_eq!(
        find("consumer-timeout"),
        (Term::Integer(1_800_000), Origin::Default)
    );
    assert_eq!(find("overflow"), (Term::text("drop-head"), Origin::Default));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deaths_are_counted_by_reason_and_by_what_became_of_the_message() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).await;
    let mut client = Client::connect(&broker);
    let arguments = quorum_with(&[("x-delivery-limit", Value::I32(0))]);
    client.declare("q", true, &arguments).await;
    client.publish("", "q", "a");
    let tag = take_soon(&mut client, "q").await;
    client.channel.nack(tag, false, true).unwrap();
    client.channel.end_turn();
    until("it is dropped", || counts(&broker, "q").messages() == 0).await;
    let view = broker.queue_view(&record(&broker, "q")).unwrap();
    assert_eq!(view.deaths.dropped, [0, 0, 0, 1]);
    assert_eq!(view.deaths.dead_lettered, [0; 4]);
    assert_eq!(broker.message_counts().dropped_at_delivery_limit, 1);
}
