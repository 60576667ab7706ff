//! The broker at a glance.

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Result;
use crate::output::{Table, bytes, cell, duration_ms};
use crate::shell::{Shell, watch};

use super::list::pause;

/// The broker at a glance.
#[derive(Args, Debug)]
pub(crate) struct Status {
    /// Shows it again every so many seconds.
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    watch: Option<f64>,
}

impl Status {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        watch(pause(self.watch), || {
            let client = shell.client()?;
            let overview = client.get("/api/overview")?;
            // Nodes are for monitoring users; without them the rest is worth showing.
            let nodes = client.get("/api/nodes").unwrap_or_else(|_| json!([]));
            let whole = json!({"overview": overview, "nodes": nodes});
            shell.answer(&whole, || text(&whole["overview"], &whole["nodes"]))
        })
    }
}

fn text(overview: &Value, nodes: &Value) -> String {
    let mut table = Table::headless(2);
    let mut line = |head: &str, value: String| table.push([head.to_owned(), value]);
    let field = |key: &str| cell(overview.get(key));
    line(
        "broker",
        format!("{} {}", field("product_name"), field("product_version")),
    );
    line("speaks", format!("RabbitMQ {}", field("rabbitmq_version")));
    line("cluster", field("cluster_name"));
    let totals = &overview["object_totals"];
    let counts = [
        "queues",
        "exchanges",
        "connections",
        "channels",
        "consumers",
    ];
    let counts = counts.map(|key| format!("{} {key}", cell(totals.get(key))));
    line("objects", counts.join(", "));
    let messages = &overview["queue_totals"];
    let count = |key: &str| messages[key].as_u64().unwrap_or_default();
    line(
        "messages",
        format!(
            "{} ready, {} unacked",
            count("messages_ready"),
            count("messages_unacknowledged")
        ),
    );
    let rate = |key: &str| {
        overview["message_stats"][key]["rate"]
            .as_f64()
            .unwrap_or_default()
    };
    line(
        "rates",
        format!(
            "{:.1}/s published, {:.1}/s delivered, {:.1}/s acked",
            rate("publish_details"),
            rate("deliver_get_details"),
            rate("ack_details")
        ),
    );
    for node in nodes.as_array().into_iter().flatten() {
        let name = cell(node.get("name"));
        line(&format!("node {name}"), of_node(node));
    }
    for listener in overview["listeners"].as_array().into_iter().flatten() {
        let part = |key: &str| cell(listener.get(key));
        let (protocol, address, port) = (part("protocol"), part("ip_address"), part("port"));
        line("listens", format!("{protocol} on {address}:{port}"));
    }
    table.to_string()
}

fn of_node(node: &Value) -> String {
    if node["running"] == json!(false) {
        return "down".into();
    }
    let number = |key: &str| node[key].as_u64().unwrap_or_default();
    let mut text = format!(
        "up {}, memory {} of {}, disk free {}",
        duration_ms(number("uptime")),
        bytes(number("mem_used")),
        bytes(number("mem_limit")),
        bytes(number("disk_free")),
    );
    for (alarm, word) in [("mem_alarm", "memory"), ("disk_free_alarm", "disk")] {
        if node[alarm] == json!(true) {
            text.push_str(&format!(", {} ALARM", word.to_uppercase()));
        }
    }
    text
}

/// Who the broker takes me for.
pub(crate) fn whoami(shell: &Shell) -> Result<()> {
    let me = shell.client()?.get("/api/whoami")?;
    shell.answer(&me, || {
        let tags = cell(me.get("tags"));
        format!("{} ({tags})\n", cell(me.get("name")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_broker_at_a_glance() {
        let overview = json!({
            "product_name": "SluiceMQ", "product_version": "0.1.0", "rabbitmq_version": "4.3.6",
            "cluster_name": "rabbit@here",
            "object_totals": {"queues": 3, "exchanges": 7, "connections": 2, "channels": 4, "consumers": 1},
            "queue_totals": {"messages_ready": 10, "messages_unacknowledged": 2},
            "message_stats": {"publish_details": {"rate": 12.25}},
            "listeners": [{"protocol": "amqp", "ip_address": "::", "port": 5672}],
        });
        let nodes = json!([
            {"name": "rabbit@here", "running": true, "uptime": 61_000, "mem_used": 1 << 20,
             "mem_limit": 1 << 30, "mem_alarm": true, "disk_free": 5_u64 << 30},
            {"name": "rabbit@there", "running": false},
        ]);
        insta::assert_snapshot!(text(&overview, &nodes), @r"
        broker             SluiceMQ 0.1.0
        speaks             RabbitMQ 4.3.6
        cluster            rabbit@here
        objects            3 queues, 7 exchanges, 2 connections, 4 channels, 1 consumers
        messages           10 ready, 2 unacked
        rates              12.2/s published, 0.0/s delivered, 0.0/s acked
        node rabbit@here   up 1 min 1 s, memory 1.0 MiB of 1.0 GiB, disk free 5.0 GiB, MEMORY ALARM
        node rabbit@there  down
        listens            amqp on :::5672
        ");
    }
}
