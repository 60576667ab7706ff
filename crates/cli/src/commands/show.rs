//! One object with all its fields.

use clap::Args;

use crate::arguments::Named;
use crate::failure::{Failure, Result};
use crate::kinds::Kind;
use crate::shell::Shell;

/// Shows one object.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// What it is.
    #[arg(value_enum)]
    kind: Kind,
    #[command(flatten)]
    named: Named,
}

impl Show {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let name = self.named.get();
        let Some(path) = self.kind.path_of(shell.vhost(), name) else {
            return Err(
                Failure::usage("objects of this kind have no name of their own")
                    .next("sluicectl list KIND"),
            );
        };
        let shown = shell
            .client()?
            .get(&path)
            .map_err(|error| Failure::from(error).next("see what there is: sluicectl list KIND"))?;
        shell.object(&shown)
    }
}
