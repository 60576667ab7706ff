//! Bindings between exchanges, and from exchanges to queues.

use clap::{Args, ValueEnum};
use management_api::api_path;
use serde_json::{Map, Value, json};

use crate::arguments::DeclaredArguments;
use crate::failure::{DATA, Failure, Result};
use crate::kinds::exchange_in_path;
use crate::shell::Shell;

/// Where a binding leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    Queue,
    Exchange,
}

/// A binding.
#[derive(Args, Debug)]
pub(crate) struct Bind {
    /// The exchange it leads from.
    #[arg(required_unless_present = "source_option")]
    source: Option<String>,
    /// The queue or exchange it leads to.
    #[arg(required_unless_present = "destination_option")]
    destination: Option<String>,
    #[arg(long = "source", hide = true, conflicts_with = "source")]
    source_option: Option<String>,
    #[arg(long = "destination", hide = true, conflicts_with = "destination")]
    destination_option: Option<String>,
    /// What it leads to.
    #[arg(long, value_enum, default_value = "queue")]
    to: To,
    /// The binding key.
    #[arg(short, long, default_value = "", alias = "routing-key")]
    key: String,
    #[command(flatten)]
    arguments: DeclaredArguments,
}

impl Bind {
    fn source(&self) -> &str {
        let given = self.source.as_deref().or(self.source_option.as_deref());
        given.unwrap_or_default()
    }

    fn destination(&self) -> &str {
        let given = self.destination.as_deref();
        given
            .or(self.destination_option.as_deref())
            .unwrap_or_default()
    }

    fn path(&self, shell: &Shell) -> String {
        let (kind, destination) = match self.to {
            To::Queue => ("q", self.destination()),
            To::Exchange => ("e", exchange_in_path(self.destination())),
        };
        let source = exchange_in_path(self.source());
        api_path(["bindings", shell.vhost(), "e", source, kind, destination])
    }

    fn shown(&self) -> String {
        format!(
            "binding '{}' -> '{}' by '{}'",
            self.source(),
            self.destination(),
            self.key
        )
    }

    pub(crate) fn bind(&self, shell: &Shell) -> Result<()> {
        let body = json!({"routing_key": self.key, "arguments": self.arguments.object()?});
        shell
            .client()?
            .post(&self.path(shell), &body)
            .map_err(|error| Failure::from(error).while_doing(&format!("make {}", self.shown())))?;
        shell.say(format!("{}: made", self.shown()));
        Ok(())
    }

    pub(crate) fn unbind(&self, shell: &Shell) -> Result<()> {
        let wanted = self.arguments.object()?;
        let client = shell.client()?;
        let between = client.get(&self.path(shell))?;
        let rows = between.as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(found) = rows.iter().find(|row| self.is(row, &wanted)) else {
            return Err(Failure::new(DATA, format!("{} is not there", self.shown()))
                .next("sluicectl list bindings"));
        };
        let key = found["properties_key"].as_str().unwrap_or("~");
        let path = format!("{}/{}", self.path(shell), management_api::encoded(key));
        client.delete(&path)?;
        shell.say(format!("{}: removed", self.shown()));
        Ok(())
    }

    fn is(&self, row: &Value, arguments: &Map<String, Value>) -> bool {
        let theirs = row["arguments"].as_object().cloned().unwrap_or_default();
        row["routing_key"] == self.key.as_str() && theirs == *arguments
    }
}
