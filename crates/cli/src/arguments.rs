//! The grammar of the command line: a verb, what it is about, and options that all verbs share.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use serde_json::{Map, Value};

use crate::commands::{
    bind, close, completions, context, declare, definitions, delete, dev, disk, doctor, events,
    health, list, messages, policy, publisher, purge, queue, redrive, route, show, status, top,
    wait,
};
use crate::failure::{Failure, Result};
use crate::output::Format;

/// Operates a SluiceMQ broker over its HTTP API.
///
/// The verbs of rabbitmqctl, rabbitmq-diagnostics and rabbitmqadmin are understood as well, with
/// hyphens or underscores: `sluicectl list_queues name messages`.
#[derive(Debug, Parser)]
#[command(name = "sluicectl", version, propagate_version = true)]
#[command(after_help = "Words may come in the other order, too: `sluicectl queues list`.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Where and how")]
pub(crate) struct Shared {
    /// Context to use instead of the current one [env: SLUICECTL_CONTEXT].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Address of the HTTP API [env: SLUICECTL_URL].
    #[arg(long, global = true)]
    pub(crate) url: Option<String>,
    /// Host of the HTTP API, instead of a whole address.
    #[arg(short = 'H', long, global = true, conflicts_with = "url")]
    pub(crate) host: Option<String>,
    /// Port of the HTTP API, instead of a whole address.
    #[arg(short = 'P', long, global = true, conflicts_with = "url")]
    pub(crate) port: Option<u16>,
    /// User [env: SLUICECTL_USER].
    #[arg(short = 'u', long, global = true, alias = "username")]
    pub(crate) user: Option<String>,
    /// Password [env: SLUICECTL_PASSWORD].
    #[arg(long, global = true, id = "login_password", value_name = "PASSWORD")]
    pub(crate) password: Option<String>,
    /// Virtual host; lists show all when it is not given.
    #[arg(short = 'p', long, global = true)]
    pub(crate) vhost: Option<String>,
    /// File of certificates (PEM) that vouch for the broker.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Takes any certificate.
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
    /// Seconds to wait for an answer.
    #[arg(long, global = true, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// How results are written.
    #[arg(short, long, global = true, value_enum)]
    pub(crate) output: Option<Format>,
    /// Fields to show, dotted for inner ones.
    #[arg(long, global = true, value_delimiter = ',', value_name = "FIELDS")]
    pub(crate) columns: Vec<String>,
    /// Says nothing but results.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// One verb.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The broker at a glance.
    Status(status::Status),
    /// Lists objects of a kind.
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Shows one object with all its fields.
    Show(show::Show),
    /// Makes something, or changes it.
    #[command(visible_aliases = ["create", "add", "set"])]
    Declare(declare::Declare),
    /// Removes something.
    #[command(visible_aliases = ["remove", "rm", "clear"])]
    Delete(delete::Delete),
    /// Binds a queue or an exchange to an exchange.
    Bind(bind::Bind),
    /// Removes a binding.
    Unbind(bind::Bind),
    /// Removes all ready messages of a queue.
    Purge(purge::Purge),
    /// Publishes a message.
    Publish(messages::Publish),
    /// Takes messages out of a queue and puts them back, unless told otherwise.
    Get(messages::Get),
    /// Takes messages out of a queue for good.
    Consume(messages::Consume),
    /// Looks at messages where they are; nothing is delivered or counted.
    Peek(messages::Peek),
    /// Moves messages to another queue or exchange.
    Move(redrive::Move),
    /// Sends dead letters back to where they came from.
    Redrive(redrive::Redrive),
    /// Tells which queues a message would reach, and why.
    Route(route::Route),
    /// Questions about one queue.
    #[command(subcommand)]
    Queue(queue::Queue),
    /// Checks, compares and applies policy files.
    #[command(subcommand)]
    Policy(policy::Policy),
    /// Questions about one publisher.
    #[command(subcommand)]
    Publisher(publisher::Publisher),
    /// Closes connections.
    #[command(subcommand)]
    Close(close::Close),
    /// Exports, imports and compares definitions.
    #[command(subcommand)]
    Definitions(definitions::Definitions),
    /// The busiest queues, again and again.
    Top(top::Top),
    /// What takes room on the disk, and what keeps it there.
    Disk(disk::Disk),
    /// Waits until something holds.
    #[command(subcommand)]
    Wait(wait::Wait),
    /// What happens on the broker, as it happens.
    Events(events::Events),
    /// Risks of this broker, the greatest first.
    Doctor(doctor::Doctor),
    /// Runs a health check.
    Health(health::HealthCheck),
    /// Who the broker takes me for.
    Whoami,
    /// Brokers under names of your own.
    #[command(subcommand)]
    Context(context::ContextCommand),
    /// Brokers on this machine, to try things out.
    #[command(subcommand)]
    Dev(dev::Dev),
    /// Completions for a shell.
    Completions(completions::Completions),
}

/// The name of an object: bare, or as `--name`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Named {
    /// Its name.
    #[arg(required_unless_present = "name_option")]
    name: Option<String>,
    #[arg(
        long = "name",
        hide = true,
        conflicts_with = "name",
        value_name = "NAME"
    )]
    name_option: Option<String>,
}

impl Named {
    pub(crate) fn get(&self) -> &str {
        let given = self.name.as_deref().or(self.name_option.as_deref());
        given.unwrap_or_default()
    }
}

/// Arguments of a declaration.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DeclaredArguments {
    /// An argument; the value is JSON, or else a text.
    #[arg(long = "arg", short = 'a', value_name = "KEY=VALUE")]
    args: Vec<String>,
    /// All arguments as a JSON object.
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
}

impl DeclaredArguments {
    pub(crate) fn object(&self) -> Result<Map<String, Value>> {
        let mut object = match &self.arguments {
            None => Map::new(),
            Some(text) => json_object(text)?,
        };
        for pair in &self.args {
            let (key, value) = key_value(pair)?;
            object.insert(key, value);
        }
        Ok(object)
    }
}

/// A JSON object that a person typed.
pub(crate) fn json_object(text: &str) -> Result<Map<String, Value>> {
    let wrong = |why: String| Failure::usage(format!("'{text}' is no JSON object")).why(why);
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(wrong("it must be {\"key\": value, …}".into())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// `key=value`, the value as JSON or else as text.
pub(crate) fn key_value(pair: &str) -> Result<(String, Value)> {
    let Some((key, value)) = pair.split_once('=') else {
        let what = format!("'{pair}' is no argument");
        return Err(Failure::usage(what).why("it must be KEY=VALUE"));
    };
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::{Command as Grammar, CommandFactory};

    use super::*;

    /// An argument of a command that shares its id with a shared option would set both.
    fn check(command: &Grammar, shared: &HashSet<String>) {
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            assert!(!shared.contains(id), "{} {id}", command.get_name());
        }
        for inner in command.get_subcommands() {
            check(inner, shared);
        }
    }

    #[test]
    fn no_command_takes_the_name_of_a_shared_option() {
        let grammar = Arguments::command();
        let shared = grammar
            .get_arguments()
            .map(|argument| argument.get_id().to_string());
        let shared: HashSet<String> = shared.collect();
        grammar.clone().debug_assert();
        for command in grammar.get_subcommands() {
            check(command, &shared);
        }
    }
}
