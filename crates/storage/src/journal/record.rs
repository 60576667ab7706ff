//! Every byte of a journal file: its header, the headers of its records, and the end mark.
//!
//! Pure encoding and decoding; no files. All integers are little-endian. `on-disk.md` says the same in
//! prose and must be kept in step.

use bytes::Buf;

use crate::options::RECORD_BYTES_MAX;
use crate::place::{FileId, StreamId};

/// Format of files that this release writes, and the newest that it reads.
pub(crate) const FORMAT: u16 = 1;
pub(crate) const FILE_HEADER_BYTES: u64 = 40;
pub(crate) const RECORD_HEADER_BYTES: u64 = 40;
/// Records begin at multiples of this, so that a search for them after damage has fewer places to try.
pub(crate) const ALIGNMENT: u64 = 8;

const MAGIC: [u8; 8] = *b"SLQJRNL\0";
const RECORD_VERSION: u8 = 1;
const KIND_RECORD: u8 = 1;
const KIND_END: u8 = 2;

/// What the first bytes of a file say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileHeader {
    /// Ours: the generation, and how far records may reach.
    Valid { file: FileId, capacity: u64 },
    /// Ours, of a later release.
    Newer { format: u16 },
    /// Torn, damaged or never written.
    Bad,
}

/// What precedes each payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) stream: StreamId,
    pub(crate) index: u64,
    pub(crate) len: u32,
    pub(crate) payload_crc: u32,
    /// Everything below this offset was durable before this record was written. So a damaged byte
    /// below it cannot come from a torn write.
    pub(crate) synced: u32,
    /// Nothing follows in this file.
    pub(crate) end: bool,
}

pub(crate) fn encode_file_header(file: FileId, capacity: u64) -> [u8; 40] {
    let mut out = Vec::with_capacity(40);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[0; 6]);
    out.extend_from_slice(&file.0.to_le_bytes());
    out.extend_from_slice(&capacity.to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let mut header = [0; 40];
    header.copy_from_slice(&out);
    header
}

pub(crate) fn decode_file_header(bytes: &[u8]) -> FileHeader {
    parse_file_header(bytes).unwrap_or(FileHeader::Bad)
}

fn parse_file_header(bytes: &[u8]) -> Option<FileHeader> {
    let summed = bytes.get(..32)?;
    let crc = bytes.get(32..36)?.try_get_u32_le().ok()?;
    if !summed.starts_with(&MAGIC) || crc32c::crc32c(summed) != crc {
        return None;
    }
    let mut fields = summed.get(8..)?;
    let format = fields.try_get_u16_le().ok()?;
    if format > FORMAT {
        return Some(FileHeader::Newer { format });
    }
    fields.advance(6);
    let file = FileId(fields.try_get_u64_le().ok()?);
    let capacity = fields.try_get_u64_le().ok()?;
    Some(FileHeader::Valid { file, capacity })
}

pub(crate) fn encode_record_header(out: &mut Vec<u8>, file: FileId, header: &RecordHeader) {
    let start = out.len();
    let kind = if header.end { KIND_END } else { KIND_RECORD };
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&header.payload_crc.to_le_bytes());
    out.extend_from_slice(&header.len.to_le_bytes());
    out.extend_from_slice(&[RECORD_VERSION, kind, 0, 0]);
    out.extend_from_slice(&file.0.to_le_bytes());
    out.extend_from_slice(&header.index.to_le_bytes());
    out.extend_from_slice(&header.stream.0.to_le_bytes());
    out.extend_from_slice(&header.synced.to_le_bytes());
    let crc = crc32c::crc32c(out.get(start + 4..).unwrap_or_default());
    if let Some(field) = out.get_mut(start..start + 4) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
}

/// The header, if these bytes are one of this file's generation.
pub(crate) fn decode_record_header(bytes: &[u8], file: FileId) -> Option<RecordHeader> {
    let bytes = bytes.get(..RECORD_HEADER_BYTES as usize)?;
    // The generation first: it is the cheapest way to tell a stale record.
    if bytes.get(16..24)?.try_get_u64_le().ok()? != file.0 {
        return None;
    }
    let mut fields = bytes;
    let crc = fields.try_get_u32_le().ok()?;
    if crc32c::crc32c(fields) != crc {
        return None;
    }
    let payload_crc = fields.try_get_u32_le().ok()?;
    let len = fields.try_get_u32_le().ok()?;
    let version = fields.try_get_u8().ok()?;
    let kind = fields.try_get_u8().ok()?;
    if version != RECORD_VERSION || u64::from(len) > RECORD_BYTES_MAX {
        return None;
    }
    fields.advance(2 + 8);
    let index = fields.try_get_u64_le().ok()?;
    let stream = StreamId(fields.try_get_u32_le().ok()?);
    let synced = fields.try_get_u32_le().ok()?;
    let end = match kind {
        KIND_RECORD => false,
        KIND_END => true,
        _ => return None,
    };
    Some(RecordHeader {
        stream,
        index,
        len,
        payload_crc,
        synced,
        end,
    })
}

/// Bytes that a record takes in its file.
pub(crate) fn record_bytes(payload_bytes: u64) -> u64 {
    (RECORD_HEADER_BYTES + payload_bytes).next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: RecordHeader = RecordHeader {
        stream: StreamId(7),
        index: 1 << 40,
        len: 12,
        payload_crc: 0xDEAD_BEEF,
        synced: 40,
        end: false,
    };

    #[test]
    fn a_record_header_comes_back_as_it_went() {
        for header in [
            HEADER,
            RecordHeader {
                end: true,
                ..HEADER
            },
        ] {
            let mut bytes = Vec::new();
            encode_record_header(&mut bytes, FileId(9), &header);
            assert_eq!(bytes.len() as u64, RECORD_HEADER_BYTES);
            assert_eq!(decode_record_header(&bytes, FileId(9)), Some(header));
        }
    }

    #[test]
    fn a_header_of_another_generation_is_none_of_ours() {
        let mut bytes = Vec::new();
        encode_record_header(&mut bytes, FileId(9), &HEADER);
        assert_eq!(decode_record_header(&bytes, FileId(10)), None);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_seen() {
        let mut bytes = Vec::new();
        encode_record_header(&mut bytes, FileId(9), &HEADER);
        let file_header = encode_file_header(FileId(9), 1 << 26);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_record_header(&flipped, FileId(9)), None, "bit {bit}");
        }
        for bit in 0..36 * 8 {
            let mut flipped = file_header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_file_header(&flipped), FileHeader::Bad, "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut header = encode_file_header(FileId(1), 4096);
        header[8] = 2;
        let crc = crc32c::crc32c(&header[..32]);
        header[32..36].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode_file_header(&header), FileHeader::Newer { format: 2 });
    }

    #[test]
    fn records_begin_at_multiples_of_eight() {
        assert_eq!(record_bytes(0), 40);
        assert_eq!(record_bytes(1), 48);
        assert_eq!(record_bytes(8), 48);
    }
}
