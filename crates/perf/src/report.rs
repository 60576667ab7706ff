//! The result of a run: every figure under the name that scripts rely on, and as text for people.

mod text;

use serde::Serialize;

use crate::client::ServerIdentity;
use crate::clock::seconds_between;
use crate::course::{CourseRecord, Drain, Second};
use crate::figures::{Counts, Percentiles, Tally, rate};
use crate::machine::Machine;
use crate::process::IoCounts;
use crate::verify::Findings;

pub(crate) use text::run_text;

/// Everything a run found out. Rates are messages a second; times and sizes say their unit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunReport {
    pub(crate) publish_rate: f64,
    pub(crate) confirm_rate: f64,
    pub(crate) consume_rate: f64,
    /// Publish (or when it was due) to delivery; absent if nothing was timed.
    pub(crate) latency_us: Option<Percentiles>,
    pub(crate) confirm_latency_us: Option<Percentiles>,
    pub(crate) published: u64,
    pub(crate) confirmed: u64,
    pub(crate) consumed: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    /// Whether `lost`, `duplicated` and `reordered` are the whole truth; if not, `unverified`
    /// says why.
    pub(crate) verified: bool,
    pub(crate) unverified: Option<String>,
    pub(crate) corrupted: u64,
    /// Found in a queue they were not published to.
    pub(crate) astray: u64,
    /// Not of this run.
    pub(crate) foreign: u64,
    /// `queue/producer/sequence` of the first lost messages.
    pub(crate) lost_examples: Vec<String>,
    pub(crate) refused: u64,
    pub(crate) returned: u64,
    pub(crate) unanswered: u64,
    pub(crate) requeued: u64,
    pub(crate) redelivered: u64,
    pub(crate) empty_gets: u64,
    /// Times the broker blocked a connection or paused a channel.
    pub(crate) holds: u64,
    /// Published and not consumed when the run was cut short.
    pub(crate) undrained: u64,
    /// Rounds of a churn.
    pub(crate) churned: u64,
    pub(crate) churn_rate: f64,
    pub(crate) churn_latency_us: Option<Percentiles>,
    pub(crate) publish_mib_per_second: f64,
    pub(crate) consume_mib_per_second: f64,
    pub(crate) duration_seconds: f64,
    pub(crate) broker: BrokerFigures,
    pub(crate) tool: ToolFigures,
    pub(crate) machine: Machine,
    /// The flags of the run.
    pub(crate) options: String,
    pub(crate) connections: usize,
    pub(crate) seconds: Vec<Second>,
    /// Why the run broke off.
    pub(crate) fault: Option<String>,
}

/// The broker's identity and cost. What was not asked for or cannot be measured is absent.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct BrokerFigures {
    pub(crate) uris: Vec<String>,
    #[serde(flatten)]
    pub(crate) identity: ServerIdentity,
    pub(crate) cpu_seconds: Option<f64>,
    /// Per delivery that was kept; per publish without consumers; per round of a churn.
    pub(crate) cpu_us_per_message: Option<f64>,
    pub(crate) rss_bytes: Option<u64>,
    /// The most of the run's samples, a second apart.
    pub(crate) rss_peak_bytes: Option<u64>,
    pub(crate) io: Option<IoCounts>,
    pub(crate) disk_bytes_before: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
    /// fsync, fdatasync and their kin, from the declarations to the end of the drain.
    pub(crate) fsyncs: Option<u64>,
    /// Why they are not known.
    pub(crate) fsyncs_unknown: Option<String>,
}

/// What the tool itself cost: if it is near one core per thread, it was the limit.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ToolFigures {
    pub(crate) version: String,
    pub(crate) threads: u32,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) cpu_us_per_message: Option<f64>,
    /// Of one core.
    pub(crate) cpu_percent: Option<f64>,
}

/// What a report is made from.
pub(crate) struct Evidence<'a> {
    pub(crate) record: &'a CourseRecord,
    pub(crate) tally: &'a Tally,
    pub(crate) reordered: u64,
    pub(crate) unanswered: u64,
    pub(crate) findings: Findings,
    pub(crate) queues: &'a [String],
    /// Why nothing could be verified, known before the run.
    pub(crate) unverifiable: Option<&'static str>,
    pub(crate) copies: u64,
    pub(crate) broker: BrokerFigures,
    pub(crate) machine: Machine,
    pub(crate) threads: u32,
    pub(crate) options: String,
    pub(crate) connections: usize,
}

impl RunReport {
    pub(crate) fn of(evidence: Evidence<'_>) -> Self {
        let Evidence { record, tally, .. } = &evidence;
        let counts = tally.counts;
        let unverified = unverified(&evidence);
        let missing_is_loss = matches!(record.drain, Drain::Complete | Drain::Idle);
        let findings = &evidence.findings;
        let work = work_done(&counts);
        let mut broker = evidence.broker.clone();
        broker.add_process(record, work);
        let (publish_ns, consume_ns) = (record.publish_began_ns, record.consume_began_ns);
        let consumed_until_ns = tally.last.consumed_ns;
        Self {
            publish_rate: rate(counts.published, publish_ns, tally.last.published_ns),
            confirm_rate: rate(counts.confirmed, publish_ns, tally.last.confirmed_ns),
            consume_rate: rate(counts.consumed, consume_ns, consumed_until_ns),
            latency_us: tally.latency.percentiles(),
            confirm_latency_us: tally.confirm_latency.percentiles(),
            published: counts.published,
            confirmed: counts.confirmed,
            consumed: counts.consumed,
            lost: if missing_is_loss { findings.lost } else { 0 },
            duplicated: findings.duplicated,
            reordered: evidence.reordered,
            verified: unverified.is_none(),
            unverified,
            corrupted: counts.corrupted,
            astray: findings.astray,
            foreign: counts.foreign,
            lost_examples: if missing_is_loss {
                examples(&evidence)
            } else {
                Vec::new()
            },
            refused: counts.nacked,
            returned: counts.returned,
            unanswered: evidence.unanswered,
            requeued: counts.requeued,
            redelivered: counts.redelivered,
            empty_gets: counts.empty_gets,
            holds: counts.holds,
            undrained: undrained(&evidence),
            churned: counts.churned,
            churn_rate: rate(counts.churned, publish_ns, tally.last.churned_ns),
            churn_latency_us: tally.churn_latency.percentiles(),
            publish_mib_per_second: mebibytes_a_second(
                counts.published_bytes,
                publish_ns,
                tally.last.published_ns,
            ),
            consume_mib_per_second: mebibytes_a_second(
                counts.consumed_bytes,
                consume_ns,
                consumed_until_ns,
            ),
            duration_seconds: round(seconds_between(publish_ns, record.ended_ns), 3),
            broker,
            tool: ToolFigures::of(record, evidence.threads, work),
            machine: evidence.machine.clone(),
            options: evidence.options.clone(),
            connections: evidence.connections,
            seconds: record.seconds.clone(),
            fault: fault(record),
        }
    }

    /// Whether messages were lost, duplicated, reordered, changed, or came astray.
    pub(crate) fn has_findings(&self) -> bool {
        self.lost + self.duplicated + self.reordered + self.corrupted + self.astray > 0
    }
}

impl BrokerFigures {
    fn add_process(&mut self, record: &CourseRecord, work: u64) {
        let Some((before, after)) = record.broker else {
            return;
        };
        let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
        self.cpu_seconds = Some(round(cpu_seconds, 2));
        self.cpu_us_per_message = us_each(cpu_seconds, work);
        self.rss_bytes = Some(after.rss_bytes);
        self.rss_peak_bytes = Some(record.broker_rss_peak_bytes);
        self.io = after
            .io
            .zip(before.io)
            .map(|(after, before)| after.since(before));
    }
}

impl ToolFigures {
    fn of(record: &CourseRecord, threads: u32, work: u64) -> Self {
        let mut figures = Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            threads,
            ..Self::default()
        };
        if let Some((before, after)) = record.tool {
            let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
            let seconds = seconds_between(record.publish_began_ns, record.ended_ns);
            figures.cpu_seconds = Some(round(cpu_seconds, 2));
            figures.cpu_us_per_message = us_each(cpu_seconds, work);
            if seconds > 0.0 {
                figures.cpu_percent = Some(round(cpu_seconds / seconds * 100.0, 0));
            }
        }
        figures
    }
}

/// How many messages a cost is shared out to.
fn work_done(counts: &Counts) -> u64 {
    match (counts.churned, counts.consumed) {
        (0, 0) => counts.published,
        (0, consumed) => consumed,
        (churned, _) => churned,
    }
}

fn us_each(cpu_seconds: f64, work: u64) -> Option<f64> {
    (work > 0).then(|| round(cpu_seconds * 1e6 / work as f64, 3))
}

fn unverified(evidence: &Evidence<'_>) -> Option<String> {
    let record = evidence.record;
    if record.fault.is_some() || record.stalled {
        return Some("the run broke off".to_owned());
    }
    if let Some(reason) = evidence.unverifiable {
        return Some(reason.to_owned());
    }
    match record.drain {
        Drain::Complete | Drain::Idle => None,
        Drain::CutShort => Some("the drain was cut short while messages arrived".to_owned()),
        Drain::NotAwaited => Some("nothing was to be drained".to_owned()),
        Drain::Interrupted => Some("the run was interrupted".to_owned()),
    }
}

/// What should have arrived and had not when waiting ended without a verdict.
fn undrained(evidence: &Evidence<'_>) -> u64 {
    let counts = evidence.tally.counts;
    let waited = matches!(evidence.record.drain, Drain::CutShort | Drain::Interrupted);
    if !waited || evidence.unverifiable.is_some() {
        return 0;
    }
    let exempt = counts.nacked + counts.returned + evidence.unanswered;
    (counts.published.saturating_sub(exempt) * evidence.copies).saturating_sub(counts.distinct)
}

fn examples(evidence: &Evidence<'_>) -> Vec<String> {
    let text = |lost: &crate::verify::Sighting| {
        let queue = evidence.queues.get(lost.queue as usize);
        let queue = queue.map_or("?", String::as_str);
        format!("{queue}/{}/{}", lost.producer, lost.sequence)
    };
    evidence.findings.lost_examples.iter().map(text).collect()
}

fn fault(record: &CourseRecord) -> Option<String> {
    if let Some(fault) = &record.fault {
        return Some(fault.to_string());
    }
    record
        .stalled
        .then(|| "nothing moved any more: the broker gave neither confirms nor messages".to_owned())
}

fn mebibytes_a_second(bytes: u64, from_ns: u64, to_ns: u64) -> f64 {
    const MEBIBYTE: f64 = 1_048_576.0;
    let seconds = seconds_between(from_ns, to_ns);
    if seconds <= 0.0 {
        return 0.0;
    }
    round(bytes as f64 / MEBIBYTE / seconds, 2)
}

pub(crate) fn round(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

#[cfg(test)]
#[path = "report/tests.rs"]
mod tests;
