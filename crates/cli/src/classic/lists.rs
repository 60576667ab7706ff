//! `list_queues` and the other lists of objects.

use management_api::api_path;
use serde_json::{Value, json};

use crate::failure::Result;
use crate::kinds::Kind;
use crate::shell::Shell;

use super::asked::Asked;
use super::rows::{self, Field};
use super::{Verb, Verbs};

pub(super) const VERBS: Verbs = &[
    ("list_queues", list_queues as Verb),
    ("list_unresponsive_queues", list_unresponsive_queues),
    ("list_exchanges", list_exchanges),
    ("list_bindings", list_bindings),
    ("list_connections", list_connections),
    ("list_channels", list_channels),
    ("list_consumers", list_consumers),
    ("list_feature_flags", list_feature_flags),
    ("list_deprecated_features", list_deprecated_features),
];

pub(super) fn fetch(shell: &Shell, path: &str) -> Result<Vec<Value>> {
    Ok(match shell.client()?.get(path)? {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    })
}

/// A list of a virtual host; an unknown one is empty.
// rabbitmq: list_queues of an unknown vhost prints nothing and succeeds
fn of_vhost(shell: &Shell, asked: &Asked, kind: Kind) -> Result<Vec<Value>> {
    let path = kind.path(Some(asked.vhost()), "");
    match shell.client()?.get(&path) {
        Ok(Value::Array(rows)) => Ok(rows),
        Ok(_) => Ok(Vec::new()),
        Err(error) if crate::commands::delete::is_missing(&error) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

const QUEUE: &[Field] = &[
    ("name", "name"),
    ("durable", "durable"),
    ("auto_delete", "auto_delete"),
    ("arguments", "arguments"),
    ("policy", "policy"),
    ("operator_policy", "operator_policy"),
    ("effective_policy_definition", "effective_policy_definition"),
    ("pid", "node"),
    ("owner_pid", "owner_pid_details.name"),
    ("exclusive", "exclusive"),
    ("exclusive_consumer_tag", "exclusive_consumer_tag"),
    ("single_active_consumer_tag", "single_active_consumer_tag"),
    ("messages", "messages"),
    ("messages_ready", "messages_ready"),
    ("messages_unacknowledged", "messages_unacknowledged"),
    ("messages_ram", "messages_ram"),
    ("messages_ready_ram", "messages_ready_ram"),
    ("messages_unacknowledged_ram", "messages_unacknowledged_ram"),
    ("messages_persistent", "messages_persistent"),
    ("message_bytes", "message_bytes"),
    ("message_bytes_ready", "message_bytes_ready"),
    (
        "message_bytes_unacknowledged",
        "message_bytes_unacknowledged",
    ),
    ("message_bytes_ram", "message_bytes_ram"),
    ("message_bytes_persistent", "message_bytes_persistent"),
    ("head_message_timestamp", "head_message_timestamp"),
    ("disk_reads", "message_stats.disk_reads"),
    ("disk_writes", "message_stats.disk_writes"),
    ("consumers", "consumers"),
    ("consumer_utilisation", "consumer_utilisation"),
    ("consumer_capacity", "consumer_capacity"),
    ("memory", "memory"),
    ("state", "state"),
    ("type", "type"),
    ("leader", "leader"),
    ("members", "members"),
    ("online", "online"),
    ("vhost", "vhost"),
];

fn list_queues(shell: &Shell, asked: &Asked) -> Result<()> {
    let fields = rows::chosen(asked, QUEUE, &["name", "messages"])?;
    let timeout = shell.timeout().as_secs_f64();
    asked.banner(&format!("Timeout: {timeout:.1} seconds ..."));
    asked.banner(&format!("Listing queues for vhost {} ...", asked.vhost()));
    rows::show(asked, &of_vhost(shell, asked, Kind::Queues)?, &fields)
}

/// A queue answers here whenever the broker does.
fn list_unresponsive_queues(shell: &Shell, asked: &Asked) -> Result<()> {
    let fields = rows::chosen(asked, QUEUE, &["name"])?;
    asked.banner(&format!(
        "Listing unresponsive queues for vhost {} ...",
        asked.vhost()
    ));
    let mut queues = of_vhost(shell, asked, Kind::Queues)?;
    queues.retain(|queue| matches!(queue["state"].as_str(), Some("down" | "crashed")));
    rows::show(asked, &queues, &fields)
}

fn list_exchanges(shell: &Shell, asked: &Asked) -> Result<()> {
    const FIELDS: &[Field] = &[
        ("name", "name"),
        ("type", "type"),
        ("durable", "durable"),
        ("auto_delete", "auto_delete"),
        ("internal", "internal"),
        ("arguments", "arguments"),
        ("policy", "policy"),
        ("user_who_performed_action", "user_who_performed_action"),
        ("vhost", "vhost"),
    ];
    let fields = rows::chosen(asked, FIELDS, &["name", "type"])?;
    asked.banner(&format!(
        "Listing exchanges for vhost {} ...",
        asked.vhost()
    ));
    rows::show(asked, &of_vhost(shell, asked, Kind::Exchanges)?, &fields)
}

fn list_bindings(shell: &Shell, asked: &Asked) -> Result<()> {
    const FIELDS: &[Field] = &[
        ("source_name", "source"),
        ("source_kind", "source_kind"),
        ("destination_name", "destination"),
        ("destination_kind", "destination_type"),
        ("routing_key", "routing_key"),
        ("arguments", "arguments"),
        ("vhost", "vhost"),
    ];
    let usual = [
        "source_name",
        "source_kind",
        "destination_name",
        "destination_kind",
        "routing_key",
        "arguments",
    ];
    let fields = rows::chosen(asked, FIELDS, &usual)?;
    asked.banner(&format!("Listing bindings for vhost {}...", asked.vhost()));
    let mut bindings = of_vhost(shell, asked, Kind::Bindings)?;
    for binding in &mut bindings {
        binding["source_kind"] = json!("exchange");
    }
    rows::show(asked, &bindings, &fields)
}

fn list_connections(shell: &Shell, asked: &Asked) -> Result<()> {
    const FIELDS: &[Field] = &[
        ("pid", "name"),
        ("name", "name"),
        ("port", "port"),
        ("host", "host"),
        ("peer_port", "peer_port"),
        ("peer_host", "peer_host"),
        ("ssl", "ssl"),
        ("ssl_protocol", "ssl_protocol"),
        ("ssl_key_exchange", "ssl_key_exchange"),
        ("ssl_cipher", "ssl_cipher"),
        ("ssl_hash", "ssl_hash"),
        ("peer_cert_subject", "peer_cert_subject"),
        ("peer_cert_issuer", "peer_cert_issuer"),
        ("peer_cert_validity", "peer_cert_validity"),
        ("state", "state"),
        ("channels", "channels"),
        ("protocol", "protocol"),
        ("auth_mechanism", "auth_mechanism"),
        ("user", "user"),
        ("vhost", "vhost"),
        ("timeout", "timeout"),
        ("frame_max", "frame_max"),
        ("channel_max", "channel_max"),
        ("client_properties", "client_properties"),
        ("user_provided_name", "user_provided_name"),
        ("connected_at", "connected_at"),
        ("recv_oct", "recv_oct"),
        ("recv_cnt", "recv_cnt"),
        ("send_oct", "send_oct"),
        ("send_cnt", "send_cnt"),
        ("send_pend", "send_pend"),
        ("node", "node"),
    ];
    let fields = rows::chosen(asked, FIELDS, &["user", "peer_host", "peer_port", "state"])?;
    asked.banner("Listing connections ...");
    rows::show(asked, &fetch(shell, "/api/connections")?, &fields)
}

fn list_channels(shell: &Shell, asked: &Asked) -> Result<()> {
    const FIELDS: &[Field] = &[
        ("pid", "name"),
        ("connection", "connection_details.name"),
        ("name", "name"),
        ("number", "number"),
        ("user", "user"),
        ("vhost", "vhost"),
        ("transactional", "transactional"),
        ("confirm", "confirm"),
        ("consumer_count", "consumer_count"),
        ("messages_unacknowledged", "messages_unacknowledged"),
        ("messages_uncommitted", "messages_uncommitted"),
        ("acks_uncommitted", "acks_uncommitted"),
        ("messages_unconfirmed", "messages_unconfirmed"),
        ("prefetch_count", "prefetch_count"),
        ("state", "state"),
    ];
    let usual = ["pid", "user", "consumer_count", "messages_unacknowledged"];
    let fields = rows::chosen(asked, FIELDS, &usual)?;
    asked.banner("Listing channels ...");
    rows::show(asked, &fetch(shell, "/api/channels")?, &fields)
}

fn list_consumers(shell: &Shell, asked: &Asked) -> Result<()> {
    const FIELDS: &[Field] = &[
        ("queue_name", "queue.name"),
        ("channel_pid", "channel_details.name"),
        ("consumer_tag", "consumer_tag"),
        ("ack_required", "ack_required"),
        ("prefetch_count", "prefetch_count"),
        ("active", "active"),
        ("activity_status", "activity_status"),
        ("arguments", "arguments"),
        ("exclusive", "exclusive"),
        ("consumer_timeout", "consumer_timeout"),
    ];
    let usual = [
        "queue_name",
        "channel_pid",
        "consumer_tag",
        "ack_required",
        "prefetch_count",
        "active",
        "arguments",
    ];
    let fields = rows::chosen(asked, FIELDS, &usual)?;
    asked.banner(&format!("Listing consumers in vhost {} ...", asked.vhost()));
    rows::show(asked, &of_vhost(shell, asked, Kind::Consumers)?, &fields)
}

fn list_feature_flags(shell: &Shell, asked: &Asked) -> Result<()> {
    const FIELDS: &[Field] = &[
        ("name", "name"),
        ("state", "state"),
        ("stability", "stability"),
        ("provided_by", "provided_by"),
        ("desc", "desc"),
        ("doc_url", "doc_url"),
    ];
    let fields = rows::chosen(asked, FIELDS, &["name", "state"])?;
    asked.banner("Listing feature flags ...");
    rows::show(asked, &fetch(shell, "/api/feature-flags")?, &fields)
}

fn list_deprecated_features(shell: &Shell, asked: &Asked) -> Result<()> {
    const FIELDS: &[Field] = &[
        ("name", "name"),
        ("deprecation_phase", "deprecation_phase"),
        ("state", "state"),
        ("provided_by", "provided_by"),
        ("desc", "desc"),
    ];
    let fields = rows::chosen(asked, FIELDS, &["name", "deprecation_phase", "state"])?;
    asked.banner("Listing deprecated features ...");
    let path = api_path(["deprecated-features"]);
    rows::show(asked, &fetch(shell, &path)?, &fields)
}
