//! Users and what they may do.

use management_api::{Client, ClientError, ClientOptions, api_path, encoded};
use serde_json::{Map, Value, json};

use crate::commands::delete::is_missing;
use crate::failure::{DATA, Failure, NO_USER, Result, SOFTWARE};
use crate::shell::{Shell, print};

use super::asked::Asked;
use super::limits;
use super::lists::fetch;
use super::rows::{self, Field};
use super::{Verb, Verbs};

pub(super) const VERBS: Verbs = &[
    ("add_user", add_user as Verb),
    ("delete_user", delete_user),
    ("change_password", change_password),
    ("clear_password", clear_password),
    ("set_user_tags", set_user_tags),
    ("authenticate_user", authenticate_user),
    ("hash_password", hash_password),
    ("list_users", list_users),
    ("set_permissions", set_permissions),
    ("clear_permissions", clear_permissions),
    ("list_permissions", list_permissions),
    ("list_user_permissions", list_user_permissions),
    ("set_topic_permissions", set_topic_permissions),
    ("clear_topic_permissions", clear_topic_permissions),
    ("list_topic_permissions", list_topic_permissions),
    ("list_user_topic_permissions", list_user_topic_permissions),
    ("set_user_limits", set_user_limits),
    ("clear_user_limits", clear_user_limits),
    ("list_user_limits", list_user_limits),
];

fn no_user(user: &str) -> Failure {
    Failure::new(NO_USER, format!("User {user} does not exist")).next("list_users")
}

fn find(client: &Client, user: &str) -> Result<Option<Value>> {
    match client.get(&api_path(["users", user])) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn existing(client: &Client, user: &str) -> Result<Value> {
    find(client, user)?.ok_or_else(|| no_user(user))
}

/// User and password; a missing password is read from standard input.
fn user_and_password(asked: &Asked) -> Result<(&str, String)> {
    match asked.arguments() {
        [user] => Ok((user, crate::commands::declare::read_secret("-")?)),
        _ => {
            let [user, password] = asked.exactly(["username", "password"])?;
            Ok((user, password.to_owned()))
        }
    }
}

fn add_user(shell: &Shell, asked: &Asked) -> Result<()> {
    let (user, password) = user_and_password(asked)?;
    asked.banner(&format!("Adding user \"{user}\" ..."));
    let client = shell.client()?;
    if find(client, user)?.is_some() {
        return Err(
            Failure::new(SOFTWARE, format!("User \"{user}\" already exists"))
                .next(format!("change_password {user} PASSWORD")),
        );
    }
    client.put(
        &api_path(["users", user]),
        &json!({"password": password, "tags": ""}),
    )?;
    asked.banner(
        "Done. Don't forget to grant the user permissions to some virtual hosts! \
         See 'sluicectl declare permissions --help' to learn more.",
    );
    Ok(())
}

// rabbitmq: deleting an unknown user is a success
fn delete_user(shell: &Shell, asked: &Asked) -> Result<()> {
    let [user] = asked.exactly(["username"])?;
    asked.banner(&format!("Deleting user \"{user}\" ..."));
    match shell.client()?.delete(&api_path(["users", user])) {
        Err(error) if !is_missing(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

fn change_password(shell: &Shell, asked: &Asked) -> Result<()> {
    let (user, password) = user_and_password(asked)?;
    asked.banner(&format!("Changing password for user \"{user}\" ..."));
    let client = shell.client()?;
    let tags = existing(client, user)?["tags"].take();
    client.put(
        &api_path(["users", user]),
        &json!({"password": password, "tags": tags}),
    )?;
    Ok(())
}

fn clear_password(shell: &Shell, asked: &Asked) -> Result<()> {
    let [user] = asked.exactly(["username"])?;
    asked.banner(&format!("Clearing password for user \"{user}\" ..."));
    let client = shell.client()?;
    let tags = existing(client, user)?["tags"].take();
    client.put(
        &api_path(["users", user]),
        &json!({"password_hash": "", "tags": tags}),
    )?;
    Ok(())
}

fn set_user_tags(shell: &Shell, asked: &Asked) -> Result<()> {
    let Some((user, tags)) = asked.arguments().split_first() else {
        return asked.exactly(["username"]).map(|_| ());
    };
    let listed = tags.join(", ");
    asked.banner(&format!(
        "Setting tags for user \"{user}\" to [{listed}] ..."
    ));
    let client = shell.client()?;
    let found = existing(client, user)?;
    let body = json!({
        "password_hash": found["password_hash"],
        "hashing_algorithm": found["hashing_algorithm"],
        "tags": tags,
    });
    client.put(&api_path(["users", user]), &body)?;
    Ok(())
}

fn authenticate_user(shell: &Shell, asked: &Asked) -> Result<()> {
    let (user, password) = user_and_password(asked)?;
    asked.banner(&format!("Authenticating user \"{user}\" ..."));
    let options = ClientOptions {
        url: shell.client()?.url().to_owned(),
        credentials: Some((user.to_owned(), password)),
        timeout: Some(shell.timeout()),
        certificates: Vec::new(),
        insecure: true,
    };
    match Client::new(options)?.get("/api/whoami") {
        Ok(_) => {}
        // Known, but without the tag of the HTTP API: the password was right.
        Err(ClientError::Refused { ref error, .. }) if error == "not_authorised" => {}
        Err(ClientError::Refused { status: 401, .. }) => {
            let what = format!("Error: failed to authenticate user \"{user}\"");
            return Err(
                Failure::new(DATA, what).why(format!("user '{user}' - invalid credentials"))
            );
        }
        Err(error) => return Err(error.into()),
    }
    print("Success\n");
    Ok(())
}

fn hash_password(shell: &Shell, asked: &Asked) -> Result<()> {
    let [password] = asked.exactly(["password"])?;
    asked.banner("Will hash password");
    let hash = shell
        .client()?
        .get(&format!("/api/auth/hash_password/{}", encoded(password)))?;
    print(&format!("{}\n", hash["ok"].as_str().unwrap_or_default()));
    Ok(())
}

fn list_users(shell: &Shell, asked: &Asked) -> Result<()> {
    asked.banner("Listing users ...");
    let fields: [&Field; 2] = [&("user", "name"), &("tags", "tags")];
    rows::show(asked, &fetch(shell, "/api/users")?, &fields)
}

fn set_permissions(shell: &Shell, asked: &Asked) -> Result<()> {
    let [user, configure, write, read] = asked.exactly(["username", "conf", "write", "read"])?;
    let vhost = asked.vhost();
    asked.banner(&format!(
        "Setting permissions for user \"{user}\" in vhost \"{vhost}\" ..."
    ));
    let client = shell.client()?;
    existing(client, user)?;
    let body = json!({"configure": configure, "write": write, "read": read});
    client.put(&api_path(["permissions", vhost, user]), &body)?;
    Ok(())
}

fn clear_permissions(shell: &Shell, asked: &Asked) -> Result<()> {
    let [user] = asked.exactly(["username"])?;
    let vhost = asked.vhost();
    asked.banner(&format!(
        "Clearing permissions for user \"{user}\" in vhost \"{vhost}\" ..."
    ));
    let client = shell.client()?;
    existing(client, user)?;
    match client.delete(&api_path(["permissions", vhost, user])) {
        Err(error) if !is_missing(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

const PERMISSION: [&Field; 3] = [
    &("configure", "configure"),
    &("write", "write"),
    &("read", "read"),
];

fn list_permissions(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.vhost();
    asked.banner(&format!("Listing permissions for vhost \"{vhost}\" ..."));
    let rows = fetch(shell, &api_path(["vhosts", vhost, "permissions"]))?;
    let fields: Vec<&Field> = [&("user", "user")].into_iter().chain(PERMISSION).collect();
    rows::show(asked, &rows, &fields)
}

fn list_user_permissions(shell: &Shell, asked: &Asked) -> Result<()> {
    let [user] = asked.exactly(["username"])?;
    asked.banner(&format!("Listing permissions for user \"{user}\" ..."));
    existing(shell.client()?, user)?;
    let rows = fetch(shell, &api_path(["users", user, "permissions"]))?;
    let fields: Vec<&Field> = [&("vhost", "vhost")]
        .into_iter()
        .chain(PERMISSION)
        .collect();
    rows::show(asked, &rows, &fields)
}

fn set_topic_permissions(shell: &Shell, asked: &Asked) -> Result<()> {
    let [user, exchange, write, read] = asked.exactly(["username", "exchange", "write", "read"])?;
    let vhost = asked.vhost();
    asked.banner(&format!(
        "Setting topic permissions on \"{exchange}\" for user \"{user}\" in vhost \"{vhost}\" ..."
    ));
    let client = shell.client()?;
    existing(client, user)?;
    let body = json!({"exchange": exchange, "write": write, "read": read});
    client.put(&api_path(["topic-permissions", vhost, user]), &body)?;
    Ok(())
}

fn clear_topic_permissions(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.vhost();
    let place = |user: &str| {
        vec![
            "topic-permissions".to_owned(),
            vhost.into(),
            user.to_owned(),
        ]
    };
    let path = match asked.arguments() {
        [user, exchange] => {
            let mut place = place(user);
            place.push(exchange.clone());
            api_path(place)
        }
        _ => {
            let [user] = asked.exactly(["username"])?;
            api_path(place(user))
        }
    };
    asked.banner(&format!(
        "Clearing topic permissions in vhost \"{vhost}\" ..."
    ));
    match shell.client()?.delete(&path) {
        Err(error) if !is_missing(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

const TOPIC: [&Field; 3] = [
    &("exchange", "exchange"),
    &("write", "write"),
    &("read", "read"),
];

fn list_topic_permissions(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.vhost();
    asked.banner(&format!(
        "Listing topic permissions for vhost \"{vhost}\" ..."
    ));
    let rows = fetch(shell, &api_path(["vhosts", vhost, "topic-permissions"]))?;
    let fields: Vec<&Field> = [&("user", "user")].into_iter().chain(TOPIC).collect();
    rows::show(asked, &rows, &fields)
}

fn list_user_topic_permissions(shell: &Shell, asked: &Asked) -> Result<()> {
    let [user] = asked.exactly(["username"])?;
    asked.banner(&format!(
        "Listing topic permissions for user \"{user}\" ..."
    ));
    existing(shell.client()?, user)?;
    let rows = fetch(shell, &api_path(["users", user, "topic-permissions"]))?;
    let fields: Vec<&Field> = [&("vhost", "vhost")].into_iter().chain(TOPIC).collect();
    rows::show(asked, &rows, &fields)
}

fn set_user_limits(shell: &Shell, asked: &Asked) -> Result<()> {
    let [user, limits] = asked.exactly(["username", "definition"])?;
    asked.banner(&format!(
        "Setting user limits to \"{limits}\" for user \"{user}\" ..."
    ));
    let client = shell.client()?;
    existing(client, user)?;
    let limits: Map<String, Value> = crate::arguments::json_object(limits)?;
    for (name, value) in limits {
        let path = api_path(["user-limits", user, &name]);
        client.put(&path, &json!({"value": value}))?;
    }
    Ok(())
}

fn clear_user_limits(shell: &Shell, asked: &Asked) -> Result<()> {
    let [user, which] = asked.exactly(["username", "limit|all"])?;
    asked.banner(&format!("Clearing {which} limits for user \"{user}\" ..."));
    let client = shell.client()?;
    existing(client, user)?;
    match which {
        "all" => limits::clear_all(client, "user-limits", user),
        name => limits::clear(client, "user-limits", user, name),
    }
}

fn list_user_limits(shell: &Shell, asked: &Asked) -> Result<()> {
    let client = shell.client()?;
    if asked.has("global") {
        asked.banner("Listing limits for all users ...");
        let fields: [&Field; 2] = [&("user", "user"), &("limits", "value")];
        return rows::show(asked, &fetch(shell, "/api/user-limits")?, &fields);
    }
    let user = asked.option("user").unwrap_or("guest");
    asked.banner(&format!("Listing limits for user \"{user}\" ..."));
    let value = limits::of(client, "user-limits", user)?;
    print(&format!("{}\n", Value::Object(value)));
    Ok(())
}
