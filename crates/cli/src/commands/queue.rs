//! Questions about one queue: what limits it, which settings it has and from where, what it costs.

use clap::{Args, Subcommand};
use management_api::api_path;
use serde_json::{Value, json};

use crate::arguments::Named;
use crate::failure::{Failure, Result};
use crate::output::{Table, cell, duration_ms};
use crate::shell::Shell;

/// Questions about one queue.
#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
    /// What limits this queue, in one line with the figures behind it.
    Why(About),
    /// The settings that hold, each with where it comes from.
    Settings(About),
    /// What it takes on disk, and what keeps it there.
    Disk(About),
}

/// The queue in question.
#[derive(Args, Debug)]
pub(crate) struct About {
    #[command(flatten)]
    named: Named,
}

impl Queue {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        match self {
            Self::Why(about) => {
                let why = about.ask(shell, "why")?;
                shell.answer(&why, || why_text(about.named.get(), &why))
            }
            Self::Settings(about) => {
                let settings = about.ask(shell, "settings")?;
                let rows = settings["settings"].as_array().cloned().unwrap_or_default();
                let usual = [("SETTING", "key"), ("VALUE", "value"), ("FROM", "origin")];
                shell.rows(&rows, &usual, "key")
            }
            Self::Disk(about) => {
                let disk = about.ask(shell, "disk")?;
                shell.object(&disk)
            }
        }
    }
}

impl About {
    pub(super) fn ask(&self, shell: &Shell, question: &str) -> Result<Value> {
        let name = self.named.get();
        let path = api_path(["queues", shell.vhost(), name, question]);
        shell.client()?.get(&path).map_err(|error| {
            Failure::from(error)
                .while_doing(&format!("ask about queue '{name}'"))
                .next("sluicectl list queues --vhost VHOST")
        })
    }
}

fn why_text(name: &str, why: &Value) -> String {
    let field = |key: &str| cell(why.get(key));
    let mut text = format!("{name}: {}\n", field("text"));
    if let Some(next) = why["next"].as_str() {
        text.push_str(&format!("  next: {next}\n"));
    }
    let mut table = Table::headless(2);
    for (key, value) in why["figures"].as_object().into_iter().flatten() {
        let shown = match (key.strip_suffix("_ms"), value.as_u64()) {
            (Some(name), Some(ms)) => (name.replace('_', " "), duration_ms(ms)),
            _ => (key.replace('_', " "), cell(Some(value))),
        };
        table.push([format!("  {}", shown.0), shown.1]);
    }
    text.push_str(&table.to_string());
    let consumers = why["consumers"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if !consumers.is_empty() {
        let mut table = Table::new([
            "CONSUMER",
            "CHANNEL",
            "PREFETCH",
            "UNACKED",
            "OLDEST UNACKED",
        ]);
        for consumer in consumers {
            let oldest = consumer["oldest_unacked_ms"].as_u64().map(duration_ms);
            table.push([
                cell(consumer.get("consumer_tag")),
                cell(consumer.get("channel")),
                cell(consumer.get("prefetch")),
                cell(consumer.get("unacked")),
                oldest.unwrap_or_default(),
            ]);
        }
        text.push_str(&table.to_string());
    }
    if why["verdict"] == json!(null) {
        text.push_str("  the broker gave no verdict\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_comes_with_the_figures_behind_it() {
        let why = json!({
            "verdict": "stuck_consumer",
            "text": "a consumer is stuck: tag c1 has held a message for 2 min 0 s",
            "next": "sluicectl close connection '1.2.3.4:5 -> 6.7.8.9:5672'",
            "figures": {"ready": 10, "oldest_ready_ms": 125_000},
            "consumers": [{"consumer_tag": "c1", "channel": "x (1)", "prefetch": 1, "unacked": 1,
                           "oldest_unacked_ms": 120_000}],
        });
        insta::assert_snapshot!(why_text("orders", &why), @r"
        orders: a consumer is stuck: tag c1 has held a message for 2 min 0 s
          next: sluicectl close connection '1.2.3.4:5 -> 6.7.8.9:5672'
          oldest ready  2 min 5 s
          ready         10
        CONSUMER  CHANNEL  PREFETCH  UNACKED  OLDEST UNACKED
        c1        x (1)           1        1  2 min 0 s
        ");
    }
}
