//! What happens on the broker, as it happens.

use clap::Args;
use management_api::encoded;
use serde_json::Value;

use crate::failure::{Failure, Result, UNAVAILABLE};
use crate::output::{Format, cell};
use crate::shell::{Shell, print};

/// What happens on the broker, as it happens.
#[derive(Args, Debug)]
pub(crate) struct Events {
    /// Only events whose name begins with this: queue, connection, policy, …
    #[arg(long = "type", value_name = "PREFIX")]
    kind: Option<String>,
    /// Ends after so many.
    #[arg(short, long, value_name = "COUNT")]
    count: Option<usize>,
}

impl Events {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let client = shell.endless_client()?;
        let path = match &self.kind {
            None => "/api/events".to_owned(),
            Some(kind) => format!("/api/events?type={}", encoded(kind)),
        };
        let broken = |error: std::io::Error| {
            Failure::new(UNAVAILABLE, "the stream of events broke off")
                .why(error.to_string())
                .next("sluicectl wait ready; sluicectl events")
        };
        let mut seen = 0;
        for line in client.lines(&path)? {
            let line = line.map_err(broken)?;
            // Other lines keep the stream alive, or name what the data says as well.
            let Some(data) = line.strip_prefix("data:") else {
                continue;
            };
            show(shell, &serde_json::from_str(data.trim())?)?;
            seen += 1;
            if self.count == Some(seen) {
                break;
            }
        }
        Ok(())
    }
}

fn show(shell: &Shell, event: &Value) -> Result<()> {
    if shell.format() == Format::Json {
        print(&format!("{event}\n"));
        return Ok(());
    }
    shell.answer(event, || {
        let field = |key: &str| cell(event.get(key));
        format!(
            "{}  {:<24} {}\n",
            field("time"),
            field("event"),
            field("about")
        )
    })
}
