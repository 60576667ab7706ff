//! Exchanges are declared, redeclared and deleted, also by themselves.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use amqp::{Table, Value};

use super::bounds::EXCHANGES_MAX;
use super::event::MetadataEvent;
use super::record::{Binding, ExchangeRecord, QueueId};
use super::vhost::Vhost;
use super::{Metadata, check_name_length, check_room};
use crate::arguments::{compare_flag, compare_text, compare_value};
use crate::exchange::{ALTERNATE_EXCHANGE, ArgumentProblem, ExchangeKind, check_arguments};
use crate::names::{ExchangeName, VhostName};
use crate::refusal::{Refusal, Resource, ResourceKind, Result};

/// Names that only the broker gives.
pub(super) const RESERVED_PREFIX: &str = "amq.";

/// Exchanges that the broker has in every vhost without a record: what is published to them is
/// for the broker.
pub const BUILT_IN_DOORS: [&str; 2] = ["sluicemq.deadline", "sluicemq.reason"];

/// The exchange that a declaration wants.
pub(super) struct Wanted<'a> {
    pub(super) exchange: &'a ExchangeName,
    pub(super) exchange_type: &'a str,
    pub(super) durable: bool,
    pub(super) auto_delete: bool,
    pub(super) internal: bool,
    pub(super) arguments: &'a Table,
}

/// What a declaration that may be carried out will do.
pub(super) enum Verdict {
    Create(ExchangeKind),
    Exists(Arc<ExchangeRecord>),
}

impl Metadata {
    /// The checks in RabbitMQ's order: default exchange, type, then existing or new.
    // rabbitmq: exchange.declare
    pub(super) fn check_declare_exchange(
        &self,
        vhost: &VhostName,
        wanted: &Wanted<'_>,
    ) -> Result<Verdict> {
        let found = self.vhost(vhost)?;
        check_not_default(wanted.exchange)?;
        let kind = ExchangeKind::parse(wanted.exchange_type)?;
        if let Some(exchange) = found.exchange(wanted.exchange.as_str()) {
            check_equivalence(exchange.record(), wanted)?;
            return Ok(Verdict::Exists(exchange.record().clone()));
        }
        self.check_new_exchange(vhost, wanted, kind)?;
        Ok(Verdict::Create(kind))
    }

    fn check_new_exchange(
        &self,
        vhost: &VhostName,
        wanted: &Wanted<'_>,
        kind: ExchangeKind,
    ) -> Result<()> {
        let name = wanted.exchange.as_str();
        if BUILT_IN_DOORS.contains(&name) {
            return Err(Refusal::BuiltInExchange {
                exchange: wanted.exchange.clone(),
            });
        }
        if name.starts_with(RESERVED_PREFIX) {
            return Err(Refusal::ReservedPrefix {
                kind: ResourceKind::Exchange,
                name: name.into(),
            });
        }
        check_name_length("exchange", name)?;
        if let Some(value) = wanted.arguments.get(ALTERNATE_EXCHANGE)
            && value.as_str().is_none()
        {
            return Err(Refusal::InvalidArgumentType {
                key: ALTERNATE_EXCHANGE.into(),
                type_name: value.type_name().into(),
                resource: Resource::exchange(name, vhost),
            });
        }
        match self.defaults.exchange_limit {
            Some(limit) if self.exchange_count as u64 >= limit => {
                return Err(Refusal::ClusterExchangeLimit {
                    exchange: wanted.exchange.clone(),
                    vhost: vhost.clone(),
                    limit,
                });
            }
            _ => {}
        }
        check_room("exchange", self.exchange_count, EXCHANGES_MAX)?;
        check_arguments(kind, wanted.arguments).map_err(|problem| match problem {
            ArgumentProblem::Refused(refusal) => refusal,
            ArgumentProblem::Fault(why) => Refusal::ExchangeArgument {
                exchange: wanted.exchange.clone(),
                vhost: vhost.clone(),
                why,
            },
        })
    }

    pub(super) fn declare_exchange(
        &mut self,
        vhost: &VhostName,
        wanted: &Wanted<'_>,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let kind = match self.check_declare_exchange(vhost, wanted)? {
            Verdict::Exists(record) => {
                events.push(MetadataEvent::ExchangeDeclared {
                    record,
                    created: false,
                });
                return Ok(());
            }
            Verdict::Create(kind) => kind,
        };
        let delay_store = (kind == ExchangeKind::DelayedMessage).then(|| self.next_store());
        let into = self.vhost_mut(vhost)?;
        let record = ExchangeRecord {
            vhost: vhost.clone(),
            name: wanted.exchange.clone(),
            kind,
            durable: wanted.durable,
            auto_delete: wanted.auto_delete,
            internal: wanted.internal,
            arguments: wanted.arguments.clone(),
            policy: None,
            delay_store,
            alternate: None,
        };
        let record = Arc::new(with_policy(record, into));
        into.put_exchange(record.clone());
        self.exchange_count += 1;
        events.push(MetadataEvent::ExchangeDeclared {
            record,
            created: true,
        });
        Ok(())
    }

    fn next_store(&mut self) -> QueueId {
        let store = QueueId(self.next_queue);
        self.next_queue += 1;
        store
    }

    /// Whether an exchange may be deleted, and whether there is one.
    pub(super) fn check_delete_exchange(
        &self,
        vhost: &VhostName,
        exchange: &ExchangeName,
        if_unused: bool,
    ) -> Result<bool> {
        let found = self.vhost(vhost)?;
        check_not_default(exchange)?;
        if exchange.as_str().starts_with(RESERVED_PREFIX) {
            return Err(Refusal::DeletionOfSystemExchange {
                exchange: exchange.clone(),
                vhost: vhost.clone(),
            });
        }
        let Some(found) = found.exchange(exchange.as_str()) else {
            return Ok(false);
        };
        if if_unused && found.outgoing_count() > 0 {
            return Err(Refusal::ExchangeInUse {
                exchange: exchange.clone(),
                vhost: vhost.clone(),
            });
        }
        Ok(true)
    }

    pub(super) fn delete_exchange(
        &mut self,
        vhost: &VhostName,
        exchange: &ExchangeName,
        if_unused: bool,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        if self.check_delete_exchange(vhost, exchange, if_unused)? {
            self.take_exchange(vhost, exchange, false, events);
        }
        Ok(())
    }

    /// Removes an exchange, and all auto-delete ones that lose their last binding by it.
    pub(super) fn take_exchange(
        &mut self,
        vhost: &VhostName,
        exchange: &ExchangeName,
        auto: bool,
        events: &mut Vec<MetadataEvent>,
    ) {
        let mut doomed = VecDeque::from([(exchange.clone(), auto)]);
        while let Some((name, auto)) = doomed.pop_front() {
            let Some(from) = self.vhosts.get_mut(vhost) else {
                return;
            };
            let Some((exchange, gone)) = from.take_exchange(name.as_str()) else {
                continue;
            };
            self.exchange_count -= 1;
            self.binding_count -= gone.len();
            let emptied = emptied_sources(from, &gone);
            note_unbound(vhost, gone, events);
            let record = exchange.record().clone();
            events.push(MetadataEvent::ExchangeDeleted { record, auto });
            doomed.extend(emptied.into_iter().map(|name| (name, true)));
        }
    }

    /// Reports bindings that went, and deletes auto-delete exchanges that lost their last one.
    pub(super) fn after_unbinding(
        &mut self,
        vhost: &VhostName,
        gone: Vec<Arc<Binding>>,
        events: &mut Vec<MetadataEvent>,
    ) {
        self.binding_count -= gone.len();
        let emptied = match self.vhosts.get(vhost) {
            Some(found) => emptied_sources(found, &gone),
            None => Vec::new(),
        };
        note_unbound(vhost, gone, events);
        for exchange in emptied {
            self.take_exchange(vhost, &exchange, true, events);
        }
    }
}

/// Auto-delete exchanges that had one of these bindings and have none any more.
fn emptied_sources(vhost: &Vhost, gone: &[Arc<Binding>]) -> Vec<ExchangeName> {
    let mut emptied: Vec<ExchangeName> = Vec::new();
    for binding in gone {
        let is_empty = vhost
            .exchange(binding.source.as_str())
            .is_some_and(|source| source.record().auto_delete && source.outgoing_count() == 0);
        if is_empty && !emptied.contains(&binding.source) {
            emptied.push(binding.source.clone());
        }
    }
    emptied
}

fn note_unbound(vhost: &VhostName, gone: Vec<Arc<Binding>>, events: &mut Vec<MetadataEvent>) {
    events.extend(gone.into_iter().map(|binding| MetadataEvent::Unbound {
        vhost: vhost.clone(),
        binding,
    }));
}

/// The record as the policies of its vhost want it. None applies to the default exchange.
// rabbitmq: the default exchange is routed without alternate exchange
pub(super) fn with_policy(mut record: ExchangeRecord, vhost: &Vhost) -> ExchangeRecord {
    if record.name.as_str().is_empty() {
        return record;
    }
    let policy = vhost.policies.for_exchange(record.name.as_str());
    record.policy = policy.map(|policy| policy.name.clone());
    let argument = record
        .arguments
        .get(ALTERNATE_EXCHANGE)
        .and_then(Value::as_str);
    let by_policy = policy.and_then(|policy| policy.definition.get(ALTERNATE_EXCHANGE)?.as_text());
    record.alternate = argument.or(by_policy).map(ExchangeName::new);
    record
}

pub(super) fn check_not_default(exchange: &ExchangeName) -> Result<()> {
    if exchange.as_str().is_empty() {
        return Err(Refusal::DefaultExchange);
    }
    Ok(())
}

/// A word as RabbitMQ's texts show its names of types: one with a dash stands in quotes of its own.
fn atom(word: &str) -> Cow<'_, str> {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'_' | b'@');
    match word.starts_with(|first: char| first.is_ascii_lowercase()) && word.bytes().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{word}'")),
    }
}

/// Arguments other than the alternate exchange are not compared.
// rabbitmq: rabbit_exchange, assert_equivalence
fn check_equivalence(current: &ExchangeRecord, wanted: &Wanted<'_>) -> Result<()> {
    let resource = || Resource::exchange(&current.name, &current.vhost);
    let (received, current_type) = (atom(wanted.exchange_type), atom(current.kind.name()));
    compare_text("type", &received, &current_type, resource)?;
    compare_flag("durable", wanted.durable, current.durable, resource)?;
    compare_flag(
        "auto_delete",
        wanted.auto_delete,
        current.auto_delete,
        resource,
    )?;
    compare_flag("internal", wanted.internal, current.internal, resource)?;
    compare_value(
        ALTERNATE_EXCHANGE,
        wanted.arguments.get(ALTERNATE_EXCHANGE),
        current.arguments.get(ALTERNATE_EXCHANGE),
        resource,
    )
}
