//! A command line of the older tools: options anywhere, with and without an equals sign.

use std::collections::BTreeMap;

use crate::arguments::Shared;
use crate::failure::{Failure, Result, USAGE};

/// Options that stand alone.
const FLAGS: [&str; 19] = [
    "quiet",
    "silent",
    "no-table-headers",
    "longnames",
    "global",
    "if-empty",
    "if-unused",
    "online",
    "offline",
    "local",
    "all",
    "hard",
    "dry-run",
    "insecure",
    "table-headers",
    "verbose",
    "per-connection",
    "skip-if-exists",
    "errors-only",
];

/// Short options by their long names.
const SHORT: [(&str, &str); 9] = [
    ("-p", "vhost"),
    ("-q", "quiet"),
    ("-s", "silent"),
    ("-n", "node"),
    ("-t", "timeout"),
    ("-u", "user"),
    ("-H", "host"),
    ("-P", "port"),
    ("-l", "longnames"),
];

/// What was asked for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    words: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Asked {
    /// The first word is the program's name.
    pub(super) fn parse(line: &[String]) -> Result<Self> {
        let mut asked = Self::default();
        let mut rest = line.iter().skip(1);
        let mut only_words = false;
        while let Some(word) = rest.next() {
            let is_option = word.starts_with('-') && word.len() > 1 && word.parse::<f64>().is_err();
            if only_words || !is_option {
                asked.words.push(word.clone());
                continue;
            }
            if word == "--" {
                only_words = true;
                continue;
            }
            let (name, value) = named(word)?;
            let value = match value {
                Some(value) => value,
                None if FLAGS.contains(&name.as_str()) => "true".into(),
                None => rest
                    .next()
                    .ok_or_else(|| Failure::new(USAGE, format!("option {word} needs a value")))?
                    .clone(),
            };
            asked.options.insert(name, value);
        }
        Ok(asked)
    }

    pub(super) fn verb(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The words behind the verb.
    pub(super) fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The words behind the verb, to be looked at as a whole.
    pub(super) fn words(&self) -> Vec<&str> {
        self.arguments().iter().map(String::as_str).collect()
    }

    /// Exactly so many words behind the verb.
    pub(super) fn exactly<const N: usize>(&self, names: [&str; N]) -> Result<[&str; N]> {
        <[&str; N]>::try_from(self.words()).map_err(|words| {
            let verb = self.verb();
            let wanted = names.map(|name| format!("<{name}>")).join(" ");
            let fault = if words.len() < N {
                "not enough args"
            } else {
                "too many args"
            };
            Failure::new(USAGE, format!("Error (argument validation): {fault}."))
                .next(format!("{verb} {wanted}"))
        })
    }

    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    pub(super) fn has(&self, flag: &str) -> bool {
        self.option(flag).is_some_and(|value| value != "false")
    }

    pub(super) fn vhost(&self) -> &str {
        self.option("vhost").unwrap_or("/")
    }

    /// Tells what is being done, as these tools do before they do it.
    pub(super) fn banner(&self, text: &str) {
        let is_for_people = self
            .option("formatter")
            .is_none_or(|format| format == "table");
        if is_for_people && !self.has("quiet") && !self.has("silent") {
            crate::shell::print(&format!("{text}\n"));
        }
    }

    /// Where the broker is, and who asks.
    pub(super) fn shared(&self) -> Shared {
        let text = |name: &str| self.option(name).map(str::to_owned);
        Shared {
            context: text("context"),
            url: text("url"),
            host: text("host"),
            port: self.option("port").and_then(|port| port.parse().ok()),
            user: text("user"),
            password: text("password"),
            vhost: text("vhost"),
            ca: text("ca").map(Into::into),
            insecure: self.has("insecure"),
            timeout: self
                .option("timeout")
                .and_then(|seconds| seconds.parse().ok()),
            quiet: self.has("quiet") || self.has("silent"),
            ..Shared::default()
        }
    }
}

fn named(word: &str) -> Result<(String, Option<String>)> {
    if let Some(long) = word.strip_prefix("--") {
        return Ok(match long.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (long.to_owned(), None),
        });
    }
    let short = SHORT.iter().find(|(short, _)| *short == word);
    short
        .map(|(_, long)| ((*long).to_owned(), None))
        .ok_or_else(|| Failure::new(USAGE, format!("option {word} is not known")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Asked {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Asked::parse(&words).expect("a command line")
    }

    #[test]
    fn options_may_stand_anywhere() {
        let asked = asked("rabbitmqctl -q list_queues -p v name --formatter=json messages");
        assert_eq!(asked.verb(), "list_queues");
        assert_eq!(asked.arguments(), ["name", "messages"]);
        assert_eq!(
            (asked.vhost(), asked.option("formatter")),
            ("v", Some("json"))
        );
        assert!(asked.has("quiet"));
    }

    #[test]
    fn a_pattern_that_looks_like_an_option_comes_behind_two_hyphens() {
        let asked = asked("rabbitmqctl set_policy p -- --odd {}");
        assert_eq!(asked.arguments(), ["p", "--odd", "{}"]);
    }

    #[test]
    fn negative_numbers_are_words() {
        assert_eq!(asked("x await_online_nodes -1").arguments(), ["-1"]);
    }
}
