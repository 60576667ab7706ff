//! What people type from memory, brought into the one grammar: the names that other tools have,
//! their verbs, and words in the other order.

use std::ffi::OsString;
use std::path::Path;

use clap::ValueEnum;

use crate::classic;
use crate::kinds::Kind;

/// What is asked for, in one of two grammars.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// Ours; the first word is the program's name.
    Native(Vec<String>),
    /// The verbs of `rabbitmqctl` and `rabbitmq-diagnostics`.
    Classic(Vec<String>),
}

/// The tools that this program answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Sluicectl,
    /// `rabbitmqctl`, `rabbitmq-diagnostics`, `rabbitmq-queues`, `rabbitmq-upgrade`.
    Rabbitmqctl,
    Rabbitmqadmin,
}

impl Tool {
    fn of(program: &str) -> Self {
        let name = Path::new(program)
            .file_stem()
            .and_then(|name| name.to_str());
        match name {
            Some(
                "rabbitmqctl" | "rabbitmq-diagnostics" | "rabbitmq-queues" | "rabbitmq-upgrade",
            ) => Self::Rabbitmqctl,
            Some("rabbitmqadmin") => Self::Rabbitmqadmin,
            _ => Self::Sluicectl,
        }
    }
}

pub(crate) fn invocation(arguments: impl Iterator<Item = OsString>) -> Invocation {
    let mut words: Vec<String> = arguments
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let tool = words.first().map_or(Tool::Sluicectl, |name| Tool::of(name));
    if let Some(name) = words.first_mut() {
        "sluicectl".clone_into(name);
    }
    match tool {
        Tool::Rabbitmqctl => return Invocation::Classic(words),
        Tool::Rabbitmqadmin => {
            words.iter_mut().skip(1).for_each(admin_option);
            password_of_user(&mut words);
        }
        Tool::Sluicectl if is_classic(&words) => return Invocation::Classic(words),
        Tool::Sluicectl => {}
    }
    Invocation::Native(verb_first(words))
}

/// Whether the verb is one of `rabbitmqctl`'s that is not ours.
fn is_classic(words: &[String]) -> bool {
    let verb = verb_at(words).and_then(|at| words.get(at));
    verb.is_some_and(|verb| classic::knows(verb))
}

/// Options that take a value, for finding the verb behind them.
const WITH_VALUE: [&str; 23] = [
    "--context",
    "--url",
    "-H",
    "--host",
    "-P",
    "--port",
    "-u",
    "--user",
    "--username",
    "--password",
    "-p",
    "--vhost",
    "--ca",
    "--timeout",
    "-t",
    "-o",
    "--output",
    "--columns",
    "-n",
    "--node",
    "--formatter",
    "-V",
    "--tls-ca-cert-file",
];

/// Where the verb is: the first word that is no option and no option's value.
pub(crate) fn verb_at(words: &[String]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        if !word.starts_with('-') {
            return Some(at);
        }
        at += if WITH_VALUE.contains(&word.as_str()) {
            2
        } else {
            1
        };
    }
    None
}

// rabbitmqadmin: -p is the password, -V the vhost
fn admin_option(word: &mut String) {
    let ours = match word.as_str() {
        "-p" => "--password",
        "-V" => "--vhost",
        "--tls-ca-cert-file" => "--ca",
        "--destination-type" => "--to",
        "--non-interactive" => "--quiet",
        _ => return,
    };
    ours.clone_into(word);
}

/// Behind `declare user` a password is the new user's.
fn password_of_user(words: &mut [String]) {
    let Some(at) = verb_at(words) else {
        return;
    };
    let behind = words.get_mut(at..).unwrap_or_default();
    let is_user = |word: &String| word == "user" || word == "users";
    let is_declaring = behind.iter().take(2).any(|word| word == "declare");
    if is_declaring && behind.iter().take(2).any(is_user) {
        for word in behind {
            if word == "--password" {
                "--secret".clone_into(word);
            }
        }
    }
}

/// Puts the verb before the kind: `queues list` becomes `list queues`; and drops a kind that a
/// verb of ours implies: `purge queue --name x`.
fn verb_first(mut words: Vec<String>) -> Vec<String> {
    let Some(at) = verb_at(&words) else {
        return words;
    };
    let Some(second) = words.get(at + 1).cloned() else {
        return words;
    };
    let first = words.get(at).cloned().unwrap_or_default();
    if matches!(first.as_str(), "purge" | "publish" | "get")
        && matches!(second.as_str(), "queue" | "message" | "messages")
        && words.get(at + 2).is_some_and(|next| next.starts_with("--"))
    {
        words.remove(at + 1);
        return words;
    }
    let kind = Kind::from_str(&first, false);
    let verb = match second.as_str() {
        "list" | "ls" => "list",
        "show" => "show",
        "declare" | "create" | "add" | "set" => "declare",
        "delete" | "remove" | "rm" | "clear" => "delete",
        "purge" if kind == Ok(Kind::Queues) => {
            words.remove(at);
            return words;
        }
        "bind" | "unbind" if kind == Ok(Kind::Exchanges) => {
            words.remove(at);
            return words;
        }
        _ => return words,
    };
    if kind.is_ok() {
        verb.clone_into(&mut words[at]);
        words[at + 1] = first;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invoked(line: &str) -> Invocation {
        invocation(line.split(' ').map(OsString::from))
    }

    fn native(line: &str) -> Invocation {
        Invocation::Native(line.split(' ').map(str::to_owned).collect())
    }

    fn classic(line: &str) -> Invocation {
        Invocation::Classic(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn nouns_and_verbs_may_change_places() {
        assert_eq!(
            invoked("sluicectl queues list"),
            native("sluicectl list queues")
        );
        assert_eq!(
            invoked("sluicectl -p v users add bob"),
            native("sluicectl -p v declare users bob")
        );
        assert_eq!(
            invoked("sluicectl queue why q"),
            native("sluicectl queue why q")
        );
    }

    #[test]
    fn verbs_from_memory_are_known_with_hyphens_and_underscores() {
        for verb in ["list_queues", "list-queues"] {
            let line = format!("sluicectl -q {verb} name messages");
            assert_eq!(invoked(&line), classic(&line));
        }
        assert_eq!(
            invoked("/usr/bin/rabbitmqctl status"),
            classic("sluicectl status")
        );
        assert_eq!(invoked("sluicectl status"), native("sluicectl status"));
    }

    #[test]
    fn the_admin_tool_keeps_its_options() {
        assert_eq!(
            invoked("rabbitmqadmin -u bob -p pw -V v1 purge queue --name q"),
            native("sluicectl -u bob --password pw --vhost v1 purge --name q")
        );
        assert_eq!(
            invoked("rabbitmqadmin --password mine users declare --name bob --password his"),
            native("sluicectl --password mine declare users --name bob --secret his")
        );
    }
}
