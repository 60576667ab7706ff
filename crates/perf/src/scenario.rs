//! Named loads for `compare`: each is a line of the flags that `run` takes, built in or in a file.
//!
//! A file may span lines, comment with `#`, and quote words with `'` or `"`.

use clap::Parser;

use crate::client::ClientOptions;
use crate::course::Watched;
use crate::options::{LoadOptions, OptionFault, Target};
use crate::run::RunSpec;

/// The longest scenario file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) flags: String,
    pub(crate) load: LoadOptions,
}

/// A scenario of the program's own.
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    flags: &'static str,
}

const fn built_in(name: &'static str, about: &'static str, flags: &'static str) -> BuiltIn {
    BuiltIn { name, about, flags }
}

pub(crate) const BUILT_IN: &[BuiltIn] = &[
    built_in(
        "autoack-16",
        "transient 16 B messages, auto-ack, no confirms, classic queue",
        "--size 16 --ack-every 0 --write-batch 64 --time 10",
    ),
    built_in(
        "autoack-1k",
        "transient 1 KiB messages, auto-ack, no confirms, classic queue",
        "--size 1024 --ack-every 0 --write-batch 16 --time 10",
    ),
    built_in(
        "confirm-16",
        "persistent 16 B messages, one publish per write, confirm window 1,000, an ack each, \
         durable classic queue",
        "--size 16 --persistent --confirm-window 1000 --ack-every 1 --prefetch 1000 --time 10",
    ),
    built_in(
        "confirm-1k",
        "persistent 1 KiB messages, one publish per write, confirm window 1,000, an ack each, \
         durable classic queue",
        "--size 1024 --persistent --confirm-window 1000 --ack-every 1 --prefetch 1000 --time 10",
    ),
    built_in(
        "quorum-confirm-16",
        "16 B messages from a batching client, confirm window 2,000, acks for 100, quorum queue",
        "--queue-type quorum --size 16 --persistent --confirm-window 2000 --write-batch 64 \
         --ack-every 100 --prefetch 2000 --time 10",
    ),
    built_in(
        "quorum-confirm-1k",
        "1 KiB messages, confirm window 1,000, an ack each, quorum queue",
        "--queue-type quorum --size 1024 --persistent --confirm-window 1000 --write-batch 16 \
         --ack-every 1 --prefetch 1000 --time 10",
    ),
    built_in(
        "confirm-window-1",
        "1 KiB messages, each waits for its confirm, quorum queue",
        "--queue-type quorum --size 1024 --persistent --confirm-window 1 --time 10",
    ),
    built_in(
        "confirm-window-100",
        "1 KiB messages, confirm window 100, quorum queue",
        "--queue-type quorum --size 1024 --persistent --confirm-window 100 --time 10",
    ),
    built_in(
        "confirm-window-1000",
        "1 KiB messages, confirm window 1,000, quorum queue",
        "--queue-type quorum --size 1024 --persistent --confirm-window 1000 --time 10",
    ),
    built_in(
        "fanout-10",
        "1 KiB messages to ten durable classic queues by a fanout exchange, confirm window 1,000",
        "--exchange sluicemq-perf-fanout --exchange-type fanout --queues 10 --consumers 10 \
         --consumers-per-connection 10 --size 1024 --persistent --confirm-window 1000 \
         --write-batch 16 --ack-every 10 --prefetch 1000 --time 10",
    ),
    built_in(
        "many-queues-1000",
        "1,000 durable classic queues with a producer and a consumer each, 1 KiB messages, \
         confirm window 10",
        "--queues 1000 --producers 1000 --producers-per-connection 100 --consumers 1000 \
         --consumers-per-connection 100 --size 1024 --persistent --confirm-window 10 \
         --write-batch 16 --ack-every 1 --prefetch 100 --time 10",
    ),
    built_in(
        "backlog",
        "a million 100 B messages are published with confirms, then drained, quorum queue",
        "--queue-type quorum --size 100 --persistent --confirm-window 2000 --write-batch 64 \
         --ack-every 100 --prefetch 2000 --messages 1000000 --consume-after 1000000 --drain 600",
    ),
    built_in(
        "latency-5k",
        "5,000 messages of 1 KiB a second with confirms, quorum queue: end-to-end latency",
        "--queue-type quorum --size 1024 --persistent --confirm-window 1000 --rate 5000 \
         --ack-every 1 --prefetch 1000 --time 15",
    ),
    built_in(
        "requeue",
        "every second delivery goes back to its durable classic queue once, 100 B messages",
        "--size 100 --persistent --confirm-window 1000 --write-batch 16 --ack-every 1 \
         --requeue-every 2 --prefetch 200 --time 10",
    ),
    built_in(
        "disk-stuck-200",
        "20 million messages of 100 B pass through one quorum queue, 200 of them are never settled",
        "--queue-type quorum --size 100 --persistent --confirm-window 20000 --write-batch 64 \
         --ack-every 100 --prefetch 0 --stuck-every 100000 --messages 20000000 --drain 60",
    ),
    built_in(
        "disk-stuck-depth",
        "100,000 messages of 100 B are always in a quorum queue, 1 in 100,000 is never settled",
        // A consumer of a quorum queue holds 65,535 at most.
        "--queue-type quorum --consumers 2 --size 100 --persistent --confirm-window 20000 \
         --write-batch 64 --ack-every 100 --prefetch 65535 --stuck-every 100000 --lag 50000 \
         --messages 10000000 --drain 60",
    ),
    built_in(
        "disk-stuck-each",
        "5 million messages of 100 B pass through 1,000 quorum queues, the first of each is never \
         settled",
        "--queue-type quorum --queues 1000 --producers 10 --consumers 1000 \
         --consumers-per-connection 100 --size 100 --persistent --confirm-window 2000 \
         --write-batch 64 --ack-every 10 --prefetch 0 --stuck-every 1000000000 \
         --messages 5000000 --drain 60",
    ),
    built_in(
        "disk-returns",
        "4,000 messages of 100 B go back to their quorum queue over and over for a minute",
        "--queue-type quorum --queue-args {\"x-delivery-limit\":-1} --size 100 --persistent \
         --confirm-window 1000 --requeue-every 1 --requeue-again --prefetch 1000 \
         --messages 4000 --drain 60",
    ),
    built_in(
        "disk-fanout",
        "3 million messages of 100 B go to ten quorum queues each; one consumer takes 2,000 a second",
        "--queue-type quorum --exchange sluicemq-perf-fanout --exchange-type fanout --queues 10 \
         --consumers 10 --consumers-per-connection 1 --consume-rate 2000 --slow-consumers 1 \
         --size 100 --persistent --confirm-window 5000 --write-batch 64 --ack-every 100 \
         --prefetch 1000 --messages 3000000 --drain 5",
    ),
    built_in(
        "connect-churn",
        "a connection and a channel are opened and closed, four at a time",
        "--churn connect --producers 4 --time 10",
    ),
    built_in(
        "declare-churn",
        "a durable classic queue is declared and deleted, four at a time",
        "--churn declare --producers 4 --time 10",
    ),
];

/// Why there is no such scenario.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScenarioFault {
    #[error("there is no scenario {0:?} and no such file; `sluicemq-perf scenarios` lists them")]
    Unknown(String),
    #[error("scenario file {path}: {source}")]
    Unreadable {
        path: String,
        source: std::io::Error,
    },
    #[error("scenario file {0} is longer than {FILE_BYTES_MAX} bytes")]
    TooLong(String),
    #[error("scenario {name}: a quote is not closed")]
    OpenQuote { name: String },
    #[error("scenario {name}: {reason}")]
    Flags { name: String, reason: String },
    #[error("scenario {name}: {source}")]
    Options { name: String, source: OptionFault },
    #[error("scenario {0} would never end: it names neither --messages nor --time")]
    Endless(String),
}

#[derive(Parser)]
#[command(name = "scenario", no_binary_name = true, disable_help_flag = true)]
struct ScenarioFlags {
    #[command(flatten)]
    load: LoadOptions,
}

impl Scenario {
    /// One run of it against a target, under names that no earlier run has used: what that left
    /// behind must not be met again. `mark` tells this run from all others.
    pub(crate) fn against(
        &self,
        target: &Target,
        client: ClientOptions,
        threads: u32,
        mark: u64,
    ) -> RunSpec {
        let mut load = self.load.clone();
        load.queue = format!("{}-{mark:016x}", load.queue);
        load.exchange = load
            .exchange
            .map(|exchange| format!("{exchange}-{mark:016x}"));
        RunSpec {
            endpoints: vec![target.endpoint.clone()],
            client,
            watched: Watched {
                pid: target.pid,
                data_dir: target.data_dir.clone(),
            },
            load,
            flags: self.flags.clone(),
            threads,
        }
    }

    /// A built-in scenario of this name, else the file.
    ///
    /// # Errors
    /// Any [`ScenarioFault`].
    pub(crate) fn find(name_or_file: &str) -> Result<Self, ScenarioFault> {
        if let Some(found) = BUILT_IN.iter().find(|known| known.name == name_or_file) {
            return Self::parse(found.name, found.about, found.flags);
        }
        let path = std::path::Path::new(name_or_file);
        let Ok(metadata) = path.metadata() else {
            return Err(ScenarioFault::Unknown(name_or_file.to_owned()));
        };
        if metadata.len() > FILE_BYTES_MAX {
            return Err(ScenarioFault::TooLong(name_or_file.to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(|source| ScenarioFault::Unreadable {
            path: name_or_file.to_owned(),
            source,
        })?;
        let name = path
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        Self::parse(&name, &first_comment(&text), &text)
    }

    /// Lasts for another time, if it is a scenario that lasts for a time.
    pub(crate) fn lasting(mut self, seconds: Option<f64>) -> Self {
        if let (Some(seconds), Some(before)) = (seconds, self.load.time) {
            self.load.time = Some(seconds);
            let (was, is) = (format!("--time {before}"), format!("--time {seconds}"));
            self.flags = self.flags.replace(&was, &is);
        }
        self
    }

    /// A part of the load, or several times as much: fewer or more messages, shorter or longer.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        let load = &mut self.load;
        load.messages = load
            .messages
            .map(|messages| ((messages as f64 * factor) as u64).max(1));
        load.time = load.time.map(|seconds| seconds * factor);
        if factor != 1.0 {
            self.flags = format!("{} [scaled by {factor}]", self.flags);
        }
        self
    }

    fn parse(name: &str, about: &str, text: &str) -> Result<Self, ScenarioFault> {
        let name = name.to_owned();
        let words = words(text).ok_or_else(|| ScenarioFault::OpenQuote { name: name.clone() })?;
        let flags = ScenarioFlags::try_parse_from(&words).map_err(|fault| {
            let reason = fault.to_string();
            ScenarioFault::Flags {
                name: name.clone(),
                reason: reason.trim_start_matches("error: ").trim_end().to_owned(),
            }
        })?;
        let load = flags.load;
        load.check().map_err(|source| ScenarioFault::Options {
            name: name.clone(),
            source,
        })?;
        if load.messages.is_none() && load.time.is_none() {
            return Err(ScenarioFault::Endless(name));
        }
        Ok(Self {
            name,
            about: about.to_owned(),
            flags: words.join(" "),
            load,
        })
    }
}

fn first_comment(text: &str) -> String {
    let comment = text.lines().find_map(|line| line.trim().strip_prefix('#'));
    comment.unwrap_or_default().trim().to_owned()
}

/// Splits at blanks outside quotes and leaves out comments; none when a quote stays open.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') if word.is_none() => {
                quote = Some(letter);
                word = Some(String::new());
            }
            (None, '#') if word.is_none() => {
                letters.by_ref().find(|letter| *letter == '\n');
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Scenario, ScenarioFault> {
        Scenario::parse("s", "", text)
    }

    #[test]
    fn every_built_in_scenario_can_be_run_and_has_its_own_name() {
        for known in BUILT_IN {
            let found = Scenario::find(known.name);
            let found = found.unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(found.about, known.about);
        }
        let mut names: Vec<&str> = BUILT_IN.iter().map(|known| known.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BUILT_IN.len());
    }

    #[test]
    fn the_scenarios_that_are_promised_exist() {
        for name in [
            "autoack-16",
            "autoack-1k",
            "confirm-16",
            "confirm-1k",
            "quorum-confirm-1k",
            "confirm-window-1",
            "confirm-window-100",
            "confirm-window-1000",
            "fanout-10",
            "many-queues-1000",
            "backlog",
            "latency-5k",
            "requeue",
            "connect-churn",
            "declare-churn",
        ] {
            assert!(Scenario::find(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_file_may_span_lines_comment_and_quote() {
        let scenario =
            parse("# about\n--size 16   # bytes\n--queue-args '{\"x-max-length\": 5}'\n--time 1\n")
                .unwrap();
        let arguments = scenario.load.queue_args.unwrap();
        assert!(arguments.table.contains_key("x-max-length"));
        assert_eq!(scenario.load.time, Some(1.0));
        assert_eq!(first_comment("\n  # about it\n# more"), "about it");
    }

    #[test]
    fn json_without_blanks_needs_no_quotes() {
        let words = words("--headers {\"a\":\"b\"} ''").unwrap();
        assert_eq!(words, ["--headers", "{\"a\":\"b\"}", ""]);
    }

    #[test]
    fn only_a_scenario_that_lasts_for_a_time_can_last_for_another() {
        let timed = parse("--size 16 --time 10").unwrap().lasting(Some(2.5));
        assert_eq!(timed.load.time, Some(2.5));
        assert_eq!(timed.flags, "--size 16 --time 2.5");
        let counted = parse("--messages 10").unwrap().lasting(Some(2.5));
        assert_eq!(counted.load.time, None);
    }

    #[test]
    fn a_scaled_scenario_says_so_and_has_at_least_one_message() {
        let scaled = parse("--messages 10 --time 4").unwrap().scaled(0.25);
        assert_eq!(
            (scaled.load.messages, scaled.load.time),
            (Some(2), Some(1.0))
        );
        assert!(scaled.flags.contains("0.25"), "{}", scaled.flags);
        assert_eq!(
            parse("--messages 1").unwrap().scaled(0.1).load.messages,
            Some(1)
        );
    }

    #[test]
    fn the_programs_of_the_disk_are_scenarios() {
        for name in crate::disk::PROGRAMS {
            assert!(Scenario::find(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn bad_scenarios_are_named_with_their_fault() {
        let fault = |text| parse(text).unwrap_err().to_string();
        assert!(fault("--size 16").contains("would never end"));
        assert!(fault("--time 1 --colour red").contains("--colour"));
        assert!(fault("--queue 'a --time 1").contains("quote"));
        assert!(fault("--time 1 --rate 0").contains("--rate"));
        let unknown = Scenario::find("no-such-scenario").unwrap_err();
        assert!(unknown.to_string().contains("no-such-scenario"));
    }
}
