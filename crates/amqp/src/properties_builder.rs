//! Making a property block: from nothing, or from an old block with some fields changed.
//!
//! Untouched fields are copied as the bytes they were, the headers included. Knows nothing of
//! why a broker changes a field.

use std::borrow::Cow;

use crate::octets::ShortString;
use crate::properties::{Field, Properties};
use crate::table_codec::TableError;
use crate::value::{Table, Value};
use crate::wire::put_short_string;

/// A property block in the making.
///
/// Fields given as text or bytes are short strings: at most 255 bytes are kept.
#[derive(Clone, Debug, Default)]
pub struct PropertiesBuilder<'a> {
    /// Each field as it will be on the wire, in the order of [`Field::ALL`].
    fields: [Option<Cow<'a, [u8]>>; Field::ALL.len()],
}

/// Starts from every field of an old block.
impl<'a> From<Properties<'a>> for PropertiesBuilder<'a> {
    fn from(properties: Properties<'a>) -> Self {
        let mut builder = Self::default();
        for (field, bytes) in properties.encoded_fields() {
            builder.set(field, Some(Cow::Borrowed(bytes)));
        }
        builder
    }
}

impl<'a> PropertiesBuilder<'a> {
    /// Starts without any field.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the MIME type of the body.
    #[must_use]
    pub fn content_type(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::ContentType, text.as_ref())
    }

    /// Sets the MIME encoding of the body.
    #[must_use]
    pub fn content_encoding(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::ContentEncoding, text.as_ref())
    }

    /// Replaces the whole headers table.
    #[must_use]
    pub fn headers(mut self, headers: &Table) -> Self {
        let mut bytes = Vec::new();
        headers.encode_prefixed(&mut bytes);
        self.set(Field::Headers, Some(Cow::Owned(bytes)));
        self
    }

    /// Sets one header, replacing the first of that name; the others keep their place.
    ///
    /// # Errors
    /// The headers at hand are not a table; never for a block that passed [`Properties::parse`].
    pub fn header(
        self,
        key: impl Into<ShortString>,
        value: impl Into<Value>,
    ) -> Result<Self, TableError> {
        self.edit_headers(|headers| drop(headers.insert(key, value)))
    }

    /// Lets `edit` change the headers, which are empty where there are none. The table exists
    /// afterwards, be it empty; [`PropertiesBuilder::without_headers`] takes it away.
    ///
    /// # Errors
    /// The headers at hand are not a table; never for a block that passed [`Properties::parse`].
    pub fn edit_headers(self, edit: impl FnOnce(&mut Table)) -> Result<Self, TableError> {
        let mut headers = match self.fields.get(Field::Headers as usize) {
            Some(Some(bytes)) => Table::decode_prefixed(bytes)?.0,
            _ => Table::new(),
        };
        edit(&mut headers);
        Ok(self.headers(&headers))
    }

    /// Sets the delivery mode; 2 means persistent.
    #[must_use]
    pub fn delivery_mode(self, mode: u8) -> Self {
        self.fixed(Field::DeliveryMode, &[mode])
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(self, priority: u8) -> Self {
        self.fixed(Field::Priority, &[priority])
    }

    /// Sets the application's word for the request this answers.
    #[must_use]
    pub fn correlation_id(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::CorrelationId, text.as_ref())
    }

    /// Sets where an answer shall go.
    #[must_use]
    pub fn reply_to(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::ReplyTo, text.as_ref())
    }

    /// Sets the expiration: milliseconds as decimal text.
    #[must_use]
    pub fn expiration(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::Expiration, text.as_ref())
    }

    /// Sets the application's name for the message.
    #[must_use]
    pub fn message_id(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::MessageId, text.as_ref())
    }

    /// Sets the time of the message, in seconds since 1970.
    #[must_use]
    pub fn timestamp(self, seconds: u64) -> Self {
        self.fixed(Field::Timestamp, &seconds.to_be_bytes())
    }

    /// Sets the application's kind of message.
    #[must_use]
    pub fn type_(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::Type, text.as_ref())
    }

    /// Sets who the publisher says he is.
    #[must_use]
    pub fn user_id(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::UserId, text.as_ref())
    }

    /// Sets the publishing application.
    #[must_use]
    pub fn app_id(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::AppId, text.as_ref())
    }

    /// Sets the cluster id.
    #[must_use]
    pub fn cluster_id(self, text: impl AsRef<[u8]>) -> Self {
        self.short(Field::ClusterId, text.as_ref())
    }

    /// Takes the expiration away.
    #[must_use]
    pub fn without_expiration(mut self) -> Self {
        self.set(Field::Expiration, None);
        self
    }

    /// Takes the headers table away.
    #[must_use]
    pub fn without_headers(mut self) -> Self {
        self.set(Field::Headers, None);
        self
    }

    /// Appends the block: flags and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let present = || {
            Field::ALL
                .iter()
                .zip(&self.fields)
                .filter(|(_, bytes)| bytes.is_some())
        };
        let flags = present().fold(0, |flags, (field, _)| flags | field.flag());
        out.extend_from_slice(&flags.to_be_bytes());
        for bytes in self.fields.iter().flatten() {
            out.extend_from_slice(bytes);
        }
    }

    /// The block: flags and fields.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let fields_bytes: usize = self.fields.iter().flatten().map(|bytes| bytes.len()).sum();
        let mut raw = Vec::with_capacity(fields_bytes.saturating_add(2));
        self.encode(&mut raw);
        raw
    }

    fn short(mut self, field: Field, bytes: &[u8]) -> Self {
        let mut encoded = Vec::with_capacity(bytes.len().saturating_add(1));
        put_short_string(&mut encoded, bytes);
        self.set(field, Some(Cow::Owned(encoded)));
        self
    }

    fn fixed(mut self, field: Field, bytes: &[u8]) -> Self {
        self.set(field, Some(Cow::Owned(bytes.to_vec())));
        self
    }

    fn set(&mut self, field: Field, bytes: Option<Cow<'a, [u8]>>) {
        if let Some(place) = self.fields.get_mut(field as usize) {
            *place = bytes;
        }
    }
}
