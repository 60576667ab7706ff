//! `status` and the other verbs about nodes and the cluster.

use serde_json::{Value, json};
use settings::ByteSize;

use crate::commands::list::node;
use crate::commands::wait::{is_ready, until};
use crate::failure::{Failure, Result, SOFTWARE, USAGE};
use crate::output::cell;
use crate::shell::{Shell, print};

use super::asked::Asked;
use super::checks::node_alarms;
use super::{Verb, Verbs};

pub(super) const VERBS: Verbs = &[
    ("status", status as Verb),
    ("cluster_status", cluster_status),
    ("server_version", server_version),
    ("memory_breakdown", memory_breakdown),
    ("await_startup", await_startup),
    ("await_online_nodes", await_online_nodes),
    ("wait", await_startup),
    ("set_cluster_name", set_cluster_name),
    ("enable_feature_flag", enable_feature_flag),
    ("environment", environment),
    ("report", report),
    ("shutdown", by_signal),
    ("stop", by_signal),
    ("start_app", by_signal),
    ("stop_app", by_signal),
    ("reset", by_signal),
    ("force_reset", by_signal),
    ("eval", no_runtime),
    ("set_vm_memory_high_watermark", set_vm_memory_high_watermark),
    ("set_disk_free_limit", set_disk_free_limit),
    ("set_log_level", by_settings),
];

/// What a listener is for, in a word of its protocol.
fn purpose(protocol: &str) -> &'static str {
    match protocol {
        "amqp" => "AMQP 0-9-1",
        "amqp/ssl" => "AMQP 0-9-1 over TLS",
        "http" => "HTTP API",
        "https" => "HTTP API over TLS (HTTPS)",
        "http/prometheus" => "Prometheus exporter API over HTTP",
        "clustering" => "inter-node communication",
        _ => "unknown",
    }
}

pub(super) fn listener_line(listener: &Value) -> String {
    let address = listener["ip_address"].as_str().unwrap_or_default();
    let address = match address.contains(':') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    };
    let protocol = listener["protocol"].as_str().unwrap_or_default();
    let (port, purpose) = (&listener["port"], purpose(protocol));
    format!("Interface: {address}, port: {port}, protocol: {protocol}, purpose: {purpose}\n")
}

pub(super) fn listeners(shell: &Shell) -> Result<Vec<Value>> {
    let mut overview = shell.client()?.get("/api/overview")?;
    Ok(match overview["listeners"].take() {
        Value::Array(listeners) => listeners,
        _ => Vec::new(),
    })
}

fn gigabytes(bytes: &Value) -> String {
    format!("{:.4} gb", bytes.as_f64().unwrap_or_default() / 1e9)
}

fn listed(items: &Value) -> String {
    let items: Vec<_> = items
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| cell(Some(item)))
        .collect();
    match items.is_empty() {
        true => "(none)\n".into(),
        false => items.iter().map(|item| format!(" * {item}\n")).collect(),
    }
}

fn status(shell: &Shell, asked: &Asked) -> Result<()> {
    let client = shell.client()?;
    let overview = client.get("/api/overview")?;
    let name = overview["node"].as_str().unwrap_or_default();
    let found = client.get(&management_api::api_path(["nodes", name]))?;
    let memory = client.get(&management_api::api_path(["nodes", name, "memory"]))?;
    let vhosts = client.get("/api/vhosts?columns=name")?;
    if asked.option("formatter") == Some("json") {
        let whole = json!({"overview": overview, "node": found, "memory": memory["memory"]});
        print(&format!("{whole}\n"));
        return Ok(());
    }
    asked.banner(&format!("Status of node {name} ..."));
    print(&status_text(
        &overview,
        &found,
        &memory["memory"],
        vhosts.as_array().map_or(0, Vec::len),
    ));
    Ok(())
}

fn status_text(overview: &Value, node: &Value, memory: &Value, vhosts: usize) -> String {
    let uptime_s = node["uptime"].as_u64().unwrap_or_default() / 1000;
    let field = |key: &str| cell(node.get(key));
    let alarms: Vec<Value> = [
        ("mem_alarm", "Memory"),
        ("disk_free_alarm", "Free disk space"),
    ]
    .iter()
    .filter(|(alarm, _)| node[*alarm] == json!(true))
    .map(|(_, word)| json!(format!("{word} alarm on node {}", field("name"))))
    .collect();
    let mut text = format!(
        "Runtime\n\n\
         OS PID: {}\nUptime (seconds): {uptime_s}\nIs under maintenance?: {}\n\
         RabbitMQ version: {}\nProduct: {} {}\nNode name: {}\nCrypto library: {}\n\n",
        field("os_pid"),
        node["being_drained"],
        cell(overview.get("rabbitmq_version")),
        cell(overview.get("product_name")),
        cell(overview.get("product_version")),
        field("name"),
        field("crypto_lib_version"),
    );
    text.push_str(&format!(
        "Data directory\n\nNode data directory: {}\n\n",
        field("db_dir")
    ));
    text.push_str(&format!(
        "Config files\n\n{}\n",
        listed(&node["config_files"])
    ));
    text.push_str(&format!("Alarms\n\n{}\n", listed(&json!(alarms))));
    text.push_str(&format!(
        "Memory\n\nTotal memory used: {}\nCalculation strategy: {}\nMemory high watermark: {}\n\n{}\n",
        gigabytes(&node["mem_used"]),
        field("mem_calculation_strategy"),
        gigabytes(&node["mem_limit"]),
        breakdown(memory),
    ));
    text.push_str(&format!(
        "Free Disk Space\n\nLow free disk space watermark: {}\nFree disk space: {}\n\n",
        gigabytes(&node["disk_free_limit"]),
        gigabytes(&node["disk_free"]),
    ));
    let totals = &overview["object_totals"];
    text.push_str(&format!(
        "Totals\n\nConnection count: {}\nQueue count: {}\nVirtual host count: {vhosts}\n\n",
        totals["connections"], totals["queues"],
    ));
    text.push_str("Listeners\n\n");
    for listener in overview["listeners"].as_array().into_iter().flatten() {
        text.push_str(&listener_line(listener));
    }
    text
}

/// The parts of memory, the largest first.
fn breakdown(memory: &Value) -> String {
    let mut parts: Vec<(&String, u64)> = memory
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(part, bytes)| Some((part, bytes.as_u64()?)))
        .collect();
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let total = parts.iter().map(|(_, bytes)| bytes).sum::<u64>().max(1) as f64;
    let line = |(part, bytes): &(&String, u64)| {
        let share = *bytes as f64 * 100.0 / total;
        format!("{part}: {} ({share:.2} %)\n", gigabytes(&json!(bytes)))
    };
    parts.iter().map(line).collect()
}

fn memory_breakdown(shell: &Shell, asked: &Asked) -> Result<()> {
    let node = node(shell)?;
    let memory = shell
        .client()?
        .get(&management_api::api_path(["nodes", &node, "memory"]))?;
    if asked.option("formatter") == Some("json") {
        print(&format!("{}\n", memory["memory"]));
        return Ok(());
    }
    asked.banner(&format!("Reporting memory breakdown on node {node}..."));
    print(&breakdown(&memory["memory"]));
    Ok(())
}

fn cluster_status(shell: &Shell, asked: &Asked) -> Result<()> {
    let client = shell.client()?;
    let overview = client.get("/api/overview")?;
    let nodes = client.get("/api/nodes")?;
    let flags = client.get("/api/feature-flags")?;
    let alarms = node_alarms(shell)?;
    if asked.option("formatter") == Some("json") {
        let names = |running: bool| {
            let nodes = nodes.as_array().into_iter().flatten();
            let nodes = nodes.filter(|node| !running || node["running"] == json!(true));
            nodes.map(|node| node["name"].clone()).collect::<Vec<_>>()
        };
        let whole = json!({
            "cluster_name": overview["cluster_name"],
            "disk_nodes": names(false),
            "running_nodes": names(true),
            "alarms": alarms.iter().map(|(node, word)| json!({"node": node, "resource": word})).collect::<Vec<_>>(),
            "partitions": {},
            "feature_flags": flags,
        });
        print(&format!("{whole}\n"));
        return Ok(());
    }
    let name = overview["node"].as_str().unwrap_or_default();
    asked.banner(&format!("Cluster status of node {name} ..."));
    print(&cluster_text(&overview, &nodes, &flags, &alarms));
    Ok(())
}

fn cluster_text(
    overview: &Value,
    nodes: &Value,
    flags: &Value,
    alarms: &[(String, &'static str)],
) -> String {
    let nodes: Vec<&Value> = nodes.as_array().into_iter().flatten().collect();
    let lines = |line: &dyn Fn(&Value) -> Option<String>| -> String {
        let lines: Vec<_> = nodes.iter().filter_map(|node| line(node)).collect();
        lines.join("\n")
    };
    let name = |node: &Value| cell(node.get("name"));
    let cores: u64 = nodes
        .iter()
        .filter_map(|node| node["processors"].as_u64())
        .sum();
    let alarms: Vec<Value> = alarms
        .iter()
        .map(|(node, word)| json!(format!("{word} alarm on node {node}")))
        .collect();
    let listeners = overview["listeners"].as_array().into_iter().flatten();
    let listeners: String = listeners
        .map(|open| {
            format!(
                "Node: {}, {}",
                cell(open.get("node")),
                listener_line(open).replacen('I', "i", 1)
            )
        })
        .collect();
    let flags: String = flags
        .as_array()
        .into_iter()
        .flatten()
        .map(|flag| {
            format!(
                "Flag: {}, state: {}\n",
                cell(flag.get("name")),
                cell(flag.get("state"))
            )
        })
        .collect();
    format!(
        "Basics\n\nCluster name: {}\nTotal CPU cores available cluster-wide: {cores}\n\n\
         Disk Nodes\n\n{}\n\nRunning Nodes\n\n{}\n\nVersions\n\n{}\n\nAlarms\n\n{}\n\
         Network Partitions\n\n(none)\n\nListeners\n\n{listeners}\nFeature flags\n\n{flags}",
        cell(overview.get("cluster_name")),
        lines(&|node| Some(name(node))),
        lines(&|node| (node["running"] == json!(true)).then(|| name(node))),
        lines(&|node| {
            let version = cell(node.get("rabbitmq_version"));
            (!version.is_empty()).then(|| format!("{}: RabbitMQ {version}", name(node)))
        }),
        listed(&json!(alarms)),
    )
}

fn server_version(shell: &Shell, asked: &Asked) -> Result<()> {
    let overview = shell.client()?.get("/api/overview")?;
    let node = cell(overview.get("node"));
    asked.banner(&format!("Asking node {node} for its RabbitMQ version..."));
    print(&format!("{}\n", cell(overview.get("rabbitmq_version"))));
    Ok(())
}

fn await_startup(shell: &Shell, _: &Asked) -> Result<()> {
    until(shell, "the broker serves clients", || is_ready(shell))
}

fn await_online_nodes(shell: &Shell, asked: &Asked) -> Result<()> {
    let [count] = asked.exactly(["count"])?;
    let count: usize = count
        .parse()
        .map_err(|_| Failure::usage(format!("'{count}' is no number")))?;
    asked.banner(&format!(
        "Will wait for at least {count} nodes to join the cluster ..."
    ));
    until(shell, &format!("{count} nodes are online"), || {
        if !is_ready(shell)? {
            return Ok(false);
        }
        let nodes = shell.client()?.get("/api/nodes")?;
        let nodes = nodes.as_array().into_iter().flatten();
        Ok(nodes.filter(|node| node["running"] == json!(true)).count() >= count)
    })
}

fn set_cluster_name(shell: &Shell, asked: &Asked) -> Result<()> {
    let [name] = asked.exactly(["name"])?;
    asked.banner(&format!("Setting cluster name to {name} ..."));
    shell
        .client()?
        .put("/api/cluster-name", &json!({"name": name}))?;
    Ok(())
}

fn enable_feature_flag(shell: &Shell, asked: &Asked) -> Result<()> {
    let [flag] = asked.exactly(["feature_flag"])?;
    asked.banner(&format!("Enabling feature flag {flag} ..."));
    // All that there are hold from the start.
    if flag != "all" {
        let path = management_api::api_path(["feature-flags", flag, "enable"]);
        shell.client()?.put(&path, &json!({}))?;
    }
    Ok(())
}

fn environment(shell: &Shell, asked: &Asked) -> Result<()> {
    asked.banner(&format!(
        "Application environment of node {} ...",
        node(shell)?
    ));
    let settings = shell.client()?.get("/api/config/effective")?;
    let text = serde_json::to_string_pretty(&settings)?;
    print(&format!("{text}\n"));
    Ok(())
}

fn report(shell: &Shell, asked: &Asked) -> Result<()> {
    asked.banner("Reporting server status ...");
    cluster_status(shell, asked)?;
    status(shell, asked)?;
    let client = shell.client()?;
    for path in [
        "/api/vhosts",
        "/api/connections",
        "/api/queues",
        "/api/policies",
    ] {
        let list = client.get(path)?;
        let rows = list.as_array().into_iter().flatten();
        print(&format!(
            "\n{path}\n{}",
            rows.map(|row| format!("{row}\n")).collect::<String>()
        ));
    }
    Ok(())
}

/// The process is its supervisor's: it starts, stops and watches it.
fn by_signal(_: &Shell, asked: &Asked) -> Result<()> {
    Err(
        not_here(asked, "the broker runs for as long as its process does")
            .next("stop it with TERM (systemctl stop, docker stop), start it with sluicemq"),
    )
}

fn no_runtime(_: &Shell, asked: &Asked) -> Result<()> {
    Err(not_here(asked, "there is no Erlang to evaluate")
        .next("ask the HTTP API instead: sluicectl status, sluicectl show …"))
}

fn set_vm_memory_high_watermark(shell: &Shell, asked: &Asked) -> Result<()> {
    let limits = match asked.words().as_slice() {
        ["absolute", size] => json!({"memory_bytes": bytes(size)?}),
        _ => {
            let [share] = asked.exactly(["fraction"])?;
            json!({"memory_share": number(share)?})
        }
    };
    asked.banner(&format!(
        "Setting memory threshold on {} to {} ...",
        node(shell)?,
        asked.words().join(" ")
    ));
    set_alarm_limits(shell, &limits)
}

fn set_disk_free_limit(shell: &Shell, asked: &Asked) -> Result<()> {
    let limits = match asked.words().as_slice() {
        ["mem_relative", share] => json!({"disk_free_memory_share": number(share)?}),
        _ => {
            let [size] = asked.exactly(["disk_limit"])?;
            json!({"disk_free_bytes": bytes(size)?})
        }
    };
    asked.banner(&format!(
        "Setting disk free limit on {} to {} ...",
        node(shell)?,
        asked.words().join(" ")
    ));
    set_alarm_limits(shell, &limits)
}

fn set_alarm_limits(shell: &Shell, limits: &Value) -> Result<()> {
    let path = management_api::api_path(["nodes", &node(shell)?, "alarm-limits"]);
    shell.client()?.put(&path, limits)?;
    Ok(())
}

fn bytes(text: &str) -> Result<u64> {
    let size = text.parse::<ByteSize>();
    size.map(ByteSize::as_bytes)
        .map_err(|fault| Failure::new(USAGE, fault.to_string()))
}

fn number(text: &str) -> Result<f64> {
    text.parse().map_err(|_| {
        Failure::new(USAGE, format!("'{text}' is not a number"))
            .next("give a share of memory such as 0.4, or `absolute` and a size such as 2GiB")
    })
}

fn by_settings(_: &Shell, asked: &Asked) -> Result<()> {
    Err(not_here(asked, "this is a setting of the broker")
        .next("change it in the configuration file and send HUP, or start with --set KEY=VALUE"))
}

fn not_here(asked: &Asked, why: &str) -> Failure {
    Failure::new(
        SOFTWARE,
        format!("{} does not apply to this broker", asked.verb()),
    )
    .why(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_read_as_people_know_them() {
        let listener = json!({"ip_address": "::", "port": 5672, "protocol": "amqp"});
        insta::assert_snapshot!(
            listener_line(&listener),
            @"Interface: [::], port: 5672, protocol: amqp, purpose: AMQP 0-9-1"
        );
    }

    #[test]
    fn the_largest_part_of_memory_comes_first() {
        let memory = json!({"binary": 25, "code": 75, "strategy": "rss", "total": {"rss": 100}});
        insta::assert_snapshot!(breakdown(&memory), @r"
        code: 0.0000 gb (75.00 %)
        binary: 0.0000 gb (25.00 %)
        ");
    }
}
