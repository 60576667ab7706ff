//! The command line: one struct per group of flags, and what may not be combined.

mod load;
mod target;

use clap::{Args, Parser, Subcommand};

pub(crate) use load::{Churn, LoadOptions, OptionFault};
pub(crate) use target::{BrokerOptions, Target};

use crate::uri::Endpoint;

/// Load tool for AMQP 0-9-1 brokers: rates, latencies, lost messages, and the broker's own cost.
#[derive(Debug, Parser)]
#[command(name = "sluicemq-perf", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put one load on a broker and measure it.
    Run(Box<RunOptions>),
    /// Put the same loads on several brokers in turn, and compare.
    Compare(CompareOptions),
    /// Publish, consume, return, disconnect at random, and account for every message.
    Soak(SoakOptions),
    /// Hold what a broker's folder takes against what lives in its queues, while messages get stuck.
    Disk(DiskOptions),
    /// List the built-in scenarios of `compare`.
    Scenarios,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunOptions {
    /// The broker's address; several times for several nodes, which connections take in turn.
    #[arg(
        long = "uri",
        value_name = "URI",
        default_value = "amqp://127.0.0.1:5672"
    )]
    pub(crate) uris: Vec<Endpoint>,
    #[command(flatten)]
    pub(crate) broker: BrokerOptions,
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// Print one JSON object with everything, and nothing else, to standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CompareOptions {
    /// A built-in scenario, or a file with flags of `run`; several times for several.
    #[arg(long = "scenario", value_name = "FILE|NAME", required = true)]
    pub(crate) scenarios: Vec<String>,
    /// name=URI, then optionally ,pid=N and ,data-dir=DIR; the first is what others are held
    /// against.
    #[arg(long = "target", value_name = "TARGET", required = true)]
    pub(crate) targets: Vec<Target>,
    /// How often each target takes its turn.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rounds: u32,
    /// Let the machine settle between two runs.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) pause: f64,
    /// Shorten or lengthen every scenario that runs for a time.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) time: Option<f64>,
    #[command(flatten)]
    pub(crate) broker: BrokerOptions,
    /// Print tables in Markdown.
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Print one JSON object with every figure of every round.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DiskOptions {
    /// name=URI,data-dir=DIR, then optionally ,pid=N; the first is judged, the others stand beside it.
    #[arg(long = "target", value_name = "TARGET", required = true)]
    pub(crate) targets: Vec<Target>,
    /// Only these; all programs of record when absent. A file with flags of `run` is one, too.
    #[arg(long = "program", value_name = "NAME|FILE")]
    pub(crate) programs: Vec<String>,
    /// So many times the messages of each program.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// What the broker's journal may take, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub(crate) journal_bytes: u64,
    /// What each queue may take beyond twice its live messages, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    pub(crate) segment_bytes: u64,
    #[command(flatten)]
    pub(crate) broker: BrokerOptions,
    /// Print one JSON object, and nothing else, to standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SoakOptions {
    /// The broker's address; several times for several nodes, which actors take in turn.
    #[arg(
        long = "uri",
        value_name = "URI",
        default_value = "amqp://127.0.0.1:5672"
    )]
    pub(crate) uris: Vec<Endpoint>,
    #[command(flatten)]
    pub(crate) broker: BrokerOptions,
    /// How long to go on before the final drain.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(crate) time: f64,
    /// Repeat the choices of an earlier soak; the report names the seed.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How many queues.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) queues: u32,
    /// classic or quorum.
    #[arg(long, value_name = "TYPE", default_value = "quorum")]
    pub(crate) queue_type: String,
    /// Producers at work at any time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) producers: u32,
    /// Consumers at work at any time.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) consumers: u32,
    /// Messages a second of each producer.
    #[arg(long, value_name = "N", default_value_t = 500.0)]
    pub(crate) rate: f64,
    /// Print one JSON object, and nothing else, to standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Leave the queues behind.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Give up the final drain when nothing arrived for so long.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) idle: f64,
}
