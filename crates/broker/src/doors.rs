//! Built-in exchanges that are doors to the broker: what is published to them is a word on a
//! delivery that the client holds, and goes to no queue.
//!
//! * `sluicemq.deadline` pushes the deadline of the delivery back: its timeout begins anew.
//! * `sluicemq.reason` keeps the body as the application's reason for what it is about to do with
//!   the delivery; a dead letter shows it.
//!
//! Header `delivery-tag` names the delivery, header `channel` the channel of the same connection
//! that it came on, without it the publishing one. Publishing needs the permission to write to an
//! exchange of that name. It takes effect at once, also in a transaction. Who names a delivery
//! that is not out any more gets the message back, if it is mandatory.

use std::sync::Arc;

use amqp::Properties;
use broker_core::Refusal;

use crate::channel::Publish;
use crate::holder::Holder;
use crate::node::Node;

const PREFIX: &str = "sluicemq.";
const CHANNEL_HEADER: &str = "channel";
const TAG_HEADER: &str = "delivery-tag";

/// A built-in exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Deadline,
    Reason,
}

impl Door {
    /// The door of this name.
    pub(crate) fn of(exchange: &str) -> Option<Self> {
        match exchange.strip_prefix(PREFIX)? {
            "deadline" => Some(Door::Deadline),
            "reason" => Some(Door::Reason),
            _ => None,
        }
    }

    /// Does what the message asks for. Answers whether the delivery is still out.
    ///
    /// # Errors
    /// A header is missing or no number, or the reason no text.
    pub(crate) fn publish(
        self,
        node: &Node,
        holder: &Arc<Holder>,
        publish: &Publish<'_>,
    ) -> Result<bool, Refusal> {
        let fault = |why: &str| Refusal::DoorMessage {
            exchange: publish.exchange.into(),
            why: why.into(),
        };
        let properties = Properties::trusted(publish.properties);
        let headers = properties.headers().ok().flatten().unwrap_or_default();
        let number = |name: &str| match headers.get(name) {
            None => Ok(None),
            Some(value) => value
                .as_i64()
                .and_then(|number| u64::try_from(number).ok())
                .map(Some)
                .ok_or_else(|| fault(&format!("header '{name}' is no whole number"))),
        };
        let tag = number(TAG_HEADER)?
            .ok_or_else(|| fault(&format!("header '{TAG_HEADER}' is missing")))?;
        let channel = number(CHANNEL_HEADER)?.unwrap_or(holder.number.into());
        let reason = match self {
            Door::Deadline => "",
            Door::Reason => {
                std::str::from_utf8(publish.body).map_err(|_| fault("the body is no UTF-8 text"))?
            }
        };
        let channels = holder.session.channels.lock();
        let named = channels.iter().find(|of| u64::from(of.number) == channel);
        let named = named.cloned();
        drop(channels);
        let Some(named) = named else {
            return Ok(false);
        };
        let unsettled = named.deliveries.lock().unacked.peek(tag).copied();
        let Some(unsettled) = unsettled else {
            return Ok(false);
        };
        let Some(queue) = node.queue(unsettled.queue) else {
            return Ok(false);
        };
        Ok(match self {
            Door::Deadline => queue.extend(node, named.id, unsettled.entry),
            Door::Reason => queue.note_reason(named.id, unsettled.entry, reason),
        })
    }
}
