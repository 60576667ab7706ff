//! Deeds on queues, connections and definitions.

use management_api::{Client, ClientError, api_path};

use crate::commands::close;
use crate::commands::definitions;
use crate::commands::delete::is_missing;
use crate::failure::{DATA, Failure, Result, USAGE};
use crate::shell::{Shell, print};

use super::asked::Asked;
use super::{Verb, Verbs};

pub(super) const VERBS: Verbs = &[
    ("delete_queue", delete_queue as Verb),
    ("purge_queue", purge_queue),
    ("close_connection", close_connection),
    ("close_all_connections", close_all_connections),
    ("close_all_user_connections", close_all_user_connections),
    ("export_definitions", export_definitions),
    ("import_definitions", import_definitions),
];

fn messages(client: &Client, path: &str, field: &str) -> Result<u64, ClientError> {
    Ok(client.get(path)?[field].as_u64().unwrap_or_default())
}

fn delete_queue(shell: &Shell, asked: &Asked) -> Result<()> {
    let [queue] = asked.exactly(["queue_name"])?;
    let vhost = asked.vhost();
    asked.banner(&format!("Deleting queue '{queue}' on vhost '{vhost}' ..."));
    let client = shell.client()?;
    let path = api_path(["queues", vhost, queue]);
    let (if_empty, if_unused) = (asked.has("if-empty"), asked.has("if-unused"));
    let deleted = messages(client, &path, "messages_ready").and_then(|messages| {
        client.delete(&format!("{path}?if-empty={if_empty}&if-unused={if_unused}"))?;
        Ok(messages)
    });
    match deleted {
        Ok(messages) => {
            let word = if messages == 1 { "message" } else { "messages" };
            print(&format!(
                "Queue was successfully deleted with {messages} ready {word}\n"
            ));
            Ok(())
        }
        Err(error) if is_missing(&error) => {
            Err(Failure::new(USAGE, "No such queue was found").next("list_queues"))
        }
        Err(error) => Err(error.into()),
    }
}

fn purge_queue(shell: &Shell, asked: &Asked) -> Result<()> {
    let [queue] = asked.exactly(["queue"])?;
    let vhost = asked.vhost();
    asked.banner(&format!("Purging queue '{queue}' in vhost '{vhost}' ..."));
    let path = api_path(["queues", vhost, queue, "contents"]);
    match shell.client()?.delete(&path) {
        Ok(()) => Ok(()),
        Err(error) if is_missing(&error) => {
            let what = "Object (queue, stream, exchange, etc) was not found";
            Err(Failure::new(DATA, what).next("list_queues"))
        }
        Err(error) => Err(error.into()),
    }
}

fn close_connection(shell: &Shell, asked: &Asked) -> Result<()> {
    let (name, reason) = match asked.arguments() {
        [name] => (name.as_str(), ""),
        _ => {
            let [name, reason] = asked.exactly(["connectionpid", "explanation"])?;
            (name, reason)
        }
    };
    asked.banner(&format!("Closing connection {name}, reason: {reason}..."));
    match shell.client()?.delete(&api_path(["connections", name])) {
        Err(error) if !is_missing(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

fn close_all_connections(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.option("vhost");
    asked.banner("Closing all connections ...");
    let closed = close::all(shell, vhost)?;
    print(&format!("Closed {closed} connections\n"));
    Ok(())
}

fn close_all_user_connections(shell: &Shell, asked: &Asked) -> Result<()> {
    let user = asked
        .arguments()
        .first()
        .map(String::as_str)
        .unwrap_or_default();
    asked.banner(&format!("Closing connections of user {user} ..."));
    match shell
        .client()?
        .delete(&api_path(["connections", "username", user]))
    {
        Err(error) if !is_missing(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

fn export_definitions(shell: &Shell, asked: &Asked) -> Result<()> {
    let file = asked.arguments().first().map_or("-", String::as_str);
    if file != "-" {
        asked.banner(&format!(
            "Exporting definitions in JSON to a file at \"{file}\" ..."
        ));
    }
    definitions::export(shell, file)
}

fn import_definitions(shell: &Shell, asked: &Asked) -> Result<()> {
    let file = asked.arguments().first().map_or("-", String::as_str);
    asked.banner(&format!(
        "Importing definitions in JSON from a file at \"{file}\" ..."
    ));
    definitions::import(shell, file)?;
    asked.banner("Successfully started definition import. This process is asynchronous and can take some time.\n");
    Ok(())
}
