//! Definitions out and in again, in RabbitMQ's shapes.

use serde_json::{Value as Json, json};

use super::*;
use crate::metadata::{ConnectionId, Defaults, Metadata, MetadataChange, NodeId};

fn exporter() -> Exporter {
    Exporter {
        rabbitmq_version: "4.3.6".into(),
        product_name: "P".into(),
        product_version: "0".into(),
        cluster_name: "c".into(),
    }
}

fn import(metadata: &mut Metadata, json: Json) -> Result<(), String> {
    let definitions: Definitions = serde_json::from_value(json).map_err(|e| e.to_string())?;
    let changes = definitions
        .changes(metadata, NodeId(0), 8)
        .map_err(|r| r.to_string())?;
    apply_all(metadata, changes)
}

fn apply_all(metadata: &mut Metadata, changes: Vec<MetadataChange>) -> Result<(), String> {
    for change in changes {
        metadata
            .apply(&change)
            .map_err(|refusal| format!("{refusal} in {change:?}"))?;
    }
    Ok(())
}

fn export(metadata: &Metadata) -> Json {
    serde_json::to_value(Definitions::of_cluster(metadata, &exporter())).unwrap()
}

fn whole() -> Json {
    json!({
        "rabbit_version": "4.3.6",
        "users": [
            {"name": "guest", "password_hash": "aGFzaA==", "hashing_algorithm": "rabbit_password_hashing_sha512",
             "tags": ["administrator"], "limits": {"max-channels": 5}},
            {"name": "old", "password_hash": "", "tags": "monitoring, policymaker"}
        ],
        "vhosts": [
            {"name": "/", "limits": [], "metadata": {"description": "main", "tags": ["t"], "default_queue_type": "quorum"}},
            {"name": "old", "description": "as it was", "tags": "x,y", "default_queue_type": "undefined"}
        ],
        "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ""}],
        "topic_permissions": [{"user": "guest", "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": ".*"}],
        "parameters": [
            {"value": {"max-connections": -1, "max-queues": 50}, "vhost": "/", "component": "vhost-limits", "name": "limits"},
            {"value": {"pattern": "^q", "definition": {"max-length": 9}, "priority": 1, "apply-to": "queues"},
             "vhost": "/", "component": "operator_policy", "name": "ops"},
            {"value": {"uri": "amqp://"}, "vhost": "/", "component": "federation-upstream", "name": "up"}
        ],
        "global_parameters": [{"name": "cluster_name", "value": "c"}, {"name": "n", "value": {"deep": [1, 2.5, null]}}],
        "policies": [{"vhost": "/", "name": "p", "pattern": "^q", "apply-to": "all",
                      "definition": {"max-length": 10, "overflow": "reject-publish"}, "priority": 3}],
        "exchanges": [{"name": "e", "vhost": "/", "type": "topic", "durable": true, "auto_delete": false,
                       "internal": false, "arguments": {"alternate-exchange": "ae"}},
                      {"name": "dlx", "vhost": "/", "type": "headers", "durable": true, "auto_delete": false,
                       "internal": true, "arguments": {}}],
        "queues": [{"name": "q", "vhost": "/", "durable": true, "type": "classic", "auto_delete": false,
                    "arguments": {"x-max-length": 5, "x-dead-letter-exchange": "dlx"}},
                   {"name": "qq", "vhost": "/", "durable": true, "auto_delete": false,
                    "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 3}}],
        "bindings": [{"source": "e", "vhost": "/", "destination": "q", "destination_type": "queue",
                      "routing_key": "a.#", "arguments": {"k": 1}},
                     {"source": "e", "vhost": "/", "destination": "dlx", "destination_type": "exchange",
                      "routing_key": "x", "arguments": {"x-match": "any", "n": 7, "s": "7", "b": true}}]
    })
}

#[test]
fn what_is_imported_comes_out_again() {
    let mut metadata = Metadata::new(Defaults::default());
    import(&mut metadata, whole()).unwrap();
    let out = export(&metadata);
    assert_eq!(out["users"][0], whole()["users"][0]);
    assert_eq!(
        out["users"][1],
        json!({"name": "old", "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256",
               "tags": ["monitoring", "policymaker"], "limits": {}})
    );
    assert_eq!(
        out["vhosts"],
        json!([
            {"name": "/", "limits": {"max-connections": -1, "max-queues": 50},
             "metadata": {"description": "main", "tags": ["t"], "default_queue_type": "quorum"}},
            {"name": "old", "limits": {}, "metadata": {"description": "as it was", "tags": ["x", "y"]}}
        ])
    );
    for section in [
        "permissions",
        "topic_permissions",
        "global_parameters",
        "policies",
        "bindings",
    ] {
        assert_eq!(out[section], whole()[section], "{section}");
    }
    let exchanges = whole()["exchanges"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .cloned()
        .collect();
    assert_eq!(out["exchanges"], Json::Array(exchanges));
    let parameters = out["parameters"].as_array().unwrap();
    assert_eq!(parameters.len(), 3);
    for parameter in whole()["parameters"].as_array().unwrap() {
        assert!(parameters.contains(parameter), "{parameter}");
    }
    assert_eq!(
        out["queues"],
        json!([
            {"name": "q", "vhost": "/", "durable": true, "type": "classic", "auto_delete": false,
             "arguments": {"x-max-length": 5, "x-dead-letter-exchange": "dlx", "x-queue-type": "classic"}},
            {"name": "qq", "vhost": "/", "durable": true, "type": "quorum", "auto_delete": false,
             "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 3}}
        ])
    );
}

#[test]
fn a_second_import_changes_nothing() {
    let mut metadata = Metadata::new(Defaults::default());
    import(&mut metadata, whole()).unwrap();
    let first = export(&metadata);
    import(&mut metadata, first.clone()).unwrap();
    assert_eq!(export(&metadata), first);
    let mut fresh = Metadata::new(Defaults::default());
    import(&mut fresh, first.clone()).unwrap();
    assert_eq!(export(&fresh), first);
}

#[test]
fn sections_come_in_rabbitmqs_order() {
    let metadata = Metadata::new(Defaults::default());
    let text = serde_json::to_string(&Definitions::of_cluster(&metadata, &exporter())).unwrap();
    let order = [
        "rabbit_version",
        "rabbitmq_version",
        "product_name",
        "product_version",
        "rabbitmq_definition_format",
        "original_cluster_name",
        "explanation",
        "permissions",
        "exchanges",
        "vhosts",
        "users",
        "global_parameters",
        "parameters",
        "policies",
        "topic_permissions",
        "queues",
        "bindings",
    ];
    let places: Vec<usize> = order
        .iter()
        .map(|key| text.find(&format!("\"{key}\":")).expect(key))
        .collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn one_vhost_names_no_vhost_and_no_user_and_goes_into_another() {
    let mut metadata = Metadata::new(Defaults::default());
    import(&mut metadata, whole()).unwrap();
    let main = VhostName::new("/");
    let definitions = Definitions::of_vhost(&metadata, &main, &exporter()).unwrap();
    let json = serde_json::to_value(&definitions).unwrap();
    for section in [
        "users",
        "vhosts",
        "permissions",
        "topic_permissions",
        "global_parameters",
    ] {
        assert!(json.get(section).is_none(), "{section}");
    }
    for section in ["queues", "exchanges", "bindings", "policies", "parameters"] {
        let elements = json[section].as_array().unwrap();
        assert!(
            !elements.is_empty()
                && elements
                    .iter()
                    .all(|element| element.get("vhost").is_none())
        );
    }
    assert_eq!(json["rabbitmq_definition_format"], "single_virtual_host");
    assert_eq!(json["original_vhost_name"], "/");
    assert_eq!(json["metadata"]["default_queue_type"], "quorum");

    let other = VhostName::new("old");
    let read: Definitions = serde_json::from_value(json.clone()).unwrap();
    for _ in 0..2 {
        let changes = read.changes_in(&metadata, &other, NodeId(0), 8).unwrap();
        apply_all(&mut metadata, changes).unwrap();
    }
    let back = Definitions::of_vhost(&metadata, &other, &exporter()).unwrap();
    let back = serde_json::to_value(&back).unwrap();
    for section in ["queues", "exchanges", "bindings", "policies", "parameters"] {
        assert_eq!(back[section], json[section], "{section}");
    }
}

#[test]
fn what_belongs_to_a_connection_is_left_out() {
    let mut metadata = Metadata::new(Defaults::default());
    import(&mut metadata, json!({"vhosts": [{"name": "/"}]})).unwrap();
    let declare = MetadataChange::DeclareQueue(crate::metadata::QueueDeclaration {
        vhost: "/".into(),
        queue: "mine".into(),
        server_named: false,
        durable: false,
        exclusive: true,
        auto_delete: false,
        arguments: amqp::Table::new(),
        connection: Some(ConnectionId(1)),
        user: None,
        node: NodeId(0),
        groups: 1,
    });
    let bind = MetadataChange::Bind {
        vhost: "/".into(),
        source: "amq.topic".into(),
        destination: crate::metadata::Destination::Queue("mine".into()),
        key: "k".into(),
        arguments: amqp::Table::new(),
        connection: Some(ConnectionId(1)),
    };
    apply_all(&mut metadata, vec![declare, bind]).unwrap();
    let out = export(&metadata);
    assert_eq!(
        (&out["queues"], &out["bindings"], &out["exchanges"]),
        (&json!([]), &json!([]), &json!([]))
    );
}

#[test]
fn existing_queues_and_exchanges_are_left_as_they_are() {
    let mut metadata = Metadata::new(Defaults::default());
    import(&mut metadata, whole()).unwrap();
    let other = json!({
        "queues": [{"name": "q", "vhost": "/", "durable": false, "auto_delete": true, "arguments": {"x-max-length": 7}}],
        "exchanges": [{"name": "e", "vhost": "/", "type": "fanout", "durable": false}]
    });
    let before = export(&metadata);
    import(&mut metadata, other).unwrap();
    assert_eq!(export(&metadata), before);
}

#[test]
fn elements_of_a_missing_vhost_stop_the_import() {
    let mut metadata = Metadata::new(Defaults::default());
    let text = "Please create virtual host \"nope\" prior to importing definitions.";
    for element in [
        json!({"queues": [{"name": "q", "vhost": "nope", "durable": true}]}),
        json!({"policies": [{"vhost": "nope", "name": "p", "pattern": ".*", "definition": {"max-length": 1}}]}),
        json!({"permissions": [{"user": "u", "vhost": "nope", "configure": "", "write": "", "read": ""}]}),
        json!({"bindings": [{"source": "e", "vhost": "nope", "destination": "q", "destination_type": "queue"}]}),
    ] {
        assert_eq!(import(&mut metadata, element), Err(text.into()));
    }
    let into = Definitions::default().changes_in(&metadata, &"nope".into(), NodeId(0), 1);
    assert_eq!(
        into.map_err(|refusal| refusal.to_string()),
        Err(text.into())
    );
}

#[test]
fn a_default_queue_type_that_is_none_is_refused() {
    let mut metadata = Metadata::new(Defaults::default());
    let vhost = json!({"vhosts": [{"name": "v", "metadata": {"default_queue_type": "bogus"}}]});
    assert_eq!(
        import(&mut metadata, vhost),
        Err("bogus is not a valid queue type".into())
    );
}

#[test]
fn tags_come_as_a_list_or_with_commas() {
    let tags = |term| parse_tags(&term).join("|");
    assert_eq!(tags(Term::text("a, b,,c")), "a|b|c");
    assert_eq!(tags(Term::List(vec!["a".into(), "b".into()])), "a|b");
    assert_eq!(tags(Term::text("")), "");
    assert_eq!(tags(Term::Null), "");
}
