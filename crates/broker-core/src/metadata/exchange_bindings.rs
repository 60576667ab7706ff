//! One exchange with its bindings: what leads away from it, laid out for its type and findable by
//! identity, and what leads to it. Which bindings are allowed is not known here.

use std::sync::Arc;

use amqp::Table;
use rustc_hash::FxHashMap;

use super::record::{Binding, ExchangeRecord};
use crate::exchange::ExchangeKind;
use crate::exchange::table::{Bound, ExchangeSlot, RoutingTable, Target};

/// An exchange with its bindings.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub(super) record: Arc<ExchangeRecord>,
    table: RoutingTable,
    routing_kind: ExchangeKind,
    outgoing: FxHashMap<BindingIdentity, Outgoing>,
    pub(super) incoming: Vec<Incoming>,
}

/// What makes two bindings from one exchange the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BindingIdentity {
    target: Target,
    key: Arc<str>,
    /// Sorted by key and encoded.
    arguments: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct Outgoing {
    binding: Arc<Binding>,
    sequence: u64,
}

/// A binding as its destination knows it.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) source: ExchangeSlot,
    pub(super) binding: Arc<Binding>,
}

impl Exchange {
    /// An exchange without bindings.
    pub(super) fn new(record: Arc<ExchangeRecord>) -> Self {
        let routing_kind = record.kind.routing_kind(&record.arguments);
        Self {
            table: RoutingTable::new(routing_kind, &record.arguments),
            record,
            routing_kind,
            outgoing: FxHashMap::default(),
            incoming: Vec::new(),
        }
    }

    /// What is known of it.
    pub fn record(&self) -> &Arc<ExchangeRecord> {
        &self.record
    }

    /// How many bindings lead away from it.
    pub fn outgoing_count(&self) -> usize {
        self.outgoing.len()
    }

    pub(crate) fn table(&self) -> &RoutingTable {
        &self.table
    }

    /// The type that its messages are routed by.
    pub(crate) fn routing_kind(&self) -> ExchangeKind {
        self.routing_kind
    }

    pub(crate) fn is_default(&self) -> bool {
        self.record.name.as_str().is_empty()
    }

    pub(crate) fn delays(&self) -> bool {
        self.record.kind == ExchangeKind::DelayedMessage
    }

    pub(crate) fn keeps_history(&self) -> bool {
        self.routing_kind == ExchangeKind::RecentHistory
    }

    /// The bindings that lead away, oldest first.
    pub(crate) fn bindings(&self) -> Vec<(Arc<Binding>, Target)> {
        let mut sorted: Vec<_> = self.outgoing.iter().collect();
        sorted.sort_unstable_by_key(|(_, outgoing)| outgoing.sequence);
        sorted
            .into_iter()
            .map(|(identity, outgoing)| (outgoing.binding.clone(), identity.target))
            .collect()
    }

    /// The bindings that lead away, each with its sequence, in no particular order.
    pub(super) fn outgoing(&self) -> impl Iterator<Item = (u64, &Arc<Binding>)> {
        self.outgoing
            .values()
            .map(|outgoing| (outgoing.sequence, &outgoing.binding))
    }

    pub(super) fn find(
        &self,
        target: Target,
        key: &str,
        arguments: &Table,
    ) -> Option<&Arc<Binding>> {
        let identity = identity(target, key.into(), arguments);
        self.outgoing
            .get(&identity)
            .map(|outgoing| &outgoing.binding)
    }

    /// Adds a binding that is not there.
    pub(super) fn put(&mut self, target: Target, binding: Arc<Binding>, sequence: u64) {
        self.table.bind(bound(&binding, target, sequence));
        let identity = identity(target, binding.key.clone(), &binding.arguments);
        self.outgoing
            .insert(identity, Outgoing { binding, sequence });
    }

    pub(super) fn take(&mut self, target: Target, binding: &Binding) {
        let identity = identity(target, binding.key.clone(), &binding.arguments);
        if let Some(outgoing) = self.outgoing.remove(&identity) {
            self.table.unbind(bound(binding, target, outgoing.sequence));
        }
    }
}

fn identity(target: Target, key: Arc<str>, arguments: &Table) -> BindingIdentity {
    let mut encoded = Vec::new();
    arguments.encode(&mut encoded);
    BindingIdentity {
        target,
        key,
        arguments: encoded.into(),
    }
}

fn bound(binding: &Binding, target: Target, sequence: u64) -> Bound<'_> {
    Bound {
        key: &binding.key,
        arguments: &binding.arguments,
        target,
        name: binding.destination.name(),
        sequence,
    }
}
