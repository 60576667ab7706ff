//! What one sync of the journal covers, laid out for one gathered write.
//!
//! Knows how records lie one after the other; not the file, nor who waits for them.

use std::io::IoSlice;
use std::ops::Range;

use bytes::Bytes;

use super::Payload;
use super::record::{self, RecordHeader};
use crate::place::FileId;

/// Payloads up to this are copied next to their headers; larger ones are written from where they lie.
/// A part of a gathered write costs the kernel about what copying this much costs us.
const COPIED_BYTES_MAX: usize = 4096;
/// The buffer of headers and small payloads is given back when one batch made it larger than this.
const SCRATCH_BYTES_KEPT: usize = 4 << 20;
const PADDING: [u8; record::ALIGNMENT as usize] = [0; record::ALIGNMENT as usize];

/// Records laid out one after the other. Bounded by the file that they are meant for.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Headers, small payloads and padding.
    scratch: Vec<u8>,
    parts: Vec<Part>,
    payloads: Vec<Bytes>,
    /// Scratch bytes that are in `parts` already.
    scratch_placed: usize,
    bytes: u64,
}

#[derive(Debug)]
enum Part {
    Scratch(Range<usize>),
    Payload(usize),
}

impl Batch {
    /// Bytes that the batch takes in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push(&mut self, file: FileId, header: &RecordHeader, payload: Payload) {
        record::encode_record_header(&mut self.scratch, file, header);
        match payload {
            Payload::One(bytes) => self.push_part(bytes),
            Payload::Many(parts) => parts.into_iter().for_each(|part| self.push_part(part)),
        }
        let padded = record::record_bytes(u64::from(header.len));
        let unpadded = record::RECORD_HEADER_BYTES + u64::from(header.len);
        let padding = PADDING
            .get(..(padded - unpadded) as usize)
            .unwrap_or_default();
        self.scratch.extend_from_slice(padding);
        self.bytes += padded;
    }

    fn push_part(&mut self, part: Bytes) {
        if part.len() <= COPIED_BYTES_MAX {
            self.scratch.extend_from_slice(&part);
            return;
        }
        self.parts
            .push(Part::Scratch(self.scratch_placed..self.scratch.len()));
        self.scratch_placed = self.scratch.len();
        self.parts.push(Part::Payload(self.payloads.len()));
        self.payloads.push(part);
    }

    /// The whole batch, in file order.
    pub(super) fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(self.parts.len() + 1);
        for part in &self.parts {
            let bytes = match part {
                Part::Scratch(range) => self.scratch.get(range.clone()),
                Part::Payload(number) => self.payloads.get(*number).map(|bytes| bytes.as_ref()),
            };
            slices.push(IoSlice::new(bytes.unwrap_or_default()));
        }
        let rest = self.scratch.get(self.scratch_placed..).unwrap_or_default();
        slices.push(IoSlice::new(rest));
        slices
    }

    /// Forgets the records; keeps the buffers for the next ones unless they are unusually large.
    pub(super) fn clear(&mut self) {
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_BYTES_KEPT);
        self.parts.clear();
        self.payloads.clear();
        self.scratch_placed = 0;
        self.bytes = 0;
    }
}
