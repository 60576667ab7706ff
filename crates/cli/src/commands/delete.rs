//! Removing things.

use clap::{Args, Subcommand};
use management_api::api_path;

use crate::arguments::Named;
use crate::failure::{Failure, Result};
use crate::kinds::exchange_in_path;
use crate::shell::Shell;

use super::bind::Bind;

/// Removes something.
#[derive(Args, Debug)]
pub(crate) struct Delete {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A queue with its messages.
    #[command(alias = "queues")]
    Queue {
        #[command(flatten)]
        named: Named,
        /// Only when it has no messages.
        #[arg(long)]
        if_empty: bool,
        /// Only when it has no consumers.
        #[arg(long)]
        if_unused: bool,
        /// Is content when there is none.
        #[arg(long, alias = "idempotently")]
        if_there: bool,
    },
    /// An exchange.
    #[command(alias = "exchanges")]
    Exchange {
        #[command(flatten)]
        named: Named,
        /// Only when nothing is bound to it.
        #[arg(long)]
        if_unused: bool,
        /// Is content when there is none.
        #[arg(long, alias = "idempotently")]
        if_there: bool,
    },
    /// A binding.
    #[command(alias = "bindings")]
    Binding(Bind),
    /// A virtual host with all that is in it.
    #[command(alias = "vhosts")]
    Vhost(Thing),
    /// A user.
    #[command(alias = "users")]
    User(Thing),
    /// What a user may do in the virtual host.
    #[command(alias = "permission")]
    Permissions {
        #[arg(id = "of_user", value_name = "USER")]
        user: String,
    },
    /// Which routing keys a user may use with a topic exchange.
    #[command(alias = "topic-permission")]
    TopicPermissions {
        #[arg(id = "of_user", value_name = "USER")]
        user: String,
    },
    /// A policy.
    #[command(alias = "policies")]
    Policy(Thing),
    /// An operator policy.
    #[command(alias = "operator-policies", alias = "operator_policy")]
    OperatorPolicy(Thing),
    /// A parameter of a virtual host.
    #[command(alias = "parameters")]
    Parameter { component: String, name: String },
    /// A parameter of the whole cluster.
    #[command(alias = "global-parameters", alias = "global_parameter")]
    GlobalParameter(Thing),
    /// A limit of the virtual host.
    #[command(alias = "vhost-limits", alias = "vhost_limit")]
    VhostLimit { name: String },
    /// A limit of a user.
    #[command(alias = "user-limits", alias = "user_limit")]
    UserLimit {
        #[arg(id = "of_user", value_name = "USER")]
        user: String,
        name: String,
    },
}

#[derive(Args, Debug)]
struct Thing {
    #[command(flatten)]
    named: Named,
    /// Is content when there is none.
    #[arg(long, alias = "idempotently")]
    if_there: bool,
}

impl Delete {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let vhost = shell.vhost();
        let (what, path, if_there) = match &self.what {
            What::Binding(bind) => return bind.unbind(shell),
            What::Queue {
                named,
                if_empty,
                if_unused,
                if_there,
            } => {
                let name = named.get();
                let path = format!(
                    "{}?if-empty={if_empty}&if-unused={if_unused}",
                    api_path(["queues", vhost, name])
                );
                (format!("queue '{name}'"), path, *if_there)
            }
            What::Exchange {
                named,
                if_unused,
                if_there,
            } => {
                let name = named.get();
                let path = api_path(["exchanges", vhost, exchange_in_path(name)]);
                let path = format!("{path}?if-unused={if_unused}");
                (format!("exchange '{name}'"), path, *if_there)
            }
            What::Vhost(thing) => thing.at("virtual host", &["vhosts"]),
            What::User(thing) => thing.at("user", &["users"]),
            What::Policy(thing) => thing.at("policy", &["policies", vhost]),
            What::OperatorPolicy(thing) => {
                thing.at("operator policy", &["operator-policies", vhost])
            }
            What::GlobalParameter(thing) => thing.at("global parameter", &["global-parameters"]),
            What::Permissions { user } => {
                let path = api_path(["permissions", vhost, user]);
                (format!("permissions of '{user}' in '{vhost}'"), path, false)
            }
            What::TopicPermissions { user } => {
                let path = api_path(["topic-permissions", vhost, user]);
                (
                    format!("topic permissions of '{user}' in '{vhost}'"),
                    path,
                    false,
                )
            }
            What::Parameter { component, name } => {
                let path = api_path(["parameters", component, vhost, name]);
                (format!("parameter '{name}'"), path, false)
            }
            What::VhostLimit { name } => {
                let path = api_path(["vhost-limits", vhost, name]);
                (format!("limit '{name}' of '{vhost}'"), path, false)
            }
            What::UserLimit { user, name } => {
                let path = api_path(["user-limits", user, name]);
                (format!("limit '{name}' of '{user}'"), path, false)
            }
        };
        remove(shell, &what, &path, if_there)
    }
}

impl Thing {
    fn at(&self, what: &str, place: &[&str]) -> (String, String, bool) {
        let name = self.named.get();
        let path = api_path(place.iter().copied().chain([name]));
        (format!("{what} '{name}'"), path, self.if_there)
    }
}

fn remove(shell: &Shell, what: &str, path: &str, if_there: bool) -> Result<()> {
    match shell.client()?.delete(path) {
        Ok(()) => shell.say(format!("{what}: removed")),
        Err(error) if if_there && is_missing(&error) => shell.say(format!("{what}: is not there")),
        Err(error) => return Err(Failure::from(error).while_doing(&format!("delete {what}"))),
    }
    Ok(())
}

/// Whether what was named is not there.
pub(crate) fn is_missing(error: &management_api::ClientError) -> bool {
    matches!(
        error,
        management_api::ClientError::Refused { status: 404, .. }
    )
}
