//! The verbs of `rabbitmqctl`, `rabbitmq-diagnostics` and `rabbitmq-queues`, answered as people
//! and scripts know them: same words, same columns, same exit codes.
// rabbitmq: cli tools 4.3

mod asked;
mod checks;
mod limits;
mod lists;
mod members;
mod node;
mod objects;
mod policies;
mod rows;
mod users;
mod vhosts;

use crate::failure::{Failure, Result, USAGE};
use crate::shell::Shell;

use asked::Asked;

/// What carries a verb out.
type Verb = fn(&Shell, &Asked) -> Result<()>;
/// Verbs with what carries them out.
type Verbs = &'static [(&'static str, Verb)];

const GROUPS: [Verbs; 8] = [
    lists::VERBS,
    members::VERBS,
    users::VERBS,
    vhosts::VERBS,
    policies::VERBS,
    objects::VERBS,
    checks::VERBS,
    node::VERBS,
];

/// Verbs that do something else in our own grammar.
const OURS: [&str; 2] = ["status", "wait"];

fn find(verb: &str) -> Option<Verb> {
    let wanted = verb.replace('-', "_");
    let mut all = GROUPS.iter().copied().flatten();
    all.find(|(name, _)| *name == wanted).map(|(_, run)| *run)
}

/// Whether a word is a verb of these tools and none of ours.
pub(crate) fn knows(verb: &str) -> bool {
    !OURS.contains(&verb) && find(verb).is_some()
}

/// Runs a command of these tools; the first word is the program's name.
pub(crate) fn run(words: Vec<String>) -> Result<()> {
    let asked = Asked::parse(&words)?;
    match asked.verb() {
        "help" | "" => {
            help();
            Ok(())
        }
        "version" => {
            crate::shell::print(concat!(env!("CARGO_PKG_VERSION"), "\n"));
            Ok(())
        }
        verb => match find(verb) {
            None => Err(Failure::new(USAGE, format!("Command '{verb}' not found."))
                .next("sluicectl help; sluicectl list --help")),
            Some(run) => run(&Shell::new(asked.shared())?, &asked),
        },
    }
}

fn help() {
    let mut verbs: Vec<&str> = GROUPS
        .iter()
        .copied()
        .flatten()
        .map(|(verb, _)| *verb)
        .collect();
    verbs.sort_unstable();
    let text = format!(
        "Verbs of rabbitmqctl and rabbitmq-diagnostics that are understood:\n\n  {}\n",
        verbs.join("\n  ")
    );
    crate::shell::print(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_known_once() {
        let mut verbs: Vec<&str> = GROUPS
            .iter()
            .copied()
            .flatten()
            .map(|(verb, _)| *verb)
            .collect();
        let all = verbs.len();
        verbs.sort_unstable();
        verbs.dedup();
        assert_eq!(verbs.len(), all);
    }

    #[test]
    fn our_own_verbs_stay_ours() {
        assert!(knows("list_queues") && knows("list-queues") && knows("ping"));
        assert!(!knows("status") && !knows("list") && !knows("declare"));
    }
}
