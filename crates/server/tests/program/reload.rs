//! Files that change while the broker runs: policies, configuration, definitions at the start.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{PATIENCE, Program, command, folder, http, refused, until};

const MANAGEMENT: [&str; 2] = ["--set", "listeners.management=127.0.0.1:0"];

fn policies(name: &str, max_length: u32) -> String {
    format!(
        "vhosts:\n  /:\n    policies:\n      - name: {name}\n        pattern: '^q'\n        \
         apply_to: queues\n        definition: {{max-length: {max_length}}}\n"
    )
}

/// A broker with this policy path.
fn start(data: &Path, policies: &Path) -> (Program, SocketAddr) {
    let set = format!("policies.path={}", policies.display());
    let options = [MANAGEMENT[0], MANAGEMENT[1], "--set", &set];
    let mut program = Program::start(command(data, &options));
    let management = program.listens("management");
    (program, management)
}

fn json(address: SocketAddr, path: &str) -> Value {
    let (status, body) = http(address, "GET", path, "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

fn max_length(address: SocketAddr) -> Value {
    json(address, "/api/queues/%2F/q")["effective_policy_definition"]["max-length"].clone()
}

fn metric(address: SocketAddr, name: &str) -> String {
    let (_, text) = http(address, "GET", "/metrics", "");
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit(' ').next())
        .unwrap_or_default()
        .to_owned()
}

/// Lines of the event stream, from now on.
fn listening(management: SocketAddr) -> impl Iterator<Item = String> {
    let mut stream = TcpStream::connect(management).expect("it listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket takes a timeout");
    stream
        .write_all(
            b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\
              Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n",
        )
        .expect("sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    // The head's end says that somebody listens.
    let head = lines.by_ref().find(String::is_empty);
    assert!(head.is_some(), "no answer");
    lines
}

#[test]
fn a_policy_file_applies_to_live_queues_when_it_changes_and_is_read_only_over_http() {
    let folder = folder();
    let file = folder.path().join("policies.yaml");
    fs::write(&file, policies("limit", 5)).expect("written");
    let (_program, management) = start(&folder.path().join("data"), &file);
    let (status, _) = http(
        management,
        "PUT",
        "/api/queues/%2F/q",
        r#"{"durable":true}"#,
    );
    assert_eq!(status, 201);
    assert_eq!(max_length(management), 5);
    let policy = json(management, "/api/policies/%2F/limit");
    assert_eq!(policy["origin"], "file");

    fs::write(&file, policies("limit", 77)).expect("written");
    until(|| max_length(management), |found| *found == 77);

    let body = r#"{"pattern":"x","definition":{"max-length":1}}"#;
    let (status, answer) = http(management, "PUT", "/api/policies/%2F/limit", body);
    assert_eq!(status, 400, "{answer}");
    assert!(answer.contains("comes from a policy file"), "{answer}");
    let (status, _) = http(management, "DELETE", "/api/policies/%2F/limit", "");
    assert_eq!(status, 400);

    fs::remove_file(&file).expect("removed");
    fs::write(&file, "vhosts: {}\n").expect("written");
    until(|| max_length(management), Value::is_null);
}

#[test]
fn a_broken_policy_file_leaves_the_old_state_and_is_told_in_log_metrics_and_api() {
    let folder = folder();
    let file = folder.path().join("policies.yaml");
    fs::write(&file, policies("limit", 5)).expect("written");
    let set = format!("policies.path={}", file.display());
    let options = [
        "--set",
        &set,
        MANAGEMENT[0],
        MANAGEMENT[1],
        "--set",
        "listeners.metrics=127.0.0.1:0",
    ];
    let mut program = Program::start(command(&folder.path().join("data"), &options));
    let line = program.line_with("ready amqp=");
    let [management, metrics] = ["management", "metrics"]
        .map(|name| crate::support::address_in(&line, name).expect("an address"));
    http(
        management,
        "PUT",
        "/api/queues/%2F/q",
        r#"{"durable":true}"#,
    );

    let mut events = listening(management);
    fs::write(
        &file,
        policies("limit", 9).replace("max-length", "max-lenght"),
    )
    .expect("written");
    let event = events
        .find(|line| line.starts_with("event: policies."))
        .expect("an event");
    assert_eq!(event.trim(), "event: policies.refused");
    let line = program.line_with("the policy files are not put into force");
    assert!(line.contains("policies.yaml:7:"), "{line}");
    assert!(line.contains("did you mean `max-length`?"), "{line}");
    assert_eq!(max_length(management), 5);
    assert_eq!(
        metric(metrics, "sluicemq_policy_files_load_failures_total"),
        "1"
    );
    assert_eq!(metric(metrics, "sluicemq_policy_files_in_force"), "0");
    let status = json(management, "/api/reload");
    assert_eq!(status["policies"]["failures"], 1);
    let (code, answer) = http(management, "POST", "/api/reload", "");
    assert_eq!(code, 400, "{answer}");
    assert!(answer.contains("did you mean"), "{answer}");

    fs::write(&file, policies("limit", 9)).expect("written");
    until(|| max_length(management), |found| *found == 9);
    assert_eq!(metric(metrics, "sluicemq_policy_files_in_force"), "1");
}

#[test]
fn a_broken_policy_file_ends_the_start() {
    let folder = folder();
    let file = folder.path().join("policies.yaml");
    fs::write(&file, "vhosts: [").expect("written");
    let set = format!("policies.path={}", file.display());
    let (code, told) = refused(command(&folder.path().join("data"), &["--set", &set]));
    assert_eq!(code, Some(78), "{told}");
    assert!(told.contains("the policy files are not valid"), "{told}");
    assert!(told.contains("policies.yaml:2:1: not valid YAML"), "{told}");
}

#[test]
fn policies_wait_for_their_virtual_host() {
    let folder = folder();
    let file = folder.path().join("policies.yaml");
    fs::write(&file, policies("limit", 5).replace("  /:", "  later:")).expect("written");
    let (_program, management) = start(&folder.path().join("data"), &file);
    let status = json(management, "/api/reload");
    let fault = status["policies"]["faults"][0].as_str().unwrap_or_default();
    assert!(fault.contains("\"later\""), "{status}");
    http(management, "PUT", "/api/vhosts/later", "");
    until(
        || http(management, "GET", "/api/policies/later/limit", "").0,
        |status| *status == 200,
    );
}

#[test]
fn a_mounted_folder_whose_link_is_turned_is_read_again() {
    let folder = folder();
    let mounted = folder.path().join("mounted");
    let version = |number: u32| -> PathBuf {
        let version = mounted.join(format!("..v{number}"));
        fs::create_dir_all(&version).expect("a folder");
        fs::write(version.join("p.yaml"), policies("limit", number)).expect("written");
        version
    };
    let turn = |to: &Path| {
        let link = mounted.join("..new");
        std::os::unix::fs::symlink(to, &link).expect("a link");
        fs::rename(&link, mounted.join("..data")).expect("turned at once");
    };
    turn(&version(1));
    std::os::unix::fs::symlink("..data/p.yaml", mounted.join("p.yaml")).expect("a link");
    let (_program, management) = start(&folder.path().join("data"), &mounted);
    http(
        management,
        "PUT",
        "/api/queues/%2F/q",
        r#"{"durable":true}"#,
    );
    assert_eq!(max_length(management), 1);
    turn(&version(2));
    until(|| max_length(management), |found| *found == 2);
}

#[test]
fn each_value_of_a_queue_is_told_with_its_origin_and_a_plan_changes_nothing() {
    let folder = folder();
    let file = folder.path().join("policies.yaml");
    fs::write(&file, policies("limit", 5)).expect("written");
    let (_program, management) = start(&folder.path().join("data"), &file);
    let body = r#"{"durable":true,"arguments":{"x-message-ttl":1000}}"#;
    http(management, "PUT", "/api/queues/%2F/q", body);
    let values = json(management, "/api/queues/%2F/q/settings");
    let origin = |key: &str| {
        let values = values["settings"].as_array().expect("a list");
        let found = values.iter().find(|value| value["key"] == key);
        found.map(|value| value["origin"].clone())
    };
    assert_eq!(
        origin("max-length"),
        Some("policy limit".into()),
        "{values}"
    );
    assert_eq!(origin("message-ttl"), Some("argument".into()), "{values}");
    assert_eq!(origin("overflow"), Some("default".into()), "{values}");

    let plan = r#"{"policies":[{"vhost":"/","scope":"user","policy":{"name":"limit",
        "pattern":"^q","apply-to":"queues","priority":0,"definition":{"max-length":7}}}]}"#;
    let (status, answer) = http(management, "POST", "/api/policy-files/plan", plan);
    assert_eq!(status, 200, "{answer}");
    let plan: Value = serde_json::from_str(&answer).expect("JSON");
    let value = &plan["queues"][0]["values"][0];
    assert_eq!(value["key"], "max-length", "{plan}");
    assert_eq!(
        (&value["from"], &value["to"]),
        (&5.into(), &7.into()),
        "{plan}"
    );
    assert_eq!(max_length(management), 5, "a plan is a look");
}

#[test]
fn definitions_are_imported_once_for_each_content() {
    let folder = folder();
    let file = folder.path().join("definitions.yaml");
    let topology = |name: &str| {
        format!(
            "vhosts: [{{name: shop}}]\nqueues:\n  - {{name: {name}, vhost: shop, durable: true}}\n"
        )
    };
    fs::write(&file, topology("one")).expect("written");
    let set = format!("definitions.path={}", file.display());
    let options = [MANAGEMENT[0], MANAGEMENT[1], "--set", &set];
    let data = folder.path().join("data");
    let mut first = Program::start(command(&data, &options));
    let management = first.listens("management");
    let status = |address, queue: &str| {
        let path = format!("/api/queues/shop/{queue}");
        http(address, "GET", &path, "").0
    };
    http(
        management,
        "PUT",
        "/api/permissions/shop/guest",
        r#"{"configure":".*","write":".*","read":".*"}"#,
    );
    assert_eq!(status(management, "one"), 200);
    assert_eq!(
        http(management, "DELETE", "/api/queues/shop/one", "").0,
        204
    );
    first.signal(Signal::TERM);
    assert_eq!(first.end().0.code(), Some(0));

    let mut second = Program::start(command(&data, &options));
    let management = second.listens("management");
    assert_eq!(status(management, "one"), 404, "the file is unchanged");
    second.signal(Signal::TERM);
    assert_eq!(second.end().0.code(), Some(0));

    fs::write(&file, topology("two")).expect("written");
    let mut third = Program::start(command(&data, &options));
    let management = third.listens("management");
    assert_eq!(status(management, "two"), 200);
}

#[test]
fn a_faulty_file_of_definitions_ends_the_start_with_its_place() {
    let folder = folder();
    let file = folder.path().join("definitions.json");
    fs::write(&file, "{\"queues\": [\n{\"name\": 7}]}").expect("written");
    let set = format!("definitions.path={}", file.display());
    let (code, told) = refused(command(&folder.path().join("data"), &["--set", &set]));
    assert_eq!(code, Some(78), "{told}");
    assert!(told.contains("definitions.json:2:"), "{told}");
}

#[test]
fn settings_change_for_clients_that_come_later_and_open_connections_stay() {
    let folder = folder();
    let config = folder.path().join("broker.yaml");
    fs::write(&config, "limits: {heartbeat: 60s}\n").expect("written");
    let options = ["--config", config.to_str().expect("a text")];
    let mut program = Program::start(command(&folder.path().join("data"), &options));
    let amqp = program.ready();
    let mut open = crate::tls::Amqp::plain(amqp);
    assert_eq!(open.log_in_plain().heartbeat, 60);
    let text = "limits: {heartbeat: 7s}\nflow: {users: {guest: {channel_flow: never}}}\n";
    fs::write(&config, text).expect("written");
    let line = program.line_with("configuration reloaded");
    assert!(line.contains("flow.users, limits.heartbeat"), "{line}");
    let mut later = crate::tls::Amqp::plain(amqp);
    assert_eq!(later.log_in_plain().heartbeat, 7);
    open.open_vhost();
}
