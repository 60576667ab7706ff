//! A network of its own for the nodes of a test: each node in a network namespace, all on one
//! bridge, with cuts between any two of them in either direction, delay and loss.
//!
//! Knows the programs `ip`, `iptables` and `tc`, which need root; nothing of brokers. Clients reach
//! every node whatever is cut between nodes.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, id};

/// Part of every name, so that leftovers can be told from others.
const PREFIX: &str = "sqt";
/// Where `ip netns` keeps its names.
const NAMES: &str = "/run/netns";

/// Namespaces of nodes 1 and up, and one for the bridge between them.
pub(crate) struct Net {
    nodes: u64,
}

impl Net {
    /// Builds the network; tells why it cannot be had here.
    pub(crate) fn build(nodes: u64) -> Result<Net, String> {
        remove_leftovers();
        let net = Net { nodes };
        // Dropping it takes away what was built by then.
        net.lay()?;
        Ok(net)
    }

    /// Where a node is.
    pub(crate) fn address(node: u64) -> IpAddr {
        let [a, b] = subnet();
        IpAddr::V4(Ipv4Addr::new(10, a, b, node as u8))
    }

    /// What runs a program inside of a node's namespace.
    pub(crate) fn launcher(node: u64) -> Vec<String> {
        ["ip", "netns", "exec", &name(node)]
            .map(String::from)
            .into()
    }

    /// Nothing goes from one node to another any more. The other direction stays.
    pub(crate) fn cut(&self, from: u64, to: u64) {
        let from = Net::address(from).to_string();
        inside(
            to,
            &["iptables", "-w", "-A", "INPUT", "-s", &from, "-j", "DROP"],
        );
    }

    /// Nothing goes between the two.
    pub(crate) fn part(&self, one: u64, other: u64) {
        self.cut(one, other);
        self.cut(other, one);
    }

    /// One packet in so many that a node should get is lost, and all that it sends is late, where the
    /// kernel can do that.
    pub(crate) fn weather(&self, node: u64, lost_one_in: u32, late_ms: u32) {
        let probability = (1.0 / f64::from(lost_one_in)).to_string();
        let drop = [
            "-m",
            "statistic",
            "--mode",
            "random",
            "--probability",
            &probability,
        ];
        let mut words = vec!["iptables", "-w", "-A", "INPUT"];
        words.extend(drop.into_iter().chain(["-j", "DROP"]));
        inside(node, &words);
        let late = format!("{late_ms}ms");
        let space = name(node);
        let delay = [
            "netns", "exec", &space, "tc", "qdisc", "replace", "dev", "net", "root", "netem",
            "delay", &late, &late,
        ];
        if let Err(why) = run("ip", &delay) {
            eprintln!("SKIPPED: the delay, for {why}");
        }
    }

    /// Everything arrives again, at once.
    pub(crate) fn heal(&self) {
        for node in 1..=self.nodes {
            inside(node, &["iptables", "-w", "-F", "INPUT"]);
            // There may be no weather.
            let _ = run(
                "ip",
                &[
                    "netns",
                    "exec",
                    &name(node),
                    "tc",
                    "qdisc",
                    "del",
                    "dev",
                    "net",
                    "root",
                ],
            );
        }
    }

    fn lay(&self) -> Result<(), String> {
        let [a, b] = subnet();
        let (switch, own) = (name(0), format!("{PREFIX}{}", id()));
        run("ip", &["netns", "add", &switch])?;
        run(
            "ip",
            &["-n", &switch, "link", "add", "bridge", "type", "bridge"],
        )?;
        run("ip", &["-n", &switch, "link", "set", "bridge", "up"])?;
        run(
            "ip",
            &[
                "link", "add", &own, "type", "veth", "peer", "name", "own", "netns", &switch,
            ],
        )?;
        run(
            "ip",
            &[
                "-n", &switch, "link", "set", "own", "master", "bridge", "up",
            ],
        )?;
        run(
            "ip",
            &["addr", "add", &format!("10.{a}.{b}.254/24"), "dev", &own],
        )?;
        run("ip", &["link", "set", &own, "up"])?;
        for node in 1..=self.nodes {
            let (space, port) = (name(node), format!("port{node}"));
            let address = format!("{}/24", Net::address(node));
            run("ip", &["netns", "add", &space])?;
            run(
                "ip",
                &[
                    "-n", &switch, "link", "add", &port, "type", "veth", "peer", "name", "net",
                    "netns", &space,
                ],
            )?;
            run(
                "ip",
                &[
                    "-n", &switch, "link", "set", &port, "master", "bridge", "up",
                ],
            )?;
            run("ip", &["-n", &space, "addr", "add", &address, "dev", "net"])?;
            run("ip", &["-n", &space, "link", "set", "net", "up"])?;
            run("ip", &["-n", &space, "link", "set", "lo", "up"])?;
            run(
                "ip",
                &["netns", "exec", &space, "iptables", "-w", "-L", "INPUT"],
            )?;
        }
        Ok(())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        remove_all_of(&format!("{PREFIX}{}n", id()));
        // Its other end may not have been made.
        let _ = run("ip", &["link", "del", &format!("{PREFIX}{}", id())]);
    }
}

fn name(node: u64) -> String {
    format!("{PREFIX}{}n{node}", id())
}

fn subnet() -> [u8; 2] {
    let id = id();
    [200 + (id >> 8) as u8 % 50, id as u8]
}

/// Networks of test processes that were killed.
fn remove_leftovers() {
    let Ok(names) = std::fs::read_dir(NAMES) else {
        return;
    };
    for name in names.flatten() {
        let name = name.file_name().to_string_lossy().into_owned();
        let process = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('n').next());
        if let Some(process) = process
            && process.parse::<u32>().is_ok()
            && !Path::new("/proc").join(process).exists()
        {
            remove_all_of(&name);
        }
    }
}

fn remove_all_of(prefix: &str) {
    let Ok(names) = std::fs::read_dir(NAMES) else {
        return;
    };
    for name in names.flatten() {
        let name = name.file_name().to_string_lossy().into_owned();
        if name.starts_with(prefix) {
            // Whoever else removes it is welcome.
            let _ = run("ip", &["netns", "del", &name]);
        }
    }
}

#[track_caller]
fn inside(node: u64, words: &[&str]) {
    let space = name(node);
    let words: Vec<&str> = ["netns", "exec", &space]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    if let Err(why) = run("ip", &words) {
        panic!("the network does not do as it is told: {why}");
    }
}

fn run(program: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{program} cannot be run: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program} {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}
