//! The items of a store as they are found after a restart, one segment at a time.
//!
//! Knows the order of segments and items; not which of them live.

use std::{io, vec};

use super::format::Entry;
use super::open_files::{Key, OpenFiles};
use super::reader::SegmentFile;
use crate::error::{During, Result};
use crate::place::{Location, StoreId};

/// An item found in the segments of a store after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveredItem {
    /// The owner's number for it.
    pub id: u64,
    /// What the owner gave with it.
    pub attributes: u64,
    /// Where it lies.
    pub location: Location,
}

/// Which ids a segment holds, so that a store can be taken in piece by piece, in the order of its ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSpan {
    /// Its sequence within the store.
    pub segment: u32,
    /// The lowest id in it.
    pub first_id: u64,
    /// The highest id in it.
    pub last_id: u64,
    /// Items beyond were appended after the recovery began.
    end: u64,
}

/// A segment to be read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) key: Key,
    /// Items beyond were appended after the recovery began.
    pub(super) end: u64,
}

/// The items of a store, read one segment at a time.
#[derive(Debug)]
pub struct RecoveredItems<'a> {
    files: &'a OpenFiles,
    segments: vec::IntoIter<Source>,
    entries: vec::IntoIter<Entry>,
    segment: u32,
}

impl Iterator for RecoveredItems<'_> {
    type Item = Result<RecoveredItem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(Entry {
                id,
                offset,
                len,
                attributes,
            }) = self.entries.next()
            {
                let location = Location {
                    segment: self.segment,
                    offset,
                    len,
                };
                return Some(Ok(RecoveredItem {
                    id,
                    attributes,
                    location,
                }));
            }
            let source = self.segments.next()?;
            if let Err(error) = self.load(&source) {
                return Some(Err(error));
            }
        }
    }
}

impl<'a> RecoveredItems<'a> {
    /// The items of segments whose spans are known.
    pub(super) fn of_spans(files: &'a OpenFiles, store: StoreId, spans: &[SegmentSpan]) -> Self {
        let sources = spans.iter().map(|span| Source {
            key: (store, span.segment),
            end: span.end,
        });
        Self::new(files, sources.collect())
    }

    pub(super) fn new(files: &'a OpenFiles, sources: Vec<Source>) -> Self {
        let segments = sources.into_iter();
        Self {
            files,
            segments,
            entries: Vec::new().into_iter(),
            segment: 0,
        }
    }

    /// The spans of the segments; those without an item have none.
    pub(super) fn spans(mut self) -> Result<Vec<SegmentSpan>> {
        let mut spans = Vec::new();
        while let Some(source) = self.segments.next() {
            self.entries = Vec::new().into_iter();
            self.load(&source)?;
            let ids = || self.entries.as_slice().iter().map(|entry| entry.id);
            spans.extend(
                ids()
                    .min()
                    .zip(ids().max())
                    .map(|(first_id, last_id)| SegmentSpan {
                        segment: source.key.1,
                        first_id,
                        last_id,
                        end: source.end,
                    }),
            );
        }
        Ok(spans)
    }

    fn load(&mut self, source: &Source) -> Result<()> {
        let key = source.key;
        let path = self.files.path(key);
        let file = match self.files.get(key) {
            // Everything in it was released meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.during("open", &path)?,
        };
        let Some(contents) = (SegmentFile { key, path, file }).contents()? else {
            return Ok(());
        };
        let mut entries = contents.entries;
        entries.retain(|entry| u64::from(entry.offset) < source.end);
        self.segment = key.1;
        self.entries = entries.into_iter();
        Ok(())
    }
}
