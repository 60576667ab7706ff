//! What tools over the HTTP API rely on: status codes, shapes and keys. Statistics come late
//! elsewhere, so that figures are waited for.

use integration_tests::http::{Credentials, Http};
use integration_tests::request::queue_declare;
use integration_tests::{
    ConsumerSpec, Login, Publication, QueueSpec, Trial, conformance, expect_soon,
};
use serde_json::{Value as Json, json};

/// Runs a test with the HTTP API and a vhost of its own.
fn with_vhost(test: &str, body: impl Fn(&Trial, Http, &str)) {
    conformance(|trial| {
        let Some(http) = trial.http(test) else { return };
        let vhost = trial.name("vhost");
        let path = format!("/api/vhosts/{vhost}");
        http.ok("PUT", &path, Some(&json!({})));
        let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
        http.ok(
            "PUT",
            &format!("/api/permissions/{vhost}/guest"),
            Some(&rights),
        );
        body(trial, http, &vhost);
        http.ok("DELETE", &path, None);
    });
}

fn put(http: Http, path: &str, body: &Json) -> u16 {
    http.send("PUT", path, Some(body)).status
}

fn get(http: Http, path: &str) -> Json {
    http.ok("GET", path, None)
}

fn delete(http: Http, path: &str) -> u16 {
    http.send("DELETE", path, None).status
}

fn policy() -> Json {
    json!({
        "pattern": ".*", "definition": {"max-length": 5}, "priority": 0, "apply-to": "queues",
    })
}

// rabbitmq: HTTP API, policies
#[test]
fn a_policy_that_is_not_understood_is_refused_and_not_stored() {
    with_vhost("a_policy_that_is_not_understood", |_, http, vhost| {
        let path = format!("/api/policies/{vhost}/p");
        for (key, value) in [
            ("definition", json!({"nope": 1})),
            ("definition", json!({"max-length": "5"})),
            ("definition", json!({"max-length": -1})),
            ("definition", json!({})),
            ("definition", json!({"message-ttl": -1})),
            ("definition", json!({"expires": 0})),
            ("definition", json!({"overflow": "reject_publish"})),
            ("pattern", json!("(")),
            ("apply-to", json!("zebras")),
            ("priority", json!("high")),
        ] {
            let mut bad = policy();
            bad[key] = value;
            let refused = http.send("PUT", &path, Some(&bad));
            assert_eq!(refused.status, 400, "{bad}");
            assert_eq!(refused.body["error"], "bad_request", "{bad}");
            assert!(!refused.body["reason"].is_null(), "{bad}");
        }
        for key in ["pattern", "definition"] {
            let mut bad = policy();
            bad.as_object_mut().expect("an object").remove(key);
            assert_eq!(put(http, &path, &bad), 400, "without {key}");
        }
        let broken = http.send_as(Some(("guest", "guest")), "PUT", &path, "{oops");
        assert_eq!(broken.status, 400);
        assert_eq!(get(http, &format!("/api/policies/{vhost}")), json!([]));
    });
}

// rabbitmq: HTTP API, policies
#[test]
fn a_policy_is_made_replaced_and_taken_away_once() {
    with_vhost("a_policy_is_made_replaced", |_, http, vhost| {
        let path = format!("/api/policies/{vhost}/p");
        assert_eq!(put(http, &path, &policy()), 201);
        assert_eq!(put(http, &path, &policy()), 204);
        let mut wanted = policy();
        wanted["vhost"] = json!(vhost);
        wanted["name"] = json!("p");
        let stored = get(http, &path);
        for (key, value) in wanted.as_object().expect("an object") {
            assert_eq!(stored[key], *value, "{key}");
        }
        assert_eq!(delete(http, &path), 204);
        assert_eq!(delete(http, &path), 404);
    });
}

// rabbitmq: HTTP API, queues
#[test]
fn a_queue_shows_what_never_changes_at_once_and_its_counts_soon() {
    with_vhost("a_queue_shows_its_counts", |trial, http, vhost| {
        let login = Login::in_vhost(vhost);
        for kind in ["classic", "quorum"] {
            let path = format!("/api/queues/{vhost}/{kind}");
            let channel = trial.connect_as(&login).channel(1);
            let spec = match kind {
                "quorum" => QueueSpec::quorum(kind),
                _ => QueueSpec::durable(kind),
            };
            channel.declare(&spec);
            let shown = get(http, &path);
            let never_changes = json!({
                "name": kind, "vhost": vhost, "durable": true, "auto_delete": false,
                "exclusive": false, "type": kind,
            });
            for (key, value) in never_changes.as_object().expect("an object") {
                assert_eq!(shown[key], *value, "{key} of {kind}");
            }
            assert!(shown["arguments"].is_object() && shown["node"].is_string());
            for _ in 0..5 {
                channel.publish(&Publication::to_queue(kind, "12345"));
            }
            channel.prefetch(2);
            channel.consume(&ConsumerSpec::of(kind));
            let counts = || {
                let shown = get(http, &path);
                [
                    "messages",
                    "messages_ready",
                    "messages_unacknowledged",
                    "consumers",
                ]
                .map(|key| shown[key].as_u64())
            };
            let wanted = [Some(5), Some(3), Some(2), Some(1)];
            expect_soon("the counts", &wanted, counts);
            let shown = get(http, &path);
            assert_eq!(shown["effective_policy_definition"], json!({}), "{kind}");
            assert_eq!(shown["consumer_details"].as_array().map(Vec::len), Some(1));
        }
        let listed = get(http, &format!("/api/queues/{vhost}"));
        for queue in listed.as_array().expect("a list") {
            assert!(queue["arguments"].is_object(), "{queue}");
        }
    });
}

// rabbitmq: HTTP API, errors
#[test]
fn what_is_missing_is_told_with_404_and_the_same_words_everywhere() {
    with_vhost("what_is_missing", |_, http, vhost| {
        for path in [
            format!("/api/queues/{vhost}/nope"),
            format!("/api/exchanges/{vhost}/nope"),
            format!("/api/queues/no-{vhost}/q"),
            format!("/api/vhosts/no-{vhost}"),
            format!("/api/users/no-{vhost}"),
            format!("/api/policies/{vhost}/nope"),
            format!("/api/bindings/{vhost}/e/nope/q/nope/k"),
            "/api/connections/nope".to_owned(),
            "/api/nothing-here".to_owned(),
        ] {
            let missing = http.send("GET", &path, None);
            assert_eq!(missing.status, 404, "{path}");
            let words = json!({"error": "Object Not Found", "reason": "Not Found"});
            assert_eq!(missing.body, words, "{path}");
            let kind = missing.header("content-type").unwrap_or_default();
            assert!(kind.starts_with("application/json"), "{path}: {kind}");
        }
    });
}

// rabbitmq: HTTP API, vhosts in paths
#[test]
fn the_default_vhost_is_a_slash_in_percent_and_never_nothing() {
    conformance(|trial| {
        let Some(http) = trial.http("the_default_vhost") else {
            return;
        };
        assert_eq!(http.send("GET", "/api/queues/%2F", None).status, 200);
        assert_eq!(http.send("GET", "/api/queues//nope", None).status, 404);
    });
}

// rabbitmq: HTTP API, authentication and tags
#[test]
fn who_is_nobody_or_has_no_tag_is_told_so_with_401() {
    with_vhost("who_is_nobody", |trial, http, vhost| {
        let asked =
            |login: Option<Credentials<'_>>, path: &str| http.send_as(login, "GET", path, "");
        let wrong = asked(Some(("nobody", "x")), "/api/overview");
        assert_eq!(wrong.status, 401);
        let none = asked(None, "/api/overview");
        assert_eq!(none.status, 401);
        let challenge = none.header("www-authenticate").unwrap_or_default();
        assert!(challenge.contains("basic"), "{challenge}");
        for (tags, overview, users) in [("", 401, 401), ("management", 200, 401)] {
            let user = trial.name("user");
            let path = format!("/api/users/{user}");
            http.ok("PUT", &path, Some(&json!({"password": "pw", "tags": tags})));
            let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
            let permissions = format!("/api/permissions/{vhost}/{user}");
            http.ok("PUT", &permissions, Some(&rights));
            let login = Some((user.as_str(), "pw"));
            assert_eq!(asked(login, "/api/overview").status, overview, "{tags}");
            assert_eq!(asked(login, "/api/users").status, users, "{tags}");
            let queues = asked(login, &format!("/api/queues/{vhost}"));
            assert_eq!(queues.status, overview, "{tags}");
            http.remove_user(&user);
        }
    });
}

// rabbitmq: HTTP API, methods
#[test]
fn a_method_that_a_path_does_not_have_is_405_and_a_broken_body_400() {
    with_vhost("a_method_that_a_path_does_not_have", |_, http, vhost| {
        let queue = format!("/api/queues/{vhost}/q");
        assert_eq!(http.send("POST", &queue, Some(&json!({}))).status, 405);
        assert_eq!(put(http, "/api/overview", &json!({})), 405);
        let guest = Some(("guest", "guest"));
        let broken = http.send_as(guest, "PUT", &queue, "{\"durable\": tru");
        assert_eq!(broken.status, 400);
    });
}

// rabbitmq: HTTP API, bindings
#[test]
fn a_binding_is_found_and_deleted_by_the_key_that_its_location_ends_in() {
    with_vhost("a_binding_is_found", |_, http, vhost| {
        let queue = format!("/api/queues/{vhost}/q");
        assert_eq!(put(http, &queue, &json!({"durable": true})), 201);
        for (exchange, kind, key, arguments) in [
            ("t", "topic", "a.b", json!({})),
            (
                "h",
                "headers",
                "",
                json!({"x-match": "all", "n": 5, "s": "5", "b": true}),
            ),
            ("f", "fanout", "", json!({})),
        ] {
            let path = format!("/api/exchanges/{vhost}/{exchange}");
            let declared = put(http, &path, &json!({"type": kind, "durable": true}));
            assert_eq!(declared, 201);
            let bindings = format!("/api/bindings/{vhost}/e/{exchange}/q/q");
            let body = json!({"routing_key": key, "arguments": arguments});
            let made = http.send("POST", &bindings, Some(&body));
            assert_eq!(made.status, 201);
            let listed = get(http, &bindings);
            let binding = &listed[0];
            assert_eq!(binding["arguments"], arguments, "types stay");
            assert_eq!(
                (
                    &binding["source"],
                    &binding["destination"],
                    &binding["routing_key"]
                ),
                (&json!(exchange), &json!("q"), &json!(key))
            );
            let known_by = binding["properties_key"].as_str().expect("a key");
            let location = made.header("location").unwrap_or_default();
            let end = location.rsplit('/').next().unwrap_or_default();
            assert_eq!(end, known_by.to_ascii_lowercase(), "{location}");
            if key.is_empty() && arguments == json!({}) {
                assert_eq!(known_by, "~");
            }
            let one = format!("{bindings}/{known_by}");
            assert_eq!(http.send("GET", &one, None).status, 200);
            assert_eq!(delete(http, &one), 204);
            assert_eq!(get(http, &bindings), json!([]));
        }
        let nowhere = format!("/api/bindings/{vhost}/e/t/q/none");
        let refused = http.send("POST", &nowhere, Some(&json!({"routing_key": "k"})));
        assert_eq!(refused.status, 404);
    });
}

// rabbitmq: HTTP API, bindings
#[test]
fn every_queue_lists_its_binding_to_the_default_exchange() {
    with_vhost("every_queue_lists_its_binding", |_, http, vhost| {
        let queue = format!("/api/queues/{vhost}/q");
        assert_eq!(put(http, &queue, &json!({"durable": true})), 201);
        let bindings = get(http, &format!("{queue}/bindings"));
        assert_eq!(bindings.as_array().map(Vec::len), Some(1));
        assert_eq!(
            (&bindings[0]["source"], &bindings[0]["routing_key"]),
            (&json!(""), &json!("q"))
        );
    });
}

// rabbitmq: HTTP API, overview and nodes
#[test]
fn overview_and_nodes_have_what_tools_decode_with_the_types_that_they_want() {
    conformance(|trial| {
        let Some(http) = trial.http("overview_and_nodes") else {
            return;
        };
        let overview = get(http, "/api/overview");
        for key in [
            "management_version",
            "rabbitmq_version",
            "erlang_version",
            "cluster_name",
            "node",
            "rates_mode",
        ] {
            assert!(overview[key].is_string(), "{key}: {}", overview[key]);
        }
        for key in ["message_stats", "queue_totals", "churn_rates"] {
            assert!(overview[key].is_object(), "{key}: {}", overview[key]);
        }
        for key in ["listeners", "contexts", "exchange_types"] {
            assert!(overview[key].is_array(), "{key}: {}", overview[key]);
        }
        for key in [
            "queues",
            "exchanges",
            "channels",
            "consumers",
            "connections",
        ] {
            assert!(overview["object_totals"][key].is_u64(), "{key}");
        }
        let nodes = get(http, "/api/nodes");
        let node = &nodes[0];
        for key in ["running", "mem_alarm", "disk_free_alarm"] {
            assert!(node[key].is_boolean(), "{key}: {}", node[key]);
        }
        for key in [
            "mem_used",
            "mem_limit",
            "disk_free",
            "disk_free_limit",
            "fd_total",
            "fd_used",
            "sockets_used",
            "proc_total",
            "proc_used",
            "uptime",
        ] {
            assert!(node[key].is_u64(), "{key}: {}", node[key]);
        }
        assert!(node["partitions"].is_array());
        let name = node["name"].as_str().expect("a name");
        let one = http.send("GET", &format!("/api/nodes/{name}"), None);
        assert_eq!(one.status, 200);
        assert_eq!(
            get(http, "/api/cluster-name")["name"],
            overview["cluster_name"]
        );
        assert_eq!(get(http, "/api/whoami")["name"], "guest");
    });
}

// rabbitmq: HTTP API, users
#[test]
fn a_user_may_be_made_again_from_its_hash_and_tags_come_in_both_forms() {
    conformance(|trial| {
        let Some(http) = trial.http("a_user_may_be_made_again") else {
            return;
        };
        let user = trial.name("user");
        let path = format!("/api/users/{user}");
        let body = json!({"password": "one", "tags": "management,policymaker"});
        assert_eq!(put(http, &path, &body), 201);
        let shown = get(http, &path);
        let mut tags: Vec<&str> = shown["tags"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        tags.sort_unstable();
        assert_eq!(tags, ["management", "policymaker"]);
        let hash = &shown["password_hash"];
        assert!(hash.is_string() && shown["hashing_algorithm"].is_string());
        let body = json!({"password_hash": hash, "tags": ["monitoring"]});
        assert_eq!(put(http, &path, &body), 204);
        assert_eq!(get(http, &path)["tags"], json!(["monitoring"]));
        let login = Some((user.as_str(), "one"));
        assert_eq!(http.send_as(login, "GET", "/api/whoami", "").status, 200);
        assert_eq!(
            put(http, &path, &json!({"password": "two"})),
            400,
            "no tags"
        );
        assert_eq!(delete(http, &path), 204);
        let gone = http.send("GET", &format!("{path}/permissions"), None);
        assert_eq!(gone.status, 404);
    });
}

// rabbitmq: HTTP API, permissions
#[test]
fn permissions_are_whole_and_regular_expressions() {
    with_vhost("permissions_are_whole", |trial, http, vhost| {
        let user = trial.name("user");
        let made = json!({"password": "pw", "tags": ""});
        http.ok("PUT", &format!("/api/users/{user}"), Some(&made));
        let path = format!("/api/permissions/{vhost}/{user}");
        let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
        assert_eq!(put(http, &path, &all), 201);
        assert_eq!(put(http, &path, &all), 204);
        let bad = json!({"configure": "(", "write": ".*", "read": ".*"});
        assert_eq!(put(http, &path, &bad), 400);
        assert_eq!(put(http, &path, &json!({"configure": ".*"})), 400);
        let listed = get(http, &format!("/api/users/{user}/permissions"));
        let wanted = json!([{
            "user": user, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*",
        }]);
        assert_eq!(listed, wanted);
        http.remove_user(&user);
    });
}

// rabbitmq: HTTP API, vhosts and their limits
#[test]
fn a_vhost_keeps_its_words_and_a_limit_of_it_is_felt() {
    with_vhost("a_vhost_keeps_its_words", |trial, http, vhost| {
        let path = format!("/api/vhosts/{vhost}");
        let body = json!({"description": "d", "tags": "a,b"});
        assert_eq!(put(http, &path, &body), 204);
        let shown = get(http, &path);
        assert_eq!(
            (&shown["description"], &shown["tags"]),
            (&json!("d"), &json!(["a", "b"]))
        );
        let limit = format!("/api/vhost-limits/{vhost}/max-queues");
        assert_eq!(put(http, &limit, &json!({"value": 1})), 204);
        let channel = trial.connect_as(&Login::in_vhost(vhost)).channel(1);
        channel.declare(&QueueSpec::durable("one"));
        let close = channel.refused(&queue_declare(&QueueSpec::durable("two")));
        assert_eq!(close.code, 406);
        assert!(close.text.contains("limit"), "{}", close.text);
        let limits = get(http, &format!("/api/vhost-limits/{vhost}"));
        let wanted = json!([{"vhost": vhost, "value": {"max-queues": 1}}]);
        assert_eq!(limits, wanted);
        assert_eq!(delete(http, &limit), 204);
    });
}

// rabbitmq: definitions of one vhost
#[test]
fn what_a_vhost_exports_makes_the_same_things_in_another_and_once_only() {
    with_vhost("what_a_vhost_exports", |_, http, from| {
        let queue =
            json!({"durable": true, "arguments": {"x-max-length": 5, "x-message-ttl": 60_000}});
        http.ok("PUT", &format!("/api/queues/{from}/q"), Some(&queue));
        let quorum = json!({
            "durable": true, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 3},
        });
        http.ok("PUT", &format!("/api/queues/{from}/qq"), Some(&quorum));
        let exchange = json!({
            "type": "topic", "durable": true, "arguments": {"alternate-exchange": "ae"},
        });
        http.ok("PUT", &format!("/api/exchanges/{from}/e"), Some(&exchange));
        let binding = json!({"routing_key": "a.#", "arguments": {"k": 1}});
        http.ok(
            "POST",
            &format!("/api/bindings/{from}/e/e/q/q"),
            Some(&binding),
        );
        http.ok("PUT", &format!("/api/policies/{from}/p"), Some(&policy()));
        let exported = get(http, &format!("/api/definitions/{from}"));
        let to = format!("{from}-b");
        http.ok("PUT", &format!("/api/vhosts/{to}"), Some(&json!({})));
        for _ in 0..2 {
            let path = format!("/api/definitions/{to}");
            http.ok("POST", &path, Some(&exported));
        }
        let again = get(http, &format!("/api/definitions/{to}"));
        for (section, count) in [
            ("queues", 2),
            ("exchanges", 1),
            ("bindings", 1),
            ("policies", 1),
        ] {
            let sorted = |definitions: &Json| {
                let items = definitions[section].as_array().into_iter().flatten();
                let mut items: Vec<String> = items.map(Json::to_string).collect();
                items.sort_unstable();
                items
            };
            assert_eq!(sorted(&exported).len(), count, "{section}");
            assert_eq!(sorted(&again), sorted(&exported), "{section}");
            assert!(
                !exported[section].to_string().contains("\"vhost\""),
                "{section}"
            );
        }
        http.ok("DELETE", &format!("/api/vhosts/{to}"), None);
    });
}
