//! Policy files: judged without a broker, compared with one, and put into force on one.
//!
//! A file is read by the rules that a broker reads it by, so that what passes here passes there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use management_api::api_path;
use serde_json::{Value, json};

use super::queue::About;
use crate::failure::{DATA, Failure, Result};
use crate::output::cell;
use crate::shell::{Shell, print};

/// Checks, compares and applies policy files.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Tells what is wrong with a file, without a broker.
    Check {
        /// The file (FILE.d beside it is read, too), or a folder of *.yaml.
        file: PathBuf,
    },
    /// Shows what would change if the broker's policy files were these; changes nothing.
    Plan {
        /// As for check.
        file: PathBuf,
    },
    /// Sets what the file holds and the broker has otherwise, all in one request.
    Apply {
        /// As for check.
        file: PathBuf,
        /// Deletes what the file does not hold, in the virtual hosts that it names and in --vhost.
        #[arg(long)]
        prune: bool,
    },
    /// Shows how the broker's policies differ from a file; exit code 65 when they do.
    Drift {
        /// As for check.
        file: PathBuf,
    },
    /// The policies of a queue, and each value that holds with where it comes from.
    Why(About),
}

impl Policy {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        match self {
            Self::Check { file } => check(shell, file),
            Self::Plan { file } => plan(shell, file),
            Self::Apply { file, prune } => apply(shell, file, *prune),
            Self::Drift { file } => drift(shell, file),
            Self::Why(about) => why(shell, about),
        }
    }
}

/// What policy files hold, as the API writes it.
struct Wanted {
    /// For the plan: the rules' own form.
    policies: Value,
    defaults: Value,
    /// By list, vhost and name.
    by_key: BTreeMap<Key, Value>,
    vhosts: BTreeSet<String>,
}

/// The list, the vhost and the name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    list: &'static str,
    vhost: String,
    name: String,
}

impl Key {
    fn shown(&self) -> String {
        let kind = match self.list {
            USER => "policy",
            _ => "operator policy",
        };
        format!("{kind} {} of vhost {}", self.name, self.vhost)
    }
}

/// The lists of policies as paths of the API.
const USER: &str = "policies";
const OPERATOR: &str = "operator-policies";

fn read(file: &Path) -> Result<Wanted> {
    let files = settings::load_policies(file).map_err(|error| {
        let faults: Vec<String> = error.faults.iter().map(ToString::to_string).collect();
        Failure::new(DATA, format!("{} is not valid", file.display()))
            .why(faults.join("\n        "))
            .next("config/policies.yaml shows every key")
    })?;
    Ok(Wanted::new(
        serde_json::to_value(files.policies)?,
        serde_json::to_value(files.defaults)?,
    ))
}

impl Wanted {
    fn new(policies: Value, defaults: Value) -> Self {
        let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let by_key: BTreeMap<Key, Value> = items(&policies)
            .iter()
            .map(|held| {
                let list = match held["scope"].as_str() {
                    Some("operator") => OPERATOR,
                    _ => USER,
                };
                let policy = &held["policy"];
                let key = Key {
                    list,
                    vhost: cell(held.get("vhost")),
                    name: cell(policy.get("name")),
                };
                (key, content(policy))
            })
            .collect();
        let of_defaults = items(&defaults);
        let of_defaults = of_defaults.iter().map(|held| cell(held.get("vhost")));
        let vhosts = by_key.keys().map(|key| key.vhost.clone());
        Self {
            vhosts: vhosts.chain(of_defaults).collect(),
            policies,
            defaults,
            by_key,
        }
    }

    fn counted(&self) -> String {
        let defaults = self.defaults.as_array().map_or(0, Vec::len);
        let policies = self.by_key.len();
        format!("{policies} policies, defaults of {defaults} virtual hosts")
    }
}

/// What a policy says, with what is left out at its default.
fn content(policy: &Value) -> Value {
    let or = |key: &str, default: Value| match &policy[key] {
        Value::Null => default,
        value => value.clone(),
    };
    json!({
        "pattern": policy["pattern"],
        "apply-to": or("apply-to", "all".into()),
        "definition": policy["definition"],
        "priority": or("priority", 0.into()),
    })
}

fn check(shell: &Shell, file: &Path) -> Result<()> {
    let wanted = read(file)?;
    shell.say(format!("{} is valid: {}", file.display(), wanted.counted()));
    Ok(())
}

fn plan(shell: &Shell, file: &Path) -> Result<()> {
    let wanted = read(file)?;
    let body = json!({"policies": wanted.policies, "defaults": wanted.defaults});
    let plan = shell
        .client()?
        .post(&api_path(["policy-files", "plan"]), &body)
        .map_err(|error| Failure::from(error).while_doing(&format!("plan {}", file.display())))?;
    shell.answer(&plan, || plan_text(&plan))
}

fn plan_text(plan: &Value) -> String {
    let items = |key: &str| plan[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = String::new();
    for policy in items("policies") {
        let (from, to) = (&policy["from"], &policy["to"]);
        let sign = match (from.is_null(), to.is_null()) {
            (true, _) => '+',
            (_, true) => '-',
            _ => '~',
        };
        let kind = match policy["scope"].as_str() {
            Some("operator") => "operator policy",
            _ => "policy",
        };
        let (name, vhost) = (cell(policy.get("name")), cell(policy.get("vhost")));
        text.push_str(&format!("{sign} {kind} {name} of vhost {vhost}\n"));
        if sign == '~' && from == to {
            text.push_str("    becomes one that a file holds\n");
        }
        for (field, before, after) in fields_that_differ(from, to) {
            text.push_str(&format!("    {field}: {before} -> {after}\n"));
        }
    }
    for (kind, key) in [("queue", "queues"), ("exchange", "exchanges")] {
        for object in items(key) {
            let (name, vhost) = (cell(object.get("name")), cell(object.get("vhost")));
            text.push_str(&format!("~ {kind} {name} of vhost {vhost}\n"));
            for (word, key) in [("policy", "policy"), ("operator policy", "operator_policy")] {
                let (before, after) = (&object[key][0], &object[key][1]);
                if before != after {
                    let (before, after) = (shown(before), shown(after));
                    text.push_str(&format!("    {word}: {before} -> {after}\n"));
                }
            }
            for value in object["values"].as_array().into_iter().flatten() {
                let key = cell(value.get("key"));
                let (before, after) = (shown(&value["from"]), shown(&value["to"]));
                text.push_str(&format!("    {key}: {before} -> {after}\n"));
            }
        }
    }
    if text.is_empty() {
        text.push_str("nothing would change\n");
    }
    text
}

/// Fields of two policies that are both there.
fn fields_that_differ(from: &Value, to: &Value) -> Vec<(String, String, String)> {
    let (Some(before), Some(after)) = (from.as_object(), to.as_object()) else {
        return Vec::new();
    };
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    keys.into_iter()
        .map(|key| (key, &from[key.as_str()], &to[key.as_str()]))
        .filter(|(_, before, after)| before != after)
        .map(|(key, before, after)| (key.clone(), shown(before), shown(after)))
        .collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A policy that file and broker do not have alike.
struct Drifted {
    key: Key,
    /// What the broker has.
    ours: Option<Value>,
    /// What the file has.
    theirs: Option<Value>,
    /// One of the broker's own files holds it.
    of_file: bool,
}

impl Drifted {
    fn change(&self) -> &'static str {
        match (&self.ours, &self.theirs) {
            (None, _) => "add",
            (_, None) => "only-here",
            _ => "change",
        }
    }

    fn fields(&self) -> Vec<(String, String, String)> {
        let null = Value::Null;
        let (ours, theirs) = (self.ours.as_ref(), self.theirs.as_ref());
        fields_that_differ(ours.unwrap_or(&null), theirs.unwrap_or(&null))
    }

    fn text(&self) -> String {
        let sign = match self.change() {
            "add" => '+',
            "only-here" => '-',
            _ => '~',
        };
        let mut text = format!("{sign} {}\n", self.key.shown());
        for (field, ours, theirs) in self.fields() {
            text.push_str(&format!("    {field}: {ours} -> {theirs}\n"));
        }
        text
    }

    fn json(&self) -> Value {
        json!({"change": self.change(), "list": self.key.list, "vhost": self.key.vhost,
               "name": self.key.name, "from": self.ours, "to": self.theirs})
    }
}

/// What the broker has, with whether one of its files holds it.
fn on_broker(shell: &Shell) -> Result<BTreeMap<Key, (Value, bool)>> {
    let mut found = BTreeMap::new();
    for list in [USER, OPERATOR] {
        let policies = shell.client()?.get(&api_path([list]))?;
        for policy in policies.as_array().into_iter().flatten() {
            let key = Key {
                list,
                vhost: cell(policy.get("vhost")),
                name: cell(policy.get("name")),
            };
            found.insert(key, (content(policy), policy["origin"] == "file"));
        }
    }
    Ok(found)
}

/// How the broker differs in the virtual hosts that the file, or the command line, names.
fn drifted(shell: &Shell, wanted: &Wanted) -> Result<Vec<Drifted>> {
    let ours = on_broker(shell)?;
    let keys: BTreeSet<&Key> = ours.keys().chain(wanted.by_key.keys()).collect();
    let is_meant = |key: &&Key| {
        wanted.vhosts.contains(&key.vhost) || shell.vhost_named() == Some(key.vhost.as_str())
    };
    let all = keys.into_iter().filter(is_meant).map(|key| {
        let found = ours.get(key);
        Drifted {
            key: key.clone(),
            ours: found.map(|(content, _)| content.clone()),
            theirs: wanted.by_key.get(key).cloned(),
            of_file: found.is_some_and(|(_, of_file)| *of_file),
        }
    });
    Ok(all.filter(|one| one.ours != one.theirs).collect())
}

fn drift(shell: &Shell, file: &Path) -> Result<()> {
    let wanted = read(file)?;
    let drifted = drifted(shell, &wanted)?;
    let rows: Vec<Value> = drifted.iter().map(Drifted::json).collect();
    shell.answer(&Value::Array(rows), || {
        drifted.iter().map(Drifted::text).collect()
    })?;
    match drifted.len() {
        0 => {
            shell.say("no differences");
            Ok(())
        }
        differences => Err(Failure::new(DATA, format!("{differences} differences"))
            .next(format!("sluicectl policy apply {}", file.display()))),
    }
}

fn apply(shell: &Shell, file: &Path, prune: bool) -> Result<()> {
    let wanted = read(file)?;
    if wanted
        .defaults
        .as_array()
        .is_some_and(|list| !list.is_empty())
    {
        return Err(
            Failure::new(DATA, "defaults of virtual hosts cannot be set from afar")
                .why("they are kept by the broker's own policy files")
                .next("put the file where the broker's key policies.path points"),
        );
    }
    let drifted = drifted(shell, &wanted)?;
    let (set, gone): (Vec<&Drifted>, Vec<&Drifted>) =
        drifted.iter().partition(|one| one.theirs.is_some());
    if let Some(held) = set.iter().find(|one| one.of_file) {
        let what = format!("the broker's own policy files hold {}", held.key.shown());
        return Err(Failure::new(DATA, what)
            .why("only those files change it; nothing was applied")
            .next("change the file, or take the policy out of it"));
    }
    if !set.is_empty() {
        shell
            .client()?
            .post(&api_path(["definitions"]), &definitions(&set))
            .map_err(|error| {
                Failure::from(error).while_doing(&format!("apply {}", file.display()))
            })?;
    }
    let mut done: String = set.iter().map(|one| one.text()).collect();
    if prune {
        // What the broker's own files hold is theirs to drop.
        for one in gone.into_iter().filter(|one| !one.of_file) {
            let Key { list, vhost, name } = &one.key;
            shell
                .client()?
                .delete(&api_path([*list, vhost.as_str(), name.as_str()]))?;
            done.push_str(&one.text());
        }
    }
    match done.is_empty() {
        true => shell.say("nothing to change"),
        false => print(&done),
    }
    Ok(())
}

/// Policies as definitions, which are taken whole or not at all.
fn definitions(set: &[&Drifted]) -> Value {
    let named = |one: &Drifted, fields: Value| {
        let mut item = json!({"vhost": one.key.vhost, "name": one.key.name});
        for (field, value) in fields.as_object().into_iter().flatten() {
            item[field] = value.clone();
        }
        item
    };
    let of = |list: &str| -> Vec<(&Drifted, Value)> {
        let wanted = set.iter().filter(|one| one.key.list == list);
        wanted
            .map(|one| (*one, one.theirs.clone().unwrap_or_default()))
            .collect()
    };
    let policies = of(USER).into_iter();
    let policies: Vec<Value> = policies.map(|(one, policy)| named(one, policy)).collect();
    // rabbitmq: operator policies travel as parameters
    let operator = of(OPERATOR).into_iter();
    let operator: Vec<Value> = operator
        .map(|(one, policy)| {
            named(
                one,
                json!({"component": "operator_policy", "value": policy}),
            )
        })
        .collect();
    json!({"policies": policies, "parameters": operator})
}

fn why(shell: &Shell, about: &About) -> Result<()> {
    let settings = about.ask(shell, "settings")?;
    shell.answer(&settings, || {
        let mut text = String::new();
        for (word, key) in [("policy", "policy"), ("operator policy", "operator_policy")] {
            text.push_str(&format!("{word}: {}\n", shown(&settings[key])));
        }
        let mut table = crate::output::Table::new(["SETTING", "VALUE", "FROM"]);
        for row in settings["settings"].as_array().into_iter().flatten() {
            table.push([
                cell(row.get("key")),
                cell(row.get("value")),
                cell(row.get("origin")),
            ]);
        }
        text + &table.to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_tells_each_policy_and_each_value_from_and_to() {
        let plan = json!({
            "policies": [
                {"vhost": "/", "scope": "user", "name": "limit",
                 "from": {"pattern": "^q", "priority": 0}, "to": {"pattern": "^q", "priority": 3}},
                {"vhost": "/", "scope": "operator", "name": "cap", "from": null, "to": {}},
            ],
            "queues": [{"vhost": "/", "name": "q", "policy": ["limit", "limit"],
                        "operator_policy": [null, "cap"],
                        "values": [{"key": "max-length", "from": null, "to": 7}]}],
            "exchanges": [],
        });
        insta::assert_snapshot!(plan_text(&plan), @r"
        ~ policy limit of vhost /
            priority: 0 -> 3
        + operator policy cap of vhost /
        ~ queue q of vhost /
            operator policy: none -> cap
            max-length: none -> 7
        ");
        assert_eq!(plan_text(&json!({})), "nothing would change\n");
    }

    #[test]
    fn what_a_policy_leaves_out_is_its_default() {
        let written = json!({"pattern": "x", "definition": {"expires": 5}});
        let shown = json!({"pattern": "x", "definition": {"expires": 5}, "apply-to": "all",
                           "priority": 0, "vhost": "/", "name": "p", "origin": "file"});
        assert_eq!(content(&written), content(&shown));
    }
}
