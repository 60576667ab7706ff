//! Which operation asks for which permission.

use amqp::Table;

use super::*;
use crate::metadata::{Defaults, MetadataChange, UserRecord, VhostRecord};

const USER: &str = "u";
const VHOST: &str = "v";

struct Stage {
    metadata: Metadata,
}

impl Stage {
    /// A user with these three patterns.
    fn with(configure: &str, write: &str, read: &str) -> Self {
        let mut stage = Self {
            metadata: Metadata::new(Defaults::default()),
        };
        stage.apply(MetadataChange::PutVhost {
            vhost: VHOST.into(),
            record: VhostRecord::default(),
        });
        stage.put_user(&[]);
        stage.apply(MetadataChange::SetPermission {
            user: USER.into(),
            vhost: VHOST.into(),
            configure: configure.into(),
            write: write.into(),
            read: read.into(),
        });
        stage.apply(MetadataChange::DeclareExchange {
            vhost: VHOST.into(),
            exchange: "x".into(),
            exchange_type: "topic".into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Table::new(),
        });
        stage
    }

    fn put_user(&mut self, tags: &[&str]) {
        let UserRecord {
            password_hash,
            hashing_algorithm,
            ..
        } = UserRecord::default();
        let tags = tags.iter().map(|tag| (*tag).into()).collect();
        self.apply(MetadataChange::PutUser {
            user: USER.into(),
            password_hash,
            hashing_algorithm,
            tags,
        });
    }

    fn apply(&mut self, change: MetadataChange) {
        self.metadata.apply(&change).unwrap();
    }

    fn ask(&self, operation: Operation<'_>) -> Result<(), String> {
        self.metadata
            .check_access(&USER.into(), &VHOST.into(), &operation)
            .map_err(|refusal| refusal.to_string())
    }

    fn ask_topic(&self, exchange: &str, key: &str, permission: Permission) -> Result<(), String> {
        self.metadata
            .check_topic_access(
                &USER.into(),
                &VHOST.into(),
                exchange,
                key.as_bytes(),
                permission,
            )
            .map_err(|refusal| refusal.to_string())
    }
}

fn table(key: &str, value: &str) -> Table {
    [(key, value)].into_iter().collect()
}

/// Which of `configure`, `write`, `read` are needed, and no other.
fn check_needs(operation: Operation<'_>, needed: &str) {
    for held in ["", "c", "w", "r", "cw", "cr", "wr", "cwr"] {
        let pattern = |letter| if held.contains(letter) { ".*" } else { "^$" };
        let stage = Stage::with(pattern('c'), pattern('w'), pattern('r'));
        let expected = match needed {
            "any" => !held.is_empty(),
            _ => needed.chars().all(|letter| held.contains(letter)),
        };
        assert_eq!(
            stage.ask(operation).is_ok(),
            expected,
            "{operation:?} with {held:?}"
        );
    }
}

#[test]
fn each_operation_asks_for_its_permissions_and_no_other() {
    let none = Table::new();
    let alternate = table("alternate-exchange", "ae");
    let dead_letters = table("x-dead-letter-exchange", "");
    check_needs(
        Operation::ExchangeDeclare {
            exchange: "x",
            arguments: &none,
        },
        "c",
    );
    check_needs(
        Operation::ExchangeDeclare {
            exchange: "x",
            arguments: &alternate,
        },
        "cwr",
    );
    check_needs(Operation::ExchangeDeclarePassive { exchange: "x" }, "any");
    check_needs(Operation::ExchangeDelete { exchange: "x" }, "c");
    check_needs(
        Operation::QueueDeclare {
            queue: "q",
            arguments: &none,
        },
        "c",
    );
    check_needs(
        Operation::QueueDeclare {
            queue: "q",
            arguments: &dead_letters,
        },
        "cwr",
    );
    check_needs(Operation::QueueDeclarePassive { queue: "q" }, "any");
    check_needs(Operation::QueueDelete { queue: "q" }, "c");
    check_needs(Operation::QueueRead { queue: "q" }, "r");
    check_needs(Operation::Publish { exchange: "x" }, "w");
    let destination = Destination::Queue("q".into());
    check_needs(
        Operation::Bind {
            source: "x",
            destination: &destination,
        },
        "wr",
    );
    let destination = Destination::Exchange("y".into());
    check_needs(
        Operation::Bind {
            source: "x",
            destination: &destination,
        },
        "wr",
    );
}

#[test]
fn a_refusal_names_permission_resource_and_user() {
    let stage = Stage::with("^c", "^w", "^r");
    let none = Table::new();
    assert_eq!(
        stage.ask(Operation::QueueDeclare {
            queue: "q",
            arguments: &none
        }),
        Err("configure access to queue 'q' in vhost 'v' refused for user 'u'".into())
    );
    assert_eq!(
        stage.ask(Operation::Publish { exchange: "" }),
        Err("write access to exchange 'amq.default' in vhost 'v' refused for user 'u'".into())
    );
    assert_eq!(
        stage.ask(Operation::QueueDeclarePassive { queue: "q" }),
        Err("configure access to queue 'q' in vhost 'v' refused for user 'u'".into())
    );
    let destination = Destination::Queue("wq".into());
    assert_eq!(
        stage.ask(Operation::Bind {
            source: "x",
            destination: &destination
        }),
        Err("read access to exchange 'x' in vhost 'v' refused for user 'u'".into())
    );
    let dead_letters = table("x-dead-letter-exchange", "dlx");
    let stage = Stage::with(".*", "^w", ".*");
    assert_eq!(
        stage.ask(Operation::QueueDeclare {
            queue: "q",
            arguments: &dead_letters
        }),
        Err("write access to exchange 'dlx' in vhost 'v' refused for user 'u'".into())
    );
}

#[test]
fn patterns_are_searched_anywhere_and_the_empty_one_allows_nothing() {
    assert!(
        Stage::with("pe", "", "")
            .ask(Operation::QueueDelete { queue: "a-pe-q" })
            .is_ok()
    );
    assert!(
        Stage::with("^pe", "", "")
            .ask(Operation::QueueDelete { queue: "a-pe-q" })
            .is_err()
    );
    assert!(
        Stage::with("", "", "")
            .ask(Operation::QueueDelete { queue: "q" })
            .is_err()
    );
    assert!(
        Stage::with("^(?!secret)", "", "")
            .ask(Operation::QueueDelete { queue: "q" })
            .is_ok()
    );
    assert!(
        Stage::with("^(?!secret)", "", "")
            .ask(Operation::QueueDelete { queue: "secret" })
            .is_err()
    );
}

#[test]
fn the_default_exchange_is_matched_by_its_public_name() {
    let stage = Stage::with("", "^amq\\.default$", "");
    assert!(stage.ask(Operation::Publish { exchange: "" }).is_ok());
    assert!(stage.ask(Operation::Publish { exchange: "x" }).is_err());
}

#[test]
fn a_pattern_that_never_ends_is_a_refusal() {
    let stage = Stage::with("^(?=(a+)+$)\\1b", "", "");
    let name = "a".repeat(200);
    assert!(stage.ask(Operation::QueueDelete { queue: &name }).is_err());
}

#[test]
fn keys_are_asked_for_on_topic_exchanges_with_a_record_only() {
    let mut stage = Stage::with(".*", ".*", ".*");
    assert!(stage.ask_topic("x", "other", Permission::Write).is_ok());
    stage.apply(MetadataChange::SetTopicPermission {
        user: USER.into(),
        vhost: VHOST.into(),
        exchange: "x".into(),
        write: "^w\\.".into(),
        read: "^r\\.".into(),
    });
    stage.apply(MetadataChange::SetTopicPermission {
        user: USER.into(),
        vhost: VHOST.into(),
        exchange: "amq.direct".into(),
        write: "".into(),
        read: "".into(),
    });
    assert!(stage.ask_topic("x", "w.a", Permission::Write).is_ok());
    assert!(stage.ask_topic("x", "r.a", Permission::Read).is_ok());
    assert!(
        stage
            .ask_topic("amq.direct", "k", Permission::Write)
            .is_ok()
    );
    assert_eq!(
        stage.ask_topic("x", "other", Permission::Write),
        Err(
            "write access to topic 'other' in exchange 'x' in vhost 'v' refused for user 'u'"
                .into()
        )
    );
    assert_eq!(
        stage.ask_topic("x", "other", Permission::Read),
        Err(
            "read access to topic 'other' in exchange 'x' in vhost 'v' refused for user 'u'".into()
        )
    );
}

#[test]
fn variables_of_keys_stand_for_text_and_not_for_an_expression() {
    let mut metadata = Metadata::new(Defaults::default());
    let (user, vhost) = (UserName::new("a.b"), VhostName::new("v+"));
    let changes = [
        MetadataChange::PutVhost {
            vhost: vhost.clone(),
            record: VhostRecord::default(),
        },
        MetadataChange::PutUser {
            user: user.clone(),
            password_hash: "".into(),
            hashing_algorithm: "".into(),
            tags: Vec::new(),
        },
        MetadataChange::SetTopicPermission {
            user: user.clone(),
            vhost: vhost.clone(),
            exchange: "amq.topic".into(),
            write: "^{vhost}-{username}\\.".into(),
            read: ".*".into(),
        },
    ];
    for change in &changes {
        metadata.apply(change).unwrap();
    }
    let may = |key: &str| {
        metadata
            .check_topic_access(
                &user,
                &vhost,
                "amq.topic",
                key.as_bytes(),
                Permission::Write,
            )
            .is_ok()
    };
    assert!(may("v+-a.b.x"));
    assert!(!may("v+-axb.x"));
    assert!(!may("vv-a.b.x"));
    let record = metadata
        .topic_permission(&user, &vhost, "amq.topic")
        .unwrap();
    assert_eq!(record.write.as_str(), "^{vhost}-{username}\\.");
}

#[test]
fn nobody_claims_another_name_but_an_impersonator() {
    let mut stage = Stage::with(".*", ".*", ".*");
    let claim = |stage: &Stage, name: &str| {
        stage
            .metadata
            .check_user_id(&USER.into(), name.as_bytes())
            .map_err(|r| r.to_string())
    };
    assert_eq!(claim(&stage, "u"), Ok(()));
    assert_eq!(
        claim(&stage, "bob"),
        Err("user_id property set to 'bob' but authenticated user was 'u'".into())
    );
    stage.put_user(&["impersonator"]);
    assert_eq!(claim(&stage, "bob"), Ok(()));
}

#[test]
fn verdicts_may_be_kept_while_the_permission_version_stands() {
    let mut stage = Stage::with(".*", ".*", ".*");
    let before = stage.metadata.permission_version();
    stage.apply(MetadataChange::DeleteExchange {
        vhost: VHOST.into(),
        exchange: "x".into(),
        if_unused: false,
    });
    assert_eq!(stage.metadata.permission_version(), before);
    stage.apply(MetadataChange::ClearPermission {
        user: USER.into(),
        vhost: VHOST.into(),
    });
    assert!(stage.metadata.permission_version() > before);
}
