//! The words of faults, in full: they are what an operator sees at the worst moment.

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(complaint(text), expected);
}

const PLACE: &str = "a place to listen: a port such as 5672, an address with a port such as \
                     127.0.0.1:5672 or [::1]:5672, or off";
const TIMEOUT: &str =
    "a time span such as 30s, 30m or 1h30m (a number alone counts milliseconds), or off";
const SIZE: &str =
    "a size: a whole number of bytes, or a number with a unit such as 64MiB or 100MB";
const SHARE: &str = "a share of memory from 0 to 1 such as 0.6, or a size with a unit such as 2GiB";
const SECTIONS: &str = "node, listeners, tls, auth, definitions, policies, storage, memory, disk, \
                        flow, limits, quorum, cluster, log, shutdown";

#[test]
fn an_unknown_key_names_the_nearest_key() {
    check(
        "listeners:\n  amqpp: 5672\n",
        "broker.yaml:2:3: unknown key `listeners.amqpp`; did you mean `listeners.amqp`?",
    );
    check(
        "listner:\n  amqp: 5672\n",
        "broker.yaml:1:1: unknown key `listner`; did you mean `listeners`?",
    );
}

#[test]
fn a_key_in_the_wrong_section_is_found_in_the_right_one() {
    check(
        "heartbeat: 60s\n",
        "broker.yaml:1:1: unknown key `heartbeat`; did you mean `limits.heartbeat`?",
    );
    check(
        "limits:\n  delivery_limit: 3\n",
        "broker.yaml:2:3: unknown key `limits.delivery_limit`; \
         did you mean `quorum.delivery_limit`?",
    );
}

#[test]
fn a_key_like_no_other_gets_the_list_of_its_section() {
    check(
        "log: {zebra: 1}",
        "broker.yaml:1:7: unknown key `log.zebra`; the keys here are log.level, log.format",
    );
    check(
        "0: 1",
        &format!("broker.yaml:1:1: unknown key `0`; the keys here are {SECTIONS}"),
    );
    check(
        "log:\n  <<: {level: info}\n",
        "broker.yaml:2:3: unknown key `log.<<`; the keys here are log.level, log.format",
    );
}

#[test]
fn a_key_with_dots_in_a_file_is_shown_nested() {
    check(
        "listeners.amqp: 5672\n",
        "broker.yaml:1:1: `listeners.amqp` is written with dots; \
         nest it in its section: `listeners: {amqp: …}`",
    );
}

#[test]
fn a_key_that_appears_twice_is_told_where_it_repeats() {
    check(
        "log:\n  level: info\n  format: text\n  level: debug\n",
        "broker.yaml:4:3: `log.level` appears twice; keep one of them",
    );
    check(
        "log: {}\nnode: {}\nlog: {}\n",
        "broker.yaml:3:1: `log` appears twice; keep one of them",
    );
}

#[test]
fn text_that_is_no_yaml_names_line_and_column() {
    check(
        "log:\n  level: [a\n",
        "broker.yaml:3:1: not valid YAML: did not find expected ',' or ']'",
    );
    check(
        "log: {level: 'x}",
        "broker.yaml:1:17: not valid YAML: found unexpected end of stream",
    );
    check(
        "log: *x\n",
        "broker.yaml:1:6: not valid YAML: unknown anchor",
    );
    check(
        "\u{0}",
        "broker.yaml:1:1: not valid YAML: control characters are not allowed",
    );
    check(
        &"[".repeat(500),
        "broker.yaml:1:129: not valid YAML: recursion limit exceeded",
    );
}

#[test]
fn a_tab_is_called_a_tab() {
    check(
        "log:\n\tlevel: info\n",
        "broker.yaml:2:1: not valid YAML: found character that cannot start any token; \
         a tab stands in the indentation; YAML wants spaces",
    );
}

#[test]
fn several_documents_are_refused() {
    check(
        "log: {level: info}\n---\nlog: {level: info}\n",
        "broker.yaml: not valid YAML: deserializing from YAML containing more than one document \
         is not supported; keep one document, without `---` in the middle of the file",
    );
}

#[test]
fn anchors_that_multiply_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..9 {
        let item = format!("*a{}, ", n - 1).repeat(10);
        text += &format!("a{n}: &a{n} [{item}]\n");
    }
    check(
        &text,
        "broker.yaml: not valid YAML: repetition limit exceeded",
    );
}

#[test]
fn a_value_where_a_section_belongs_lists_the_keys() {
    check(
        "shutdown: 30s\n",
        "broker.yaml:1:11: `shutdown` is a section, but found \"30s\"; \
         set its keys instead: shutdown.drain_timeout",
    );
    let whole = format!("set its keys instead: {SECTIONS}");
    check(
        "- a\n",
        &format!("broker.yaml:1:1: the whole is a section, but found [\"a\"]; {whole}"),
    );
    check(
        "word",
        &format!("broker.yaml:1:1: the whole is a section, but found \"word\"; {whole}"),
    );
}

#[test]
fn a_section_where_a_value_belongs_is_refused() {
    check(
        "listeners:\n  amqp: {port: 5672}\n",
        &format!(
            "broker.yaml:2:9: `listeners.amqp`: found a section with the keys port, \
             expected {PLACE}"
        ),
    );
}

#[test]
fn numbers_that_yaml_reads_otherwise_are_explained() {
    let expected = "expected a whole number from 0 to 65535";
    let cases = [
        (
            "02047",
            format!("found \"02047\", {expected}; a number does not start with 0"),
        ),
        (
            "'2047'",
            format!("found \"2047\", {expected}; write it without quotes"),
        ),
        (
            "2_047",
            format!("found \"2_047\", {expected}; write the digits alone"),
        ),
        ("70000", format!("found 70000, {expected}")),
        ("-1", format!("found -1, {expected}")),
        ("1.5", format!("found 1.5, {expected}")),
        ("[1]", format!("found [1], {expected}")),
        ("yes", format!("found \"yes\", {expected}")),
    ];
    for (value, words) in cases {
        let text = format!("limits:\n  channel_max: {value}\n");
        check(
            &text,
            &format!("broker.yaml:2:16: `limits.channel_max`: {words}"),
        );
    }
}

#[test]
fn a_key_without_a_value_is_explained() {
    check(
        "limits:\n  channel_max:\n",
        "broker.yaml:2:15: `limits.channel_max`: found no value, expected a whole number from 0 \
         to 65535; write a value, or leave the key out for its default",
    );
}

#[test]
fn truth_values_and_numbers_are_never_taken_for_texts() {
    check(
        "node:\n  product: true\n",
        "broker.yaml:2:12: `node.product`: found true, expected a text; \
         write it in quotes: \"true\"",
    );
    check(
        "node:\n  product: 4.3\n",
        "broker.yaml:2:12: `node.product`: found 4.3, expected a text; write it in quotes: \"4.3\"",
    );
    check(
        "auth:\n  loopback_users: [guest, 7]\n",
        "broker.yaml:2:27: `auth.loopback_users[1]`: found 7, expected a text; \
         write it in quotes: \"7\"",
    );
}

#[test]
fn the_words_that_other_yaml_readers_take_for_truth_values_stay_words() {
    let settings = load_text("node:\n  product: no\n  name: on\n").expect("no faults");
    assert_eq!(settings.node.product, "no");
    assert_eq!(settings.node.name.as_deref(), Some("on"));
}

#[test]
fn switching_off_with_another_word_is_explained() {
    check(
        "listeners:\n  amqp: false\n",
        &format!("broker.yaml:2:9: `listeners.amqp`: found false, expected {PLACE}; write off"),
    );
    check(
        "limits:\n  heartbeat: no\n",
        &format!(
            "broker.yaml:2:14: `limits.heartbeat`: found \"no\", expected {TIMEOUT}; write off"
        ),
    );
}

#[test]
fn a_list_is_asked_for_where_one_belongs() {
    check(
        "auth:\n  loopback_users: guest\n",
        "broker.yaml:2:19: `auth.loopback_users`: found \"guest\", \
         expected a list, as in [a, b]",
    );
}

#[test]
fn scalars_tell_what_they_read() {
    check(
        "quorum:\n  consumer_timeout_action: kill\n",
        "broker.yaml:2:28: `quorum.consumer_timeout_action`: found \"kill\", \
         expected one of close, cancel, return",
    );
    check(
        "quorum:\n  consumer_timeout: 30min\n",
        &format!(
            "broker.yaml:2:21: `quorum.consumer_timeout`: found \"30min\", expected {TIMEOUT}; \
             the unit is written m"
        ),
    );
    check(
        "storage:\n  segment_size: 16M\n",
        &format!(
            "broker.yaml:2:17: `storage.segment_size`: found \"16M\", expected {SIZE}; \
             write MB (powers of 1000) or MiB (of 1024)"
        ),
    );
    check(
        "memory:\n  high_watermark: 60\n",
        &format!("broker.yaml:2:19: `memory.high_watermark`: found 60, expected {SHARE}"),
    );
}

#[test]
fn tags_are_refused() {
    check(
        "log: !secret {level: info}\n",
        "broker.yaml:1:6: `log` has the tag !secret, which means nothing here; take it away",
    );
    check(
        "log:\n  level: !env LEVEL\n",
        "broker.yaml:2:10: `log.level` has the tag !env, which means nothing here; take it away",
    );
}

#[test]
fn a_faulty_password_is_not_shown() {
    check(
        "auth:\n  default_password: 12345\n",
        "broker.yaml:2:21: `auth.default_password`: found (hidden), expected a text; \
         write it in quotes: \"(hidden)\"",
    );
}

#[test]
fn every_fault_of_every_layer_is_told_at_once() {
    let folder = Folder::new()
        .with(
            "broker.yaml",
            "log:\n  levle: info\nlimits:\n  channel_max: x\n  frame_max: y\n",
        )
        .with("conf.d/1.yaml", "a b: [");
    let sources = Sources {
        variables: vec![variable("SLUICEMQ__LISTNERS__AMQP", "1")],
        assignments: vec![
            set("limits.heartbeat=soon"),
            set("nothing"),
            set("limits=1"),
        ],
        ..folder.sources()
    };
    let error = load(&sources).expect_err("faults everywhere");
    assert_eq!(
        without_folder(&folder, &error),
        format!(
            "broker.yaml:2:3: unknown key `log.levle`; did you mean `log.level`?\n\
             broker.yaml:4:16: `limits.channel_max`: found \"x\", \
             expected a whole number from 0 to 65535\n\
             broker.yaml:5:14: `limits.frame_max`: found \"y\", expected {SIZE}\n\
             conf.d/1.yaml:2:1: not valid YAML: did not find expected node content\n\
             environment variable SLUICEMQ__LISTNERS__AMQP: unknown key `listners.amqp`; \
             did you mean `listeners.amqp`?\n\
             option --set limits.heartbeat: `limits.heartbeat`: found \"soon\", \
             expected {TIMEOUT}\n\
             option --set nothing: expected KEY=VALUE, as in limits.heartbeat=30s\n\
             option --set limits: `limits` is a section, but found \"1\"; set its keys instead: \
             limits.frame_max, limits.channel_max, limits.heartbeat, limits.max_message_size, \
             limits.max_connections, limits.handshake_timeout"
        )
    );
}

#[test]
fn a_variable_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let value = OsString::from_vec(vec![b'a', 0xff]);
    let variables = vec![("SLUICEMQ__NODE__NAME".into(), value)];
    assert_eq!(
        complaint_about(&Sources {
            variables,
            ..Sources::default()
        }),
        "environment variable SLUICEMQ__NODE__NAME: `node.name`: found octets that are no UTF-8, \
         expected a text"
    );
}

#[test]
fn a_missing_file_is_told_with_its_path() {
    let sources = Sources {
        file: Some("/nowhere/broker.yaml".into()),
        ..Sources::default()
    };
    assert_eq!(
        complaint_about(&sources),
        "/nowhere/broker.yaml: cannot be read: No such file or directory (os error 2); \
         check the path and its permissions"
    );
}

#[test]
fn a_file_that_is_no_text_is_told_so() {
    let folder = Folder::new();
    fs::write(folder.path("broker.yaml"), [0xff, 0xfe, 0x00]).expect("file written");
    let error = load(&folder.sources()).expect_err("no text");
    assert_eq!(
        without_folder(&folder, &error),
        "broker.yaml: cannot be read: stream did not contain valid UTF-8; \
         check the path and its permissions"
    );
}

#[test]
fn a_huge_file_is_not_read() {
    let folder = Folder::new().with("broker.yaml", &"#".repeat(FILE_BYTES_MAX as usize + 1));
    let error = load(&folder.sources()).expect_err("too large");
    assert_eq!(
        without_folder(&folder, &error),
        "broker.yaml: is larger than 1048576 bytes; is this a configuration file?"
    );
}

#[test]
fn values_that_the_broker_cannot_run_with_are_refused_where_they_were_set() {
    check(
        "limits:\n  heartbeat: 60\n",
        "broker.yaml:2:14: `limits.heartbeat` is 60ms; it must be whole seconds, at most 65535s; \
         a number alone counts milliseconds, so write 60s for a minute",
    );
    check(
        "limits:\n  frame_max: 4096\n",
        "broker.yaml:2:14: `limits.frame_max` is 4KiB; it must be from 8KiB to 16MiB",
    );
    check(
        "storage:\n  journal_cap: 64MiB\n",
        "broker.yaml:2:16: `storage.journal_cap` is 64MiB; it must hold at least 2 journal files \
         of storage.journal_file_size (64MiB), and be at most 1TiB",
    );
    check(
        "auth:\n  mechanisms: [PLAIN, SCRAM]\n",
        "broker.yaml:2:15: `auth.mechanisms` is [\"PLAIN\", \"SCRAM\"]; \
         choose among ANONYMOUS, AMQPLAIN, PLAIN, EXTERNAL",
    );
    check(
        "log:\n  level: loud\n",
        "broker.yaml:2:10: `log.level` is loud; write one of off, error, warn, info, debug, trace, \
         and exceptions after commas as in info,storage=debug",
    );
    check(
        "listeners:\n  amqps: 5671\ntls: {certificate: c.pem}\n",
        "built-in default: `tls.private_key` is no value; a TLS listener is on; name a PEM file, \
         or set listeners.amqps and listeners.management_tls off",
    );
}

#[test]
fn a_value_that_a_later_layer_replaces_is_not_held_against_anybody() {
    let folder = Folder::new().with("broker.yaml", "limits: {frame_max: 4096}");
    let sources = Sources {
        assignments: vec![set("limits.frame_max=16KiB")],
        ..folder.sources()
    };
    let settings = load(&sources).expect("the last layer is right").settings;
    assert_eq!(settings.limits.frame_max, ByteSize::bytes(16384));

    let sources = Sources {
        assignments: vec![set("limits.frame_max=1")],
        ..Sources::default()
    };
    assert_eq!(
        complaint_about(&sources),
        "option --set limits.frame_max: `limits.frame_max` is 1; it must be from 8KiB to 16MiB"
    );
}

#[test]
fn parts_of_a_fault_are_data() {
    let folder = Folder::new().with("broker.yaml", "limits:\n  channel_maxx: 7\n");
    let error = load(&folder.sources()).expect_err("an unknown key");
    let Fault {
        origin,
        key,
        problem,
    } = &error.faults[0];
    let place = Some(Place { line: 2, column: 3 });
    assert_eq!(
        *origin,
        Origin::File {
            path: folder.path("broker.yaml"),
            place
        }
    );
    assert_eq!(key.as_deref(), Some("limits.channel_maxx"));
    let Problem::UnknownKey { nearest, siblings } = problem else {
        panic!("{problem:?}")
    };
    assert_eq!(nearest.as_deref(), Some("limits.channel_max"));
    assert!(siblings.contains(&"limits.heartbeat".to_owned()));
}

#[test]
fn an_unknown_key_of_an_entry_names_the_nearest_one_beside_it() {
    check(
        "flow:\n  users:\n    batch:\n      chanel_flow: never\n",
        "broker.yaml:4:7: unknown key `flow.users.batch.chanel_flow`; \
         did you mean `flow.users.batch.channel_flow`?",
    );
    check(
        "flow:\n  clients:\n    - product: x\n      obey_flow: true\n    - {produkt: y}\n",
        "broker.yaml:4:7: unknown key `flow.clients[0].obey_flow`; \
         did you mean `flow.clients[0].obeys_flow`?\n\
         broker.yaml:5:8: unknown key `flow.clients[1].produkt`; \
         did you mean `flow.clients[1].product`?",
    );
    check(
        "flow:\n  vhosts: {a.b: {zebra: 1}}\n",
        "broker.yaml:2:18: unknown key `flow.vhosts.a.b.zebra`; \
         the keys here are flow.vhosts.a.b.channel_flow",
    );
    check(
        "flow:\n  vhosts: {/: {blocked_notice: never}}\n",
        "broker.yaml:2:16: unknown key `flow.vhosts./.blocked_notice`; \
         did you mean `flow.blocked_notice`?",
    );
}

#[test]
fn values_of_entries_are_judged_like_all_others() {
    check(
        "flow:\n  users:\n    a: {channel_flow: nevr}\n    b: {blocked_notice: 1}\n",
        "broker.yaml:3:23: `flow.users.a.channel_flow`: found \"nevr\", \
         expected one of auto, always, never\n\
         broker.yaml:4:25: `flow.users.b.blocked_notice`: found 1, \
         expected one of auto, always, never",
    );
    check(
        "flow:\n  clients:\n    - {product: x, obeys_flow: yes}\n    - {product: 7}\n",
        "broker.yaml:3:32: `flow.clients[0].obeys_flow`: found \"yes\", \
         expected true or false; only true and false are truth values\n\
         broker.yaml:4:17: `flow.clients[1].product`: found 7, expected a text; \
         write it in quotes: \"7\"",
    );
    check(
        "flow:\n  users: {a: never}\n  clients: [lapin]\n",
        "broker.yaml:2:14: `flow.users.a` is a section, but found \"never\"; set its keys instead: \
         flow.users.a.channel_flow, flow.users.a.blocked_notice\n\
         broker.yaml:3:13: `flow.clients[0]` is a section, but found \"lapin\"; set its keys \
         instead: flow.clients[0].product, flow.clients[0].platform, flow.clients[0].obeys_flow, \
         flow.clients[0].stops_acks_when_blocked",
    );
}

#[test]
fn entries_that_say_nothing_are_refused() {
    check(
        "flow:\n  clients:\n    - {product: x}\n    - {platform: Java, obeys_flow: true}\n",
        "broker.yaml:3:7: `flow.clients[0]` is {product: \"x\", platform: \"\"}; \
         say obeys_flow or stops_acks_when_blocked of it\n\
         broker.yaml:4:7: `flow.clients[1]` is {product: \"\", platform: \"Java\", \
         obeys_flow: true}; name the client's product, as it announces it",
    );
}

#[test]
fn lists_and_names_are_asked_for_where_they_belong() {
    let names = "expected names with keys of their own, as in {name: {key: value}}";
    check(
        "flow:\n  users: [batch]\n",
        &format!("broker.yaml:2:10: `flow.users`: found [\"batch\"], {names}"),
    );
    check(
        "flow:\n  clients: {product: x}\n",
        "broker.yaml:2:12: `flow.clients`: found a section with the keys product, \
         expected a list, as in [a, b]",
    );
    check(
        "flow:\n  users: {7: {channel_flow: never}}\n",
        "broker.yaml:2:11: `flow.users.7`: found 7, expected a text; write it in quotes: \"7\"",
    );
}
