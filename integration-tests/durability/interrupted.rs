//! Killed again where it hurts: in the middle of a recovery, and while segments are compacted. What was
//! confirmed must be there every time, what was settled must stay away, and the order must hold. Only what
//! was settled just before the kill may come back: the log need not know of it yet.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use integration_tests::{
    BrokerProcess, Channel, Connection, Properties, Publication, QueueSpec, own_broker, say,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::from_environment;

/// Small files, so that little load makes many of them.
const SMALL_FILES: &[&str] = &[
    "storage.journal_file_size=1MiB",
    "storage.journal_cap=4MiB",
    "storage.segment_size=256KiB",
];
/// Starts that are cut off, and kills under compaction; `SLUICEMQ_TEST_CRASH_CYCLES` for more.
const CUTS: u32 = 15;
/// A start is cut off at the latest so long after it began, microseconds: some serve by then.
const CUT_WITHIN_US: u64 = 150_000;
/// The kill comes at the latest so long after the last message was settled, microseconds.
const COMPACTED_WITHIN_US: u64 = 30_000;
/// Messages of a queue, and octets of each.
const MESSAGES: u64 = 10_000;
const BODY_BYTES: usize = 400;
/// Publishes that wait for their confirms together.
const AT_ONCE: u64 = 500;
/// One message in so many is not settled.
const SURVIVOR_IN: u64 = 16;
const KINDS: [&str; 2] = ["quorum", "classic"];

/// Publishes messages that say their numbers; all are confirmed afterwards.
fn publish(channel: &Channel, queue: &str, numbers: std::ops::Range<u64>) {
    channel.confirm_select();
    for number in numbers.clone() {
        let mut body = vec![b'.'; BODY_BYTES];
        body[..8].copy_from_slice(&number.to_be_bytes());
        let publication = Publication::to_queue(queue, body);
        channel.publish(&publication.with(Properties::persistent()));
        if number % AT_ONCE == AT_ONCE - 1 || number + 1 == numbers.end {
            assert!(channel.outcomes().iter().all(|(_, ack)| *ack));
        }
    }
}

/// Gets all that is ready, in order; what `take` says yes to is settled.
fn look_through(channel: &Channel, queue: &str, mut take: impl FnMut(u64) -> bool) {
    while let Some(delivery) = channel.get(queue) {
        let number = delivery.body.first_chunk();
        let number = u64::from_be_bytes(*number.expect("A body begins with its number."));
        if take(number) {
            channel.ack(&delivery);
        }
    }
}

/// Settles all but the survivors. The log learns of it a little later, and nobody waits for that.
fn settle(channel: &Channel, queue: &str) {
    look_through(channel, queue, |number| number % SURVIVOR_IN != 0);
}

/// Gets all that is ready, in order; it is ready again afterwards.
fn found_in(broker: &BrokerProcess, queue: &str) -> Vec<u64> {
    let channel = Connection::open(broker.address()).channel(1);
    let mut found = Vec::new();
    look_through(&channel, queue, |number| {
        found.push(number);
        false
    });
    found
}

/// Expects these numbers, in order; of others only those that may have come back. Answers who has.
fn expect_numbers(
    broker: &BrokerProcess,
    queue: &str,
    expected: &[u64],
    may_return: &BTreeSet<u64>,
    when: &str,
) -> BTreeSet<u64> {
    let found = found_in(broker, queue);
    let in_order = found.windows(2).all(|pair| pair[0] < pair[1]);
    let there: BTreeSet<u64> = found.iter().copied().collect();
    let lost = expected
        .iter()
        .filter(|number| !there.contains(*number))
        .count();
    let wanted: BTreeSet<u64> = expected.iter().copied().collect();
    let returned: BTreeSet<u64> = &there - &wanted;
    let risen = (&returned - may_return).len();
    assert!(
        in_order && lost == 0 && risen == 0,
        "{queue}, {when}: {lost} of {} messages are lost, {risen} have come back that were gone for long, \
         in order: {in_order}\n{}",
        expected.len(),
        broker.stderr_tail()
    );
    returned
}

fn declare(broker: &BrokerProcess) {
    let channel = Connection::open(broker.address()).channel(1);
    for kind in KINDS {
        let spec = QueueSpec::durable(kind).argument("x-queue-type", kind);
        let limit = if kind == "quorum" { Some(-1) } else { None };
        channel.declare(&match limit {
            Some(limit) => spec.argument("x-delivery-limit", limit),
            None => spec,
        });
    }
}

fn seeded(what: &str) -> (SmallRng, u32) {
    let seed = from_environment("SLUICEMQ_TEST_SEED", rand::random::<u64>());
    let cuts = from_environment("SLUICEMQ_TEST_CRASH_CYCLES", CUTS);
    say(&format!("{what}: SLUICEMQ_TEST_SEED={seed}, {cuts} kills"));
    (SmallRng::seed_from_u64(seed), cuts)
}

#[test]
fn a_recovery_that_is_killed_again_and_again_loses_nothing() {
    let (mut random, cuts) = seeded("recovery");
    own_broker(|| {
        let mut broker = BrokerProcess::start_with(SMALL_FILES);
        declare(&broker);
        for kind in KINDS {
            let channel = Connection::open(broker.address()).channel(1);
            publish(&channel, kind, 0..MESSAGES);
            settle(&channel, kind);
            publish(&channel, kind, MESSAGES..2 * MESSAGES);
        }
        broker.kill9();
        for _ in 0..cuts {
            let after = random.random_range(0..CUT_WITHIN_US);
            broker.cut_start(Duration::from_micros(after));
        }
        broker.restart();
        let survivors = (0..MESSAGES).filter(|number| number % SURVIVOR_IN == 0);
        let expected: Vec<u64> = survivors.chain(MESSAGES..2 * MESSAGES).collect();
        for kind in KINDS {
            let gone_for_long = BTreeSet::new();
            expect_numbers(
                &broker,
                kind,
                &expected,
                &gone_for_long,
                "after the last start",
            );
        }
    });
}

#[test]
fn a_compaction_that_is_killed_again_and_again_loses_nothing() {
    let (mut random, cuts) = seeded("compaction");
    own_broker(|| {
        let mut broker = BrokerProcess::start_with(SMALL_FILES);
        declare(&broker);
        let mut expected = Vec::new();
        let mut returned: [BTreeSet<u64>; 2] = Default::default();
        for cut in 0..u64::from(cuts) {
            let numbers = cut * MESSAGES / 4..(cut + 1) * MESSAGES / 4;
            expected.extend(numbers.clone().filter(|number| number % SURVIVOR_IN == 0));
            for kind in KINDS {
                let channel = Connection::open(broker.address()).channel(1);
                publish(&channel, kind, numbers.clone());
            }
            // What was not settled before goes to segments with the rest, so it is compacted with it.
            for kind in KINDS {
                let channel = Connection::open(broker.address()).channel(1);
                settle(&channel, kind);
            }
            let after = random.random_range(0..COMPACTED_WITHIN_US);
            thread::sleep(Duration::from_micros(after));
            broker.kill9();
            broker.restart();
            for (kind, returned) in KINDS.into_iter().zip(&mut returned) {
                // What was settled just before the kill, for the first time or once more.
                returned.extend(numbers.clone());
                let when = format!("after kill {cut}");
                *returned = expect_numbers(&broker, kind, &expected, returned, &when);
            }
        }
        let left = broker.disk_bytes();
        let live = 2 * expected.len() as u64 * BODY_BYTES as u64;
        say(&format!("{live} octets live, {left} on disk"));
    });
}
