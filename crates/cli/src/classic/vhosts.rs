//! Virtual hosts.

use management_api::api_path;
use serde_json::{Map, Value, json};

use crate::commands::delete::is_missing;
use crate::failure::{DATA, Failure, Result};
use crate::shell::{Shell, print};

use super::asked::Asked;
use super::limits;
use super::lists::fetch;
use super::rows::{self, Field};
use super::{Verb, Verbs};

pub(super) const VERBS: Verbs = &[
    ("add_vhost", add_vhost as Verb),
    ("delete_vhost", delete_vhost),
    ("list_vhosts", list_vhosts),
    ("update_vhost_metadata", update_vhost_metadata),
    ("set_vhost_tags", set_vhost_tags),
    ("enable_vhost_deletion_protection", protect),
    ("disable_vhost_deletion_protection", unprotect),
    ("restart_vhost", restart_vhost),
    ("trace_on", trace_on),
    ("trace_off", trace_off),
    ("set_vhost_limits", set_vhost_limits),
    ("clear_vhost_limits", clear_vhost_limits),
    ("list_vhost_limits", list_vhost_limits),
];

fn no_vhost(vhost: &str) -> Failure {
    Failure::new(DATA, format!("Virtual host '{vhost}' does not exist")).next("list_vhosts")
}

fn existing(shell: &Shell, vhost: &str) -> Result<Value> {
    match shell.client()?.get(&api_path(["vhosts", vhost])) {
        Ok(found) => Ok(found),
        Err(error) if is_missing(&error) => Err(no_vhost(vhost)),
        Err(error) => Err(error.into()),
    }
}

/// The fields of a virtual host that options name.
fn described(asked: &Asked) -> Map<String, Value> {
    let names = [
        ("description", "description"),
        ("tags", "tags"),
        ("default-queue-type", "default_queue_type"),
    ];
    let given = names.iter().filter_map(|(option, field)| {
        let value = asked.option(option)?;
        Some(((*field).to_owned(), json!(value)))
    });
    given.collect()
}

// rabbitmq: adding one that is there is a success and changes nothing
fn add_vhost(shell: &Shell, asked: &Asked) -> Result<()> {
    let [vhost] = asked.exactly(["vhost"])?;
    asked.banner(&format!("Adding vhost \"{vhost}\" ..."));
    let client = shell.client()?;
    match client.get(&api_path(["vhosts", vhost])) {
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => {
            client.put(&api_path(["vhosts", vhost]), &described(asked).into())?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn delete_vhost(shell: &Shell, asked: &Asked) -> Result<()> {
    let [vhost] = asked.exactly(["vhost"])?;
    asked.banner(&format!("Deleting vhost \"{vhost}\" ..."));
    match shell.client()?.delete(&api_path(["vhosts", vhost])) {
        Ok(()) => Ok(()),
        Err(error) if is_missing(&error) => Err(no_vhost(vhost)),
        Err(error) => Err(error.into()),
    }
}

fn list_vhosts(shell: &Shell, asked: &Asked) -> Result<()> {
    const FIELDS: &[Field] = &[
        ("name", "name"),
        ("tracing", "tracing"),
        ("cluster_state", "cluster_state"),
        ("description", "description"),
        ("tags", "tags"),
        ("default_queue_type", "default_queue_type"),
        ("metadata", "metadata"),
        ("protected_from_deletion", "protected_from_deletion"),
    ];
    let fields = rows::chosen(asked, FIELDS, &["name"])?;
    asked.banner("Listing vhosts ...");
    rows::show(asked, &fetch(shell, "/api/vhosts")?, &fields)
}

/// What a virtual host is, for putting it back with a change.
fn kept(found: &Value) -> Map<String, Value> {
    let fields = [
        "description",
        "tags",
        "default_queue_type",
        "tracing",
        "protected_from_deletion",
    ];
    let kept = fields.iter().filter_map(|field| {
        let value = found.get(*field).filter(|value| !value.is_null())?;
        Some(((*field).to_owned(), value.clone()))
    });
    kept.collect()
}

fn change(shell: &Shell, vhost: &str, changes: Map<String, Value>) -> Result<()> {
    let mut body = kept(&existing(shell, vhost)?);
    body.extend(changes);
    shell
        .client()?
        .put(&api_path(["vhosts", vhost]), &body.into())?;
    Ok(())
}

fn update_vhost_metadata(shell: &Shell, asked: &Asked) -> Result<()> {
    let [vhost] = asked.exactly(["vhost"])?;
    asked.banner(&format!("Updating metadata of vhost \"{vhost}\" ..."));
    change(shell, vhost, described(asked))
}

fn set_vhost_tags(shell: &Shell, asked: &Asked) -> Result<()> {
    let Some((vhost, tags)) = asked.arguments().split_first() else {
        return asked.exactly(["vhost"]).map(|_| ());
    };
    let listed = tags.join(", ");
    asked.banner(&format!(
        "Setting tags for vhost \"{vhost}\" to [{listed}] ..."
    ));
    change(
        shell,
        vhost,
        Map::from_iter([("tags".to_owned(), json!(tags))]),
    )
}

fn protect(shell: &Shell, asked: &Asked) -> Result<()> {
    let [vhost] = asked.exactly(["vhost"])?;
    asked.banner(&format!("Protecting vhost \"{vhost}\" from deletion ..."));
    existing(shell, vhost)?;
    let path = api_path(["vhosts", vhost, "deletion", "protection"]);
    shell.client()?.post(&path, &json!({}))?;
    Ok(())
}

fn unprotect(shell: &Shell, asked: &Asked) -> Result<()> {
    let [vhost] = asked.exactly(["vhost"])?;
    asked.banner(&format!(
        "Removing deletion protection from vhost \"{vhost}\" ..."
    ));
    existing(shell, vhost)?;
    let path = api_path(["vhosts", vhost, "deletion", "protection"]);
    shell.client()?.delete(&path)?;
    Ok(())
}

/// Virtual hosts do not stop by themselves here: there is nothing to start again.
fn restart_vhost(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.vhost();
    asked.banner(&format!("Trying to restart vhost '{vhost}' ..."));
    existing(shell, vhost)?;
    print(&format!("Vhost '{vhost}' is running\n"));
    Ok(())
}

fn trace_on(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.vhost();
    asked.banner(&format!("Starting tracing for vhost \"{vhost}\" ..."));
    change(
        shell,
        vhost,
        Map::from_iter([("tracing".to_owned(), json!(true))]),
    )?;
    print(&format!("Trace enabled for vhost {vhost}\n"));
    Ok(())
}

fn trace_off(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.vhost();
    asked.banner(&format!("Stopping tracing for vhost \"{vhost}\" ..."));
    change(
        shell,
        vhost,
        Map::from_iter([("tracing".to_owned(), json!(false))]),
    )?;
    print(&format!("Trace disabled for vhost {vhost}\n"));
    Ok(())
}

fn set_vhost_limits(shell: &Shell, asked: &Asked) -> Result<()> {
    let [limits] = asked.exactly(["definition"])?;
    let vhost = asked.vhost();
    asked.banner(&format!(
        "Setting vhost limits to \"{limits}\" for vhost \"{vhost}\" ..."
    ));
    for (name, value) in crate::arguments::json_object(limits)? {
        let path = api_path(["vhost-limits", vhost, &name]);
        shell.client()?.put(&path, &json!({"value": value}))?;
    }
    Ok(())
}

fn clear_vhost_limits(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.vhost();
    asked.banner(&format!("Clearing vhost \"{vhost}\" limits ..."));
    limits::clear_all(shell.client()?, "vhost-limits", vhost)
}

fn list_vhost_limits(shell: &Shell, asked: &Asked) -> Result<()> {
    if asked.has("global") {
        asked.banner("Listing limits for all vhosts ...");
        let fields: [&Field; 2] = [&("vhost", "vhost"), &("limits", "value")];
        return rows::show(asked, &fetch(shell, "/api/vhost-limits")?, &fields);
    }
    let vhost = asked.vhost();
    asked.banner(&format!("Listing limits for vhost \"{vhost}\" ..."));
    let value = limits::of(shell.client()?, "vhost-limits", vhost)?;
    print(&format!("{}\n", Value::Object(value)));
    Ok(())
}
