//! Risks of a broker, the greatest first, each with what to do about it.

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Result;
use crate::output::{Format, bytes};
use crate::shell::{Shell, print};

/// Risks of this broker, the greatest first.
#[derive(Args, Debug)]
pub(crate) struct Doctor {}

/// How great a risk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    /// Messages or clients suffer.
    Now,
    /// They will.
    Soon,
    /// Worth knowing.
    Hint,
}

impl Grade {
    fn word(self) -> &'static str {
        match self {
            Self::Now => "NOW ",
            Self::Soon => "SOON",
            Self::Hint => "hint",
        }
    }
}

#[derive(Debug, PartialEq)]
struct Risk {
    grade: Grade,
    what: String,
    next: String,
}

/// Queues that are looked at in detail: those with most messages ready.
const QUEUES_SEEN: usize = 100;
/// A resource is short when less than this share of it is left.
const SHORT: f64 = 0.2;

impl Doctor {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let client = shell.client()?;
        let get = |path: &str| client.get(path).unwrap_or_default();
        let queues = format!(
            "/api/queues?page=1&page_size={QUEUES_SEEN}&sort=messages_ready&sort_reverse=true"
        );
        let seen = Seen {
            overview: client.get("/api/overview")?,
            nodes: get("/api/nodes"),
            queues: get(&queues)["items"].take(),
            users: get("/api/users"),
            policies: get("/api/policies"),
            whoami: get("/api/whoami"),
        };
        let mut risks = seen.risks();
        risks.sort_by_key(|risk| risk.grade);
        match shell.format() {
            Format::Table => print(&text(&risks)),
            _ => {
                let rows: Vec<Value> = risks.iter().map(Risk::json).collect();
                let usual = [("GRADE", "grade"), ("RISK", "risk"), ("NEXT", "next")];
                shell.rows(&rows, &usual, "risk")?;
            }
        }
        Ok(())
    }
}

impl Risk {
    fn json(&self) -> Value {
        json!({"grade": self.grade.word().trim(), "risk": self.what, "next": self.next})
    }
}

fn text(risks: &[Risk]) -> String {
    if risks.is_empty() {
        return "no risks found\n".into();
    }
    let line = |risk: &Risk| {
        format!(
            "{}  {}\n      {}\n",
            risk.grade.word(),
            risk.what,
            risk.next
        )
    };
    risks.iter().map(line).collect()
}

/// What the risks are read from.
#[derive(Debug, Default)]
struct Seen {
    overview: Value,
    nodes: Value,
    queues: Value,
    users: Value,
    policies: Value,
    whoami: Value,
}

impl Seen {
    fn risks(&self) -> Vec<Risk> {
        let mut risks = Vec::new();
        let mut add = |grade, what: String, next: &str| {
            let next = next.to_owned();
            risks.push(Risk { grade, what, next });
        };
        for node in items(&self.nodes) {
            of_node(node, &mut add);
        }
        if items(&self.nodes).count() == 1 {
            let what = "the cluster has one node: its loss is the loss of the service";
            add(
                Grade::Hint,
                what.into(),
                "run three nodes for queues that must survive one",
            );
        }
        for queue in items(&self.queues) {
            of_queue(queue, &mut add);
        }
        self.of_security(&mut add);
        if items(&self.policies).count() == 0 {
            let what = "no policy bounds any queue: one that nobody reads may fill the disk";
            add(
                Grade::Hint,
                what.into(),
                "sluicectl declare policy bound --key max-length=1000000",
            );
        }
        risks
    }

    fn of_security(&self, add: &mut impl FnMut(Grade, String, &str)) {
        let guest = items(&self.users).find(|user| user["name"] == "guest");
        if guest.is_some() && self.whoami["name"] == "guest" {
            let what = "user guest still has its well-known password, or one that tools guess";
            add(
                Grade::Hint,
                what.into(),
                "sluicectl declare user NAME --secret - --tags administrator; sluicectl delete user guest",
            );
        }
        let listeners = || items(&self.overview["listeners"]);
        let is_open = |listener: &&Value| {
            let address = listener["ip_address"].as_str().unwrap_or_default();
            listener["tls"] != json!(true)
                && listener["protocol"] == "amqp"
                && !(address.starts_with("127.") || address == "::1")
        };
        if let Some(open) = listeners().find(is_open) {
            let port = &open["port"];
            let what = format!("passwords travel in clear text: AMQP on port {port} has no TLS");
            add(
                Grade::Hint,
                what,
                "set listeners.amqps and a certificate, or listen on loopback",
            );
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or_default()
}

fn of_node(node: &Value, add: &mut impl FnMut(Grade, String, &str)) {
    let name = node["name"].as_str().unwrap_or_default();
    if node["running"] == json!(false) {
        add(
            Grade::Now,
            format!("node {name} is down"),
            "start it; see its log",
        );
        return;
    }
    let size = |key: &str| bytes(node[key].as_u64().unwrap_or_default());
    if node["mem_alarm"] == json!(true) {
        let what = format!(
            "node {name} holds publishers: memory is used up ({})",
            size("mem_used")
        );
        add(Grade::Now, what, "sluicectl top --by bytes");
    } else if number(node, "mem_limit") > 0.0
        && number(node, "mem_used") > number(node, "mem_limit") * (1.0 - SHORT)
    {
        let (used, limit) = (size("mem_used"), size("mem_limit"));
        let what = format!("node {name} nears its memory limit: {used} of {limit}");
        add(Grade::Soon, what, "sluicectl top --by bytes");
    }
    if node["disk_free_alarm"] == json!(true) {
        let what = format!(
            "node {name} holds publishers: the disk is full ({} free)",
            size("disk_free")
        );
        add(
            Grade::Now,
            what,
            "sluicectl top --by bytes; sluicectl queue disk NAME",
        );
    } else if number(node, "disk_free") < number(node, "disk_free_limit") * 2.0 {
        let what = format!(
            "node {name} nears its disk limit: {} free",
            size("disk_free")
        );
        add(
            Grade::Soon,
            what,
            "sluicectl top --by bytes; sluicectl queue disk NAME",
        );
    }
    if number(node, "fd_total") > 0.0
        && number(node, "fd_used") > number(node, "fd_total") * (1.0 - SHORT)
    {
        let what = format!(
            "node {name} nears its limit of open files: {} of {}",
            node["fd_used"], node["fd_total"]
        );
        add(
            Grade::Soon,
            what,
            "raise the limit (ulimit -n, LimitNOFILE)",
        );
    }
    if items(&node["partitions"]).count() > 0 {
        add(
            Grade::Now,
            format!("node {name} does not see others"),
            "sluicectl list nodes",
        );
    }
}

fn of_queue(queue: &Value, add: &mut impl FnMut(Grade, String, &str)) {
    let name = queue["name"].as_str().unwrap_or_default();
    let vhost = queue["vhost"].as_str().unwrap_or_default();
    let why = format!("sluicectl queue why '{name}' --vhost '{vhost}'");
    let ready = number(queue, "messages_ready");
    match queue["state"].as_str() {
        Some("down" | "crashed" | "minority" | "stopped") => {
            let what = format!("queue '{name}' in '{vhost}' is {}", queue["state"]);
            add(Grade::Now, what, &why);
        }
        Some("flow") => {
            add(
                Grade::Now,
                format!("queue '{name}' in '{vhost}' holds its publishers"),
                &why,
            );
        }
        _ => {}
    }
    if ready > 0.0 && queue["consumers"] == 0 {
        let what = format!("queue '{name}' in '{vhost}' has {ready} messages and no consumer");
        add(Grade::Soon, what, &why);
    }
    if queue["durable"] == json!(false) && ready > 0.0 && queue["exclusive"] != json!(true) {
        let what = format!("queue '{name}' in '{vhost}' is not durable: a restart empties it");
        add(Grade::Hint, what, "declare it durable");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_risks_come_first() {
        let seen = Seen {
            nodes: json!([
                {"name": "a", "running": true, "mem_used": 90, "mem_limit": 100,
                 "disk_free": 5, "disk_free_limit": 10, "disk_free_alarm": true},
                {"name": "b", "running": false},
            ]),
            queues: json!([{"name": "q", "vhost": "/", "durable": true, "state": "running",
                            "messages_ready": 5, "consumers": 0}]),
            policies: json!([{"name": "p"}]),
            ..Seen::default()
        };
        let mut risks = seen.risks();
        risks.sort_by_key(|risk| risk.grade);
        insta::assert_snapshot!(text(&risks), @r"
        NOW   node a holds publishers: the disk is full (5 B free)
              sluicectl top --by bytes; sluicectl queue disk NAME
        NOW   node b is down
              start it; see its log
        SOON  node a nears its memory limit: 90 B of 100 B
              sluicectl top --by bytes
        SOON  queue 'q' in '/' has 5 messages and no consumer
              sluicectl queue why 'q' --vhost '/'
        ");
    }

    #[test]
    fn a_broker_without_risks_has_none() {
        let seen = Seen {
            nodes: json!([{"name": "a", "running": true}, {"name": "b", "running": true}]),
            policies: json!([{"name": "p"}]),
            ..Seen::default()
        };
        assert_eq!(text(&seen.risks()), "no risks found\n");
    }
}
