//! The report's shape, and what it makes of the evidence.

use super::*;
use crate::process::ProcessSample;
use crate::verify::Sighting;

fn record(drain: Drain) -> CourseRecord {
    let sample = |cpu_seconds| ProcessSample {
        cpu_seconds,
        rss_bytes: 1_000,
        io: None,
    };
    CourseRecord {
        publish_began_ns: 1_000_000_000,
        consume_began_ns: 1_000_000_000,
        ended_ns: 3_500_000_000,
        seconds: Vec::new(),
        drain,
        stalled: false,
        outcomes: Vec::new(),
        fault: None,
        broker: Some((sample(1.0), sample(1.5))),
        broker_rss_peak_bytes: 2_000,
        tool: Some((sample(0.0), sample(0.25))),
    }
}

fn tally() -> Tally {
    let mut tally = Tally::for_connections(1);
    tally.counts.published = 1_000;
    tally.counts.confirmed = 990;
    tally.counts.nacked = 10;
    tally.counts.consumed = 500;
    tally.counts.distinct = 500;
    tally.last.published_ns = 2_000_000_000;
    tally.last.confirmed_ns = 2_000_000_000;
    tally.last.consumed_ns = 3_000_000_000;
    tally.latency.record(5_000_000);
    tally
}

fn report(record: &CourseRecord, tally: &Tally) -> RunReport {
    let lost = Sighting {
        queue: 0,
        producer: 1,
        redelivered: false,
        sequence: 7,
    };
    RunReport::of(Evidence {
        record,
        tally,
        reordered: 0,
        unanswered: 0,
        findings: Findings {
            lost: 490,
            lost_examples: vec![lost],
            ..Findings::default()
        },
        queues: &["q".to_owned()],
        unverifiable: None,
        copies: 1,
        broker: BrokerFigures::default(),
        machine: Machine::look(),
        threads: 1,
        options: String::new(),
        connections: 2,
    })
}

#[test]
fn the_names_that_scripts_rely_on_are_there() {
    let json = serde_json::to_value(report(&record(Drain::Idle), &tally())).unwrap();
    for name in [
        "publish_rate",
        "confirm_rate",
        "consume_rate",
        "published",
        "confirmed",
        "consumed",
        "lost",
        "duplicated",
        "reordered",
    ] {
        assert!(json[name].is_number(), "{name} is {}", json[name]);
    }
    for percentile in ["p50", "p90", "p99", "p999", "max"] {
        assert!(json["latency_us"][percentile].is_number(), "{percentile}");
    }
    assert!(json["confirm_latency_us"].is_null(), "nothing was timed");
    for part in ["broker", "tool", "machine"] {
        assert!(json[part].is_object(), "{part}");
    }
    assert!(json["machine"]["cores"].is_number());
    assert!(json["tool"]["version"].is_string());
    assert!(json["broker"]["product"].is_string());
}

#[test]
fn rates_count_until_the_last_event_and_costs_per_message() {
    let report = report(&record(Drain::Idle), &tally());
    assert!((report.publish_rate - 1_000.0).abs() < 0.1);
    assert!((report.confirm_rate - 990.0).abs() < 0.1);
    assert!((report.consume_rate - 250.0).abs() < 0.1);
    assert_eq!(report.broker.cpu_us_per_message, Some(1_000.0));
    assert_eq!(report.tool.cpu_percent, Some(10.0));
    assert_eq!(report.duration_seconds, 2.5);
}

#[test]
fn what_is_missing_after_silence_is_lost_and_named() {
    let report = report(&record(Drain::Idle), &tally());
    assert!(report.verified && report.has_findings());
    assert_eq!((report.lost, report.undrained), (490, 0));
    assert_eq!(report.lost_examples, ["q/1/7"]);
    assert!(run_text(&report).contains("lost 490"));
}

#[test]
fn what_is_missing_after_a_cut_is_undrained_and_nothing_is_verified() {
    let report = report(&record(Drain::CutShort), &tally());
    assert!(!report.verified && !report.has_findings());
    assert_eq!((report.lost, report.undrained), (0, 490));
    assert!(run_text(&report).contains("not verified: the drain was cut short"));
}

#[test]
fn a_fault_is_told_and_verifies_nothing() {
    let mut record = record(Drain::Idle);
    record.fault = Some(crate::client::ClientFault::Dropped);
    let report = report(&record, &tally());
    assert!(!report.verified);
    assert!(report.fault.unwrap().contains("dropped the connection"));
}

#[test]
fn a_tool_that_was_the_limit_says_so() {
    let mut record = record(Drain::Complete);
    record.tool = record.tool.map(|(before, after)| {
        let busy = ProcessSample {
            cpu_seconds: 2.5,
            ..after
        };
        (before, busy)
    });
    let text = run_text(&report(&record, &tally()));
    assert!(text.contains("the tool was the limit"), "{text}");
}
