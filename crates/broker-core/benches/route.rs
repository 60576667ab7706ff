//! What routing one message costs: direct, topic with 10,000 bindings, fanout to 10 queues, and
//! what binding and unbinding cost in a table of 10,000.

use amqp::Table;
use broker_core::metadata::{
    Defaults, Destination, Metadata, MetadataChange, NodeId, QueueDeclaration, QueueDeletion,
    VhostRecord,
};
use broker_core::router::{NoMessage, RouteRequest, Routed};
use broker_core::{ExchangeName, QueueName, VhostName};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

const BINDINGS: usize = 10_000;
const QUEUES: usize = 100_000;

fn vhost() -> VhostName {
    VhostName::new("/")
}

fn apply(metadata: &mut Metadata, change: MetadataChange) {
    metadata
        .apply(&change)
        .expect("the bench declares what the rules allow");
}

fn declare_queue(metadata: &mut Metadata, name: &str) {
    let declaration = QueueDeclaration {
        vhost: vhost(),
        queue: QueueName::new(name),
        server_named: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Table::new(),
        connection: None,
        user: None,
        node: NodeId(0),
        groups: 8,
    };
    apply(metadata, MetadataChange::DeclareQueue(declaration));
}

fn declare_exchange(metadata: &mut Metadata, name: &str, kind: &str) {
    let change = MetadataChange::DeclareExchange {
        vhost: vhost(),
        exchange: ExchangeName::new(name),
        exchange_type: kind.into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Table::new(),
    };
    apply(metadata, change);
}

fn binding(source: &str, queue: &str, key: &str) -> MetadataChange {
    MetadataChange::Bind {
        vhost: vhost(),
        source: ExchangeName::new(source),
        destination: Destination::Queue(QueueName::new(queue)),
        key: key.into(),
        arguments: Table::new(),
        connection: None,
    }
}

fn deletion(queue: &str) -> MetadataChange {
    MetadataChange::DeleteQueue(QueueDeletion {
        vhost: vhost(),
        queue: QueueName::new(queue),
        connection: None,
        if_unused: false,
        if_empty: false,
        consumers: 0,
        ready: 0,
    })
}

/// A third of the keys literal, a third with `*`, a third ending in `#`.
fn topic_key(number: usize) -> String {
    let (region, device) = (number % 100, number / 100);
    match number % 3 {
        0 => format!("site.{region}.device.{device}.state"),
        1 => format!("site.{region}.*.{device}.state"),
        _ => format!("site.{region}.device.{device}.#"),
    }
}

fn topology() -> Metadata {
    let mut metadata = Metadata::new(Defaults::default());
    apply(
        &mut metadata,
        MetadataChange::PutVhost {
            vhost: vhost(),
            record: VhostRecord::default(),
        },
    );
    for (name, kind) in [("d", "direct"), ("t", "topic"), ("f", "fanout")] {
        declare_exchange(&mut metadata, name, kind);
    }
    for number in 0..BINDINGS {
        let queue = format!("q{number}");
        declare_queue(&mut metadata, &queue);
        apply(
            &mut metadata,
            binding("d", &queue, &format!("key.{number}")),
        );
        apply(&mut metadata, binding("t", &queue, &topic_key(number)));
        if number < 10 {
            apply(&mut metadata, binding("f", &queue, ""));
        }
    }
    metadata
}

fn route(c: &mut Criterion) {
    let mut metadata = topology();
    let mut routed = Routed::default();
    let cases = [
        ("default", "", "q5000", 1),
        ("direct_of_10000", "d", "key.5000", 1),
        ("topic_of_10000", "t", "site.42.device.42.state", 1),
        ("topic_of_10000_nothing", "t", "site.42.other.x.y.z", 0),
        ("fanout_to_10", "f", "", 10),
    ];
    for (name, exchange, key, expected) in cases {
        let request = RouteRequest::publish(exchange, key.as_bytes(), &NoMessage);
        let found = metadata.vhost(&vhost()).expect("declared above");
        found.route(&request, &mut routed).expect("declared above");
        assert!(
            routed.queues.len() >= expected,
            "{name}: {:?}",
            routed.queues
        );
        c.bench_function(&format!("route/{name}"), |bencher| {
            bencher.iter(|| found.route(black_box(&request), &mut routed));
        });
    }
    c.bench_function("bind_and_unbind/topic_of_10000", |bencher| {
        let bind = binding("t", "q1", "some.other.#.key");
        let MetadataChange::Bind {
            vhost,
            source,
            destination,
            key,
            arguments,
            connection,
        } = bind.clone()
        else {
            unreachable!("made above");
        };
        let unbind = MetadataChange::Unbind {
            vhost,
            source,
            destination,
            key,
            arguments,
            connection,
        };
        bencher.iter(|| {
            apply(&mut metadata, bind.clone());
            apply(&mut metadata, unbind.clone());
        });
    });
}

/// One more queue in a topology of 100,000: declared, bound and deleted.
fn declare(c: &mut Criterion) {
    let mut metadata = Metadata::new(Defaults::default());
    let put = MetadataChange::PutVhost {
        vhost: vhost(),
        record: VhostRecord::default(),
    };
    apply(&mut metadata, put);
    declare_exchange(&mut metadata, "f", "fanout");
    for number in 0..QUEUES {
        let queue = format!("q{number}");
        declare_queue(&mut metadata, &queue);
        apply(&mut metadata, binding("f", &queue, ""));
    }
    let bind = binding("f", "one-more", "");
    c.bench_function("declare_bind_delete/one_of_100000", |bencher| {
        bencher.iter(|| {
            declare_queue(&mut metadata, "one-more");
            apply(&mut metadata, bind.clone());
            apply(&mut metadata, deletion("one-more"));
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = route, declare
}
criterion_main!(benches);
