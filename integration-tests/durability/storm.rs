//! A consumer that gives everything back, as fast as it can: the disk must not remember it, and
//! after kill -9 every message is there.

use std::io::Write;
use std::time::Instant;

use integration_tests::request::{basic_consume, basic_nack};
use integration_tests::wire::frame::{METHOD, frame};
use integration_tests::{BrokerProcess, Connection, ConsumerSpec, QueueSpec, own_broker, say};

use crate::flood::{DISK_BYTES_MAX, Scanner, number, publish};
use crate::from_environment;

/// Returns; `SLUICEMQ_TEST_STORM_RETURNS` for more.
const RETURNS: u64 = 2_000_000;
/// Messages that go round.
const MESSAGES: u64 = 4_000;
/// How many are out at most; a quarter of them is given back at once.
const PREFETCH: u16 = 2_000;
/// The disk is looked at once in so many returns.
const LOOK_EVERY: u64 = 200_000;

/// Gives back what comes until it was so many; answers the most octets that were seen on disk.
fn give_back(broker: &BrokerProcess, queue: &str, returns: u64) -> u64 {
    let connection = Connection::open(broker.address());
    connection.channel(1).prefetch(PREFETCH);
    connection.send(1, &basic_consume(&ConsumerSpec::of(queue)));
    let mut stream = connection.into_stream();
    let reading = stream.try_clone().expect("A socket can be cloned.");
    let mut scanner = Scanner::new(reading);
    let (mut delivered, mut given_back, mut looked) = (0, 0, 0);
    let mut most_octets = 0;
    while given_back < returns {
        scanner.read(|method, arguments| {
            if method == (60, 60) {
                // The consumer tag, then the delivery tag.
                delivered = number(&arguments[1 + usize::from(arguments[0])..]);
            }
        });
        if delivered - given_back >= u64::from(PREFETCH) / 4 {
            let nack = frame(METHOD, 1, &basic_nack(delivered, true, true).encode());
            stream
                .write_all(&nack)
                .expect("The broker must go on reading.");
            given_back = delivered;
        }
        if given_back - looked >= LOOK_EVERY {
            looked = given_back;
            most_octets = most_octets.max(broker.disk_bytes());
        }
    }
    most_octets
}

#[test]
fn a_storm_of_returns_leaves_a_small_disk_and_every_message() {
    let returns = from_environment("SLUICEMQ_TEST_STORM_RETURNS", RETURNS);
    own_broker(|| {
        let mut broker = BrokerProcess::start();
        let channel = Connection::open(broker.address()).channel(1);
        let unlimited = QueueSpec::durable("storm").argument("x-queue-type", "quorum");
        channel.declare(&unlimited.argument("x-delivery-limit", -1));
        publish(broker.address(), "storm", MESSAGES);
        let started = Instant::now();
        let most_octets = give_back(&broker, "storm", returns);
        let took = started.elapsed();
        say(&format!(
            "{returns} returns in {took:?}, at most {most_octets} octets on disk"
        ));
        assert!(
            most_octets <= DISK_BYTES_MAX,
            "expected at most {DISK_BYTES_MAX} octets on disk; came {most_octets}"
        );
        drop(channel);
        broker.kill9();
        broker.restart();
        let channel = Connection::open(broker.address()).channel(1);
        channel.expect_ready("storm", MESSAGES);
        let counted = channel.get_soon("storm");
        let headers = format!("{:?}", counted.properties);
        assert!(headers.contains("x-delivery-count"), "{headers}");
    });
}
