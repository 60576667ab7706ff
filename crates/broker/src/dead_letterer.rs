//! Publishes dead letters: a message leaves its queue for the dead-letter exchange.
//!
//! Runs on the thread of whoever caused the death, with no lock held. A dead letter may kill
//! another message at once (a full queue, a TTL of zero): those wait their turn in a list of the
//! thread instead of nesting. The cycle rule ends every loop that no client keeps going.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use amqp::{Properties, Table};
use broker_core::dead_letter::{self, Death};
use broker_core::router::{RouteRequest, Routed, carbon_copy_keys};
use broker_core::settings::QueueSettings;

use crate::clock;
use crate::node::Node;
use crate::origin::{DeadLetterReceipt, Origin};
use crate::queue::{DeadLetterJob, Queue};
use crate::record::{Blob, EntryMeta, NewMessage};
use crate::route::{InlineTurn, Route};

/// Dead letters with the queues they come from.
type Letters = VecDeque<(Arc<Queue>, DeadLetterJob)>;

thread_local! {
    /// Dead letters that this thread is about to publish; `None` when it is not publishing any.
    static WAITING: RefCell<Option<Letters>> = const { RefCell::new(None) };
}

/// Sends dead letters of one queue on their way, in order.
pub(crate) fn dead_letter(node: &Node, queue: &Arc<Queue>, jobs: Vec<DeadLetterJob>) {
    if jobs.is_empty() {
        return;
    }
    let outermost = WAITING.with_borrow_mut(|waiting| {
        let outermost = waiting.is_none();
        waiting
            .get_or_insert_default()
            .extend(jobs.into_iter().map(|job| (queue.clone(), job)));
        outermost
    });
    if !outermost {
        return;
    }
    while let Some((queue, job)) =
        WAITING.with_borrow_mut(|waiting| waiting.as_mut().and_then(VecDeque::pop_front))
    {
        publish(node, &queue, &job);
    }
    WAITING.set(None);
}

fn publish(node: &Node, queue: &Arc<Queue>, job: &DeadLetterJob) {
    if try_publish(node, queue, job).is_none() && job.kept {
        queue.dead_lettered(node, job.entry, false);
    }
}

/// `None` when no target takes the message.
fn try_publish(node: &Node, queue: &Arc<Queue>, job: &DeadLetterJob) -> Option<()> {
    let record = node.metadata.read().queue_by_id(queue.id)?.clone();
    let blob = job.loaded.as_ref()?.blob()?;
    let death = Death {
        queue: queue.name.as_str(),
        reason: job.reason,
        at: clock::now(),
        exchange: blob.exchange,
        routing_key: blob.routing_key,
    };
    let original = Properties::trusted(blob.properties);
    let properties = dead_letter::bury(original, blob.dead_lettered, &death).ok()?;
    let headers = Properties::trusted(&properties)
        .headers()
        .ok()
        .flatten()
        .unwrap_or_default();
    let letter = Letter {
        settings: &record.settings,
        blob,
        headers: &headers,
    };
    let targets = letter.targets(node, queue)?;
    let route = Arc::new(Route::of(targets.into_iter()));
    if route.is_empty() {
        return None;
    }
    let message = NewMessage {
        exchange: record.settings.dead_letter_exchange.as_ref()?.as_str(),
        routing_key: letter.routing_key(),
        properties: &properties,
        body: letter.blob.body,
        dead_lettered: true,
        has_bcc: headers.contains_key("BCC"),
    };
    let scan = Properties::trusted(&properties).scan();
    let meta = EntryMeta {
        persistent: scan.delivery_mode == Some(2),
        priority: scan.priority,
        published_at: death.at,
        expires_at: None,
        // rabbitmq: the counts survive dead-lettering.
        delivery_count: job.delivery_count,
        acquired_count: job.acquired_count,
    };
    let receipt = job.kept.then(|| {
        Arc::new(DeadLetterReceipt::new(
            job.queue,
            job.entry,
            route.verdicts(),
        ))
    });
    let mut turn = InlineTurn::default();
    route.send(node, &meta, &message, &mut turn, || match &receipt {
        Some(receipt) => Origin::DeadLetter(receipt.clone()),
        None => Origin::Nobody,
    });
    turn.end(node);
    node.counters.dead_lettered();
    Some(())
}

/// A dead letter and what decides its way.
struct Letter<'a> {
    settings: &'a QueueSettings,
    blob: Blob<'a>,
    headers: &'a Table,
}

impl Letter<'_> {
    // rabbitmq docs: dead letter exchanges, routing
    fn routing_key(&self) -> &str {
        self.settings
            .dead_letter_routing_key
            .as_deref()
            .unwrap_or(self.blob.routing_key)
    }

    /// The queues that take the letter, without those that it would go round to.
    fn targets(&self, node: &Node, from: &Queue) -> Option<Vec<Arc<Queue>>> {
        let exchange = self.settings.dead_letter_exchange.as_ref()?;
        // A dead-letter key replaces all keys; without one, the copies are routed again.
        let extra_keys = match self.settings.dead_letter_routing_key {
            Some(_) => Default::default(),
            None => carbon_copy_keys(self.headers).unwrap_or_default(),
        };
        let request = RouteRequest {
            extra_keys: &extra_keys,
            seed: rand::random(),
            from_publisher: false,
            ..RouteRequest::publish(
                exchange.as_str(),
                self.routing_key().as_bytes(),
                self.headers,
            )
        };
        let mut routed = Routed::default();
        {
            let metadata = node.metadata.read();
            metadata
                .vhost(&from.vhost)
                .ok()?
                .route(&request, &mut routed)
                .ok()?;
        }
        let queues = routed.queues.iter().filter_map(|id| node.queue(*id));
        Some(
            queues
                .filter(|queue| !self.goes_round(from, queue))
                .collect(),
        )
    }

    fn goes_round(&self, from: &Queue, to: &Queue) -> bool {
        let cycle = dead_letter::is_cycle(self.headers, to.name.as_str());
        if cycle {
            tracing::warn!(vhost = %from.vhost, from = %from.name, to = %to.name,
                "a dead letter went round in a cycle and is dropped");
        }
        cycle
    }
}
