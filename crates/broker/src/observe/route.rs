//! Where a message would go, and by which bindings; nothing is published by asking.

use amqp::Table;
use broker_core::VhostName;
use broker_core::metadata::Destination;
use broker_core::router::{RouteRequest, Routed, Via};
use broker_core::{QueueName, Refusal};

use crate::broker::Broker;

/// A queue that a message would reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The queue.
    pub queue: QueueName,
    /// Exchanges and bindings on the way, in words.
    pub why: String,
}

impl Broker {
    /// The queues that a message of this exchange, key and headers would reach, with the way to
    /// each.
    ///
    /// # Errors
    /// The vhost or the exchange is missing.
    pub fn route_of(
        &self,
        vhost: &VhostName,
        exchange: &str,
        routing_key: &[u8],
        headers: &Table,
    ) -> Result<Vec<Reached>, Refusal> {
        let request = RouteRequest::publish(exchange, routing_key, headers);
        let metadata = self.metadata();
        let vhost = metadata.vhost(vhost)?;
        let mut routed = Routed::default();
        vhost.route(&request, &mut routed)?;
        let steps = vhost.explain(&request)?;
        let reached = routed.queues.iter().filter_map(|id| {
            let record = metadata.queue_by_id(*id)?;
            let why = steps
                .iter()
                .filter(|step| leads_to(&step.via, *id, record.name.as_str()));
            let why: Vec<String> = why
                .map(|step| in_words(step.exchange.as_str(), &step.via))
                .collect();
            Some(Reached {
                queue: record.name.clone(),
                why: why.join("; "),
            })
        });
        Ok(reached.collect())
    }
}

fn leads_to(via: &Via, id: broker_core::metadata::QueueId, name: &str) -> bool {
    match via {
        Via::QueueName(queue) => *queue == id,
        Via::Binding(binding) => match &binding.destination {
            Destination::Queue(queue) => queue.as_str() == name,
            // On the way to every queue behind that exchange.
            Destination::Exchange(_) => true,
        },
        Via::AlternateExchange(_) | Via::Delay { .. } => true,
    }
}

fn in_words(exchange: &str, via: &Via) -> String {
    match via {
        Via::QueueName(_) => "the default exchange takes the key as the queue's name".into(),
        Via::AlternateExchange(alternate) => {
            format!("nothing of '{exchange}' matched, its alternate exchange is '{alternate}'")
        }
        Via::Delay { delay_ms } => format!("'{exchange}' holds it for {delay_ms} ms"),
        Via::Binding(binding) => {
            let destination = binding.destination.name();
            match binding.arguments.is_empty() {
                true => format!("'{exchange}' -> '{destination}' by key '{}'", binding.key),
                false => format!(
                    "'{exchange}' -> '{destination}' by key '{}' and its arguments",
                    binding.key
                ),
            }
        }
    }
}
