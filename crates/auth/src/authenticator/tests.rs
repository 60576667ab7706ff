//! Logins against a small directory.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

struct Users(HashMap<&'static str, UserRecord>);

impl UserDirectory for Users {
    fn user(&self, name: &str) -> Option<UserRecord> {
        self.0.get(name).cloned()
    }
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const AWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn record(algorithm: HashingAlgorithm, password: &str) -> UserRecord {
    UserRecord {
        password_hash: HashedPassword::new(algorithm, password.as_bytes())
            .to_string()
            .into(),
        hashing_algorithm: algorithm.name().into(),
        tags: vec!["monitoring".into()],
    }
}

fn users() -> Arc<Users> {
    let sha256 = HashingAlgorithm::Sha256;
    let damaged = UserRecord {
        password_hash: "kI3G".into(),
        ..record(sha256, "x")
    };
    let strange = UserRecord {
        hashing_algorithm: "rot13".into(),
        ..record(sha256, "x")
    };
    Arc::new(Users(HashMap::from([
        ("guest", record(sha256, "guest")),
        ("alice", record(sha256, "wonderland")),
        ("bob", record(HashingAlgorithm::Sha512, "builder")),
        ("old", record(HashingAlgorithm::Md5, "age")),
        ("empty", record(sha256, "")),
        ("certificate", UserRecord::default()),
        ("damaged", damaged),
        ("strange", strange),
    ])))
}

fn authenticator(policy: AuthPolicy) -> Authenticator {
    Authenticator::new(policy, users())
}

fn plain(response: &str, peer: IpAddr) -> AuthOutcome {
    authenticator(AuthPolicy::default()).authenticate("PLAIN", response.as_bytes(), peer)
}

#[track_caller]
fn refused(outcome: AuthOutcome) -> AuthRefusal {
    match outcome {
        AuthOutcome::Refused(refusal) => refusal,
        AuthOutcome::Authenticated { user, .. } => panic!("{user} was let in"),
    }
}

#[test]
fn a_right_password_of_any_algorithm_logs_in() {
    for (user, password) in [("alice", "wonderland"), ("bob", "builder"), ("old", "age")] {
        let outcome = plain(&format!("\0{user}\0{password}"), AWAY);
        let tags = vec!["monitoring".into()];
        assert_eq!(
            outcome,
            AuthOutcome::Authenticated {
                user: user.to_owned(),
                tags
            }
        );
    }
}

#[test]
fn refusals_say_why_to_the_log() {
    let cases = [
        (
            "\0alice\0looking-glass",
            "wrong password for user \"alice\"",
        ),
        ("\0alice\0", "wrong password for user \"alice\""),
        ("\0empty\0", "wrong password for user \"empty\""),
        ("\0nobody\0x", "there is no user \"nobody\""),
        ("\0\0", "there is no user \"\""),
        (
            "\0certificate\0",
            "user \"certificate\" has no password and cannot log in with one",
        ),
        (
            "\0damaged\0x",
            "user \"damaged\" cannot log in: the stored password hash is not base64 of a 4-byte \
             salt and a hash of its algorithm",
        ),
        (
            "\0strange\0x",
            "user \"strange\" cannot log in: unknown password hashing algorithm \"rot13\"",
        ),
    ];
    for (response, words) in cases {
        let refusal = refused(plain(response, HERE));
        assert_eq!(refusal.to_string(), words);
        assert!(refusal.is_access_refused(), "{words}");
    }
}

#[test]
fn a_name_that_is_no_text_is_an_unknown_user() {
    let outcome = authenticator(AuthPolicy::default()).authenticate("PLAIN", b"\0\xff\0x", HERE);
    let user = "\u{fffd}".to_owned();
    assert_eq!(refused(outcome), AuthRefusal::UnknownUser { user });
}

#[test]
fn loopback_users_come_from_this_machine_only() {
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    let at_home = [
        HERE,
        "127.9.9.9".parse().expect("an address"),
        Ipv6Addr::LOCALHOST.into(),
        mapped.into(),
    ];
    for peer in at_home {
        assert!(
            matches!(
                plain("\0guest\0guest", peer),
                AuthOutcome::Authenticated { .. }
            ),
            "{peer}"
        );
    }
    let refusal = refused(plain("\0guest\0guest", AWAY));
    assert_eq!(
        refusal,
        AuthRefusal::LoopbackOnly {
            user: "guest".to_owned(),
            peer: AWAY
        }
    );
    assert!(refusal.is_access_refused());
    assert_eq!(
        refusal.to_string(),
        "user \"guest\" may log in from a loopback address only, but came from 192.0.2.7"
    );
}

#[test]
fn a_wrong_password_from_away_does_not_tell_of_the_loopback_rule() {
    let refusal = refused(plain("\0guest\0wrong", AWAY));
    assert_eq!(
        refusal,
        AuthRefusal::WrongPassword {
            user: "guest".to_owned()
        }
    );
}

#[test]
fn an_empty_list_of_loopback_users_lets_everybody_come_from_anywhere() {
    let policy = AuthPolicy {
        loopback_users: vec![],
        ..AuthPolicy::default()
    };
    let outcome = authenticator(policy).authenticate("PLAIN", b"\0guest\0guest", AWAY);
    assert!(matches!(outcome, AuthOutcome::Authenticated { .. }));
}

#[test]
fn anonymous_logs_in_as_the_configured_user_and_is_bound_by_its_rules() {
    let default = authenticator(AuthPolicy::default());
    let outcome = default.authenticate("ANONYMOUS", b"whatever", HERE);
    assert!(matches!(outcome, AuthOutcome::Authenticated { user, .. } if user == "guest"));

    let refusal = refused(default.authenticate("ANONYMOUS", b"", AWAY));
    assert_eq!(
        refusal,
        AuthRefusal::LoopbackOnly {
            user: "guest".to_owned(),
            peer: AWAY
        }
    );

    let anonymous = Some(("guest".to_owned(), "changed".to_owned()));
    let changed = authenticator(AuthPolicy {
        anonymous,
        ..AuthPolicy::default()
    });
    let refusal = refused(changed.authenticate("ANONYMOUS", b"", HERE));
    assert_eq!(
        refusal,
        AuthRefusal::WrongPassword {
            user: "guest".to_owned()
        }
    );
}

#[test]
fn the_offer_is_in_rabbitmqs_order_and_holds_what_can_work() {
    let offer = |policy| authenticator(policy).offer(true);
    assert_eq!(offer(AuthPolicy::default()), "ANONYMOUS AMQPLAIN PLAIN");
    let anonymous = None;
    assert_eq!(
        offer(AuthPolicy {
            anonymous,
            ..AuthPolicy::default()
        }),
        "AMQPLAIN PLAIN"
    );
    let mechanisms = vec![Mechanism::Plain, Mechanism::AmqPlain, Mechanism::Plain];
    assert_eq!(
        offer(AuthPolicy {
            mechanisms,
            ..AuthPolicy::default()
        }),
        "AMQPLAIN PLAIN"
    );
}

#[test]
fn what_is_not_on_offer_is_a_fault_of_form() {
    let mechanisms = vec![Mechanism::AmqPlain];
    let narrow = authenticator(AuthPolicy {
        mechanisms,
        ..AuthPolicy::default()
    });
    for mechanism in ["PLAIN", "EXTERNAL", "", "amqplain"] {
        let refusal = refused(narrow.authenticate(mechanism, b"\0guest\0guest", HERE));
        assert!(!refusal.is_access_refused());
        assert_eq!(
            refusal.to_string(),
            format!("mechanism {mechanism:?} is not on offer")
        );
    }
}

#[test]
fn a_malformed_response_is_a_fault_of_form() {
    let refusal = refused(plain("guest\0guest\0guest", HERE));
    assert_eq!(refusal, AuthRefusal::Malformed(Malformed::Plain));
    assert!(!refusal.is_access_refused());
}

#[test]
fn passwords_over_http_follow_the_same_rules() {
    let authenticator = authenticator(AuthPolicy::default());
    let check =
        |user, password: &str, peer| authenticator.check_password(user, password.as_bytes(), peer);
    assert!(matches!(
        check("alice", "wonderland", AWAY),
        AuthOutcome::Authenticated { .. }
    ));
    refused(check("alice", "", AWAY));
    refused(check("guest", "guest", AWAY));
}

#[test]
fn a_password_does_not_print_in_a_dump_of_the_policy() {
    let anonymous = Some(("somebody".to_owned(), "hunter2".to_owned()));
    let dump = format!(
        "{:?}",
        AuthPolicy {
            anonymous,
            ..AuthPolicy::default()
        }
    );
    assert!(
        dump.contains("somebody") && !dump.contains("hunter2"),
        "{dump}"
    );
}

/// An authenticator that offers EXTERNAL beside PLAIN.
fn with_external() -> Authenticator {
    let mechanisms = vec![Mechanism::External, Mechanism::Plain];
    authenticator(AuthPolicy {
        mechanisms,
        ..AuthPolicy::default()
    })
}

fn certified(name: &str, address: IpAddr) -> Client {
    Client {
        address,
        certificate_name: Some(name.to_owned()),
    }
}

#[test]
fn external_is_on_offer_to_those_with_a_certificate_only() {
    let external = with_external();
    assert_eq!(external.offer(false), "PLAIN");
    assert_eq!(external.offer(true), "PLAIN EXTERNAL");
}

#[test]
fn external_logs_in_whom_the_certificate_names_without_a_password() {
    let external = with_external();
    let log_in = |client: Client| external.authenticate("EXTERNAL", b"ignored", client);
    let AuthOutcome::Authenticated { user, .. } = log_in(certified("certificate", AWAY)) else {
        panic!("the user exists");
    };
    assert_eq!(user, "certificate");
    let unknown = refused(log_in(certified("nobody", AWAY)));
    assert!(unknown.is_access_refused(), "{unknown}");
    let unnamed = refused(log_in(AWAY.into()));
    assert_eq!(unnamed, AuthRefusal::NoCertificateName);
    let far = refused(log_in(certified("guest", AWAY)));
    assert!(matches!(far, AuthRefusal::LoopbackOnly { .. }), "{far}");
}

#[test]
fn another_policy_counts_for_every_clone_at_once() {
    let one = authenticator(AuthPolicy::default());
    let other = one.clone();
    one.set_policy(AuthPolicy {
        loopback_users: Vec::new(),
        mechanisms: vec![Mechanism::Plain],
        ..AuthPolicy::default()
    });
    assert_eq!(other.offer(false), "PLAIN");
    let outcome = other.authenticate("PLAIN", b"\0guest\0guest", AWAY);
    assert!(
        matches!(outcome, AuthOutcome::Authenticated { .. }),
        "{outcome:?}"
    );
}
