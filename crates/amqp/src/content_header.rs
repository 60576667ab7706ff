//! The content header: how large a body will be, and its properties.

use crate::properties::{Properties, PropertyError, PropertyScan};
use crate::wire::Reader;

/// Class id, weight and body size: what every content header has.
pub(crate) const CONTENT_HEADER_BYTES_MIN: usize = 12;

/// The id of the only class that carries content.
pub const BASIC_CLASS_ID: u16 = 60;

/// Why a payload is no content header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentHeaderFault {
    /// Shorter than its fixed fields. `FrameDecoder` lets no such frame through.
    #[error("the content header is cut short")]
    Truncated,
    /// RabbitMQ answers 541 `INTERNAL_ERROR`.
    #[error(transparent)]
    Properties(#[from] PropertyError),
}

/// A decoded content header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// The class whose content this is; only 60 can be expected.
    pub class_id: u16,
    /// Unused by the protocol; anything but 0 is refused by RabbitMQ.
    pub weight: u16,
    /// Bytes of the body, over all its frames. Only announced: nothing backs it yet.
    pub body_size: u64,
    /// The properties; empty when class or weight are not those of a message.
    pub properties: Properties<'a>,
    /// The deciding fields of the properties, found while checking them.
    pub scan: PropertyScan<'a>,
}

impl<'a> ContentHeader<'a> {
    /// Decodes a header frame's payload and checks the property block. With another class or
    /// weight than a message's the properties are not looked at, since nobody knows their shape.
    ///
    /// # Errors
    /// Any [`ContentHeaderFault`].
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, ContentHeaderFault> {
        let mut reader = Reader::new(payload);
        let fixed = |reader: &mut Reader<'a>| Some((reader.u16()?, reader.u16()?, reader.u64()?));
        let (class_id, weight, body_size) =
            fixed(&mut reader).ok_or(ContentHeaderFault::Truncated)?;
        let (properties, scan) = if class_id == BASIC_CLASS_ID && weight == 0 {
            Properties::parse_and_scan(reader.rest())?
        } else {
            (Properties::empty(), PropertyScan::default())
        };
        Ok(Self {
            class_id,
            weight,
            body_size,
            properties,
            scan,
        })
    }
}
