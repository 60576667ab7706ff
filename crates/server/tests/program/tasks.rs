//! What the program does besides serving, and what containers ask of it.

use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;

use crate::support::{Program, command, folder};

fn output(command: &mut std::process::Command) -> (Option<i32>, String, String) {
    let output = command.output().expect("it runs");
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn check_config_tells_what_differs_and_starts_nothing() {
    let folder = folder();
    let data = folder.path().join("data");
    let options = ["--set", "limits.heartbeat=30s", "check-config"];
    let (code, told, _) = output(&mut command(&data, &options));
    assert_eq!(code, Some(0), "{told}");
    assert!(told.starts_with("the configuration is valid\n"), "{told}");
    assert!(
        told.contains("limits.heartbeat = 30s (option --set limits.heartbeat)"),
        "{told}"
    );
    assert!(!data.exists(), "no data folder is made");
}

#[test]
fn check_config_tells_the_faults_of_policy_files() {
    let folder = folder();
    let config = folder.path().join("broker.yaml");
    std::fs::write(&config, "").expect("written");
    std::fs::write(folder.path().join("policies.yaml"), "vhost: {}\n").expect("written");
    let options = ["check-config", "--config", config.to_str().expect("a text")];
    let (code, _, told) = output(&mut command(&folder.path().join("data"), &options));
    assert_eq!(code, Some(78), "{told}");
    assert!(
        told.contains("unknown key `vhost`; did you mean `vhosts`?"),
        "{told}"
    );
}

#[test]
fn explain_tells_meaning_default_value_and_variable() {
    let folder = folder();
    let options = [
        "explain",
        "limits.heartbeat",
        "--set",
        "limits.heartbeat=30s",
    ];
    let (code, told, _) = output(&mut command(folder.path(), &options));
    assert_eq!(code, Some(0));
    for words in [
        "Heartbeat period that is proposed to clients",
        "default: 1m",
        "here: 30s (option --set limits.heartbeat)",
        "environment: SLUICEMQ__LIMITS__HEARTBEAT",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let (code, _, told) = output(&mut command(folder.path(), &["explain", "limits.hartbeat"]));
    assert_eq!(code, Some(64));
    assert!(told.contains("did you mean `limits.heartbeat`?"), "{told}");
}

#[test]
fn explain_tells_what_is_said_under_names_and_in_lists() {
    let folder = folder();
    let config = folder.path().join("broker.yaml");
    let text = "flow:\n  clients: [{product: x, obeys_flow: true}]\n  users:\n    batch:\n      \
                channel_flow: never\n";
    std::fs::write(&config, text).expect("written");
    let config = config.to_str().expect("a text");
    let said = [
        (
            "flow.clients",
            "here: [{product: \"x\", platform: \"\", obeys_flow: true}] (",
        ),
        ("flow.users", "here: {batch: {channel_flow: \"never\"}} ("),
        ("flow.vhosts", "default: {}"),
        (
            "flow.users.batch.channel_flow",
            "FLOW__USERS__BATCH__CHANNEL_FLOW",
        ),
    ];
    for (key, words) in said {
        let options = ["explain", key, "--config", config];
        let (code, told, _) = output(&mut command(folder.path(), &options));
        assert_eq!(code, Some(0), "{key}");
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn a_rabbitmq_conf_is_taken_over_and_what_is_lost_is_named() {
    let folder = folder();
    let conf = folder.path().join("rabbitmq.conf");
    std::fs::write(&conf, "heartbeat = 30\nshovel.x = y\n").expect("written");
    let conf = conf.to_str().expect("a text");
    let options = ["check-config", "--rabbitmq-conf", conf];
    let (code, told, _) = output(&mut command(&folder.path().join("data"), &options));
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("rabbitmq.conf:1: heartbeat is limits.heartbeat"),
        "{told}"
    );
    assert!(
        told.contains("rabbitmq.conf:2: shovel.x MEANS NOTHING HERE"),
        "{told}"
    );
    let options = ["--rabbitmq-conf", conf];
    let mut program = Program::start(command(&folder.path().join("data"), &options));
    let line = program.line_with("means nothing here");
    assert!(line.contains("shovel.x"), "{line}");
    program.ready();
}

#[test]
fn variables_of_container_images_are_honoured_and_unknown_ones_named_once() {
    let folder = folder();
    let mut named = command(folder.path(), &[]);
    named.env("RABBITMQ_NODENAME", "rabbit@here");
    named.env("RABBITMQ_DEFAULT_USER", "admin");
    named.env("RABBITMQ_DEFAULT_PASS", "x");
    named.env("RABBITMQ_SERVER_START_ARGS", "x");
    named.env("RABBITMQ_LOGS", "-");
    let mut program = Program::start(named);
    let line = program.line_with("starting");
    assert!(line.contains("rabbit@here"), "{line}");
    let line = program.line_with("mean nothing here");
    assert!(
        line.contains("RABBITMQ_LOGS, RABBITMQ_SERVER_START_ARGS"),
        "{line}"
    );
    let line = program.line_with("RABBITMQ_DEFAULT_USER");
    assert!(line.contains("user=admin"), "{line}");
    program.ready();
}

#[test]
fn a_user_that_the_environment_names_is_made_even_where_others_are() {
    let folder = folder();
    let mut first = Program::start(command(folder.path(), &[]));
    first.ready();
    first.signal(Signal::TERM);
    assert_eq!(first.end().0.code(), Some(0));
    let mut named = command(folder.path(), &[]);
    named.env("RABBITMQ_DEFAULT_USER", "admin");
    named.env("RABBITMQ_DEFAULT_PASS", "x");
    let mut second = Program::start(named);
    let line = second.line_with("created the first user");
    assert!(line.contains("admin"), "{line}");
    let line = second.line_with("the data folder");
    assert!(line.contains("user=guest"), "{line}");
    second.ready();
}

#[test]
fn the_service_manager_is_told_ready_reloading_and_stopping() {
    let folder = folder();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket
        .set_read_timeout(Some(crate::support::PATIENCE))
        .expect("set");
    let mut notified = command(&folder.path().join("data"), &[]);
    notified.env("NOTIFY_SOCKET", &path);
    let mut program = Program::start(notified);
    program.ready();
    let told = || {
        let mut words = [0; 256];
        let count = socket.recv(&mut words).expect("told");
        String::from_utf8_lossy(&words[..count]).into_owned()
    };
    assert_eq!(told(), "READY=1\n");
    program.signal(Signal::HUP);
    let reloading = told();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(told(), "READY=1\n");
    program.signal(Signal::TERM);
    assert_eq!(told(), "STOPPING=1\n");
}
