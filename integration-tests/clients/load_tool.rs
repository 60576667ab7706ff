//! The load tool as a user runs it: what it counts, what it finds, and that it leaves nothing behind.
//! Faults that no real broker commits are planted in the tool's own tests.

use std::path::Path;
use std::process::{Command, Output};

use integration_tests::request::queue_declare;
use integration_tests::{QueueSpec, Trial, say};
use serde_json::Value as Json;

/// Runs the tool against the broker under test.
#[track_caller]
fn perf(trial: &Trial, words: &[&str]) -> Output {
    let test = std::env::current_exe().expect("The system tells the path of a running program.");
    let profile = test.parent().and_then(Path::parent);
    let program = profile
        .expect("Tests lie in PROFILE/deps.")
        .join("sluicemq-perf");
    let hint = "run `cargo build -p perf` first";
    assert!(program.exists(), "{} is missing: {hint}", program.display());
    let uri = format!("amqp://{}", trial.address());
    let (command, flags) = words.split_first().expect("A command comes first.");
    Command::new(program)
        .args([command, "--uri", &uri])
        .args(flags)
        .output()
        .expect("The program was built.")
}

/// Runs a verified load on a queue of the test's own; answers the exit code and the report.
#[track_caller]
fn verified(trial: &Trial, queue: &str, flags: &str) -> (Option<i32>, Json) {
    let mut words = vec!["run", "--queue", queue, "--verify", "--json"];
    words.extend(flags.split_whitespace());
    let output = perf(trial, &words);
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|fault| {
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("expected one JSON object; came {fault}, and on standard error:\n{said}")
    });
    (output.status.code(), report)
}

/// Expects that a load arrives whole, and that nothing of it stays on the broker.
#[track_caller]
fn arrives_whole(flags: &str, messages: u64, copies: u64) -> Json {
    let trial = Trial::shared();
    let queue = trial.name("load");
    let (code, report) = verified(&trial, &queue, flags);
    assert_eq!(code, Some(0), "{flags}: {report}");
    assert_eq!(report["published"], messages, "{flags}");
    assert_eq!(report["consumed"], messages * copies, "{flags}");
    for finding in ["lost", "duplicated", "reordered", "corrupted", "astray"] {
        assert_eq!(report[finding], 0, "{flags}: {finding}");
    }
    assert_eq!(report["verified"], true, "{flags}");
    let gone = trial
        .channel()
        .refused(&queue_declare(&QueueSpec::passive(&queue)));
    assert_eq!(gone.code, 404, "{flags}: the queue should be gone");
    report
}

#[test]
fn confirmed_loads_arrive_whole_on_both_queue_types() {
    for queue_type in ["classic", "quorum"] {
        let flags = format!(
            "--queue-type {queue_type} --persistent --messages 5000 --size 16..3000 \
             --confirm-window 100 --ack-every 10 --prefetch 100 --write-batch 8"
        );
        let report = arrives_whole(&flags, 5_000, 1);
        assert_eq!(report["confirmed"], 5_000);
        for name in ["publish_rate", "confirm_rate", "consume_rate"] {
            let rate = report[name].as_f64();
            assert!(rate.is_some_and(|rate| rate > 0.0), "{name}: {rate:?}");
        }
        for name in ["latency_us", "confirm_latency_us"] {
            for percentile in ["p50", "p90", "p99", "p999", "max"] {
                let figure = &report[name][percentile];
                assert!(figure.is_number(), "{name}.{percentile}: {figure}");
            }
        }
    }
}

#[test]
fn every_way_to_publish_and_to_consume_arrives_whole() {
    for flags in [
        "--messages 3000 --ack-every 0 --write-batch 64 --size 16",
        "--messages 300 --confirm-per-publish --persistent",
        "--messages 1000 --tx 50 --persistent",
        "--messages 500 --poll --poll-pause 1",
        "--messages 2000 --confirm-window 50 --producers 3 --consumers 2 \
         --producers-per-connection 2 --consumers-per-connection 2",
        "--messages 2000 --confirm-window 50 --consume-after 2000 --headers {\"k\":1} \
         --property priority=3 --property expiration=600000",
        "--messages 40 --size 8,300000 --random-bytes --confirm-window 5",
    ] {
        let messages = flags.split_whitespace().nth(1);
        let messages = messages.and_then(|number| number.parse().ok());
        arrives_whole(flags, messages.expect("The number comes second."), 1);
    }
}

#[test]
fn a_fan_out_arrives_whole_in_every_queue() {
    let trial = Trial::shared();
    let exchange = trial.name("load-fan");
    let queue = format!("{}-%d", trial.name("load-fan"));
    let flags = format!(
        "--exchange {exchange} --exchange-type fanout --queues 4 --consumers 4 --messages 500 \
         --confirm-window 50"
    );
    let (code, report) = verified(&trial, &queue, &flags);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(
        (&report["published"], &report["consumed"]),
        (&500.into(), &2_000.into())
    );
}

#[test]
fn messages_sent_back_are_redelivered_and_kept_in_the_end() {
    for queue_type in ["classic", "quorum"] {
        let flags = format!(
            "--queue-type {queue_type} --messages 1000 --confirm-window 50 --requeue-every 2"
        );
        let report = arrives_whole(&flags, 1_000, 1);
        assert_eq!(report["requeued"], 500, "{queue_type}");
        assert_eq!(report["redelivered"], 500, "{queue_type}");
    }
}

#[test]
fn messages_that_a_full_queue_drops_are_found_as_lost() {
    let trial = Trial::shared();
    let queue = trial.name("load-full");
    let flags = "--queue-args {\"x-max-length\":10} --messages 100 --confirm-window 10 \
                 --consume-after 100 --idle 1";
    let (code, report) = verified(&trial, &queue, flags);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(
        (&report["lost"], &report["consumed"]),
        (&90.into(), &10.into())
    );
    assert_eq!(report["lost_examples"][0], format!("{queue}/0/0"));
}

#[test]
fn messages_that_a_full_queue_refuses_are_not_missed() {
    let trial = Trial::shared();
    let queue = trial.name("load-refusing");
    let flags = "--queue-args {\"x-max-length\":10,\"x-overflow\":\"reject-publish\"} \
                 --messages 100 --confirm-per-publish --consume-after 100";
    let (code, report) = verified(&trial, &queue, flags);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(
        (&report["refused"], &report["consumed"]),
        (&90.into(), &10.into())
    );
}

#[test]
fn an_existing_queue_is_used_as_it_is_and_stays() {
    let trial = Trial::shared();
    let queue = trial.queue("load-existing");
    let channel = trial.channel();
    channel.declare(&QueueSpec::durable(&queue));
    channel.put(&queue, "a message that is not the tool's");
    let (code, report) = verified(&trial, &queue, "--messages 100 --queue-type quorum");
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(
        (&report["foreign"], &report["consumed"]),
        (&1.into(), &101.into())
    );
    assert_eq!(channel.ready(&queue), 0);
}

#[test]
fn what_the_broker_refuses_is_quoted_and_fails() {
    let trial = Trial::shared();
    let queue = trial.name("load-refused");
    let bad = "{\"x-max-length\":-1}";
    let output = perf(
        &trial,
        &[
            "run",
            "--queue",
            &queue,
            "--queue-args",
            bad,
            "--messages",
            "1",
        ],
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("406 PRECONDITION_FAILED"), "{said}");
}

#[test]
fn a_short_soak_keeps_every_promise() {
    let trial = Trial::shared();
    for queue_type in ["classic", "quorum"] {
        let words = ["soak", "--time", "4", "--queue-type", queue_type, "--json"];
        let output = perf(&trial, &words);
        let report: Json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|fault| panic!("expected one JSON object; came {fault}"));
        say(&format!(
            "soak of a {queue_type} queue: seed {}",
            report["seed"]
        ));
        assert_eq!(output.status.code(), Some(0), "{report}");
        assert_eq!(report["lost"], 0);
        assert!(report["confirmed"].as_u64() > Some(0), "{report}");
    }
}
