//! `sluicemq-perf`: the load tool for SluiceMQ and every other AMQP 0-9-1 broker.
//!
//! | part | files, in reading order |
//! |---|---|
//! | what was asked for | `options`, `uri`, `arguments`, `scenario` |
//! | one connection | `client`, `driver`, `roles`, `orders` |
//! | one message | `body`, `pacing`, `confirms`, `verify` |
//! | one run | `plan`, `topology`, `crew`, `course`, `churn`, `run` |
//! | many runs | `compare`, `disk`, `soak` |
//! | what came of it | `figures`, `process`, `syncs`, `machine`, `progress`, `report` |
//!
//! Knows the wire (`amqp`) and nothing of our broker's inside: what it measures, it measures alike
//! on every broker.

mod arguments;
mod body;
mod churn;
mod client;
mod clock;
mod compare;
mod confirms;
mod course;
mod crew;
mod disk;
mod driver;
mod figures;
mod interrupt;
mod machine;
mod options;
mod orders;
mod pacing;
mod plan;
mod process;
mod progress;
mod random;
mod report;
mod roles;
mod run;
mod scenario;
mod soak;
mod syncs;
mod topology;
mod uri;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use course::Watched;
use interrupt::Interrupt;
use options::{Cli, Command, CompareOptions, DiskOptions, RunOptions, SoakOptions};
use progress::Progress;
use run::RunSpec;

/// Messages were lost, duplicated, reordered or changed.
const EXIT_FINDINGS: u8 = 1;
/// The load could not be run, or broke off.
const EXIT_FAULT: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Run(options) => in_runtime(options.broker.threads, run_command(*options)),
        Command::Compare(options) => in_runtime(options.broker.threads, compare_command(options)),
        Command::Disk(options) => in_runtime(options.broker.threads, disk_command(options)),
        Command::Soak(options) => in_runtime(options.broker.threads, soak_command(options)),
        Command::Scenarios => {
            for known in scenario::BUILT_IN {
                println!("{:<20} {}", known.name, known.about);
            }
            Ok(ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|fault| {
        eprintln!("sluicemq-perf: {fault}");
        ExitCode::from(EXIT_FAULT)
    })
}

/// Carries out a command on as many threads as were asked for.
fn in_runtime(
    threads: u32,
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let mut builder = if threads == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder
        .worker_threads(threads as usize)
        .enable_all()
        .build()?;
    runtime.block_on(command)
}

async fn run_command(options: RunOptions) -> anyhow::Result<ExitCode> {
    let spec = RunSpec {
        endpoints: options.uris,
        client: options.broker.client(),
        watched: Watched {
            pid: options.broker.pid,
            data_dir: options.broker.data_dir.clone(),
        },
        flags: flags(),
        threads: options.broker.threads,
        load: options.load,
    };
    let mut progress = Progress::to_stderr();
    let report = run::run(&spec, &mut Interrupt::listen(), &mut progress).await?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report::run_text(&report));
    }
    if let Some(fault) = &report.fault {
        eprintln!("sluicemq-perf: {fault}");
        return Ok(ExitCode::from(EXIT_FAULT));
    }
    if spec.load.verify && (report.has_findings() || !report.verified) {
        eprintln!("sluicemq-perf: --verify failed");
        return Ok(ExitCode::from(EXIT_FINDINGS));
    }
    Ok(ExitCode::SUCCESS)
}

async fn compare_command(options: CompareOptions) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::to_stderr();
    let comparison = compare::compare(&options, &mut Interrupt::listen(), &mut progress).await?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else if options.markdown {
        print!("{}", compare::markdown(&comparison));
    } else {
        print!("{}", compare::plain(&comparison));
    }
    if comparison.has_failures() {
        eprintln!("sluicemq-perf: some rounds failed");
        return Ok(ExitCode::from(EXIT_FINDINGS));
    }
    Ok(ExitCode::SUCCESS)
}

async fn disk_command(options: DiskOptions) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::to_stderr();
    let records = disk::measure(&options, &mut Interrupt::listen(), &mut progress).await?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&records)?);
    } else {
        for record in &records {
            print!("{}", record.text());
        }
    }
    if records.iter().any(|record| record.failure.is_some()) {
        eprintln!("sluicemq-perf: some programs broke off");
        return Ok(ExitCode::from(EXIT_FAULT));
    }
    if records.iter().any(disk::DiskRecord::is_broken) {
        eprintln!("sluicemq-perf: the disk held more than it may, or was not looked at");
        return Ok(ExitCode::from(EXIT_FINDINGS));
    }
    Ok(ExitCode::SUCCESS)
}

async fn soak_command(options: SoakOptions) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::to_stderr();
    let report = soak::soak(&options, &mut Interrupt::listen(), &mut progress).await?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.text());
    }
    if !report.is_clean() {
        eprintln!("sluicemq-perf: the broker broke its promises");
        return Ok(ExitCode::from(EXIT_FINDINGS));
    }
    Ok(ExitCode::SUCCESS)
}

/// The command line as it was given, for the report; passwords in addresses left out.
fn flags() -> String {
    let words: Vec<String> = std::env::args().skip(1).map(without_password).collect();
    words.join(" ")
}

fn without_password(word: String) -> String {
    let (flag, value) = match word.split_once('=') {
        Some((flag, value)) if flag.starts_with("--") => (format!("{flag}="), value),
        _ => (String::new(), word.as_str()),
    };
    match value.parse::<uri::Endpoint>() {
        Ok(endpoint) => format!("{flag}{endpoint}"),
        Err(_not_an_address) => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_no_contradictions() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn passwords_do_not_get_into_the_report() {
        let hidden = |word: &str| without_password(word.to_owned());
        assert_eq!(hidden("amqp://u:secret@h/v"), "amqp://h:5672/v");
        assert_eq!(hidden("--uri=amqp://u:secret@h"), "--uri=amqp://h:5672");
        assert_eq!(hidden("--queue=a=b"), "--queue=a=b");
        assert_eq!(hidden("--json"), "--json");
    }
}
