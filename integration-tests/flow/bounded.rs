//! Clients that ignore everything: memory stays within the sum of the budgets, and whoever shares
//! their connection lives.

use std::io::Write;
use std::time::{Duration, Instant};

use integration_tests::connection::publish_octets;
use integration_tests::{
    BrokerProcess, Connection, ConsumerSpec, Publication, QueueSpec, own_broker,
};

use crate::declare;

const MIB: u64 = 1 << 20;
const BODY_BYTES: usize = 256 << 10;
/// What each flood would like to send.
const FLOOD_BYTES: u64 = 400 * MIB;

/// What a broker may grow by: what is parked in memory, what is staged for the journal, buffers of
/// sockets and of the allocator.
const GROWTH_MAX: u64 = 4 * MIB + 64 * MIB + 32 * MIB;

/// Sends bodies until all are out, nothing goes out for a while, or the broker ends it. Answers the
/// bytes that went.
fn flood(connection: Connection, confirm: bool) -> u64 {
    let channel = connection.channel(1);
    if confirm {
        channel.confirm_select();
    }
    let octets = publish_octets(
        1,
        &Publication::to_queue("q", vec![b'x'; BODY_BYTES]),
        connection.frame_max(),
    );
    drop(channel);
    let mut stream = connection.into_stream();
    let patience = Some(Duration::from_secs(2));
    stream
        .set_write_timeout(patience)
        .expect("A timeout above zero can be set.");
    let mut sent = 0;
    while sent < FLOOD_BYTES {
        // A part may have gone: it is not counted, and nothing follows it.
        if stream.write_all(&octets).is_err() {
            break;
        }
        sent += octets.len() as u64;
    }
    sent
}

#[test]
fn a_publisher_that_ignores_everything_is_not_read_and_costs_little_memory() {
    own_broker(|| {
        for confirm in [true, false] {
            let broker = BrokerProcess::start();
            let control = Connection::open(broker.address()).channel(1);
            declare(&control, "q", 1, 0);
            let before = broker.rss_bytes();
            let sent = flood(Connection::open(broker.address()), confirm);
            assert!(
                sent < FLOOD_BYTES / 2,
                "{sent} bytes were taken (confirm {confirm})"
            );
            let growth = broker.rss_bytes().saturating_sub(before);
            assert!(
                growth < GROWTH_MAX,
                "memory grew by {growth} (confirm {confirm})"
            );
            control.sync();
        }
    });
}

#[test]
fn a_publisher_that_shares_its_connection_with_a_consumer_fills_its_disk_part_at_most() {
    own_broker(|| {
        let broker = BrokerProcess::start_with(&["flow.park_disk=16MiB", "flow.grace=1s"]);
        let control = Connection::open(broker.address()).channel(1);
        declare(&control, "q", 1, 0);
        control.declare(&QueueSpec::durable("mine"));
        let before = broker.rss_bytes();
        let connection = Connection::open(broker.address());
        let (publisher, consumer) = (connection.channel(1), connection.channel(2));
        consumer.consume(&ConsumerSpec::of("mine"));
        let body = vec![b'x'; BODY_BYTES];
        // The close comes when more than both parts have come, and the grace is over.
        let end = Instant::now() + Duration::from_secs(30);
        let close = loop {
            assert!(Instant::now() < end, "the channel must be closed");
            let came = connection.wait_within(1, &["channel.close"], Duration::from_millis(1));
            match came {
                Ok((close, _)) => break close,
                Err(_) => publisher.publish(&Publication::to_queue("q", &body)),
            }
        };
        assert_eq!(close.number(0), 406);
        let growth = broker.rss_bytes().saturating_sub(before);
        assert!(growth < GROWTH_MAX, "memory grew by {growth}");
        control.put("mine", "still there");
        assert_eq!(consumer.expect_texts(1), ["still there"]);
    });
}

/// How long the long flood lasts; a shorter one shows the same sooner.
fn flood_time() -> Duration {
    let seconds = std::env::var("SLUICEMQ_TEST_FLOOD_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(600))
}

/// Publishes as fast as it can until the end, hears nothing, and comes again when it was closed.
fn ignore_everything(broker: &BrokerProcess, confirm: bool, shared: bool, end: Instant) {
    while Instant::now() < end {
        let connection = Connection::open(broker.address());
        let channel = connection.channel(1);
        if confirm {
            channel.confirm_select();
        }
        let consumer = connection.channel(2);
        if shared {
            consumer.consume(&ConsumerSpec::of("mine"));
        }
        let publication = Publication::to_queue("q", vec![b'x'; 16 << 10]);
        let octets = publish_octets(1, &publication, connection.frame_max());
        drop((channel, consumer));
        let mut stream = connection.into_stream();
        stream
            .set_write_timeout(Some(Duration::from_millis(200)))
            .expect("A timeout above zero can be set.");
        let mut left: &[u8] = &octets;
        while Instant::now() < end {
            match stream.write(left) {
                Ok(written) if written == left.len() => left = &octets,
                Ok(written) => left = &left[written..],
                // Not read: it goes on trying.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    }
}

#[test]
#[ignore = "takes ten minutes, or SLUICEMQ_TEST_FLOOD_SECONDS"]
fn memory_stays_bounded_while_clients_of_every_kind_ignore_everything() {
    own_broker(|| {
        let broker = BrokerProcess::start_with(&["flow.hold_timeout=20s"]);
        let control = Connection::open(broker.address()).channel(1);
        declare(&control, "q", 1, 0);
        control.declare(&QueueSpec::durable("mine"));
        let before = broker.rss_bytes();
        let end = Instant::now() + flood_time();
        let mut highest = 0;
        std::thread::scope(|scope| {
            for (confirm, shared) in [(true, true), (true, false), (false, true), (false, false)] {
                let broker = &broker;
                scope.spawn(move || ignore_everything(broker, confirm, shared, end));
            }
            while Instant::now() < end {
                std::thread::sleep(Duration::from_secs(1));
                highest = highest.max(broker.rss_bytes());
            }
        });
        let growth = highest.saturating_sub(before);
        println!("memory grew by {growth} bytes at most");
        // Four channels have a part in memory each.
        assert!(growth < GROWTH_MAX + 3 * 4 * MIB, "memory grew by {growth}");
        control.sync();
        assert_eq!(control.ready("q"), 2, "nothing came in above the capacity");
    });
}
