//! Hands a queue's deliveries to their channels: finds the bytes, gives the tags, pushes the
//! frames. Runs under the queue's lock; takes one holder's lock at a time.

use std::sync::Arc;

use amqp::{Properties, PropertiesBuilder, Value};
use broker_core::queue::{ConsumerId, Delivery, Effect, Pause};
use broker_core::settings::QueueKind;
use bytes::Bytes;
use smallvec::SmallVec;

use crate::content::{Content, LoadedBlob};
use crate::firehose::TraceCopy;
use crate::holder::Holder;
use crate::node::Node;
use crate::outbox::{MessageView, OUTBOX_MARK, Outgoing};
use crate::queue::{Queue, QueueState};
use crate::record::Blob;

/// A delivery with its bytes at hand.
struct Ready<'a> {
    delivery: &'a Delivery<Content>,
    blob: Blob<'a>,
    owner: &'a Bytes,
    /// The property block where the broker had to add its counters.
    properties: Option<Vec<u8>>,
}

impl Ready<'_> {
    fn view(&self) -> MessageView<'_> {
        MessageView {
            exchange: self.blob.exchange,
            routing_key: self.blob.routing_key,
            properties: self.properties.as_deref().unwrap_or(self.blob.properties),
            body: self.blob.body,
            owner: self.owner,
        }
    }
}

/// Carries out the deliveries among these effects, in their order; what the firehose tells of them
/// is left for later.
pub(crate) fn deliver(
    queue: &Arc<Queue>,
    node: &Node,
    state: &mut QueueState,
    effects: &[Effect<Content>],
    copies: &mut Vec<TraceCopy>,
) {
    let deliveries: SmallVec<[&Delivery<Content>; 32]> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Deliver(delivery) => Some(delivery),
            _ => None,
        })
        .collect();
    if deliveries.is_empty() {
        return;
    }
    let read = read_stored(queue, node, state, &deliveries);
    let ready: SmallVec<[Ready<'_>; 32]> = deliveries
        .iter()
        .zip(&read)
        .filter_map(|(delivery, read)| prepare(queue, delivery, read))
        .collect();
    let is_traced = node.firehose.runs_in(&queue.vhost);
    for run in ready.chunk_by(|a, b| a.delivery.holder == b.delivery.holder) {
        let Some(holder) = state.holders.get(&run[0].delivery.holder).cloned() else {
            continue;
        };
        // The node that a guest comes from tells of it.
        if is_traced && !holder.session.is_guest() {
            copies.extend(run.iter().filter_map(|ready| {
                let redelivered = ready.delivery.redelivered;
                let queue = queue.name.as_str();
                TraceCopy::delivered(node, &holder, &ready.view(), queue, redelivered)
            }));
        }
        hand_over(queue, state, &holder, run);
    }
}

/// Reads what lies in segments; `None` for what is in memory or cannot be read.
fn read_stored(
    queue: &Queue,
    node: &Node,
    state: &mut QueueState,
    deliveries: &[&Delivery<Content>],
) -> SmallVec<[Option<LoadedBlob>; 32]> {
    deliveries
        .iter()
        .map(|delivery| {
            let (tier, location) = delivery.content.place()?;
            let ahead = &mut state.read_ahead;
            node.read_ahead(queue.store(), tier, location, ahead.of(tier))
        })
        .collect()
}

fn prepare<'a>(
    queue: &Queue,
    delivery: &'a Delivery<Content>,
    read: &'a Option<LoadedBlob>,
) -> Option<Ready<'a>> {
    let found = match (&delivery.content, read) {
        (Content::Resident { batch, at, len }, _) => batch
            .bytes
            .get(*at as usize..(*at + *len) as usize)
            .and_then(Blob::parse)
            .map(|blob| (blob, &batch.bytes)),
        (_, Some(read)) => read.blob().map(|blob| (blob, read.owner())),
        (_, None) => None,
    };
    let Some((blob, owner)) = found else {
        tracing::error!(queue = %queue.name, vhost = %queue.vhost, entry = delivery.entry.0,
            "a stored message cannot be read; it stays unacknowledged");
        return None;
    };
    let properties = shown_properties(queue.kind, delivery, &blob);
    Some(Ready {
        delivery,
        blob,
        owner,
        properties,
    })
}

/// The header with the keys that no consumer may see.
pub(crate) const BLIND_COPIES: &str = "BCC";

/// The property block without blind copies, which are nobody's business but the publisher's.
pub(crate) fn without_blind_copies(properties: Properties<'_>) -> Option<Vec<u8>> {
    let edited = PropertiesBuilder::from(properties).edit_headers(|headers| {
        headers.remove(BLIND_COPIES);
    });
    Some(edited.ok()?.build())
}

/// The property block as the consumer sees it, where it differs from the stored one: without
/// blind copies, and with the counters that quorum queues add to redeliveries.
// rabbitmq: x-delivery-count and x-acquired-count are present on redeliveries only.
pub(crate) fn shown_properties(
    kind: QueueKind,
    delivery: &Delivery<Content>,
    blob: &Blob<'_>,
) -> Option<Vec<u8>> {
    let counts = kind == QueueKind::Quorum && delivery.acquired_count > 0;
    if !counts && !blob.has_bcc {
        return None;
    }
    let properties = Properties::trusted(blob.properties);
    let edited = PropertiesBuilder::from(properties).edit_headers(|headers| {
        if blob.has_bcc {
            headers.remove(BLIND_COPIES);
        }
        if counts {
            headers.insert(
                "x-acquired-count",
                Value::I64(delivery.acquired_count.into()),
            );
        }
        if counts && delivery.delivery_count > 0 {
            headers.insert(
                "x-delivery-count",
                Value::I64(delivery.delivery_count.into()),
            );
        }
    });
    Some(edited.ok()?.build())
}

/// Gives tags to a run of deliveries of one channel and pushes them, under the channel's lock.
fn hand_over(queue: &Arc<Queue>, state: &mut QueueState, holder: &Arc<Holder>, run: &[Ready<'_>]) {
    let mut deliveries = holder.deliveries.lock();
    if !deliveries.open {
        // The channel's end is on its way to this queue and takes these back.
        return;
    }
    deliveries.touch(queue.id);
    let mut out: SmallVec<[Outgoing<'_>; 32]> = SmallVec::with_capacity(run.len());
    let mut last: Option<(ConsumerId, &str)> = None;
    let mut had_places = 0;
    for ready in run {
        let Some(consumer) = ready.delivery.consumer else {
            continue;
        };
        let tag = match last {
            Some((id, tag)) if id == consumer => tag,
            _ => {
                let Some(tag) = state.tags.get(&consumer) else {
                    continue;
                };
                tag.as_str()
            }
        };
        last = Some((consumer, tag));
        deliveries
            .traffic
            .delivered(ready.delivery.no_ack, ready.delivery.redelivered);
        let delivery_tag = if holder.session.is_guest() {
            // Its own node gives the tag, and keeps it.
            ready.delivery.entry.0
        } else if ready.delivery.no_ack {
            deliveries.unacked.pass().0
        } else {
            had_places += 1;
            deliveries
                .unacked
                .push(queue.id, ready.delivery.entry, Some(consumer))
                .0
        };
        out.push(Outgoing::Deliver {
            consumer_tag: tag,
            delivery_tag,
            redelivered: ready.delivery.redelivered,
            message: ready.view(),
        });
    }
    deliveries.arrived(had_places);
    let outbox = &holder.session.options.outbox;
    let waiting = outbox.push(holder.number, &out);
    drop(deliveries);
    if waiting > OUTBOX_MARK {
        let consumers: SmallVec<[ConsumerId; 4]> = run
            .iter()
            .filter_map(|ready| ready.delivery.consumer)
            .collect();
        drop(out);
        pause_until_drained(queue, state, holder, consumers);
    }
}

/// The outbox is full: these consumers wait until the connection's writer has made room.
fn pause_until_drained(
    queue: &Arc<Queue>,
    state: &mut QueueState,
    holder: &Holder,
    mut consumers: SmallVec<[ConsumerId; 4]>,
) {
    consumers.dedup();
    let session = &holder.session;
    for consumer in &consumers {
        state.machine.pause(*consumer, Pause::WINDOW);
        session.wait_for_room(queue.clone(), *consumer);
    }
    // The writer may have emptied the outbox between the push and the registration, and will not
    // say so again.
    if session.options.outbox.push(holder.number, &[]) <= OUTBOX_MARK / 2 {
        for consumer in consumers {
            state.machine.resume(consumer, Pause::WINDOW);
        }
    }
}
