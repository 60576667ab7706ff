//! Questions about one publisher.

use clap::Subcommand;
use management_api::api_path;
use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::output::cell;
use crate::shell::Shell;

/// Questions about one publisher.
#[derive(Debug, Subcommand)]
pub(crate) enum Publisher {
    /// Why it is held, or that it is not.
    Why {
        /// A connection or a channel by its name, or by a part of its name that only it has.
        id: String,
    },
}

impl Publisher {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let Self::Why { id } = self;
        let path = api_path(["publishers", id, "why"]);
        let why = shell.client()?.get(&path).map_err(|error| {
            Failure::from(error)
                .while_doing(&format!("ask about publisher '{id}'"))
                .next("sluicectl list channels")
        })?;
        shell.answer(&why, || text(&why))
    }
}

fn text(why: &Value) -> String {
    let mut text = format!("{}: {}\n", cell(why.get("name")), cell(why.get("text")));
    for reason in why["reasons"].as_array().into_iter().flatten() {
        text.push_str(&format!("  {}\n", cell(reason.get("text"))));
    }
    text
}
