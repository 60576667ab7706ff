//! Where the bytes of a queued message are: in a batch in memory, or in a segment on disk.

use std::sync::Arc;

use bytes::Bytes;
use storage::{FileId, Location};

use crate::record::Blob;

/// A batch in memory: the journal's own bytes, shared with everyone who delivers from them.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) bytes: Bytes,
    /// The journal file that holds the batch; none for batches that are not logged.
    pub(crate) file: Option<FileId>,
}

/// The handle that the queue machine carries for each message.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The blob lies in a batch in memory.
    Resident {
        batch: Arc<Batch>,
        at: u32,
        len: u32,
    },
    /// The blob lies in a segment.
    Stored(Location),
}

impl Content {
    /// Whether a restart would find the message: its end must then be logged as well.
    pub(crate) fn is_logged(&self) -> bool {
        match self {
            Content::Resident { batch, .. } => batch.file.is_some(),
            Content::Stored(_) => true,
        }
    }

    /// The journal file that the blob lies in.
    pub(crate) fn file(&self) -> Option<FileId> {
        match self {
            Content::Resident { batch, .. } => batch.file,
            Content::Stored(_) => None,
        }
    }
}

/// A blob in memory, ready to be looked at.
#[derive(Clone, Debug)]
pub(crate) struct LoadedBlob {
    owner: Bytes,
    at: usize,
    len: usize,
}

impl LoadedBlob {
    pub(crate) fn resident(batch: &Batch, at: u32, len: u32) -> Self {
        Self {
            owner: batch.bytes.clone(),
            at: at as usize,
            len: len as usize,
        }
    }

    pub(crate) fn read(owner: Bytes) -> Self {
        let len = owner.len();
        Self { owner, at: 0, len }
    }

    /// What the blob lies in.
    pub(crate) fn owner(&self) -> &Bytes {
        &self.owner
    }

    /// The parts; `None` when the stored bytes are damaged.
    pub(crate) fn blob(&self) -> Option<Blob<'_>> {
        Blob::parse(self.owner.get(self.at..self.at + self.len)?)
    }

    /// The blob's bytes alone, sharing memory with their owner.
    pub(crate) fn bytes(&self) -> Bytes {
        self.owner.slice(self.at..self.at + self.len)
    }
}
