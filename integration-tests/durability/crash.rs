//! Load with confirms, kill -9 at a random moment, restart, compare with the oracle; many times over
//! on one data directory.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use integration_tests::{BrokerProcess, Connection, QueueSpec, own_broker, say};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::from_environment;
use crate::load::{Consumer, Publisher, drain};
use crate::oracle::{Oracle, Seen};

/// Cycles of load and kill; `SLUICEMQ_TEST_CRASH_CYCLES` for longer soaks.
const CYCLES: u32 = 20;
/// The load runs at least and at most so long before the kill, milliseconds.
const LOAD_MS: std::ops::Range<u64> = 20..700;
/// Publishers and consumers of each queue.
const PUBLISHERS: u32 = 2;
const CONSUMERS: u32 = 2;
/// Complaints shown before the rest is only counted.
const COMPLAINTS_SHOWN: usize = 20;

/// One queue under test.
struct Subject {
    queue: &'static str,
    kind: &'static str,
    /// One message in so many is published as transient.
    transient_one_in: u32,
    /// Whether the queue keeps transient messages, too.
    keeps_transient: bool,
    oracle: Oracle,
}

fn subjects() -> [Subject; 2] {
    [
        Subject {
            queue: "crash.quorum",
            kind: "quorum",
            transient_one_in: 8,
            keeps_transient: true,
            oracle: Oracle::default(),
        },
        Subject {
            queue: "crash.classic",
            kind: "classic",
            transient_one_in: 8,
            keeps_transient: false,
            oracle: Oracle::default(),
        },
    ]
}

/// One cycle's load on all subjects; the broker is killed while it runs.
fn load_and_kill(
    broker: &mut BrokerProcess,
    subjects: &[Subject],
    cycle: u32,
    random: &mut SmallRng,
) -> Vec<Vec<Seen>> {
    let address = broker.address();
    let clients = subjects.len() as u32 * (PUBLISHERS + CONSUMERS);
    let ready = Barrier::new(clients as usize + 1);
    let ready = &ready;
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (subject_number, subject) in (0u32..).zip(subjects) {
            let mut of_subject = Vec::new();
            for client in 0..PUBLISHERS + CONSUMERS {
                let mut random = SmallRng::seed_from_u64(random.random());
                // Every publisher of every cycle has a number of its own.
                let number = (cycle * 16 + subject_number) * 16 + client;
                of_subject.push(scope.spawn(move || {
                    run_client(address, subject, client, number, ready, &mut random)
                }));
            }
            running.push(of_subject);
        }
        ready.wait();
        thread::sleep(Duration::from_millis(random.random_range(LOAD_MS)));
        broker.kill9();
        let join = |client: thread::ScopedJoinHandle<'_, Seen>| {
            client
                .join()
                .unwrap_or_else(|cause| std::panic::resume_unwind(cause))
        };
        running
            .into_iter()
            .map(|clients| clients.into_iter().map(join).collect())
            .collect()
    })
}

fn run_client(
    address: SocketAddr,
    subject: &Subject,
    client: u32,
    number: u32,
    ready: &Barrier,
    random: &mut SmallRng,
) -> Seen {
    if client < PUBLISHERS {
        let publisher =
            Publisher::connect(address, subject.queue, number, subject.transient_one_in);
        ready.wait();
        publisher.run(random)
    } else {
        let consumer = Consumer::connect(address, subject.queue);
        ready.wait();
        consumer.run(random)
    }
}

/// Shows what was wrong and fails, if anything was.
#[track_caller]
fn complain(broker: &BrokerProcess, when: &str, wrong: &[String]) {
    if wrong.is_empty() {
        return;
    }
    let shown = wrong
        .iter()
        .take(COMPLAINTS_SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    panic!(
        "{when}: {} promises were broken:\n{shown}\nThe broker's last words:\n{}",
        wrong.len(),
        broker.stderr_tail()
    );
}

fn survives(settings: &[&str]) {
    let seed = from_environment("SLUICEMQ_TEST_SEED", rand::random::<u64>());
    let cycles = from_environment("SLUICEMQ_TEST_CRASH_CYCLES", CYCLES);
    say(&format!(
        "crash test: SLUICEMQ_TEST_SEED={seed}, {cycles} cycles, {settings:?}"
    ));
    let mut random = SmallRng::seed_from_u64(seed);
    let mut broker = BrokerProcess::start_with(settings);
    let mut subjects = subjects();
    let declaring = Connection::open(broker.address()).channel(1);
    for subject in &subjects {
        let spec = QueueSpec::durable(subject.queue).argument("x-queue-type", subject.kind);
        // The count of failures is another test's business: here nothing may be dropped for it.
        let limit = if subject.kind == "quorum" {
            Some(-1)
        } else {
            None
        };
        let spec = limit
            .into_iter()
            .fold(spec, |spec, n| spec.argument("x-delivery-limit", n));
        declaring.declare(&spec);
    }
    drop(declaring);
    let started = Instant::now();
    for cycle in 0..cycles {
        let seen = load_and_kill(&mut broker, &subjects, cycle, &mut random);
        broker.restart();
        for (subject, seen) in subjects.iter_mut().zip(&seen) {
            let queue = subject.queue;
            let wrong = subject.oracle.learn(seen);
            complain(
                &broker,
                &format!("{queue}, seed {seed}, load of cycle {cycle}"),
                &wrong,
            );
            let (found, acked) = drain(broker.address(), queue, &mut random);
            let wrong = subject.oracle.judge(&found, subject.keeps_transient);
            complain(
                &broker,
                &format!("{queue}, seed {seed}, drain of cycle {cycle}"),
                &wrong,
            );
            // The drain hands everything out and keeps what it did not ack in the queue.
            let drained = Seen {
                delivered: found
                    .iter()
                    .map(|found| (found.id, found.redelivered))
                    .collect(),
                acked,
                ..Seen::default()
            };
            let wrong = subject.oracle.learn(&[drained]);
            complain(
                &broker,
                &format!("{queue}, seed {seed}, acks of cycle {cycle}"),
                &wrong,
            );
        }
    }
    for subject in &subjects {
        let (published, kept) = subject.oracle.totals();
        let queue = subject.queue;
        say(&format!(
            "{queue}: {published} published, {kept} confirmed, in {:?}",
            started.elapsed()
        ));
        assert!(kept > 0, "expected {queue} to have confirmed something");
    }
}

// amqp 1.8.1: persistent messages; rabbitmq: what a confirm promises
#[test]
fn what_was_confirmed_survives_kill_9() {
    own_broker(|| survives(&[]));
}

// The same with files that fill up within a cycle, so that sealing and recycling are interrupted.
#[test]
fn what_was_confirmed_survives_kill_9_while_files_are_recycled() {
    own_broker(|| {
        survives(&[
            "storage.journal_file_size=1MiB",
            "storage.journal_cap=4MiB",
            "storage.segment_size=256KiB",
        ]);
    });
}
