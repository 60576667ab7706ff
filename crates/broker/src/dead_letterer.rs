//! Publishes dead letters: a message leaves its queue for the dead-letter exchange.
//!
//! Runs on the thread of whoever caused the death, with no lock held. A dead letter may kill
//! another message at once (a full queue, a TTL of zero): those wait their turn in a list of the
//! thread instead of nesting. The cycle rule ends every loop that no client keeps going.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use amqp::{Properties, Table};
use broker_core::ExchangeName;
use broker_core::dead_letter::{self, Death};
use broker_core::router::{RouteRequest, Routed, carbon_copy_keys};
use broker_core::settings::QueueSettings;

use crate::clock;
use crate::delayed;
use crate::node::Node;
use crate::observe::incidents::HeldBecause;
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
    let sent = match &queue.holds_for {
        Some(exchange) => delayed::release(node, queue, exchange, job),
        None => try_publish(node, queue, job),
    };
    if let (Err(why), true) = (sent, job.kept) {
        queue.dead_lettered(node, job.entry, Err(why));
    }
}

/// Who tells the queue what became of a dead letter that it keeps.
pub(crate) fn receipt(job: &DeadLetterJob, route: &Route) -> Option<Arc<DeadLetterReceipt>> {
    let receipt = || DeadLetterReceipt::new(job.queue, job.entry, route.verdicts());
    job.kept.then(|| Arc::new(receipt()))
}

/// Fails when no target takes the message.
fn try_publish(node: &Node, queue: &Arc<Queue>, job: &DeadLetterJob) -> Result<(), HeldBecause> {
    let record = node.metadata.read().queue_by_id(queue.id).cloned();
    let record = record.ok_or(HeldBecause::NoRoute)?;
    let exchange = record.settings.dead_letter_exchange.as_ref();
    let exchange = exchange.ok_or(HeldBecause::ExchangeMissing)?;
    let loaded = job.loaded.as_ref().ok_or(HeldBecause::Unreadable)?;
    let blob = loaded.blob().ok_or(HeldBecause::Unreadable)?;
    let death = Death {
        queue: queue.name.as_str(),
        reason: job.reason,
        at: clock::now(),
        exchange: blob.exchange,
        routing_key: blob.routing_key,
        copies_count: !blob.keys_replaced,
        past: job.past.as_deref(),
    };
    let original = Properties::trusted(blob.properties);
    let properties = dead_letter::bury(original, blob.dead_lettered, &death)
        .map_err(|_| HeldBecause::Unreadable)?;
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
    let route = Arc::new(letter.route(node, queue, exchange)?);
    if route.is_empty() {
        return Err(HeldBecause::NoRoute);
    }
    let message = NewMessage {
        exchange: exchange.as_str(),
        routing_key: letter.routing_key(),
        properties: &properties,
        body: letter.blob.body,
        dead_lettered: true,
        has_bcc: headers.contains_key("BCC"),
        keys_replaced: blob.keys_replaced || record.settings.dead_letter_routing_key.is_some(),
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
    let receipt = receipt(job, &route);
    route.admit_internal(node, &message);
    let mut turn = InlineTurn::default();
    route.send(node, &meta, &message, &mut turn, || match &receipt {
        Some(receipt) => Origin::DeadLetter(receipt.clone()),
        None => Origin::Nobody,
    });
    turn.end(node);
    node.counters.dead_lettered();
    Ok(())
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
    fn route(
        &self,
        node: &Node,
        from: &Queue,
        exchange: &ExchangeName,
    ) -> Result<Route, HeldBecause> {
        // A dead-letter key replaces all keys, for good; until then, the copies are routed again.
        let extra_keys = match self.settings.dead_letter_routing_key {
            None if !self.blob.keys_replaced => carbon_copy_keys(self.headers).unwrap_or_default(),
            _ => Default::default(),
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
        node.metadata
            .read()
            .vhost(&from.vhost)
            .and_then(|vhost| vhost.route(&request, &mut routed))
            .map_err(|_| HeldBecause::ExchangeMissing)?;
        routed.queues.retain(|id| {
            let to = node.queue(*id);
            to.is_some_and(|to| !self.goes_round(from, &to))
        });
        Ok(Route::routed(node, &from.vhost, &routed))
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
