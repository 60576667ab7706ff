//! The commands, one group a file.

pub(crate) mod bind;
pub(crate) mod close;
pub(crate) mod completions;
pub(crate) mod context;
pub(crate) mod declare;
pub(crate) mod definitions;
pub(crate) mod delete;
pub(crate) mod dev;
pub(crate) mod disk;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod list;
pub(crate) mod messages;
pub(crate) mod policy;
pub(crate) mod publisher;
pub(crate) mod purge;
pub(crate) mod queue;
pub(crate) mod redrive;
pub(crate) mod route;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod wait;

use clap::Parser;

use crate::arguments::{Arguments, Command};
use crate::failure::Result;
use crate::shell::Shell;

/// Runs a command of our own grammar.
pub(crate) fn run(words: Vec<String>) -> Result<()> {
    let Arguments { shared, command } = parsed(words);
    // Needs no broker and no file of contexts.
    match &command {
        Command::Completions(completions) => return completions.run(),
        Command::Dev(dev) => return dev.run(),
        _ => {}
    }
    let shell = &Shell::new(shared)?;
    match command {
        Command::Status(status) => status.run(shell),
        Command::List(list) => list.run(shell),
        Command::Show(show) => show.run(shell),
        Command::Declare(declare) => declare.run(shell),
        Command::Delete(delete) => delete.run(shell),
        Command::Bind(bind) => bind.bind(shell),
        Command::Unbind(bind) => bind.unbind(shell),
        Command::Purge(purge) => purge.run(shell),
        Command::Publish(publish) => publish.run(shell),
        Command::Get(get) => get.run(shell),
        Command::Consume(consume) => consume.run(shell),
        Command::Peek(peek) => peek.run(shell),
        Command::Move(moved) => moved.run(shell),
        Command::Redrive(redrive) => redrive.run(shell),
        Command::Route(route) => route.run(shell),
        Command::Queue(queue) => queue.run(shell),
        Command::Policy(policy) => policy.run(shell),
        Command::Publisher(publisher) => publisher.run(shell),
        Command::Close(close) => close.run(shell),
        Command::Definitions(definitions) => definitions.run(shell),
        Command::Top(top) => top.run(shell),
        Command::Disk(disk) => disk.run(shell),
        Command::Wait(wait) => wait.run(shell),
        Command::Events(events) => events.run(shell),
        Command::Doctor(doctor) => doctor.run(shell),
        Command::Health(check) => check.run(shell),
        Command::Whoami => status::whoami(shell),
        Command::Context(context) => context.run(shell),
        Command::Completions(completions) => completions.run(),
        Command::Dev(dev) => dev.run(),
    }
}

fn parsed(words: Vec<String>) -> Arguments {
    Arguments::try_parse_from(words).unwrap_or_else(|error| {
        let code = match error.use_stderr() {
            true => crate::failure::USAGE,
            false => 0,
        };
        // What cannot be printed has no reader.
        let _ = error.print();
        std::process::exit(code.into())
    })
}
