//! Brokers on this machine for trying things out.
//!
//! Knows the program `sluicemq` by its options and its ready line only. The nodes end when this
//! program ends, however it ends: a shell beside them waits for the end of a pipe.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};

use clap::{Args, Subcommand};

use crate::failure::{Failure, Result, SOFTWARE, UNAVAILABLE};
use crate::shell::print;

/// More brokers than this are no trial any more.
const NODES_MAX: u16 = 9;
const PROGRAM: &str = "sluicemq";
/// Tells the processes whose numbers follow to end once its own input ends.
const WATCH: &str = "read -r _; kill -TERM \"$@\" 2>/dev/null";

/// Brokers on this machine.
#[derive(Debug, Subcommand)]
pub(crate) enum Dev {
    /// Starts a cluster and ends it with this command.
    Cluster(Cluster),
}

/// A cluster of processes on this machine.
#[derive(Args, Debug)]
pub(crate) struct Cluster {
    /// How many nodes.
    #[arg(default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    nodes: u16,
    /// Folder of the nodes' data, kept for the next time; without it they begin empty in a
    /// temporary folder.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// AMQP port of the first node, the others follow; free ports when it is not given.
    #[arg(long, value_name = "PORT")]
    amqp_port: Option<u16>,
    /// Further settings of each node, KEY=VALUE.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl Dev {
    pub(crate) fn run(&self) -> Result<()> {
        let Dev::Cluster(cluster) = self;
        cluster.run()
    }
}

/// What the nodes report, with their number.
enum News {
    Ready(u16, String),
    Ended(u16, ExitStatus),
}

impl Cluster {
    fn run(&self) -> Result<()> {
        let folder = match &self.data_dir {
            Some(folder) => folder.clone(),
            None => std::env::temp_dir().join(format!("sluicemq-cluster-{}", std::process::id())),
        };
        let addresses = free_addresses(self.nodes)?;
        let members: Vec<String> = (1..)
            .zip(&addresses)
            .map(|(n, at)| format!("{n}@{at}"))
            .collect();
        let secret = secret()?;
        let (news, coming) = mpsc::channel();
        let mut children = Vec::new();
        for (number, address) in (1..).zip(&addresses) {
            let mut command = self.command(number, &folder.join(format!("node{number}")));
            command
                .arg("--set")
                .arg(format!("listeners.cluster={address}"));
            command.env("SLUICEMQ__CLUSTER__NODES", members.join(","));
            command.env("SLUICEMQ__CLUSTER__SECRET", &secret);
            let child = command.spawn().map_err(|error| {
                Failure::new(UNAVAILABLE, format!("{PROGRAM} does not start: {error}"))
                    .next(format!("put {PROGRAM} beside sluicectl, or into the PATH"))
            })?;
            children.push((number, child));
        }
        let ids: Vec<u32> = children.iter().map(|(_, child)| child.id()).collect();
        // Held until the end: the shell acts when it is dropped, or when this process is gone.
        let watch = watch(&ids)?;
        for (number, mut child) in children {
            let news = news.clone();
            std::thread::spawn(move || {
                if let Some(stderr) = child.stderr.take() {
                    report(number, stderr, &news);
                }
                if let Ok(status) = child.wait() {
                    // Nobody listens any more when all is over.
                    let _ = news.send(News::Ended(number, status));
                }
            });
        }
        drop(news);
        for news in coming {
            match news {
                News::Ready(number, line) => print(&format!("{}\n", told(number, &line))),
                News::Ended(number, status) => eprintln!("node {number} has ended: {status}"),
            }
        }
        drop(watch);
        if self.data_dir.is_none() {
            // What is left there is of no use to anybody.
            let _ = std::fs::remove_dir_all(&folder);
        }
        Ok(())
    }

    fn command(&self, number: u16, data_dir: &Path) -> Command {
        let amqp = self.amqp_port.map_or(0, |first| first + number - 1);
        let mut command = Command::new(program());
        command.arg("--data-dir").arg(data_dir);
        let usual = [
            format!("cluster.node={number}"),
            format!("listeners.amqp=127.0.0.1:{amqp}"),
            "listeners.management=127.0.0.1:0".to_owned(),
            "listeners.metrics=127.0.0.1:0".to_owned(),
            // What three brokers have to say about starting hides where they are.
            "log.level=warn".to_owned(),
        ];
        for setting in usual.iter().chain(&self.settings) {
            command.arg("--set").arg(setting);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }
}

/// The program beside this one, or the one that the PATH leads to.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok();
    let beside = beside.map(|own| own.with_file_name(PROGRAM));
    beside
        .filter(|path| path.exists())
        .unwrap_or_else(|| PROGRAM.into())
}

/// Addresses that nobody listens at. All are held at once, so that none comes twice.
fn free_addresses(count: u16) -> Result<Vec<String>> {
    let bound = (0..count).map(|_| TcpListener::bind("127.0.0.1:0"));
    let bound: std::io::Result<Vec<TcpListener>> = bound.collect();
    let addresses = bound.and_then(|bound| {
        let addresses = bound.iter().map(|listener| listener.local_addr());
        addresses.collect::<std::io::Result<Vec<_>>>()
    });
    let addresses = addresses
        .map_err(|error| Failure::new(SOFTWARE, format!("there is no free port: {error}")))?;
    Ok(addresses.iter().map(ToString::to_string).collect())
}

/// What the nodes know each other by, new each time.
fn secret() -> Result<String> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|error| Failure::new(SOFTWARE, format!("/dev/urandom cannot be read: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// In a process group of its own, so that an interrupt from the keyboard leaves it its work.
fn watch(processes: &[u32]) -> Result<Child> {
    Command::new("sh")
        .args(["-c", WATCH, "watch"])
        .args(processes.iter().map(ToString::to_string))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::new(SOFTWARE, format!("sh does not start: {error}")))
}

/// Passes the node's log on and tells when it is ready.
fn report(number: u16, stderr: ChildStderr, news: &Sender<News>) {
    for line in BufReader::new(stderr)
        .lines()
        .map_while(std::result::Result::ok)
    {
        match line.strip_prefix("ready ") {
            Some(ready) => {
                // Nobody listens any more when all is over.
                let _ = news.send(News::Ready(number, ready.to_owned()));
            }
            None => eprintln!("node {number}: {line}"),
        }
    }
}

/// A ready line as addresses that clients and this tool take.
fn told(number: u16, ready: &str) -> String {
    let address = |name: &str| {
        let words = ready.split_whitespace();
        let named = words.filter_map(|word| word.split_once('='));
        named
            .filter(|(key, _)| *key == name)
            .map(|(_, at)| at)
            .next()
    };
    let amqp = address("amqp").unwrap_or("off");
    let management = address("management").unwrap_or("off");
    format!("amqp://guest:guest@{amqp}  # node {number}, sluicectl --url http://{management}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_line_becomes_an_address_for_clients() {
        let line = "amqp=127.0.0.1:4001 management=127.0.0.1:4002 metrics=off";
        assert_eq!(
            told(2, line),
            "amqp://guest:guest@127.0.0.1:4001  # node 2, sluicectl --url http://127.0.0.1:4002"
        );
    }

    #[test]
    fn addresses_are_as_many_as_asked_for_and_differ() {
        let mut addresses = free_addresses(9).unwrap();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 9);
    }
}
