//! What a broker's disk holds against what lives in its queues, second by second, under loads that pin
//! old messages: the five programs of record, on several brokers in turn.
//!
//! The bound that is judged: the journal's cap, twice what lives, and a segment for each queue. A live
//! message counts with what any log must keep beside its body. Knows folders and counts; not what a
//! broker keeps in its files.

use serde::Serialize;

use crate::course::Second;
use crate::interrupt::Interrupt;
use crate::options::DiskOptions;
use crate::progress::Progress;
use crate::random::Random;
use crate::run::run;
use crate::scenario::{Scenario, ScenarioFault};

/// The programs of record, by the names of their scenarios.
pub(crate) const PROGRAMS: &[&str] = &[
    "disk-stuck-200",
    "disk-stuck-depth",
    "disk-stuck-each",
    "disk-returns",
    "disk-fanout",
];

/// Bytes that a live message takes beyond its body: name, properties, header and footer entry.
const OVERHEAD_BYTES: u64 = 96;
const MEBIBYTE: f64 = 1_048_576.0;
/// Rows of a table; every sample is judged, these are shown.
const ROWS_MAX: usize = 12;

/// One program on one broker.
#[derive(Debug, Serialize)]
pub(crate) struct DiskRecord {
    pub(crate) program: String,
    pub(crate) about: String,
    pub(crate) flags: String,
    pub(crate) target: String,
    pub(crate) broker: String,
    /// Whether this broker is judged by the bound: the first one is, the others stand beside it.
    pub(crate) judged: bool,
    pub(crate) samples: Vec<DiskSample>,
    pub(crate) failure: Option<String>,
}

/// One look at the folder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct DiskSample {
    pub(crate) at_seconds: f64,
    pub(crate) published: u64,
    pub(crate) live_messages: u64,
    pub(crate) live_bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) bound_bytes: u64,
}

impl DiskSample {
    /// The disk as a part of what it may be.
    pub(crate) fn share(&self) -> f64 {
        self.disk_bytes as f64 / self.bound_bytes.max(1) as f64
    }
}

impl DiskRecord {
    /// The sample that came closest to the bound, or went furthest beyond it.
    pub(crate) fn worst(&self) -> Option<&DiskSample> {
        let shares = self.samples.iter();
        shares.max_by(|one, other| one.share().total_cmp(&other.share()))
    }

    /// Whether the broker was to keep to the bound and was seen to.
    pub(crate) fn is_broken(&self) -> bool {
        let within = self.worst().is_some_and(|worst| worst.share() <= 1.0);
        self.judged && !within
    }

    fn sample(&self, second: &Second, bound: &Bound) -> Option<DiskSample> {
        let live_messages = second.live_messages;
        let live_bytes = live_messages * (bound.body_bytes + OVERHEAD_BYTES);
        Some(DiskSample {
            at_seconds: second.at_seconds,
            published: second.published,
            live_messages,
            live_bytes,
            disk_bytes: second.disk_bytes?,
            bound_bytes: bound.fixed_bytes + 2 * live_bytes,
        })
    }

    /// The table of one program on one broker.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!("{}: {}", self.program, self.about)];
        lines.push(format!(
            "  {} ({})  {}",
            self.target, self.broker, self.flags
        ));
        lines.extend(
            self.failure
                .as_ref()
                .map(|why| format!("  broke off: {why}")),
        );
        lines.push(format!(
            "  {:>8} {:>11} {:>10} {:>9} {:>9} {:>9} {:>6}",
            "at s", "published", "live", "live MiB", "disk MiB", "bound MiB", "share"
        ));
        let every = self.samples.len().div_ceil(ROWS_MAX).max(1);
        let last = self.samples.len().saturating_sub(1);
        let shown = self.samples.iter().enumerate();
        let shown = shown.filter(|(number, _)| number % every == 0 || *number == last);
        lines.extend(shown.map(|(_, sample)| row("", sample)));
        lines.extend(self.worst().map(|worst| row("worst", worst)));
        lines.join("\n") + "\n\n"
    }
}

fn row(name: &str, sample: &DiskSample) -> String {
    let mebibytes = |bytes: u64| bytes as f64 / MEBIBYTE;
    format!(
        "  {:>8.1} {:>11} {:>10} {:>9.1} {:>9.1} {:>9.1} {:>6.2} {name}",
        sample.at_seconds,
        sample.published,
        sample.live_messages,
        mebibytes(sample.live_bytes),
        mebibytes(sample.disk_bytes),
        mebibytes(sample.bound_bytes),
        sample.share(),
    )
    .trim_end()
    .to_owned()
}

/// What does not change while a program runs.
struct Bound {
    fixed_bytes: u64,
    body_bytes: u64,
}

/// Runs the programs on every broker.
///
/// # Errors
/// A program is unknown or ill-formed; found before anything is run.
pub(crate) async fn measure(
    options: &DiskOptions,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) -> Result<Vec<DiskRecord>, ScenarioFault> {
    let all = PROGRAMS.iter().map(|name| (*name).to_owned());
    let names = match options.programs.is_empty() {
        true => all.collect(),
        false => options.programs.clone(),
    };
    let scenarios: Vec<Scenario> = names
        .iter()
        .map(|name| Ok(Scenario::find(name)?.scaled(options.scale)))
        .collect::<Result<_, ScenarioFault>>()?;
    let mut records = Vec::new();
    for scenario in &scenarios {
        for number in 0..options.targets.len() {
            if interrupt.came() {
                return Ok(records);
            }
            records.push(measure_one(options, scenario, number, interrupt, progress).await);
        }
    }
    Ok(records)
}

async fn measure_one(
    options: &DiskOptions,
    scenario: &Scenario,
    number: usize,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) -> DiskRecord {
    let target = &options.targets[number];
    progress.label(format!("{} {}  ", scenario.name, target.name));
    let mark = Random::from_time().next_u64();
    let spec = scenario.against(
        target,
        options.broker.client(),
        options.broker.threads,
        mark,
    );
    let bound = Bound {
        fixed_bytes: options.journal_bytes + u64::from(spec.load.queues) * options.segment_bytes,
        body_bytes: spec.load.size.largest() as u64,
    };
    let mut record = DiskRecord {
        program: scenario.name.clone(),
        about: scenario.about.clone(),
        flags: scenario.flags.clone(),
        target: target.name.clone(),
        broker: String::new(),
        judged: number == 0,
        samples: Vec::new(),
        failure: None,
    };
    match run(&spec, interrupt, progress).await {
        Ok(report) => {
            let identity = &report.broker.identity;
            record.broker = format!("{} {}", identity.product, identity.version);
            let seconds = report.seconds.iter();
            record.samples = seconds
                .filter_map(|second| record.sample(second, &bound))
                .collect();
            record.failure = report.fault;
        }
        Err(fault) => record.failure = Some(fault.to_string()),
    }
    progress.label("");
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(disk_bytes: u64, live_messages: u64) -> DiskSample {
        DiskSample {
            at_seconds: 1.0,
            published: 10,
            live_messages,
            live_bytes: live_messages,
            disk_bytes,
            bound_bytes: 100 + 2 * live_messages,
        }
    }

    fn record(samples: Vec<DiskSample>, judged: bool) -> DiskRecord {
        DiskRecord {
            program: "p".to_owned(),
            about: "about".to_owned(),
            flags: "--size 1".to_owned(),
            target: "t".to_owned(),
            broker: "b 1".to_owned(),
            judged,
            samples,
            failure: None,
        }
    }

    #[test]
    fn one_sample_beyond_the_bound_breaks_it() {
        let kept = record(vec![sample(90, 0), sample(110, 5)], true);
        assert!(!kept.is_broken());
        let broken = record(vec![sample(90, 0), sample(111, 5), sample(90, 0)], true);
        assert!(broken.is_broken());
        assert_eq!(broken.worst().map(|worst| worst.disk_bytes), Some(111));
        assert!(!record(vec![sample(900, 0)], false).is_broken());
    }

    #[test]
    fn a_broker_that_was_never_looked_at_has_not_kept_to_the_bound() {
        assert!(record(Vec::new(), true).is_broken());
    }

    #[test]
    fn a_table_shows_a_bounded_number_of_rows_and_always_the_last_and_the_worst() {
        let mut samples = vec![sample(10, 0); 400];
        samples[7] = sample(99, 0);
        samples[399].published = 777;
        let text = record(samples, true).text();
        assert!(text.lines().count() <= ROWS_MAX + 6, "{text}");
        assert!(text.contains("777") && text.contains("worst"), "{text}");
    }
}
