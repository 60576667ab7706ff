//! From a message to the queues that get it: exchanges, bindings, alternate exchanges.
//!
//! Reads one vhost and changes nothing. Randomness is an argument; headers are asked for only when
//! a binding looks at them. Permissions and what a queue does with the message are not known here.

mod explain;
mod request;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

pub use explain::{RouteStep, Via};
pub use request::{LazyMessage, MessageView, NoMessage, RouteRequest, bcc_keys, carbon_copy_keys};

use crate::exchange::table::{ExchangeSlot, Probe, Target, Targets};
use crate::metadata::{Exchange, QueueId, Vhost};
use crate::names::ExchangeName;
use crate::refusal::{Refusal, Result};

/// Header that names the delay of a message, in milliseconds.
const DELAY_HEADER: &str = "x-delay";

/// Longest delay, in milliseconds.
// rabbitmq: delayed message exchange plugin, ERL_MAX_T
const DELAY_MS_MAX: i64 = 4_294_967_295;

/// Header that keeps a message out of an exchange's history.
const NO_STORE_HEADER: &str = "x-recent-history-no-store";

/// From here on results are searched by hash and no longer one by one.
const QUEUES_SCANNED_MAX: usize = 16;

/// Where a message goes. Reusable: `route` begins with an empty one.
#[derive(Clone, Debug, Default)]
pub struct Routed {
    /// The queues, each once.
    pub queues: SmallVec<[QueueId; 4]>,
    /// Recent-history exchanges that want to remember the message.
    pub histories: SmallVec<[ExchangeName; 1]>,
    /// Delayed exchanges that hold the message for so many milliseconds; after that it is routed
    /// again from there, with its delay header negated.
    pub delays: SmallVec<[(ExchangeName, u64); 1]>,
    /// Whether the answer is the same for every message of the same exchange and keys, until
    /// `Vhost::routing_version` changes.
    pub cacheable: bool,
    /// `queues` as a set, once there are many.
    seen: FxHashSet<QueueId>,
    /// Exchanges that the message has been to, or will be.
    visited: SmallVec<[ExchangeSlot; 4]>,
}

impl Routed {
    fn clear(&mut self) {
        self.queues.clear();
        self.histories.clear();
        self.delays.clear();
        self.seen.clear();
        self.visited.clear();
        self.cacheable = true;
    }

    fn add_queue(&mut self, queue: QueueId) {
        if self.queues.len() < QUEUES_SCANNED_MAX {
            if !self.queues.contains(&queue) {
                self.queues.push(queue);
            }
            return;
        }
        if self.seen.is_empty() {
            self.seen.extend(&self.queues);
        }
        if self.seen.insert(queue) {
            self.queues.push(queue);
        }
    }

    fn visit(&mut self, exchange: ExchangeSlot) {
        if !self.visited.contains(&exchange) {
            self.visited.push(exchange);
        }
    }
}

impl Vhost {
    /// Finds the queues of a message.
    ///
    /// # Errors
    /// `ExchangeNotFound`; `InternalExchange` when a publisher asks for one.
    // rabbitmq docs: exchanges; amqp 3.1.3
    pub fn route(&self, request: &RouteRequest<'_>, out: &mut Routed) -> Result<()> {
        out.clear();
        let first = self
            .exchange_slot(request.exchange)
            .ok_or_else(|| self.no_exchange(request))?;
        let exchange = self.exchange_at(first);
        if exchange.record().internal && request.from_publisher {
            return Err(Refusal::InternalExchange {
                exchange: exchange.record().name.clone(),
                vhost: self.name().clone(),
            });
        }
        out.visit(first);
        let mut next = 0;
        let mut targets = Targets::new();
        while let Some(slot) = out.visited.get(next).copied() {
            next += 1;
            targets.clear();
            self.route_at(self.exchange_at(slot), request, &mut targets, out);
            for target in &targets {
                match target {
                    Target::Queue(queue) => out.add_queue(*queue),
                    Target::Exchange(exchange) => out.visit(*exchange),
                }
            }
        }
        Ok(())
    }

    fn no_exchange(&self, request: &RouteRequest<'_>) -> Refusal {
        Refusal::ExchangeNotFound {
            exchange: ExchangeName::new(request.exchange),
            vhost: self.name().clone(),
        }
    }

    /// One exchange: its own targets, or its alternate exchange when there is none.
    fn route_at(
        &self,
        exchange: &Exchange,
        request: &RouteRequest<'_>,
        targets: &mut Targets,
        out: &mut Routed,
    ) {
        if exchange.delays() {
            out.cacheable = false;
            if let Some(delay_ms) = delay_ms(request) {
                out.delays.push((exchange.record().name.clone(), delay_ms));
                return;
            }
        }
        if exchange.keeps_history() {
            out.cacheable = false;
            if !is_kept_out_of_history(request) {
                out.histories.push(exchange.record().name.clone());
            }
        }
        self.targets_of(exchange, request, targets, out);
        if targets.is_empty()
            && let Some(alternate) = &exchange.record().alternate
            && let Some(slot) = self.exchange_slot(alternate.as_str())
        {
            out.visit(slot);
        }
    }

    fn targets_of(
        &self,
        exchange: &Exchange,
        request: &RouteRequest<'_>,
        targets: &mut Targets,
        out: &mut Routed,
    ) {
        if exchange.is_default() {
            for key in request.keys() {
                if let Some(queue) = self.queue_of_key(key) {
                    targets.push(Target::Queue(queue));
                }
            }
            return;
        }
        let table = exchange.table();
        out.cacheable &= table.depends_on_key_only();
        let keys = if table.ignores_keys() { 1 } else { usize::MAX };
        for key in request.keys().take(keys) {
            let probe = Probe {
                key,
                message: request.message,
                seed: request.seed,
                is_local: request.is_local,
            };
            table.route(probe, targets);
        }
    }

    /// The default exchange: each queue is bound by its name.
    // amqp 3.1.3.1
    fn queue_of_key(&self, key: &[u8]) -> Option<QueueId> {
        let name = std::str::from_utf8(key).ok()?;
        self.queue(name).map(|record| record.id)
    }
}

/// The delay that the message asks for: a whole number of any width, decimal text, or a float that
/// is cut. Everything else, also a delay out of range, is none.
// rabbitmq: delayed message exchange plugin
fn delay_ms(request: &RouteRequest<'_>) -> Option<u64> {
    let value = request.message.headers()?.get(DELAY_HEADER)?;
    let ms = match value {
        amqp::Value::F32(number) => *number as i64,
        amqp::Value::F64(number) => *number as i64,
        other => match (other.as_i64(), other.as_str()) {
            (Some(ms), _) => ms,
            (None, Some(text)) => text.parse().ok()?,
            (None, None) => return None,
        },
    };
    (1..=DELAY_MS_MAX)
        .contains(&ms)
        .then(|| u64::try_from(ms).ok())
        .flatten()
}

fn is_kept_out_of_history(request: &RouteRequest<'_>) -> bool {
    let header = request
        .message
        .headers()
        .and_then(|headers| headers.get(NO_STORE_HEADER));
    matches!(header, Some(amqp::Value::Bool(true)))
}

#[cfg(test)]
mod tests;
