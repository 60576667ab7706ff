//! Policies and parameters.

use management_api::api_path;
use serde_json::{Map, Value, json};

use crate::commands::delete::is_missing;
use crate::failure::{DATA, Failure, Result, UNAVAILABLE};
use crate::shell::Shell;

use super::asked::Asked;
use super::lists::fetch;
use super::rows::{self, Field};
use super::{Verb, Verbs};

pub(super) const VERBS: Verbs = &[
    ("set_policy", set_policy as Verb),
    ("clear_policy", clear_policy),
    ("list_policies", list_policies),
    ("set_operator_policy", set_operator_policy),
    ("clear_operator_policy", clear_operator_policy),
    ("list_operator_policies", list_operator_policies),
    ("list_policies_that_match", list_policies_that_match),
    (
        "list_operator_policies_that_match",
        list_operator_policies_that_match,
    ),
    ("set_parameter", set_parameter),
    ("clear_parameter", clear_parameter),
    ("list_parameters", list_parameters),
    ("set_global_parameter", set_global_parameter),
    ("clear_global_parameter", clear_global_parameter),
    ("list_global_parameters", list_global_parameters),
];

/// Policies, or operator policies: the word in paths, and for people.
#[derive(Clone, Copy)]
struct Sort {
    path: &'static str,
    word: &'static str,
    words: &'static str,
}

const POLICY: Sort = Sort {
    path: "policies",
    word: "policy",
    words: "policies",
};
const OPERATOR: Sort = Sort {
    path: "operator-policies",
    word: "operator policy override",
    words: "operator policy overrides",
};

fn set(shell: &Shell, asked: &Asked, sort: Sort) -> Result<()> {
    let [name, pattern, definition] = asked.exactly(["name", "pattern", "definition"])?;
    let vhost = asked.vhost();
    let priority = asked.option("priority").unwrap_or("0");
    let word = sort.word;
    asked.banner(&format!(
        "Setting {word} \"{name}\" for pattern \"{pattern}\" to \"{definition}\" with priority \
         \"{priority}\" for vhost \"{vhost}\" ..."
    ));
    let number: i64 = priority
        .parse()
        .map_err(|_| Failure::usage(format!("priority '{priority}' is no number")))?;
    let body = json!({
        "pattern": pattern,
        "definition": crate::arguments::json_object(definition)?,
        "priority": number,
        "apply-to": asked.option("apply-to").unwrap_or("all"),
    });
    shell
        .client()?
        .put(&api_path([sort.path, vhost, name]), &body)?;
    Ok(())
}

fn clear(shell: &Shell, asked: &Asked, sort: Sort) -> Result<()> {
    let [name] = asked.exactly(["name"])?;
    let vhost = asked.vhost();
    asked.banner(&format!(
        "Clearing {} \"{name}\" on vhost \"{vhost}\" ...",
        sort.word
    ));
    delete(shell, &api_path([sort.path, vhost, name]))
}

fn delete(shell: &Shell, path: &str) -> Result<()> {
    match shell.client()?.delete(path) {
        Ok(()) => Ok(()),
        // rabbitmq: policies are parameters to its tools
        Err(error) if is_missing(&error) => {
            Err(Failure::new(UNAVAILABLE, "Parameter does not exist").next("list_policies"))
        }
        Err(error) => Err(error.into()),
    }
}

const FIELDS: [&Field; 6] = [
    &("vhost", "vhost"),
    &("name", "name"),
    &("pattern", "pattern"),
    &("apply-to", "apply-to"),
    &("definition", "definition"),
    &("priority", "priority"),
];

fn show(asked: &Asked, mut policies: Vec<Value>) -> Result<()> {
    // The definition is one cell of JSON, but a value of its own in JSON.
    if asked
        .option("formatter")
        .is_none_or(|format| !format.starts_with("json"))
    {
        for policy in &mut policies {
            policy["definition"] = json!(policy["definition"].to_string());
        }
    }
    rows::show(asked, &policies, &FIELDS)
}

fn list(shell: &Shell, asked: &Asked, sort: Sort) -> Result<()> {
    let vhost = asked.vhost();
    asked.banner(&format!("Listing {} for vhost \"{vhost}\" ...", sort.words));
    show(asked, fetch(shell, &api_path([sort.path, vhost]))?)
}

fn matching(shell: &Shell, asked: &Asked, sort: Sort) -> Result<()> {
    let [object] = asked.exactly(["name"])?;
    let vhost = asked.vhost();
    let kind = asked.option("object-type").unwrap_or("queue");
    asked.banner(&format!(
        "Listing {} that match {kind} '{object}' in vhost '{vhost}' ...",
        sort.words
    ));
    let place = if kind == "exchange" {
        "exchanges"
    } else {
        "queues"
    };
    let found = match shell.client()?.get(&api_path([place, vhost, object])) {
        Ok(found) => found,
        Err(error) if is_missing(&error) => {
            let what = format!("{kind} '{object}' was not found in virtual host '{vhost}'");
            return Err(Failure::new(DATA, what).next("list_queues"));
        }
        Err(error) => return Err(error.into()),
    };
    let is_for = |policy: &Value| {
        let pattern = policy["pattern"].as_str().unwrap_or_default();
        let regex = fancy_regex::Regex::new(pattern);
        let fits = match (kind, policy["apply-to"].as_str()) {
            (_, Some("all")) => true,
            ("exchange", Some("exchanges")) => true,
            ("queue", Some("queues")) => true,
            ("queue", Some("classic_queues")) => found["type"] == "classic",
            ("queue", Some("quorum_queues")) => found["type"] == "quorum",
            _ => false,
        };
        fits && regex.is_ok_and(|regex| regex.is_match(object).unwrap_or(false))
    };
    let mut policies = fetch(shell, &api_path([sort.path, vhost]))?;
    policies.retain(is_for);
    policies.sort_by_key(|policy| std::cmp::Reverse(policy["priority"].as_i64()));
    show(asked, policies)
}

fn set_policy(shell: &Shell, asked: &Asked) -> Result<()> {
    set(shell, asked, POLICY)
}

fn clear_policy(shell: &Shell, asked: &Asked) -> Result<()> {
    clear(shell, asked, POLICY)
}

fn list_policies(shell: &Shell, asked: &Asked) -> Result<()> {
    list(shell, asked, POLICY)
}

fn list_policies_that_match(shell: &Shell, asked: &Asked) -> Result<()> {
    matching(shell, asked, POLICY)
}

fn set_operator_policy(shell: &Shell, asked: &Asked) -> Result<()> {
    set(shell, asked, OPERATOR)
}

fn clear_operator_policy(shell: &Shell, asked: &Asked) -> Result<()> {
    clear(shell, asked, OPERATOR)
}

fn list_operator_policies(shell: &Shell, asked: &Asked) -> Result<()> {
    list(shell, asked, OPERATOR)
}

fn list_operator_policies_that_match(shell: &Shell, asked: &Asked) -> Result<()> {
    matching(shell, asked, OPERATOR)
}

fn set_parameter(shell: &Shell, asked: &Asked) -> Result<()> {
    let [component, name, value] = asked.exactly(["component_name", "name", "value"])?;
    let vhost = asked.vhost();
    asked.banner(&format!(
        "Setting runtime parameter \"{name}\" for component \"{component}\" to \"{value}\" in vhost \"{vhost}\" ..."
    ));
    let value: Value = serde_json::from_str(value)?;
    let path = api_path(["parameters", component, vhost, name]);
    shell.client()?.put(&path, &json!({"value": value}))?;
    Ok(())
}

fn clear_parameter(shell: &Shell, asked: &Asked) -> Result<()> {
    let [component, name] = asked.exactly(["component_name", "name"])?;
    let vhost = asked.vhost();
    asked.banner(&format!(
        "Clearing runtime parameter \"{name}\" for component \"{component}\" on vhost \"{vhost}\" ..."
    ));
    delete(shell, &api_path(["parameters", component, vhost, name]))
}

/// Values as JSON in one cell.
fn with_values_as_text(asked: &Asked, mut rows: Vec<Value>) -> Vec<Value> {
    if asked
        .option("formatter")
        .is_none_or(|format| !format.starts_with("json"))
    {
        for row in &mut rows {
            row["value"] = json!(row["value"].to_string());
        }
    }
    rows
}

fn list_parameters(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.vhost();
    asked.banner(&format!(
        "Listing runtime parameters for vhost \"{vhost}\" ..."
    ));
    let mut rows = fetch(shell, "/api/parameters")?;
    rows.retain(|row| row["vhost"] == vhost);
    let fields: [&Field; 3] = [
        &("component", "component"),
        &("name", "name"),
        &("value", "value"),
    ];
    rows::show(asked, &with_values_as_text(asked, rows), &fields)
}

fn set_global_parameter(shell: &Shell, asked: &Asked) -> Result<()> {
    let [name, value] = asked.exactly(["name", "value"])?;
    asked.banner(&format!(
        "Setting global runtime parameter \"{name}\" to \"{value}\" ..."
    ));
    let value: Value = serde_json::from_str(value)?;
    let body = Map::from_iter([("value".to_owned(), value)]);
    shell
        .client()?
        .put(&api_path(["global-parameters", name]), &body.into())?;
    Ok(())
}

fn clear_global_parameter(shell: &Shell, asked: &Asked) -> Result<()> {
    let [name] = asked.exactly(["name"])?;
    asked.banner(&format!("Clearing global runtime parameter \"{name}\" ..."));
    delete(shell, &api_path(["global-parameters", name]))
}

fn list_global_parameters(shell: &Shell, asked: &Asked) -> Result<()> {
    asked.banner("Listing global runtime parameters ...");
    let fields: [&Field; 2] = [&("name", "name"), &("value", "value")];
    let rows = fetch(shell, "/api/global-parameters")?;
    rows::show(asked, &with_values_as_text(asked, rows), &fields)
}
