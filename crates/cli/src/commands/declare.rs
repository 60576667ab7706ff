//! Making things, or changing them: what is put is as described afterwards.

use std::io::Read;

use clap::{Args, Subcommand};
use management_api::api_path;
use serde_json::{Value, json};

use crate::arguments::{DeclaredArguments, Named, json_object};
use crate::failure::{Failure, Result};
use crate::kinds::exchange_in_path;
use crate::shell::Shell;

use super::bind::Bind;

/// Makes something, or changes it.
#[derive(Args, Debug)]
pub(crate) struct Declare {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A queue, durable unless told otherwise.
    #[command(alias = "queues")]
    Queue {
        #[command(flatten)]
        named: Named,
        /// classic or quorum; the virtual host's own type when not given.
        #[arg(short, long = "type")]
        kind: Option<String>,
        /// Whether it survives a restart.
        #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
        durable: bool,
        /// Goes with its last consumer.
        #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true",
              action = clap::ArgAction::Set)]
        auto_delete: bool,
        #[command(flatten)]
        arguments: DeclaredArguments,
    },
    /// An exchange, durable unless told otherwise.
    #[command(alias = "exchanges")]
    Exchange {
        #[command(flatten)]
        named: Named,
        /// direct, fanout, topic, headers, …
        #[arg(short, long = "type", default_value = "direct")]
        kind: String,
        /// Whether it survives a restart.
        #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
        durable: bool,
        /// Goes with its last binding.
        #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true",
              action = clap::ArgAction::Set)]
        auto_delete: bool,
        /// Takes nothing from publishers.
        #[arg(long)]
        internal: bool,
        #[command(flatten)]
        arguments: DeclaredArguments,
    },
    /// A binding.
    #[command(alias = "bindings")]
    Binding(Bind),
    /// A virtual host.
    #[command(alias = "vhosts")]
    Vhost {
        #[command(flatten)]
        named: Named,
        #[arg(long)]
        description: Option<String>,
        #[arg(long, value_delimiter = ',')]
        tags: Vec<String>,
        /// Type of queues that do not name one.
        #[arg(long, value_name = "TYPE")]
        default_queue_type: Option<String>,
    },
    /// A user.
    #[command(alias = "users")]
    User {
        #[command(flatten)]
        named: Named,
        /// The new user's password; asked from standard input when it is `-`.
        #[arg(
            id = "new_password",
            long = "secret",
            alias = "new-password",
            value_name = "PASSWORD"
        )]
        secret: Option<String>,
        /// A hash instead of a password; empty for a user who logs in by certificate.
        #[arg(long, value_name = "HASH", conflicts_with = "new_password")]
        password_hash: Option<String>,
        /// management, policymaker, monitoring, administrator.
        #[arg(long, value_delimiter = ',', alias = "tag")]
        tags: Vec<String>,
    },
    /// What a user may do in a virtual host.
    #[command(alias = "permission")]
    Permissions {
        /// The user.
        #[arg(id = "of_user", value_name = "USER")]
        user: String,
        #[arg(long, default_value = ".*", value_name = "REGEX")]
        configure: String,
        #[arg(long, default_value = ".*", value_name = "REGEX")]
        write: String,
        #[arg(long, default_value = ".*", value_name = "REGEX")]
        read: String,
    },
    /// Which routing keys a user may use with a topic exchange.
    #[command(alias = "topic-permission")]
    TopicPermissions {
        /// The user.
        #[arg(id = "of_user", value_name = "USER")]
        user: String,
        /// The exchange.
        exchange: String,
        #[arg(long, default_value = ".*", value_name = "REGEX")]
        write: String,
        #[arg(long, default_value = ".*", value_name = "REGEX")]
        read: String,
    },
    /// A policy.
    #[command(alias = "policies")]
    Policy(PolicyBody),
    /// A policy that others cannot go beyond.
    #[command(alias = "operator-policies", alias = "operator_policy")]
    OperatorPolicy(PolicyBody),
    /// A parameter of a virtual host.
    #[command(alias = "parameters")]
    Parameter {
        component: String,
        name: String,
        /// As JSON.
        value: String,
    },
    /// A parameter of the whole cluster.
    #[command(alias = "global-parameters", alias = "global_parameter")]
    GlobalParameter {
        name: String,
        /// As JSON, or else a text.
        value: String,
    },
    /// A limit of the virtual host.
    #[command(alias = "vhost-limits", alias = "vhost_limit")]
    VhostLimit {
        /// max-connections, max-queues, max-channels, max-consumers, max-unacked, …
        name: String,
        #[arg(allow_negative_numbers = true)]
        value: i64,
    },
    /// A limit of a user.
    #[command(alias = "user-limits", alias = "user_limit")]
    UserLimit {
        /// The user.
        #[arg(id = "of_user", value_name = "USER")]
        user: String,
        /// max-connections, max-channels, max-queues, max-consumers, max-unacked, …
        name: String,
        #[arg(allow_negative_numbers = true)]
        value: i64,
    },
}

#[derive(Args, Debug)]
struct PolicyBody {
    #[command(flatten)]
    named: Named,
    /// Regular expression that finds the names it is for.
    #[arg(long, default_value = ".*", value_name = "REGEX")]
    pattern: String,
    /// Its keys as a JSON object.
    #[arg(long, value_name = "JSON")]
    definition: Option<String>,
    /// A key of its definition; the value is JSON, or else a text.
    #[arg(long = "key", short = 'k', value_name = "KEY=VALUE")]
    keys: Vec<String>,
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i64,
    /// queues, classic_queues, quorum_queues, exchanges, all.
    #[arg(long, default_value = "queues")]
    apply_to: String,
}

impl PolicyBody {
    fn json(&self) -> Result<Value> {
        let mut definition = match &self.definition {
            None => Default::default(),
            Some(text) => json_object(text)?,
        };
        for pair in &self.keys {
            let (key, value) = crate::arguments::key_value(pair)?;
            definition.insert(key, value);
        }
        if definition.is_empty() {
            return Err(Failure::usage("a policy needs a definition")
                .next("--key delivery-limit=5, or --definition '{\"max-length\": 1000}'"));
        }
        Ok(json!({
            "pattern": self.pattern,
            "definition": definition,
            "priority": self.priority,
            "apply-to": self.apply_to,
        }))
    }
}

impl Declare {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let vhost = shell.vhost();
        let (what, path, body) = match &self.what {
            What::Binding(bind) => return bind.bind(shell),
            What::Queue {
                named,
                kind,
                durable,
                auto_delete,
                arguments,
            } => {
                let mut arguments = arguments.object()?;
                if let Some(kind) = kind {
                    arguments.insert("x-queue-type".into(), json!(kind));
                }
                let name = named.get();
                let body =
                    json!({"durable": durable, "auto_delete": auto_delete, "arguments": arguments});
                (
                    format!("queue '{name}'"),
                    api_path(["queues", vhost, name]),
                    body,
                )
            }
            What::Exchange {
                named,
                kind,
                durable,
                auto_delete,
                internal,
                arguments,
            } => {
                let name = named.get();
                let body = json!({
                    "type": kind, "durable": durable, "auto_delete": auto_delete,
                    "internal": internal, "arguments": arguments.object()?,
                });
                let path = api_path(["exchanges", vhost, exchange_in_path(name)]);
                (format!("exchange '{name}'"), path, body)
            }
            What::Vhost {
                named,
                description,
                tags,
                default_queue_type,
            } => {
                let name = named.get();
                let mut body = json!({});
                let given = [
                    ("description", description.as_ref().map(|text| json!(text))),
                    ("tags", (!tags.is_empty()).then(|| json!(tags))),
                    (
                        "default_queue_type",
                        default_queue_type.as_ref().map(|kind| json!(kind)),
                    ),
                ];
                for (key, value) in given {
                    if let Some(value) = value {
                        body[key] = value;
                    }
                }
                (
                    format!("virtual host '{name}'"),
                    api_path(["vhosts", name]),
                    body,
                )
            }
            What::User {
                named,
                secret,
                password_hash,
                tags,
            } => {
                let name = named.get();
                let mut body = json!({"tags": tags});
                match (secret, password_hash) {
                    (Some(secret), _) => body["password"] = json!(read_secret(secret)?),
                    (None, Some(hash)) => body["password_hash"] = json!(hash),
                    (None, None) => {
                        return Err(Failure::usage("a user needs a password").next(
                            "--secret PASSWORD, --secret - (reads it), or --password-hash HASH",
                        ));
                    }
                }
                (format!("user '{name}'"), api_path(["users", name]), body)
            }
            What::Permissions {
                user,
                configure,
                write,
                read,
            } => {
                let body = json!({"configure": configure, "write": write, "read": read});
                let path = api_path(["permissions", vhost, user]);
                (format!("permissions of '{user}' in '{vhost}'"), path, body)
            }
            What::TopicPermissions {
                user,
                exchange,
                write,
                read,
            } => {
                let body = json!({"exchange": exchange, "write": write, "read": read});
                let path = api_path(["topic-permissions", vhost, user]);
                (
                    format!("topic permissions of '{user}' in '{vhost}'"),
                    path,
                    body,
                )
            }
            What::Policy(policy) => {
                let name = policy.named.get();
                let path = api_path(["policies", vhost, name]);
                (format!("policy '{name}'"), path, policy.json()?)
            }
            What::OperatorPolicy(policy) => {
                let name = policy.named.get();
                let path = api_path(["operator-policies", vhost, name]);
                (format!("operator policy '{name}'"), path, policy.json()?)
            }
            What::Parameter {
                component,
                name,
                value,
            } => {
                let value: Value = serde_json::from_str(value)?;
                let path = api_path(["parameters", component, vhost, name]);
                (format!("parameter '{name}'"), path, json!({"value": value}))
            }
            What::GlobalParameter { name, value } => {
                let value: Value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
                let path = api_path(["global-parameters", name]);
                (
                    format!("global parameter '{name}'"),
                    path,
                    json!({"value": value}),
                )
            }
            What::VhostLimit { name, value } => {
                let path = api_path(["vhost-limits", vhost, name]);
                (
                    format!("limit '{name}' of '{vhost}'"),
                    path,
                    json!({"value": value}),
                )
            }
            What::UserLimit { user, name, value } => {
                let path = api_path(["user-limits", user, name]);
                (
                    format!("limit '{name}' of '{user}'"),
                    path,
                    json!({"value": value}),
                )
            }
        };
        put(shell, &what, &path, &body)
    }
}

fn put(shell: &Shell, what: &str, path: &str, body: &Value) -> Result<()> {
    let created = shell
        .client()?
        .put(path, body)
        .map_err(|error| Failure::from(error).while_doing(&format!("declare {what}")))?;
    let word = if created {
        "made"
    } else {
        "there, as described"
    };
    shell.say(format!("{what}: {word}"));
    Ok(())
}

/// A password, or `-` to read one.
pub(crate) fn read_secret(secret: &str) -> Result<String> {
    if secret != "-" {
        return Ok(secret.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
