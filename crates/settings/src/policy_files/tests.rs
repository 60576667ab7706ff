//! Policy files: what is read, and the words for what is wrong.

use std::fs;

use tempfile::TempDir;

use super::*;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        fs::write(&path, text).expect("written");
        path
    }

    /// The faults of a single file, without the folder's name.
    fn faults(&self, text: &str) -> Vec<String> {
        let path = self.write("policies.yaml", text);
        let error = load_policies(&path).expect_err("faults");
        let folder = format!("{}/", self.0.path().display());
        let faults = error.faults.iter();
        faults
            .map(|fault| fault.to_string().replace(&folder, ""))
            .collect()
    }
}

const ORDERS: &str = "\
vhosts:
  /:
    policies:
      - name: orders
        pattern: '^orders\\.'
        apply_to: quorum_queues
        priority: 10
        definition:
          delivery-limit: 5
          dead-letter-exchange: orders.dlx
          consumer-timeout: 1h
          capacity: 10MiB
          flow-resume-capacity: 8MiB
    operator_policies: []
";

#[test]
fn the_example_of_the_design_is_read_with_its_units() {
    let folder = Folder::new();
    let read = load_policies(&folder.write("policies.yaml", ORDERS)).expect("no faults");
    let [policy] = read.policies.as_slice() else {
        panic!("{read:?}")
    };
    assert_eq!(
        (policy.vhost.as_str(), policy.scope),
        ("/", PolicyScope::User)
    );
    let form = &policy.policy;
    assert_eq!(form.pattern, Some(Term::text("^orders\\.")));
    assert_eq!(form.priority, Some(Term::Integer(10)));
    let value = |key: &str| {
        form.definition
            .as_ref()
            .and_then(|term| term.get(key))
            .cloned()
    };
    assert_eq!(value("consumer-timeout"), Some(Term::Integer(3_600_000)));
    assert_eq!(value("capacity"), Some(Term::Integer(10 << 20)));
    assert_eq!(value("delivery-limit"), Some(Term::Integer(5)));
}

#[test]
fn a_folder_is_read_by_name_and_hidden_entries_are_left_alone() {
    let folder = Folder::new();
    folder.write("d/b.yaml", &ORDERS.replace("orders", "b"));
    folder.write("d/a.yaml", &ORDERS.replace("orders", "a"));
    folder.write("d/.hidden.yaml", "not: [valid");
    folder.write("d/notes.txt", "not: [valid");
    let read = load_policies(&folder.0.path().join("d")).expect("no faults");
    let names: Vec<_> = read
        .policies
        .iter()
        .map(|policy| &*policy.policy.name)
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn the_folder_beside_a_file_is_read_with_it() {
    let folder = Folder::new();
    let file = folder.write("policies.yaml", ORDERS);
    folder.write("policies.d/more.yaml", &ORDERS.replace("orders", "more"));
    assert_eq!(load_policies(&file).expect("no faults").policies.len(), 2);
}

#[test]
fn an_empty_file_and_empty_sections_hold_nothing() {
    let folder = Folder::new();
    for text in [
        "",
        "vhosts:",
        "vhosts:\n  /:\n    policies:\n",
        "# nothing\n",
    ] {
        let read = load_policies(&folder.write("policies.yaml", text)).expect("no faults");
        assert_eq!(read.policies, [], "{text:?}");
    }
}

#[test]
fn vhost_defaults_are_a_definition_without_a_pattern() {
    let folder = Folder::new();
    let text = "vhosts:\n  /:\n    defaults:\n      message-ttl: 1m\n";
    let read = load_policies(&folder.write("policies.yaml", text)).expect("no faults");
    let definition = Term::Map(vec![("message-ttl".into(), Term::Integer(60_000))]);
    assert_eq!(
        read.defaults,
        [FileDefaults {
            vhost: VhostName::new("/"),
            definition
        }]
    );
}

#[test]
fn every_fault_is_told_with_line_column_path_and_what_to_do() {
    let faults = Folder::new().faults(
        "\
vhosts:
  /:
    policys: []
    policies:
      - name: a
        pattern: '('
        definition: {max-length: 1}
      - name: b
        pattern: x
        definition: {max-lenght: 1}
      - name: c
        pattern: x
        definition: {max-length: many}
      - name: d
        pattern: x
        apply_to: queue
        definition: {max-length: 1}
      - name: e
        pattern: x
      - name: 7
        pattern: x
        definition: {max-length: 1}
      - name: f
        pattern: x
        definition: {max-length-bytes: 10M}
    operator_policies:
      - name: g
        pattern: x
        definition: {dead-letter-exchange: dlx}
",
    );
    let expected = [
        "policies.yaml:3:5: unknown key `vhosts./.policys`; did you mean `policies`?",
        "policies.yaml:6:18: `vhosts./.policies[0].pattern`: not a regular expression",
        "policies.yaml:10:22: unknown key `vhosts./.policies[1].definition.max-lenght`; did you mean `max-length`?",
        "policies.yaml:13:34: `vhosts./.policies[2].definition.max-length`: found \"many\", expected a valid maximum length",
        "policies.yaml:16:19: `vhosts./.policies[3].apply_to`: found \"queue\", expected one of all,",
        "policies.yaml:18:9: `vhosts./.policies[4]`: a policy needs `definition`; add it",
        "policies.yaml:20:15: `vhosts./.policies[5].name`: found 7, expected a text; write it in quotes",
        "policies.yaml:25:40: `vhosts./.policies[6].definition.max-length-bytes`: found \"10M\", expected a size",
        "policies.yaml:29:22: `vhosts./.operator_policies[0].definition.dead-letter-exchange`: operator policies may not hold this key",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.starts_with(expected), "{fault}\n{expected}");
    }
}

#[test]
fn a_name_that_is_written_twice_is_a_fault_even_across_files() {
    let folder = Folder::new();
    folder.write("d/a.yaml", ORDERS);
    folder.write("d/b.yaml", ORDERS);
    let error = load_policies(&folder.0.path().join("d")).expect_err("a fault");
    let told = error.to_string();
    assert!(
        told.contains("b.yaml:4:15") && told.contains("written twice, first in"),
        "{told}"
    );
}

#[test]
fn a_duplicate_key_and_a_tab_are_faults_of_the_text() {
    let folder = Folder::new();
    let twice = folder.faults("vhosts:\n  /: {}\n  /: {}\n");
    assert!(twice[0].contains("appears twice"), "{twice:?}");
    let tab = folder.faults("vhosts:\n\t/: {}\n");
    assert!(tab[0].contains("tab"), "{tab:?}");
}

#[test]
fn an_absent_file_is_told() {
    let folder = Folder::new();
    let error = load_policies(&folder.0.path().join("none.yaml")).expect_err("a fault");
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

#[test]
fn the_example_file_holds_every_key_and_is_valid_with_and_without_its_comments() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/policies.yaml");
    let read = load_policies(&path).expect("the example is valid");
    assert_eq!(read.policies, [], "nothing is set by an example");

    let text = fs::read_to_string(&path).expect("the example is in the repository");
    let uncommented: String = text
        .lines()
        .skip_while(|line| *line != "# vhosts:")
        .filter_map(|line| line.strip_prefix("# "))
        .fold(String::new(), |text, line| text + line + "\n");
    let folder = Folder::new();
    let read = load_policies(&folder.write("p.yaml", &uncommented)).expect("no faults");
    let definition = read.policies[0].policy.definition.as_ref();
    for key in policy_key_names(PolicyScope::User) {
        let value = definition.and_then(|definition| definition.get(key));
        assert!(value.is_some(), "{key} is not in policies.yaml");
    }
}
