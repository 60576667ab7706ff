//! Why a message goes where it goes: every binding that matched, in the order of the walk.
//!
//! For people who ask, not for the path of a message: each binding is tried by the rule itself,
//! and the answer to "which queues" is still `route`'s.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{RouteRequest, Routed};
use crate::exchange::ExchangeKind;
use crate::exchange::headers::HeadersMatch;
use crate::exchange::table::Target;
use crate::exchange::topic::key_matches;
use crate::metadata::{Binding, Exchange, QueueId, Vhost};
use crate::names::ExchangeName;
use crate::refusal::Result;

/// How a message went on from an exchange.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum Via {
    /// Nothing matched; the alternate exchange took over.
    AlternateExchange(ExchangeName),
    /// A binding.
    Binding(Arc<Binding>),
    /// The default exchange's implicit binding.
    QueueName(QueueId),
    /// The exchange holds the message for so many milliseconds first.
    Delay { delay_ms: u64 },
}

/// One step of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteStep {
    /// The exchange that it was at.
    pub exchange: ExchangeName,
    /// How it went on.
    pub via: Via,
}

impl Vhost {
    /// The steps of a message, in order. Empty when it goes nowhere.
    ///
    /// # Errors
    /// Those of `route`.
    pub fn explain(&self, request: &RouteRequest<'_>) -> Result<Vec<RouteStep>> {
        let mut routed = Routed::default();
        self.route(request, &mut routed)?;
        let mut steps = Vec::new();
        for slot in &routed.visited {
            let exchange = self.exchange_at(*slot);
            let vias = self.vias(exchange, request, &routed);
            steps.extend(vias.into_iter().map(|via| RouteStep {
                exchange: exchange.record().name.clone(),
                via,
            }));
        }
        Ok(steps)
    }

    fn vias(&self, exchange: &Exchange, request: &RouteRequest<'_>, routed: &Routed) -> Vec<Via> {
        let name = &exchange.record().name;
        if let Some((_, delay_ms)) = routed.delays.iter().find(|(held_by, _)| held_by == name) {
            return vec![Via::Delay {
                delay_ms: *delay_ms,
            }];
        }
        let vias = if exchange.is_default() {
            request
                .keys()
                .filter_map(|key| self.queue_of_key(key))
                .map(Via::QueueName)
                .collect()
        } else {
            self.matching(exchange, request)
                .into_iter()
                .map(Via::Binding)
                .collect::<Vec<_>>()
        };
        match &exchange.record().alternate {
            Some(alternate) if vias.is_empty() && self.exchange(alternate.as_str()).is_some() => {
                vec![Via::AlternateExchange(alternate.clone())]
            }
            _ => vias,
        }
    }

    fn matching(&self, exchange: &Exchange, request: &RouteRequest<'_>) -> Vec<Arc<Binding>> {
        let chosen = self.chosen(exchange, request);
        exchange
            .bindings()
            .into_iter()
            .filter(|(binding, target)| match exchange.routing_kind() {
                ExchangeKind::Direct => request.keys().any(|key| key == binding.key.as_bytes()),
                ExchangeKind::Topic => request
                    .keys()
                    .any(|key| key_matches(binding.key.as_bytes(), key)),
                ExchangeKind::Headers => {
                    let none = amqp::Table::new();
                    let headers = request.message.headers().unwrap_or(&none);
                    HeadersMatch::parse(&binding.arguments).is_ok_and(|rule| rule.matches(headers))
                }
                ExchangeKind::Fanout
                | ExchangeKind::RecentHistory
                | ExchangeKind::DelayedMessage => true,
                ExchangeKind::ConsistentHash
                | ExchangeKind::ModulusHash
                | ExchangeKind::Random
                | ExchangeKind::LocalRandom => chosen.contains(target),
            })
            .map(|(binding, _)| binding)
            .collect()
    }

    /// What an exchange that chooses has chosen: the same seed chooses the same again.
    fn chosen(&self, exchange: &Exchange, request: &RouteRequest<'_>) -> SmallVec<[Target; 8]> {
        let mut targets = SmallVec::new();
        self.targets_of(exchange, request, &mut targets, &mut Routed::default());
        targets
    }
}
