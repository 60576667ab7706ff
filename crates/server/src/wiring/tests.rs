//! Every setting arrives at the crate that it is for.

use super::*;

#[test]
fn the_defaults_of_the_settings_are_those_of_the_crates() {
    let settings = Settings::default();
    assert_eq!(auth_policy(&settings), AuthPolicy::default());
    assert_eq!(quorum_defaults(&settings), core::QuorumDefaults::default());

    let (ours, theirs) = (amqp_options(&settings), AmqpServerOptions::default());
    assert_eq!(ours.frame_max, theirs.frame_max);
    assert_eq!(ours.channel_max, theirs.channel_max);
    assert_eq!(ours.heartbeat_s, theirs.heartbeat_s);
    assert_eq!(ours.max_message_size, theirs.max_message_size);
    assert_eq!(ours.connections_max, theirs.connections_max);
    assert_eq!(ours.handshake_timeout, theirs.handshake_timeout);
    assert_eq!(ours.refusal_delay, theirs.refusal_delay);
    assert_eq!(ours.identity.product, theirs.identity.product);

    let ours = broker_options(&settings);
    let theirs = BrokerOptions::new("data");
    assert_eq!(ours.data_dir, theirs.data_dir);
    assert_eq!(ours.groups, theirs.groups);
    assert_eq!(ours.defaults, theirs.defaults);
    assert_eq!(
        ours.storage.journal_file_bytes,
        theirs.storage.journal_file_bytes
    );
    assert_eq!(
        ours.storage.journal_bytes_max,
        theirs.storage.journal_bytes_max
    );
    assert_eq!(ours.storage.segment_bytes, theirs.storage.segment_bytes);
    assert_eq!(
        ours.storage.record_bytes_max,
        theirs.storage.record_bytes_max
    );
}

fn with(key: &str, value: &str) -> Settings {
    let assignment = settings::Assignment::Set(format!("{key}={value}"));
    let sources = settings::Sources {
        assignments: vec![assignment],
        ..Default::default()
    };
    settings::load(&sources).expect("valid settings").settings
}

/// Keys that are read where they act, each tried there with the running program.
const READ_IN_PLACE: [&str; 11] = [
    "listeners.amqp",
    "listeners.amqps",
    "listeners.management",
    "listeners.management_tls",
    "listeners.metrics",
    "definitions.path",
    "definitions.skip_if_unchanged",
    "policies.path",
    "log.level",
    "log.format",
    "shutdown.drain_timeout",
];

/// Everything that the parts of the broker are given, in one text.
fn told(settings: &Settings) -> String {
    let first = first_user(settings, |_| None).expect("no variables");
    let auth = auth_policy(settings);
    let (door, _) = management::reload_door();
    let broker = broker_options(settings);
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        amqp_options(settings),
        (auth.mechanisms, auth.loopback_users, auth.anonymous),
        (first.user, first.password, first.vhost),
        (
            broker.data_dir,
            broker.storage,
            broker.groups,
            broker.defaults
        ),
        (flow_options(settings, Some(1 << 40)), broker.levers),
        (
            quorum_defaults(settings),
            // Delays count only when some returns are held back.
            quorum_defaults(&Settings {
                quorum: settings::Quorum {
                    delayed_retry_type: settings::DelayedRetry::All,
                    ..settings.quorum.clone()
                },
                ..settings.clone()
            }),
        ),
        (
            login_from(settings),
            // Kind and place count only when the name is an alternative one.
            login_from(&Settings {
                tls: settings::Tls {
                    login_from: settings::LoginFrom::SubjectAlternativeName,
                    ..settings.tls.clone()
                },
                ..settings.clone()
            })
        ),
        // Certificate and key make sense together only.
        tls_options(&Settings {
            tls: settings::Tls {
                certificate: settings
                    .tls
                    .certificate
                    .clone()
                    .or_else(|| Some("c".into())),
                private_key: settings
                    .tls
                    .private_key
                    .clone()
                    .or_else(|| Some("k".into())),
                ..settings.tls.clone()
            },
            ..settings.clone()
        }),
        node_name(settings),
        settings.node.product,
        management_options(settings, &[], door).product_name,
    )
}

#[test]
fn no_key_is_dead() {
    let plain = told(&Settings::default());
    for (key, value) in crate::reload::tests::SECOND_VALUES {
        let arrives = told(&with(key, value)) != plain;
        let in_place = READ_IN_PLACE.contains(key);
        assert!(arrives || in_place, "nobody acts on {key}");
    }
}

#[test]
fn every_key_has_a_second_value_or_needs_others_beside_it() {
    let needs_others = [
        "listeners.amqps",
        "listeners.management_tls",
        "listeners.cluster",
        "cluster.node",
        "cluster.nodes",
        "cluster.secret",
        "cluster.group_size",
        "tls.client_certificates",
    ];
    let tried = crate::reload::tests::SECOND_VALUES;
    for key in settings::key_names() {
        let is_tried = tried.iter().any(|(tried, _)| *tried == key);
        assert!(is_tried || needs_others.contains(&key.as_str()), "{key}");
    }
}

#[test]
fn settings_of_the_amqp_side_arrive() {
    let options = |key, value| amqp_options(&with(key, value));
    assert_eq!(options("limits.frame_max", "16KiB").frame_max, 16384);
    assert_eq!(options("limits.channel_max", "7").channel_max, 7);
    assert_eq!(options("limits.heartbeat", "off").heartbeat_s, 0);
    assert_eq!(options("limits.heartbeat", "65535s").heartbeat_s, 65535);
    assert_eq!(
        options("limits.max_message_size", "1MiB").max_message_size,
        1 << 20
    );
    assert_eq!(options("limits.max_connections", "3").connections_max, 3);
    let timeout = options("limits.handshake_timeout", "1500").handshake_timeout;
    assert_eq!(timeout.as_millis(), 1500);
    assert!(options("auth.failure_delay", "0").refusal_delay.is_zero());
    assert_eq!(
        options("shutdown.drain_timeout", "9s")
            .shutdown_grace
            .as_secs(),
        3
    );
    assert_eq!(
        options("node.product", "RabbitMQ").identity.product,
        "RabbitMQ"
    );
    assert_eq!(
        options("node.name", "rabbit@here").identity.cluster_name,
        "rabbit@here"
    );
}

#[test]
fn settings_of_the_engine_arrive() {
    let options = |key, value| broker_options(&with(key, value));
    assert_eq!(
        options("node.data_dir", "there").data_dir.to_str(),
        Some("there")
    );
    let storage = options("storage.journal_file_size", "8MiB").storage;
    assert_eq!(storage.journal_file_bytes, 8 << 20);
    assert_eq!(
        options("storage.journal_cap", "1GiB")
            .storage
            .journal_bytes_max,
        1 << 30
    );
    assert_eq!(
        options("storage.segment_size", "1MiB")
            .storage
            .segment_bytes,
        1 << 20
    );
    assert_eq!(options("quorum.groups", "3").groups, 3);
    // The largest message must fit into a record.
    let storage = options("limits.max_message_size", "512MiB").storage;
    assert!(storage.record_bytes_max > 512 << 20);
}

#[test]
fn settings_of_levers_arrive() {
    let library = &levers(&with(
        "flow.clients",
        "[{product: x, platform: y, obeys_flow: false, stops_acks_when_blocked: true}]",
    ))
    .libraries[0];
    assert_eq!((&library.product[..], &library.platform[..]), ("x", "y"));
    let traits = (library.obeys_flow, library.stops_acks);
    assert_eq!(traits, (Some(false), Some(true)));

    let users = levers(&with("flow.users", "{batch: {channel_flow: never}}")).users;
    let word = users[&UserName::new("batch")];
    assert_eq!(word.channel_flow, Some(When::Never));
    assert_eq!(word.blocked_notice, None);

    let vhosts = "{bulk: {channel_flow: always}, silent: {}}";
    let vhosts = levers(&with("flow.vhosts", vhosts)).vhosts;
    let said: Vec<_> = vhosts.into_iter().collect();
    assert_eq!(said, [(VhostName::new("bulk"), When::Always)]);
}

#[test]
fn settings_of_the_cluster_arrive() {
    let mut settings = with("cluster.group_size", "5");
    settings.cluster.node = 2;
    settings.cluster.nodes = vec!["1@a:25672".to_owned(), "2@b:25673".to_owned()];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let options = cluster_options(&settings, listener);
    assert_eq!((options.node, options.group_size), (2, 5));
    let members: Vec<_> = options
        .members
        .iter()
        .map(|own| (own.node, &own.address[..]))
        .collect();
    assert_eq!(members, [(1, "a:25672"), (2, "b:25673")]);
}

#[test]
fn settings_of_quorum_queues_arrive() {
    let defaults = |key, value| quorum_defaults(&with(key, value));
    assert_eq!(
        defaults("quorum.delivery_limit", "unlimited").delivery_limit,
        None
    );
    assert_eq!(
        defaults("quorum.delivery_limit", "5").delivery_limit,
        Some(5)
    );
    assert_eq!(
        defaults("quorum.consumer_timeout", "off").consumer_timeout_ms,
        None
    );
    assert_eq!(
        defaults("quorum.consumer_timeout", "2s").consumer_timeout_ms,
        Some(2000)
    );
    let action = |word| defaults("quorum.consumer_timeout_action", word).consumer_timeout_action;
    assert_eq!(action("close"), core::ConsumerTimeoutAction::Close);
    assert_eq!(action("cancel"), core::ConsumerTimeoutAction::Cancel);
    assert_eq!(action("return"), core::ConsumerTimeoutAction::Return);
    let counts = |word| defaults("quorum.delivery_limit_counts", word).delivery_limit_counts;
    assert_eq!(counts("returns"), core::DeliveryLimitCounts::Returns);
    assert_eq!(counts("failures"), core::DeliveryLimitCounts::Failures);
}

#[test]
fn settings_of_logins_arrive() {
    let policy = |key, value| auth_policy(&with(key, value));
    let offered = policy("auth.mechanisms", "PLAIN").mechanisms;
    assert_eq!(offered, [Mechanism::Plain]);
    assert_eq!(
        policy("auth.loopback_users", "[]").loopback_users,
        Vec::<String>::new()
    );
    let somebody = policy("auth.anonymous_user", "somebody").anonymous;
    assert_eq!(somebody, Some(("somebody".to_owned(), "guest".to_owned())));
}

#[test]
fn the_environment_of_container_images_wins_over_the_settings_for_the_first_user() {
    let settings = with("auth.default_user", "from-settings");
    let nothing = first_user(&settings, |_| None).expect("nothing to fault");
    assert_eq!(nothing.user, "from-settings");
    let variable =
        |name: &str| (name == "RABBITMQ_DEFAULT_USER").then(|| "from-environment".to_owned());
    let first = first_user(&settings, variable).expect("a name");
    assert_eq!(
        (first.user.as_str(), first.vhost.as_str()),
        ("from-environment", "/")
    );
}

#[test]
fn the_node_has_a_name_in_rabbitmqs_form() {
    let name = node_name(&Settings::default());
    assert!(
        name.starts_with("rabbit@") && name.len() > "rabbit@".len(),
        "{name}"
    );
    assert_eq!(node_name(&with("node.name", "mq@one")), "mq@one");
}
