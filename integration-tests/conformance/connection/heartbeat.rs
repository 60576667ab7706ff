//! Heartbeats both ways.

use std::time::{Duration, Instant};

use integration_tests::connection::{Incoming, PATIENCE, open};
use integration_tests::wire::frame::{HEARTBEAT, frame};
use integration_tests::{Connection, Login, conformance};

/// A client that wants a heartbeat each second.
fn every_second() -> Login {
    Login {
        heartbeat_s: 1,
        ..Login::default()
    }
}

// amqp 4.2.7: the broker sends heartbeats when it has nothing else to say.
#[test]
fn an_idle_connection_gets_heartbeats() {
    conformance(|trial| {
        let connection = trial.connect_as(&every_second());
        let beats = (0..2)
            .map(|_| connection.receive(PATIENCE))
            .collect::<Vec<_>>();
        assert_eq!(
            beats,
            [Some(Incoming::Heartbeat), Some(Incoming::Heartbeat)]
        );
    });
}

// amqp 4.2.7: a silent peer is dead; the socket just ends.
#[test]
fn a_client_that_falls_silent_is_dropped() {
    conformance(|trial| {
        trial.connect_as(&every_second()).expect_gone();
    });
}

// amqp 4.2.7: a client that sends heartbeats lives on.
#[test]
fn a_client_that_sends_heartbeats_is_kept() {
    conformance(|trial| {
        let connection = trial.connect_as(&every_second());
        // Well beyond the time after which a silent client is dropped.
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            connection.send_octets(&frame(HEARTBEAT, 0, &[]));
            let came = connection.receive(Duration::from_millis(400));
            assert!(matches!(came, None | Some(Incoming::Heartbeat)), "{came:?}");
        }
        connection.close();
    });
}

// amqp 4.2.7: any traffic does for a heartbeat.
#[test]
fn a_client_that_sends_methods_is_kept() {
    conformance(|trial| {
        let channel = trial.connect_as(&every_second()).channel(1);
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            channel.sync();
            std::thread::sleep(Duration::from_millis(200));
        }
        channel.connection().close();
    });
}

// amqp 1.4.2.6: zero turns heartbeats off.
#[test]
fn without_heartbeats_nothing_comes_and_nobody_is_dropped() {
    conformance(|trial| {
        let connection = trial.connect();
        assert_eq!(connection.receive(Duration::from_secs(4)), None);
        connection.close();
    });
}

// rabbitmq: a heartbeat longer than the offer is taken.
#[test]
fn a_heartbeat_longer_than_offered_is_taken() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        let mut tune = connection.log_in(&Login::default());
        tune.heartbeat_s = 600;
        connection.send(0, &tune.accept());
        connection.send(0, &open("/"));
        connection.wait_for(0, &["connection.open-ok"]);
    });
}
