//! A run's result for people: what matters first, what does not apply left out.

use std::fmt::Write;

use super::RunReport;
use crate::figures::Percentiles;

const MEBIBYTE: f64 = 1_048_576.0;

/// Lines for standard output.
pub(crate) fn run_text(report: &RunReport) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _infallible = write_run(&mut text, report);
    text
}

fn write_run(out: &mut String, report: &RunReport) -> std::fmt::Result {
    if report.churned > 0 {
        writeln!(
            out,
            "rounds      {:>12}   {:>12.1} /s",
            report.churned, report.churn_rate
        )?;
        latency(out, "round", report.churn_latency_us)?;
    } else {
        rates(out, report)?;
        latency(out, "latency", report.latency_us)?;
        latency(out, "confirm", report.confirm_latency_us)?;
        exceptions(out, report)?;
        verdict(out, report)?;
    }
    broker(out, report)?;
    tool(out, report)?;
    if let Some(fault) = &report.fault {
        writeln!(out, "broke off   {fault}")?;
    }
    Ok(())
}

fn rates(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let lines = [
        (
            "published",
            report.published,
            report.publish_rate,
            report.publish_mib_per_second,
        ),
        ("confirmed", report.confirmed, report.confirm_rate, 0.0),
        (
            "consumed",
            report.consumed,
            report.consume_rate,
            report.consume_mib_per_second,
        ),
    ];
    for (name, count, rate, mebibytes) in lines {
        if count == 0 {
            continue;
        }
        write!(out, "{name:<11} {count:>12}   {rate:>12.1} /s")?;
        if mebibytes > 0.0 {
            write!(out, "   {mebibytes:>9.2} MiB/s")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn latency(out: &mut String, name: &str, percentiles: Option<Percentiles>) -> std::fmt::Result {
    let Some(Percentiles {
        p50,
        p90,
        p99,
        p999,
        max,
    }) = percentiles
    else {
        return Ok(());
    };
    writeln!(
        out,
        "{name:<11} p50 {p50:.0}   p90 {p90:.0}   p99 {p99:.0}   p99.9 {p999:.0}   max {max:.0} µs"
    )
}

fn exceptions(out: &mut String, report: &RunReport) -> std::fmt::Result {
    for (name, count) in [
        ("refused", report.refused),
        ("returned", report.returned),
        ("unanswered", report.unanswered),
        ("requeued", report.requeued),
        ("redelivered", report.redelivered),
        ("foreign", report.foreign),
        ("holds", report.holds),
        ("undrained", report.undrained),
    ] {
        if count > 0 {
            writeln!(out, "{name:<11} {count:>12}")?;
        }
    }
    Ok(())
}

fn verdict(out: &mut String, report: &RunReport) -> std::fmt::Result {
    write!(
        out,
        "lost {}   duplicated {}   reordered {}   changed {}   astray {}",
        report.lost, report.duplicated, report.reordered, report.corrupted, report.astray
    )?;
    match &report.unverified {
        Some(reason) => writeln!(out, "   (not verified: {reason})")?,
        None => writeln!(out, "   (verified)")?,
    }
    if !report.lost_examples.is_empty() {
        let examples = report.lost_examples.join(" ");
        writeln!(out, "lost, as queue/producer/sequence: {examples}")?;
    }
    Ok(())
}

fn broker(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let broker = &report.broker;
    let identity = &broker.identity;
    write!(out, "broker      {} {}", identity.product, identity.version)?;
    if let Some(us) = broker.cpu_us_per_message {
        write!(out, "   {us:.2} µs CPU a message")?;
    }
    if let (Some(rss), Some(peak)) = (broker.rss_bytes, broker.rss_peak_bytes) {
        let (rss, peak) = (rss as f64 / MEBIBYTE, peak as f64 / MEBIBYTE);
        write!(out, "   RSS {rss:.0} MiB (peak {peak:.0})")?;
    }
    if let Some(io) = broker.io {
        let written = io.written_bytes as f64 / MEBIBYTE;
        let (reads, writes) = (io.read_calls, io.write_calls);
        write!(
            out,
            "   {reads} reads, {writes} writes, {written:.0} MiB to disk"
        )?;
    }
    if let Some(fsyncs) = broker.fsyncs {
        write!(out, "   {fsyncs} fsyncs")?;
    }
    if let Some(disk) = broker.disk_bytes {
        write!(out, "   folder {:.0} MiB", disk as f64 / MEBIBYTE)?;
    }
    writeln!(out)
}

fn tool(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let tool = &report.tool;
    write!(out, "tool        sluicemq-perf {}", tool.version)?;
    if let (Some(us), Some(percent)) = (tool.cpu_us_per_message, tool.cpu_percent) {
        write!(out, "   {us:.2} µs CPU a message, {percent:.0} % of a core")?;
        if percent >= 95.0 * f64::from(tool.threads) {
            write!(
                out,
                ": the tool was the limit, try --threads or --write-batch"
            )?;
        }
    }
    writeln!(out)
}
