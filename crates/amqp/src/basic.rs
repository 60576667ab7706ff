//! The methods of class basic that come with every message.
//!
//! Their names are generic over how text is held: decoding gives checked `&str`, encoding takes
//! whatever is bytes, so a broker can send from a stored record without checking it again.

use crate::wire::Reader;

/// `basic.publish`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicPublish<S> {
    /// Where to; empty is the default exchange.
    pub exchange: S,
    /// What bindings are compared with.
    pub routing_key: S,
    /// Return the message when no queue matches.
    pub mandatory: bool,
    /// Refused by RabbitMQ.
    pub immediate: bool,
}

/// `basic.deliver`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicDeliver<S> {
    /// Whose delivery.
    pub consumer_tag: S,
    /// Its number on the channel.
    pub delivery_tag: u64,
    /// Whether it may have been delivered before.
    pub redelivered: bool,
    /// Where the message was published to.
    pub exchange: S,
    /// With which key.
    pub routing_key: S,
}

/// `basic.get-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicGetOk<S> {
    /// Its number on the channel.
    pub delivery_tag: u64,
    /// Whether it may have been delivered before.
    pub redelivered: bool,
    /// Where the message was published to.
    pub exchange: S,
    /// With which key.
    pub routing_key: S,
    /// Ready messages left in the queue.
    pub message_count: u32,
}

/// `basic.return`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicReturn<S> {
    /// Why, as a number.
    pub reply_code: u16,
    /// Why, in words.
    pub reply_text: S,
    /// Where the message was published to.
    pub exchange: S,
    /// With which key.
    pub routing_key: S,
}

/// `basic.ack`, of a delivery or, from the server, of a publish
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicAck {
    /// Which one.
    pub delivery_tag: u64,
    /// And all before it.
    pub multiple: bool,
}

/// `basic.nack`, of a delivery or, from the server, of a publish
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicNack {
    /// Which one.
    pub delivery_tag: u64,
    /// And all before it.
    pub multiple: bool,
    /// Back to the queue instead of away.
    pub requeue: bool,
}

/// `basic.reject`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicReject {
    /// Which one.
    pub delivery_tag: u64,
    /// Back to the queue instead of away.
    pub requeue: bool,
}

const BIT_0: u8 = 1;
const BIT_1: u8 = 2;

// Each `read` answers `None` when the arguments are shorter than the method's fields.

impl<'a> BasicPublish<&'a [u8]> {
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        reader.take(2)?; // reserved: the access ticket
        let exchange = reader.short_string()?;
        let routing_key = reader.short_string()?;
        let bits = reader.u8()?;
        let (mandatory, immediate) = (bits & BIT_0 != 0, bits & BIT_1 != 0);
        Some(Self {
            exchange,
            routing_key,
            mandatory,
            immediate,
        })
    }

    #[inline]
    pub(crate) fn checked(self) -> Option<BasicPublish<&'a str>> {
        Some(BasicPublish {
            exchange: text(self.exchange)?,
            routing_key: text(self.routing_key)?,
            mandatory: self.mandatory,
            immediate: self.immediate,
        })
    }
}

impl<'a> BasicDeliver<&'a [u8]> {
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Some(Self {
            consumer_tag: reader.short_string()?,
            delivery_tag: reader.u64()?,
            redelivered: reader.u8()? & BIT_0 != 0,
            exchange: reader.short_string()?,
            routing_key: reader.short_string()?,
        })
    }

    #[inline]
    pub(crate) fn checked(self) -> Option<BasicDeliver<&'a str>> {
        Some(BasicDeliver {
            consumer_tag: text(self.consumer_tag)?,
            delivery_tag: self.delivery_tag,
            redelivered: self.redelivered,
            exchange: text(self.exchange)?,
            routing_key: text(self.routing_key)?,
        })
    }
}

impl<'a> BasicGetOk<&'a [u8]> {
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Some(Self {
            delivery_tag: reader.u64()?,
            redelivered: reader.u8()? & BIT_0 != 0,
            exchange: reader.short_string()?,
            routing_key: reader.short_string()?,
            message_count: reader.u32()?,
        })
    }

    #[inline]
    pub(crate) fn checked(self) -> Option<BasicGetOk<&'a str>> {
        Some(BasicGetOk {
            delivery_tag: self.delivery_tag,
            redelivered: self.redelivered,
            exchange: text(self.exchange)?,
            routing_key: text(self.routing_key)?,
            message_count: self.message_count,
        })
    }
}

impl<'a> BasicReturn<&'a [u8]> {
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Some(Self {
            reply_code: reader.u16()?,
            reply_text: reader.short_string()?,
            exchange: reader.short_string()?,
            routing_key: reader.short_string()?,
        })
    }

    #[inline]
    pub(crate) fn checked(self) -> Option<BasicReturn<&'a str>> {
        Some(BasicReturn {
            reply_code: self.reply_code,
            reply_text: text(self.reply_text)?,
            exchange: text(self.exchange)?,
            routing_key: text(self.routing_key)?,
        })
    }
}

impl BasicAck {
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let delivery_tag = reader.u64()?;
        Some(Self {
            delivery_tag,
            multiple: reader.u8()? & BIT_0 != 0,
        })
    }
}

impl BasicNack {
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let delivery_tag = reader.u64()?;
        let bits = reader.u8()?;
        Some(Self {
            delivery_tag,
            multiple: bits & BIT_0 != 0,
            requeue: bits & BIT_1 != 0,
        })
    }
}

impl BasicReject {
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let delivery_tag = reader.u64()?;
        Some(Self {
            delivery_tag,
            requeue: reader.u8()? & BIT_0 != 0,
        })
    }
}

#[inline]
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
