//! Brokers under names of a person's own.

use clap::Subcommand;
use serde_json::json;

use crate::contexts::{Context, Contexts, URL_DEFAULT};
use crate::failure::Result;
use crate::shell::Shell;

use super::declare::read_secret;

/// Brokers under names of your own.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// Keeps a broker under a name; the first one is taken into use.
    #[command(alias = "set")]
    Add {
        name: String,
        /// Its HTTP API.
        #[arg(id = "context_url", long = "at", alias = "address", value_name = "URL")]
        at: Option<String>,
        /// Who asks.
        #[arg(long = "as", value_name = "USER")]
        login: Option<String>,
        /// The password; read from standard input when it is `-`.
        #[arg(long = "secret", value_name = "PASSWORD")]
        secret: Option<String>,
    },
    /// Takes a context into use; `-` goes back to the one before.
    Use {
        #[arg(allow_hyphen_values = true)]
        name: String,
    },
    /// Lists them.
    #[command(alias = "ls")]
    List,
    /// Forgets one.
    #[command(alias = "rm")]
    Remove { name: String },
}

impl ContextCommand {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let mut contexts = Contexts::load()?;
        match self {
            Self::Add {
                name,
                at,
                login,
                secret,
            } => {
                let shared = shell.shared();
                let secret = secret.as_ref().or(shared.password.as_ref());
                let context = Context {
                    url: at
                        .as_ref()
                        .or(shared.url.as_ref())
                        .map_or(URL_DEFAULT, |url| url)
                        .to_owned(),
                    user: login.clone().or(shared.user.clone()),
                    password: secret.map(|secret| read_secret(secret)).transpose()?,
                    vhost: shared.vhost.clone(),
                    ca: shared.ca.clone(),
                };
                contexts.contexts.insert(name.clone(), context);
                if contexts.current.is_none() {
                    contexts.switch(name)?;
                }
                contexts.save()?;
                shell.say(format!("context '{name}': kept"));
            }
            Self::Use { name } => {
                let name = contexts.switch(name)?;
                contexts.save()?;
                shell.say(format!("context '{name}': in use"));
            }
            Self::Remove { name } => {
                contexts.remove(name)?;
                contexts.save()?;
                shell.say(format!("context '{name}': forgotten"));
            }
            Self::List => {
                let rows: Vec<_> = contexts
                    .contexts
                    .iter()
                    .map(|(name, context)| {
                        let in_use = contexts.current.as_ref() == Some(name);
                        json!({
                            "current": if in_use { "*" } else { "" },
                            "name": name,
                            "url": context.url,
                            "user": context.user,
                            "vhost": context.vhost,
                        })
                    })
                    .collect();
                let usual = [
                    ("", "current"),
                    ("NAME", "name"),
                    ("URL", "url"),
                    ("USER", "user"),
                    ("VHOST", "vhost"),
                ];
                shell.rows(&rows, &usual, "name")?;
            }
        }
        Ok(())
    }
}
