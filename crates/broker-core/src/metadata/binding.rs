//! Bindings are made and undone.

use std::sync::Arc;

use amqp::Table;

use super::bounds::BINDINGS_MAX;
use super::event::MetadataEvent;
use super::exchange::check_not_default;
use super::record::{Binding, ConnectionId, Destination};
use super::vhost::Vhost;
use super::{Metadata, check_name_length, check_room};
use crate::exchange::check_binding;
use crate::exchange::table::{ExchangeSlot, Target};
use crate::names::{ExchangeName, VhostName};
use crate::refusal::{Refusal, Result};
use crate::settings::QueueKind;

/// The binding that a request names.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) source: &'a ExchangeName,
    pub(super) destination: &'a Destination,
    pub(super) key: &'a str,
    pub(super) arguments: &'a Table,
}

/// The two ends of a binding, found.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    source: ExchangeSlot,
    target: Target,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(
        source: &'a ExchangeName,
        destination: &'a Destination,
        key: &'a str,
        arguments: &'a Table,
    ) -> Self {
        Self {
            source,
            destination,
            key,
            arguments,
        }
    }

    fn binding(&self) -> Arc<Binding> {
        let mut arguments = self.arguments.clone();
        arguments.sort();
        Arc::new(Binding {
            source: self.source.clone(),
            destination: self.destination.clone(),
            key: self.key.into(),
            arguments,
        })
    }

    fn check_not_default(&self) -> Result<()> {
        check_not_default(self.source)?;
        match self.destination {
            Destination::Exchange(exchange) => check_not_default(exchange),
            Destination::Queue(_) => Ok(()),
        }
    }
}

impl Metadata {
    pub(super) fn check_bind(
        &self,
        vhost: &VhostName,
        wanted: Wanted<'_>,
        connection: Option<ConnectionId>,
    ) -> Result<Ends> {
        let found = self.vhost(vhost)?;
        wanted.check_not_default()?;
        let ends = find_ends(found, wanted)?;
        check_lock(found, wanted.destination, connection)?;
        check_name_length("binding key", wanted.key)?;
        let source = found.exchange_at(ends.source);
        check_binding(
            source.routing_kind(),
            wanted.key,
            wanted.arguments,
            queue_kind(found, wanted.destination),
        )
        .map_err(|why| Refusal::InvalidBinding {
            source_exchange: wanted.source.clone(),
            vhost: vhost.clone(),
            why,
        })?;
        check_room("binding", self.binding_count, BINDINGS_MAX)?;
        Ok(ends)
    }

    pub(super) fn bind(
        &mut self,
        vhost: &VhostName,
        wanted: Wanted<'_>,
        connection: Option<ConnectionId>,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let Ends { source, target } = self.check_bind(vhost, wanted, connection)?;
        let binding = wanted.binding();
        let sequence = self.next_binding;
        let into = self.vhost_mut(vhost)?;
        let found = into
            .find_binding(source, target, wanted.key, &binding.arguments)
            .cloned();
        let created = found.is_none();
        let binding = found.unwrap_or(binding);
        if created {
            into.put_binding(source, target, binding.clone(), sequence);
            self.next_binding += 1;
            self.binding_count += 1;
        }
        events.push(MetadataEvent::Bound {
            vhost: vhost.clone(),
            binding,
            created,
        });
        Ok(())
    }

    /// Whether a request to unbind is in order, and the binding, if it exists.
    pub(super) fn check_unbind(
        &self,
        vhost: &VhostName,
        wanted: Wanted<'_>,
        connection: Option<ConnectionId>,
    ) -> Result<Option<(Ends, Arc<Binding>)>> {
        let found = self.vhost(vhost)?;
        wanted.check_not_default()?;
        // rabbitmq: unbinding what is not there is no error.
        let Ok(ends) = find_ends(found, wanted) else {
            return Ok(None);
        };
        check_lock(found, wanted.destination, connection)?;
        let arguments = &wanted.binding().arguments;
        let binding = found.find_binding(ends.source, ends.target, wanted.key, arguments);
        Ok(binding.map(|binding| (ends, binding.clone())))
    }

    pub(super) fn unbind(
        &mut self,
        vhost: &VhostName,
        wanted: Wanted<'_>,
        connection: Option<ConnectionId>,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let Some((ends, binding)) = self.check_unbind(vhost, wanted, connection)? else {
            return Ok(());
        };
        self.vhost_mut(vhost)?
            .take_binding(ends.source, ends.target, &binding);
        self.after_unbinding(vhost, vec![binding], events);
        Ok(())
    }
}

/// The source is named first when both ends are missing.
fn find_ends(vhost: &Vhost, wanted: Wanted<'_>) -> Result<Ends> {
    let no_exchange = |exchange: &ExchangeName| Refusal::ExchangeNotFound {
        exchange: exchange.clone(),
        vhost: vhost.name().clone(),
    };
    let source = vhost
        .exchange_slot(wanted.source.as_str())
        .ok_or_else(|| no_exchange(wanted.source))?;
    let target = vhost
        .target(wanted.destination)
        .ok_or_else(|| match wanted.destination {
            Destination::Exchange(exchange) => no_exchange(exchange),
            Destination::Queue(queue) => Refusal::QueueNotFound {
                queue: queue.clone(),
                vhost: vhost.name().clone(),
            },
        })?;
    Ok(Ends { source, target })
}

/// Another connection's exclusive queue cannot be bound.
fn check_lock(
    vhost: &Vhost,
    destination: &Destination,
    connection: Option<ConnectionId>,
) -> Result<()> {
    let Destination::Queue(name) = destination else {
        return Ok(());
    };
    match vhost.queue(name.as_str()) {
        Some(queue) if !queue.is_open_to(connection) => Err(Refusal::ResourceLocked {
            queue: name.clone(),
            vhost: vhost.name().clone(),
        }),
        _ => Ok(()),
    }
}

fn queue_kind(vhost: &Vhost, destination: &Destination) -> Option<QueueKind> {
    match destination {
        Destination::Queue(name) => vhost.queue(name.as_str()).map(|queue| queue.kind),
        Destination::Exchange(_) => None,
    }
}
