//! TERM: the broker says good-bye with 320, keeps what it confirmed and exits with 0.

use std::collections::BTreeSet;

use integration_tests::broker_process::is_clean_exit;
use integration_tests::connection::{Incoming, PATIENCE};
use integration_tests::{
    BrokerProcess, Close, Connection, ConsumerSpec, Properties, Publication, QueueSpec, own_broker,
};

/// Publishes sent before TERM.
const PUBLISHES: u64 = 20_000;
/// TERM comes when so many are confirmed.
const CONFIRMED_BEFORE_TERM: usize = 500;

/// The close of a broker that shuts down.
fn shutdown() -> Close {
    let text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'";
    Close::connection(320, text, "")
}

// rabbitmq: 320 on shutdown
#[test]
fn idle_connections_are_closed_with_320_and_the_broker_exits_with_0() {
    own_broker(|| {
        let mut broker = BrokerProcess::start();
        let connections = [0, 1, 2].map(|_| Connection::open(broker.address()));
        let channel = connections[1].channel(1);
        let queue = channel.declare(&QueueSpec::transient("").exclusive()).name;
        channel.consume(&ConsumerSpec::of(&queue));
        broker.send_term();
        for connection in &connections {
            assert_eq!(connection.expect_close(0), shutdown());
        }
        let status = broker.wait_for_end();
        assert!(is_clean_exit(status), "expected exit code 0; came {status}");
    });
}

// rabbitmq: what a confirm promises holds over a shutdown.
#[test]
fn a_publisher_in_flight_keeps_what_was_confirmed() {
    own_broker(|| {
        for kind in ["classic", "quorum"] {
            let mut broker = BrokerProcess::start();
            let connection = Connection::open(broker.address());
            let channel = connection.channel(1);
            let spec = QueueSpec::durable("flight").argument("x-queue-type", kind);
            channel.declare(&spec);
            channel.confirm_select();
            let mut confirmed = BTreeSet::new();
            let mut told = false;
            let mut sent = 0;
            let close = loop {
                // A broker that is ending may stop reading: nobody insists.
                if sent < PUBLISHES {
                    let publication = Publication::to_queue("flight", sent.to_string());
                    let publication = publication.with(Properties::persistent());
                    let octets = integration_tests::connection::publish_octets(
                        1,
                        &publication,
                        connection.frame_max(),
                    );
                    sent += u64::from(connection.try_send_octets(&octets).is_ok());
                }
                let limit = if sent < PUBLISHES {
                    std::time::Duration::ZERO
                } else {
                    PATIENCE
                };
                match connection.receive(limit) {
                    None if limit.is_zero() => {}
                    Some(Incoming::Method { method, .. }) if method.name == "basic.ack" => {
                        let (tag, multiple) = (method.number(0), method.bit(1));
                        confirmed.extend(if multiple { 1..=tag } else { tag..=tag });
                    }
                    Some(Incoming::Method { method, .. }) if method.name == "connection.close" => {
                        break method;
                    }
                    came => panic!("{kind}: expected confirms and a close; came {came:?}"),
                }
                if !told && confirmed.len() >= CONFIRMED_BEFORE_TERM {
                    broker.send_term();
                    told = true;
                }
            };
            assert_eq!(
                (close.number(0), close.text(1)),
                (320, shutdown().text),
                "{kind}"
            );
            connection.try_send(
                0,
                &integration_tests::Method::new("connection.close-ok", vec![]),
            );
            let status = broker.wait_for_end();
            assert!(
                is_clean_exit(status),
                "{kind}: expected exit code 0; came {status}"
            );
            broker.restart();
            let channel = Connection::open(broker.address()).channel(1);
            let there: Vec<u64> = channel
                .take_all("flight")
                .iter()
                .map(|text| text.parse().expect("A number was published."))
                .collect();
            let wanted: Vec<u64> = (0..there.len() as u64).collect();
            assert_eq!(
                there, wanted,
                "{kind}: the messages kept are the first ones, in order"
            );
            let last = confirmed.last().copied().unwrap_or_default();
            assert!(
                last <= there.len() as u64,
                "{kind}: {last} confirmed, {} there",
                there.len()
            );
        }
    });
}

// rabbitmq: unacked messages go back at a shutdown.
#[test]
fn a_consumer_in_flight_loses_nothing() {
    own_broker(|| {
        for kind in ["classic", "quorum"] {
            let mut broker = BrokerProcess::start();
            let connection = Connection::open(broker.address());
            let channel = connection.channel(1);
            channel.declare(&QueueSpec::durable("held").argument("x-queue-type", kind));
            let texts: Vec<String> = (0..100).map(|n| n.to_string()).collect();
            channel.put_all("held", &texts);
            channel.prefetch(50);
            channel.consume(&ConsumerSpec::of("held"));
            channel.expect_deliveries(50);
            let status = broker.terminate();
            assert!(
                is_clean_exit(status),
                "{kind}: expected exit code 0; came {status}"
            );
            broker.restart();
            let channel = Connection::open(broker.address()).channel(1);
            let mut there = channel.take_all("held");
            there.sort_by_key(|text| text.parse::<u32>().ok());
            assert_eq!(there, texts, "{kind}");
        }
    });
}

// A broker that is ending takes nobody in any more.
#[test]
fn a_stopped_broker_listens_no_more() {
    own_broker(|| {
        let mut broker = BrokerProcess::start();
        let address = broker.address();
        broker.terminate();
        assert!(
            Connection::try_dial(address).is_err(),
            "expected nobody to listen"
        );
    });
}
