//! The batch format: what one journal record (one entry of a replica group) says.
//!
//! A batch is a run of commands; each names the queues it is about by id. A published message is
//! stored once for all queues of the batch, as a *blob* that deliveries are encoded from directly.
//! Nothing here knows where a batch is stored.
//!
//! ```text
//! batch    = version u8 · command*
//! publish  = 1 · meta · targets u16 · queue id u64 * targets · blob length u32 · blob
//! meta     = flags u8 · priority u8 · published_at u64 · expires_at u64 · delivery_count u32 · acquired_count u32
//! forget   = 2 · queue id u64 · count u32 · entry id u64 * count
//! handed   = 4 · queue id u64 · log index u64
//! returned = 3 · queue id u64 · entry id u64 · delivery_count u32 · acquired_count u32
//! stands   = 5 · queue id u64 · entry id u64 · counted (see `standing`)
//! blob     = flags u8 · exchange (u8 length) · routing key (u8 length) · properties (u32 length) · body
//! ```

use broker_core::Timestamp;
use bytes::Bytes;

use crate::outbox::MessageView;
use crate::standing::{COUNTED_BYTES, Counted, Standing};

/// Version octet every batch begins with.
pub(crate) const BATCH_VERSION: u8 = 1;

const PUBLISH: u8 = 1;
const FORGET: u8 = 2;
const RETURNED: u8 = 3;
const HANDED_OUT: u8 = 4;
const STANDS: u8 = 5;

const PERSISTENT: u8 = 1;
const HAS_PRIORITY: u8 = 2;

/// The message went through a dead-letter exchange: its death history was written by a broker.
const BLOB_DEAD_LETTERED: u8 = 1;
/// The headers hold blind copies: routing keys that no consumer may see.
const BLOB_HAS_BCC: u8 = 2;
/// A dead-letter key has taken the place of all its keys: the copies in its headers are history.
const BLOB_KEYS_REPLACED: u8 = 4;

/// What a queue must know of a message without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryMeta {
    pub(crate) persistent: bool,
    pub(crate) priority: Option<u8>,
    /// When the broker took it. The queue's message TTL counts from here after a restart.
    pub(crate) published_at: Timestamp,
    /// From the message's own expiration; the queue's message TTL is applied by the queue.
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) delivery_count: u32,
    pub(crate) acquired_count: u32,
}

/// A message about to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewMessage<'a> {
    pub(crate) exchange: &'a str,
    pub(crate) routing_key: &'a str,
    pub(crate) properties: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) dead_lettered: bool,
    /// Whether there is a BCC header.
    pub(crate) has_bcc: bool,
    /// Whether its routing key is its only one, whatever copies the headers name.
    pub(crate) keys_replaced: bool,
}

impl NewMessage<'_> {
    /// Nothing, for nobody.
    pub(crate) const EMPTY: NewMessage<'static> = NewMessage {
        exchange: "",
        routing_key: "",
        properties: &[0, 0],
        body: &[],
        dead_lettered: false,
        has_bcc: false,
        keys_replaced: false,
    };

    /// Length of the blob this message becomes.
    pub(crate) fn blob_len(&self) -> usize {
        1 + 1
            + self.exchange.len()
            + 1
            + self.routing_key.len()
            + 4
            + self.properties.len()
            + self.body.len()
    }
}

/// Appends the blob: the one copy of the message's bytes.
pub(crate) fn put_blob(out: &mut Vec<u8>, message: &NewMessage<'_>) {
    let mut flags = 0;
    if message.dead_lettered {
        flags |= BLOB_DEAD_LETTERED;
    }
    if message.has_bcc {
        flags |= BLOB_HAS_BCC;
    }
    if message.keys_replaced {
        flags |= BLOB_KEYS_REPLACED;
    }
    out.push(flags);
    put_short(out, message.exchange);
    put_short(out, message.routing_key);
    out.extend_from_slice(&(message.properties.len() as u32).to_le_bytes());
    out.extend_from_slice(message.properties);
    out.extend_from_slice(message.body);
}

/// Names are at most 255 bytes by the wire format; a longer one is cut rather than corrupting the record.
fn put_short(out: &mut Vec<u8>, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(255)];
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// Appends a publish command.
pub(crate) fn put_publish(
    out: &mut Vec<u8>,
    meta: &EntryMeta,
    targets: impl ExactSizeIterator<Item = u64>,
    message: &NewMessage<'_>,
) {
    out.reserve(1 + 26 + 2 + 8 * targets.len() + 4 + message.blob_len());
    out.push(PUBLISH);
    let mut flags = 0;
    if meta.persistent {
        flags |= PERSISTENT;
    }
    if meta.priority.is_some() {
        flags |= HAS_PRIORITY;
    }
    out.push(flags);
    out.push(meta.priority.unwrap_or(0));
    out.extend_from_slice(&meta.published_at.0.to_le_bytes());
    out.extend_from_slice(&meta.expires_at.map_or(0, |at| at.0).to_le_bytes());
    out.extend_from_slice(&meta.delivery_count.to_le_bytes());
    out.extend_from_slice(&meta.acquired_count.to_le_bytes());
    out.extend_from_slice(&(targets.len() as u16).to_le_bytes());
    for queue in targets {
        out.extend_from_slice(&queue.to_le_bytes());
    }
    out.extend_from_slice(&(message.blob_len() as u32).to_le_bytes());
    put_blob(out, message);
}

/// Appends a forget command: these entries of the queue are gone for good.
pub(crate) fn put_forget(out: &mut Vec<u8>, queue: u64, entries: &[u64]) {
    out.push(FORGET);
    out.extend_from_slice(&queue.to_le_bytes());
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        out.extend_from_slice(&entry.to_le_bytes());
    }
}

/// Appends a returned command: the entry is with its queue again, counted and standing so.
pub(crate) fn put_returned(out: &mut Vec<u8>, queue: u64, entry: u64, counted: &Counted) {
    let is_in_line = counted.standing == Standing::InLine;
    out.push(if is_in_line { RETURNED } else { STANDS });
    out.extend_from_slice(&queue.to_le_bytes());
    out.extend_from_slice(&entry.to_le_bytes());
    if is_in_line {
        out.extend_from_slice(&counted.delivery_count.to_le_bytes());
        out.extend_from_slice(&counted.acquired_count.to_le_bytes());
    } else {
        counted.put(out);
    }
}

/// Appends a handed-out mark: messages of the queue up to this log index may have been delivered.
/// 0 takes earlier marks back.
pub(crate) fn put_handed_out(out: &mut Vec<u8>, queue: u64, up_to_index: u64) {
    out.push(HANDED_OUT);
    out.extend_from_slice(&queue.to_le_bytes());
    out.extend_from_slice(&up_to_index.to_le_bytes());
}

/// One command of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command<'a> {
    Publish {
        meta: EntryMeta,
        targets: Ids<'a>,
        blob_at: u32,
        blob_len: u32,
    },
    Forget {
        queue: u64,
        entries: Ids<'a>,
    },
    Returned {
        queue: u64,
        entry: u64,
        counted: Counted,
    },
    HandedOut {
        queue: u64,
        up_to_index: u64,
    },
}

/// Little-endian u64 ids in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids<'a>(&'a [u8]);

impl Ids<'_> {
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.0.chunks_exact(8).map(|chunk| {
            u64::from_le_bytes(chunk.try_into().expect("chunks_exact yields eight octets"))
        })
    }
}

/// The batch is not one that this version of the broker wrote.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum BatchFault {
    #[error("batch version {0} is not known")]
    Version(u8),
    #[error("batch is cut short at octet {0}")]
    Truncated(usize),
    #[error("a message stands in no known way at octet {0}")]
    Standing(usize),
    #[error("unknown command {command} at octet {at}")]
    UnknownCommand { command: u8, at: usize },
}

/// Reads the commands of a batch in order.
pub(crate) struct Commands<'a> {
    batch: &'a [u8],
    at: usize,
}

impl<'a> Commands<'a> {
    pub(crate) fn of(batch: &'a [u8]) -> Result<Self, BatchFault> {
        match batch.first() {
            Some(&BATCH_VERSION) => Ok(Self { batch, at: 1 }),
            Some(&version) => Err(BatchFault::Version(version)),
            None => Err(BatchFault::Truncated(0)),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], BatchFault> {
        let end = self
            .at
            .checked_add(len)
            .ok_or(BatchFault::Truncated(self.at))?;
        let slice = self
            .batch
            .get(self.at..end)
            .ok_or(BatchFault::Truncated(self.at))?;
        self.at = end;
        Ok(slice)
    }

    fn u8(&mut self) -> Result<u8, BatchFault> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, BatchFault> {
        Ok(u16::from_le_bytes(
            self.take(2)?.try_into().expect("took two octets"),
        ))
    }

    fn u32(&mut self) -> Result<u32, BatchFault> {
        Ok(u32::from_le_bytes(
            self.take(4)?.try_into().expect("took four octets"),
        ))
    }

    fn u64(&mut self) -> Result<u64, BatchFault> {
        Ok(u64::from_le_bytes(
            self.take(8)?.try_into().expect("took eight octets"),
        ))
    }

    fn publish(&mut self) -> Result<Command<'a>, BatchFault> {
        let flags = self.u8()?;
        let priority = self.u8()?;
        let published_at = Timestamp(self.u64()?);
        let expires_at = self.u64()?;
        let meta = EntryMeta {
            persistent: flags & PERSISTENT != 0,
            priority: (flags & HAS_PRIORITY != 0).then_some(priority),
            published_at,
            expires_at: (expires_at != 0).then_some(Timestamp(expires_at)),
            delivery_count: self.u32()?,
            acquired_count: self.u32()?,
        };
        let targets = usize::from(self.u16()?);
        let targets = Ids(self.take(8 * targets)?);
        let blob_len = self.u32()?;
        let blob_at = self.at as u32;
        self.take(blob_len as usize)?;
        Ok(Command::Publish {
            meta,
            targets,
            blob_at,
            blob_len,
        })
    }

    fn command(&mut self) -> Result<Command<'a>, BatchFault> {
        let at = self.at;
        match self.u8()? {
            PUBLISH => self.publish(),
            FORGET => {
                let queue = self.u64()?;
                let count = self.u32()? as usize;
                let len = count.checked_mul(8).ok_or(BatchFault::Truncated(self.at))?;
                Ok(Command::Forget {
                    queue,
                    entries: Ids(self.take(len)?),
                })
            }
            RETURNED => Ok(Command::Returned {
                queue: self.u64()?,
                entry: self.u64()?,
                counted: Counted {
                    delivery_count: self.u32()?,
                    acquired_count: self.u32()?,
                    standing: Standing::InLine,
                },
            }),
            STANDS => Ok(Command::Returned {
                queue: self.u64()?,
                entry: self.u64()?,
                counted: Counted::read(self.take(COUNTED_BYTES)?)
                    .ok_or(BatchFault::Standing(at))?,
            }),
            HANDED_OUT => Ok(Command::HandedOut {
                queue: self.u64()?,
                up_to_index: self.u64()?,
            }),
            command => Err(BatchFault::UnknownCommand { command, at }),
        }
    }
}

impl<'a> Iterator for Commands<'a> {
    type Item = Result<Command<'a>, BatchFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.batch.len() {
            return None;
        }
        let command = self.command();
        if command.is_err() {
            self.at = self.batch.len();
        }
        Some(command)
    }
}

/// A blob with its parts found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blob<'a> {
    pub(crate) dead_lettered: bool,
    pub(crate) has_bcc: bool,
    pub(crate) keys_replaced: bool,
    pub(crate) exchange: &'a str,
    pub(crate) routing_key: &'a str,
    pub(crate) properties: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl<'a> Blob<'a> {
    /// Finds the parts; `None` when the bytes are no blob.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&flags, rest) = bytes.split_first()?;
        let (exchange, rest) = short(rest)?;
        let (routing_key, rest) = short(rest)?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (properties, body) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        let dead_lettered = flags & BLOB_DEAD_LETTERED != 0;
        let has_bcc = flags & BLOB_HAS_BCC != 0;
        Some(Self {
            dead_lettered,
            has_bcc,
            keys_replaced: flags & BLOB_KEYS_REPLACED != 0,
            exchange,
            routing_key,
            properties,
            body,
        })
    }

    /// The same message, about to be stored once more.
    pub(crate) fn again(&self) -> NewMessage<'a> {
        NewMessage {
            exchange: self.exchange,
            routing_key: self.routing_key,
            properties: self.properties,
            body: self.body,
            dead_lettered: self.dead_lettered,
            has_bcc: self.has_bcc,
            keys_replaced: self.keys_replaced,
        }
    }

    /// The message as it leaves; `owner` is what the blob lies in.
    pub(crate) fn view<'b>(&'b self, owner: &'b Bytes) -> MessageView<'b> {
        MessageView {
            exchange: self.exchange,
            routing_key: self.routing_key,
            properties: self.properties,
            body: self.body,
            owner,
        }
    }
}

fn short(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(len))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: NewMessage<'_> = NewMessage {
        exchange: "orders",
        routing_key: "eu.new",
        properties: &[0x10, 0, 2],
        body: b"hello",
        dead_lettered: true,
        has_bcc: false,
        keys_replaced: true,
    };

    fn meta() -> EntryMeta {
        EntryMeta {
            persistent: true,
            priority: Some(0),
            published_at: Timestamp(70),
            expires_at: Some(Timestamp(77)),
            delivery_count: 3,
            acquired_count: 4,
        }
    }

    fn counted(standing: Standing) -> Counted {
        Counted {
            delivery_count: 1,
            acquired_count: 2,
            standing,
        }
    }

    fn batch() -> Vec<u8> {
        let mut batch = vec![BATCH_VERSION];
        put_publish(&mut batch, &meta(), [7, 9].into_iter(), &MESSAGE);
        put_forget(&mut batch, 7, &[1, 2, 3]);
        put_returned(&mut batch, 9, 5, &counted(Standing::InLine));
        put_handed_out(&mut batch, 9, 77);
        put_returned(&mut batch, 9, 5, &counted(Standing::HeldBack(Timestamp(7))));
        batch
    }

    #[test]
    fn a_batch_reads_back_as_it_was_written() {
        let batch = batch();
        let commands: Vec<_> = Commands::of(&batch).unwrap().map(Result::unwrap).collect();
        let Command::Publish {
            meta: read,
            targets,
            blob_at,
            blob_len,
        } = commands[0]
        else {
            panic!("expected a publish, got {:?}", commands[0]);
        };
        assert_eq!(read, meta());
        assert_eq!(targets.iter().collect::<Vec<_>>(), [7, 9]);
        let blob = Blob::parse(&batch[blob_at as usize..][..blob_len as usize]).unwrap();
        assert!(blob.dead_lettered);
        assert_eq!((blob.exchange, blob.routing_key), ("orders", "eu.new"));
        assert_eq!(
            (blob.properties, blob.body),
            (&[0x10, 0, 2][..], &b"hello"[..])
        );
        let Command::Forget { queue: 7, entries } = commands[1] else {
            panic!("expected a forget, got {:?}", commands[1]);
        };
        assert_eq!(entries.iter().collect::<Vec<_>>(), [1, 2, 3]);
        let returned = Command::Returned {
            queue: 9,
            entry: 5,
            counted: counted(Standing::InLine),
        };
        assert_eq!(commands[2], returned);
        let held_back = Command::Returned {
            queue: 9,
            entry: 5,
            counted: counted(Standing::HeldBack(Timestamp(7))),
        };
        assert_eq!(commands[4], held_back);
        assert_eq!(
            commands[3],
            Command::HandedOut {
                queue: 9,
                up_to_index: 77
            }
        );
    }

    #[test]
    fn every_cut_of_a_batch_is_a_fault_or_fewer_commands() {
        let batch = batch();
        for len in 0..batch.len() {
            let Ok(commands) = Commands::of(&batch[..len]) else {
                continue;
            };
            let whole = commands.take_while(Result::is_ok).count();
            assert!(whole < 5, "a cut at {len} still read five commands");
        }
    }

    #[test]
    fn an_unknown_version_is_refused() {
        assert_eq!(Commands::of(&[9]).err(), Some(BatchFault::Version(9)));
    }
}
