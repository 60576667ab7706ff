//! Every byte of the checkpoint file: its header, the frames of a set, and the entries in a frame.
//!
//! Encoding, decoding and the walk over frames. All integers are little-endian. `on-disk.md` says the
//! same in prose and must be kept in step.

use std::io::IoSlice;
use std::path::Path;

use bytes::{Buf, Bytes};

use crate::disk::{DiskFile, read_full_at, write_all_at};
use crate::error::{During, Result, StorageError};
use crate::place::{StoreId, StreamId};

const FORMAT: u16 = 1;
const MAGIC: [u8; 8] = *b"SLQCHKP\0";
pub(super) const FILE_HEADER_BYTES: u64 = 16;

const FRAME_HEADER_BYTES: usize = 32;
const FRAME_MARK: u32 = 0x4B43_4651;
/// Set in the last frame of a set: only then do the frames count.
const FLAG_LAST: u32 = 1;
/// A frame is closed when its body reaches this; only a larger blob makes it larger.
const FRAME_BYTES: usize = 4 << 20;
const ALIGNMENT: u64 = 8;

const ENTRY_HEADER_BYTES: u64 = 24;
const KIND_PUT: u8 = 1;
const KIND_REMOVE: u8 = 2;
const KIND_STREAM: u8 = 3;

/// Where a blob lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) covered: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) crc: u32,
}

impl Place {
    /// Bytes that the file must keep for it.
    pub(super) fn file_bytes(&self) -> u64 {
        ENTRY_HEADER_BYTES + u64::from(self.len)
    }
}

/// What one entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// The state of a store.
    Put(StoreId, Place),
    /// The store is gone.
    Remove(StoreId),
    /// Highest index of a stream.
    Stream(StreamId, u64),
}

pub(super) fn encode_file_header() -> Vec<u8> {
    let mut out = Vec::with_capacity(FILE_HEADER_BYTES as usize);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
    out
}

fn check_file_header(file: &dyn DiskFile, path: &Path) -> Result<()> {
    let mut header = [0; FILE_HEADER_BYTES as usize];
    read_full_at(file, &mut header, 0).during("read", path)?;
    let (summed, mut crc) = header.split_at(12);
    let damaged = StorageError::Corrupt {
        path: path.to_path_buf(),
        offset: 0,
        what: "the header of the checkpoint file",
    };
    if !summed.starts_with(&MAGIC) || crc.get_u32_le() != crc32c::crc32c(summed) {
        return Err(damaged);
    }
    let found = summed
        .get(8..10)
        .map_or(0, |mut format| format.get_u16_le());
    if found > FORMAT {
        return Err(StorageError::NewerFormat {
            path: path.to_path_buf(),
            found,
            known: FORMAT,
        });
    }
    Ok(())
}

/// Writes one set: frames that count only together.
pub(super) struct SetWriter<'a> {
    file: &'a dyn DiskFile,
    path: &'a Path,
    set_start: u64,
    /// Where the next frame begins.
    offset: u64,
    body: Vec<u8>,
}

impl<'a> SetWriter<'a> {
    pub(super) fn new(file: &'a dyn DiskFile, path: &'a Path, offset: u64) -> Self {
        Self {
            file,
            path,
            set_start: offset,
            offset,
            body: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, store: StoreId, covered: u64, blob: &[u8]) -> Result<Place> {
        let len = u32::try_from(blob.len()).unwrap_or(u32::MAX);
        let frame_body = self.offset + FRAME_HEADER_BYTES as u64;
        let offset = frame_body + self.body.len() as u64 + ENTRY_HEADER_BYTES;
        self.entry(KIND_PUT, len, store.0, covered);
        self.body.extend_from_slice(blob);
        self.close_full_frame()?;
        Ok(Place {
            covered,
            offset,
            len,
            crc: crc32c::crc32c(blob),
        })
    }

    pub(super) fn remove(&mut self, store: StoreId) -> Result<()> {
        self.entry(KIND_REMOVE, 0, store.0, 0);
        self.close_full_frame()
    }

    pub(super) fn stream(&mut self, stream: StreamId, index: u64) -> Result<()> {
        self.entry(KIND_STREAM, 0, u64::from(stream.0), index);
        self.close_full_frame()
    }

    /// Writes what remains, as the last frame; answers where the next set begins. Not synced.
    pub(super) fn finish(mut self) -> Result<u64> {
        self.frame(FLAG_LAST)?;
        Ok(self.offset)
    }

    fn entry(&mut self, kind: u8, len: u32, id: u64, number: u64) {
        self.body.extend_from_slice(&[kind, 0, 0, 0]);
        self.body.extend_from_slice(&len.to_le_bytes());
        self.body.extend_from_slice(&id.to_le_bytes());
        self.body.extend_from_slice(&number.to_le_bytes());
    }

    fn close_full_frame(&mut self) -> Result<()> {
        if self.body.len() < FRAME_BYTES {
            return Ok(());
        }
        self.frame(0)
    }

    fn frame(&mut self, flags: u32) -> Result<()> {
        let mut header = Vec::with_capacity(FRAME_HEADER_BYTES);
        header.extend_from_slice(&[0; 4]);
        let len = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        header.extend_from_slice(&len.to_le_bytes());
        header.extend_from_slice(&flags.to_le_bytes());
        header.extend_from_slice(&FRAME_MARK.to_le_bytes());
        header.extend_from_slice(&self.offset.to_le_bytes());
        header.extend_from_slice(&self.set_start.to_le_bytes());
        let (crc, summed) = header.split_at_mut(4);
        let sum = crc32c::crc32c_append(crc32c::crc32c(summed), &self.body);
        crc.copy_from_slice(&sum.to_le_bytes());
        let end = self.offset + (header.len() + self.body.len()) as u64;
        let next = end.next_multiple_of(ALIGNMENT);
        let padding = [0; ALIGNMENT as usize];
        let padding = padding.get(..(next - end) as usize).unwrap_or_default();
        let mut parts = [
            IoSlice::new(&header),
            IoSlice::new(&self.body),
            IoSlice::new(padding),
        ];
        write_all_at(self.file, &mut parts, self.offset).during("write", self.path)?;
        self.offset = next;
        self.body.clear();
        Ok(())
    }
}

struct FrameHeader {
    crc: u32,
    len: u32,
    last: bool,
    set_start: u64,
}

fn decode_frame_header(bytes: &[u8], at: u64) -> Option<FrameHeader> {
    let mut fields = bytes.get(..FRAME_HEADER_BYTES)?;
    let crc = fields.try_get_u32_le().ok()?;
    let len = fields.try_get_u32_le().ok()?;
    let flags = fields.try_get_u32_le().ok()?;
    let mark = fields.try_get_u32_le().ok()?;
    let offset = fields.try_get_u64_le().ok()?;
    let set_start = fields.try_get_u64_le().ok()?;
    let ours = mark == FRAME_MARK && offset == at && set_start <= at && flags <= FLAG_LAST;
    ours.then_some(FrameHeader {
        crc,
        len,
        last: flags == FLAG_LAST,
        set_start,
    })
}

/// Reads a checkpoint file: the entries of complete sets, in order.
pub(super) struct SetReader<'a> {
    file: &'a dyn DiskFile,
    path: &'a Path,
    len: u64,
}

impl<'a> SetReader<'a> {
    pub(super) fn open(file: &'a dyn DiskFile, path: &'a Path) -> Result<Self> {
        check_file_header(file, path)?;
        let len = file.len().during("measure", path)?;
        Ok(Self { file, path, len })
    }

    /// Reads no further than this.
    pub(super) fn up_to(self, end: u64) -> Self {
        let len = self.len.min(end);
        Self { len, ..self }
    }

    /// Visits the entries of every complete set; answers where the last one ends. A torn set at the
    /// end is left out; a bad frame before a later set is damage.
    pub(super) fn read(self, mut visit: impl FnMut(Entry)) -> Result<u64> {
        let mut end = FILE_HEADER_BYTES;
        let mut offset = end;
        let mut set = Vec::new();
        while let Some((header, body)) = self.frame(offset)? {
            if !parse_entries(&body, offset + FRAME_HEADER_BYTES as u64, &mut set) {
                return Err(self.damage(offset, "the entries of a checkpoint frame"));
            }
            offset += (FRAME_HEADER_BYTES + body.len()) as u64;
            offset = offset.next_multiple_of(ALIGNMENT);
            if header.last {
                set.drain(..).for_each(&mut visit);
                end = offset;
            }
        }
        if self.vouched(offset)? {
            return Err(self.damage(offset, "a checkpoint frame"));
        }
        Ok(end)
    }

    fn frame(&self, offset: u64) -> Result<Option<(FrameHeader, Bytes)>> {
        let header = self.bytes(offset, FRAME_HEADER_BYTES as u64)?;
        let Some(fields) = header
            .as_deref()
            .and_then(|bytes| decode_frame_header(bytes, offset))
        else {
            return Ok(None);
        };
        let body = self.bytes(offset + FRAME_HEADER_BYTES as u64, u64::from(fields.len))?;
        let (Some(header), Some(body)) = (header, body) else {
            return Ok(None);
        };
        let summed = header.get(4..).unwrap_or_default();
        let valid = crc32c::crc32c_append(crc32c::crc32c(summed), &body) == fields.crc;
        Ok(valid.then(|| (fields, body.into())))
    }

    /// Whether a later set was begun after `offset` was durable.
    fn vouched(&self, offset: u64) -> Result<bool> {
        let mut at = offset.next_multiple_of(ALIGNMENT);
        while at + (FRAME_HEADER_BYTES as u64) <= self.len {
            let window = self.bytes(at, FRAME_BYTES.min((self.len - at) as usize) as u64)?;
            let window = window.unwrap_or_default();
            let mut tried = 0;
            for bytes in window
                .windows(FRAME_HEADER_BYTES)
                .step_by(ALIGNMENT as usize)
            {
                let header = decode_frame_header(bytes, at);
                if header.is_some_and(|header| header.set_start > offset)
                    && self.frame(at)?.is_some()
                {
                    return Ok(true);
                }
                at += ALIGNMENT;
                tried += 1;
            }
            if tried == 0 {
                break;
            }
        }
        Ok(false)
    }

    fn bytes(&self, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        if offset + len > self.len {
            return Ok(None);
        }
        let mut bytes = vec![0; len as usize];
        let read = read_full_at(self.file, &mut bytes, offset).during("read", self.path)?;
        Ok((read == bytes.len()).then_some(bytes))
    }

    fn damage(&self, offset: u64, what: &'static str) -> StorageError {
        StorageError::Corrupt {
            path: self.path.to_path_buf(),
            offset,
            what,
        }
    }
}

/// Whether the whole body could be understood.
fn parse_entries(body: &[u8], body_offset: u64, out: &mut Vec<Entry>) -> bool {
    let mut rest = body;
    while !rest.is_empty() {
        let at = body_offset + (body.len() - rest.len()) as u64;
        let Some(entry) = parse_entry(&mut rest, at) else {
            return false;
        };
        out.push(entry);
    }
    true
}

fn parse_entry(rest: &mut &[u8], at: u64) -> Option<Entry> {
    let kind = rest.try_get_u8().ok()?;
    rest.advance(rest.len().min(3));
    let len = rest.try_get_u32_le().ok()?;
    let id = rest.try_get_u64_le().ok()?;
    let number = rest.try_get_u64_le().ok()?;
    let blob = rest.get(..len as usize)?;
    let crc = crc32c::crc32c(blob);
    rest.advance(blob.len());
    match kind {
        KIND_PUT => {
            let offset = at + ENTRY_HEADER_BYTES;
            Some(Entry::Put(
                StoreId(id),
                Place {
                    covered: number,
                    offset,
                    len,
                    crc,
                },
            ))
        }
        KIND_REMOVE => Some(Entry::Remove(StoreId(id))),
        KIND_STREAM => Some(Entry::Stream(StreamId(u32::try_from(id).ok()?), number)),
        _ => None,
    }
}
