//! What a comparison says in numbers: median, least and most of each figure, and the ratios of
//! each target to the first, round by round. Pure arithmetic.

use serde::Serialize;

use super::TargetResult;
use crate::figures::Percentiles;
use crate::report::{RunReport, round};

/// A figure of a run that is worth comparing.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    read: fn(&RunReport) -> Option<f64>,
}

fn positive(number: f64) -> Option<f64> {
    (number > 0.0).then_some(number)
}

fn of(percentiles: Option<Percentiles>, pick: fn(&Percentiles) -> f64) -> Option<f64> {
    percentiles.as_ref().map(pick)
}

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "published",
        unit: "/s",
        read: |report| positive(report.publish_rate),
    },
    Figure {
        name: "confirmed",
        unit: "/s",
        read: |report| positive(report.confirm_rate),
    },
    Figure {
        name: "consumed",
        unit: "/s",
        read: |report| positive(report.consume_rate),
    },
    Figure {
        name: "rounds",
        unit: "/s",
        read: |report| positive(report.churn_rate),
    },
    Figure {
        name: "broker CPU",
        unit: "µs/message",
        read: |report| report.broker.cpu_us_per_message.and_then(positive),
    },
    Figure {
        name: "broker RSS, peak",
        unit: "MiB",
        read: |report| {
            let bytes = report.broker.rss_peak_bytes?;
            Some(round(bytes as f64 / 1_048_576.0, 1))
        },
    },
    Figure {
        name: "fsyncs",
        unit: "",
        read: |report| report.broker.fsyncs.map(|count| count as f64),
    },
    Figure {
        name: "latency p50",
        unit: "µs",
        read: |report| of(report.latency_us, |us| us.p50),
    },
    Figure {
        name: "latency p99",
        unit: "µs",
        read: |report| of(report.latency_us, |us| us.p99),
    },
    Figure {
        name: "latency p99.9",
        unit: "µs",
        read: |report| of(report.latency_us, |us| us.p999),
    },
    Figure {
        name: "confirm p50",
        unit: "µs",
        read: |report| of(report.confirm_latency_us, |us| us.p50),
    },
    Figure {
        name: "confirm p99",
        unit: "µs",
        read: |report| of(report.confirm_latency_us, |us| us.p99),
    },
    Figure {
        name: "round p50",
        unit: "µs",
        read: |report| of(report.churn_latency_us, |us| us.p50),
    },
    Figure {
        name: "round p99",
        unit: "µs",
        read: |report| of(report.churn_latency_us, |us| us.p99),
    },
    Figure {
        name: "tool CPU",
        unit: "µs/message",
        read: |report| report.tool.cpu_us_per_message.and_then(positive),
    },
];

/// Median, least and most of some rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(super) fn of(numbers: &[f64]) -> Option<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let median = if sorted.len() % 2 == 1 {
            upper
        } else {
            f64::midpoint(sorted[middle - 1], upper)
        };
        Some(Self {
            median,
            min: *sorted.first()?,
            max: *sorted.last()?,
        })
    }
}

/// One figure over all targets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FigureComparison {
    pub(crate) figure: &'static str,
    pub(crate) unit: &'static str,
    /// In the order of the targets; absent where no round gave it.
    pub(crate) targets: Vec<Option<Spread>>,
    /// The first target's figure divided by another's, taken in the same round; in the order of
    /// the other targets.
    pub(crate) ratios: Vec<Option<Spread>>,
}

/// Compares the targets in every figure that at least one of them has.
pub(super) fn compare(results: &[TargetResult]) -> Vec<FigureComparison> {
    FIGURES
        .iter()
        .map(|figure| compare_figure(figure, results))
        .filter(|comparison| comparison.targets.iter().any(Option::is_some))
        .collect()
}

fn compare_figure(figure: &Figure, results: &[TargetResult]) -> FigureComparison {
    let numbers: Vec<Vec<Option<f64>>> = results
        .iter()
        .map(|target| {
            let rounds = target.whole_rounds();
            rounds
                .into_iter()
                .map(|report| report.and_then(figure.read))
                .collect()
        })
        .collect();
    let spread = |rounds: &Vec<Option<f64>>| {
        let present: Vec<f64> = rounds.iter().copied().flatten().collect();
        Spread::of(&present)
    };
    let ratios = match numbers.split_first() {
        Some((first, others)) => others
            .iter()
            .map(|other| Spread::of(&pairwise(first, other)))
            .collect(),
        None => Vec::new(),
    };
    FigureComparison {
        figure: figure.name,
        unit: figure.unit,
        targets: numbers.iter().map(spread).collect(),
        ratios,
    }
}

/// Ratios of rounds that both targets carried through.
fn pairwise(first: &[Option<f64>], other: &[Option<f64>]) -> Vec<f64> {
    first
        .iter()
        .zip(other)
        .filter_map(|(first, other)| first.zip(*other))
        .filter(|(_, other)| *other != 0.0)
        .map(|(first, other)| round(first / other, 4))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        let spread = |numbers: &[f64]| Spread::of(numbers).map(|s| (s.median, s.min, s.max));
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(spread(&[7.0]), Some((7.0, 7.0, 7.0)));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round_and_skip_failed_rounds() {
        let first = [Some(10.0), Some(20.0), None, Some(5.0)];
        let other = [Some(5.0), None, Some(1.0), Some(10.0)];
        assert_eq!(pairwise(&first, &other), [2.0, 0.5]);
        assert!(pairwise(&[Some(1.0)], &[Some(0.0)]).is_empty());
    }
}
