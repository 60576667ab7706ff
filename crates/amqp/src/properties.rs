//! The property block of a content header: two flag octets and the fields they announce.
//!
//! A block stays the bytes that came in and is handed on as such; fields are read from it on
//! demand. Knows the fields' places and types, not what a broker does with them. Short strings
//! are plain bytes: RabbitMQ checks no UTF-8 here.

use crate::table_codec::TableError;
use crate::value::{Table, Value};
use crate::wire::Reader;

/// Why bytes are not a property block. RabbitMQ answers each with 541 `INTERNAL_ERROR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// Flag bit 0 announces a second flag word, which no property needs.
    #[error("the property flags are continued")]
    Continued,
    /// A field reaches beyond the block.
    #[error("the property block is cut short")]
    Truncated,
    /// Bytes are left after the last field.
    #[error("{bytes} bytes follow the last property")]
    Overlong {
        /// How many.
        bytes: usize,
    },
    /// The headers are not a table.
    #[error("headers: {0}")]
    Headers(#[from] TableError),
}

/// The fields in the order of their flags, bit 15 downward.
// amqp: class basic, fields
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Field {
    ContentType,
    ContentEncoding,
    Headers,
    DeliveryMode,
    Priority,
    CorrelationId,
    ReplyTo,
    Expiration,
    MessageId,
    Timestamp,
    Type,
    UserId,
    AppId,
    ClusterId,
}

impl Field {
    pub(crate) const ALL: [Self; 14] = [
        Self::ContentType,
        Self::ContentEncoding,
        Self::Headers,
        Self::DeliveryMode,
        Self::Priority,
        Self::CorrelationId,
        Self::ReplyTo,
        Self::Expiration,
        Self::MessageId,
        Self::Timestamp,
        Self::Type,
        Self::UserId,
        Self::AppId,
        Self::ClusterId,
    ];

    /// This field's bit of the flag word.
    #[inline]
    pub(crate) const fn flag(self) -> u16 {
        0x8000 >> self as u8
    }

    /// Reads past this field; answers its bytes without a length prefix.
    #[inline]
    fn read<'a>(self, reader: &mut Reader<'a>) -> Option<&'a [u8]> {
        match self {
            Self::DeliveryMode | Self::Priority => reader.take(1),
            Self::Timestamp => reader.take(8),
            Self::Headers => reader.long_string(),
            _ => reader.short_string(),
        }
    }
}

/// Flag bit 0: a second flag word follows.
const CONTINUATION_FLAG: u16 = 1;

/// The block of a message without properties.
const EMPTY: &[u8] = &[0, 0];

/// A property block as it is on the wire, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties<'a> {
    raw: &'a [u8],
}

/// The few fields that decide what happens to a published message, read in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PropertyScan<'a> {
    /// 2 means persistent; any other number and none mean transient.
    pub delivery_mode: Option<u8>,
    /// As published, not yet limited by any queue.
    pub priority: Option<u8>,
    /// Milliseconds as decimal text, unchecked.
    pub expiration: Option<&'a [u8]>,
    /// Whether a headers table exists, be it empty.
    pub has_headers: bool,
    /// Who the publisher says he is.
    pub user_id: Option<&'a [u8]>,
    /// Where an answer shall go.
    pub reply_to: Option<&'a [u8]>,
}

impl<'a> Properties<'a> {
    /// The block of a message without properties.
    #[must_use]
    pub const fn empty() -> Properties<'static> {
        Properties { raw: EMPTY }
    }

    /// Checks the whole block: flags, the length of every field, the shape of the headers.
    /// The unused flag bit 1 is tolerated.
    ///
    /// # Errors
    /// Any [`PropertyError`].
    pub fn parse(raw: &'a [u8]) -> Result<Self, PropertyError> {
        Self::parse_and_scan(raw).map(|(properties, _)| properties)
    }

    /// [`Properties::parse`] and [`Properties::scan`] in one pass, for the path of a publish.
    ///
    /// # Errors
    /// Any [`PropertyError`].
    #[inline]
    pub fn parse_and_scan(raw: &'a [u8]) -> Result<(Self, PropertyScan<'a>), PropertyError> {
        let mut scan = PropertyScan::default();
        let mut reader = Reader::new(raw);
        let flags = reader.u16().ok_or(PropertyError::Truncated)?;
        if flags & CONTINUATION_FLAG != 0 {
            return Err(PropertyError::Continued);
        }
        for field in Fields::of(flags) {
            let bytes = field.read(&mut reader).ok_or(PropertyError::Truncated)?;
            if field == Field::Headers {
                Table::check(bytes)?;
            }
            scan.note(field, bytes);
        }
        match reader.rest().len() {
            0 => Ok((Self { raw }, scan)),
            bytes => Err(PropertyError::Overlong { bytes }),
        }
    }

    /// Takes a block that passed [`Properties::parse`] before, e.g. one read back from a record.
    /// A block that did not is read as far as it makes sense; nothing panics.
    #[must_use]
    pub const fn trusted(raw: &'a [u8]) -> Self {
        Self { raw }
    }

    /// The block: flags and fields.
    #[must_use]
    pub const fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The fields that decide what happens to a published message.
    #[must_use]
    pub fn scan(&self) -> PropertyScan<'a> {
        let mut scan = PropertyScan::default();
        let mut reader = Reader::new(self.raw);
        for field in Fields::of(reader.u16().unwrap_or(0)) {
            let Some(bytes) = field.read(&mut reader) else {
                break;
            };
            scan.note(field, bytes);
        }
        scan
    }

    /// MIME type of the body.
    #[must_use]
    pub fn content_type(&self) -> Option<&'a [u8]> {
        self.field(Field::ContentType)
    }

    /// MIME encoding of the body.
    #[must_use]
    pub fn content_encoding(&self) -> Option<&'a [u8]> {
        self.field(Field::ContentEncoding)
    }

    /// The entries of the headers table, without its four length octets.
    #[must_use]
    pub fn headers_raw(&self) -> Option<&'a [u8]> {
        self.field(Field::Headers)
    }

    /// The headers, decoded.
    ///
    /// # Errors
    /// Never for a block that passed [`Properties::parse`].
    pub fn headers(&self) -> Result<Option<Table>, TableError> {
        self.headers_raw().map(Table::decode).transpose()
    }

    /// One header, decoded alone: nothing is allocated for the others.
    #[must_use]
    pub fn header(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        Table::find(self.headers_raw()?, key).ok().flatten()
    }

    /// Whether a headers table exists, be it empty.
    #[must_use]
    pub fn has_headers(&self) -> bool {
        self.flags() & Field::Headers.flag() != 0
    }

    /// 2 means persistent.
    #[must_use]
    pub fn delivery_mode(&self) -> Option<u8> {
        self.field(Field::DeliveryMode)?.first().copied()
    }

    /// As published.
    #[must_use]
    pub fn priority(&self) -> Option<u8> {
        self.field(Field::Priority)?.first().copied()
    }

    /// The application's word for the request this answers.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&'a [u8]> {
        self.field(Field::CorrelationId)
    }

    /// Where an answer shall go.
    #[must_use]
    pub fn reply_to(&self) -> Option<&'a [u8]> {
        self.field(Field::ReplyTo)
    }

    /// Milliseconds as decimal text, unchecked.
    #[must_use]
    pub fn expiration(&self) -> Option<&'a [u8]> {
        self.field(Field::Expiration)
    }

    /// The application's name for the message.
    #[must_use]
    pub fn message_id(&self) -> Option<&'a [u8]> {
        self.field(Field::MessageId)
    }

    /// Seconds since 1970.
    #[must_use]
    pub fn timestamp(&self) -> Option<u64> {
        self.field(Field::Timestamp)?
            .first_chunk()
            .copied()
            .map(u64::from_be_bytes)
    }

    /// The application's kind of message.
    #[must_use]
    pub fn type_(&self) -> Option<&'a [u8]> {
        self.field(Field::Type)
    }

    /// Who the publisher says he is.
    #[must_use]
    pub fn user_id(&self) -> Option<&'a [u8]> {
        self.field(Field::UserId)
    }

    /// The publishing application.
    #[must_use]
    pub fn app_id(&self) -> Option<&'a [u8]> {
        self.field(Field::AppId)
    }

    /// Deprecated by the standard, handed on all the same.
    #[must_use]
    pub fn cluster_id(&self) -> Option<&'a [u8]> {
        self.field(Field::ClusterId)
    }

    fn flags(&self) -> u16 {
        Reader::new(self.raw).u16().unwrap_or(0)
    }

    fn field(&self, wanted: Field) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.raw);
        let flags = reader.u16()?;
        if flags & wanted.flag() == 0 {
            return None;
        }
        // Only what stands before the wanted field has to be read past.
        let earlier = !(wanted.flag() | (wanted.flag() - 1));
        for field in Fields::of(flags & earlier) {
            field.read(&mut reader)?;
        }
        wanted.read(&mut reader)
    }

    /// Each field that is present with its bytes as they are on the wire, length included.
    pub(crate) fn encoded_fields(&self) -> impl Iterator<Item = (Field, &'a [u8])> {
        let mut reader = Reader::new(self.raw);
        let flags = reader.u16().unwrap_or(0);
        Fields::of(flags).map_while(move |field| {
            let before = reader.rest();
            field.read(&mut reader)?;
            let taken = before.len().saturating_sub(reader.rest().len());
            Some((field, before.get(..taken)?))
        })
    }
}

impl<'a> PropertyScan<'a> {
    #[inline]
    fn note(&mut self, field: Field, bytes: &'a [u8]) {
        match field {
            Field::Headers => self.has_headers = true,
            Field::DeliveryMode => self.delivery_mode = bytes.first().copied(),
            Field::Priority => self.priority = bytes.first().copied(),
            Field::ReplyTo => self.reply_to = Some(bytes),
            Field::Expiration => self.expiration = Some(bytes),
            Field::UserId => self.user_id = Some(bytes),
            _ => {}
        }
    }
}

/// The fields that a flag word announces.
#[derive(Clone, Copy, Debug)]
struct Fields {
    flags: u16,
}

impl Fields {
    #[inline]
    fn of(flags: u16) -> Self {
        // Bits 0 and 1 announce no field.
        Self {
            flags: flags & !0b11,
        }
    }
}

impl Iterator for Fields {
    type Item = Field;

    #[inline]
    fn next(&mut self) -> Option<Field> {
        let place = usize::try_from(self.flags.leading_zeros()).ok()?;
        let field = *Field::ALL.get(place)?;
        self.flags &= !field.flag();
        Some(field)
    }
}
