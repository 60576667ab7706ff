//! What routing wants to know of a message: its exchange, its keys, and on demand its headers.

use std::cell::OnceCell;

use amqp::{Properties, Table, Value};
use smallvec::SmallVec;

use crate::metadata::QueueId;
use crate::refusal::{Refusal, Result};

const CARBON_COPY: &str = "CC";
const BLIND_CARBON_COPY: &str = "BCC";

/// A message on its way. Built for each publish; borrows everything.
#[derive(Clone, Copy)]
pub struct RouteRequest<'a> {
    /// The exchange that it was published to; empty for the default one.
    pub exchange: &'a str,
    /// The routing key.
    pub routing_key: &'a [u8],
    /// Keys of the `CC` and `BCC` headers.
    pub extra_keys: &'a [&'a [u8]],
    /// The message's properties, for exchanges that look at them.
    pub message: &'a dyn MessageView,
    /// A random number, for exchanges that choose at random.
    pub seed: u64,
    /// Whether a client publishes: internal exchanges refuse it. Dead-lettering and the firehose
    /// may.
    pub from_publisher: bool,
    /// Whether a queue lives on this node; `None` when all do.
    pub is_local: Option<&'a dyn Fn(QueueId) -> bool>,
}

impl<'a> RouteRequest<'a> {
    /// A client's publish without extra keys.
    pub fn publish(exchange: &'a str, routing_key: &'a [u8], message: &'a dyn MessageView) -> Self {
        Self {
            exchange,
            routing_key,
            extra_keys: &[],
            message,
            seed: 0,
            from_publisher: true,
            is_local: None,
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::once(self.routing_key).chain(self.extra_keys.iter().copied())
    }
}

/// What bindings can look at beside the key.
pub trait MessageView {
    /// The headers, decoded on first use; `None` when the message has none.
    fn headers(&self) -> Option<&Table>;
    /// The `message_id` property.
    fn message_id(&self) -> Option<&[u8]>;
    /// The `correlation_id` property.
    fn correlation_id(&self) -> Option<&[u8]>;
    /// The `timestamp` property, in seconds.
    fn timestamp(&self) -> Option<u64>;
}

/// A property block whose headers are decoded when somebody asks, once.
pub struct LazyMessage<'a> {
    properties: Properties<'a>,
    headers: OnceCell<Option<Table>>,
}

impl<'a> LazyMessage<'a> {
    /// Looks at a block that has been validated.
    pub fn new(properties: Properties<'a>) -> Self {
        Self {
            properties,
            headers: OnceCell::new(),
        }
    }
}

impl MessageView for LazyMessage<'_> {
    fn headers(&self) -> Option<&Table> {
        self.headers
            .get_or_init(|| self.properties.headers().ok().flatten())
            .as_ref()
    }

    fn message_id(&self) -> Option<&[u8]> {
        self.properties.message_id()
    }

    fn correlation_id(&self) -> Option<&[u8]> {
        self.properties.correlation_id()
    }

    fn timestamp(&self) -> Option<u64> {
        self.properties.timestamp()
    }
}

/// A message without properties.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMessage;

impl MessageView for NoMessage {
    fn headers(&self) -> Option<&Table> {
        None
    }

    fn message_id(&self) -> Option<&[u8]> {
        None
    }

    fn correlation_id(&self) -> Option<&[u8]> {
        None
    }

    fn timestamp(&self) -> Option<u64> {
        None
    }
}

/// A message that is nothing but headers.
impl MessageView for Table {
    fn headers(&self) -> Option<&Table> {
        Some(self)
    }

    fn message_id(&self) -> Option<&[u8]> {
        None
    }

    fn correlation_id(&self) -> Option<&[u8]> {
        None
    }

    fn timestamp(&self) -> Option<u64> {
        None
    }
}

/// The extra routing keys in the `CC` and `BCC` headers. Elements that are no strings are skipped.
///
/// # Errors
/// `InvalidCarbonCopy` when one of the headers is no array.
// rabbitmq docs: sender-selected distribution
pub fn carbon_copy_keys(headers: &Table) -> Result<SmallVec<[&[u8]; 4]>> {
    let mut keys = keys_in(headers, CARBON_COPY)?;
    keys.extend(keys_in(headers, BLIND_CARBON_COPY)?);
    Ok(keys)
}

/// The keys of the `BCC` header alone, which nobody but the router may see.
///
/// # Errors
/// `InvalidCarbonCopy` when the header is no array.
pub fn bcc_keys(headers: &Table) -> Result<SmallVec<[&[u8]; 4]>> {
    keys_in(headers, BLIND_CARBON_COPY)
}

fn keys_in<'a>(headers: &'a Table, name: &str) -> Result<SmallVec<[&'a [u8]; 4]>> {
    match headers.get(name) {
        None => Ok(SmallVec::new()),
        Some(Value::Array(keys)) => Ok(keys
            .iter()
            .filter_map(|key| match key {
                Value::LongString(text) => Some(text.as_bytes()),
                _ => None,
            })
            .collect()),
        Some(other) => Err(Refusal::InvalidCarbonCopy {
            header: name.into(),
            type_name: other.type_name().into(),
        }),
    }
}
