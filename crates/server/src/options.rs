//! The command line. It decides nothing: every option is a key of the settings under another name.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use settings::{Assignment, Sources};

/// SluiceMQ, an AMQP 0-9-1 broker. Without options it serves with built-in defaults and keeps its
/// data in ./data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Parser)]
#[command(name = "sluicemq", version, disable_help_subcommand = true)]
pub(crate) struct Options {
    /// What to do instead of serving.
    #[command(subcommand)]
    pub(crate) task: Option<Task>,

    /// Configuration file (YAML); conf.d/*.yaml beside it are read, too.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,

    /// RabbitMQ's rabbitmq.conf; what it sets counts less than any other source.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) rabbitmq_conf: Option<PathBuf>,

    /// Folder for everything durable, as the key node.data_dir.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<String>,

    /// Sets one key, as in --set listeners.amqp=127.0.0.1:5673; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", global = true)]
    pub(crate) assignments: Vec<String>,
}

/// What the program can do besides serving.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Task {
    /// Reads the configuration and the policy files, tells what is wrong or what differs from the
    /// defaults, and ends.
    CheckConfig,
    /// Tells what a key or a section means, its default, and its value here.
    Explain {
        /// A key such as limits.heartbeat, or a section such as limits; all without one.
        key: Option<String>,
    },
    /// Reads a data folder that no broker uses, tells what is in it and what is damaged, and changes
    /// nothing in it.
    CheckData {
        /// The data folder.
        dir: PathBuf,
        /// Saves the readable messages here: one file a queue, one JSON object a line.
        #[arg(long, value_name = "FOLDER")]
        salvage: Option<PathBuf>,
    },
}

impl Options {
    /// Where the settings come from, with this process's environment.
    pub(crate) fn sources(&self) -> Sources {
        let data_dir = self.data_dir.iter().map(|folder| Assignment::Named {
            option: "--data-dir",
            key: "node.data_dir",
            value: folder.clone(),
        });
        let set = self.assignments.iter().cloned().map(Assignment::Set);
        Sources {
            rabbitmq_conf: self.rabbitmq_conf.clone(),
            file: self.config.clone(),
            variables: std::env::vars_os().collect(),
            // The option made for the key is the more deliberate one, so it comes last.
            assignments: set.chain(data_dir).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from([&["sluicemq"], arguments].concat())
    }

    #[test]
    fn every_option_may_be_left_out() {
        assert_eq!(
            parsed(&[]).expect("nothing is required"),
            Options::default()
        );
    }

    #[test]
    fn set_may_be_repeated_and_keeps_its_order() {
        let options = parsed(&["--set", "a=1", "--set=b=2", "--set", "a=3"]).expect("valid");
        assert_eq!(options.assignments, ["a=1", "b=2", "a=3"]);
    }

    #[test]
    fn the_data_dir_option_wins_over_set() {
        let options = parsed(&["--data-dir", "here", "--set", "node.data_dir=there"]);
        let sources = options.expect("valid").sources();
        let settings = settings::load(&sources).expect("no faults").settings;
        assert_eq!(settings.node.data_dir, PathBuf::from("here"));
    }

    #[test]
    fn unknown_options_and_words_are_refused() {
        for arguments in [&["--bogus"][..], &["serve"], &["--set"], &["--config"]] {
            let error = parsed(arguments).expect_err("refused");
            assert!(error.use_stderr(), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn the_version_is_told_without_starting() {
        let told = parsed(&["--version"]).expect_err("ends early");
        assert!(!told.use_stderr());
        assert_eq!(
            told.to_string(),
            format!("sluicemq {}\n", env!("CARGO_PKG_VERSION"))
        );
    }
}
