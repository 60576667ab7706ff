//! Reads a journal file back: every record in order, where they end, and whether the end is a torn tail
//! or damage.
//!
//! The rule that tells the two apart: each record says up to where the file was durable before it was
//! written. A bad record that a later good one vouches for was durable once, so it is damaged; one that
//! nobody vouches for may be the torn rest of the last write.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use bytes::Bytes;

use super::record::{self, FileHeader, RecordHeader};
use crate::disk::{DiskFile, read_full_at};
use crate::error::{During, Result, StorageError};
use crate::place::{FileId, Position, StreamId};
use crate::recovery::ReplayedRecord;

/// Bytes read in one call, unless a record is larger.
const WINDOW_BYTES: usize = 1 << 20;

/// What was found in a file.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Where the records end.
    pub(crate) end: u64,
    pub(crate) capacity: u64,
    /// Whether the file itself says that nothing follows.
    pub(crate) ended: bool,
    pub(crate) records: u64,
    pub(crate) last: HashMap<StreamId, u64>,
}

/// Whether a torn tail may be at the end: only in the newest file, since a file is durable to its
/// end before the next one is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    Newest,
    Older,
}

/// A journal file that is being read.
pub(crate) struct Scanner<'a> {
    window: Window<'a>,
    path: &'a Path,
    id: FileId,
    age: Age,
}

impl<'a> Scanner<'a> {
    pub(crate) fn open(
        file: &'a dyn DiskFile,
        path: &'a Path,
        id: FileId,
        age: Age,
    ) -> Result<Self> {
        let len = file.len().during("measure", path)?;
        let window = Window {
            file,
            len,
            start: 0,
            bytes: Vec::new(),
        };
        Ok(Self {
            window,
            path,
            id,
            age,
        })
    }

    /// Visits every record; `None` when the file holds nothing and its header was never made durable.
    pub(crate) fn scan<E: From<StorageError>>(
        mut self,
        mut visit: impl FnMut(ReplayedRecord) -> std::result::Result<(), E>,
    ) -> std::result::Result<Option<Scan>, E> {
        let Some(capacity) = self.capacity()? else {
            return Ok(None);
        };
        let mut scan = Scan {
            end: record::FILE_HEADER_BYTES,
            capacity,
            ended: false,
            records: 0,
            last: HashMap::new(),
        };
        while let Some(header) = self.next_header(scan.end, capacity)? {
            if header.end {
                scan.ended = true;
                break;
            }
            let Some(payload) = self.payload(scan.end, &header)? else {
                self.forbid_damage(scan.end, "a record whose checksum does not match")?;
                break;
            };
            let last = scan.last.entry(header.stream).or_default();
            *last = header.index.max(*last);
            scan.records += 1;
            visit(self.record(scan.end, &header, payload))?;
            scan.end += record::record_bytes(u64::from(header.len));
        }
        // Too little room for an end mark means the end as well.
        scan.ended |= scan.end + record::RECORD_HEADER_BYTES > capacity;
        Ok(Some(scan))
    }

    fn record(&self, start: u64, header: &RecordHeader, payload: Bytes) -> ReplayedRecord {
        let offset = u32::try_from(start + record::RECORD_HEADER_BYTES).unwrap_or(u32::MAX);
        let at = Position {
            file: self.id,
            offset,
            len: header.len,
        };
        ReplayedRecord {
            at,
            stream: header.stream,
            index: header.index,
            payload,
        }
    }

    fn capacity(&mut self) -> Result<Option<u64>> {
        let bytes = self.read(0, record::FILE_HEADER_BYTES)?.unwrap_or_default();
        match record::decode_file_header(bytes) {
            FileHeader::Valid { file, capacity } if file == self.id => Ok(Some(capacity)),
            FileHeader::Newer { format } => Err(StorageError::NewerFormat {
                path: self.path.to_path_buf(),
                found: format,
                known: record::FORMAT,
            }),
            // A recycled file whose header was not made durable carries the one of its last life.
            FileHeader::Valid { .. } | FileHeader::Bad => {
                self.forbid_damage(0, "the header of a journal file")?;
                Ok(None)
            }
        }
    }

    /// The header at `offset`, or `None` at the end of the records.
    fn next_header(&mut self, offset: u64, capacity: u64) -> Result<Option<RecordHeader>> {
        if offset + record::RECORD_HEADER_BYTES > capacity {
            return Ok(None);
        }
        let id = self.id;
        let bytes = self.read(offset, record::RECORD_HEADER_BYTES)?;
        let header = bytes.and_then(|bytes| record::decode_record_header(bytes, id));
        if header.is_none() {
            self.forbid_damage(offset, "the header of a record")?;
        }
        Ok(header)
    }

    fn payload(&mut self, start: u64, header: &RecordHeader) -> Result<Option<Bytes>> {
        let offset = start + record::RECORD_HEADER_BYTES;
        let bytes = self.read(offset, u64::from(header.len))?;
        let valid = bytes.filter(|bytes| crc32c::crc32c(bytes) == header.payload_crc);
        // A copy of its own, so that a record kept for one stuck item keeps nothing else.
        Ok(valid.map(Bytes::copy_from_slice))
    }

    /// An error if what is missing at `offset` was durable once.
    fn forbid_damage(&mut self, offset: u64, what: &'static str) -> Result<()> {
        if self.age == Age::Newest && !self.vouched(offset)? {
            return Ok(());
        }
        Err(StorageError::Corrupt {
            path: self.path.to_path_buf(),
            offset,
            what,
        })
    }

    /// Whether a later record of this generation says that the file was durable beyond `offset`.
    fn vouched(&mut self, offset: u64) -> Result<bool> {
        let id = self.id;
        let step = record::ALIGNMENT as usize;
        let mut start = offset + record::ALIGNMENT;
        loop {
            let window = self.window.from(start).during("read", self.path)?;
            let headers = window
                .windows(record::RECORD_HEADER_BYTES as usize)
                .step_by(step);
            let mut tried = 0;
            for bytes in headers {
                let header = record::decode_record_header(bytes, id);
                if header.is_some_and(|header| u64::from(header.synced) > offset) {
                    return Ok(true);
                }
                tried += 1;
            }
            if tried == 0 {
                return Ok(false);
            }
            start += tried * record::ALIGNMENT;
        }
    }

    fn read(&mut self, offset: u64, len: u64) -> Result<Option<&[u8]>> {
        self.window.get(offset, len).during("read", self.path)
    }
}

/// A sliding view of a file, for one reader that goes forward.
struct Window<'a> {
    file: &'a dyn DiskFile,
    /// Length of the file.
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// These bytes, or `None` when the file is shorter.
    fn get(&mut self, offset: u64, len: u64) -> io::Result<Option<&[u8]>> {
        if offset.saturating_add(len) > self.len {
            return Ok(None);
        }
        let held = self.start..=self.start + self.bytes.len() as u64;
        if !(held.contains(&offset) && held.contains(&(offset + len))) {
            self.fill(offset, WINDOW_BYTES.max(len as usize))?;
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.get(from..from + len as usize))
    }

    /// A window of the usual size that begins at `offset`; shorter, or empty, at the end of the file.
    fn from(&mut self, offset: u64) -> io::Result<&[u8]> {
        self.fill(offset, WINDOW_BYTES)?;
        Ok(&self.bytes)
    }

    fn fill(&mut self, offset: u64, len: usize) -> io::Result<()> {
        let rest = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.bytes.resize(len.min(rest), 0);
        let read = read_full_at(self.file, &mut self.bytes, offset)?;
        self.bytes.truncate(read);
        self.start = offset;
        Ok(())
    }
}
