//! Messages and queues that are gone after their time.
//! Tests wait until something is gone; what stays is given a time to live far beyond the test.

use integration_tests::request::queue_declare;
use integration_tests::{
    Close, ConsumerSpec, Properties, Publication, QueueSpec, conformance, expect_soon,
};

use super::{BOTH, queue_of};

/// A time to live that passes while a test waits, milliseconds.
const SHORT_MS: &str = "100";
/// A time to live that no test waits for, milliseconds.
const LONG_MS: &str = "3600000";

/// A text with an expiration.
fn expiring(queue: &str, text: &str, after_ms: &str) -> Publication {
    Publication::to_queue(queue, text).with(Properties::persistent().expires(after_ms))
}

// rabbitmq: per-message TTL
#[test]
fn a_message_is_gone_after_its_expiration() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            assert!(channel.publish_confirmed(&expiring(&queue, "brief", SHORT_MS)));
            channel.expect_ready(&queue, 0);
            assert_eq!(channel.get(&queue), None, "{kind}");
        }
    });
}

// rabbitmq: per-queue TTL
#[test]
fn a_message_is_gone_after_the_queues_time_to_live() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) =
                queue_of(trial, kind, |spec| spec.argument("x-message-ttl", 100));
            channel.put_all(&queue, ["one", "two"]);
            channel.expect_ready(&queue, 0);
        }
    });
}

// rabbitmq: the smaller time to live counts.
#[test]
fn the_smaller_time_to_live_counts() {
    conformance(|trial| {
        for kind in BOTH {
            let of = |ttl_ms| move |spec: QueueSpec| spec.argument("x-message-ttl", ttl_ms);
            let (channel, brief) = queue_of(trial, kind, of(100));
            assert!(channel.publish_confirmed(&expiring(&brief, "a", LONG_MS)));
            channel.expect_ready(&brief, 0);
            let (channel, long) = queue_of(trial, kind, of(3_600_000));
            assert!(channel.publish_confirmed(&expiring(&long, "b", SHORT_MS)));
            channel.expect_ready(&long, 0);
        }
    });
}

// rabbitmq: zero expires at once unless a consumer waits.
#[test]
fn an_expiration_of_zero_reaches_a_waiting_consumer() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| spec);
        channel.consume(&ConsumerSpec::of(&queue).no_ack());
        channel.publish(&expiring(&queue, "now", "0"));
        assert_eq!(channel.expect_delivery().text(), "now");
    });
}

// rabbitmq: zero expires at once unless a consumer waits.
#[test]
fn an_expiration_of_zero_is_gone_without_a_consumer() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            assert!(channel.publish_confirmed(&expiring(&queue, "never", "0")));
            channel.expect_ready(&queue, 0);
        }
    });
}

// rabbitmq: a message behind one that stays is not handed out after its time.
#[test]
fn an_expired_message_behind_another_is_never_delivered() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            assert!(channel.publish_confirmed(&expiring(&queue, "stays", LONG_MS)));
            assert!(channel.publish_confirmed(&expiring(&queue, "brief", SHORT_MS)));
            assert!(channel.publish_confirmed(&expiring(&queue, "stays too", LONG_MS)));
            // The brief one's time passes with a probe that was sent after it.
            let probe = trial.queue("probe");
            channel.declare(&QueueSpec::durable(&probe));
            assert!(channel.publish_confirmed(&expiring(&probe, "probe", "200")));
            channel.expect_ready(&probe, 0);
            let texts = [
                channel.get_soon(&queue).text(),
                channel.get_soon(&queue).text(),
            ];
            assert_eq!(texts, ["stays", "stays too"], "{kind}");
            assert_eq!(channel.get(&queue), None, "{kind}");
        }
    });
}

// rabbitmq: a message in somebody's hands does not expire, but does when it comes back.
#[test]
fn an_unacked_message_expires_when_it_comes_back() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec);
            channel.publish(&expiring(&queue, "held", "500"));
            let held = channel.get_soon(&queue);
            let probe = trial.queue("probe");
            channel.declare(&QueueSpec::durable(&probe));
            assert!(channel.publish_confirmed(&expiring(&probe, "probe", "700")));
            channel.expect_ready(&probe, 0);
            channel.requeue(&held);
            channel.expect_ready(&queue, 0);
            assert_eq!(channel.get(&queue), None, "{kind}");
        }
    });
}

// rabbitmq: expiration is a decimal number of milliseconds as text.
#[test]
fn an_expiration_that_is_no_number_closes_the_channel_with_406() {
    conformance(|trial| {
        let queue = trial.queue("syntax");
        trial.channel().declare(&QueueSpec::durable(&queue));
        for (expiration, why) in [
            ("abc", "no_integer"),
            ("", "no_integer"),
            ("-1", "{value_negative,-1}"),
            ("315360000001", "{value_too_large,315360000001}"),
            ("10 ", "{leftover_string,\" \"}"),
            ("1.5", "{leftover_string,\".5\"}"),
        ] {
            let channel = trial.channel();
            channel.publish(&expiring(&queue, "odd", expiration));
            let text = format!("PRECONDITION_FAILED - invalid expiration '{expiration}': {why}");
            assert_eq!(
                channel.expect_close(),
                Close::channel(406, text, "basic.publish")
            );
        }
    });
}

// rabbitmq: the expiration property is delivered as it was published.
#[test]
fn the_expiration_property_is_delivered() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| spec);
        assert!(channel.publish_confirmed(&expiring(&queue, "a", LONG_MS)));
        let delivery = channel.get_soon(&queue);
        assert_eq!(delivery.properties.expiration.as_deref(), Some(LONG_MS));
    });
}

/// Whether `queue` is there, asked by a connection of its own so that asking closes nothing else.
fn exists(trial: &integration_tests::Trial, queue: &str) -> bool {
    let connection = trial.connect();
    connection
        .channel(1)
        .send(&queue_declare(&QueueSpec::passive(queue)));
    let patience = integration_tests::connection::PATIENCE;
    connection
        .wait_within(1, &["queue.declare-ok"], patience)
        .is_ok()
}

// rabbitmq: x-expires
#[test]
fn an_unused_queue_is_gone_after_its_time() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| spec.argument("x-expires", 1000));
        channel.put_all(&queue, ["goes too"]);
        // Asking renews the time, so that the test must wait without asking.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        expect_soon("existence", &false, || exists(trial, &queue));
    });
}

// rabbitmq: consumers keep a queue.
#[test]
fn a_queue_with_a_consumer_does_not_expire() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| spec.argument("x-expires", 300));
        channel.consume(&ConsumerSpec::of(&queue));
        std::thread::sleep(std::time::Duration::from_millis(1000));
        assert!(exists(trial, &queue));
    });
}

// rabbitmq: declaring and getting count as use.
#[test]
fn using_a_queue_renews_its_time() {
    conformance(|trial| {
        let spec = |spec: QueueSpec| spec.argument("x-expires", 1500);
        let (channel, queue) = queue_of(trial, "classic", spec);
        for _ in 0..12 {
            std::thread::sleep(std::time::Duration::from_millis(200));
            assert_eq!(channel.get(&queue), None);
        }
        assert!(exists(trial, &queue));
    });
}

// rabbitmq: x-expires counts from the declaration, also when nothing else ever happens.
#[test]
fn a_queue_that_is_never_used_expires() {
    conformance(|trial| {
        let Some(http) = trial.http("a_queue_that_is_never_used_expires") else {
            return;
        };
        let channel = trial.channel();
        for describe in [QueueSpec::durable, QueueSpec::transient, QueueSpec::quorum] {
            let queue = trial.queue("unused");
            channel.declare(&describe(&queue).argument("x-expires", 100));
            // A declaration would be a use, so the API has to say when it is gone.
            let path = format!("/api/queues/%2F/{queue}");
            expect_soon("status", &404, || http.send("GET", &path, None).status);
        }
    });
}

// rabbitmq: with a time to live of 0 a message is for waiting consumers, and it never waits again.
#[test]
fn a_requeued_message_with_time_to_live_0_is_gone() {
    conformance(|trial| {
        for kind in BOTH {
            let (channel, queue) = queue_of(trial, kind, |spec| spec.argument("x-message-ttl", 0));
            channel.consume(&ConsumerSpec::of(&queue));
            channel.put(&queue, "once");
            let delivery = channel.expect_delivery();
            channel.requeue(&delivery);
            channel.expect_no_delivery();
        }
    });
}
