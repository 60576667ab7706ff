//! Closing connections.

use clap::Subcommand;
use management_api::{api_path, encoded};
use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::progress;
use crate::shell::Shell;

/// Closes connections.
#[derive(Debug, Subcommand)]
pub(crate) enum Close {
    /// One by its name.
    #[command(alias = "connections")]
    Connection { name: String },
    /// All of a user.
    User {
        #[arg(id = "of_user", value_name = "USER")]
        user: String,
    },
    /// All, or all of the virtual host that is named.
    All,
}

impl Close {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let client = shell.client()?;
        match self {
            Self::Connection { name } => {
                client
                    .delete(&api_path(["connections", name]))
                    .map_err(|error| {
                        Failure::from(error)
                            .while_doing(&format!("close connection '{name}'"))
                            .next("sluicectl list connections")
                    })?;
                shell.say(format!("connection '{name}': closed"));
            }
            Self::User { user } => {
                client.delete(&api_path(["connections", "username", user]))?;
                shell.say(format!("connections of '{user}': closed"));
            }
            Self::All => {
                let closed = all(shell, shell.vhost_named())?;
                shell.say(format!("{closed} connections closed"));
            }
        }
        Ok(())
    }
}

/// Closes all connections, or those of a virtual host; answers how many.
pub(crate) fn all(shell: &Shell, vhost: Option<&str>) -> Result<u64> {
    let client = shell.client()?;
    let list = match vhost {
        Some(vhost) => api_path(["vhosts", vhost, "connections"]),
        None => "/api/connections".to_owned(),
    };
    let list = client.get(&list)?;
    let rows: &[Value] = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let bar = progress::bar(rows.len() as u64, "closed", shell.quiet());
    let mut closed = 0;
    for name in rows.iter().filter_map(|row| row["name"].as_str()) {
        match client.delete(&format!("/api/connections/{}", encoded(name))) {
            Ok(()) => closed += 1,
            // It went by itself.
            Err(error) if super::delete::is_missing(&error) => {}
            Err(error) => return Err(error.into()),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(closed)
}
