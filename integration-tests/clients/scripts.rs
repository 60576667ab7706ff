//! Runs the scripts of other languages as tests, one test a script.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use integration_tests::{BrokerProcess, Trial, own_broker};

use crate::alarms::until_all_were_there;

/// How long one script may take.
const SCRIPT_WITHIN: Duration = Duration::from_secs(180);

/// This package's folder.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file that `integration-tests/run --only setup` puts there.
#[track_caller]
pub(crate) fn tool(path: &str) -> PathBuf {
    let tool = package().join(".tools").join(path);
    let hint = "run `integration-tests/run --only setup` first";
    assert!(tool.exists(), "{} is missing: {hint}", tool.display());
    tool
}

/// Runs a command against the shared broker; it must end with success.
#[track_caller]
pub(crate) fn run(mut command: Command) {
    run_against(Trial::shared().address(), &mut command);
}

/// Runs a command against a broker; it must end with success.
#[track_caller]
fn run_against(address: SocketAddr, command: &mut Command) {
    let output = tempfile::NamedTempFile::new().expect("The temporary folder must take a file.");
    let out = output.reopen().expect("The file was just made.");
    let err = out.try_clone().expect("A descriptor can be copied.");
    command
        .current_dir(package().join("clients"))
        .env("AMQP_HOST", address.ip().to_string())
        .env("AMQP_PORT", address.port().to_string())
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err);
    let mut child = command
        .spawn()
        .expect("The script's interpreter must start.");
    let deadline = Instant::now() + SCRIPT_WITHIN;
    let status = loop {
        if let Some(status) = child.try_wait().expect("Our own child can be asked.") {
            break Some(status);
        }
        if Instant::now() > deadline {
            // It may have ended by itself in this moment.
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let said = std::fs::read_to_string(output.path()).unwrap_or_default();
    assert!(
        status.is_some_and(|status| status.success()),
        "expected {command:?} to succeed; came {status:?} (none: too late):\n{said}"
    );
}

#[track_caller]
fn pika_command(script: &str) -> Command {
    let mut command = Command::new(tool("venv/bin/python"));
    command
        .args(["-W", "ignore", script])
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[track_caller]
fn pika(script: &str) {
    run(pika_command(script));
}

/// Runs the two halves of a script with kill -9 of the broker between them.
#[track_caller]
fn pika_over_a_crash(script: &str) {
    own_broker(|| {
        let mut broker = BrokerProcess::start();
        for phase in ["before", "after"] {
            let mut command = pika_command(script);
            command.env("PHASE", phase);
            run_against(broker.address(), &mut command);
            if phase == "before" {
                broker.kill9();
                broker.restart();
            }
        }
    });
}

#[track_caller]
fn amqplib_command(script: &str) -> Command {
    let mut command = Command::new("node");
    command
        .args(["--test", "--test-force-exit", script])
        .env("NODE_PATH", tool("node_modules"));
    command
}

#[track_caller]
fn amqplib(script: &str) {
    run(amqplib_command(script));
}

/// Runs a command against a broker whose alarms come and go, with so many messages a story that
/// each meets some.
#[track_caller]
pub(crate) fn run_through_alarms(mut command: Command) {
    command.env("MESSAGES", "1000");
    until_all_were_there(|address| run_against(address, &mut command));
}

#[test]
fn pika_connects_and_ends() {
    pika("pika_connections.py");
}

#[test]
fn pika_declares_and_routes() {
    pika("pika_topology.py");
}

#[test]
fn pika_publishes() {
    pika("pika_publishing.py");
}

#[test]
fn pika_consumes() {
    pika("pika_consuming.py");
}

#[test]
fn pika_meets_the_rules_of_quorum_queues_over_a_crash() {
    pika_over_a_crash("pika_quorum.py");
}

#[test]
fn amqplib_connects_and_ends() {
    amqplib("amqplib_connections.test.js");
}

#[test]
fn amqplib_passes_messages() {
    amqplib("amqplib_messages.test.js");
}

#[test]
fn python_clients_live_through_overfull_queues() {
    pika("flow_clients.py");
}

#[test]
fn node_clients_live_through_overfull_queues() {
    amqplib("flow_clients.test.js");
}

#[test]
fn python_clients_live_through_alarms_of_memory_and_disk() {
    run_through_alarms(pika_command("flow_clients.py"));
}

#[test]
fn node_clients_live_through_alarms_of_memory_and_disk() {
    run_through_alarms(amqplib_command("flow_clients.test.js"));
}
