//! Vhosts come and go: with their standard exchanges, and with everything in them.

use std::sync::Arc;

use amqp::Table;

use super::bounds::{EXCHANGES_MAX, VHOSTS_MAX};
use super::event::MetadataEvent;
use super::record::{ExchangeRecord, VhostRecord};
use super::vhost::Vhost;
use super::{Metadata, QueueGone};
use crate::exchange::ExchangeKind;
use crate::names::{ExchangeName, VhostName};
use crate::refusal::{Refusal, Result};

/// The exchanges that every vhost has; the second field is the internal flag.
// amqp 3.1.3; rabbitmq: amq.rabbitmq.trace
const STANDARD_EXCHANGES: [(&str, ExchangeKind, bool); 7] = [
    ("", ExchangeKind::Direct, false),
    ("amq.direct", ExchangeKind::Direct, false),
    ("amq.fanout", ExchangeKind::Fanout, false),
    ("amq.headers", ExchangeKind::Headers, false),
    ("amq.match", ExchangeKind::Headers, false),
    ("amq.rabbitmq.trace", ExchangeKind::Topic, true),
    ("amq.topic", ExchangeKind::Topic, false),
];

impl Metadata {
    pub(super) fn check_put_vhost(&self, vhost: &VhostName, _record: &VhostRecord) -> Result<()> {
        if self.vhosts.contains_key(vhost) {
            return Ok(());
        }
        super::check_name_length("vhost", vhost.as_str())?;
        let count = self.vhosts.len();
        match self.defaults.vhost_limit {
            Some(limit) if count as u64 >= limit => {
                return Err(Refusal::ClusterVhostLimit {
                    vhost: vhost.clone(),
                    limit,
                });
            }
            _ => {}
        }
        super::check_room("vhost", count, VHOSTS_MAX)?;
        super::check_room(
            "exchange",
            self.exchange_count + STANDARD_EXCHANGES.len(),
            EXCHANGES_MAX,
        )
    }

    pub(super) fn put_vhost(
        &mut self,
        vhost: &VhostName,
        record: &VhostRecord,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.check_put_vhost(vhost, record)?;
        if let Some(existing) = self.vhosts.get_mut(vhost) {
            let was_tracing = std::mem::replace(&mut existing.record, record.clone()).tracing;
            events.push(MetadataEvent::VhostPut {
                vhost: vhost.clone(),
                created: false,
            });
            if was_tracing != record.tracing {
                let tracing = record.tracing;
                events.push(MetadataEvent::VhostTracing {
                    vhost: vhost.clone(),
                    tracing,
                });
            }
            return Ok(());
        }
        self.vhosts
            .insert(vhost.clone(), Vhost::new(vhost.clone(), record.clone()));
        self.permission_version += 1;
        events.push(MetadataEvent::VhostPut {
            vhost: vhost.clone(),
            created: true,
        });
        if record.tracing {
            events.push(MetadataEvent::VhostTracing {
                vhost: vhost.clone(),
                tracing: true,
            });
        }
        self.add_standard_exchanges(vhost);
        Ok(())
    }

    pub(super) fn add_standard_exchanges(&mut self, vhost: &VhostName) {
        let Some(added) = self.vhosts.get_mut(vhost) else {
            return;
        };
        for (name, kind, internal) in STANDARD_EXCHANGES {
            if added.exchange(name).is_some() {
                continue;
            }
            let record = ExchangeRecord {
                vhost: vhost.clone(),
                name: ExchangeName::new(name),
                kind,
                durable: true,
                auto_delete: false,
                internal,
                arguments: Table::new(),
                policy: None,
                delay_store: None,
                alternate: None,
            };
            added.put_exchange(Arc::new(record));
            self.exchange_count += 1;
        }
    }

    pub(super) fn check_delete_vhost(&self, vhost: &VhostName) -> Result<()> {
        match self.vhosts.get(vhost) {
            Some(found) if found.record.protected_from_deletion => Err(Refusal::VhostProtected {
                vhost: vhost.clone(),
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn delete_vhost(
        &mut self,
        vhost: &VhostName,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.check_delete_vhost(vhost)?;
        let Some(gone) = self.vhosts.remove(vhost) else {
            return Ok(());
        };
        let mut queues: Vec<_> = gone.queues().cloned().collect();
        queues.sort_unstable_by_key(|record| record.id);
        for record in queues {
            self.forget_queue(&record);
            events.push(MetadataEvent::QueueDeleted {
                record,
                why: QueueGone::VhostDeleted,
            });
        }
        for exchange in gone.exchanges() {
            self.exchange_count -= 1;
            self.binding_count -= exchange.outgoing_count();
        }
        for permissions in self.permissions.values_mut() {
            permissions.remove(vhost);
        }
        self.permissions
            .retain(|_, permissions| !permissions.is_empty());
        self.permission_version += 1;
        events.push(MetadataEvent::VhostDeleted {
            vhost: vhost.clone(),
        });
        Ok(())
    }

    pub(super) fn protect_vhost(
        &mut self,
        vhost: &VhostName,
        protected: bool,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.vhost_mut(vhost)?.record.protected_from_deletion = protected;
        events.push(MetadataEvent::VhostPut {
            vhost: vhost.clone(),
            created: false,
        });
        Ok(())
    }

    pub(super) fn trace_vhost(
        &mut self,
        vhost: &VhostName,
        tracing: bool,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let record = &mut self.vhost_mut(vhost)?.record;
        if record.tracing != tracing {
            record.tracing = tracing;
            events.push(MetadataEvent::VhostTracing {
                vhost: vhost.clone(),
                tracing,
            });
        }
        Ok(())
    }
}
