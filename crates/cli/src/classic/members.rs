//! Deeds on replica groups: the members of quorum queues, and who leads them.

use management_api::api_path;
use serde_json::{Value, json};

use crate::commands::delete::is_missing;
use crate::failure::{DATA, Failure, Result};
use crate::shell::Shell;

use super::asked::Asked;
use super::rows::{self, Field};
use super::{Verb, Verbs};

pub(super) const VERBS: Verbs = &[
    ("quorum_status", quorum_status as Verb),
    ("add_member", add_member),
    ("delete_member", delete_member),
    ("transfer_leadership", transfer_leadership),
    ("grow", grow),
    ("shrink", shrink),
    ("rebalance", rebalance),
];

fn quorum_status(shell: &Shell, asked: &Asked) -> Result<()> {
    let [queue] = asked.exactly(["queue"])?;
    let vhost = asked.vhost();
    asked.banner(&format!("Status of quorum queue {queue} on node ..."));
    match shell
        .client()?
        .get(&api_path(["queues", "quorum", vhost, queue, "status"]))
    {
        Ok(Value::Array(members)) => {
            let fields: [&Field; 10] = [
                &("Node Name", "Node Name"),
                &("Raft State", "Raft State"),
                &("Membership", "Membership"),
                &("Last Log Index", "Last Log Index"),
                &("Last Written", "Last Written"),
                &("Last Applied", "Last Applied"),
                &("Commit Index", "Commit Index"),
                &("Snapshot Index", "Snapshot Index"),
                &("Term", "Term"),
                &("Messages", "Messages"),
            ];
            rows::show(asked, &members, &fields)
        }
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => {
            let what = format!("queue '{queue}' was not found in virtual host '{vhost}'");
            Err(Failure::new(DATA, what).next("list_queues name type"))
        }
        Err(error) => Err(error.into()),
    }
}

/// The path of a queue's group, with what is to be done there.
fn group_path(asked: &Asked, queue: &str, deed: &[&str]) -> String {
    let path = ["queues", "quorum", asked.vhost(), queue];
    api_path(path.into_iter().chain(deed.iter().copied()))
}

fn add_member(shell: &Shell, asked: &Asked) -> Result<()> {
    let [queue, node] = asked.exactly(["queue", "node"])?;
    asked.banner(&format!(
        "Adding a replica for queue {queue} on node {node}..."
    ));
    let path = group_path(asked, queue, &["replicas", "add"]);
    shell.client()?.post(&path, &json!({"node": node}))?;
    Ok(())
}

fn delete_member(shell: &Shell, asked: &Asked) -> Result<()> {
    let [queue, node] = asked.exactly(["queue", "node"])?;
    asked.banner(&format!(
        "Removing a replica of queue {queue} on node {node}..."
    ));
    let path = group_path(asked, queue, &["replicas", "delete"]);
    shell.client()?.delete_with(&path, &json!({"node": node}))?;
    Ok(())
}

fn transfer_leadership(shell: &Shell, asked: &Asked) -> Result<()> {
    let [queue, node] = asked.exactly(["queue", "node"])?;
    asked.banner(&format!(
        "Transferring leadership of queue {queue} to node {node}..."
    ));
    let path = group_path(asked, queue, &["leader"]);
    shell.client()?.post(&path, &json!({"node": node}))?;
    Ok(())
}

fn grow(shell: &Shell, asked: &Asked) -> Result<()> {
    let [node, strategy] = asked.exactly(["node", "strategy"])?;
    asked.banner(&format!("Growing {strategy} quorum queues on {node}..."));
    let path = api_path(["queues", "quorum", "replicas", "on", node, "grow"]);
    let results = shell
        .client()?
        .post(&path, &json!({"strategy": strategy}))?;
    show_results(asked, &results)
}

fn shrink(shell: &Shell, asked: &Asked) -> Result<()> {
    let [node] = asked.exactly(["node"])?;
    asked.banner(&format!("Shrinking quorum queues on {node}..."));
    let path = api_path(["queues", "quorum", "replicas", "on", node, "shrink"]);
    let results = shell.client()?.delete_with(&path, &json!({}))?;
    show_results(asked, &results)
}

fn show_results(asked: &Asked, results: &Value) -> Result<()> {
    let fields: [&Field; 4] = [
        &("vhost", "vhost"),
        &("name", "name"),
        &("size", "size"),
        &("result", "result"),
    ];
    let rows = results.as_array().cloned().unwrap_or_default();
    rows::show(asked, &rows, &fields)
}

fn rebalance(shell: &Shell, asked: &Asked) -> Result<()> {
    asked.banner("Rebalancing queues ...");
    shell.client()?.post("/api/rebalance/queues", &json!({}))?;
    Ok(())
}
