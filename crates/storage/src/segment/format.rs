//! Every byte of a segment: its header, the items, and the footer that a closed one ends with.
//!
//! Pure encoding and decoding; no files. All integers are little-endian. `on-disk.md` says the same in
//! prose and must be kept in step.

use bytes::Buf;

use crate::place::StoreId;

pub(super) const FORMAT: u16 = 1;
pub(super) const FILE_HEADER_BYTES: u64 = 32;
pub(super) const ITEM_HEADER_BYTES: u64 = 32;
pub(super) const ENTRY_BYTES: u64 = 24;
pub(super) const TRAILER_BYTES: u64 = 40;
/// Items begin at multiples of this, so that a search for them after damage has fewer places to try.
pub(super) const ALIGNMENT: u64 = 8;

const MAGIC: [u8; 8] = *b"SLQSEGM\0";
const TRAILER_MAGIC: [u8; 8] = *b"SLQFOOT\0";
const ITEM_MARK: u32 = 0x4D45_5449;

/// What the first bytes of a segment say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileHeader {
    Valid { store: StoreId, segment: u32 },
    Newer { format: u16 },
    Bad,
}

/// What precedes each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemHeader {
    pub(super) crc: u32,
    pub(super) len: u32,
    pub(super) id: u64,
    pub(super) attributes: u64,
    /// Everything below this offset was durable before this item was written.
    pub(super) synced: u32,
}

/// One item in the footer of a closed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) attributes: u64,
}

/// The last bytes of a closed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) items: u32,
    /// Bytes of all items without their headers.
    pub(super) item_bytes: u64,
    pub(super) entries_offset: u64,
    pub(super) entries_crc: u32,
}

pub(super) fn encode_file_header(store: StoreId, segment: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(FILE_HEADER_BYTES as usize);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&segment.to_le_bytes());
    out.extend_from_slice(&store.0.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
    out
}

pub(super) fn decode_file_header(bytes: &[u8]) -> FileHeader {
    parse_file_header(bytes).unwrap_or(FileHeader::Bad)
}

fn parse_file_header(bytes: &[u8]) -> Option<FileHeader> {
    let (summed, mut crc) = bytes
        .get(..FILE_HEADER_BYTES as usize)?
        .split_at_checked(28)?;
    if !summed.starts_with(&MAGIC) || crc.try_get_u32_le().ok()? != crc32c::crc32c(summed) {
        return None;
    }
    let mut fields = summed.get(8..)?;
    let format = fields.try_get_u16_le().ok()?;
    if format > FORMAT {
        return Some(FileHeader::Newer { format });
    }
    fields.advance(2);
    let segment = fields.try_get_u32_le().ok()?;
    let store = StoreId(fields.try_get_u64_le().ok()?);
    Some(FileHeader::Valid { store, segment })
}

/// Appends header, parts and padding; answers the bytes of the item itself.
pub(super) fn encode_item(
    out: &mut Vec<u8>,
    id: u64,
    attributes: u64,
    parts: &[&[u8]],
    synced: u32,
) {
    let start = out.len();
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&attributes.to_le_bytes());
    out.extend_from_slice(&synced.to_le_bytes());
    out.extend_from_slice(&ITEM_MARK.to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    let crc = crc32c::crc32c(out.get(start + 4..).unwrap_or_default());
    if let Some(field) = out.get_mut(start..start + 4) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
    out.resize(start + item_frame_bytes(len as u64) as usize, 0);
}

/// The header, if these bytes begin like an item. Only `item_bytes` tells whether it is one.
pub(super) fn decode_item_header(bytes: &[u8]) -> Option<ItemHeader> {
    let mut fields = bytes.get(..ITEM_HEADER_BYTES as usize)?;
    let mark = fields.get(28..)?.try_get_u32_le().ok()?;
    if mark != ITEM_MARK {
        return None;
    }
    let crc = fields.try_get_u32_le().ok()?;
    let len = fields.try_get_u32_le().ok()?;
    let id = fields.try_get_u64_le().ok()?;
    let attributes = fields.try_get_u64_le().ok()?;
    let synced = fields.try_get_u32_le().ok()?;
    Some(ItemHeader {
        crc,
        len,
        id,
        attributes,
        synced,
    })
}

/// Range of the item itself within its frame (header first), if the frame is whole and undamaged.
pub(super) fn item_range(frame: &[u8]) -> Option<std::ops::Range<usize>> {
    let header = decode_item_header(frame)?;
    let range = ITEM_HEADER_BYTES as usize..ITEM_HEADER_BYTES as usize + header.len as usize;
    let summed = frame.get(4..range.end)?;
    (crc32c::crc32c(summed) == header.crc).then_some(range)
}

/// Bytes that an item takes in its segment.
pub(super) fn item_frame_bytes(item_bytes: u64) -> u64 {
    (ITEM_HEADER_BYTES + item_bytes).next_multiple_of(ALIGNMENT)
}

/// The whole footer, for a segment whose items end at `entries_offset`.
pub(super) fn encode_footer(entries: &[Entry], entries_offset: u64) -> Vec<u8> {
    let bytes = entries.len() * ENTRY_BYTES as usize + TRAILER_BYTES as usize;
    let mut out = Vec::with_capacity(bytes);
    for entry in entries {
        out.extend_from_slice(&entry.id.to_le_bytes());
        out.extend_from_slice(&entry.offset.to_le_bytes());
        out.extend_from_slice(&entry.len.to_le_bytes());
        out.extend_from_slice(&entry.attributes.to_le_bytes());
    }
    let entries_crc = crc32c::crc32c(&out);
    let item_bytes: u64 = entries.iter().map(|entry| u64::from(entry.len)).sum();
    let start = out.len();
    out.extend_from_slice(&TRAILER_MAGIC);
    out.extend_from_slice(
        &u32::try_from(entries.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    out.extend_from_slice(&entries_crc.to_le_bytes());
    out.extend_from_slice(&item_bytes.to_le_bytes());
    out.extend_from_slice(&entries_offset.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let crc = crc32c::crc32c(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// The trailer, if the last bytes of a file of `file_bytes` are one.
pub(super) fn decode_trailer(bytes: &[u8], file_bytes: u64) -> Option<Trailer> {
    let (summed, mut crc) = bytes.get(..TRAILER_BYTES as usize)?.split_at_checked(36)?;
    if !summed.starts_with(&TRAILER_MAGIC) || crc.try_get_u32_le().ok()? != crc32c::crc32c(summed) {
        return None;
    }
    let mut fields = summed.get(8..)?;
    let items = fields.try_get_u32_le().ok()?;
    let entries_crc = fields.try_get_u32_le().ok()?;
    let item_bytes = fields.try_get_u64_le().ok()?;
    let entries_offset = fields.try_get_u64_le().ok()?;
    let entries_bytes = u64::from(items) * ENTRY_BYTES;
    let fits = entries_offset.checked_add(entries_bytes + TRAILER_BYTES)? == file_bytes;
    fits.then_some(Trailer {
        items,
        item_bytes,
        entries_offset,
        entries_crc,
    })
}

pub(super) fn decode_entry(fields: &mut &[u8]) -> Option<Entry> {
    let id = fields.try_get_u64_le().ok()?;
    let offset = fields.try_get_u32_le().ok()?;
    let len = fields.try_get_u32_le().ok()?;
    let attributes = fields.try_get_u64_le().ok()?;
    Some(Entry {
        id,
        offset,
        len,
        attributes,
    })
}
