//! Clients of further languages, as Debian has them, at overfull queues and through alarms. They
//! need packages that not every machine can have, so that a step of their own runs them:
//! `integration-tests/run --only more-clients`.

use std::path::Path;
use std::process::Command;

use crate::scripts::{run, run_through_alarms, tool};

fn script(interpreter: &str, path: &str) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("clients/more")
            .join(path),
    );
    command
}

fn java() -> Command {
    let mut command = Command::new("java");
    let jars = "/usr/share/java";
    let classes = tool("more/java");
    let path = format!("{jars}/amqp-client.jar:{jars}/slf4j-api.jar:{jars}/slf4j-nop.jar");
    command.args([
        "-cp",
        &format!("{}:{path}", classes.display()),
        "FlowClient",
    ]);
    command
}

fn php() -> Command {
    let mut command = script("php", "php/flow_client.php");
    command.env("AUTOLOAD", "/usr/share/php/PhpAmqpLib/autoload.php");
    command
}

fn ruby() -> Command {
    script("ruby", "ruby/flow_client.rb")
}

fn go() -> Command {
    Command::new(tool("more/go_client"))
}

fn c() -> Command {
    Command::new(tool("more/c_client"))
}

macro_rules! lives {
    ($($name:ident $alarms:ident $command:ident)*) => {$(
        #[test]
        #[ignore = "needs `integration-tests/clients/more/setup` and the packages that it names"]
        fn $name() {
            let mut command = $command();
            // While its consumer drains the queue, a shared connection never rests for longer.
            command.env("MESSAGES", "3000").env("GAP_MAX_MS", "1000");
            run(command);
        }

        #[test]
        #[ignore = "needs `integration-tests/clients/more/setup` and the packages that it names"]
        fn $alarms() {
            run_through_alarms($command());
        }
    )*};
}

lives! {
    java_lives_through_overfull_queues java_lives_through_alarms java
    go_lives_through_overfull_queues go_lives_through_alarms go
    bunny_lives_through_overfull_queues bunny_lives_through_alarms ruby
    php_amqplib_lives_through_overfull_queues php_amqplib_lives_through_alarms php
    rabbitmq_c_lives_through_overfull_queues rabbitmq_c_lives_through_alarms c
}
