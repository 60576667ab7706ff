//! One vhost: its exchanges with their bindings, its queues by name, its policies.
//!
//! Knows how bindings are kept from both ends so that each can be found and removed without
//! looking at the others. Which changes are allowed is not known here.

use std::collections::BTreeMap;
use std::sync::Arc;

use amqp::Table;
use rustc_hash::FxHashMap;

use super::exchange_bindings::{Exchange, Incoming};
use super::record::{
    Binding, Destination, ExchangeRecord, Limits, Parameter, QueueId, QueueRecord, VhostRecord,
};
use crate::exchange::table::{ExchangeSlot, Target};
use crate::names::{ExchangeName, QueueName, VhostName};
use crate::policy::{Definition, PolicyList, PolicyOrigin, PolicyScope};

/// A virtual host.
#[derive(Clone, Debug)]
pub struct Vhost {
    name: VhostName,
    pub(super) record: VhostRecord,
    pub(super) limits: Limits,
    pub(super) policies: PolicyList,
    pub(super) operator_policies: PolicyList,
    pub(super) defaults: Definition,
    /// Which door the defaults came through.
    pub(super) defaults_origin: PolicyOrigin,
    /// By component and name.
    pub(super) parameters: BTreeMap<(Box<str>, Box<str>), Parameter>,
    exchanges: Vec<Option<Exchange>>,
    free_slots: Vec<ExchangeSlot>,
    slots: FxHashMap<ExchangeName, ExchangeSlot>,
    queues: FxHashMap<QueueName, Arc<QueueRecord>>,
    /// Bindings that lead to each queue.
    queue_bindings: FxHashMap<QueueId, Vec<Incoming>>,
    routing_version: u64,
}

impl Vhost {
    pub(super) fn new(name: VhostName, record: VhostRecord) -> Self {
        Self {
            name,
            record,
            limits: Limits::new(),
            policies: PolicyList::default(),
            operator_policies: PolicyList::default(),
            defaults: Definition::new(),
            defaults_origin: PolicyOrigin::Api,
            parameters: BTreeMap::new(),
            exchanges: Vec::new(),
            free_slots: Vec::new(),
            slots: FxHashMap::default(),
            queues: FxHashMap::default(),
            queue_bindings: FxHashMap::default(),
            routing_version: 0,
        }
    }

    /// Its name.
    pub fn name(&self) -> &VhostName {
        &self.name
    }

    /// What an operator says of it.
    pub fn record(&self) -> &VhostRecord {
        &self.record
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What its queues go by when no policy and no argument says more.
    pub fn defaults(&self) -> &Definition {
        &self.defaults
    }

    /// Which door the defaults came through.
    pub fn defaults_origin(&self) -> PolicyOrigin {
        self.defaults_origin
    }

    /// Its policies of one scope.
    pub fn policies(&self, scope: PolicyScope) -> &PolicyList {
        match scope {
            PolicyScope::User => &self.policies,
            PolicyScope::Operator => &self.operator_policies,
        }
    }

    pub(super) fn policies_mut(&mut self, scope: PolicyScope) -> &mut PolicyList {
        match scope {
            PolicyScope::User => &mut self.policies,
            PolicyScope::Operator => &mut self.operator_policies,
        }
    }

    /// Its runtime parameters, by component and name.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.values()
    }

    /// Grows when the way of any message may have changed: cached routes are good until then.
    pub fn routing_version(&self) -> u64 {
        self.routing_version
    }

    /// An exchange; `""` is the default one.
    pub fn exchange(&self, name: &str) -> Option<&Exchange> {
        self.exchange_slot(name).map(|slot| self.exchange_at(slot))
    }

    /// Its exchanges, in no particular order.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter().flatten()
    }

    /// How many exchanges it has.
    pub fn exchange_count(&self) -> usize {
        self.slots.len()
    }

    /// A queue by name.
    pub fn queue(&self, name: &str) -> Option<&Arc<QueueRecord>> {
        self.queues.get(name)
    }

    /// Its queues, in no particular order.
    pub fn queues(&self) -> impl Iterator<Item = &Arc<QueueRecord>> {
        self.queues.values()
    }

    /// How many queues it has.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// The bindings from an exchange, oldest first; those of the default exchange are implicit.
    pub fn bindings_from(&self, exchange: &str) -> Vec<Arc<Binding>> {
        let Some(exchange) = self.exchange(exchange) else {
            return Vec::new();
        };
        exchange
            .bindings()
            .into_iter()
            .map(|(binding, _)| binding)
            .collect()
    }

    /// The bindings to a queue or an exchange, oldest first, without the implicit one.
    pub fn bindings_to(&self, destination: &Destination) -> Vec<Arc<Binding>> {
        let Some(target) = self.target(destination) else {
            return Vec::new();
        };
        self.incoming(target)
            .iter()
            .map(|incoming| incoming.binding.clone())
            .collect()
    }

    /// All bindings, oldest first in each exchange, without the implicit ones.
    pub fn bindings(&self) -> impl Iterator<Item = Arc<Binding>> {
        self.exchanges()
            .flat_map(|exchange| exchange.bindings().into_iter().map(|(b, _)| b))
    }

    pub(crate) fn exchange_slot(&self, name: &str) -> Option<ExchangeSlot> {
        self.slots.get(name).copied()
    }

    pub(crate) fn exchange_at(&self, slot: ExchangeSlot) -> &Exchange {
        self.exchanges[slot.0 as usize]
            .as_ref()
            .expect("bindings go with their exchanges")
    }

    fn exchange_at_mut(&mut self, slot: ExchangeSlot) -> &mut Exchange {
        self.exchanges[slot.0 as usize]
            .as_mut()
            .expect("bindings go with their exchanges")
    }

    pub(super) fn target(&self, destination: &Destination) -> Option<Target> {
        match destination {
            Destination::Queue(queue) => self.queue(queue.as_str()).map(|q| Target::Queue(q.id)),
            Destination::Exchange(exchange) => {
                self.exchange_slot(exchange.as_str()).map(Target::Exchange)
            }
        }
    }

    pub(super) fn put_exchange(&mut self, record: Arc<ExchangeRecord>) {
        self.routing_version += 1;
        let name = record.name.clone();
        let exchange = Exchange::new(record);
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.exchanges[slot.0 as usize] = Some(exchange);
                slot
            }
            None => {
                self.exchanges.push(Some(exchange));
                let last = self.exchanges.len() - 1;
                ExchangeSlot(u32::try_from(last).expect("exchanges are bounded below 2^32"))
            }
        };
        self.slots.insert(name, slot);
    }

    /// Replaces what is known of an exchange; its type stays.
    pub(super) fn update_exchange(&mut self, record: Arc<ExchangeRecord>) {
        if let Some(slot) = self.exchange_slot(record.name.as_str()) {
            self.routing_version += 1;
            self.exchange_at_mut(slot).record = record;
        }
    }

    /// Removes an exchange and all its bindings; answers with them, those that lead away first.
    pub(super) fn take_exchange(&mut self, name: &str) -> Option<(Exchange, Vec<Arc<Binding>>)> {
        let slot = self.exchange_slot(name)?;
        self.routing_version += 1;
        let outgoing = self.exchange_at(slot).bindings();
        let incoming = std::mem::take(&mut self.exchange_at_mut(slot).incoming);
        let mut gone = Vec::with_capacity(outgoing.len() + incoming.len());
        for (binding, target) in outgoing {
            // A binding to itself is among the incoming ones as well.
            if target != Target::Exchange(slot) {
                self.forget_incoming(target, &binding);
            }
            gone.push(binding);
        }
        for Incoming { source, binding } in incoming {
            if source != slot {
                self.exchange_at_mut(source)
                    .take(Target::Exchange(slot), &binding);
                gone.push(binding);
            }
        }
        self.slots.remove(name);
        let exchange = self.exchanges[slot.0 as usize].take()?;
        self.free_slots.push(slot);
        Some((exchange, gone))
    }

    pub(super) fn put_queue(&mut self, record: Arc<QueueRecord>) {
        self.routing_version += 1;
        self.queues.insert(record.name.clone(), record);
    }

    /// Replaces what is known of a queue; its way stays.
    pub(super) fn update_queue(&mut self, record: Arc<QueueRecord>) {
        self.queues.insert(record.name.clone(), record);
    }

    /// Removes a queue and its bindings; answers with them, oldest first.
    pub(super) fn take_queue(&mut self, name: &str) -> Vec<Arc<Binding>> {
        let Some(record) = self.queues.remove(name) else {
            return Vec::new();
        };
        self.routing_version += 1;
        let incoming = self.queue_bindings.remove(&record.id).unwrap_or_default();
        let mut gone = Vec::with_capacity(incoming.len());
        for Incoming { source, binding } in incoming {
            self.exchange_at_mut(source)
                .take(Target::Queue(record.id), &binding);
            gone.push(binding);
        }
        gone
    }

    pub(super) fn find_binding(
        &self,
        source: ExchangeSlot,
        target: Target,
        key: &str,
        arguments: &Table,
    ) -> Option<&Arc<Binding>> {
        self.exchange_at(source).find(target, key, arguments)
    }

    /// Adds a binding that is not there.
    pub(super) fn put_binding(
        &mut self,
        source: ExchangeSlot,
        target: Target,
        binding: Arc<Binding>,
        sequence: u64,
    ) {
        self.routing_version += 1;
        self.exchange_at_mut(source)
            .put(target, binding.clone(), sequence);
        let incoming = Incoming { source, binding };
        match target {
            Target::Queue(queue) => self.queue_bindings.entry(queue).or_default().push(incoming),
            Target::Exchange(slot) => self.exchange_at_mut(slot).incoming.push(incoming),
        }
    }

    /// Removes a binding that is there.
    pub(super) fn take_binding(
        &mut self,
        source: ExchangeSlot,
        target: Target,
        binding: &Arc<Binding>,
    ) {
        self.routing_version += 1;
        self.exchange_at_mut(source).take(target, binding);
        self.forget_incoming(target, binding);
    }

    fn forget_incoming(&mut self, target: Target, binding: &Arc<Binding>) {
        let incoming = match target {
            Target::Queue(queue) => self.queue_bindings.get_mut(&queue),
            Target::Exchange(slot) => Some(&mut self.exchange_at_mut(slot).incoming),
        };
        let Some(incoming) = incoming else { return };
        incoming.retain(|other| !Arc::ptr_eq(&other.binding, binding));
        if let (true, Target::Queue(queue)) = (incoming.is_empty(), target) {
            self.queue_bindings.remove(&queue);
        }
    }

    fn incoming(&self, target: Target) -> &[Incoming] {
        match target {
            Target::Queue(queue) => self.queue_bindings.get(&queue).map_or(&[], Vec::as_slice),
            Target::Exchange(slot) => &self.exchange_at(slot).incoming,
        }
    }
}
