//! What limits a queue: one verdict out of its figures.
//!
//! Pure: figures in, words out. Must not know how the figures are come by.

use management_api::ConsumerLoad;

/// What a verdict is read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) ready: u64,
    pub(crate) unacked: u64,
    /// Channels that the queue holds, and their messages that wait.
    pub(crate) held_publishers: usize,
    pub(crate) parked: u64,
    /// They are held for the memory that the queue takes, not for its capacity.
    pub(crate) over_memory_share: bool,
    /// Messages a second over the last interval.
    pub(crate) published_per_s: f64,
    pub(crate) delivered_per_s: f64,
    pub(crate) acked_per_s: f64,
    /// All consumers of the queue.
    pub(crate) consumers: Vec<ConsumerLoad>,
    pub(crate) oldest_ready_ms: Option<u64>,
}

/// The verdict, with its sentence and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) next: Option<String>,
}

/// From here on a delivery without any ack in the queue counts as stuck.
const STUCK_MS: u64 = 60_000;

impl Figures {
    fn is_full(consumer: &ConsumerLoad) -> bool {
        let at_prefetch = consumer.prefetch > 0 && consumer.unacked >= u64::from(consumer.prefetch);
        at_prefetch || consumer.held_by.is_some()
    }

    /// The mean time that a delivery is in hand, by what is in hand and what leaves.
    // Little's law.
    fn handling_ms(&self) -> Option<u64> {
        (self.acked_per_s > 0.0).then(|| (self.unacked as f64 * 1000.0 / self.acked_per_s) as u64)
    }

    /// What limits the queue; publishers that are held come on top of it.
    pub(crate) fn verdict(&self) -> Verdict {
        let mut verdict = self.of_consumers();
        if self.held_publishers > 0 {
            verdict.text = format!(
                "{}: {} publishers are held with {} messages; {}",
                match self.over_memory_share {
                    true => "over its memory",
                    false => "overfull",
                },
                self.held_publishers,
                self.parked,
                verdict.text
            );
        }
        verdict
    }

    fn of_consumers(&self) -> Verdict {
        let count = self.consumers.len();
        let of = |name, text: String, next: Option<String>| Verdict { name, text, next };
        if self.ready > 0 && count == 0 {
            let text = format!("no consumer: {} messages wait", self.ready);
            return of("no_consumer", text, Some("start a consumer".into()));
        }
        let all_full = count > 0 && self.consumers.iter().all(Self::is_full);
        if let Some(stuck) = self.stuck(all_full) {
            return stuck;
        }
        if self.ready > 0 && all_full {
            return self.held_by_a_tenant().unwrap_or_else(|| self.too_few());
        }
        if self.ready > 0 {
            let free = self
                .consumers
                .iter()
                .filter(|consumer| !Self::is_full(consumer))
                .count();
            let text = match self.delivered_per_s > 0.0 {
                true => format!(
                    "messages flow: {:.0} a second go out, {free} of {count} consumers could take more",
                    self.delivered_per_s
                ),
                false => format!(
                    "{free} of {count} consumers could take more, but nothing goes out: their \
                     connections do not read, or their channel is paused"
                ),
            };
            return of("consumers_have_room", text, None);
        }
        if self.unacked > 0 {
            let text = format!(
                "consumers keep up: {} messages are in their hands",
                self.unacked
            );
            return of("keeping_up", text, None);
        }
        match count {
            0 => of(
                "unused",
                "nothing comes in and nobody consumes".into(),
                None,
            ),
            _ => of("idle", format!("{count} consumers wait for messages"), None),
        }
    }

    /// A consumer that has kept a delivery for long while nothing is acknowledged.
    fn stuck(&self, all_full: bool) -> Option<Verdict> {
        let oldest = self
            .consumers
            .iter()
            .max_by_key(|consumer| consumer.oldest_unacked_ms)?;
        let held_ms = oldest.oldest_unacked_ms?;
        if !(all_full && self.acked_per_s == 0.0 && held_ms >= STUCK_MS) {
            return None;
        }
        let tag = oldest
            .consumer_tag
            .as_deref()
            .unwrap_or("(got, not consumed)");
        let channel = oldest
            .channel
            .as_deref()
            .unwrap_or("a channel that is gone");
        Some(Verdict {
            name: "stuck_consumer",
            text: format!(
                "a consumer is stuck: {tag} on {channel} has held a message for {} s and nothing is \
                 acknowledged",
                held_ms / 1000
            ),
            next: Some("look at that program, or close its connection".into()),
        })
    }

    /// A user or a vhost has as much in hand as it may, in this queue and others.
    fn held_by_a_tenant(&self) -> Option<Verdict> {
        let limit = self
            .consumers
            .iter()
            .find_map(|load| load.held_by.as_ref())?;
        Some(Verdict {
            name: "tenant_limit",
            text: format!("consumers may have no more in hand: {limit}"),
            next: Some("settle deliveries of that tenant, or raise its max-unacked".into()),
        })
    }

    fn too_few(&self) -> Verdict {
        let count = self.consumers.len();
        let mut text = format!("consumers are the limit: all {count} are at their prefetch");
        if let Some(ms) = self.handling_ms() {
            text.push_str(&format!(", a message takes them {ms} ms"));
        }
        let more = match self.acked_per_s > 0.0 {
            // As many as take what comes in, and no fewer than one.
            true => {
                let wanted = self.published_per_s / self.acked_per_s * count as f64;
                (wanted.ceil() as usize).saturating_sub(count).max(1)
            }
            false => 1,
        };
        Verdict {
            name: "consumers_are_the_limit",
            text,
            next: Some(format!(
                "add about {more} consumers, or raise their prefetch"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer(prefetch: u16, unacked: u64, oldest_ms: u64) -> ConsumerLoad {
        ConsumerLoad {
            consumer_tag: Some("c".into()),
            channel: Some("x (1)".into()),
            prefetch,
            unacked,
            oldest_unacked_ms: (unacked > 0).then_some(oldest_ms),
            held_by: None,
        }
    }

    fn named(figures: Figures) -> &'static str {
        figures.verdict().name
    }

    #[test]
    fn held_publishers_are_named_before_what_holds_the_consumers() {
        let figures = Figures {
            ready: 5,
            held_publishers: 2,
            parked: 7,
            ..Figures::default()
        };
        let verdict = figures.verdict();
        assert_eq!(verdict.name, "no_consumer");
        assert!(
            verdict
                .text
                .starts_with("overfull: 2 publishers are held with 7 messages; no consumer")
        );
    }

    #[test]
    fn messages_without_consumers_want_one() {
        let figures = Figures {
            ready: 5,
            ..Figures::default()
        };
        assert_eq!(named(figures), "no_consumer");
        assert_eq!(named(Figures::default()), "unused");
    }

    #[test]
    fn busy_consumers_at_their_prefetch_are_the_limit() {
        let figures = Figures {
            ready: 500,
            unacked: 20,
            published_per_s: 300.0,
            acked_per_s: 100.0,
            consumers: vec![consumer(10, 10, 200), consumer(10, 10, 100)],
            ..Figures::default()
        };
        let verdict = figures.verdict();
        assert_eq!(verdict.name, "consumers_are_the_limit");
        assert!(verdict.text.contains("takes them 200 ms"), "{verdict:?}");
        assert_eq!(
            verdict.next.as_deref(),
            Some("add about 4 consumers, or raise their prefetch")
        );
    }

    #[test]
    fn a_limit_of_a_tenant_is_named_when_no_consumer_has_room() {
        let mut held = consumer(0, 3, 100);
        held.held_by = Some("unacked delivery limit of user 'ann' (3) is reached".into());
        let with = |consumers| Figures {
            ready: 5,
            unacked: 3,
            consumers,
            ..Figures::default()
        };
        let verdict = with(vec![held.clone()]).verdict();
        assert_eq!(verdict.name, "tenant_limit");
        assert!(verdict.text.contains("user 'ann' (3)"), "{verdict:?}");
        let other_has_room = with(vec![held, consumer(0, 0, 0)]);
        assert_eq!(named(other_has_room), "consumers_have_room");
    }

    #[test]
    fn a_consumer_that_acknowledges_nothing_for_a_minute_is_stuck() {
        let figures = |ms| Figures {
            ready: 5,
            unacked: 1,
            consumers: vec![consumer(1, 1, ms)],
            ..Figures::default()
        };
        assert_eq!(named(figures(STUCK_MS)), "stuck_consumer");
        assert_eq!(named(figures(STUCK_MS - 1)), "consumers_are_the_limit");
    }

    #[test]
    fn room_at_the_consumers_is_told_apart_from_having_nothing_to_do() {
        let with = |ready, unacked, consumers| Figures {
            ready,
            unacked,
            consumers,
            ..Figures::default()
        };
        assert_eq!(
            named(with(5, 0, vec![consumer(10, 0, 0)])),
            "consumers_have_room"
        );
        assert_eq!(named(with(0, 3, vec![consumer(10, 3, 5)])), "keeping_up");
        assert_eq!(named(with(0, 0, vec![consumer(10, 0, 0)])), "idle");
    }
}
