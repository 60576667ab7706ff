//! Which layer wins, and what the paths in it are relative to.

use super::*;

#[test]
fn without_any_source_the_defaults_hold() {
    let loaded = load(&Sources::default()).expect("no faults");
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.files, Vec::<PathBuf>::new());
}

#[test]
fn an_empty_file_and_empty_sections_leave_the_defaults() {
    assert_eq!(load_text("").expect("no faults"), Settings::default());
    assert_eq!(
        load_text("listeners:\nlog:\n  # level: debug\n").unwrap(),
        Settings::default()
    );
}

#[test]
fn each_layer_wins_over_the_one_before() {
    let folder = Folder::new()
        .with("broker.yaml", "listeners: {amqp: 1}\nlog: {level: debug}")
        .with("conf.d/20.yaml", "listeners: {amqp: 3}")
        .with("conf.d/10.yaml", "listeners: {amqp: 2}")
        .with("conf.d/30.yaml.off", "listeners: {amqp: 9}");
    let mut sources = folder.sources();
    let port = |sources: &Sources| load(sources).expect("no faults").settings.listeners.amqp;
    assert_eq!(port(&sources), Listen::Everywhere(3));

    sources
        .variables
        .push(variable("SLUICEMQ__LISTENERS__AMQP", "4"));
    assert_eq!(port(&sources), Listen::Everywhere(4));

    sources.assignments.push(set("listeners.amqp=5"));
    assert_eq!(port(&sources), Listen::Everywhere(5));

    sources.assignments.push(set("listeners.amqp=6"));
    let loaded = load(&sources).expect("no faults");
    assert_eq!(loaded.settings.listeners.amqp, Listen::Everywhere(6));
    assert_eq!(loaded.settings.log.level, "debug");
    let files = ["broker.yaml", "conf.d/10.yaml", "conf.d/20.yaml"];
    assert_eq!(loaded.files, files.map(|name| folder.path(name)));
}

#[test]
fn a_list_is_replaced_and_not_joined() {
    let folder = Folder::new()
        .with("broker.yaml", "auth: {loopback_users: [a, b]}")
        .with("conf.d/1.yaml", "auth: {loopback_users: [c]}");
    let mut sources = folder.sources();
    assert_eq!(load(&sources).unwrap().settings.auth.loopback_users, ["c"]);

    sources.assignments.push(set("auth.loopback_users=[]"));
    assert_eq!(
        load(&sources).unwrap().settings.auth.loopback_users,
        Vec::<String>::new()
    );

    sources.assignments.push(set("auth.loopback_users=x, y"));
    assert_eq!(
        load(&sources).unwrap().settings.auth.loopback_users,
        ["x", "y"]
    );

    sources.assignments.push(set("auth.loopback_users="));
    assert_eq!(
        load(&sources).unwrap().settings.auth.loopback_users,
        Vec::<String>::new()
    );
}

#[test]
fn options_take_texts_as_they_are_written() {
    let sources = Sources {
        assignments: [
            "node.product=true",
            "auth.default_password=012=x",
            "node.name=7",
        ]
        .map(set)
        .to_vec(),
        ..Sources::default()
    };
    let settings = load(&sources).expect("no faults").settings;
    assert_eq!(settings.node.product, "true");
    assert_eq!(settings.auth.default_password.reveal(), "012=x");
    assert_eq!(settings.node.name.as_deref(), Some("7"));
}

#[test]
fn variables_without_the_prefix_are_not_ours() {
    let variables = vec![
        variable("SLUICEMQ_TEST_AMQP", "x"),
        variable("PATH", "/bin"),
    ];
    assert!(
        load(&Sources {
            variables,
            ..Sources::default()
        })
        .is_ok()
    );
}

#[test]
fn a_null_takes_an_optional_value_away() {
    let folder = Folder::new()
        .with("broker.yaml", "auth: {anonymous_user: somebody}")
        .with("conf.d/1.yaml", "auth: {anonymous_user: null}");
    assert_eq!(
        load(&folder.sources())
            .unwrap()
            .settings
            .auth
            .anonymous_user,
        None
    );
}

#[test]
fn the_policies_path_is_relative_to_the_configuration_file() {
    let folder = Folder::new().with("broker.yaml", "policies: {path: policies.d}");
    let path = load(&folder.sources()).unwrap().settings.policies.path;
    assert_eq!(path, Some(folder.path("policies.d")));
}

#[test]
fn a_policies_file_beside_the_configuration_file_is_the_default() {
    let folder = Folder::new().with("broker.yaml", "");
    assert_eq!(
        load(&folder.sources()).unwrap().settings.policies.path,
        None
    );
    let folder = folder.with("policies.yaml", "vhosts: {}");
    let path = load(&folder.sources()).unwrap().settings.policies.path;
    assert_eq!(path, Some(folder.path("policies.yaml")));
}

#[test]
fn what_differs_from_the_defaults_is_told_with_its_origin() {
    let folder = Folder::new().with("broker.yaml", "log:\n  level: debug\n  format: auto\n");
    let mut sources = folder.sources();
    sources
        .variables
        .push(variable("SLUICEMQ__AUTH__DEFAULT_PASSWORD", "hunter2"));
    sources.assignments.push(Assignment::Named {
        option: "--data-dir",
        key: "node.data_dir",
        value: "elsewhere".to_owned(),
    });
    let changed = load(&sources).expect("no faults").changed;
    let told: Vec<String> = changed
        .iter()
        .map(|Changed { key, value, origin }| format!("{key} = {value} ({origin})"))
        .collect();
    assert_eq!(
        told,
        [
            "node.data_dir = elsewhere (option --data-dir)".to_owned(),
            "auth.default_password = (hidden) \
             (environment variable SLUICEMQ__AUTH__DEFAULT_PASSWORD)"
                .to_owned(),
            format!(
                "log.level = debug ({}:2:10)",
                folder.path("broker.yaml").display()
            ),
        ]
    );
}

#[test]
fn the_secret_of_a_cluster_is_not_told() {
    let sources = Sources {
        variables: vec![variable("SLUICEMQ__CLUSTER__SECRET", "hunter2")],
        ..Sources::default()
    };
    let changed = load(&sources).expect("no faults").changed;
    let told = changed.iter().find(|one| one.key == "cluster.secret");
    assert_eq!(told.expect("it differs").value, "(hidden)");
}

#[test]
fn a_secret_does_not_print_in_a_dump_of_the_settings() {
    let sources = Sources {
        assignments: vec![set("auth.default_password=hunter2")],
        ..Sources::default()
    };
    let settings = load(&sources).expect("no faults").settings;
    assert!(!format!("{settings:?}").contains("hunter2"));
}

#[test]
fn a_factor_is_a_number_in_files_and_a_text_in_options() {
    let folder = Folder::new().with("broker.yaml", "quorum: {delayed_retry_multiplier: 2}");
    let mut sources = folder.sources();
    let factor = |sources: &Sources| {
        let loaded = load(sources)?;
        Ok::<_, SettingsError>(loaded.settings.quorum.delayed_retry_multiplier)
    };
    assert_eq!(factor(&sources).expect("no faults"), Some(2.0));
    sources
        .assignments
        .push(set("quorum.delayed_retry_multiplier=1.5"));
    assert_eq!(factor(&sources).expect("no faults"), Some(1.5));
    sources
        .assignments
        .push(set("quorum.delayed_retry_multiplier=null"));
    assert_eq!(factor(&sources).expect("no faults"), None);
    sources
        .assignments
        .push(set("quorum.delayed_retry_multiplier=twice"));
    let fault = factor(&sources).expect_err("a fault").to_string();
    assert!(fault.contains("expected a number or null"), "{fault}");
}

#[test]
fn names_come_to_names_and_their_keys_to_keys() {
    let folder = Folder::new()
        .with(
            "broker.yaml",
            "flow:\n  users:\n    A.b: {channel_flow: never, blocked_notice: never}\n    '7': {}\n",
        )
        .with(
            "conf.d/1.yaml",
            "flow: {users: {A.b: {channel_flow: always}, 'c[0]': {channel_flow: auto}}}",
        );
    let mut sources = folder.sources();
    sources.variables.push(variable(
        "SLUICEMQ__FLOW__USERS__BATCH__BLOCKED_NOTICE",
        "always",
    ));
    sources
        .assignments
        .push(set("flow.users={last: {blocked_notice: never}}"));
    let users = load(&sources).expect("no faults").settings.flow.users;
    let word = |channel_flow, blocked_notice| FlowUser {
        channel_flow,
        blocked_notice,
    };
    let expected = [
        ("7", word(None, None)),
        ("A.b", word(Some(Lever::Always), Some(Lever::Never))),
        ("batch", word(None, Some(Lever::Always))),
        ("c[0]", word(Some(Lever::Auto), None)),
        ("last", word(None, Some(Lever::Never))),
    ];
    let expected = expected.map(|(name, word)| (name.to_owned(), word));
    assert_eq!(users, expected.into_iter().collect());
}

#[test]
fn entries_are_told_with_what_they_say() {
    let clients = "flow.clients=[{product: x, obeys_flow: true}]";
    let sources = Sources {
        assignments: vec![
            set(clients),
            set("flow.vhosts={/: {channel_flow: never}, b: {}}"),
        ],
        ..Sources::default()
    };
    let changed = load(&sources).expect("no faults").changed;
    let values: Vec<&str> = changed.iter().map(|one| one.value.as_str()).collect();
    assert_eq!(
        values,
        [
            "[{product: \"x\", platform: \"\", obeys_flow: true}]",
            "{/: {channel_flow: \"never\"}, b: {}}"
        ]
    );
}
