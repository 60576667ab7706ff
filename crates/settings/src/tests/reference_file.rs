//! `config/broker.yaml` is the reference: it must say exactly what the code does.

use super::*;
use crate::key_path::KeyPath;
use crate::keys::Keys;

fn text() -> String {
    fs::read_to_string(reference_file()).expect("the reference file is in the repository")
}

#[test]
fn the_reference_file_says_exactly_the_defaults() {
    let loaded = load(&Sources {
        file: Some(reference_file()),
        ..Sources::default()
    })
    .expect("no faults");
    // A policies.yaml that lies beside the reference file is an example, not a default.
    let policies = Policies::default();
    assert_eq!(
        Settings {
            policies,
            ..loaded.settings
        },
        Settings::default()
    );
    assert_eq!(loaded.changed, []);
}

#[test]
fn the_reference_file_lists_every_key_and_no_other() {
    let tree = yaml::read(&text()).expect("the reference file is YAML");
    let keys = Keys::new();
    for key in keys.all() {
        assert!(
            KeyPath::dotted(&key).value(&tree).is_some(),
            "{key} is not in broker.yaml"
        );
    }
    // The other direction is what `load` checks: an unknown key is a fault.
    assert!(
        keys.all().len() > 30,
        "the tree of keys was not read: {:?}",
        keys.all()
    );
}

#[test]
fn every_key_in_the_reference_file_has_a_comment_above_it_or_above_its_group() {
    let text = text();
    let mut commented = false;
    for line in text.lines() {
        let is_key = line.starts_with("  ") && !line.trim_start().starts_with('#');
        if line.trim_start().starts_with('#') {
            commented = true;
        } else if is_key {
            assert!(commented, "no comment above {line:?}");
        } else {
            commented = false;
        }
    }
}

#[test]
fn the_environment_and_options_reach_every_key_of_the_reference_file() {
    let tree = yaml::read(&text()).expect("the reference file is YAML");
    for key in Keys::new().all() {
        let Some(value) = KeyPath::dotted(&key).value(&tree) else {
            continue;
        };
        // A null is the absence of a value, which only a file can write.
        let Some(written) = written(value) else {
            continue;
        };
        let name = format!(
            "{VARIABLE_PREFIX}{}",
            key.to_ascii_uppercase().replace('.', "__")
        );
        let sources = Sources {
            rabbitmq_conf: None,
            file: None,
            variables: vec![variable(&name, &written)],
            assignments: vec![set(&format!("{key}={written}"))],
        };
        let loaded = load(&sources).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(loaded.settings, Settings::default(), "{key}");
    }
}

fn written(value: &serde_yaml::Value) -> Option<String> {
    match value {
        serde_yaml::Value::Null => None,
        serde_yaml::Value::String(text) => Some(text.clone()),
        other => Some(yaml::on_one_line(other)),
    }
}
