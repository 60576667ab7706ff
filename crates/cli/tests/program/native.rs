//! Our own grammar.

use crate::stage::{Ran, Stage};

#[test]
fn queues_are_declared_listed_and_deleted() {
    let stage = Stage::set();
    stage.run("declare queue orders --type quorum").ok();
    stage
        .run("declare queue --name audit -a x-max-length=5")
        .ok();
    insta::assert_snapshot!(stage.run("list queues").ok(), @r"
    VHOST  NAME    TYPE     STATE    READY  UNACKED  CONSUMERS  POLICY
    /      audit   classic  running      0        0          0
    /      orders  quorum   running      0        0          0
    ");
    insta::assert_snapshot!(
        stage.run("queues list --columns name,arguments.x-max-length -o csv").ok(),
        @r"
    name,arguments.x-max-length
    audit,5
    orders,
    "
    );
    assert_eq!(stage.run("list queues --name ^or -o name").ok(), "orders\n");
    stage.run("delete queue orders").ok();
    assert_eq!(stage.run("list queues -o name").ok(), "audit\n");
}

#[test]
fn a_message_goes_in_and_comes_out() {
    let stage = Stage::set();
    stage.run("declare queue q").ok();
    stage
        .run("publish -k q hello --property message_id=m1 --header try=1")
        .ok();
    insta::assert_snapshot!(stage.run("get q").ok(), @r"
    exchange ''  key 'q'  5 bytes
      headers: try=1
      message_id: m1
    hello
    ");
    let peeked = stage
        .run("peek q --columns state,message.payload -o csv")
        .ok();
    assert_eq!(peeked, "state,message.payload\nready,hello\n");
    assert_eq!(
        stage
            .run("consume q --until-empty --columns payload -o csv")
            .ok(),
        "payload\nhello\n"
    );
    stage.run("wait empty q").ok();
}

#[test]
fn what_no_queue_takes_is_a_failure_with_the_next_step() {
    let stage = Stage::set();
    insta::assert_snapshot!(stage.run("publish -k nowhere x").fails_with(65), @r"
    error: no queue took the message
      why:  exchange '' has no route for key 'nowhere'
      next: sluicectl route --exchange '' --key 'nowhere'
    ");
}

#[test]
fn bindings_are_made_and_removed_by_what_they_say() {
    let stage = Stage::set();
    stage.run("declare queue q").ok();
    stage.run("declare exchange x --type topic").ok();
    stage.run("bind x q --key a.#").ok();
    let listed = || {
        stage
            .run("list bindings --columns source,destination,routing_key -o csv")
            .ok()
    };
    assert_eq!(listed(), "source,destination,routing_key\n,q,q\nx,q,a.#\n");
    stage.run("unbind x q --key a.#").ok();
    assert_eq!(listed(), "source,destination,routing_key\n,q,q\n");
    stage.run("unbind x q --key a.#").fails_with(65);
}

#[test]
fn a_missing_queue_is_told_with_the_next_step() {
    let stage = Stage::set();
    insta::assert_snapshot!(stage.run("purge none").fails_with(65), @r"
    error: could not purge queue 'none'
      why:  what was named is not there (Not Found)
    ");
}

#[test]
fn a_broker_that_is_not_there_is_told_apart_from_a_wrong_password() {
    let stage = Stage::set();
    let refused = stage
        .run("status --user guest --password wrong")
        .fails_with(65);
    assert!(
        refused.contains("does not know this user and password"),
        "{refused}"
    );
    // Port 9 of the loopback: nobody listens there.
    let absent = stage.run("status --url http://127.0.0.1:9").fails_with(69);
    assert!(
        absent.starts_with("error: no broker answers at http://127.0.0.1:9"),
        "{absent}"
    );
}

#[test]
fn definitions_travel_through_a_file_and_differences_show() {
    let stage = Stage::set();
    stage.run("declare queue q").ok();
    stage.run("definitions export all.yaml").ok();
    stage.run("definitions diff all.yaml").ok();
    stage.run("delete queue q").ok();
    stage.run("declare queue other").ok();
    let differs = stage.run("definitions diff all.yaml");
    assert_eq!(differs.code, 65);
    insta::assert_snapshot!(differs.out, @r"
    + queues / q
    - queues / other
    ");
    stage.run("definitions import all.yaml").ok();
    assert_eq!(stage.run("list queues -o name").ok(), "other\nq\n");
}

#[test]
fn waiting_ends_with_an_own_code_when_the_time_is_over() {
    let stage = Stage::set();
    stage.run("wait ready").ok();
    stage.run("wait queue none --timeout 0.3").fails_with(75);
}

#[test]
fn policies_users_and_limits_are_set_and_cleared() {
    let stage = Stage::set();
    stage
        .run("declare policy p --pattern ^a --key max-length=5 --priority 2")
        .ok();
    stage
        .run("users add bob --secret pw --tags monitoring")
        .ok();
    stage.run("permissions set bob --write ^a").ok();
    stage.run("declare vhost-limit max-queues 9").ok();
    insta::assert_snapshot!(stage.run("list policies").ok(), @r"
    VHOST  NAME  PATTERN  APPLY TO  PRIORITY  DEFINITION
    /      p     ^a       queues           2  max-length=5
    ");
    insta::assert_snapshot!(stage.run("list permissions --columns user,write -o csv").ok(), @r"
    user,write
    bob,^a
    guest,.*
    ");
    for line in [
        "delete policy p",
        "permissions clear bob",
        "users rm bob",
        "delete vhost-limit max-queues",
    ] {
        stage.run(line).ok();
    }
    assert_eq!(stage.run("list users -o name").ok(), "guest\n");
}

#[test]
fn completions_are_written_for_four_shells() {
    let stage = Stage::set();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = Ran::of(
            stage
                .command()
                .args(["completions", shell])
                .output()
                .expect("a run"),
        );
        assert!(script.ok().contains("redrive"), "{shell}");
    }
}

#[test]
fn a_wrong_word_is_a_fault_of_usage() {
    let stage = Stage::set();
    let told = stage.run("lsit queues").fails_with(64);
    assert!(told.contains("list"), "{told}");
}
