//! The verbs of the older tools: their words, columns and exit codes.

use crate::stage::{Ran, Stage};

#[test]
fn queues_are_listed_as_the_older_tool_lists_them() {
    let stage = Stage::set();
    stage.run("declare queue q").ok();
    stage.run("publish -k q x").ok();
    insta::assert_snapshot!(stage.run("list_queues name messages").ok(), @r"
    Timeout: 60.0 seconds ...
    Listing queues for vhost / ...
    name	messages
    q	1
    ");
    assert_eq!(stage.run("list-queues -q name").ok(), "name\nq\n");
    assert_eq!(stage.run("list_queues -s messages name").ok(), "1\tq\n");
    assert_eq!(
        stage.run("list_queues --formatter json").ok(),
        "[\n{\"messages\":1,\"name\":\"q\"}\n]\n"
    );
    assert_eq!(stage.run("list_queues -q -p unknown").ok(), "");
    stage.run("list_queues bogus").fails_with(64);
}

#[test]
fn users_come_and_go_with_the_usual_words_and_codes() {
    let stage = Stage::set();
    stage.run("add_user bob pw").ok();
    stage.run("add_user bob pw").fails_with(70);
    stage.run("set_user_tags bob monitoring").ok();
    stage
        .run_words(&["set_permissions", "-p", "/", "bob", ".*", ".*", ".*"])
        .ok();
    assert_eq!(
        stage.run("list_users -s").ok(),
        "bob\t[monitoring]\nguest\t[administrator]\n"
    );
    assert_eq!(stage.run("authenticate_user -q bob pw").ok(), "Success\n");
    stage.run("authenticate_user bob wrong").fails_with(65);
    stage.run("change_password bob new").ok();
    assert_eq!(stage.run("authenticate_user -q bob new").ok(), "Success\n");
    stage.run("change_password nobody x").fails_with(67);
    stage.run("delete_user bob").ok();
    stage.run("delete_user bob").ok();
}

#[test]
fn policies_and_limits_are_kept_as_from_memory() {
    let stage = Stage::set();
    stage
        .run_words(&[
            "set_policy",
            "p",
            "^a",
            "{\"max-length\":5}",
            "--apply-to",
            "queues",
        ])
        .ok();
    insta::assert_snapshot!(stage.run("list_policies").ok(), @r#"
    Listing policies for vhost "/" ...
    vhost	name	pattern	apply-to	definition	priority
    /	p	^a	queues	{"max-length":5}	0
    "#);
    stage.run("clear_policy p").ok();
    let told = stage.run("clear_policy p").fails_with(69);
    assert!(told.contains("Parameter does not exist"), "{told}");
    stage
        .run_words(&["set_vhost_limits", "{\"max-queues\":5}"])
        .ok();
    assert_eq!(
        stage.run("list_vhost_limits -q").ok(),
        "{\"max-queues\":5}\n"
    );
    stage.run("clear_vhost_limits").ok();
    assert_eq!(stage.run("list_vhost_limits -q").ok(), "{}\n");
}

#[test]
fn checks_answer_with_their_words_and_fail_with_69() {
    let stage = Stage::set();
    let line = |line: &str| stage.run(&format!("{line} -q")).ok();
    assert_eq!(line("ping"), "Ping succeeded\n");
    assert_eq!(
        line("check_running"),
        "RabbitMQ on node rabbit@test is fully booted and running\n"
    );
    assert_eq!(
        line("check_alarms"),
        "Node rabbit@test reported no alarms, local or clusterwide\n"
    );
    assert_eq!(
        line("check_virtual_hosts"),
        "Node rabbit@test reported all vhosts as running\n"
    );
    assert_eq!(
        line("check_port_listener 5672"),
        "A listener for port 5672 is running on node rabbit@test.\n"
    );
    stage.run("check_port_listener 1").fails_with(69);
    assert_eq!(line("await_startup"), "");
    assert!(line("cluster_status").contains("Running Nodes\n\nrabbit@test\n"));
}

#[test]
fn health_needs_no_login() {
    let stage = Stage::set();
    let health = format!("http://{}", stage.metrics);
    let run = |line: &str| {
        let mut command = stage.command();
        command
            .env("SLUICECTL_URL", format!("http://{}", stage.api))
            .env("SLUICECTL_HEALTH_URL", &health)
            .env("SLUICECTL_PASSWORD", "changed since");
        Ran::of(command.args(line.split(' ')).output().expect("the program"))
    };
    assert_eq!(run("health ready").ok(), "ready: ok\n");
    assert_eq!(run("health live").ok(), "live: ok\n");
    assert_eq!(run("ping -q").ok(), "Ping succeeded\n");
    assert!(run("check_running -q").ok().contains("fully booted"));
    assert_eq!(run("await_startup -q").ok(), "");
    assert!(run("list_queues -q").code != 0, "the login is refused");
}

#[test]
fn inside_of_a_container_the_first_user_operates_the_broker() {
    let stage = Stage::set();
    let secret = stage.folder().join("secret");
    std::fs::write(&secret, "guest\n").expect("written");
    let run = |key: &str, value: &str| {
        let mut command = stage.command();
        command
            .env("SLUICECTL_URL", format!("http://{}", stage.api))
            .env("RABBITMQ_DEFAULT_USER", "guest")
            .env(key, value)
            .args(["whoami", "-o", "name"]);
        Ran::of(command.output().expect("the program"))
    };
    run("RABBITMQ_DEFAULT_PASS_FILE", &secret.to_string_lossy()).ok();
    assert_ne!(run("RABBITMQ_DEFAULT_PASS", "wrong").code, 0);
}

#[test]
fn a_missing_queue_has_the_codes_that_scripts_test_for() {
    let stage = Stage::set();
    stage.run("delete_queue none").fails_with(64);
    stage.run("purge_queue none").fails_with(65);
    stage.run("quorum_status none").fails_with(65);
    stage.run("delete_vhost none").fails_with(65);
}

#[cfg(unix)]
#[test]
fn under_another_tools_name_it_speaks_that_tools_language() {
    let stage = Stage::set();
    let link = |name: &str| {
        let path = stage.folder().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sluicectl"), &path).expect("a link");
        path
    };
    let url = format!("http://{}", stage.api);
    let run = |program: &std::path::Path, words: &[&str]| {
        let mut command = std::process::Command::new(program);
        command
            .env("SLUICECTL_URL", &url)
            .env("SLUICECTL_CONFIG", stage.folder().join("c.yaml"));
        Ran::of(command.args(words).output().expect("the program"))
    };
    let ctl = link("rabbitmqctl");
    assert!(
        run(&ctl, &["status"])
            .ok()
            .starts_with("Status of node rabbit@test ...\nRuntime\n")
    );
    let admin = link("rabbitmqadmin");
    run(
        &admin,
        &["declare", "queue", "--name", "q", "--type", "quorum"],
    )
    .ok();
    run(&admin, &["purge", "queue", "--name", "q"]).ok();
    assert_eq!(
        run(&ctl, &["-s", "list_queues", "name", "type"]).ok(),
        "q\tquorum\n"
    );
}

#[test]
fn limits_of_alarms_are_set_as_from_memory_until_the_next_start() {
    let stage = Stage::set();
    insta::assert_snapshot!(stage.run("set_vm_memory_high_watermark 0 -q").ok(), @"");
    let told = stage.run("check_alarms").fails_with(69);
    assert!(told.contains("Memory alarm"), "{told}");
    stage
        .run("set_vm_memory_high_watermark absolute 900GiB -q")
        .ok();
    stage.run("set_disk_free_limit mem_relative 0 -q").ok();
    stage.run("check_alarms").ok();
    stage.run("set_disk_free_limit 900TiB -q").ok();
    let told = stage.run("check_alarms").fails_with(69);
    assert!(told.contains("disk space alarm"), "{told}");
    for wrong in [
        "set_vm_memory_high_watermark much",
        "set_vm_memory_high_watermark",
        "set_disk_free_limit 5 apples",
        "set_disk_free_limit 5apples",
    ] {
        stage.run(wrong).fails_with(64);
    }
}
