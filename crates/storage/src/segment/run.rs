//! A stretch of a segment in memory, from which several items are served after one read.
//!
//! Knows the frames of items; not files.

use std::ops::Range;

use bytes::Bytes;

use super::format;
use crate::place::Location;

/// A stretch of a segment in memory.
#[derive(Debug, Clone)]
pub struct Run {
    pub(super) segment: u32,
    pub(super) start: u32,
    pub(super) bytes: Bytes,
}

impl Run {
    /// The item, if it lies in this stretch whole and undamaged.
    pub fn get(&self, location: &Location) -> Option<Bytes> {
        if location.segment != self.segment {
            return None;
        }
        let from = location.offset.checked_sub(self.start)? as usize;
        let frame = self.bytes.get(from..)?;
        let Range { start, end } = format::item_range(frame)?;
        (end - start == location.len as usize).then(|| self.bytes.slice(from + start..from + end))
    }

    /// Bytes that the stretch holds in memory for as long as any item of it is held.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}
