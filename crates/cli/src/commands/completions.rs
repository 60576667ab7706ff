//! Completions for shells, written from the grammar.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Result;
use crate::shell::print;

/// Completions for a shell.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// bash, zsh, fish, powershell or elvish.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut Arguments::command(),
            "sluicectl",
            &mut script,
        );
        print(&String::from_utf8_lossy(&script));
        Ok(())
    }
}
