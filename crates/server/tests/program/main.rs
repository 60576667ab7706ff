//! The program from outside: options, ready line, start-up errors, signals, exit codes.

mod reload;
mod support;
mod tasks;
mod tls;

use std::net::{TcpListener, TcpStream};

use rustix::process::Signal;

use support::{Program, command, folder, refused};

#[test]
fn the_broker_starts_with_nothing_but_a_folder_and_stops_with_zero_on_term() {
    let folder = folder();
    let mut program = Program::start(command(&folder.path().join("new/data"), &[]));
    let address = program.ready();
    TcpStream::connect(address).expect("it listens");
    program.signal(Signal::TERM);
    let (status, told) = program.end();
    assert_eq!(status.code(), Some(0), "{told}");
    assert!(
        TcpStream::connect(address).is_err(),
        "the listener is still there"
    );
}

#[test]
fn the_first_start_creates_a_user_and_the_second_does_not() {
    let folder = folder();
    let mut named = command(folder.path(), &[]);
    named
        .env("RABBITMQ_DEFAULT_USER", "admin")
        .env("RABBITMQ_DEFAULT_PASS", "x");
    let mut first = Program::start(named);
    let line = first.line_with("created the first user and vhost");
    assert!(line.contains("user=\"admin\" vhost=\"/\""), "{line}");
    first.ready();
    first.signal(Signal::TERM);
    assert_eq!(first.end().0.code(), Some(0));

    let mut second = Program::start(command(folder.path(), &[]));
    second.ready();
    let created = second
        .told
        .iter()
        .any(|line| line.contains("created the first user"));
    assert!(!created, "{}", second.told.join("\n"));
}

#[test]
fn a_first_user_from_a_missing_file_ends_the_start() {
    let folder = folder();
    let mut command = command(&folder.path().join("data"), &[]);
    command.env("RABBITMQ_DEFAULT_PASS_FILE", "/nowhere/password");
    let (code, told) = refused(command);
    assert_eq!(code, Some(78), "{told}");
    assert_eq!(
        told,
        "sluicemq: environment variable RABBITMQ_DEFAULT_PASS_FILE: /nowhere/password cannot be \
         read: No such file or directory (os error 2); check the path and its permissions"
    );
}

#[test]
fn int_stops_like_term_and_the_folder_can_be_used_again() {
    let folder = folder();
    for _ in 0..2 {
        let mut program = Program::start(command(folder.path(), &[]));
        program.ready();
        program.signal(Signal::INT);
        let (status, told) = program.end();
        assert_eq!(status.code(), Some(0), "{told}");
    }
}

#[test]
fn the_ready_line_says_off_for_listeners_that_are_off() {
    let folder = folder();
    let mut program = Program::start(command(folder.path(), &["--set", "listeners.amqp=off"]));
    assert_eq!(
        program.line_with("ready"),
        "ready amqp=off management=off metrics=off"
    );
}

#[test]
fn a_taken_port_ends_the_start_and_leaves_the_folder_usable() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    let set = format!("listeners.amqp={address}");
    let (code, told) = refused(command(folder.path(), &["--set", &set]));
    assert_eq!(code, Some(69), "{told}");
    let words = format!(
        "sluicemq: `listeners.amqp`: cannot listen on {address}: another program has the port; \
         stop it, or choose another port with --set listeners.amqp=PORT (0: a free one)"
    );
    assert_eq!(told.lines().last(), Some(words.as_str()), "{told}");
    Program::start(command(folder.path(), &[])).ready();
}

#[test]
fn a_folder_in_use_is_told_with_what_to_do() {
    let folder = folder();
    let mut first = Program::start(command(folder.path(), &[]));
    first.ready();
    let (code, told) = refused(command(folder.path(), &[]));
    assert_eq!(code, Some(69), "{told}");
    let last = told.lines().last().unwrap_or_default();
    assert!(last.starts_with("sluicemq: `node.data_dir`: "), "{told}");
    assert!(last.contains("in use"), "{told}");
    assert!(
        last.contains("stop the other broker, or give this one its own folder"),
        "{told}"
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_told_with_what_to_do() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let (code, told) = refused(command(&file.join("data"), &[]));
    assert_eq!(code, Some(69), "{told}");
    let last = told.lines().last().unwrap_or_default();
    assert!(last.starts_with("sluicemq: `node.data_dir`: "), "{told}");
    assert!(last.contains("a file is in the way"), "{told}");
}

#[test]
fn faulty_settings_end_the_start_with_every_fault() {
    let folder = folder();
    let config = folder.path().join("broker.yaml");
    std::fs::write(&config, "limits:\n  hartbeat: 3s\n").expect("written");
    let config = config.to_str().expect("a text");
    let options = ["--config", config, "--set", "log.level=loud"];
    let (code, told) = refused(command(&folder.path().join("data"), &options));
    assert_eq!(code, Some(78), "{told}");
    assert_eq!(
        told,
        format!(
            "sluicemq: the settings are not valid\n\
             {config}:2:3: unknown key `limits.hartbeat`; did you mean `limits.heartbeat`?"
        )
    );
    assert!(
        !folder.path().join("data").exists(),
        "nothing is made before the settings are read"
    );
}

#[test]
fn a_wrong_command_line_is_told_with_its_own_exit_code() {
    let folder = folder();
    let (code, told) = refused(command(folder.path(), &["--bogus"]));
    assert_eq!(code, Some(64), "{told}");
    assert!(told.contains("unexpected argument '--bogus'"), "{told}");
}

#[test]
fn the_version_is_told_and_ends_with_zero() {
    let folder = folder();
    let output = command(folder.path(), &["--version"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    let version = format!("sluicemq {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}

#[test]
fn hup_reloads_the_log_level_and_survives_a_faulty_file() {
    let folder = folder();
    let config = folder.path().join("broker.yaml");
    std::fs::write(&config, "log: {level: info}").expect("written");
    let options = ["--config", config.to_str().expect("a text")];
    let mut program = Program::start(command(&folder.path().join("data"), &options));
    program.ready();

    std::fs::write(&config, "log: {levle: info}").expect("written");
    program.signal(Signal::HUP);
    let line = program.line_with("the configuration is not reloaded");
    assert!(line.contains("did you mean `log.level`?"), "{line}");

    std::fs::write(&config, "log: {level: debug}\nquorum: {groups: 9}").expect("written");
    program.signal(Signal::HUP);
    program.line_with("configuration reloaded");
    program.line_with("they take effect at the next start");

    program.signal(Signal::TERM);
    assert_eq!(program.end().0.code(), Some(0));
}

#[test]
fn every_log_line_is_an_object_when_json_is_asked_for() {
    let folder = folder();
    let mut program = Program::start(command(folder.path(), &["--set", "log.format=json"]));
    program.ready();
    assert!(
        !program.told.is_empty(),
        "something is logged before the broker is ready"
    );
    for line in &program.told {
        assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
        assert!(line.contains("\"level\":\""), "{line}");
    }
}

#[test]
fn secrets_do_not_reach_the_log() {
    let folder = folder();
    let options = [
        "--set",
        "auth.default_password=hunter2",
        "--set",
        "log.level=trace",
    ];
    let mut program = Program::start(command(folder.path(), &options));
    program.ready();
    program.signal(Signal::TERM);
    let told = program.told.join("\n");
    assert!(told.contains("auth.default_password"), "{told}");
    let (_, rest) = program.end();
    assert!(
        !told.contains("hunter2") && !rest.contains("hunter2"),
        "{told}\n{rest}"
    );
}
