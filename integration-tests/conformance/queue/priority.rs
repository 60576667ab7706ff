//! Priorities of messages.

use integration_tests::{Channel, Properties, Publication, QueueSpec, conformance};

use super::queue_of;

/// Puts texts with priorities, confirmed.
fn put(channel: &Channel, queue: &str, texts: &[(&str, Option<u8>)]) {
    for (text, priority) in texts {
        let properties = Properties {
            priority: *priority,
            ..Properties::persistent()
        };
        let publication = Publication::to_queue(queue, text).with(properties);
        assert!(channel.publish_confirmed(&publication));
    }
}

/// Up to `levels` priorities.
fn levels(levels: i32) -> impl FnOnce(QueueSpec) -> QueueSpec {
    move |spec| spec.argument("x-max-priority", levels)
}

// rabbitmq: the highest priority first, the oldest of it first
#[test]
fn the_highest_priority_comes_first() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", levels(5));
        let texts = [
            ("a1", Some(1)),
            ("b3", Some(3)),
            ("c1", Some(1)),
            ("d5", Some(5)),
            ("e3", Some(3)),
        ];
        put(&channel, &queue, &texts);
        assert_eq!(channel.take_all(&queue), ["d5", "b3", "e3", "a1", "c1"]);
    });
}

// rabbitmq: none is zero; above the highest is the highest.
#[test]
fn no_priority_is_zero_and_too_much_is_the_highest() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", levels(2));
        let texts = [
            ("none", None),
            ("zero", Some(0)),
            ("two", Some(2)),
            ("nine", Some(9)),
        ];
        put(&channel, &queue, &texts);
        assert_eq!(channel.take_all(&queue), ["two", "nine", "none", "zero"]);
    });
}

// rabbitmq: a queue without x-max-priority knows no priorities.
#[test]
fn a_classic_queue_without_levels_keeps_the_order_of_arrival() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| spec);
        put(
            &channel,
            &queue,
            &[("a", Some(1)), ("b", Some(9)), ("c", None)],
        );
        assert_eq!(channel.take_all(&queue), ["a", "b", "c"]);
    });
}

// rabbitmq: quorum queues have 32 levels; none is four.
#[test]
fn a_quorum_queue_knows_32_priorities() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "quorum", |spec| spec);
        let texts = [
            ("none", None),
            ("zero", Some(0)),
            ("three", Some(3)),
            ("four", Some(4)),
            ("five", Some(5)),
            ("thirty-one", Some(31)),
            ("two hundred", Some(200)),
        ];
        put(&channel, &queue, &texts);
        let wanted = [
            "thirty-one",
            "two hundred",
            "five",
            "none",
            "four",
            "three",
            "zero",
        ];
        assert_eq!(channel.take_all(&queue), wanted);
    });
}

// rabbitmq: a requeued message goes back to its place in its level.
#[test]
fn a_requeued_message_goes_back_to_its_level() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", levels(5));
        put(
            &channel,
            &queue,
            &[("low", Some(1)), ("high", Some(5)), ("high too", Some(5))],
        );
        let high = channel.get_soon(&queue);
        channel.requeue(&high);
        channel.expect_ready(&queue, 3);
        assert_eq!(channel.take_all(&queue), ["high", "high too", "low"]);
    });
}

// rabbitmq: drop-head drops what would be delivered next.
#[test]
fn a_full_queue_drops_the_highest_priority_first() {
    conformance(|trial| {
        let (channel, queue) = queue_of(trial, "classic", |spec| {
            spec.argument("x-max-priority", 5)
                .argument("x-max-length", 2)
        });
        put(
            &channel,
            &queue,
            &[("high", Some(5)), ("low", Some(1)), ("lower", Some(0))],
        );
        assert_eq!(channel.take_all(&queue), ["low", "lower"]);
    });
}
