//! Counters with their rates.

use broker::observe::{ChurnCounts, TrafficCounts};
use management_api::{ChurnRates, MessageStats, Rate};

use crate::list::ListQuery;
use crate::statistics::{ChurnSeries, ExchangeSeries, History, Series, TrafficSeries};

/// Histories that a query asks for.
// rabbitmq: msg_rates_age, msg_rates_incr and their kin, in seconds
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Histories {
    pub(crate) messages: Option<History>,
    pub(crate) lengths: Option<History>,
    pub(crate) data_rates: Option<History>,
    pub(crate) node: Option<History>,
}

impl Histories {
    pub(crate) fn of(query: &ListQuery) -> Self {
        let history = |kind: &str| {
            let seconds = |name: &str| query.get(&format!("{kind}_{name}"))?.parse::<u64>().ok();
            let (age, increment) = (seconds("age")?, seconds("incr")?);
            Some(History {
                age_ms: age.saturating_mul(1_000),
                increment_ms: increment.saturating_mul(1_000),
            })
        };
        Self {
            messages: history("msg_rates"),
            lengths: history("lengths"),
            data_rates: history("data_rates"),
            node: history("node_stats"),
        }
    }
}

/// The rate of one counter.
pub(crate) fn rate<const N: usize>(
    series: Option<&Series<N>>,
    counter: usize,
    history: Option<History>,
) -> Rate {
    series
        .map(|series| series.details(counter, history))
        .unwrap_or_default()
}

/// What passed through something; groups of counters that never counted are absent, and so is the
/// whole when none did.
// rabbitmq: message_stats
pub(crate) fn message_stats(
    counts: &TrafficCounts,
    series: Option<&TrafficSeries>,
    history: Option<History>,
) -> Option<MessageStats> {
    let mut stats = MessageStats::default();
    let rate = |counter| Some(rate(series, counter, history));
    let is_any = |counts: &[u64]| counts.iter().any(|count| *count > 0);
    let published = is_any(&[counts.publish]);
    if published {
        stats.publish = Some(counts.publish);
        stats.publish_details = rate(0);
    }
    let confirmed = is_any(&[
        counts.confirm,
        counts.return_unroutable,
        counts.drop_unroutable,
    ]);
    if confirmed {
        stats.confirm = Some(counts.confirm);
        stats.confirm_details = rate(1);
        stats.return_unroutable = Some(counts.return_unroutable);
        stats.return_unroutable_details = rate(2);
        stats.drop_unroutable = Some(counts.drop_unroutable);
        stats.drop_unroutable_details = rate(3);
    }
    let taken = counts.deliver + counts.deliver_no_ack + counts.get + counts.get_no_ack;
    let consumed = is_any(&[taken, counts.get_empty, counts.ack]);
    if consumed {
        stats.deliver = Some(counts.deliver);
        stats.deliver_details = rate(4);
        stats.deliver_no_ack = Some(counts.deliver_no_ack);
        stats.deliver_no_ack_details = rate(5);
        stats.get = Some(counts.get);
        stats.get_details = rate(6);
        stats.get_no_ack = Some(counts.get_no_ack);
        stats.get_no_ack_details = rate(7);
        stats.get_empty = Some(counts.get_empty);
        stats.get_empty_details = rate(8);
        stats.ack = Some(counts.ack);
        stats.ack_details = rate(9);
        stats.redeliver = Some(counts.redeliver);
        stats.redeliver_details = rate(10);
        stats.deliver_get = Some(taken);
        stats.deliver_get_details = Some(sum(series, [4, 5, 6, 7], history));
    }
    (published || confirmed || consumed).then_some(stats)
}

/// The rate of several counters together.
fn sum<const N: usize, const M: usize>(
    series: Option<&Series<N>>,
    counters: [usize; M],
    history: Option<History>,
) -> Rate {
    let Some(series) = series else {
        return Rate::default();
    };
    series.sum(counters).details(0, history)
}

/// What passed through an exchange.
pub(crate) fn exchange_stats(
    (published_in, published_out): (u64, u64),
    series: Option<&ExchangeSeries>,
    history: Option<History>,
) -> Option<MessageStats> {
    if published_in == 0 {
        return None;
    }
    Some(MessageStats {
        publish_in: Some(published_in),
        publish_in_details: Some(rate(series, 0, history)),
        publish_out: Some(published_out),
        publish_out_details: Some(rate(series, 1, history)),
        ..MessageStats::default()
    })
}

/// What came and went.
pub(crate) fn churn(
    counts: &ChurnCounts,
    series: &ChurnSeries,
    history: Option<History>,
) -> ChurnRates {
    let rate = |counter| series.details(counter, history);
    ChurnRates {
        connection_created: counts.connections_opened,
        connection_created_details: rate(0),
        connection_closed: counts.connections_closed,
        connection_closed_details: rate(1),
        channel_created: counts.channels_opened,
        channel_created_details: rate(2),
        channel_closed: counts.channels_closed,
        channel_closed_details: rate(3),
        queue_declared: counts.queues_declared,
        queue_declared_details: rate(4),
        queue_created: counts.queues_created,
        queue_created_details: rate(5),
        queue_deleted: counts.queues_deleted,
        queue_deleted_details: rate(6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown_before_the_first_event_and_whole_groups_after_it() {
        assert_eq!(message_stats(&TrafficCounts::default(), None, None), None);
        let counts = TrafficCounts {
            deliver: 2,
            get: 1,
            ..TrafficCounts::default()
        };
        let stats = message_stats(&counts, None, None).expect("events");
        assert_eq!(
            (stats.deliver_get, stats.ack, stats.publish),
            (Some(3), Some(0), None)
        );
        assert_eq!(stats.deliver_get_details, Some(Rate::default()));
    }
}
