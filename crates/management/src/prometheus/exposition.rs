//! The text format: families in the order in which they were begun, each with its help and type
//! once and its samples together.
// prometheus: exposition formats, text-based format

use std::collections::HashMap;
use std::fmt::{Display, Write};

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Untyped,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Untyped => "untyped",
        }
    }
}

/// Label names and values, in the order shown.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Metrics being written.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    families: Vec<Family>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Family {
    name: String,
    head: String,
    samples: String,
}

/// A number of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Self {
        Self::Whole(number as u64)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl Exposition {
    /// Adds a sample to a family, which begins with its first sample.
    pub(super) fn add(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        labels: Labels<'_>,
        number: impl Into<Number>,
    ) {
        let family = self.family(kind, name, help);
        write_sample(&mut family.samples, name, labels, number.into());
    }

    /// Adds a histogram: upper bounds with the count of each class, the count above them, and the
    /// sum.
    pub(super) fn add_histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: Labels<'_>,
        classes: &[(impl Display, u64)],
        above: u64,
        sum: impl Into<Number>,
    ) {
        let family = self.family(Kind::Histogram, name, help);
        let mut cumulative = 0;
        let bucket = format!("{name}_bucket");
        for (bound, count) in classes {
            cumulative += *count;
            let bound = bound.to_string();
            let labels: Vec<_> = labels
                .iter()
                .copied()
                .chain([("le", bound.as_str())])
                .collect();
            write_sample(&mut family.samples, &bucket, &labels, cumulative.into());
        }
        cumulative += above;
        let unbounded: Vec<_> = labels.iter().copied().chain([("le", "+Inf")]).collect();
        write_sample(&mut family.samples, &bucket, &unbounded, cumulative.into());
        write_sample(
            &mut family.samples,
            &format!("{name}_count"),
            labels,
            cumulative.into(),
        );
        write_sample(
            &mut family.samples,
            &format!("{name}_sum"),
            labels,
            sum.into(),
        );
    }

    fn family(&mut self, kind: Kind, name: &str, help: &str) -> &mut Family {
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None => {
                let head = format!("# TYPE {name} {}\n# HELP {name} {help}\n", kind.name());
                self.families.push(Family {
                    name: name.to_owned(),
                    head,
                    samples: String::new(),
                });
                self.by_name
                    .insert(name.to_owned(), self.families.len() - 1);
                self.families.len() - 1
            }
        };
        &mut self.families[at]
    }

    /// The whole text.
    pub(super) fn text(self) -> String {
        let bytes = self
            .families
            .iter()
            .map(|family| family.head.len() + family.samples.len());
        let mut text = String::with_capacity(bytes.sum());
        for family in self.families {
            debug_assert!(!family.name.is_empty(), "a family has a name");
            text.push_str(&family.head);
            text.push_str(&family.samples);
        }
        text
    }
}

fn write_sample(out: &mut String, name: &str, labels: Labels<'_>, number: Number) {
    out.push_str(name);
    if !labels.is_empty() {
        out.push('{');
        for (at, (label, value)) in labels.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            out.push_str(label);
            out.push_str("=\"");
            push_escaped(out, value);
            out.push('"');
        }
        out.push('}');
    }
    let written = match number {
        Number::Whole(number) => writeln!(out, " {number}"),
        Number::Real(number) => writeln!(out, " {number}"),
    };
    written.expect("a string takes any text");
}

fn push_escaped(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_family_stand_together_below_one_head() {
        let mut out = Exposition::default();
        out.add(Kind::Gauge, "a", "First.", &[("q", "1")], 1_u64);
        out.add(Kind::Counter, "b_total", "Second.", &[], 0.5);
        out.add(Kind::Gauge, "a", "First.", &[("q", "2")], 2_u64);
        let expected = "# TYPE a gauge\n# HELP a First.\na{q=\"1\"} 1\na{q=\"2\"} 2\n\
                        # TYPE b_total counter\n# HELP b_total Second.\nb_total 0.5\n";
        assert_eq!(out.text(), expected);
    }

    #[test]
    fn label_values_are_escaped() {
        let mut out = Exposition::default();
        out.add(
            Kind::Gauge,
            "a",
            "Odd names.",
            &[("q", "a\"b\\c\nd")],
            1_u64,
        );
        assert!(out.text().ends_with("a{q=\"a\\\"b\\\\c\\nd\"} 1\n"));
    }

    #[test]
    fn a_histogram_is_cumulative() {
        let mut out = Exposition::default();
        out.add_histogram(
            "size",
            "Sizes.",
            &[("p", "x")],
            &[(10, 2), (100, 1)],
            4,
            999_u64,
        );
        let samples: Vec<_> = out.text().lines().skip(2).map(str::to_owned).collect();
        let expected = [
            "size_bucket{p=\"x\",le=\"10\"} 2",
            "size_bucket{p=\"x\",le=\"100\"} 3",
            "size_bucket{p=\"x\",le=\"+Inf\"} 7",
            "size_count{p=\"x\"} 7",
            "size_sum{p=\"x\"} 999",
        ];
        assert_eq!(samples, expected);
    }
}
