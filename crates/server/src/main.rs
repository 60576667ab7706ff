//! The program `sluicemq`: reads the settings, starts the parts of a broker, stops them in order.
//!
//! Nothing is decided here about messages, logins or storage; this crate only connects the parts.

mod boot_definitions;
mod check;
mod check_data;
mod directory;
mod failure;
mod first_run;
mod listen;
mod logging;
mod node;
mod notify;
mod options;
mod reload;
mod serving;
mod signals;
mod wiring;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use failure::Failure;
use options::{Options, Task};

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(told) => return tell(&told),
    };
    let done = match &options.task {
        Some(Task::CheckConfig) => check::configuration(&options.sources()),
        Some(Task::Explain { key }) => check::explain(key.as_deref(), &options.sources()),
        Some(Task::CheckData { dir, salvage }) => {
            return check_data::run(dir, salvage.as_deref());
        }
        None => start(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Not through the log: its level must not hide why the broker is not there.
            eprintln!("sluicemq: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn start(options: &Options) -> Result<(), Failure> {
    let sources = options.sources();
    let loaded = settings::load(&sources)?;
    let first_user = wiring::first_user(&loaded.settings, |name| std::env::var(name).ok())?;
    let level = logging::start(&loaded.settings.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("sluicemq")
        .build()
        .map_err(Failure::Runtime)?;
    let ended = runtime.block_on(node::run(&sources, loaded, &first_user, level));
    // What still hangs after the drain must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Help, version, or what is wrong with the command line.
fn tell(told: &clap::Error) -> ExitCode {
    // A closed standard output leaves nobody to tell.
    let _ = told.print();
    match told.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(failure::EXIT_USAGE),
    }
}
