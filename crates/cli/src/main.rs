//! The program `sluicectl`: operates a broker over its HTTP API.
//!
//! It speaks HTTP as anybody could; must not know the broker's crates, but for `settings`, which
//! judges policy files where no broker is. One file holds one group of commands; `arguments` is the
//! grammar, `called_as` what people type from memory.

mod arguments;
mod called_as;
mod classic;
mod commands;
mod contexts;
mod failure;
mod kinds;
mod output;
mod progress;
mod shell;

use std::process::ExitCode;

use crate::called_as::Invocation;
use crate::failure::Failure;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code)
        }
    }
}

fn run() -> Result<(), Failure> {
    match called_as::invocation(std::env::args_os()) {
        Invocation::Native(arguments) => commands::run(arguments),
        Invocation::Classic(arguments) => classic::run(arguments),
    }
}
