//! The fourteen basic properties, in the order of their flags.
//! Knows nothing of what a broker does with them.

use super::reader::{Malformed, Reader};
use super::value::{Table, Value, put_short_string};

/// Delivery mode of a message that must survive a restart.
pub const PERSISTENT: u8 = 2;
/// Delivery mode of a message that need not.
pub const TRANSIENT: u8 = 1;

/// The basic properties of a message; `None` is a property that is not on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    /// `content-type`
    pub content_type: Option<String>,
    /// `content-encoding`
    pub content_encoding: Option<String>,
    /// `headers`
    pub headers: Option<Table>,
    /// `delivery-mode`
    pub delivery_mode: Option<u8>,
    /// `priority`
    pub priority: Option<u8>,
    /// `correlation-id`
    pub correlation_id: Option<String>,
    /// `reply-to`
    pub reply_to: Option<String>,
    /// `expiration`, milliseconds as text.
    pub expiration: Option<String>,
    /// `message-id`
    pub message_id: Option<String>,
    /// `timestamp`, seconds.
    pub timestamp: Option<u64>,
    /// `type`
    pub kind: Option<String>,
    /// `user-id`
    pub user_id: Option<String>,
    /// `app-id`
    pub app_id: Option<String>,
    /// `cluster-id`
    pub cluster_id: Option<String>,
}

impl Properties {
    /// A message that must survive a restart.
    pub fn persistent() -> Properties {
        Properties {
            delivery_mode: Some(PERSISTENT),
            ..Properties::default()
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, key: &str, value: impl Into<Value>) -> Properties {
        self.headers = Some(self.headers.unwrap_or_default().with(key, value));
        self
    }

    /// Sets the expiration, in milliseconds as text.
    #[must_use]
    pub fn expires(mut self, after_ms: &str) -> Properties {
        self.expiration = Some(after_ms.to_owned());
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Properties {
        self.priority = Some(priority);
        self
    }

    /// The header under `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.headers.as_ref()?.get(key)
    }

    /// Flags and fields as in a content header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut flags = 0u16;
        let mut fields = Vec::new();
        let mut text = |bit: u16, value: &Option<String>, fields: &mut Vec<u8>| {
            if let Some(value) = value {
                flags |= 1 << bit;
                put_short_string(fields, value.as_bytes());
            }
        };
        text(15, &self.content_type, &mut fields);
        text(14, &self.content_encoding, &mut fields);
        if let Some(headers) = &self.headers {
            headers.encode(&mut fields);
        }
        fields.extend(self.delivery_mode);
        fields.extend(self.priority);
        text(10, &self.correlation_id, &mut fields);
        text(9, &self.reply_to, &mut fields);
        text(8, &self.expiration, &mut fields);
        text(7, &self.message_id, &mut fields);
        if let Some(timestamp) = self.timestamp {
            fields.extend(timestamp.to_be_bytes());
        }
        text(5, &self.kind, &mut fields);
        text(4, &self.user_id, &mut fields);
        text(3, &self.app_id, &mut fields);
        text(2, &self.cluster_id, &mut fields);
        flags |= u16::from(self.headers.is_some()) << 13
            | u16::from(self.delivery_mode.is_some()) << 12
            | u16::from(self.priority.is_some()) << 11
            | u16::from(self.timestamp.is_some()) << 6;
        out.extend(flags.to_be_bytes());
        out.extend(fields);
    }

    /// Reads flags and fields of a content header.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Properties, Malformed> {
        let flags = reader.short()?;
        let has = |bit: u16| flags & (1 << bit) != 0;
        let text = |bit: u16, reader: &mut Reader<'_>| -> Result<Option<String>, Malformed> {
            if !has(bit) {
                return Ok(None);
            }
            Ok(Some(
                String::from_utf8_lossy(reader.short_string()?).into_owned(),
            ))
        };
        Ok(Properties {
            content_type: text(15, reader)?,
            content_encoding: text(14, reader)?,
            headers: if has(13) {
                Some(Table::decode(reader)?)
            } else {
                None
            },
            delivery_mode: if has(12) { Some(reader.octet()?) } else { None },
            priority: if has(11) { Some(reader.octet()?) } else { None },
            correlation_id: text(10, reader)?,
            reply_to: text(9, reader)?,
            expiration: text(8, reader)?,
            message_id: text(7, reader)?,
            timestamp: if has(6) {
                Some(reader.long_long()?)
            } else {
                None
            },
            kind: text(5, reader)?,
            user_id: text(4, reader)?,
            app_id: text(3, reader)?,
            cluster_id: text(2, reader)?,
        })
    }
}
