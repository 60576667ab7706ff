//! Messages that wait for a queue, with their publisher.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use broker_core::Timestamp;
use broker_core::flow::Place;
use bytes::Bytes;

use super::gate::Load;
use super::spill::Spot;
use crate::holder::Holder;
use crate::node::Node;
use crate::origin::Origin;
use crate::record::{self, EntryMeta, NewMessage};

/// A message that waits, once for all queues that it waits for. Its bytes count until the last of
/// them has it.
pub(crate) struct ParkedMessage {
    bytes: ParkedBytes,
    len: u64,
    pub(crate) meta: EntryMeta,
    holder: Arc<Holder>,
    node: Weak<Node>,
}

enum ParkedBytes {
    Memory(Bytes),
    Disk(Spot),
}

impl ParkedMessage {
    /// Takes a message's bytes over; `None` when there is no room for it.
    pub(crate) fn new(
        node: &Node,
        holder: &Arc<Holder>,
        meta: EntryMeta,
        message: &NewMessage<'_>,
    ) -> Option<Arc<Self>> {
        let len = message.blob_len() as u64;
        let place = holder.find_place(node, len);
        let mut blob = Vec::with_capacity(len as usize);
        let bytes = match place {
            Place::Nowhere => return None,
            Place::Memory => {
                record::put_blob(&mut blob, message);
                holder.session.memory.parked.add(len);
                ParkedBytes::Memory(blob.into())
            }
            Place::Disk => {
                record::put_blob(&mut blob, message);
                match holder.spill.lock().write(&node.options.data_dir, &blob) {
                    Ok(spot) => {
                        node.flow
                            .parked_disk_bytes
                            .fetch_add(len, Ordering::Relaxed);
                        ParkedBytes::Disk(spot)
                    }
                    Err(error) => {
                        tracing::error!(%error, "a message that waits cannot be written to disk");
                        holder.unpark(node, len, Place::Disk);
                        return None;
                    }
                }
            }
        };
        Some(Arc::new(Self {
            bytes,
            len,
            meta,
            holder: holder.clone(),
            node: node.me.clone(),
        }))
    }

    /// The message's bytes; `None` when they cannot be read back.
    pub(crate) fn blob(&self) -> Option<Bytes> {
        match &self.bytes {
            ParkedBytes::Memory(bytes) => Some(bytes.clone()),
            ParkedBytes::Disk(spot) => match self.holder.spill.lock().read(*spot) {
                Ok(bytes) => Some(bytes),
                Err(error) => {
                    tracing::error!(%error, "a message that waited cannot be read back");
                    None
                }
            },
        }
    }
}

impl Drop for ParkedMessage {
    fn drop(&mut self) {
        // A node that is gone counts nothing.
        let Some(node) = self.node.upgrade() else {
            return;
        };
        let place = match &self.bytes {
            ParkedBytes::Memory(_) => {
                self.holder.session.memory.parked.sub(self.len);
                Place::Memory
            }
            ParkedBytes::Disk(spot) => {
                let parked = &node.flow.parked_disk_bytes;
                parked.fetch_sub(self.len, Ordering::Relaxed);
                self.holder.spill.lock().release(*spot);
                Place::Disk
            }
        };
        self.holder.unpark(&node, self.len, place);
    }
}

/// A message's way into one queue, which is closed at the moment.
pub(crate) struct Parked {
    pub(crate) message: Arc<ParkedMessage>,
    /// What the queue's limits count.
    pub(crate) bytes: u32,
    pub(crate) origin: Origin,
    pub(crate) since: Timestamp,
}

impl Parked {
    pub(crate) fn load(&self) -> Load {
        Load::of(self.bytes, self.message.len)
    }
}
