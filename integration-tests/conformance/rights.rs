//! What an operator decides by the HTTP API and a client feels: permissions and policies.

use integration_tests::http::Http;
use integration_tests::request::{
    basic_get, exchange_declare, queue_bind, queue_declare, queue_delete,
};
use integration_tests::wire::Argument;
use integration_tests::{
    Channel, Close, ConsumerSpec, ExchangeSpec, Login, Method, Publication, QueueSpec, Table,
    Trial, conformance, expect_soon,
};
use serde_json::{Value as Json, json};

/// Runs a test with a user who may configure, write and read just what these patterns match.
fn with_user(test: &str, rights: [&str; 3], body: impl Fn(&Trial, &str, &dyn Fn() -> Channel)) {
    conformance(|trial| {
        let Some(http) = trial.http(test) else {
            return;
        };
        let user = trial.name("user");
        let [configure, write, read] = rights;
        http.add_user(&user, "secret", configure, write, read);
        let login = Login::of(&user, "secret");
        body(trial, &user, &|| trial.connect_as(&login).channel(1));
        http.remove_user(&user);
    });
}

fn refusal(what: &str, of: &str, user: &str, fault: &str) -> Close {
    let text =
        format!("ACCESS_REFUSED - {what} access to {of} in vhost '/' refused for user '{user}'");
    Close::channel(403, text, fault)
}

// rabbitmq: configure
#[test]
fn declaring_and_deleting_need_configure() {
    with_user(
        "declaring_and_deleting_need_configure",
        ["^mine", "", ""],
        |trial, user, channel| {
            let name = trial.queue("other");
            let of = format!("queue '{name}'");
            let close = channel().refused(&queue_declare(&QueueSpec::durable(&name)));
            assert_eq!(close, refusal("configure", &of, user, "queue.declare"));
            let close = channel().refused(&queue_delete(&name));
            assert_eq!(close, refusal("configure", &of, user, "queue.delete"));
            let exchange = trial.exchange("other");
            let close = channel().refused(&exchange_declare(&ExchangeSpec::durable(
                &exchange, "fanout",
            )));
            let of = format!("exchange '{exchange}'");
            assert_eq!(close, refusal("configure", &of, user, "exchange.declare"));
            let mine = trial.queue("mine");
            channel().declare(&QueueSpec::durable(&mine));
        },
    );
}

// rabbitmq: write
#[test]
fn publishing_needs_write() {
    with_user(
        "publishing_needs_write",
        ["", "^amq\\.fanout$", ""],
        |_, user, channel| {
            let refused = channel();
            refused.publish(&Publication::to_queue("any", "body"));
            let close = refused.expect_close();
            let wanted = refusal("write", "exchange 'amq.default'", user, "basic.publish");
            assert_eq!(close, wanted);
            assert!(channel().publish_confirmed(&Publication::new("amq.fanout", "", "body")));
        },
    );
}

// rabbitmq: read
#[test]
fn getting_needs_read() {
    with_user(
        "getting_needs_read",
        ["", "", "^mine"],
        |trial, user, channel| {
            let name = trial.queue("other");
            trial.channel().declare(&QueueSpec::durable(&name));
            let close = channel().refused(&basic_get(&name, false));
            assert_eq!(
                close,
                refusal("read", &format!("queue '{name}'"), user, "basic.get")
            );
        },
    );
}

// rabbitmq: binding writes to the queue and reads from the exchange.
#[test]
fn binding_needs_write_on_the_queue_and_read_on_the_exchange() {
    let test = "binding_needs_write_on_the_queue_and_read_on_the_exchange";
    with_user(
        test,
        ["", "^mine", "^amq\\.topic$"],
        |trial, user, channel| {
            let (mine, other) = (trial.queue("mine"), trial.queue("other"));
            for name in [&mine, &other] {
                trial.channel().declare(&QueueSpec::durable(name));
            }
            let bind =
                |queue: &str, exchange: &str| queue_bind(queue, exchange, "k", &Table::default());
            let close = channel().refused(&bind(&other, "amq.topic"));
            assert_eq!(
                close,
                refusal("write", &format!("queue '{other}'"), user, "queue.bind")
            );
            let close = channel().refused(&bind(&mine, "amq.direct"));
            assert_eq!(
                close,
                refusal("read", "exchange 'amq.direct'", user, "queue.bind")
            );
            channel().bind(&mine, "amq.topic", "k");
        },
    );
}

// rabbitmq: rights are looked at before existence.
#[test]
fn what_is_missing_is_refused_like_what_is_forbidden() {
    let test = "what_is_missing_is_refused_like_what_is_forbidden";
    with_user(test, ["", "", "^mine"], |trial, _, channel| {
        assert_eq!(
            channel()
                .refused(&basic_get(&trial.name("missing"), false))
                .code,
            403
        );
    });
}

// rabbitmq: a policy limits a queue that is there already, and the limit goes with it.
#[test]
fn a_policy_limits_a_queue_as_long_as_it_is_there() {
    conformance(|trial| {
        let Some(http) = trial.http("a_policy_limits_a_queue_as_long_as_it_is_there") else {
            return;
        };
        for kind in ["classic", "quorum"] {
            let channel = trial.channel();
            let queue = trial.queue(kind);
            channel.declare(&QueueSpec::durable(&queue).argument("x-queue-type", kind));
            channel.put_all(&queue, ["a", "b", "c"]);
            http.add_policy(&queue, &json!({"max-length": 1}));
            channel.expect_ready(&queue, 1);
            http.remove_policy(&queue);
            channel.put_all(&queue, ["d", "e"]);
            assert_eq!(channel.take_all(&queue), ["c", "d", "e"], "{kind}");
        }
    });
}

// rabbitmq: of a policy and an argument the smaller limit counts.
#[test]
fn the_smaller_of_policy_and_argument_counts() {
    conformance(|trial| {
        let Some(http) = trial.http("the_smaller_of_policy_and_argument_counts") else {
            return;
        };
        for (argument, policy) in [(1, 5), (5, 1)] {
            let channel = trial.channel();
            let queue = trial.queue("smaller");
            http.add_policy(&queue, &json!({"max-length": policy}));
            channel.declare(&QueueSpec::durable(&queue).argument("x-max-length", argument));
            channel.put_all(&queue, ["a", "b"]);
            assert_eq!(
                channel.take_all(&queue),
                ["b"],
                "argument {argument}, policy {policy}"
            );
            http.remove_policy(&queue);
        }
    });
}

fn update_secret() -> Method {
    let secret = Argument::LongString(b"secret".to_vec());
    Method::new("connection.update-secret", vec![secret, "renewed".into()])
}

// rabbitmq: update-secret looks at the consumers' rights anew.
#[test]
fn a_consumer_without_read_is_cancelled_by_update_secret() {
    with_user(
        "a_consumer_without_read_is_cancelled_by_update_secret",
        ["", "", ".*"],
        |trial, user, channel| {
            let queue = trial.queue("readable");
            trial.channel().declare(&QueueSpec::durable(&queue));
            let channel = channel();
            let tag = channel.consume(&ConsumerSpec::of(&queue));
            channel.connection().send(0, &update_secret());
            channel
                .connection()
                .wait_for(0, &["connection.update-secret-ok"]);
            channel.expect_no_delivery();
            let Some(http) = trial.http("the rights were set over HTTP before") else {
                return;
            };
            http.add_user(user, "secret", "", "", "^none$");
            channel.connection().send(0, &update_secret());
            assert_eq!(channel.expect_cancel(), tag);
        },
    );
}

/// Makes a policy in `/` for this queue, under a name and with a priority of its own.
fn put_policy(http: Http, kind: &str, name: &str, queue: &str, priority: i32, definition: &Json) {
    let policy = json!({
        "pattern": format!("^{}$", queue.replace('.', "\\.")), "definition": definition,
        "priority": priority, "apply-to": "queues",
    });
    http.ok("PUT", &format!("/api/{kind}/%2F/{name}"), Some(&policy));
}

// rabbitmq: one policy, the whole of it, by priority
#[test]
fn of_two_policies_the_one_of_higher_priority_counts_whole() {
    conformance(|trial| {
        let Some(http) = trial.http("of_two_policies_the_one_of_higher_priority_counts_whole")
        else {
            return;
        };
        let channel = trial.channel();
        let queue = trial.queue("chosen");
        let (low, high) = (trial.name("low"), trial.name("high"));
        let rejecting = json!({"max-length": 3, "overflow": "reject-publish"});
        put_policy(http, "policies", &low, &queue, 1, &rejecting);
        put_policy(
            http,
            "policies",
            &high,
            &queue,
            2,
            &json!({"max-length": 1}),
        );
        channel.declare(&QueueSpec::durable(&queue));
        for text in ["a", "b"] {
            // The other policy would have refused none of these, or both.
            assert!(channel.publish_confirmed(&Publication::to_queue(&queue, text)));
        }
        assert_eq!(channel.ready(&queue), 1);
        http.ok("DELETE", &format!("/api/policies/%2F/{high}"), None);
        let more = Publication::to_queue(&queue, "more");
        expect_soon("taken by the full queue", &false, || {
            channel.publish_confirmed(&more)
        });
        assert_eq!(channel.ready(&queue), 3);
        http.ok("DELETE", &format!("/api/policies/%2F/{low}"), None);
    });
}

// rabbitmq: operator policies
#[test]
fn of_a_policy_and_an_operators_the_smaller_limit_counts() {
    conformance(|trial| {
        let Some(http) = trial.http("of_a_policy_and_an_operators_the_smaller_limit_counts") else {
            return;
        };
        for (policy, operators) in [(1, 5), (5, 1)] {
            let channel = trial.channel();
            let queue = trial.queue("operated");
            let name = trial.name("limit");
            let limit = |limit: i32| json!({"max-length": limit});
            put_policy(http, "policies", &name, &queue, 0, &limit(policy));
            put_policy(
                http,
                "operator-policies",
                &name,
                &queue,
                0,
                &limit(operators),
            );
            channel.declare(&QueueSpec::durable(&queue));
            channel.put_all(&queue, ["a", "b"]);
            channel.sync();
            assert_eq!(channel.take_all(&queue), ["b"]);
            for kind in ["policies", "operator-policies"] {
                http.ok("DELETE", &format!("/api/{kind}/%2F/{name}"), None);
            }
        }
    });
}

// rabbitmq: a passive declare asks for any of the three.
#[test]
fn a_passive_declare_needs_any_right() {
    for rights in [
        ["", "", ""],
        ["seen", "", ""],
        ["", "seen", ""],
        ["", "", "seen"],
    ] {
        with_user(
            "a_passive_declare_needs_any_right",
            rights,
            |trial, _, channel| {
                let queue = trial.queue("seen");
                trial.channel().declare(&QueueSpec::durable(&queue));
                let method = queue_declare(&QueueSpec::passive(&queue));
                let permitted = rights.iter().any(|right| !right.is_empty());
                if permitted {
                    channel().call(&method);
                } else {
                    assert_eq!(channel().refused(&method).code, 403);
                }
            },
        );
    }
}
