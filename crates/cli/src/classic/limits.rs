//! Limits of virtual hosts and users, whichever there are. Must not know their names: brokers differ
//! in them.

use management_api::{Client, api_path};
use serde_json::{Map, Value};

use crate::commands::delete::is_missing;
use crate::failure::Result;

/// Those of a holder, under the name of the API's collection (`vhost-limits`, `user-limits`).
pub(super) fn of(client: &Client, kind: &str, holder: &str) -> Result<Map<String, Value>> {
    Ok(told(client.get(&api_path([kind, holder]))?))
}

fn told(limits: Value) -> Map<String, Value> {
    limits[0]["value"].as_object().cloned().unwrap_or_default()
}

/// Lifts one; that it is not set is no error.
pub(super) fn clear(client: &Client, kind: &str, holder: &str, name: &str) -> Result<()> {
    match client.delete(&api_path([kind, holder, name])) {
        Err(error) if !is_missing(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Lifts all; that there is no such holder is no error either.
pub(super) fn clear_all(client: &Client, kind: &str, holder: &str) -> Result<()> {
    let limits = match client.get(&api_path([kind, holder])) {
        Err(error) if is_missing(&error) => return Ok(()),
        found => told(found?),
    };
    limits
        .keys()
        .try_for_each(|name| clear(client, kind, holder, name))
}
