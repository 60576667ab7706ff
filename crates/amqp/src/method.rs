//! Methods: what a method frame's payload says.
//!
//! The methods that come with every message are read by hand, borrowed and without allocation;
//! all others go through `amq-protocol`. Tables never do: it would lose order, types and
//! duplicate keys, so they are decoded by our own code and stand beside the method.

use std::borrow::Cow;
use std::ops::Range;

use amq_protocol::protocol::{AMQPClass, parse_class};

use crate::basic::{
    BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicPublish, BasicReject, BasicReturn,
};
use crate::content_header::BASIC_CLASS_ID;
use crate::layout::{Layout, Misfit};
use crate::notation::push_octets;
use crate::reply_code::ReplyCode;
use crate::value::Table;
use crate::wire::Reader;

/// Class id and method id, which open every method frame's payload.
pub(crate) const METHOD_IDS_BYTES: usize = 4;

/// A decoded method.
#[derive(Clone, Debug, PartialEq)]
pub enum Method<'a> {
    /// `basic.publish`
    BasicPublish(BasicPublish<&'a str>),
    /// `basic.ack`
    BasicAck(BasicAck),
    /// `basic.nack`
    BasicNack(BasicNack),
    /// `basic.reject`
    BasicReject(BasicReject),
    /// `basic.deliver`
    BasicDeliver(BasicDeliver<&'a str>),
    /// `basic.get-ok`
    BasicGetOk(BasicGetOk<&'a str>),
    /// `basic.return`
    BasicReturn(BasicReturn<&'a str>),
    /// Every other method; boxed to keep the ones above small.
    Other(Box<OtherMethod>),
}

/// A method that does not come with every message.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherMethod {
    /// The method. Its own table field is always empty: see [`OtherMethod::table`].
    pub call: AMQPClass,
    /// The arguments of declare, bind, unbind and consume, or the properties of start and
    /// start-ok, as they were sent; empty for methods that have no table.
    pub table: Table,
}

/// Why a payload is no method. Ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodFault {
    /// RabbitMQ drops the socket without a word.
    #[error("unknown class {class}")]
    UnknownClass {
        /// Its id.
        class: u16,
    },
    /// The class exists, the method does not.
    #[error("unknown method {class}/{method}")]
    UnknownMethod {
        /// The class id.
        class: u16,
        /// The method id.
        method: u16,
    },
    /// The arguments are cut short, overlong, or hold a table that is none.
    #[error("malformed arguments of method {class}/{method}")]
    Malformed {
        /// The class id.
        class: u16,
        /// The method id.
        method: u16,
    },
    /// A short string is not UTF-8.
    #[error("a short string of method {class}/{method} is not UTF-8")]
    NotUtf8 {
        /// The class id.
        class: u16,
        /// The method id.
        method: u16,
    },
}

impl MethodFault {
    /// The code to close the connection with; `None` means to drop it without a close.
    // rabbitmq: arguments that cannot be decoded crash its reader on channel 0
    #[must_use]
    pub const fn reply_code(&self, channel: u16) -> Option<ReplyCode> {
        match self {
            Self::UnknownClass { .. } => None,
            Self::Malformed { .. } if channel == 0 => Some(ReplyCode::InternalError),
            _ => Some(ReplyCode::FrameError),
        }
    }

    /// RabbitMQ's explanation, given the payload that could not be decoded; empty where there is
    /// none.
    #[must_use]
    pub fn explanation(&self, channel: u16, payload: &[u8]) -> String {
        let arguments = payload.get(METHOD_IDS_BYTES..).unwrap_or_default();
        match self {
            Self::UnknownClass { .. } => String::new(),
            Self::Malformed { .. } if channel == 0 => String::new(),
            Self::UnknownMethod { .. } | Self::Malformed { .. } => {
                let mut text = "cannot decode ".to_owned();
                push_octets(&mut text, arguments);
                text
            }
            Self::NotUtf8 { .. } => "Malformed UTF-8 in shortstr".to_owned(),
        }
    }

    /// Class id and method id to name in the close; 0 and 0 where RabbitMQ names none.
    #[must_use]
    pub const fn ids(&self, channel: u16) -> (u16, u16) {
        match *self {
            Self::UnknownClass { .. } => (0, 0),
            Self::Malformed { .. } if channel == 0 => (0, 0),
            Self::NotUtf8 { .. } => (0, 0),
            Self::UnknownMethod { class, method } | Self::Malformed { class, method } => {
                (class, method)
            }
        }
    }
}

impl<'a> Method<'a> {
    /// Decodes a method frame's payload.
    ///
    /// # Errors
    /// Any [`MethodFault`].
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, MethodFault> {
        let mut reader = Reader::new(payload);
        let (Some(class), Some(method)) = (reader.u16(), reader.u16()) else {
            return Err(MethodFault::Malformed {
                class: 0,
                method: 0,
            });
        };
        if class != BASIC_CLASS_ID {
            return decode_other(class, method, payload);
        }
        let malformed = MethodFault::Malformed { class, method };
        let not_utf8 = MethodFault::NotUtf8 { class, method };
        match method {
            40 => {
                let publish = whole(BasicPublish::read(&mut reader), &reader).ok_or(malformed)?;
                publish.checked().map(Self::BasicPublish).ok_or(not_utf8)
            }
            80 => whole(BasicAck::read(&mut reader), &reader)
                .map(Self::BasicAck)
                .ok_or(malformed),
            60 => {
                let deliver = whole(BasicDeliver::read(&mut reader), &reader).ok_or(malformed)?;
                deliver.checked().map(Self::BasicDeliver).ok_or(not_utf8)
            }
            120 => whole(BasicNack::read(&mut reader), &reader)
                .map(Self::BasicNack)
                .ok_or(malformed),
            90 => whole(BasicReject::read(&mut reader), &reader)
                .map(Self::BasicReject)
                .ok_or(malformed),
            71 => {
                let get_ok = whole(BasicGetOk::read(&mut reader), &reader).ok_or(malformed)?;
                get_ok.checked().map(Self::BasicGetOk).ok_or(not_utf8)
            }
            50 => {
                let returned = whole(BasicReturn::read(&mut reader), &reader).ok_or(malformed)?;
                returned.checked().map(Self::BasicReturn).ok_or(not_utf8)
            }
            _ => decode_other(class, method, payload),
        }
    }

    /// Class id and method id of a payload, whether it can be decoded or not.
    #[must_use]
    pub fn ids(payload: &[u8]) -> Option<(u16, u16)> {
        let mut reader = Reader::new(payload);
        Some((reader.u16()?, reader.u16()?))
    }
}

/// What was read, if nothing is left behind it: overlong arguments are malformed, too.
#[inline]
fn whole<T>(read: Option<T>, reader: &Reader<'_>) -> Option<T> {
    read.filter(|_| reader.is_empty())
}

#[cold]
#[inline(never)]
fn decode_other<'a>(class: u16, method: u16, payload: &[u8]) -> Result<Method<'a>, MethodFault> {
    let slots = match Layout::of(class, method) {
        Layout::Known(slots) => slots,
        Layout::UnknownMethod => return Err(MethodFault::UnknownMethod { class, method }),
        Layout::UnknownClass => return Err(MethodFault::UnknownClass { class }),
    };
    let malformed = MethodFault::Malformed { class, method };
    let arguments = payload.get(METHOD_IDS_BYTES..).unwrap_or_default();
    let place = Layout::walk(slots, arguments).map_err(|misfit| match misfit {
        Misfit::Length => malformed,
        Misfit::NotUtf8 => MethodFault::NotUtf8 { class, method },
    })?;
    let (table, bare) = match place {
        Some(place) => take_table(payload, place).ok_or(malformed)?,
        None => (Table::new(), Cow::Borrowed(payload)),
    };
    match parse_class(bare.as_ref()) {
        Ok(([], call)) => Ok(Method::Other(Box::new(OtherMethod { call, table }))),
        _ => Err(malformed),
    }
}

/// Decodes the table at `place` of the arguments, and makes a payload with an empty one instead.
fn take_table(payload: &[u8], place: Range<usize>) -> Option<(Table, Cow<'_, [u8]>)> {
    const NO_ENTRIES: [u8; 4] = [0; 4];
    let (before, rest) = payload.split_at_checked(METHOD_IDS_BYTES + place.start)?;
    let (table, consumed) = Table::decode_prefixed(rest).ok()?;
    let behind = rest.get(consumed..)?;
    Some((table, Cow::Owned([before, &NO_ENTRIES, behind].concat())))
}
