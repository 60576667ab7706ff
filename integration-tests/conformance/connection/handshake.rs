//! From the protocol header to connection.open-ok.

use integration_tests::connection::{PROTOCOL_HEADER, open};
use integration_tests::{Close, Connection, Login, Trial, Value, conformance};

/// Sends a header that is not ours and takes the eight octets that answer it.
fn answer_to(trial: &Trial, header: &[u8; 8]) -> Vec<u8> {
    let connection = Connection::dial(trial.address());
    connection.send_octets(header);
    let answer = connection.receive_octets(8);
    connection.expect_gone();
    answer
}

// amqp 2.2.4: the server opens with start, major 0 and minor 9.
#[test]
fn the_header_is_answered_with_start() {
    conformance(|trial| {
        let start = Connection::dial(trial.address()).start();
        assert_eq!((start.number(0), start.number(1)), (0, 9));
    });
}

// amqp 4.2.2: a version that the server lacks is answered with the one it has.
#[test]
fn a_later_version_is_answered_with_the_header_of_0_9_1() {
    conformance(|trial| assert_eq!(answer_to(trial, b"AMQP\x00\x00\x0a\x00"), PROTOCOL_HEADER));
}

// amqp 4.2.2
#[test]
fn garbage_instead_of_a_header_is_answered_with_the_header_of_0_9_1() {
    conformance(|trial| assert_eq!(answer_to(trial, b"GET / HT"), PROTOCOL_HEADER));
}

// amqp 4.2.2
#[test]
fn the_header_of_amqp_1_0_is_answered_with_the_header_of_0_9_1() {
    conformance(|trial| assert_eq!(answer_to(trial, b"AMQP\x00\x01\x00\x00"), PROTOCOL_HEADER));
}

// rabbitmq: 0-9 is taken for 0-9-1.
#[test]
fn the_header_of_0_9_is_taken_for_0_9_1() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        connection.send_octets(b"AMQP\x01\x01\x00\x09");
        connection.wait_for(0, &["connection.start"]);
    });
}

// amqp 2.2.4: octets may come in any pieces.
#[test]
fn a_header_that_comes_octet_by_octet_is_understood() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        PROTOCOL_HEADER
            .iter()
            .for_each(|octet| connection.send_octets(&[*octet]));
        connection.wait_for(0, &["connection.start"]);
    });
}

// rabbitmq: mechanisms and locales of connection.start.
#[test]
fn start_offers_plain_and_amqplain_and_one_locale() {
    conformance(|trial| {
        let start = Connection::dial(trial.address()).start();
        let mechanisms = start.text(3);
        for wanted in ["PLAIN", "AMQPLAIN"] {
            assert!(
                mechanisms.split(' ').any(|offered| offered == wanted),
                "{mechanisms}"
            );
        }
        assert_eq!(start.text(4), "en_US");
    });
}

// rabbitmq: capabilities that clients look for.
#[test]
fn start_announces_the_capabilities_that_clients_rely_on() {
    conformance(|trial| {
        let properties = trial.connect().server_properties();
        let capabilities = properties.get("capabilities").and_then(Value::as_table);
        let capabilities = capabilities
            .expect("The server names its capabilities.")
            .clone();
        for wanted in [
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
        ] {
            assert_eq!(
                capabilities.get(wanted),
                Some(&Value::Bool(true)),
                "{wanted}"
            );
        }
    });
}

// rabbitmq: clients choose behaviour by the version.
#[test]
fn start_tells_product_and_version() {
    conformance(|trial| {
        let properties = trial.connect().server_properties();
        let text = |key| {
            properties
                .get(key)
                .and_then(Value::as_text)
                .unwrap_or_default()
        };
        assert!(!text("product").is_empty(), "{properties:?}");
        assert!(text("version").starts_with("4."), "{properties:?}");
    });
}

// amqp 1.4.2.7
#[test]
fn open_ok_carries_no_known_hosts() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        let tune = connection.log_in(&Login::default());
        connection.send(0, &tune.accept());
        connection.send(0, &open("/"));
        let (open_ok, _) = connection.wait_for(0, &["connection.open-ok"]);
        assert_eq!(open_ok.text(0), "");
    });
}

// rabbitmq: connection.open to a vhost that is not there.
#[test]
fn opening_a_missing_vhost_closes_with_530() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        let tune = connection.log_in(&Login::default());
        connection.send(0, &tune.accept());
        connection.send(0, &open("nowhere"));
        let text = "NOT_ALLOWED - vhost nowhere not found";
        assert_eq!(
            connection.expect_close(0),
            Close::connection(530, text, "connection.open")
        );
    });
}

// amqp 2.2.4: the whole handshake may be sent without waiting for answers.
#[test]
fn a_pipelined_handshake_opens_the_connection() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        let login = Login::default();
        connection.start();
        connection.send(0, &login.start_ok());
        let tune = connection.expect_tune();
        connection.send(0, &tune.accept());
        connection.send(0, &open("/"));
        connection.send(1, &integration_tests::request::channel_open());
        connection.wait_for(0, &["connection.open-ok"]);
        connection.wait_for(1, &["channel.open-ok"]);
    });
}
