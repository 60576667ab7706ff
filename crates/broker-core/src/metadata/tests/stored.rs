//! What is stored can be read again, also by later versions.

use amqp::{Table, Value};

use crate::metadata::*;
use crate::names::VhostName;

fn round_trip(change: &MetadataChange) {
    let json = serde_json::to_string(change).unwrap();
    let read: MetadataChange = serde_json::from_str(&json).unwrap();
    assert_eq!(&read, change, "{json}");
}

#[test]
fn changes_keep_every_type_of_argument() {
    let mut arguments = Table::new();
    arguments.insert("i", Value::I32(5));
    arguments.insert("l", Value::I64(i64::MIN));
    arguments.insert("d", Value::F64(f64::NAN));
    arguments.insert("x", Value::ByteArray(amqp::ByteString::new(*b"\xff\x00")));
    arguments.insert(
        "a",
        Value::Array(vec![Value::Void, Value::Bool(true), Value::U8(3)]),
    );
    round_trip(&MetadataChange::Bind {
        vhost: VhostName::new("/"),
        source: "x".into(),
        destination: Destination::Exchange("y".into()),
        key: "k".into(),
        arguments,
        connection: Some(ConnectionId(7)),
    });
}

#[test]
fn fields_that_came_later_may_be_missing() {
    let json = r#"{"change":"declare_queue","vhost":"/","queue":"q","durable":true,
                   "exclusive":false,"auto_delete":false,"arguments":[]}"#;
    let MetadataChange::DeclareQueue(read) = serde_json::from_str(json).unwrap() else {
        panic!("another change");
    };
    assert_eq!(
        (read.groups, read.connection, read.server_named),
        (1, None, false)
    );
    let metadata: Metadata = serde_json::from_str("{}").unwrap();
    assert_eq!(metadata.queue_count(), 0);
}

#[test]
fn ids_are_never_given_twice_even_after_a_restore() {
    let mut metadata = Metadata::new(Defaults::default());
    let vhost = VhostName::new("/");
    let put = MetadataChange::PutVhost {
        vhost: vhost.clone(),
        record: VhostRecord::default(),
    };
    metadata.apply(&put).unwrap();
    let declare = MetadataChange::DeclareQueue(QueueDeclaration {
        vhost: vhost.clone(),
        queue: "q".into(),
        server_named: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: [("x-queue-type", "quorum")].into_iter().collect(),
        connection: None,
        user: None,
        node: NodeId(0),
        groups: 3,
    });
    let delete = MetadataChange::DeleteQueue(QueueDeletion {
        vhost,
        queue: "q".into(),
        connection: None,
        if_unused: false,
        if_empty: false,
        consumers: 0,
        ready: 0,
    });
    let mut ids = Vec::new();
    for _ in 0..5 {
        let declared = metadata
            .apply(&declare)
            .unwrap()
            .declared_queue()
            .cloned()
            .unwrap();
        assert_eq!(u64::from(declared.group), declared.id.0 % 3);
        ids.push(declared.id);
        metadata.apply(&delete).unwrap();
        metadata = Metadata::restore(metadata.snapshot()).unwrap();
    }
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
}
