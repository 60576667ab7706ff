//! Counters over time: sampled every five seconds, kept for a minute.
//!
//! The counters belong to their objects in the broker; here is only what they were. A queue that
//! nothing happens to costs one row of its last values, one that is active a minute of samples.

mod ages;
mod sampler;
mod series;

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use broker::observe::{ChurnCounts, QueueTraffic, TrafficCounts};
use broker_core::metadata::{ConnectionId, QueueId};
use broker_core::queue::QueueCounts;
use broker_core::{ExchangeName, VhostName};

pub(crate) use ages::Ages;
pub(crate) use sampler::run;
pub(crate) use series::{History, Series};

/// Time between samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);
/// Samples kept of each counter: a minute and the one before it.
const SAMPLES: usize = 13;
/// Queues, channels and exchanges of each kind whose samples are kept; what is active beyond shows
/// no rates. One series is about a kilobyte.
const ACTIVE_MAX: usize = 20_000;

/// Counters of messages: the order of [`TrafficCounts`], then messages, ready and unacknowledged.
pub(crate) type TrafficSeries = Series<14>;
pub(crate) type ExchangeSeries = Series<2>;
/// Octets read and written.
pub(crate) type ConnectionSeries = Series<2>;
pub(crate) type ChurnSeries = Series<7>;
/// Memory, free disk, open files and threads.
pub(crate) type ProcessSeries = Series<4>;

/// Where octets stand in a [`ConnectionSeries`].
pub(crate) const RECEIVED: usize = 0;
pub(crate) const SENT: usize = 1;
/// Where the counters of what passes through a queue stand in a [`TrafficSeries`].
pub(crate) const PUBLISHED: usize = 0;
/// Delivered, with and without acknowledgement.
pub(crate) const DELIVERED: [usize; 2] = [4, 5];
/// Got, with and without acknowledgement.
pub(crate) const TAKEN: [usize; 2] = [6, 7];
/// Acknowledged.
pub(crate) const ACKED: usize = 9;
/// Where messages, ready and unacknowledged stand in a [`TrafficSeries`].
pub(crate) const MESSAGES: usize = 11;
pub(crate) const READY: usize = 12;
pub(crate) const UNACKED: usize = 13;

/// All samples.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    queues: Table<QueueId, 14>,
    channels: Table<u64, 14>,
    connections: Table<ConnectionId, 2>,
    exchanges: Table<(VhostName, ExchangeName), 2>,
    vhosts: Table<VhostName, 14>,
    node: TrafficSeries,
    churn: ChurnSeries,
    process: ProcessSeries,
    ages: Ages,
}

impl Statistics {
    pub(crate) fn queue(&self, queue: QueueId) -> Option<&TrafficSeries> {
        self.queues.series(&queue)
    }

    pub(crate) fn queue_idle_since_ms(&self, queue: QueueId) -> Option<u64> {
        self.queues.idle_since_ms(&queue)
    }

    pub(crate) fn channel_idle_since_ms(&self, channel: u64) -> Option<u64> {
        self.channels.idle_since_ms(&channel)
    }

    pub(crate) fn channel(&self, channel: u64) -> Option<&TrafficSeries> {
        self.channels.series(&channel)
    }

    pub(crate) fn connection(&self, connection: ConnectionId) -> Option<&ConnectionSeries> {
        self.connections.series(&connection)
    }

    pub(crate) fn exchange(
        &self,
        vhost: &VhostName,
        name: &ExchangeName,
    ) -> Option<&ExchangeSeries> {
        self.exchanges.series(&(vhost.clone(), name.clone()))
    }

    pub(crate) fn vhost(&self, vhost: &VhostName) -> Option<&TrafficSeries> {
        self.vhosts.series(vhost)
    }

    pub(crate) fn node(&self) -> &TrafficSeries {
        &self.node
    }

    pub(crate) fn churn(&self) -> &ChurnSeries {
        &self.churn
    }

    pub(crate) fn process(&self) -> &ProcessSeries {
        &self.process
    }

    /// How long messages have been in their queues.
    pub(crate) fn ages(&self) -> &Ages {
        &self.ages
    }

    /// Forgets the past.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Series by object.
#[derive(Debug)]
struct Table<K, const N: usize> {
    rows: HashMap<K, Row<N>>,
    active: usize,
    /// Counts the passes; a row that a pass did not see is of an object that is gone.
    pass: u64,
}

#[derive(Debug)]
struct Row<const N: usize> {
    last: [u64; N],
    pass: u64,
    /// Samples without a change at the end of the series.
    still: usize,
    changed_at_ms: u64,
    series: Option<Box<Series<N>>>,
}

impl<K, const N: usize> Default for Table<K, N> {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            active: 0,
            pass: 0,
        }
    }
}

impl<K: Hash + Eq, const N: usize> Table<K, N> {
    fn series(&self, key: &K) -> Option<&Series<N>> {
        self.rows.get(key)?.series.as_deref()
    }

    fn begin(&mut self) {
        self.pass += 1;
    }

    /// Since when nothing has changed; `None` if something did in the last interval.
    fn idle_since_ms(&self, key: &K) -> Option<u64> {
        let row = self.rows.get(key)?;
        (row.still > 0).then_some(row.changed_at_ms)
    }

    /// Takes a sample. What comes after the first pass began at zero; what was there before has a
    /// past that nobody sampled.
    fn sample(&mut self, key: K, at_ms: u64, values: [u64; N]) {
        let Self { rows, active, pass } = self;
        let row = rows.entry(key).or_insert_with(|| Row {
            last: if *pass == 1 { values } else { [0; N] },
            pass: 0,
            still: 0,
            changed_at_ms: at_ms,
            series: None,
        });
        row.pass = *pass;
        if row.series.is_none() && values != row.last && *active < ACTIVE_MAX {
            *active += 1;
            let mut series = Box::new(Series::default());
            let before_ms = at_ms.saturating_sub(INTERVAL.as_millis() as u64);
            series.push(before_ms, row.last);
            row.series = Some(series);
        }
        if values == row.last {
            row.still += 1;
        } else {
            row.still = 0;
            row.changed_at_ms = at_ms;
        }
        row.last = values;
        let Some(series) = &mut row.series else {
            return;
        };
        if row.still >= SAMPLES {
            row.series = None;
            *active -= 1;
            return;
        }
        series.push(at_ms, values);
    }

    /// Forgets what the pass did not see.
    fn end(&mut self) {
        let Self { rows, active, pass } = self;
        rows.retain(|_, row| {
            let is_there = row.pass == *pass;
            if !is_there && row.series.is_some() {
                *active -= 1;
            }
            is_there
        });
    }
}

fn traffic_values(traffic: &TrafficCounts, messages: [u64; 3]) -> [u64; 14] {
    let [all, ready, unacked] = messages;
    [
        traffic.publish,
        traffic.confirm,
        traffic.return_unroutable,
        traffic.drop_unroutable,
        traffic.deliver,
        traffic.deliver_no_ack,
        traffic.get,
        traffic.get_no_ack,
        traffic.get_empty,
        traffic.ack,
        traffic.redeliver,
        all,
        ready,
        unacked,
    ]
}

/// A queue's traffic in the order of all others; queues confirm and return nothing.
pub(crate) fn as_traffic(queue: &QueueTraffic) -> TrafficCounts {
    TrafficCounts {
        publish: queue.publish,
        deliver: queue.deliver,
        deliver_no_ack: queue.deliver_no_ack,
        get: queue.get,
        get_no_ack: queue.get_no_ack,
        get_empty: queue.get_empty,
        ack: queue.ack,
        redeliver: queue.redeliver,
        ..TrafficCounts::default()
    }
}

fn message_values(counts: &QueueCounts) -> [u64; 3] {
    [counts.messages(), counts.ready, counts.unacked]
}

fn churn_values(churn: &ChurnCounts) -> [u64; 7] {
    [
        churn.connections_opened,
        churn.connections_closed,
        churn.channels_opened,
        churn.channels_closed,
        churn.queues_declared,
        churn.queues_created,
        churn.queues_deleted,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(table: &mut Table<u8, 1>, at_s: u64, rows: &[(u8, u64)]) {
        table.begin();
        for (key, value) in rows {
            table.sample(*key, at_s * 1000, [*value]);
        }
        table.end();
    }

    #[test]
    fn a_rate_shows_with_the_first_sample_after_a_change() {
        let mut table = Table::default();
        pass(&mut table, 5, &[(1, 0)]);
        assert!(table.series(&1).is_none());
        pass(&mut table, 10, &[(1, 20)]);
        assert_eq!(table.series(&1).map(|series| series.rate(0)), Some(4.0));
        pass(&mut table, 15, &[(1, 20)]);
        assert_eq!(table.series(&1).map(|series| series.rate(0)), Some(0.0));
    }

    #[test]
    fn what_the_first_pass_finds_has_no_rate_and_is_idle_from_the_second_on() {
        let mut table = Table::default();
        pass(&mut table, 5, &[(1, 700)]);
        pass(&mut table, 10, &[(1, 700)]);
        assert!(table.series(&1).is_none());
        assert_eq!(table.idle_since_ms(&1), Some(5_000));
        pass(&mut table, 15, &[(1, 701)]);
        assert_eq!(table.idle_since_ms(&1), None);
    }

    #[test]
    fn what_is_still_for_a_minute_keeps_no_samples_and_what_is_gone_no_row() {
        let mut table = Table::default();
        pass(&mut table, 0, &[]);
        pass(&mut table, 5, &[(1, 7), (2, 9)]);
        assert_eq!((table.rows.len(), table.active), (2, 2));
        for tick in 2..=15 {
            pass(&mut table, tick * 5, &[(1, 7)]);
        }
        assert_eq!((table.rows.len(), table.active), (1, 0));
    }
}
