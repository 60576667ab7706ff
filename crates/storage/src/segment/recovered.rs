//! The items of a store as they are found after a restart, one segment at a time.
//!
//! Knows the order of segments and items; not which of them live.

use std::{io, vec};

use super::format::Entry;
use super::open_files::{Key, OpenFiles};
use super::reader::SegmentFile;
use crate::error::{During, Result};
use crate::place::Location;

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
    pub(super) fn new(files: &'a OpenFiles, sources: Vec<Source>) -> Self {
        let segments = sources.into_iter();
        Self {
            files,
            segments,
            entries: Vec::new().into_iter(),
            segment: 0,
        }
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
