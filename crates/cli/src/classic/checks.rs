//! `check_running` and the other checks of `rabbitmq-diagnostics`; exit code 69 when one fails.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use management_api::ClientError;
use serde_json::Value;

use crate::commands::list::node;
use crate::failure::{Failure, Result, UNAVAILABLE};
use crate::shell::{Shell, print};

use super::asked::Asked;
use super::node::{listener_line, listeners};
use super::{Verb, Verbs};

pub(super) const VERBS: Verbs = &[
    ("ping", ping as Verb),
    ("check_running", check_running),
    ("is_running", check_running),
    ("is_booting", is_booting),
    ("check_alarms", check_alarms),
    ("alarms", check_alarms),
    ("check_local_alarms", check_local_alarms),
    ("check_port_listener", check_port_listener),
    ("check_protocol_listener", check_protocol_listener),
    ("check_port_connectivity", check_port_connectivity),
    ("check_virtual_hosts", check_virtual_hosts),
    ("check_certificate_expiration", check_certificate_expiration),
    (
        "check_if_node_is_quorum_critical",
        check_if_node_is_quorum_critical,
    ),
    (
        "check_for_quorum_queues_without_an_elected_leader",
        check_for_quorum_queues_without_an_elected_leader,
    ),
    (
        "check_if_metadata_store_is_initialized",
        check_metadata_store,
    ),
    (
        "check_if_metadata_store_is_initialized_with_data",
        check_metadata_store,
    ),
    (
        "check_if_any_deprecated_features_are_used",
        check_deprecated,
    ),
    (
        "has_reached_target_cluster_size",
        has_reached_target_cluster_size,
    ),
    ("listeners", list_listeners),
];

/// Asks a check of the API; the reason when it failed.
fn check(shell: &Shell, name: &str) -> Result<Option<String>> {
    match shell.client()?.get(&format!("/api/health/checks/{name}")) {
        Ok(_) => Ok(None),
        Err(ClientError::Refused {
            status: 503,
            reason,
            ..
        }) => Ok(Some(reason)),
        Err(error) => Err(error.into()),
    }
}

fn failed(what: String) -> Failure {
    Failure::new(UNAVAILABLE, what).next("sluicectl doctor")
}

/// A node that is there.
struct Alive {
    /// Its name, or where its health is told when the login is refused.
    node: String,
    /// Whether the login is good for further questions.
    may_ask: bool,
}

/// Whether a node is there and well needs no login, as the older tools need none on the node's own
/// machine.
fn alive(shell: &Shell, health_check: &str) -> Result<Alive> {
    match shell.client()?.get("/api/overview") {
        Ok(overview) => Ok(Alive {
            node: overview["node"].as_str().unwrap_or_default().to_owned(),
            may_ask: true,
        }),
        Err(ClientError::Refused { status: 401, .. }) => {
            let health = shell.health_client()?;
            health.probe(&format!("/healthz/{health_check}"))?;
            Ok(Alive {
                node: health.url().to_owned(),
                may_ask: false,
            })
        }
        Err(error) => Err(error.into()),
    }
}

fn ping(shell: &Shell, asked: &Asked) -> Result<()> {
    let Alive { node, .. } = alive(shell, "live")?;
    let ms = shell.timeout().as_millis();
    asked.banner(&format!("Will ping {node}. Timeout: {ms} ms."));
    print("Ping succeeded\n");
    Ok(())
}

fn check_running(shell: &Shell, asked: &Asked) -> Result<()> {
    let Alive { node, may_ask } = alive(shell, "ready")?;
    asked.banner(&format!(
        "Checking if RabbitMQ is running on node {node} ..."
    ));
    if may_ask && let Some(why) = check(shell, "is-in-service")? {
        return Err(failed(format!("RabbitMQ is not running on node {node}")).why(why));
    }
    print(&format!(
        "RabbitMQ on node {node} is fully booted and running\n"
    ));
    Ok(())
}

/// Who answers has booted.
fn is_booting(shell: &Shell, asked: &Asked) -> Result<()> {
    let Alive { node, .. } = alive(shell, "live")?;
    asked.banner(&format!("Asking node {node} for its boot status ..."));
    print(&format!(
        "RabbitMQ on node {node} is fully booted and running\n"
    ));
    Ok(())
}

fn check_alarms(shell: &Shell, asked: &Asked) -> Result<()> {
    let node = node(shell)?;
    asked.banner(&format!(
        "Asking node {node} to report any local resource alarms ..."
    ));
    if check(shell, "alarms")?.is_none() {
        print(&format!(
            "Node {node} reported no alarms, local or clusterwide\n"
        ));
        return Ok(());
    }
    let alarms = node_alarms(shell)?;
    let lines: Vec<_> = alarms
        .iter()
        .map(|(node, word)| format!("{word} alarm on node {node}"))
        .collect();
    Err(failed(lines.join("\n")))
}

/// Nodes with what they are short of.
pub(super) fn node_alarms(shell: &Shell) -> Result<Vec<(String, &'static str)>> {
    let nodes = shell.client()?.get("/api/nodes")?;
    let mut alarms = Vec::new();
    for node in nodes.as_array().into_iter().flatten() {
        let name = node["name"].as_str().unwrap_or_default();
        for (field, word) in [
            ("mem_alarm", "Memory"),
            ("disk_free_alarm", "Free disk space"),
        ] {
            if node[field] == Value::Bool(true) {
                alarms.push((name.to_owned(), word));
            }
        }
    }
    Ok(alarms)
}

// rabbitmq: does nothing since 4.0
fn check_local_alarms(shell: &Shell, _: &Asked) -> Result<()> {
    print(&format!("Node {} reported no local alarms\n", node(shell)?));
    Ok(())
}

fn check_port_listener(shell: &Shell, asked: &Asked) -> Result<()> {
    let [port] = asked.exactly(["port"])?;
    let node = node(shell)?;
    asked.banner(&format!(
        "Asking node {node} if there's an active listener on port {port} ..."
    ));
    let open = listeners(shell)?;
    let ports: Vec<String> = open.iter().map(|open| open["port"].to_string()).collect();
    if ports.iter().any(|open| open == port) {
        print(&format!(
            "A listener for port {port} is running on node {node}.\n"
        ));
        return Ok(());
    }
    let ports = ports.join(", ");
    Err(failed(format!(
        "No listener for port {port} is active on node {node}. Found listeners that use the \
         following ports: {ports}"
    )))
}

fn check_protocol_listener(shell: &Shell, asked: &Asked) -> Result<()> {
    let [protocol] = asked.exactly(["protocol"])?;
    let node = node(shell)?;
    asked.banner(&format!(
        "Asking node {node} if there's an active listener for protocol {protocol} ..."
    ));
    let wanted = match protocol {
        "amqp091" | "amqp10" | "amqp1.0" => "amqp",
        "amqps" | "amqp/tls" => "amqp/ssl",
        "management" => "http",
        other => other,
    };
    let open = listeners(shell)?;
    if open.iter().any(|open| open["protocol"] == wanted) {
        print(&format!(
            "A listener for protocol {protocol} is running on node {node}.\n"
        ));
        return Ok(());
    }
    let known: Vec<_> = open
        .iter()
        .filter_map(|open| open["protocol"].as_str())
        .collect();
    let known = known.join(", ");
    Err(failed(format!(
        "No listener for protocol {protocol} is active on node {node}. Found listeners for the \
         following protocols: {known}"
    )))
}

/// Longest time for one connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

fn check_port_connectivity(shell: &Shell, asked: &Asked) -> Result<()> {
    let node = node(shell)?;
    asked.banner(&format!(
        "Testing TCP connections to all active listeners on node {node} using hostname resolution ..."
    ));
    let host = host_of(shell.client()?.url()).to_owned();
    let mut ports = Vec::new();
    let mut unreached = Vec::new();
    for listener in listeners(shell)? {
        let port = listener["port"]
            .as_u64()
            .and_then(|port| u16::try_from(port).ok());
        let Some(port) = port else {
            continue;
        };
        asked.banner(&format!("Will connect to {host}:{port}"));
        let mut addresses = (host.as_str(), port)
            .to_socket_addrs()
            .into_iter()
            .flatten();
        let reached =
            addresses.any(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).is_ok());
        if reached { &mut ports } else { &mut unreached }.push(port.to_string());
    }
    if unreached.is_empty() {
        let ports = ports.join(", ");
        print(&format!(
            "Successfully connected to ports {ports} on node {node}\n"
        ));
        return Ok(());
    }
    let unreached = unreached.join(", ");
    Err(failed(format!(
        "Connection failed to ports {unreached} on node {node}"
    )))
}

fn host_of(url: &str) -> &str {
    let authority = url.split("://").nth(1).unwrap_or(url);
    let authority = authority.split('/').next().unwrap_or(authority);
    match authority.strip_prefix('[') {
        Some(literal) => literal.split(']').next().unwrap_or(literal),
        None => authority.split(':').next().unwrap_or(authority),
    }
}

fn check_virtual_hosts(shell: &Shell, asked: &Asked) -> Result<()> {
    let node = node(shell)?;
    asked.banner(&format!(
        "Checking if all vhosts are running on node {node} ..."
    ));
    match check(shell, "virtual-hosts")? {
        None => {
            print(&format!("Node {node} reported all vhosts as running\n"));
            Ok(())
        }
        Some(why) => Err(failed(format!("Some virtual hosts on node {node} are down")).why(why)),
    }
}

fn check_certificate_expiration(shell: &Shell, asked: &Asked) -> Result<()> {
    let within = asked.option("within").unwrap_or("4");
    let unit = asked.option("unit").unwrap_or("weeks");
    let node = node(shell)?;
    asked.banner(&format!(
        "Checking certificate expiration on node {node} within {within} {unit} ..."
    ));
    match check(shell, &format!("certificate-expiration/{within}/{unit}"))? {
        None => {
            print(&format!(
                "No certificates will expire before {within} {unit} have passed.\n"
            ));
            Ok(())
        }
        Some(why) => Err(failed("Some certificates will expire soon".into()).why(why)),
    }
}

fn check_if_node_is_quorum_critical(shell: &Shell, asked: &Asked) -> Result<()> {
    let node = node(shell)?;
    asked.banner(&format!(
        "Checking if node {node} is critical for quorum of any quorum queues ..."
    ));
    match check(shell, "node-is-quorum-critical")? {
        None => {
            print(&format!(
                "Node {node} reported no quorum queues with minimum quorum\n"
            ));
            Ok(())
        }
        Some(why) => Err(failed(format!(
            "Node {node} reported local queues with minimum online quorum"
        ))
        .why(why)),
    }
}

fn check_for_quorum_queues_without_an_elected_leader(shell: &Shell, asked: &Asked) -> Result<()> {
    let vhost = asked.vhost();
    let pattern = asked.arguments().first().map_or(".*", String::as_str);
    let pattern = management_api::encoded(pattern);
    asked.banner("Checking for quorum queues without an elected leader ...");
    let place = match asked.has("all") || asked.has("across-all-vhosts") {
        true => format!("all-vhosts/pattern/{pattern}"),
        false => format!("vhost/{}/pattern/{pattern}", management_api::encoded(vhost)),
    };
    match check(
        shell,
        &format!("quorum-queues-without-elected-leaders/{place}"),
    )? {
        None => {
            print("All matching quorum queues have a leader\n");
            Ok(())
        }
        Some(why) => Err(failed("Some quorum queues have no leader".into()).why(why)),
    }
}

fn check_metadata_store(shell: &Shell, asked: &Asked) -> Result<()> {
    let node = node(shell)?;
    asked.banner(&format!(
        "Checking if the metadata store on node {node} is initialized ..."
    ));
    match check(shell, "metadata-store/initialized")? {
        None => {
            print(&format!("Metadata store on node {node} is initialized\n"));
            Ok(())
        }
        Some(why) => {
            Err(failed(format!("Metadata store on node {node} is not initialized")).why(why))
        }
    }
}

fn check_deprecated(shell: &Shell, asked: &Asked) -> Result<()> {
    asked.banner("Checking if any deprecated features are used ...");
    let used = shell.client()?.get("/api/deprecated-features/used")?;
    let names: Vec<_> = used
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|feature| feature["name"].as_str())
        .collect();
    if names.is_empty() {
        print("Cluster reported no deprecated features in use\n");
        return Ok(());
    }
    let names = names.join(", ");
    Err(failed(format!(
        "Cluster reported deprecated features in use: {names}"
    )))
}

fn has_reached_target_cluster_size(shell: &Shell, asked: &Asked) -> Result<()> {
    asked.banner("Checking if the cluster has reached its target size ...");
    match check(shell, "reached-target-cluster-size")? {
        None => {
            print("true\n");
            Ok(())
        }
        Some(why) => Err(failed("false".into()).why(why)),
    }
}

fn list_listeners(shell: &Shell, asked: &Asked) -> Result<()> {
    let node = node(shell)?;
    asked.banner(&format!(
        "Asking node {node} to report its protocol listeners ..."
    ));
    for listener in listeners(shell)? {
        print(&listener_line(&listener));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_what_stands_between_scheme_and_port() {
        assert_eq!(host_of("http://a.b:15672"), "a.b");
        assert_eq!(host_of("https://[::1]:15671/x"), "::1");
        assert_eq!(host_of("http://a"), "a");
    }
}
