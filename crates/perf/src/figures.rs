//! What a connection counts and times, and how the connections' figures are added up.
//!
//! A connection's task owns a plain [`Tally`] and publishes its [`Counts`] once per turn, so that
//! counting costs no shared write per message. Knows nothing of who prints the figures.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hdrhistogram::Histogram;
use serde::Serialize;

/// Times above this are counted as this.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Digits that a latency keeps, for few and for many connections: memory is bounded either way
/// (about 100 KiB or 10 KiB for each histogram of a connection).
const DIGITS_FEW: u8 = 3;
const DIGITS_MANY: u8 = 2;
const CONNECTIONS_FEW: usize = 64;

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Running numbers of a connection, or of all.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub(crate) struct Counts { $($(#[doc = $doc])* pub(crate) $name: u64,)* }

        /// [`Counts`] where another task can read them.
        #[derive(Debug, Default)]
        pub(crate) struct LiveCounts { $($name: AtomicU64,)* }

        impl Counts {
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl LiveCounts {
            /// Replaces the numbers; only their owner may call this.
            pub(crate) fn publish(&self, counts: &Counts) {
                $(self.$name.store(counts.$name, Relaxed);)*
            }

            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Messages written by producers.
    published,
    /// Publishes that the broker confirmed, by ack or by commit.
    confirmed,
    /// Publishes that the broker refused by nack.
    nacked,
    /// Mandatory publishes that came back.
    returned,
    /// Deliveries that consumers kept: all but those they sent back.
    consumed,
    /// Deliveries that were acknowledged, by the consumer or by the broker itself.
    acknowledged,
    /// Messages of this run that some consumer kept for the first time.
    distinct,
    /// Deliveries that consumers sent back to the queue.
    requeued,
    /// Deliveries marked as redelivered.
    redelivered,
    /// Deliveries that are not of this run.
    foreign,
    /// Bodies that differ from what was published.
    corrupted,
    /// Answers to basic.get without a message.
    empty_gets,
    /// Connections opened and closed, or queues declared and deleted.
    churned,
    /// Times the broker announced that it blocks a connection or pauses a channel.
    holds,
    /// Producers that have nothing left to do.
    producers_done,
    /// Consumers whose subscriptions stand.
    consumers_ready,
    /// Body bytes published.
    published_bytes,
    /// Body bytes received.
    consumed_bytes,
}

/// A latency histogram in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u32>);

impl Latencies {
    pub(crate) fn for_connections(connections: usize) -> Self {
        let digits = if connections <= CONNECTIONS_FEW {
            DIGITS_FEW
        } else {
            DIGITS_MANY
        };
        Self(Histogram::new(digits).expect("two or three digits are allowed"))
    }

    pub(crate) fn record(&mut self, latency_ns: u64) {
        // The histogram resizes itself, and the largest value is in its range.
        let _in_range = self.0.record(latency_ns.min(LATENCY_NS_MAX));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        // Both resize themselves and keep the same digits.
        let _fits = self.0.add(&other.0);
    }

    /// None when nothing was recorded.
    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        if self.0.is_empty() {
            return None;
        }
        let us = |quantile| tenth_of_us(self.0.value_at_quantile(quantile));
        Some(Percentiles {
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            p999: us(0.999),
            max: tenth_of_us(self.0.max()),
        })
    }
}

fn tenth_of_us(ns: u64) -> f64 {
    (ns as f64 / 100.0).round() / 10.0
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// The last moment of each kind of event, monotonic nanoseconds; 0 before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastEvents {
    pub(crate) published_ns: u64,
    pub(crate) confirmed_ns: u64,
    pub(crate) consumed_ns: u64,
    pub(crate) churned_ns: u64,
}

impl LastEvents {
    fn merge(&mut self, other: &Self) {
        self.published_ns = self.published_ns.max(other.published_ns);
        self.confirmed_ns = self.confirmed_ns.max(other.confirmed_ns);
        self.consumed_ns = self.consumed_ns.max(other.consumed_ns);
        self.churned_ns = self.churned_ns.max(other.churned_ns);
    }
}

/// Everything one connection measured.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) last: LastEvents,
    /// From publish (or from when it was due) to delivery.
    pub(crate) latency: Latencies,
    /// From publish (or from when it was due) to confirm.
    pub(crate) confirm_latency: Latencies,
    /// One whole round of a churn.
    pub(crate) churn_latency: Latencies,
}

impl Tally {
    pub(crate) fn for_connections(connections: usize) -> Self {
        let latencies = Latencies::for_connections(connections);
        Self {
            counts: Counts::default(),
            last: LastEvents::default(),
            latency: latencies.clone(),
            confirm_latency: latencies.clone(),
            churn_latency: latencies,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.last.merge(&other.last);
        self.latency.merge(&other.latency);
        self.confirm_latency.merge(&other.confirm_latency);
        self.churn_latency.merge(&other.churn_latency);
    }
}

/// Events a second, to one decimal; 0 when there was no time.
pub(crate) fn rate(events: u64, from_ns: u64, to_ns: u64) -> f64 {
    let seconds = crate::clock::seconds_between(from_ns, to_ns);
    if seconds <= 0.0 {
        return 0.0;
    }
    (events as f64 / seconds * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_microseconds_of_what_was_recorded() {
        let mut latencies = Latencies::for_connections(1);
        for us in 1..=1_000_u64 {
            latencies.record(us * 1_000);
        }
        let percentiles = latencies.percentiles().unwrap();
        assert!((percentiles.p50 - 500.0).abs() < 1.0, "{percentiles:?}");
        assert!((percentiles.p99 - 990.0).abs() < 2.0, "{percentiles:?}");
        assert!((percentiles.max - 1_000.0).abs() < 1.0, "{percentiles:?}");
    }

    #[test]
    fn nothing_recorded_gives_no_percentiles() {
        assert_eq!(Latencies::for_connections(1).percentiles(), None);
    }

    #[test]
    fn merging_tallies_adds_counts_and_keeps_the_latest_moments() {
        let mut sum = Tally::for_connections(2);
        for (count, at_ns) in [(3, 70), (4, 60)] {
            let mut tally = Tally::for_connections(2);
            tally.counts.published = count;
            tally.last.published_ns = at_ns;
            tally.latency.record(at_ns);
            sum.merge(&tally);
        }
        assert_eq!(sum.counts.published, 7);
        assert_eq!(sum.last.published_ns, 70);
        assert_eq!(sum.latency.0.len(), 2);
    }

    #[test]
    fn counts_can_be_read_from_another_task() {
        let live = LiveCounts::default();
        let counts = Counts {
            consumed: 5,
            ..Counts::default()
        };
        live.publish(&counts);
        assert_eq!(live.read(), counts);
    }

    #[test]
    fn a_rate_is_events_over_seconds() {
        assert!((rate(500, 0, 2_000_000_000) - 250.0).abs() < 1e-9);
        assert!(rate(5, 10, 10).abs() < f64::EPSILON);
    }
}
