//! Random changes: two replicas agree, one of them restored on the way, and every route agrees
//! with its explanation.

use std::collections::BTreeSet;

use amqp::Table;
use proptest::prelude::*;

use crate::metadata::*;
use crate::names::{ExchangeName, QueueName, VhostName};
use crate::policy::{ApplyTo, PolicyForm, PolicyScope};
use crate::router::{NoMessage, RouteRequest, Routed, Via};
use crate::term::Term;

const EXCHANGES: [&str; 4] = ["a", "b", "c", "amq.topic"];
const QUEUES: [&str; 4] = ["p", "q", "r", "s"];
const KEYS: [&str; 5] = ["", "x", "x.y", "#", "*.y"];
const KINDS: [&str; 3] = ["direct", "fanout", "topic"];

fn vhost() -> VhostName {
    VhostName::new("/")
}

fn declare_queue() -> impl Strategy<Value = MetadataChange> {
    (
        prop::sample::select(&QUEUES[..]),
        any::<[bool; 3]>(),
        0u64..3,
    )
        .prop_map(|(queue, [durable, exclusive, auto_delete], connection)| {
            MetadataChange::DeclareQueue(QueueDeclaration {
                vhost: vhost(),
                queue: QueueName::new(queue),
                server_named: false,
                durable,
                exclusive,
                auto_delete,
                arguments: Table::new(),
                connection: Some(ConnectionId(connection)),
                user: None,
                node: NodeId(0),
                groups: 4,
            })
        })
}

fn delete_queue() -> impl Strategy<Value = MetadataChange> {
    prop::sample::select(&QUEUES[..]).prop_map(|queue| {
        MetadataChange::DeleteQueue(QueueDeletion {
            vhost: vhost(),
            queue: QueueName::new(queue),
            connection: None,
            if_unused: false,
            if_empty: false,
            consumers: 0,
            ready: 0,
        })
    })
}

fn declare_exchange() -> impl Strategy<Value = MetadataChange> {
    (
        prop::sample::select(&EXCHANGES[..]),
        prop::sample::select(&KINDS[..]),
        any::<[bool; 2]>(),
        prop::option::of(prop::sample::select(&EXCHANGES[..])),
    )
        .prop_map(|(exchange, kind, [durable, auto_delete], alternate)| {
            MetadataChange::DeclareExchange {
                vhost: vhost(),
                exchange: ExchangeName::new(exchange),
                exchange_type: kind.into(),
                durable,
                auto_delete,
                internal: false,
                arguments: alternate
                    .map(|name| ("alternate-exchange", name))
                    .into_iter()
                    .collect(),
            }
        })
}

fn delete_exchange() -> impl Strategy<Value = MetadataChange> {
    (prop::sample::select(&EXCHANGES[..]), any::<bool>()).prop_map(|(exchange, if_unused)| {
        MetadataChange::DeleteExchange {
            vhost: vhost(),
            exchange: ExchangeName::new(exchange),
            if_unused,
        }
    })
}

fn binding() -> impl Strategy<Value = MetadataChange> {
    let destination = prop_oneof![
        2 => prop::sample::select(&QUEUES[..]).prop_map(|name| Destination::Queue(name.into())),
        1 => prop::sample::select(&EXCHANGES[..]).prop_map(|name| Destination::Exchange(name.into())),
    ];
    (
        prop::sample::select(&EXCHANGES[..]),
        destination,
        prop::sample::select(&KEYS[..]),
        0u64..3,
        prop::bool::weighted(0.7),
    )
        .prop_map(|(source, destination, key, connection, binds)| {
            let (source, key) = (ExchangeName::new(source), key.into());
            let (arguments, connection) = (Table::new(), Some(ConnectionId(connection)));
            let vhost = vhost();
            if binds {
                return MetadataChange::Bind {
                    vhost,
                    source,
                    destination,
                    key,
                    arguments,
                    connection,
                };
            }
            MetadataChange::Unbind {
                vhost,
                source,
                destination,
                key,
                arguments,
                connection,
            }
        })
}

fn policy() -> impl Strategy<Value = MetadataChange> {
    (
        prop::sample::select(&["[pq]", "[ab]", ".*"][..]),
        0i64..3,
        prop::sample::select(&EXCHANGES[..]),
        any::<bool>(),
    )
        .prop_map(|(pattern, number, alternate, deletes)| {
            let (vhost, scope) = (vhost(), PolicyScope::User);
            let name = format!("p{number}");
            if deletes {
                return MetadataChange::DeletePolicy {
                    vhost,
                    scope,
                    name: name.into(),
                };
            }
            let definition = Term::Map(vec![
                ("max-length".into(), Term::Integer(number)),
                ("alternate-exchange".into(), Term::text(alternate)),
            ]);
            let policy = PolicyForm::new(&name, pattern, ApplyTo::All, number, definition);
            MetadataChange::SetPolicy {
                vhost,
                scope,
                policy,
            }
        })
}

fn change() -> impl Strategy<Value = MetadataChange> {
    prop_oneof![
        4 => declare_queue(),
        2 => delete_queue(),
        4 => declare_exchange(),
        1 => delete_exchange(),
        8 => binding(),
        2 => policy(),
        1 => (0u64..3).prop_map(|id| MetadataChange::EndConnection { connection: ConnectionId(id) }),
        1 => Just(MetadataChange::DropTransient { node: None }),
    ]
}

fn start() -> Metadata {
    let mut metadata = Metadata::new(Defaults::default());
    metadata
        .apply(&MetadataChange::PutVhost {
            vhost: vhost(),
            record: VhostRecord::default(),
        })
        .unwrap();
    metadata
}

fn routed(metadata: &Metadata, request: &RouteRequest<'_>) -> Option<BTreeSet<QueueId>> {
    let mut routed = Routed::default();
    metadata
        .vhost(&vhost())
        .unwrap()
        .route(request, &mut routed)
        .ok()?;
    let queues: BTreeSet<QueueId> = routed.queues.iter().copied().collect();
    assert_eq!(queues.len(), routed.queues.len(), "one copy for each queue");
    Some(queues)
}

fn explained(metadata: &Metadata, request: &RouteRequest<'_>) -> Option<BTreeSet<QueueId>> {
    let found = metadata.vhost(&vhost()).unwrap();
    let steps = found.explain(request).ok()?;
    let queue_of = |via: &Via| match via {
        Via::Binding(binding) => match &binding.destination {
            Destination::Queue(queue) => found.queue(queue.as_str()).map(|record| record.id),
            Destination::Exchange(_) => None,
        },
        Via::QueueName(queue) => Some(*queue),
        _ => None,
    };
    Some(
        steps
            .iter()
            .filter_map(|step| queue_of(&step.via))
            .collect(),
    )
}

fn check_counts(metadata: &Metadata) {
    let found = metadata.vhost(&vhost()).unwrap();
    assert_eq!(found.bindings().count(), metadata.binding_count());
    assert_eq!(found.exchange_count(), metadata.exchange_count());
    assert_eq!(found.queue_count(), metadata.queue_count());
    let incoming: usize = QUEUES
        .iter()
        .map(|queue| Destination::Queue((*queue).into()))
        .chain(
            EXCHANGES
                .iter()
                .map(|exchange| Destination::Exchange((*exchange).into())),
        )
        .map(|destination| found.bindings_to(&destination).len())
        .sum();
    assert_eq!(
        incoming,
        metadata.binding_count(),
        "each binding is known at both ends"
    );
}

proptest! {
    #[test]
    fn replicas_agree_and_routes_can_be_explained(
        changes in prop::collection::vec(change(), 1..80),
        restored_at in 0usize..80,
    ) {
        let (mut one, mut other) = (start(), start());
        for (number, change) in changes.iter().enumerate() {
            if number == restored_at {
                other = Metadata::restore(other.snapshot()).unwrap();
            }
            let verdict = one.check(change);
            let outcome = one.apply(change);
            prop_assert_eq!(outcome.clone().map(|_| ()), verdict);
            prop_assert_eq!(other.apply(change), outcome);
            check_counts(&one);
        }
        prop_assert_eq!(one.snapshot(), other.snapshot());
        for exchange in ["", "a", "b", "c", "amq.topic"] {
            for key in ["", "x", "x.y", "p", "other"] {
                let request = RouteRequest::publish(exchange, key.as_bytes(), &NoMessage);
                let found = routed(&one, &request);
                prop_assert_eq!(&found, &routed(&other, &request));
                prop_assert_eq!(&found, &explained(&one, &request));
            }
        }
    }
}
