//! Where the bytes of a queued message are: in a batch in memory, or in a segment on disk.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use broker_core::queue::Handle;
use bytes::Bytes;
use storage::{FileId, Location, Tier};

use crate::record::Blob;

/// A batch in memory: the journal's own bytes, shared with everyone who delivers from them.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) bytes: Bytes,
    /// The journal file that holds the batch; none for batches that are not logged.
    pub(crate) file: Option<FileId>,
    /// Messages that several queues share, by where they lie, with how many queues have them in
    /// memory. In the order of the batch; mostly there are none.
    pub(crate) shared: Box<[(u32, AtomicU32)]>,
}

impl Batch {
    /// How many queues have the message in memory; `None` for one that only one queue can have.
    pub(crate) fn shared(&self, at: u32) -> Option<&AtomicU32> {
        if self.shared.is_empty() {
            return None;
        }
        let found = self.shared.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        Some(&self.shared[found].1)
    }
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
    /// The blob was paged out: it lies in a segment that does not outlive the process.
    Paged(Location),
}

impl Content {
    /// Whether a restart would find the message: its end must then be logged as well.
    pub(crate) fn is_logged(&self) -> bool {
        match self {
            Content::Resident { batch, .. } => batch.file.is_some(),
            Content::Stored(_) => true,
            Content::Paged(_) => false,
        }
    }

    /// Bytes of the blob in memory.
    pub(crate) fn resident_len(&self) -> u64 {
        match self {
            Content::Resident { len, .. } => u64::from(*len),
            Content::Stored(_) | Content::Paged(_) => 0,
        }
    }

    /// The journal file that the blob lies in.
    pub(crate) fn file(&self) -> Option<FileId> {
        match self {
            Content::Resident { batch, .. } => batch.file,
            Content::Stored(_) | Content::Paged(_) => None,
        }
    }

    /// Where in the segments the blob lies.
    pub(crate) fn place(&self) -> Option<(Tier, &Location)> {
        match self {
            Content::Resident { .. } => None,
            Content::Stored(location) => Some((Tier::Durable, location)),
            Content::Paged(location) => Some((Tier::Paged, location)),
        }
    }
}

/// Bit of a segment's number that says of a handle at rest that it was `Paged`; no store comes to so many
/// segments.
const PAGED_BIT: u32 = 1 << 31;

impl Handle for Content {
    type AtRest = Location;

    fn at_rest(&self) -> Option<Location> {
        let (tier, place) = self.place()?;
        let bit = match tier {
            Tier::Durable => 0,
            Tier::Paged => PAGED_BIT,
        };
        (place.segment < PAGED_BIT).then_some(Location {
            segment: place.segment | bit,
            ..*place
        })
    }

    fn taken_up(rest: Location) -> Self {
        let place = Location {
            segment: rest.segment & !PAGED_BIT,
            ..rest
        };
        match rest.segment & PAGED_BIT {
            0 => Content::Stored(place),
            _ => Content::Paged(place),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_to_a_segment_is_put_down_and_taken_up_as_it_was() {
        let place = Location {
            segment: 7,
            offset: 1 << 31 | 5,
            len: 9,
        };
        for content in [Content::Stored(place), Content::Paged(place)] {
            let rest = content.at_rest().expect("it owns nothing");
            let again = Content::taken_up(rest);
            assert_eq!(again.place(), content.place());
        }
        let beyond = Location {
            segment: PAGED_BIT,
            ..place
        };
        assert!(Content::Stored(beyond).at_rest().is_none());
    }
}
