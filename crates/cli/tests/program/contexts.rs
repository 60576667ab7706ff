//! Brokers under names.

use crate::stage::{Ran, Stage};

#[test]
fn a_context_is_used_until_another_one_is_and_a_dash_goes_back() {
    let stage = Stage::set();
    let run = |line: &str| {
        let words = line.split(' ');
        Ran::of(stage.command().args(words).output().expect("the program"))
    };
    run(&format!(
        "context add here --url http://{} --user guest --password guest",
        stage.api
    ))
    .ok();
    run("context add there --url http://127.0.0.1:9").ok();
    run("whoami").ok();
    run("context use there").ok();
    run("whoami").fails_with(69);
    run("context use -").ok();
    insta::assert_snapshot!(run("whoami").ok(), @"guest (administrator)");
    insta::assert_snapshot!(run("context list --columns current,name").ok(), @r"
    CURRENT  NAME
    *        here
             there
    ");
    run("--context there whoami").fails_with(69);
    run("context use nowhere").fails_with(65);
}

#[cfg(unix)]
#[test]
fn only_its_owner_may_read_the_passwords() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::set();
    stage.run("context add here --secret pw").ok();
    let file = stage.folder().join("contexts.yaml");
    let mode = std::fs::metadata(file)
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}
