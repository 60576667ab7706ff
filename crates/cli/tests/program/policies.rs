//! Policy files from the command line.

use std::fs;

use crate::stage::Stage;

const FILE: &str = "vhosts:
  /:
    policies:
      - name: limit
        pattern: '^q'
        apply_to: queues
        definition: {max-length: 7}
    operator_policies:
      - name: cap
        pattern: '.*'
        apply_to: queues
        definition: {max-length: 5}
";

#[test]
fn a_faulty_file_is_told_with_line_and_nearest_key_and_needs_no_broker() {
    let stage = Stage::set();
    let file = stage.folder().join("p.yaml");
    fs::write(&file, FILE.replace("max-length: 7", "max-lenght: 7")).expect("written");
    let ran = crate::stage::Ran::of(
        stage
            .command()
            .args(["policy", "check", "p.yaml"])
            .output()
            .expect("the program"),
    );
    let told = ran.fails_with(65);
    assert!(told.contains("p.yaml:7:"), "{told}");
    assert!(told.contains("did you mean `max-length`?"), "{told}");
    fs::write(&file, FILE).expect("written");
    let told = stage.run("policy check p.yaml");
    assert!(told.err.contains("2 policies"), "{told:?}");
    told.ok();
}

#[test]
fn a_file_is_planned_applied_and_found_in_force() {
    let stage = Stage::set();
    fs::write(stage.folder().join("p.yaml"), FILE).expect("written");
    stage.run("declare queue q1").ok();
    insta::assert_snapshot!(stage.run("policy plan p.yaml").ok(), @r"
    + policy limit of vhost /
    + operator policy cap of vhost /
    ~ queue q1 of vhost /
        policy: none -> limit
        operator policy: none -> cap
        max-length: none -> 5
    ");
    let drift = stage.run("policy drift p.yaml");
    assert!(drift.out.contains("+ policy limit of vhost /"), "{drift:?}");
    drift.fails_with(65);

    stage.run("policy apply p.yaml").ok();
    stage.run("policy drift p.yaml").ok();
    let why = stage.run("policy why q1").ok();
    assert!(
        why.starts_with("policy: limit\noperator policy: cap\n"),
        "{why}"
    );
    let limit = why.lines().find(|line| line.starts_with("max-length "));
    let words: Vec<&str> = limit.unwrap_or_default().split_whitespace().collect();
    assert_eq!(
        words,
        ["max-length", "5", "operator", "policy", "cap"],
        "{why}"
    );
}

#[test]
fn what_the_file_does_not_hold_goes_only_when_pruned_and_only_where_the_file_speaks() {
    let stage = Stage::set();
    fs::write(stage.folder().join("p.yaml"), FILE).expect("written");
    stage.run("declare vhost other").ok();
    for vhost in ["/", "other"] {
        let words = ["declare", "policy", "old", "--vhost", vhost];
        let rest = ["--pattern", "x", "--definition", r#"{"expires":1000}"#];
        stage.run_words(&[&words[..], &rest[..]].concat()).ok();
    }
    stage.run("policy apply p.yaml").ok();
    let drift = stage.run("policy drift p.yaml").out;
    assert_eq!(
        drift.lines().next(),
        Some("- policy old of vhost /"),
        "{drift}"
    );
    stage.run("policy apply p.yaml --prune").ok();
    stage.run("policy drift p.yaml").ok();
    let left = stage.run("list policies -o csv --columns vhost,name").ok();
    assert_eq!(left, "vhost,name\n/,limit\nother,old\n");
}
