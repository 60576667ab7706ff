//! The last minute of a few counters that are sampled together.

use std::collections::VecDeque;

use management_api::{Rate, Sample};

use super::SAMPLES;

/// Samples of `N` counters, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Series<const N: usize> {
    samples: VecDeque<(u64, [u64; N])>,
}

impl<const N: usize> Default for Series<N> {
    fn default() -> Self {
        Self {
            samples: VecDeque::new(),
        }
    }
}

/// How much of the past a query asks for, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) age_ms: u64,
    pub(crate) increment_ms: u64,
}

impl<const N: usize> Series<N> {
    pub(crate) fn push(&mut self, at_ms: u64, values: [u64; N]) {
        if self.samples.len() >= SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((at_ms, values));
    }

    /// The sum of some counters, as a series of its own.
    pub(crate) fn sum<const M: usize>(&self, counters: [usize; M]) -> Series<1> {
        let summed = self.samples.iter().map(|(at_ms, values)| {
            (
                *at_ms,
                [counters.iter().map(|counter| values[*counter]).sum()],
            )
        });
        Series {
            samples: summed.collect(),
        }
    }

    /// Growth a second over the last interval; negative for what can shrink.
    pub(crate) fn rate(&self, counter: usize) -> f64 {
        let Some(before) = self.samples.len().checked_sub(2) else {
            return 0.0;
        };
        self.growth(before, self.samples.len() - 1, counter)
    }

    fn growth(&self, from: usize, to: usize, counter: usize) -> f64 {
        let ((from_ms, from), (to_ms, to)) = (&self.samples[from], &self.samples[to]);
        let seconds = to_ms.saturating_sub(*from_ms) as f64 / 1000.0;
        if seconds <= 0.0 {
            return 0.0;
        }
        (to[counter] as f64 - from[counter] as f64) / seconds
    }

    /// The rate, and the history if it is asked for.
    pub(crate) fn details(&self, counter: usize, history: Option<History>) -> Rate {
        let rate = self.rate(counter);
        let Some(history) = history else {
            return Rate {
                rate,
                ..Rate::default()
            };
        };
        let samples = self.history(counter, history);
        let (Some(newest), Some(oldest)) = (samples.first(), samples.last()) else {
            return Rate {
                rate,
                ..Rate::default()
            };
        };
        let sum: u64 = samples.iter().map(|sample| sample.sample).sum();
        let seconds = newest.timestamp.saturating_sub(oldest.timestamp) as f64 / 1000.0;
        let grown = newest.sample as f64 - oldest.sample as f64;
        Rate {
            rate,
            avg: Some(sum as f64 / samples.len() as f64),
            avg_rate: Some(if seconds > 0.0 { grown / seconds } else { 0.0 }),
            samples: Some(samples),
        }
    }

    /// Samples no closer than the increment and no older than the age, newest first.
    fn history(&self, counter: usize, history: History) -> Vec<Sample> {
        let Some((newest_ms, _)) = self.samples.back() else {
            return Vec::new();
        };
        let oldest_ms = newest_ms.saturating_sub(history.age_ms);
        let mut next_ms = u64::MAX;
        let mut samples = Vec::new();
        for (at_ms, values) in self.samples.iter().rev() {
            if *at_ms < oldest_ms {
                break;
            }
            if *at_ms <= next_ms {
                samples.push(Sample {
                    sample: values[counter],
                    timestamp: *at_ms,
                });
                next_ms = at_ms.saturating_sub(history.increment_ms);
            }
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[u64]) -> Series<1> {
        let mut series = Series::default();
        for (at, value) in values.iter().enumerate() {
            series.push(5_000 * at as u64, [*value]);
        }
        series
    }

    #[test]
    fn a_rate_is_that_of_the_last_interval() {
        assert_eq!(series(&[0, 100, 110]).rate(0), 2.0);
        assert_eq!(series(&[10, 5]).rate(0), -1.0);
        assert_eq!(series(&[10]).rate(0), 0.0);
        assert_eq!(series(&[]).rate(0), 0.0);
    }

    #[test]
    fn a_series_keeps_a_minute() {
        let long: Vec<u64> = (0..100).collect();
        assert_eq!(series(&long).samples.len(), SAMPLES);
    }

    #[test]
    fn a_history_is_cut_by_age_and_thinned_by_increment() {
        let history = History {
            age_ms: 20_000,
            increment_ms: 10_000,
        };
        let details = series(&[0, 10, 20, 30, 40, 50]).details(0, Some(history));
        let samples = details.samples.expect("samples");
        let shown: Vec<_> = samples
            .iter()
            .map(|s| (s.timestamp / 1000, s.sample))
            .collect();
        assert_eq!(shown, [(25, 50), (15, 30), (5, 10)]);
        assert_eq!((details.avg, details.avg_rate), (Some(30.0), Some(2.0)));
    }
}
