//! The program from outside, against a stand-in broker that misbehaves on demand.
//!
//! What a real broker does is tested with real brokers; here are the faults that a real one cannot
//! be asked for.
#![allow(
    clippy::unwrap_used,
    reason = "a stand-in that fails should fail its test"
)]

#[path = "cli/stand_in.rs"]
mod stand_in;

use std::process::{Command, Output};

use serde_json::Value as Json;
use stand_in::{Fault, StandIn};

fn perf(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluicemq-perf"))
        .args(words)
        .output()
        .expect("the program is built before its tests")
}

/// Runs a load of 500 messages with --verify and --json.
fn verified_run(broker: &StandIn, more: &[&str]) -> (Option<i32>, Json) {
    let uri = broker.uri();
    let mut words = vec![
        "run",
        "--uri",
        &uri,
        "--messages",
        "500",
        "--size",
        "64",
        "--confirm-window",
        "50",
        "--verify",
        "--idle",
        "1",
        "--json",
    ];
    words.extend(more);
    let output = perf(&words);
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|fault| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        panic!("no JSON ({fault}); standard error: {stderr}")
    });
    (output.status.code(), json)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_faultless_run_is_verified_and_exits_with_success() {
    let broker = StandIn::start(Fault::None);
    let (code, report) = verified_run(&broker, &[]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["verified"], true);
    for name in ["published", "confirmed", "consumed"] {
        assert_eq!(report[name], 500, "{name}");
    }
    for name in ["lost", "duplicated", "reordered", "corrupted", "astray"] {
        assert_eq!(report[name], 0, "{name}");
    }
    for name in ["publish_rate", "confirm_rate", "consume_rate"] {
        assert!(report[name].as_f64().unwrap() > 0.0, "{name}");
    }
    for name in ["latency_us", "confirm_latency_us"] {
        for percentile in ["p50", "p90", "p99", "p999", "max"] {
            assert!(report[name][percentile].is_number(), "{name} {percentile}");
        }
    }
    assert_eq!(report["broker"]["product"], "stand-in");
}

#[test]
fn what_was_declared_is_deleted_and_what_was_there_stays() {
    let broker = StandIn::start(Fault::None);
    verified_run(&broker, &["--queues", "3", "--queue", "n%d"]);
    assert!(broker.queues().is_empty(), "{:?}", broker.queues());
    verified_run(&broker, &["--queue", "kept", "--keep"]);
    assert_eq!(broker.queues(), ["kept"]);
    verified_run(&broker, &["--queue", "kept"]);
    assert_eq!(broker.queues(), ["kept"]);
}

#[test]
fn a_planted_loss_is_found_and_named_and_fails_the_run() {
    let broker = StandIn::start(Fault::Lose { nth: 77 });
    let (code, report) = verified_run(&broker, &[]);
    assert_eq!(code, Some(1));
    assert_eq!(
        (&report["lost"], &report["duplicated"]),
        (&1.into(), &0.into())
    );
    assert_eq!(report["lost_examples"][0], "sluicemq-perf/0/77");
}

#[test]
fn a_planted_duplicate_is_found_and_fails_the_run() {
    let broker = StandIn::start(Fault::Duplicate { nth: 77 });
    let (code, report) = verified_run(&broker, &[]);
    assert_eq!(code, Some(1));
    assert_eq!(
        (&report["lost"], &report["duplicated"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn a_planted_reordering_is_found_and_fails_the_run() {
    let broker = StandIn::start(Fault::Swap { nth: 77 });
    let (code, report) = verified_run(&broker, &[]);
    assert_eq!(code, Some(1));
    assert_eq!(
        (&report["lost"], &report["reordered"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn a_changed_body_is_found_and_fails_the_run() {
    let broker = StandIn::start(Fault::Corrupt { nth: 77 });
    let (code, report) = verified_run(&broker, &[]);
    assert_eq!(code, Some(1));
    assert_eq!(
        (&report["lost"], &report["corrupted"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn without_verify_a_loss_is_reported_but_does_not_fail_the_run() {
    let broker = StandIn::start(Fault::Lose { nth: 3 });
    let uri = broker.uri();
    let output = perf(&["run", "--uri", &uri, "--messages", "9", "--idle", "0.3"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("lost 1"));
}

#[test]
fn refused_publishes_are_counted_and_not_missed() {
    let broker = StandIn::start(Fault::Refuse { nth: 5 });
    let (code, report) = verified_run(&broker, &[]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(
        (&report["refused"], &report["confirmed"]),
        (&1.into(), &499.into())
    );
}

#[test]
fn a_closed_channel_breaks_the_run_off_with_code_and_text() {
    let broker = StandIn::start(Fault::CloseChannel { after: 100 });
    let (code, report) = verified_run(&broker, &[]);
    assert_eq!(code, Some(2));
    let fault = report["fault"].as_str().unwrap();
    assert!(
        fault.contains("406 PRECONDITION_FAILED - planted"),
        "{fault}"
    );
    assert_eq!(report["verified"], false);
    assert!(broker.queues().is_empty(), "cleaned up all the same");
}

#[test]
fn a_dropped_connection_breaks_the_run_off() {
    let broker = StandIn::start(Fault::DropConnection { after: 100 });
    let (code, report) = verified_run(&broker, &[]);
    assert_eq!(code, Some(2));
    let fault = report["fault"].as_str().unwrap();
    assert!(
        fault.contains("dropped the connection") || fault.contains("broke"),
        "{fault}"
    );
}

#[test]
fn a_broker_that_refuses_the_queue_is_quoted() {
    let broker = StandIn::start(Fault::RefuseQueues);
    let output = perf(&["run", "--uri", &broker.uri(), "--messages", "1"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("540 NOT_IMPLEMENTED - planted"), "{text}");
}

#[test]
fn nobody_listening_is_said_with_the_address() {
    let vacant = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = vacant.local_addr().unwrap().port();
    drop(vacant);
    let output = perf(&[
        "run",
        "--uri",
        &format!("amqp://127.0.0.1:{port}"),
        "--messages",
        "1",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(
        text.contains(&format!("cannot connect to amqp://127.0.0.1:{port}")),
        "{text}"
    );
}

#[test]
fn bad_arguments_are_refused_before_anything_is_connected() {
    for (words, said) in [
        (&["run", "--size", "1k"][..], "is no size"),
        (&["run", "--uri", "http://h"], "amqp://"),
        (
            &["run", "--ack-every", "9", "--prefetch", "5"],
            "--prefetch 5",
        ),
        (&["run", "--confirm-window", "5", "--tx", "5"], "--tx"),
        (&["run", "--pid", "4000000000"], "no such process"),
        (&["run", "--queue-args", "[1]"], "JSON object"),
        (
            &[
                "compare",
                "--scenario",
                "nonesuch",
                "--target",
                "a=amqp://h",
            ],
            "nonesuch",
        ),
        (
            &[
                "compare",
                "--scenario",
                "confirm-1k",
                "--target",
                "amqp://h",
            ],
            "name=",
        ),
        (&["fly"], "fly"),
    ] {
        let output = perf(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            stderr(&output).contains(said),
            "{words:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_comparison_keeps_the_target_that_failed() {
    let good = StandIn::start(Fault::None);
    let bad = StandIn::start(Fault::RefuseQueues);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.txt");
    std::fs::write(
        &file,
        "# a small one\n--messages 50 --size 16 --confirm-window 10\n",
    )
    .unwrap();
    let good_target = format!("good={}", good.uri());
    let bad_target = format!("bad={}", bad.uri());
    let output = perf(&[
        "compare",
        "--scenario",
        file.to_str().unwrap(),
        "--target",
        &good_target,
        "--target",
        &bad_target,
        "--rounds",
        "2",
        "--pause",
        "0",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    let scenario = &json["scenarios"][0];
    assert_eq!(
        (&scenario["name"], &scenario["about"]),
        (&"small".into(), &"a small one".into())
    );
    let rounds = |target: usize| {
        scenario["targets"][target]["rounds"]
            .as_array()
            .unwrap()
            .clone()
    };
    assert!(
        rounds(0)
            .iter()
            .all(|round| round["report"]["published"] == 50)
    );
    assert_eq!(rounds(1).len(), 2);
    assert!(rounds(1)[0]["failure"].as_str().unwrap().contains("540"));
    let published = &scenario["figures"][0];
    assert_eq!(published["figure"], "published");
    assert!(published["targets"][0]["median"].is_number());
    assert!(published["targets"][1].is_null() && published["ratios"][0].is_null());
    assert!(good.queues().is_empty());
}

#[test]
fn a_churn_of_connections_counts_its_rounds() {
    let broker = StandIn::start(Fault::None);
    let uri = broker.uri();
    let output = perf(&[
        "run",
        "--uri",
        &uri,
        "--churn",
        "connect",
        "--producers",
        "2",
        "--messages",
        "9",
        "--json",
    ]);
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["churned"], 9);
    assert!(json["churn_latency_us"]["p50"].is_number());
}

#[test]
fn a_soak_that_loses_a_confirmed_message_fails_and_names_it() {
    let broker = StandIn::start(Fault::Lose { nth: 7 });
    let uri = broker.uri();
    let output = perf(&[
        "soak",
        "--uri",
        &uri,
        "--time",
        "1",
        "--queues",
        "1",
        "--producers",
        "1",
        "--consumers",
        "1",
        "--idle",
        "1",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["lost"], 1, "{json}");
    assert_eq!(json["examples"][0], "lost 0/7");
    assert!(broker.queues().is_empty());
}
