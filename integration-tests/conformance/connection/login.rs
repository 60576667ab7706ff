//! Who may log in, by which mechanism, and what the others hear.

use integration_tests::connection::{Instead, PATIENCE, amqplain_response};
use integration_tests::{Close, Connection, Login, Table, Trial, conformance};

/// The text that hides what was wrong with the credentials.
fn refusal(mechanism: &str) -> Close {
    let text = format!(
        "ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. \
         For details see the broker logfile."
    );
    Close::connection(403, text, "")
}

/// Sends start-ok and takes what follows: a close or the end of the socket.
fn start_ok(trial: &Trial, login: &Login, mechanism: &str, response: &[u8]) -> Instead {
    let connection = Connection::dial(trial.address());
    connection.start();
    connection.send(0, &login.start_ok_by(mechanism, response));
    let came = connection.wait_within(0, &["connection.tune"], PATIENCE);
    came.expect_err("The broker must not let this client in.")
}

// amqp 4.1: PLAIN
#[test]
fn plain_lets_guest_in() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        connection.start();
        connection.send(0, &Login::default().start_ok_by("PLAIN", b"\0guest\0guest"));
        connection.expect_tune();
    });
}

// rabbitmq: AMQPLAIN carries a table without its length.
#[test]
fn amqplain_lets_guest_in() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        connection.start();
        let response = amqplain_response("guest", "guest");
        connection.send(0, &Login::default().start_ok_by("AMQPLAIN", &response));
        connection.expect_tune();
    });
}

// rabbitmq: ANONYMOUS logs in as the user that the configuration names.
#[test]
fn anonymous_lets_in() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        connection.start();
        connection.send(0, &Login::default().start_ok_by("ANONYMOUS", b""));
        connection.expect_tune();
    });
}

// rabbitmq: capability authentication_failure_close
#[test]
fn a_wrong_password_closes_with_403_when_the_client_can_bear_it() {
    conformance(|trial| {
        let came = start_ok(trial, &Login::default(), "PLAIN", b"\0guest\0wrong");
        assert_eq!(came, Instead::Closed(refusal("PLAIN")));
    });
}

// rabbitmq: capability authentication_failure_close
#[test]
fn an_unknown_user_hears_the_same_as_one_with_a_wrong_password() {
    conformance(|trial| {
        let came = start_ok(trial, &Login::default(), "PLAIN", b"\0nobody\0guest");
        assert_eq!(came, Instead::Closed(refusal("PLAIN")));
    });
}

// rabbitmq: capability authentication_failure_close
#[test]
fn a_wrong_amqplain_password_closes_with_403() {
    conformance(|trial| {
        let response = amqplain_response("guest", "wrong");
        let came = start_ok(trial, &Login::default(), "AMQPLAIN", &response);
        assert_eq!(came, Instead::Closed(refusal("AMQPLAIN")));
    });
}

// amqp 1.4.2.2: without the capability the socket just ends.
#[test]
fn a_wrong_password_ends_the_socket_silently_without_the_capability() {
    conformance(|trial| {
        let login = Login {
            capabilities: Table::default(),
            ..Login::default()
        };
        let came = start_ok(trial, &login, "PLAIN", b"\0guest\0wrong");
        assert_eq!(came, Instead::Gone(vec![]));
    });
}

// rabbitmq: a mechanism that was not offered
#[test]
fn an_unknown_mechanism_ends_the_socket_silently() {
    conformance(|trial| {
        let came = start_ok(trial, &Login::default(), "GSSAPI", b"whatever");
        assert_eq!(came, Instead::Gone(vec![]));
    });
}

// rabbitmq: PLAIN takes no authorization identity.
#[test]
fn plain_with_an_authorization_identity_ends_the_socket_silently() {
    conformance(|trial| {
        let came = start_ok(trial, &Login::default(), "PLAIN", b"admin\0guest\0guest");
        assert_eq!(came, Instead::Gone(vec![]));
    });
}

// rabbitmq: PLAIN is two fields and no more.
#[test]
fn plain_with_more_fields_than_two_ends_the_socket_silently() {
    conformance(|trial| {
        let came = start_ok(trial, &Login::default(), "PLAIN", b"\0guest\0guest\0more");
        assert_eq!(came, Instead::Gone(vec![]));
    });
}
